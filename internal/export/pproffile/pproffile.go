// Package pproffile writes profiles to pprof files.
package pproffile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/spanflame/spanflame/internal/encode/pprof"
	"github.com/spanflame/spanflame/internal/export"
	"github.com/spanflame/spanflame/profile"
)

// maxFiles bounds what Files remembers.
const maxFiles = 1000

// Exporter writes PREFIX.PID.N.pprof, readable by the user only, with N from 1
// for each process. It is an [export.Exporter]; the methods that it has besides
// may be called from any goroutine.
type Exporter struct {
	prefix string
	next   map[int]int // by PID, the number that was free last

	mu    sync.Mutex
	files []string
	count int
}

var _ export.Exporter = (*Exporter)(nil)

// New returns an Exporter. A prefix that ends in a slash names a directory, in
// which the files begin with "spanflame". The directory is made with the first
// file if it is missing, for the user only.
func New(prefix string) *Exporter {
	if prefix == "" || os.IsPathSeparator(prefix[len(prefix)-1]) {
		prefix += "spanflame"
	}
	return &Exporter{prefix: prefix, next: map[int]int{}}
}

// Name is "pprof".
func (e *Exporter) Name() string { return "pprof" }

// Shutdown does nothing.
func (e *Exporter) Shutdown(context.Context) error { return nil }

// Files returns the paths of the files written, oldest first: the last 1000 of
// them.
func (e *Exporter) Files() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.files)
}

// Count returns the number of files written.
func (e *Exporter) Count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.count
}

// Export writes p to the next file of its process. A file appears under its
// name when it is whole, and never takes the place of another one.
func (e *Exporter) Export(_ context.Context, p *profile.Profile) error {
	path, err := e.write(p)
	if err != nil {
		return describe(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	if len(e.files) == maxFiles {
		e.files = slices.Delete(e.files, 0, 1)
	}
	e.files = append(e.files, path)
	return nil
}

// Check makes the directory and reports whether a file can be made in it: an
// error that says so before hours of profiling is worth more.
func (e *Exporter) Check() error {
	temporary, err := e.temporary()
	if err != nil {
		return describe(err)
	}
	_ = temporary.Close()
	return os.Remove(temporary.Name())
}

func (e *Exporter) temporary() (*os.File, error) {
	dir, base := filepath.Split(e.prefix)
	dir = filepath.Clean(dir) // "." for none: to CreateTemp that is the directory for temporary files
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// The name is hidden and no *.pprof: nobody takes half a file for a whole.
	return os.CreateTemp(dir, "."+base+".*.tmp") // mode 0600
}

func (e *Exporter) write(p *profile.Profile) (path string, err error) {
	temporary, err := e.temporary()
	if err != nil {
		return "", err
	}
	defer func() {
		_ = temporary.Close()
		_ = os.Remove(temporary.Name()) // gone by then if all went well
	}()
	if err := pprof.Encode(temporary, p); err != nil {
		return "", err
	}
	if err := temporary.Close(); err != nil {
		return "", err
	}
	for n := max(e.next[p.PID], 1); ; n++ {
		path := fmt.Sprintf("%s.%d.%d.pprof", e.prefix, p.PID, n)
		err := move(temporary.Name(), path)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		e.next[p.PID] = n + 1
		return path, nil
	}
}

// move renames a file unless the new name is taken, which a plain rename would
// not notice.
func move(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err // the caller removes from
	}
	// A file system without hard links: reserve the name first.
	reserved, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_ = reserved.Close()
	if err := os.Rename(from, to); err != nil {
		_ = os.Remove(to)
		return err
	}
	return nil
}

// describe says what the user can do, and whether trying again may help.
func describe(err error) error {
	e := &export.Error{Op: "write pprof file", Err: err}
	for _, passing := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.EINTR, syscall.EAGAIN} {
		e.Retryable = e.Retryable || errors.Is(err, passing)
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Hint = "make room there, or write elsewhere with --pprof-path PREFIX"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		e.Hint = "name a place that can be written with --pprof-path PREFIX"
	}
	return e
}
