package launch

import (
	"bytes"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// witness is a process in our process group, session and control group that
// blocks every signal. A signal that is pending there was sent to more than
// us, and so the command has it too. The kernel marks it pending in all
// members before kill(2) returns, so that no scheduling matters.
//
// It is a fork of ours without exec, which makes nothing but raw system calls
// and has neither our memory to write to nor our descriptors.
type witness struct {
	pid  int
	conn *os.File // send a signal's number, and it takes that signal
}

// startWitness returns nil where it fails: we guess then.
func startWitness() *witness {
	// The /proc of another pid namespace would show another process.
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	theirs := pair[1]
	defer unix.Close(theirs)
	conn := os.NewFile(uintptr(pair[0]), "witness")
	if err := unix.SetNonblock(theirs, false); err != nil {
		conn.Close()
		return nil
	}

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	all, old := unix.Sigset_t{}, unix.Sigset_t{}
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old); err != nil {
		conn.Close()
		return nil
	}
	pid, errno := forkWitness(uintptr(theirs))
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	if errno != 0 {
		conn.Close()
		return nil
	}
	return &witness{int(pid), conn}
}

// forkWitness is called with all signals blocked, which the child inherits.
// Nothing in the child may need the Go runtime: it has one thread and no
// signal that would let the stack grow or move.
//
//go:nosplit
//go:norace
//go:noinline
func forkWitness(conn uintptr) (uintptr, syscall.Errno) {
	const null = 0
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), null, null, null, null, null)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	syscall.RawSyscall(syscall.SYS_DUP3, conn, 0, 0)
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 1, uintptr(^uint32(0)), 0)
	name := [...]byte{'s', 'f', ' ', 'w', 'i', 't', 'n', 'e', 's', 's', 0}
	syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0)
	var (
		number byte
		now    [2]int64
		set    uint64
	)
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, 0, uintptr(unsafe.Pointer(&number)), 1)
		if errno == syscall.EINTR {
			continue
		}
		if n != 1 {
			break // the front is gone
		}
		set = 1 << ((number - 1) & 63)
		syscall.RawSyscall6(syscall.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), null,
			uintptr(unsafe.Pointer(&now)), unsafe.Sizeof(set), null, null)
		syscall.RawSyscall(syscall.SYS_WRITE, 0, uintptr(unsafe.Pointer(&number)), 1)
	}
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// took tells whether the witness got the signal too, and forgets that it did.
// It knows nothing if it is not alive.
func (w *witness) took(sig os.Signal) (took, alive bool) {
	if w == nil {
		return false, false
	}
	pending, ok := statusBits(w.pid, "ShdPnd")
	number := sig.(syscall.Signal)
	if !ok || pending>>(number-1)&1 == 0 {
		return false, ok
	}
	// While stopped it does not answer; it will, once continued.
	_ = w.conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := w.conn.Write([]byte{byte(number)}); err == nil {
		_, _ = w.conn.Read(make([]byte, 1))
	}
	return true, true
}

func (w *witness) id() int {
	if w == nil {
		return 0
	}
	return w.pid
}

func (w *witness) close() {
	if w == nil {
		return
	}
	w.conn.Close()
	_ = unix.Kill(w.pid, unix.SIGKILL)
	_, _ = unix.Wait4(w.pid, nil, 0, nil)
}

// statusBits reads a set of signals from /proc/PID/status. A zombie has none.
func statusBits(pid int, name string) (bits uint64, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil || bytes.Contains(data, []byte("\nState:\tZ")) {
		return 0, false
	}
	_, rest, ok := bytes.Cut(data, []byte("\n"+name+":\t"))
	if !ok {
		return 0, false
	}
	text, _, _ := bytes.Cut(rest, []byte("\n"))
	bits, err = strconv.ParseUint(string(text), 16, 64)
	return bits, err == nil
}

// ignore makes the signals ignored, here and in programs started from here.
// An empty list is none: signal.Ignore would take it for all.
func ignore(list []os.Signal) {
	if len(list) > 0 {
		signal.Ignore(list...)
	}
}
