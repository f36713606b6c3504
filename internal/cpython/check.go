package cpython

import (
	"errors"
	"fmt"
	"time"

	"github.com/spanflame/spanflame/internal/proc"
)

const (
	// The interpreter may be changing what is looked at.
	checkTries = 20
	checkEvery = time.Millisecond
	// maxChecked bounds the threads of which one is looked at.
	maxChecked = 16
)

// check looks whether memory is laid out as it should be: a release, or a
// build, that moved a field must not be misread. Where no Python code runs yet,
// there is less to look at.
func (r *Reader) check() error {
	err := r.checkPublished()
	for try := 0; err == nil; try++ {
		failed := r.checkStructures()
		switch {
		case failed == nil:
			return nil
		case errors.Is(failed, proc.ErrGone), errors.Is(failed, proc.ErrDenied):
			return failed
		case try == checkTries:
			err = failed
		}
		time.Sleep(checkEvery)
	}
	if errors.Is(err, proc.ErrGone) || errors.Is(err, proc.ErrDenied) {
		return err
	}
	return fmt.Errorf("CPython %s is built in a way that is %w: %w", r.Image.Version, ErrUnsupported, err)
}

// checkPublished compares the layout with what the interpreter says of itself.
func (r *Reader) checkPublished() error {
	if r.layout.published == nil {
		return nil
	}
	const freeThreaded, words = 2, 73
	var own [8 * words]byte
	if err := r.mem.ReadAt(own[:], r.Image.Runtime); err != nil {
		return err
	}
	word := func(i int) uint64 { return le.Uint64(own[8*i:]) }
	switch {
	case string(own[:8]) != "xdebugpy":
		return errors.New("no _Py_DebugOffsets")
	case word(freeThreaded) != 0:
		return errors.New("it is free-threaded")
	}
	for i, offset := range r.layout.published(r.layout) {
		if word(i) != offset {
			return fmt.Errorf("offset %d of _Py_DebugOffsets is %d, not %d", i, word(i), offset)
		}
	}
	return nil
}

// checkStructures follows what every interpreter has: its threads, a frame, and
// a function of a module that is always there.
func (r *Reader) checkStructures() error {
	all, err := r.interpreters()
	if err != nil || len(all) == 0 {
		return err
	}
	if err := r.checkTypes(); err != nil {
		return err
	}
	modules, err := r.modules()
	if err != nil {
		return err
	}
	refs, err := r.Threads()
	if err != nil {
		return err
	}
	ran := false
	for _, ref := range refs[max(0, len(refs)-maxChecked):] {
		if ran, err = r.checkFrame(ref); ran {
			break
		}
	}
	switch {
	case err != nil && !ran:
		return err
	case len(refs) == 0 && modules != 0:
		return fmt.Errorf("no threads: %w", errMalformed)
	case !ran:
		return nil // it is starting, perhaps
	case modules == 0:
		return fmt.Errorf("no modules: %w", errMalformed)
	}
	return r.checkImport(modules)
}

// checkTypes compares the sizes of objects.
func (r *Reader) checkTypes() error {
	for typ, want := range map[uint64]uint64{
		r.Image.CodeType: r.layout.code.bytecode,
		r.Image.StrType:  r.layout.str.otherData + 8,
	} {
		if size, err := r.word(typ + r.layout.typ.basicSize); err != nil || size != want {
			return fmt.Errorf("an object has %d bytes, not %d: %w", size, want, errors.Join(err, errMalformed))
		}
	}
	return nil
}

// checkFrame looks at the current frame of a thread; it is not found where the
// thread runs no Python code.
func (r *Reader) checkFrame(ref ThreadRef) (found bool, err error) {
	l := r.layout
	w := walk{r: r}
	at := ref.addr + l.thread.current
	if l.thread.current == 0 {
		at = w.word(ref.addr+l.thread.cframe) + l.thread.cframeCurrent
	}
	frame := rawFrame{previous: w.word(at), trampoline: true}
	for range maxOutside {
		if w.err != nil || frame.previous == 0 || !frame.trampoline {
			break
		}
		frame = r.parseFrame(frame.previous, w.read(frame.previous, l.frame.size))
	}
	if w.err != nil || frame.trampoline {
		return false, w.err
	}
	code, err := r.load(frame.code)
	if err != nil {
		return false, fmt.Errorf("code of a frame: %w", err)
	}
	if begin := frame.code + l.code.bytecode; frame.instr+2 < begin || frame.instr >= begin+code.size {
		return false, fmt.Errorf("instruction of a frame: %w", errMalformed)
	}
	return true, nil
}

// checkImport looks at a function of the import system.
func (r *Reader) checkImport(modules uint64) error {
	const module, file, name = "_frozen_importlib", "<frozen importlib._bootstrap>", "_wrap"
	l := &r.layout.code
	w := walk{r: r}
	function := w.global(modules, module, name)
	if w.err != nil {
		return w.err
	}
	const words = 8 // in which PyFunctionObject has its code
	object := w.read(function, 8*words)
	for ; len(object) > 0 && w.err == nil; object = object[8:] {
		code := le.Uint64(object)
		if typ, err := r.word(code + objectType); err != nil || typ != r.Image.CodeType {
			continue
		}
		for _, text := range []struct {
			field uint64
			want  string
		}{{l.fileName, file}, {l.name, name}, {l.qualName, name}} {
			if got := w.str(w.word(code + text.field)); w.err != nil || got != text.want {
				return fmt.Errorf("%q is not %q: %w", got, text.want, errors.Join(w.err, errMalformed))
			}
		}
		table := w.word(w.word(code+l.lineTable) + objectType)
		if kind, err := r.cString(w.word(table + r.layout.typ.name)); w.err != nil || err != nil || kind != "bytes" {
			return fmt.Errorf("line table: %w", errors.Join(w.err, err, errMalformed))
		}
		return nil
	}
	return fmt.Errorf("%s has no code: %w", name, errors.Join(w.err, errMalformed))
}
