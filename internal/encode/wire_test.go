package encode

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func TestCloseMovesLongMessages(t *testing.T) {
	for _, size := range []int{0, 1, 127, 128, 129, 1 << 14, 1<<21 + 3} {
		content := bytes.Repeat([]byte{'x'}, size)
		b, outer := Open([]byte("before"), 1)
		b, inner := Open(b, 2)
		b = Close(append(b, content...), inner)
		b = Close(b, outer)

		number, typ, n := protowire.ConsumeTag(b[len("before"):])
		if number != 1 || typ != protowire.BytesType {
			t.Fatalf("%d bytes: field %d of type %d", size, number, typ)
		}
		body, m := protowire.ConsumeBytes(b[len("before")+n:])
		if m != len(b)-len("before")-n {
			t.Fatalf("%d bytes: outer message has %d bytes of %d", size, m, len(b))
		}
		if want := AppendBytes(nil, 2, content); !bytes.Equal(body, want) {
			t.Errorf("%d bytes: inner message differs", size)
		}
	}
}

func TestFields(t *testing.T) {
	var b []byte
	b = AppendUint(b, 1, 300)
	b = AppendUint(b, 2, 0)
	b = AppendFixed64(b, 3, 1<<40)
	b = AppendFixed64(b, 4, 0)
	b = AppendString(b, 5, "text")
	b = AppendString(b, 6, "")
	b = AppendBytes(b, 7, nil)
	b = AppendPacked(b, 8, []uint32{1, 500})
	b = AppendPacked(b, 9, nil)
	b = protowire.AppendFixed32(protowire.AppendTag(b, 10, protowire.Fixed32Type), 7)

	var numbers []protowire.Number
	var packed []uint64
	err := Fields(b, func(f Field) error {
		numbers = append(numbers, f.Number)
		if f.Number == 1 || f.Number == 8 {
			return f.Varints(func(v uint64) error { packed = append(packed, v); return nil })
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []protowire.Number{1, 3, 5, 7, 8, 10}; !slices.Equal(numbers, want) {
		t.Errorf("fields %v, want %v", numbers, want)
	}
	if want := []uint64{300, 1, 500}; !slices.Equal(packed, want) {
		t.Errorf("numbers %v, want %v", packed, want)
	}
	for cut := range b {
		_ = Fields(b[:cut], func(f Field) error { return f.Varints(func(uint64) error { return nil }) })
	}
	stop := errors.New("stop")
	if err := Fields(b, func(Field) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{"": "", "naïve": "naïve", "a\xffb": "a\uFFFDb"} {
		if got := Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}
