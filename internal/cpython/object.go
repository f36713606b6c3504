package cpython

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spanflame/spanflame/internal/proc"
)

var le = binary.LittleEndian

// read returns n bytes at addr.
func (r *Reader) read(addr, n uint64) ([]byte, error) {
	buf := make([]byte, n)
	return buf, r.readInto(buf, addr)
}

func (r *Reader) readInto(buf []byte, addr uint64) error {
	if addr < 4096 || addr > 1<<56 {
		return errMalformed // NULL and what no user-space pointer can be
	}
	_, err := r.mem.Read([]proc.Range{{Addr: addr, Buf: buf}})
	return err
}

func (r *Reader) word(addr uint64) (uint64, error) {
	var buf [8]byte
	err := r.readInto(buf[:], addr)
	return le.Uint64(buf[:]), err
}

// str reads a str object as UTF-8, at most maxRunes of it. The rest, if any,
// shows as "…".
func (r *Reader) str(addr uint64) (string, error) {
	w := walk{r: r}
	text := w.str(addr)
	return text, w.err
}

func (w *walk) str(addr uint64) string {
	l := &w.r.layout.str
	head := w.read(addr+l.length, l.asciiData-l.length)
	if w.err != nil {
		return ""
	}
	state := le.Uint32(head[l.state-l.length:])
	data, kind := addr+l.otherData, uint64(state>>l.kindShift&l.kindMask)
	switch {
	case state>>l.compactBit&1 == 0: // of a subclass
		data = w.word(data)
	case state>>l.asciiBit&1 == 1:
		data, kind = addr+l.asciiData, 1
	}
	length := le.Uint64(head)
	raw := w.read(data, min(length, maxRunes)*kind)
	if w.err != nil {
		return ""
	}
	text, err := decodeRunes(raw, kind)
	w.fail(err)
	if length > maxRunes {
		text += "…"
	}
	return text
}

// decodeRunes decodes the 1, 2 or 4 bytes a code point of a str. Surrogates,
// which Python allows and UTF-8 does not, become U+FFFD.
func decodeRunes(raw []byte, kind uint64) (string, error) {
	var b strings.Builder
	switch kind {
	case 1:
		for _, c := range raw {
			b.WriteRune(rune(c))
		}
	case 2:
		for i := 0; i+2 <= len(raw); i += 2 {
			b.WriteRune(rune(le.Uint16(raw[i:])))
		}
	case 4:
		for i := 0; i+4 <= len(raw); i += 4 {
			if c := le.Uint32(raw[i:]); c <= utf8.MaxRune {
				b.WriteRune(rune(c))
			} else {
				b.WriteRune(utf8.RuneError)
			}
		}
	default:
		return "", fmt.Errorf("str of kind %d: %w", kind, errMalformed)
	}
	return b.String(), nil
}

// digits returns how many digits an int has by the word that says so; not ok
// when it is negative.
func (l *layout) digits(size uint64) (count uint64, ok bool) {
	const shift, sign, negative = 3, 3, 2 // pycore_long.h
	if l.intTagged {
		return size >> shift, size&sign != negative
	}
	return size, int64(size) >= 0
}

// cString reads a C string of at most 64 bytes that lies within one page.
func (r *Reader) cString(addr uint64) (string, error) {
	buf, err := r.read(addr, min(64, 4096-addr%4096))
	if err != nil {
		return "", err
	}
	text, _, ok := strings.Cut(string(buf), "\x00")
	if !ok && len(buf) < 64 {
		rest, err := r.read(addr+uint64(len(buf)), 64-uint64(len(buf)))
		if err != nil {
			return "", err
		}
		tail, _, _ := strings.Cut(string(rest), "\x00")
		text += tail
	}
	return text, nil
}
