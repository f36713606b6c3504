package shim

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// handshakeTimeout bounds how long a peer may take to prove itself.
const handshakeTimeout = 2 * time.Second

// maxConns bounds the goroutines and descriptors that peers can make us hold.
const maxConns = 4096

// Server registers shims.
type Server struct {
	ln        *net.UnixListener
	token     string
	configure func(Hello, Peer) (map[string]any, error)
	log       *slog.Logger
	allowUIDs []int
}

// NewServer answers shims on ln. For each that proves itself, configure is
// asked what to answer; its error refuses the target, and the shim is told why.
// A root agent takes any peer with the token (a target may have dropped root
// since it got it); another takes its own uid and root, and allowUIDs besides.
func NewServer(ln *net.UnixListener, token string, configure func(Hello, Peer) (map[string]any, error), log *slog.Logger, allowUIDs ...int) *Server {
	return &Server{ln, token, configure, log, allowUIDs}
}

// Serve hands each registered target to handle, in a goroutine of its own, and
// closes the connection when handle returns. It returns when ctx ends or the
// listener fails, with every connection closed and every goroutine gone.
func (s *Server) Serve(ctx context.Context, handle func(*Conn)) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { s.ln.Close() })
	defer stop()

	slots := make(chan struct{}, maxConns)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := s.accept(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept a shim: %w", err)
		}
		running.Go(func() {
			defer func() { <-slots }()
			s.serve(ctx, conn, handle)
		})
	}
}

// accept waits out what passes by itself, such as a lack of descriptors.
func (s *Server) accept(ctx context.Context) (*net.UnixConn, error) {
	for {
		conn, err := s.ln.AcceptUnix()
		if err == nil || !isTemporary(err) {
			return conn, err
		}
		s.log.Warn("cannot accept a shim yet", "err", err)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *Server) serve(ctx context.Context, sock *net.UnixConn, handle func(*Conn)) {
	defer context.AfterFunc(ctx, func() { sock.Close() })()
	conn, err := s.handshake(sock)
	if err != nil {
		sock.Close()
		if ctx.Err() == nil {
			s.log.Warn("shim refused", "err", err)
		}
		return
	}
	defer conn.Close()
	handle(conn)
}

func (s *Server) handshake(sock *net.UnixConn) (_ *Conn, err error) {
	peer, err := peerOf(sock)
	if err != nil {
		return nil, fmt.Errorf("read the peer's credentials: %w", err)
	}
	if !s.allows(peer) {
		return nil, fmt.Errorf("uid %d of pid %d is not allowed", peer.UID, peer.PID)
	}
	if err := sock.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, err
	}
	body, files, err := receiveFrame(sock)
	if err != nil {
		return nil, fmt.Errorf("read the registration of pid %d: %w", peer.PID, err)
	}
	conn := &Conn{Peer: peer, sock: sock}
	if err := s.admit(conn, body, files); err != nil {
		closeAll(files...)
		// The peer may be gone; the reason matters to it alone.
		_ = conn.Send("error", map[string]any{"reason": err.Error()})
		return nil, fmt.Errorf("registration of pid %d: %w", peer.PID, err)
	}
	if err := sock.SetDeadline(time.Time{}); err != nil {
		conn.closeFiles()
		return nil, err
	}
	return conn, nil
}

// admit checks a registration, takes over its files and answers it.
func (s *Server) admit(conn *Conn, body []byte, files []*os.File) error {
	reg, err := decodeRegistration(body)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(reg.Token), []byte(s.token)) != 1 {
		return errors.New("wrong token")
	}
	if reg.ShimVersion != Version {
		return fmt.Errorf("the shim is version %q and the agent %q; start both from one spanflame", reg.ShimVersion, Version)
	}
	conn.Hello = reg.Hello
	config, err := s.configure(reg.Hello, conn.Peer)
	if err != nil {
		return err
	}
	if err := conn.adopt(reg.Files, files); err != nil {
		return err
	}
	// The shim reads the answer when it needs it. By now the target may be gone,
	// or another program by exec; what it sent is still worth having.
	_ = conn.Send("configure", config)
	return nil
}

func (s *Server) allows(peer Peer) bool {
	own := os.Geteuid()
	return own == 0 || peer.UID == own || peer.UID == 0 || slices.Contains(s.allowUIDs, peer.UID)
}
