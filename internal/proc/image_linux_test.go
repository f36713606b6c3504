package proc

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// addresses prints where symbols of the interpreter are, and its version.
const addresses = `
import ctypes, json, sys
names = ["_PyRuntime", "_Py_NoneStruct", "PyCode_Type", "Py_Version"]
print(json.dumps([{n: ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, n)) for n in names}, sys.hexversion]), flush=True)
sys.stdin.read()
`

// TestImageOfPython compares addresses of symbols, in a program linked
// statically or in a library, with what the process itself says.
func TestImageOfPython(t *testing.T) {
	tried := 0
	for _, path := range []string{os.Getenv("SPANFLAME_TEST_PYTHON"), "python3.11", "/usr/bin/python3.11"} {
		if path == "" || exec.Command(path, "-c", "import ctypes").Run() != nil {
			continue
		}
		tried++
		cmd := exec.Command(path, "-c", addresses)
		in, _ := cmd.StdinPipe()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
		line, err := bufio.NewReader(out).ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]uint64
		var version uint32
		if err := json.Unmarshal(line, &[]any{&want, &version}); err != nil {
			t.Fatal(err)
		}
		p, err := OpenProcess(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		image := imageWith(t, p, "_PyRuntime")
		defer image.Close()
		for name, addr := range want {
			if got, err := image.Symbol(name); err != nil || got != addr {
				t.Errorf("%s in %s: %#x, want %#x: %v", name, image.Path, got, addr, err)
			}
		}
		var hex [8]byte
		if err := image.ReadConst("Py_Version", hex[:]); err != nil || binary.LittleEndian.Uint32(hex[:]) != version {
			t.Errorf("version %x, want %x: %v", hex, version, err)
		}
		if _, err := image.Symbol("no_such_symbol"); !errors.Is(err, ErrNoSymbol) {
			t.Errorf("a symbol that is not there: %v", err)
		}
		if err := image.ReadConst("no_such_symbol", hex[:]); !errors.Is(err, ErrNoSymbol) {
			t.Errorf("a constant that is not there: %v", err)
		}
	}
	switch {
	case tried == 0 && os.Getenv("CI") != "":
		t.Fatal("no CPython 3.11 with ctypes found")
	case tried == 0:
		t.Skip("no CPython 3.11 with ctypes found")
	}
}

// imageWith returns the first mapped file that has a symbol.
func imageWith(t *testing.T, p *Process, symbol string) *Image {
	t.Helper()
	mappings, err := p.Mappings()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mappings {
		if !strings.Contains(filepath.Base(m.Path), "python") {
			continue
		}
		image, err := p.OpenImage(m)
		if err != nil {
			continue
		}
		if _, err := image.Symbol(symbol); err == nil {
			return image
		}
		image.Close()
	}
	t.Fatalf("no file with %s is mapped", symbol)
	return nil
}

// TestImageReplaced maps a file that is then replaced by another of its name,
// as an upgrade does.
func TestImageReplaced(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sleep")
	if err := os.WriteFile(path, program, 0o700); err != nil {
		t.Fatal(err)
	}
	p, _ := start(t, path, "100")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	mappings, err := p.Mappings()
	if err != nil {
		t.Fatal(err)
	}
	m := mappings[0]
	if m.Path != path+" (deleted)" {
		t.Fatalf("the first mapping is %+v", m)
	}
	f, err := p.openMapped(m)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got bytes.Buffer
	if _, err := got.ReadFrom(f); err != nil || !bytes.Equal(got.Bytes(), program) {
		t.Errorf("not the file that is mapped: %d bytes, %v", got.Len(), err)
	}
	// A pipe is not waited for.
	begin := time.Now()
	if _, err := p.OpenImage(Mapping{Path: path}); err == nil || time.Since(begin) > time.Second {
		t.Errorf("a pipe was opened: %v", err)
	}
	for _, path := range []string{"", "/", "/no/such/file", "[heap]", "//anon"} {
		if _, err := p.OpenImage(Mapping{Path: path}); err == nil {
			t.Errorf("%q was opened", path)
		}
	}
}

// small is a valid ELF file with one segment and a dynamic symbol, "name",
// at 0x2010.
func small() []byte {
	var b bytes.Buffer
	write := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	const symbols, strings, headers = 0x78, 0xa8, 0xc0
	write(elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: 0x40, Shoff: headers, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: 3, Shstrndx: 2,
	})
	write(elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 5, Off: 0, Vaddr: 0x2000, Filesz: 0xc0, Memsz: 0xc0, Align: 4096})
	write(elf.Sym64{})
	write(elf.Sym64{Name: 1, Info: 0x11, Shndx: 1, Value: 0x2010, Size: 8})
	b.WriteString("\x00name\x00" + string(make([]byte, headers-strings-6)))
	write(elf.Section64{})
	write(elf.Section64{Type: uint32(elf.SHT_DYNSYM), Off: symbols, Size: 48, Link: 2, Info: 1, Entsize: 24})
	write(elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: strings, Size: 6})
	return b.Bytes()
}

// imageOf reads a file that holds text.
func imageOf(t testing.TB, text []byte) (*Image, error) {
	t.Helper()
	fd, err := unix.MemfdCreate("image", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "image")
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	return readImage(f, Mapping{Start: 0x7f0000000000, End: 0x7f0000001000})
}

// TestImageMalformed holds that a bad file gives an error: any of its prefixes,
// and any of its bytes and words overwritten.
func TestImageMalformed(t *testing.T) {
	image, err := imageOf(t, small())
	if err != nil {
		t.Fatal(err)
	}
	if addr, err := image.Symbol("name"); err != nil || addr != 0x7f0000000010 {
		t.Fatalf("%#x, %v", addr, err)
	}
	tried := func(text []byte) {
		image, err := imageOf(t, text)
		if err != nil {
			return
		}
		_, _ = image.Symbol("name")
		_ = image.ReadConst("name", make([]byte, 8))
	}
	whole := small()
	for n := range whole {
		if _, err := imageOf(t, whole[:n]); err == nil {
			t.Errorf("the first %d bytes alone are an image", n)
		}
	}
	for at := range len(whole) - 8 {
		for _, value := range []uint64{0, 1, 0xff, 1 << 31, 1 << 62, 1<<64 - 1} {
			text := small()
			text[at] = byte(value)
			tried(text)
			binary.LittleEndian.PutUint64(text[at:], value)
			tried(text)
		}
	}
	// A file that is larger than it is on disk, and claims to be all symbols.
	text := small()
	section := text[0xc0+64:]
	binary.LittleEndian.PutUint64(section[32:], 1<<40)
	if _, err := imageOf(t, text); err == nil {
		t.Error("a terabyte of symbols was read")
	}
}

// FuzzImage holds that any file gives an image or an error.
func FuzzImage(f *testing.F) {
	f.Add(small())
	f.Fuzz(func(t *testing.T, text []byte) {
		image, err := imageOf(t, text)
		if err != nil {
			return
		}
		for name := range image.symbols {
			_, _ = image.Symbol(name)
			_ = image.ReadConst(name, make([]byte, 8))
		}
	})
}
