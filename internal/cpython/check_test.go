//go:build linux

package cpython

import (
	"errors"
	"testing"
)

// TestOtherLayouts reads an interpreter by layouts that have one field
// elsewhere, as in a release that moved it.
func TestOtherLayouts(t *testing.T) {
	withPython("parked.py", t, func(t *testing.T, p *python) {
		if _, err := p.out.ReadBytes('\n'); err != nil {
			t.Fatal(err)
		}
		r := p.open(t)
		right := *r.layout
		for name, field := range map[string]func(*layout) *uint64{
			"interpreters":     func(l *layout) *uint64 { l.interpretersHead += 8; return &l.interpretersHead },
			"threads":          func(l *layout) *uint64 { return &l.interpThreads },
			"modules":          func(l *layout) *uint64 { return &l.interpModules },
			"size of a str":    func(l *layout) *uint64 { return &l.str.otherData },
			"current frame":    currentFrame,
			"interpreter":      func(l *layout) *uint64 { return &l.thread.interp },
			"next thread":      func(l *layout) *uint64 { return &l.thread.next },
			"code of a frame":  func(l *layout) *uint64 { return &l.frame.code },
			"instruction":      func(l *layout) *uint64 { return &l.frame.instr },
			"bytecode":         func(l *layout) *uint64 { return &l.code.bytecode },
			"file name":        func(l *layout) *uint64 { return &l.code.fileName },
			"qualified name":   func(l *layout) *uint64 { return &l.code.qualName },
			"line table":       func(l *layout) *uint64 { return &l.code.lineTable },
			"length of a str":  func(l *layout) *uint64 { return &l.str.length },
			"text of a str":    func(l *layout) *uint64 { return &l.str.asciiData },
			"header of a dict": func(l *layout) *uint64 { return &l.dict.header },
		} {
			for _, delta := range []uint64{8, 16} {
				other := right
				if name == "header of a dict" && delta == 16 {
					continue // the size of an entry: one of them less
				}
				other.frame.size += delta // what is read of a frame
				*field(&other) += delta
				r.layout, r.codes = &other, map[uint64]*Code{}
				if err := r.check(); !errors.Is(err, ErrUnsupported) {
					t.Errorf("%s is %d bytes further: %v", name, delta, err)
				}
			}
		}
		r.layout, r.codes = &right, map[uint64]*Code{}
		if err := r.check(); err != nil {
			t.Error(err)
		}
	})
}

// currentFrame is the field of the thread state that leads to the frame.
func currentFrame(l *layout) *uint64 {
	if l.thread.current != 0 {
		return &l.thread.current
	}
	return &l.thread.cframe
}
