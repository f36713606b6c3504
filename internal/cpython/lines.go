package cpython

import "math"

// lineFormat says how a version of CPython maps bytecode to lines.
type lineFormat uint8

const (
	lnotab       lineFormat = iota // co_lnotab, up to 3.9: Objects/lnotab_notes.txt
	linetable310                   // co_linetable of 3.10 (PEP 626): the same file
	locations311                   // co_linetable since 3.11 (PEP 657): Objects/locations.md
)

// lineAt returns the line of the instruction at byte offset off of a code
// object's bytecode, 0 when it has none. An offset before the first instruction
// is that of a frame that has not begun: the function's first line, as
// PyCode_Addr2Line says. The table comes from another process's memory: any
// bytes give some answer.
func lineAt(format lineFormat, table []byte, firstLine int32, off int) int32 {
	first, line := int64(firstLine), int64(0)
	switch {
	case off < 0:
		line = first
	case format == lnotab:
		line = lnotabLine(table, first, off)
	case format == linetable310:
		line = linetableLine(table, first, off)
	case format == locations311:
		line = locationsLine(table, first, off)
	}
	if line < 0 || line > math.MaxInt32 {
		return 0
	}
	return int32(line)
}

// lnotabLine reads pairs: bytes of bytecode, then what the line changes after
// them. The last line has no pair that ends it, so it has no end.
func lnotabLine(table []byte, line int64, off int) int64 {
	addr := 0
	for ; len(table) >= 2; table = table[2:] {
		if addr += int(table[0]); addr > off {
			break
		}
		line += int64(int8(table[1]))
	}
	return line
}

// linetableLine reads pairs: bytes of bytecode, and what the line changed
// before them, or -128 for bytecode without a line.
func linetableLine(table []byte, line int64, off int) int64 {
	const none = -128
	end := 0
	for ; len(table) >= 2; table = table[2:] {
		delta := int8(table[1])
		if delta != none {
			line += int64(delta)
		}
		if end += int(table[0]); end > off {
			if delta == none {
				return 0
			}
			return line
		}
	}
	return 0
}

// locationsLine reads entries of a head, which has its top bit set, and bytes
// that have not. Those that hold columns are skipped.
func locationsLine(table []byte, line int64, off int) int64 {
	const (
		oneLine0 = 10 // the line, then two bytes of columns
		oneLine2 = 12
		noColumn = 13
		long     = 14
		none     = 15
	)
	end := 0
	for len(table) > 0 {
		head := table[0]
		table = table[1:]
		kind := head >> 3 & 15
		switch {
		case kind == long || kind == noColumn:
			line += signedVarint(table)
		case kind >= oneLine0 && kind <= oneLine2:
			line += int64(kind - oneLine0)
		}
		if end += (int(head&7) + 1) * 2; end > off {
			if kind == none {
				return 0
			}
			return line
		}
		for len(table) > 0 && table[0]&0x80 == 0 {
			table = table[1:]
		}
	}
	return 0
}

// signedVarint reads six bits a byte, lowest first, bit 6 when more follow; the
// lowest bit of the result is the sign. It stops at 36 bits: lines are 32, and
// sums of them must not overflow.
func signedVarint(b []byte) int64 {
	var v uint64
	for i := 0; i < len(b) && i < 6 && b[i]&0x80 == 0; i++ {
		v |= uint64(b[i]&0x3f) << (6 * i)
		if b[i]&0x40 == 0 {
			break
		}
	}
	if v&1 != 0 {
		return -int64(v >> 1)
	}
	return int64(v >> 1)
}
