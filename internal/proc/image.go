package proc

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Image is a program or library that a process has mapped, with the addresses
// its symbols have there.
type Image struct {
	Path    string
	bias    uint64
	symbols map[string]elf.Symbol
	file    *elf.File
	closer  io.Closer
}

// ErrNoSymbol means that an image does not export a symbol.
var ErrNoSymbol = errors.New("no such symbol")

const (
	pageMask = 0xfff
	deleted  = " (deleted)" // what /proc adds to a path
	// maxSymbols bounds what is read of a file, whose sections may lie about it:
	// files can be larger than what they take on disk.
	maxSymbols = 256 << 20
)

// OpenImage reads the dynamic symbols of the file behind a mapping of the
// process; of its static symbols only where there are no dynamic ones.
func (p *Process) OpenImage(m Mapping) (*Image, error) {
	f, err := p.openMapped(m)
	if err != nil {
		return nil, err
	}
	image, err := readImage(f, m)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("read symbols of %s: %w", m.Path, err)
	}
	return image, nil
}

// openMapped opens a file as the process sees it: its executable by the magic
// link, others through the process's root where we may, else by the same path.
// What was deleted is had by the kernel's own links only: another version may
// have taken its path since.
func (p *Process) openMapped(m Mapping) (*os.File, error) {
	own := fmt.Sprintf("/proc/%d", p.PID)
	candidates := []string{fmt.Sprintf("%s/map_files/%x-%x", own, m.Start, m.End)}
	if !strings.HasSuffix(m.Path, deleted) {
		candidates = append([]string{filepath.Join(own, "root", m.Path), m.Path}, candidates...)
	}
	if exe, err := p.Link("exe"); err == nil && exe == m.Path {
		candidates = append([]string{own + "/exe"}, candidates...)
	}
	var errs []error
	for _, name := range candidates {
		// A path may lead to a pipe by now, on which opening would wait.
		f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
				return f, nil
			}
			f.Close()
			err = errors.New("not a regular file")
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func readImage(f *os.File, m Mapping) (*Image, error) {
	// debug/elf is written against hostile files, but not against all of them.
	image := &Image{Path: m.Path, closer: f}
	err := guarded(func() error {
		file, err := elf.NewFile(f)
		if err != nil {
			return err
		}
		image.file = file
		for _, s := range file.Sections {
			symbols := s.Type == elf.SHT_DYNSYM || s.Type == elf.SHT_SYMTAB || s.Type == elf.SHT_STRTAB
			if symbols && (s.Size > maxSymbols || s.Flags&elf.SHF_COMPRESSED != 0) {
				return fmt.Errorf("section %s of %d bytes", s.Name, s.Size)
			}
		}
		symbols, err := file.DynamicSymbols()
		if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
			return err
		}
		if len(symbols) == 0 {
			if symbols, err = file.Symbols(); err != nil {
				return err
			}
		}
		image.symbols = make(map[string]elf.Symbol, len(symbols))
		for _, s := range symbols {
			if s.Section != elf.SHN_UNDEF {
				image.symbols[s.Name] = s
			}
		}
		return image.locate(m)
	})
	return image, err
}

// locate computes what to add to the file's addresses.
func (i *Image) locate(m Mapping) error {
	for _, p := range i.file.Progs {
		if p.Type == elf.PT_LOAD && p.Off&^pageMask == m.Offset {
			i.bias = m.Start - p.Vaddr&^pageMask
			return nil
		}
	}
	return errors.New("the mapping is no segment of the file")
}

// Close closes the file.
func (i *Image) Close() error { return i.closer.Close() }

// Symbol returns the address of a symbol in the process: [ErrNoSymbol].
func (i *Image) Symbol(name string) (uint64, error) {
	s, ok := i.symbols[name]
	if !ok {
		return 0, fmt.Errorf("%s in %s: %w", name, i.Path, ErrNoSymbol)
	}
	return s.Value + i.bias, nil
}

// ReadConst fills buf with what the file holds at a symbol: [ErrNoSymbol].
func (i *Image) ReadConst(name string, buf []byte) error {
	s, ok := i.symbols[name]
	if !ok {
		return fmt.Errorf("%s in %s: %w", name, i.Path, ErrNoSymbol)
	}
	for _, p := range i.file.Progs {
		if p.Type == elf.PT_LOAD && s.Value >= p.Vaddr && s.Value-p.Vaddr < p.Filesz {
			_, err := p.ReadAt(buf, int64(s.Value-p.Vaddr))
			return err
		}
	}
	return fmt.Errorf("%s in %s: not in the file", name, i.Path)
}

func guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("malformed: %v", r)
		}
	}()
	return f()
}
