package shim

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxFiles bounds the descriptors taken from one message; the kernel closes
// what does not fit.
const maxFiles = 8

func peerOf(sock *net.UnixConn) (Peer, error) {
	raw, err := sock.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return Peer{}, err
	}
	return Peer{PID: int(cred.Pid), UID: int(cred.Uid), GID: int(cred.Gid)}, nil
}

// readWithFiles is one read of data and the descriptors sent with it.
func readWithFiles(sock *net.UnixConn, data []byte) (int, []*os.File, error) {
	oob := make([]byte, unix.CmsgSpace(maxFiles*4))
	n, oobn, _, _, err := sock.ReadMsgUnix(data, oob) // sets MSG_CMSG_CLOEXEC
	if err != nil {
		return 0, nil, err
	}
	var files []*os.File
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	for _, message := range messages {
		fds, rightsErr := unix.ParseUnixRights(&message)
		if rightsErr != nil {
			continue // other ancillary data
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "shim"))
		}
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	return n, files, err
}

// checkProc makes sure that reading f cannot block or lie by design, as a file
// of a FUSE mount could.
func checkProc(f *os.File) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return err
	}
	if fs.Type != unix.PROC_SUPER_MAGIC {
		return errors.New("not on procfs")
	}
	return nil
}

// checkShared makes sure that f is a regular file of shared memory (memfd or
// tmpfs), which neither blocks nor costs I/O, and returns its size. Only there
// can seals be read. The file is never mapped, so a target that truncates it
// (an unsealed one) makes reads short instead of killing us by SIGBUS.
func checkShared(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("not a regular file but %s", info.Mode())
	}
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return 0, fmt.Errorf("not shared memory: %w", err)
	}
	const want = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	if stat, ok := info.Sys().(*syscall.Stat_t); seals&want != want && !(ok && stat.Nlink == 0 && seals == unix.F_SEAL_SEAL) {
		return 0, errors.New("neither sealed nor the unlinked file of a system without memfd")
	}
	return info.Size(), nil
}

func isTemporary(err error) bool {
	for _, errno := range []syscall.Errno{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.ECONNABORTED, unix.EINTR} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

func ownerOf(info os.FileInfo) (int, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("%s: no owner", info.Name())
	}
	return int(stat.Uid), nil
}
