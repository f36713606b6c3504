package cpython

import (
	"errors"
	"fmt"
)

const (
	maxTypes      = 4096
	maxAttributes = 128
)

// keysTable is the table of entries of a dict.
type keysTable struct {
	addr      uint64 // of the first entry
	raw       []byte
	entrySize uint64
	keyAt     uint64
	valueAt   uint64
}

func (t *keysTable) count() uint64 { return uint64(len(t.raw)) / t.entrySize }

// entry returns the addresses of the i-th key and value; a deleted entry has
// no value, and in a split dict no entry has one.
func (t *keysTable) entry(i uint64) (key, value uint64) {
	e := t.raw[i*t.entrySize:]
	return le.Uint64(e[t.keyAt:]), le.Uint64(e[t.valueAt:])
}

// keysTable reads the keys object at addr (PyDictKeysObject).
func (r *Reader) keysTable(addr uint64, read func(addr, n uint64) ([]byte, error)) (*keysTable, error) {
	l := &r.layout.dict
	head, err := read(addr, l.header)
	if err != nil {
		return nil, err
	}
	entries := le.Uint64(head[l.entries:])
	if entries > maxEntries || head[l.log2Index] > 40 {
		return nil, fmt.Errorf("dict of %d entries: %w", entries, errMalformed)
	}
	t := &keysTable{entrySize: l.unicodeEntry, keyAt: 0, valueAt: 8}
	if head[l.kind] == 0 { // DICT_KEYS_GENERAL: the hash comes first
		t.entrySize, t.keyAt, t.valueAt = l.generalEntry, 8, 16
	}
	t.addr = addr + l.header + 1<<head[l.log2Index]
	t.raw, err = read(t.addr, entries*t.entrySize)
	return t, err
}

// keysAhead covers the keys of a dict with five entries, as OpenTelemetry's
// contexts seldom have more.
const keysAhead = 128

// slot is a word that holds a pointer to an object; zero where there is none.
type slot struct {
	addr  uint64
	value uint64
}

// find walks to the value under the first key that match accepts.
func (w *walk) find(dict uint64, match func(key uint64) (bool, error)) slot {
	l := &w.r.layout.dict
	head := w.read(dict+l.keys, 16)
	keys, values := le.Uint64(head), le.Uint64(head[l.values-l.keys:])
	if w.err != nil {
		return slot{}
	}
	w.ahead(keys, keysAhead)
	table, err := w.r.keysTable(keys, func(addr, n uint64) ([]byte, error) {
		buf := w.read(addr, n)
		return buf, w.err
	})
	if err != nil {
		w.fail(err)
		return slot{}
	}
	for i := range table.count() {
		key, value := table.entry(i)
		if key == 0 {
			continue
		}
		found, err := match(key)
		if err != nil {
			w.fail(err)
			return slot{}
		}
		if found && values != 0 {
			return w.slot(values + l.valuesHeader + 8*i)
		}
		if found && value != 0 {
			return slot{table.addr + i*table.entrySize + table.valueAt, value}
		}
	}
	return slot{}
}

func (w *walk) slot(addr uint64) slot { return slot{addr, w.word(addr)} }

// keyed walks to the value under the key that is this very object.
func (w *walk) keyed(dict, key uint64) slot {
	return w.find(dict, func(k uint64) (bool, error) { return k == key, nil })
}

// named walks to the value under a str key. What a str says cannot change
// while a dict holds it, so that its content is no part of the proof.
func (w *walk) named(dict uint64, name string) slot {
	return w.find(dict, func(key uint64) (bool, error) {
		length, err := w.r.word(key + w.r.layout.str.length)
		if err != nil || length != uint64(len(name)) {
			return false, err
		}
		text, err := w.r.str(key)
		if errors.Is(err, errMalformed) {
			return false, nil // no str: any object may be a key
		}
		return text == name, err
	})
}
