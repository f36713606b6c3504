package otlp

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// table gives each distinct value an index; that of the zero value is 0, as the
// tables of the dictionary want it.
type table[T comparable] struct {
	list    []T
	indexes map[T]uint32
}

func newTable[T comparable](size int) table[T] {
	t := table[T]{make([]T, 0, size+1), make(map[T]uint32, size+1)}
	var zero T
	t.index(zero)
	return t
}

func (t *table[T]) index(v T) uint32 {
	if i, ok := t.indexes[v]; ok {
		return i
	}
	i := uint32(len(t.list))
	t.list = append(t.list, v)
	t.indexes[v] = i
	return i
}

// lists gives each distinct list of numbers an index; that of the empty list is
// 0.
type lists struct {
	flat    []uint32 // all lists, one after the other
	ends    []int    // in flat
	indexes map[uint64]uint32
	// next leads from a list to an earlier one with the same hash, 0 to none:
	// the empty list is found without it.
	next    []uint32
	scratch []byte
}

var seed = maphash.MakeSeed()

// newLists has room for size lists with so many numbers altogether.
func newLists(size, numbers int) lists {
	return lists{
		flat:    make([]uint32, 0, numbers),
		ends:    make([]int, 1, size+1),
		indexes: make(map[uint64]uint32, size),
		next:    make([]uint32, 1, size+1),
	}
}

func (l *lists) len() int { return len(l.ends) }

func (l *lists) at(i uint32) []uint32 {
	if i == 0 {
		return nil
	}
	return l.flat[l.ends[i-1]:l.ends[i]]
}

func (l *lists) index(list []uint32) uint32 {
	if len(list) == 0 {
		return 0
	}
	l.scratch = l.scratch[:0]
	for _, v := range list {
		l.scratch = binary.LittleEndian.AppendUint32(l.scratch, v)
	}
	hash := maphash.Bytes(seed, l.scratch)
	first := l.indexes[hash]
	for i := first; i != 0; i = l.next[i] {
		if slices.Equal(l.at(i), list) {
			return i
		}
	}
	i := uint32(len(l.ends))
	l.flat = append(l.flat, list...)
	l.ends = append(l.ends, len(l.flat))
	l.next = append(l.next, first)
	l.indexes[hash] = i
	return i
}
