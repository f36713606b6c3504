package launch

import (
	"os"
	"os/signal"
	"reflect"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ignoredAtStart are the signals that this program was started with as
// ignored: by nohup (HUP), by a shell's & without job control (INT, QUIT), by
// systemd (PIPE). The command shall ignore them too.
//
// The Go runtime leaves only HUP and INT ignored and puts its own handlers in
// the place of the others before any of our code runs (runtime.initsig). It
// remembers what it found in a variable, though, and that we look for.
var ignoredAtStart = sync.OnceValue(func() []os.Signal {
	ignored, _ := statusBits(os.Getpid(), "SigIgn")
	found, err := rememberedByRuntime()
	if err == nil {
		for n, disposition := range found {
			if disposition == sigIgn {
				ignored |= 1 << (n - 1)
			}
		}
	}
	var list []os.Signal
	for n := 1; n <= 64; n++ {
		sig := syscall.Signal(n)
		// With SIGCHLD ignored, the kernel would keep no exit code for us.
		if sig != syscall.SIGCHLD && (ignored>>(n-1)&1 == 1 || signal.Ignored(sig)) {
			list = append(list, sig)
		}
	}
	return list
})

const (
	sigIgn      = 1  // SIG_IGN
	signalCount = 65 // _NSIG of the runtime, numbered from 0
)

// sigaction is the kernel's struct, up to the mask. Where it has no restorer
// (arm64), the mask comes earlier; both are only carried around.
type sigaction struct {
	handler uintptr
	rest    [3]uint64
}

// nothing is a signal handler. It also marks a place in memory by its address.
//
//go:nosplit
//go:norace
//go:noinline
func nothing() {}

// rememberedByRuntime reads runtime.fwdSig, which has no name that we could
// use. signal.Notify for a signal that the runtime had not caught before
// stores its disposition there (runtime.sigenable): a handler that occurs
// nowhere else shows the place.
func rememberedByRuntime() ([signalCount]uint64, error) {
	const mark = unix.SIGTTIN // the runtime leaves it alone until asked
	var none [signalCount]uint64
	var old, marked sigaction
	if err := rtSigaction(mark, nil, &old); err != nil {
		return none, err
	}
	// Flags and restorer as the runtime has them.
	if err := rtSigaction(syscall.SIGUSR1, nil, &marked); err != nil {
		return none, err
	}
	marked.handler = uintptr(reflect.ValueOf(nothing).Pointer())
	if err := rtSigaction(mark, &marked, nil); err != nil {
		return none, err
	}
	unused := make(chan os.Signal, 1)
	signal.Notify(unused, mark)
	signal.Stop(unused)
	array, err := findArray(uint64(marked.handler), int(mark))
	if err != nil {
		return none, err
	}
	array[mark] = uint64(old.handler)
	return array, nil
}

func rtSigaction(sig syscall.Signal, set, old *sigaction) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
