package otlp

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spanflame/spanflame/internal/encode"
	"github.com/spanflame/spanflame/profile"
)

// appendResource writes keys and values inline, never as references to the
// string table, which Pyroscope does not resolve.
func appendResource(b []byte, attributes []profile.Attribute) []byte {
	b, end := encode.Open(b, resourceProfilesResource)
	last := make(map[string]int, len(attributes)) // keys are unique: the last counts
	for i, a := range attributes {
		last[a.Key] = i
	}
	dropped := 0
	for i, a := range attributes {
		start := len(b)
		var mark, value int
		var ok bool
		b, mark = encode.Open(b, resourceAttributes)
		b = encode.AppendString(b, keyValueKey, encode.Text(a.Key))
		b, value = encode.Open(b, keyValueValue)
		b, ok = appendAny(b, a.Value)
		if !ok || last[a.Key] != i || a.Key == "" {
			b = b[:start]
			dropped++
			continue
		}
		b = encode.Close(encode.Close(b, value), mark)
	}
	b = encode.AppendUint(b, resourceDropped, uint64(dropped))
	return encode.Close(b, end)
}

// appendAny appends the field of an AnyValue that holds v.
func appendAny(b []byte, v any) (_ []byte, ok bool) {
	switch v := v.(type) {
	case string:
		return appendAnyString(b, v), true
	case bool:
		return appendAnyBool(b, v), true
	case int64:
		return appendAnyInt(b, v), true
	case float64:
		return appendAnyDouble(b, v), true
	case []string:
		return appendArray(b, v, appendAnyString), true
	case []bool:
		return appendArray(b, v, appendAnyBool), true
	case []int64:
		return appendArray(b, v, appendAnyInt), true
	case []float64:
		return appendArray(b, v, appendAnyDouble), true
	}
	return b, false
}

func appendArray[T any](b []byte, list []T, one func([]byte, T) []byte) []byte {
	b, end := encode.Open(b, anyArray)
	for _, v := range list {
		var mark int
		b, mark = encode.Open(b, 1) // ArrayValue.values
		b = encode.Close(one(b, v), mark)
	}
	return encode.Close(b, end)
}

// The field of a oneof is written also when it is zero: it says which it is.

func appendAnyString(b []byte, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, anyString, protowire.BytesType), encode.Text(v))
}

func appendAnyBool(b []byte, v bool) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, anyBool, protowire.VarintType), protowire.EncodeBool(v))
}

func appendAnyInt(b []byte, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, anyInt, protowire.VarintType), uint64(v))
}

func appendAnyDouble(b []byte, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, anyDouble, protowire.Fixed64Type), math.Float64bits(v))
}
