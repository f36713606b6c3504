package proc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// self opens our own memory, once as it is and once without reading several
// ranges in one call.
func self(t *testing.T) map[string]*Memory {
	t.Helper()
	direct, err := OpenMemory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*Memory{"one call": direct, "the file": NewMemory(0, file)}
	t.Cleanup(func() {
		for _, m := range all {
			m.Close()
		}
	})
	return all
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }

// unmapped is below what the kernel lets anybody map.
const unmapped = 16

const pageSize = 4096

func TestMemory(t *testing.T) {
	source := make([]byte, 1<<20)
	for i := range source {
		source[i] = byte(rand.Uint32())
	}
	for name, m := range self(t) {
		t.Run(name, func(t *testing.T) {
			for _, count := range []int{0, 1, 2, maxVector - 1, maxVector, maxVector + 1, 3*maxVector + 7} {
				ranges := make([]Range, count)
				for i := range ranges {
					at := uint64(rand.IntN(len(source) - 100))
					// Some are empty.
					ranges[i] = Range{addressOf(source) + at, make([]byte, rand.IntN(100)/10*rand.IntN(10))}
				}
				if n, err := m.Read(ranges); n != count || err != nil {
					t.Fatalf("%d of %d: %v", n, count, err)
				}
				for i, r := range ranges {
					if !bytes.Equal(r.Buf, source[r.Addr-addressOf(source):][:len(r.Buf)]) {
						t.Errorf("range %d of %d is wrong", i, count)
					}
				}
			}
			if m.Direct() != (name == "one call") {
				t.Errorf("direct: %t", m.Direct())
			}
			whole := make([]byte, len(source))
			if err := m.ReadAt(whole, addressOf(source)); err != nil || !bytes.Equal(whole, source) {
				t.Errorf("a megabyte: %v", err)
			}
			if err := m.ReadAt(nil, unmapped); err != nil {
				t.Errorf("nothing at all: %v", err)
			}
		})
	}
}

// TestMemoryEnds reads what is not there, at any position among what is.
func TestMemoryEnds(t *testing.T) {
	// The second of three pages is given back.
	pages, err := unix.Mmap(-1, 0, 3*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Madvise(pages, unix.MADV_NOHUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
		t.Fatal(err)
	}
	pages[0], pages[2*pageSize] = 1, 3
	hole := addressOf(pages) + pageSize
	if err := unix.MunmapPtr(unsafe.Add(unsafe.Pointer(&pages[0]), pageSize), pageSize); err != nil {
		t.Fatal(err)
	}
	good := []byte("good")
	for name, m := range self(t) {
		t.Run(name, func(t *testing.T) {
			for _, bad := range []uint64{unmapped, 0, hole, hole - 2, 1 << 47, 1 << 63, 1<<64 - 8} {
				for _, at := range []int{0, 1, 5, maxVector - 1, maxVector, maxVector + 3} {
					ranges := make([]Range, maxVector+5)
					for i := range ranges {
						ranges[i] = Range{addressOf(good), make([]byte, len(good))}
					}
					ranges[at].Addr = bad
					if at > 0 {
						ranges[at-1].Buf = nil
					}
					n, err := m.Read(ranges)
					if n != at || err == nil || errors.Is(err, ErrGone) || errors.Is(err, ErrDenied) {
						t.Errorf("%#x as range %d: stopped at %d: %v", bad, at, n, err)
					}
					for i, r := range ranges[:min(n, at)] {
						if r.Buf != nil && string(r.Buf) != "good" {
							t.Errorf("range %d before %d is %q", i, at, r.Buf)
						}
					}
				}
				if err := m.ReadAt(make([]byte, 4), bad); err == nil || errors.Is(err, ErrGone) {
					t.Errorf("%#x: %v", bad, err)
				}
			}
		})
	}
}

// TestMemoryOfAnotherProgram opens a process's memory and lets it run another
// program: the same process, but what was opened is gone.
func TestMemoryOfAnotherProgram(t *testing.T) {
	cmd := exec.Command("sh", "-c", "echo; read x; exec sleep 100")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	p, err := OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m, err := OpenMemory(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	mappings, err := p.Mappings()
	if err != nil || len(mappings) == 0 {
		t.Fatal(err)
	}
	magic, ranges := make([]byte, 4), []Range{{mappings[0].Start, make([]byte, 4)}}
	if err := m.ReadAt(magic, mappings[0].Start); err != nil || string(magic) != "\x7fELF" {
		t.Fatalf("%q, %v", magic, err)
	}
	if n, err := m.Read(ranges); n != 1 || err != nil || string(ranges[0].Buf) != "\x7fELF" {
		t.Fatalf("%q, %v", ranges[0].Buf, err)
	}
	fmt.Fprintln(in)
	eventually(t, "another program", func() bool { return errors.Is(m.ReadAt(magic, mappings[0].Start), ErrGone) })
	if p.Gone() {
		t.Error("the process itself is gone")
	}
	_ = cmd.Process.Kill()
	eventually(t, "the end", p.Gone)
	if _, err := m.Read(ranges); !errors.Is(err, ErrGone) {
		t.Errorf("memory of a process that has ended: %v", err)
	}
}

// reader is set in a child of TestMemoryWithoutRights to what it has to read.
const reader = "SPANFLAME_TEST_READER"

// TestMemoryWithoutRights reads as another user through a descriptor that was
// handed over.
func TestMemoryWithoutRights(t *testing.T) {
	if text := os.Getenv(reader); text != "" {
		readWithoutRights(t, text)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	p, _ := start(t, "sleep", "100")
	mappings, err := p.Mappings()
	if err != nil || len(mappings) == 0 {
		t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.PID))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestMemoryWithoutRights$", "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", reader, p.PID, mappings[0].Start))
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{mem}
	cmd.SysProcAttr = &unix.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

func readWithoutRights(t *testing.T, text string) {
	var pid int
	var addr uint64
	if _, err := fmt.Sscan(text, &pid, &addr); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenMemory(pid); !errors.Is(err, ErrDenied) {
		t.Errorf("opened with our own rights: %v, want ErrDenied", err)
	}
	m := NewMemory(pid, os.NewFile(3, "mem"))
	ranges := []Range{{addr, make([]byte, 4)}, {addr + 1, make([]byte, 3)}, {unmapped, make([]byte, 1)}}
	if n, err := m.Read(ranges); n != 2 || err == nil || errors.Is(err, ErrDenied) {
		t.Errorf("%d ranges, %v", n, err)
	}
	if string(ranges[0].Buf) != "\x7fELF" || string(ranges[1].Buf) != "ELF" || m.Direct() {
		t.Errorf("%q, %q, direct %t", ranges[0].Buf, ranges[1].Buf, m.Direct())
	}
	if _, err := m.Read(ranges[:2]); err != nil {
		t.Error(err)
	}
	p, err := OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Mappings(); !errors.Is(err, ErrDenied) {
		t.Errorf("mappings: %v, want ErrDenied", err)
	}
	if _, err := p.CPU(); err != nil {
		t.Errorf("CPU: %v", err) // anybody may read that
	}
	if p.Gone() {
		t.Error("gone")
	}
}
