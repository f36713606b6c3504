package shim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeMessage(t *testing.T) {
	for body, want := range map[string]Message{
		`{"type":"otel","context_var":18446744073709551615,"span_key":2,"root_var":3,"none":4}`: &OtelMessage{Otel{1<<64 - 1, 2, 3, 4}},
		`{"type":"resource","attributes":{"s":"x","i":9007199254740993,"f":1.5,"b":true,"l":["a",1],"n":null,"o":{}}}`: &ResourceMessage{map[string]any{
			"s": "x", "i": int64(9007199254740993), "f": 1.5, "b": true, "l": []any{"a", int64(1)},
		}},
		`{"type":"error","reason":"r"}`: &ErrorMessage{"r"},
	} {
		got, err := decodeMessage([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
	for _, body := range []string{``, `null`, `[]`, `{}`, `{"type":"configure"}`, `{"type":"otel","none":-1}`, strings.Repeat(`[`, maxMessage)} {
		if got, err := decodeMessage([]byte(body)); err == nil {
			t.Errorf("%.40s: decoded to %v", body, got)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"type":"otel","context_var":1}`))
	f.Add([]byte(`{"type":"resource","attributes":{"a":[1,"b",null,{}]}}`))
	f.Add([]byte(`{"type":"register","version":"0.1.0","python":[3,11,7],"args":["a"],"files":["mem"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if message, err := decodeMessage(body); (message == nil) == (err == nil) {
			t.Errorf("message %v and error %v", message, err)
		}
		if reg, err := decodeRegistration(body); (reg == nil) == (err == nil) {
			t.Errorf("registration %v and error %v", reg, err)
		}
	})
}
