package otlp

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spanflame/spanflame/internal/encode"
	"github.com/spanflame/spanflame/profile"
)

// dictionary reads the dictionary of a request. It comes after what refers to
// it, and its tables refer to each other in no order.
func (d *decoder) dictionary(request []byte) error {
	var functions, locations, attributes [][]byte
	err := eachMessage(request, func(number protowire.Number, dictionary []byte) error {
		if number != requestDictionary {
			return nil
		}
		return eachMessage(dictionary, func(number protowire.Number, b []byte) error {
			switch number {
			case dictLocations:
				locations = append(locations, b)
			case dictFunctions:
				functions = append(functions, b)
			case dictLinks:
				l, err := readLink(b)
				if err != nil {
					return err
				}
				d.links = append(d.links, l)
			case dictStrings:
				d.strings = append(d.strings, encode.Text(string(b)))
			case dictAttributes:
				attributes = append(attributes, b)
			case dictStacks:
				d.stacks = append(d.stacks, b)
			}
			return d.spend(1)
		})
	})
	if err != nil {
		return err
	}
	if d.functions, err = readAll(functions, d.function); err != nil {
		return err
	}
	if d.attributes, err = readAll(attributes, d.attribute); err != nil {
		return err
	}
	d.locations, err = readAll(locations, d.location)
	return err
}

// eachMessage visits the fields that have a length.
func eachMessage(b []byte, visit func(protowire.Number, []byte) error) error {
	return encode.Fields(b, func(f encode.Field) error {
		if f.Type != protowire.BytesType {
			return nil
		}
		return visit(f.Number, f.Bytes)
	})
}

// eachNumber visits the fields that are varints.
func eachNumber(b []byte, visit func(protowire.Number, uint64) error) error {
	return encode.Fields(b, func(f encode.Field) error {
		if f.Type != protowire.VarintType {
			return nil
		}
		return visit(f.Number, f.Num)
	})
}

func readAll[T any](entries [][]byte, one func([]byte) (T, error)) ([]T, error) {
	list := make([]T, len(entries))
	for i, b := range entries {
		var err error
		if list[i], err = one(b); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// readLink takes ids of another length than they have for absent.
func readLink(b []byte) (l link, err error) {
	err = eachMessage(b, func(number protowire.Number, id []byte) error {
		switch {
		case number == linkTrace && len(id) == len(l.trace):
			copy(l.trace[:], id)
		case number == linkSpan && len(id) == len(l.span):
			copy(l.span[:], id)
		}
		return nil
	})
	return l, err
}

func (d *decoder) function(b []byte) (frame profile.Frame, err error) {
	err = eachNumber(b, func(number protowire.Number, v uint64) (err error) {
		switch number {
		case functionName:
			frame.Function, err = d.text(v)
		case functionFile:
			frame.File, err = d.text(v)
		case functionStart:
			frame.StartLine = lineNumber(v)
		}
		return err
	})
	return frame, err
}

func (d *decoder) location(b []byte) (calls []profile.Frame, err error) {
	var address uint64
	var frameType string
	err = encode.Fields(b, func(f encode.Field) error {
		switch {
		case f.Number == locationAddress && f.Type == protowire.VarintType:
			address = f.Num
		case f.Number == locationLines && f.Type == protowire.BytesType:
			frame, err := d.line(f.Bytes)
			if err != nil {
				return err
			}
			calls = append(calls, frame)
			return d.spend(1)
		case f.Number == locationAttributes:
			return f.Varints(func(v uint64) error {
				a, err := entry(d.attributes, "attribute_table", v)
				if text, ok := a.Value.(string); ok && a.Key == attrFrameType {
					frameType = text
				}
				return err
			})
		}
		return nil
	})
	if len(calls) == 0 && address != 0 {
		calls = []profile.Frame{{Function: "0x" + strconv.FormatUint(address, 16)}}
	}
	for i := range calls {
		calls[i].Type = frameType
	}
	return calls, err
}

func (d *decoder) line(b []byte) (profile.Frame, error) {
	var function uint64
	var line int32
	err := eachNumber(b, func(number protowire.Number, v uint64) error {
		switch number {
		case lineFunction:
			function = v
		case lineLine:
			line = lineNumber(v)
		}
		return nil
	})
	if err != nil {
		return profile.Frame{}, err
	}
	frame, err := entry(d.functions, "function_table", function)
	frame.Line = line
	return frame, err
}

// lineNumber returns 0, unknown, for what no file has.
func lineNumber(v uint64) int32 {
	if v > math.MaxInt32 {
		return 0
	}
	return int32(v)
}

func (d *decoder) attribute(b []byte) (a profile.Attribute, err error) {
	err = encode.Fields(b, func(f encode.Field) (err error) {
		switch {
		case f.Number == attributeKey && f.Type == protowire.VarintType:
			a.Key, err = d.text(f.Num)
		case f.Number == attributeValue && f.Type == protowire.BytesType:
			a.Value, err = d.any(f.Bytes, true)
		}
		return err
	})
	return a, err
}

func (d *decoder) resource(b []byte) ([]profile.Attribute, error) {
	var list []profile.Attribute
	err := eachMessage(b, func(number protowire.Number, b []byte) error {
		if number != resourceAttributes {
			return nil
		}
		var a profile.Attribute
		err := encode.Fields(b, func(f encode.Field) (err error) {
			switch {
			case f.Number == keyValueKey && f.Type == protowire.BytesType:
				a.Key = encode.Text(string(f.Bytes))
			case f.Number == keyValueRef && f.Type == protowire.VarintType && f.Num != 0:
				a.Key, err = d.text(f.Num)
			case f.Number == keyValueValue && f.Type == protowire.BytesType:
				a.Value, err = d.any(f.Bytes, true)
			}
			return err
		})
		if a.Key != "" && a.Value != nil {
			list = append(list, a)
		}
		if err != nil {
			return err
		}
		return d.spend(1)
	})
	return list, err
}

// any reads an AnyValue; nil is a value that profile.Attribute cannot hold, such
// as a list of lists.
func (d *decoder) any(b []byte, lists bool) (value any, err error) {
	err = encode.Fields(b, func(f encode.Field) (err error) {
		switch {
		case f.Number == anyString && f.Type == protowire.BytesType:
			value = encode.Text(string(f.Bytes))
		case f.Number == anyBool && f.Type == protowire.VarintType:
			value = f.Num != 0
		case f.Number == anyInt && f.Type == protowire.VarintType:
			value = int64(f.Num)
		case f.Number == anyDouble && f.Type == protowire.Fixed64Type:
			value = math.Float64frombits(f.Num)
		case f.Number == anyRef && f.Type == protowire.VarintType:
			value, err = d.text(f.Num)
		case f.Number == anyArray && f.Type == protowire.BytesType && lists:
			value, err = d.array(f.Bytes)
		}
		return err
	})
	return value, err
}

func (d *decoder) array(b []byte) (any, error) {
	var values []any
	err := eachMessage(b, func(_ protowire.Number, b []byte) error {
		v, err := d.any(b, false)
		if err != nil {
			return err
		}
		values = append(values, v)
		return d.spend(1)
	})
	if err != nil || len(values) == 0 {
		return []string{}, err // of what type it was is not on the wire
	}
	switch values[0].(type) {
	case string:
		return sameType[string](values), nil
	case bool:
		return sameType[bool](values), nil
	case int64:
		return sameType[int64](values), nil
	case float64:
		return sameType[float64](values), nil
	}
	return nil, nil
}

// sameType returns a []T, or nil when the values are of several types.
func sameType[T any](values []any) any {
	list := make([]T, len(values))
	for i, v := range values {
		t, ok := v.(T)
		if !ok {
			return nil
		}
		list[i] = t
	}
	return list
}
