package proc

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls of a sampler's tick. None waits for anything, and each takes a few
// microseconds: less than Go spends on preparing for a system call that may
// block, which wakes its monitor thread and others each time.

func pread(fd int, buf []byte, offset int64) (int, error) {
	if len(buf) == 0 {
		return 0, nil
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), uintptr(offset), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func readVectors(pid int, local []unix.Iovec, remote []unix.RemoteIovec) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(pid),
		uintptr(unsafe.Pointer(&local[0])), uintptr(len(local)),
		uintptr(unsafe.Pointer(&remote[0])), uintptr(len(remote)), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func clock(id int32) (ts unix.Timespec, err error) {
	_, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return ts, errno
	}
	return ts, nil
}

func setTimer(fd int, spec *unix.ItimerSpec) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(fd), 0, uintptr(unsafe.Pointer(spec)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// readyEvents polls an epoll.
func readyEvents(epoll int, events []unix.EpollEvent) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
