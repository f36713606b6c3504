//go:build linux

package shim

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// dial connects to a as a shim would.
func dial(t *testing.T, a *agent) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: "@" + a.name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func register(t *testing.T, a *agent, fields map[string]any, files ...*os.File) (reply string) {
	t.Helper()
	message := map[string]any{"type": "register", "version": Version, "token": a.token, "files": []string{}}
	for key, value := range fields {
		message[key] = value
	}
	body, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, a)
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	frame := append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
	if _, _, err := conn.WriteMsgUnix(frame, unix.UnixRights(fds...), nil); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		t.Fatalf("no reply: %v", err)
	}
	answer := make([]byte, binary.LittleEndian.Uint32(head))
	if _, err := io.ReadFull(conn, answer); err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func memfd(t *testing.T, size int64, seals int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestRegistrationRefused(t *testing.T) {
	a := startAgent(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	unsealed, blank, empty := memfd(t, 8192, 0), memfd(t, 8192, 6), memfd(t, 0, 6)
	before := openFiles(t)
	for _, test := range []struct {
		name   string
		fields map[string]any
		files  []*os.File
		reason string // empty: accepted
	}{
		{"as it should be", map[string]any{"files": []string{"mem"}}, []*os.File{mem}, ""},
		{"token", map[string]any{"token": "guess"}, nil, "wrong token"},
		{"version", map[string]any{"version": "9", "python": "changed"}, nil, "version"},
		{"type", map[string]any{"type": "otel"}, nil, "not a registration"},
		{"fields", map[string]any{"python": "3.11"}, nil, "decode"},
		{"missing file", map[string]any{"files": []string{"mem"}}, nil, "1 files announced"},
		{"extra files", nil, []*os.File{mem, mem, mem, mem, mem, mem, mem, mem, mem, mem, mem, mem}, "received"},
		{"unknown file", map[string]any{"files": []string{"x"}}, []*os.File{mem}, "unknown"},
		{"file twice", map[string]any{"files": []string{"mem", "mem"}}, []*os.File{mem, mem}, "twice"},
		{"no procfs", map[string]any{"files": []string{"mem"}}, []*os.File{null}, "procfs"},
		{"no shared memory", map[string]any{"files": []string{"ring"}}, []*os.File{null}, "not a regular file"},
		{"unsealed", map[string]any{"files": []string{"ring"}}, []*os.File{unsealed}, "sealed"},
		{"empty ring", map[string]any{"files": []string{"ring"}}, []*os.File{blank}, "magic"},
		{"no ring", map[string]any{"files": []string{"ring"}}, []*os.File{empty}, "header"},
	} {
		t.Run(test.name, func(t *testing.T) {
			reply := register(t, a, test.fields, test.files...)
			if accepted := strings.Contains(reply, `"configure"`); accepted != (test.reason == "") || !strings.Contains(reply, test.reason) {
				t.Errorf("reply %s", reply)
			}
		})
	}
	for range 100 { // what was refused is closed
		if openFiles(t) <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d files open, before %d", openFiles(t), before)
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Where there is no memfd the ring is an unlinked file on tmpfs, which takes no
// seals: truncated under our hands it must not hurt.
func TestRingWithoutMemfd(t *testing.T) {
	f, err := os.CreateTemp("/dev/shm", "shim-test-")
	if err != nil {
		t.Skip(err)
	}
	defer os.Remove(f.Name())
	w := newTestRing(64)
	w.write("a")
	if _, err := f.Write(w.memory); err != nil {
		t.Fatal(err)
	}
	if _, err := openRing(f); err == nil {
		t.Error("took a file that others can open")
	}
	os.Remove(f.Name())
	ring, err := openRing(f)
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	wantDrain(t, ring, 0, "a")
	var position [8]byte
	if _, err := f.ReadAt(position[:], positionOffset); err != nil || position[0] != 1 {
		t.Errorf("position %v, %v", position, err)
	}
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	wantDrain(t, ring, 0)
}

// Silent and slow clients hold nobody, and not for long.
func TestSlowClient(t *testing.T) {
	a := startAgent(t)
	silent, half := dial(t, a), dial(t, a)
	if _, err := half.Write([]byte{200, 0, 0, 0, '{'}); err != nil {
		t.Fatal(err)
	}
	if reply := register(t, a, nil); !strings.Contains(reply, "configure") {
		t.Errorf("reply %s", reply)
	}
	for _, conn := range []*net.UnixConn{silent, half} {
		if err := conn.SetReadDeadline(time.Now().Add(2 * handshakeTimeout)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("the agent holds on: %v", err)
		}
	}
	huge := dial(t, a)
	if _, err := huge.Write([]byte{255, 255, 255, 255}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, huge); err != nil {
		t.Errorf("huge message: %v", err)
	}
}

func TestHandedOverListener(t *testing.T) {
	_, _, ln, err := NewEndpoint()
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	f, err := ListenerFile(ln)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	again, err := FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Addr().String() != ln.Addr().String() {
		t.Errorf("listens on %s, want %s", again.Addr(), ln.Addr())
	}
	if _, err := FileListener(os.Stdin); err == nil {
		t.Error("took something else for a listener")
	}
}
