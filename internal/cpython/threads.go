package cpython

import (
	"fmt"
	"slices"
)

// ThreadRef is one thread of one interpreter.
type ThreadRef struct {
	addr   uint64 // of its PyThreadState
	interp uint64
	gil    uint64 // where the GIL's holder is
	// Ident is what threading.get_ident returns in it.
	Ident uint64
	// NativeID is the kernel's thread id, in the target's pid namespace. After a
	// fork by other means than os.fork it may be that of the parent's thread.
	NativeID uint64
	// Main marks the thread that initialized the interpreter, the oldest.
	Main bool
}

// mainInterpreter returns the first interpreter that was made: the last of the
// list.
func (r *Reader) mainInterpreter() (uint64, error) {
	all, err := r.interpreters()
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("interpreter is not initialized: %w", errMalformed)
	}
	return all[len(all)-1], nil
}

func (r *Reader) interpreters() ([]uint64, error) {
	var all []uint64
	// Through ReadAt, which notices that the program was replaced by exec.
	var head [8]byte
	if err := r.mem.ReadAt(head[:], r.Image.Runtime+r.layout.interpretersHead); err != nil {
		return nil, err
	}
	for addr := le.Uint64(head[:]); addr != 0; {
		if len(all) == maxInterpreters || slices.Contains(all, addr) {
			return nil, fmt.Errorf("list of interpreters: %w", errMalformed)
		}
		all = append(all, addr)
		var err error
		if addr, err = r.word(addr + r.layout.interpNext); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Alive reports whether the interpreter is still there: its program has neither
// ended nor been replaced. It may be called beside other methods.
func (r *Reader) Alive() bool {
	var head [8]byte
	return r.mem.ReadAt(head[:], r.Image.Runtime+r.layout.interpretersHead) == nil
}

// Generation changes whenever a thread was added, and mostly when one ended:
// an interpreter counts those that it ever had, and those of the threading
// module that run. It fails with [proc.ErrGone] when the program has
// ended or was replaced.
func (r *Reader) Generation() (uint64, error) {
	all, err := r.interpreters()
	if err != nil {
		return 0, err
	}
	var sum uint64
	threads := make([]byte, r.layout.threadsSize)
	for _, interp := range all {
		if err := r.readInto(threads, interp+r.layout.interpThreads); err != nil {
			return 0, err
		}
		for word := range slices.Chunk(threads, 8) {
			sum = sum*31 + le.Uint64(word)
		}
	}
	return sum, nil
}

// Threads lists the threads of all interpreters. Of two thread states with one
// native id (a sub-interpreter that runs on a thread of the main one) both are
// listed.
func (r *Reader) Threads() ([]ThreadRef, error) {
	all, err := r.interpreters()
	if err != nil {
		return nil, err
	}
	var refs []ThreadRef
	seen := map[uint64]bool{}
	l := &r.layout.thread
	for i, interp := range all {
		addr, err := r.word(interp + r.layout.interpThreads + r.layout.threadsHead)
		if err != nil {
			return refs, err
		}
		from := len(refs)
		gil, err := r.gilOf(interp)
		if err != nil {
			return refs, err
		}
		for addr != 0 {
			if len(refs) == maxThreads || seen[addr] {
				return refs, fmt.Errorf("list of threads: %w", errMalformed)
			}
			seen[addr] = true
			state, err := r.read(addr, l.nativeID+8)
			if err != nil {
				return refs, err
			}
			if le.Uint64(state[l.interp:]) != interp {
				return refs, ErrTorn // a thread ended while the list was read
			}
			refs = append(refs, ThreadRef{
				addr:     addr,
				interp:   interp,
				gil:      gil,
				Ident:    le.Uint64(state[l.ident:]),
				NativeID: le.Uint64(state[l.nativeID:]),
			})
			addr = le.Uint64(state[l.next:])
		}
		if i == len(all)-1 && len(refs) > from {
			refs[len(refs)-1].Main = true
		}
	}
	return refs, nil
}

// gilOf returns where the holder of an interpreter's GIL is.
func (r *Reader) gilOf(interp uint64) (uint64, error) {
	if r.layout.gil == 0 {
		return r.Image.Runtime + r.layout.gilHolder, nil
	}
	gil, err := r.word(interp + r.layout.gil)
	return gil + r.layout.gilHolder, err
}
