package launch

import (
	"os"
	"os/signal"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reapOrphans does what the first process of a container has to: it takes
// children that it did not start. ours are those it did; others wait for them.
func reapOrphans(ours ...int) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	for ; ; <-ended {
		for {
			var info unix.Siginfo
			err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
			pid := pidOf(&info)
			// One of ours is in the way only until it is waited for; what
			// ends after that brings us back.
			if err != nil || pid == 0 || slices.Contains(ours, pid) {
				break
			}
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// pidOf reads si_pid, the first field of the union that package unix leaves out.
func pidOf(info *unix.Siginfo) int {
	fields := (*[8]int32)(unsafe.Pointer(info))
	if unsafe.Sizeof(uintptr(0)) == 8 {
		return int(fields[4])
	}
	return int(fields[3])
}
