// Package encode holds what the encoders of its sub-packages share: writing and
// reading protobuf messages without generated code.
package encode

import (
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// AppendUint appends a varint field. As in proto3, zero is left out.
func AppendUint(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// AppendFixed64 appends a fixed64 field. Zero is left out.
func AppendFixed64(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), v)
}

// AppendString appends a string field; s has to be valid UTF-8, see [Text]. An
// empty one is left out.
func AppendString(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// AppendBytes appends a bytes field, also an empty one.
func AppendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// AppendPacked appends a packed field of varints. An empty list is left out.
func AppendPacked(b []byte, field protowire.Number, list []uint32) []byte {
	if len(list) == 0 {
		return b
	}
	b, mark := Open(b, field)
	for _, v := range list {
		b = protowire.AppendVarint(b, uint64(v))
	}
	return Close(b, mark)
}

// Open begins a message field, whose fields are then appended up to Close.
func Open(b []byte, field protowire.Number) (_ []byte, mark int) {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return append(b, 0), len(b) + 1
}

// Close ends the message that Open began. A message that turned out longer than
// 127 bytes moves a little, which costs less than asking for its size first.
func Close(b []byte, mark int) []byte {
	size := uint64(len(b) - mark)
	if size < 1<<7 {
		b[mark-1] = byte(size)
		return b
	}
	var head [10]byte
	length := protowire.AppendVarint(head[:0], size)
	b = slices.Insert(b, mark, length[1:]...)
	b[mark-1] = length[0]
	return b
}

// Text returns s as protobuf wants it: paths and names of a process may hold
// bytes that are no UTF-8, and one of them would spoil the whole message.
func Text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Field is one field of a message. Num holds a varint or a fixed number, Bytes
// what has a length.
type Field struct {
	Number protowire.Number
	Type   protowire.Type
	Num    uint64
	Bytes  []byte // part of the message
}

// Fields calls visit for each field of a message and stops at its first error.
// It allocates nothing and reads nothing beyond b.
func Fields(b []byte, visit func(Field) error) error {
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		f := Field{Number: number, Type: typ}
		switch typ {
		case protowire.VarintType:
			f.Num, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.Num, n = protowire.ConsumeFixed64(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			f.Num = uint64(v)
		case protowire.BytesType:
			f.Bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, typ, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// Varints calls visit for each number of a repeated varint field, packed or
// not.
func (f Field) Varints(visit func(uint64) error) error {
	if f.Type == protowire.VarintType {
		return visit(f.Num)
	}
	for b := f.Bytes; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := visit(v); err != nil {
			return err
		}
	}
	return nil
}
