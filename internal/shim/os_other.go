//go:build !linux

package shim

import (
	"net"
	"os"
)

func peerOf(*net.UnixConn) (Peer, error) { return Peer{}, ErrUnsupported }

func readWithFiles(*net.UnixConn, []byte) (int, []*os.File, error) { return 0, nil, ErrUnsupported }

func checkProc(*os.File) error { return ErrUnsupported }

func checkShared(*os.File) (int64, error) { return 0, ErrUnsupported }

func isTemporary(error) bool { return false }

func ownerOf(os.FileInfo) (int, error) { return 0, ErrUnsupported }
