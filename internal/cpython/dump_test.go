package cpython

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/gob"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/spanflame/spanflame/internal/proc"
)

var update = flag.Bool("update", false, "record what testdata/dump-3.*.gz hold anew (Linux, with OpenTelemetry)")

// dumpMinors are the versions 3.x of which there is a dump.
var dumpMinors = []int{11, 12, 13}

func dumpFile(minor int) string { return fmt.Sprintf("testdata/dump-3.%d.gz", minor) }

// dump is what a session read of a target's memory, and the session's outcome.
// It is a Memory, which needs no target. It allows so many bytes to be read.
type dump struct {
	Image  Image
	Truth  outcome
	Blocks []block // by address, apart from each other
	left   int
}

// block is a piece of memory.
type block struct {
	Addr uint64
	Data []byte
}

// outcome is what a session came to, for every thread by its name.
type outcome map[string]seen

type seen struct {
	Stack []call
	Link  string
	Root  string // name of the local root
	Main  bool
}

type call struct {
	Function, File  string
	Line, FirstLine int32
}

// calls resolves a sampled stack.
func calls(frames []Frame) []call {
	var all []call
	for _, f := range frames {
		all = append(all, call{f.Code.Function, f.Code.File, f.Code.Line(f.Offset), f.Code.FirstLine})
	}
	return all
}

// session reads all that there is: threads, names, stacks, spans.
func session(mem Memory, image Image) (outcome, error) {
	r, err := newReader(mem, image)
	if err != nil {
		return nil, err
	}
	otel, err := r.FindOtel()
	if err == nil {
		err = r.SetOtel(otel)
	}
	if err != nil {
		return nil, err
	}
	refs, err := r.Threads()
	if err != nil {
		return nil, err
	}
	if _, err := r.Generation(); err != nil {
		return nil, err
	}
	names, err := r.ThreadNames(func(uint64) bool { return true })
	if err != nil {
		return nil, err
	}
	all := outcome{}
	for _, ref := range refs {
		thread := r.Thread(ref)
		for range 3 {
			err = thread.Sample()
		}
		if err != nil {
			return nil, err
		}
		s := seen{Stack: calls(thread.Frames), Main: ref.Main}
		if !thread.Span.Link.IsZero() && !thread.SpanEnded() {
			s.Link = fmt.Sprintf("%x", thread.Span.Link)
			s.Root = thread.Span.RootName
		}
		all[names[ref.Ident]] = s
	}
	return all, nil
}

// errUnmapped is what a dump says of memory that it does not hold.
var errUnmapped = errors.New("bad address")

func (d *dump) ReadAt(buf []byte, addr uint64) error {
	if d.left -= len(buf) + 64; d.left < 0 {
		panic("read more than a target can make us read")
	}
	i, ok := slices.BinarySearchFunc(d.Blocks, addr, func(b block, addr uint64) int { return cmp.Compare(b.Addr, addr) })
	if !ok {
		i--
	}
	if i < 0 || addr-d.Blocks[i].Addr > uint64(len(d.Blocks[i].Data)) {
		return errUnmapped
	}
	if n := copy(buf, d.Blocks[i].Data[addr-d.Blocks[i].Addr:]); n < len(buf) {
		return errUnmapped
	}
	return nil
}

func (d *dump) Read(ranges []proc.Range) (int, error) {
	for i, r := range ranges {
		if err := d.ReadAt(r.Buf, r.Addr); err != nil {
			return i, err
		}
	}
	return len(ranges), nil
}

// recorder is a Memory that keeps what is read through it.
type recorder struct {
	Memory
	blocks []block
}

func (r *recorder) ReadAt(buf []byte, addr uint64) error {
	err := r.Memory.ReadAt(buf, addr)
	if err == nil {
		r.blocks = append(r.blocks, block{addr, bytes.Clone(buf)})
	}
	return err
}

func (r *recorder) Read(ranges []proc.Range) (int, error) {
	n, err := r.Memory.Read(ranges)
	for _, read := range ranges[:n] {
		r.blocks = append(r.blocks, block{read.Addr, bytes.Clone(read.Buf)})
	}
	return n, err
}

// merged returns what was read as blocks that do not touch.
func (r *recorder) merged() []block {
	slices.SortStableFunc(r.blocks, func(a, b block) int { return cmp.Compare(a.Addr, b.Addr) })
	var all []block
	for _, b := range r.blocks {
		if len(b.Data) == 0 {
			continue
		}
		if n := len(all); n > 0 {
			last := &all[n-1]
			if end := last.Addr + uint64(len(last.Data)); b.Addr <= end {
				if skip := end - b.Addr; skip < uint64(len(b.Data)) {
					last.Data = append(last.Data, b.Data[skip:]...)
				}
				continue
			}
		}
		all = append(all, b)
	}
	return all
}

func (d *dump) write(t *testing.T) {
	t.Helper()
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err := gob.NewEncoder(z).Encode(d); err != nil {
		t.Fatal(err)
	}
	z.Close()
	if err := os.WriteFile(dumpFile(d.Image.Version[1]), out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// dumps holds each recorded dump, read once.
var dumps sync.Map

func readDump(minor int) (*dump, error) {
	if d, ok := dumps.Load(minor); ok {
		return d.(*dump), nil
	}
	f, err := os.Open(dumpFile(minor))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	var d dump
	if err := gob.NewDecoder(z).Decode(&d); err != nil {
		return nil, err
	}
	dumps.Store(minor, &d)
	return &d, nil
}

// openDump returns a copy of a dump that may be changed.
func openDump(t testing.TB, minor, budget int) *dump {
	t.Helper()
	d, err := readDump(minor)
	if err != nil {
		t.Fatal(err)
	}
	c := &dump{Image: d.Image, Truth: d.Truth, left: budget}
	for _, b := range d.Blocks {
		c.Blocks = append(c.Blocks, block{b.Addr, bytes.Clone(b.Data)})
	}
	return c
}

// word is the 8 bytes at an address, to be read and overwritten; nil where the
// dump holds none.
func (d *dump) word(addr uint64) []byte {
	for _, b := range d.Blocks {
		if addr >= b.Addr && addr+8 <= b.Addr+uint64(len(b.Data)) {
			return b.Data[addr-b.Addr:][:8]
		}
	}
	return nil
}
