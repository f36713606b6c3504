package otlp

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spanflame/spanflame/internal/encode"
	"github.com/spanflame/spanflame/profile"
)

// dictionary is what all profiles of a request refer to. Entries are made when
// a sample needs them, so none is an orphan, and none is there twice.
type dictionary struct {
	strings    table[string]
	functions  table[function]
	locations  table[location]
	links      table[link]
	attributes table[attribute]
	stacks     lists
}

type function struct {
	name, file uint32 // strings
	start      int32
}

type location struct {
	function  uint32
	line      int32
	frameType uint32 // attribute
	// Entry 0 is the zero value on the wire, which has no lines; a frame always
	// has one.
	isFrame bool
}

type link struct {
	trace profile.TraceID
	span  profile.SpanID
}

type attribute struct {
	key uint32 // string
	str string
	num int64
	is  attributeKind
}

type attributeKind uint8

const (
	isNothing attributeKind = iota // entry 0
	isString
	isInt
)

func newDictionary(profiles []*profile.Profile) dictionary {
	var frames, stacks, calls, links, labels int
	for _, p := range profiles {
		frames, stacks = frames+len(p.Frames), stacks+len(p.Stacks)
		links, labels = links+len(p.Links), labels+len(p.LabelSets)
		for _, s := range p.Stacks {
			calls += len(s)
		}
	}
	return dictionary{
		strings:    newTable[string](frames),
		functions:  newTable[function](frames),
		locations:  newTable[location](frames),
		links:      newTable[link](links),
		attributes: newTable[attribute](2 * (links + labels)),
		stacks:     newLists(stacks, calls),
	}
}

func (d *dictionary) string(s string) uint32 { return d.strings.index(encode.Text(s)) }

func (d *dictionary) text(key, value string) uint32 {
	return d.attributes.index(attribute{key: d.string(key), str: encode.Text(value), is: isString})
}

func (d *dictionary) number(key string, value int64) uint32 {
	return d.attributes.index(attribute{key: d.string(key), num: value, is: isInt})
}

func (d *dictionary) location(f profile.Frame) uint32 {
	l := location{line: max(f.Line, 0), isFrame: true}
	l.function = d.functions.index(function{d.string(f.Function), d.string(f.File), max(f.StartLine, 0)})
	if f.Type != "" {
		l.frameType = d.text(attrFrameType, f.Type)
	}
	return d.locations.index(l)
}

func (d *dictionary) append(b []byte) []byte {
	b, end := encode.Open(b, requestDictionary)
	b = encode.AppendBytes(b, dictMappings, nil)
	for _, l := range d.locations.list {
		b = appendLocation(b, l)
	}
	for _, f := range d.functions.list {
		var mark int
		b, mark = encode.Open(b, dictFunctions)
		b = encode.AppendUint(b, functionName, uint64(f.name))
		b = encode.AppendUint(b, functionFile, uint64(f.file))
		b = encode.AppendUint(b, functionStart, uint64(f.start))
		b = encode.Close(b, mark)
	}
	for i := range d.links.list {
		l := &d.links.list[i]
		var mark int
		b, mark = encode.Open(b, dictLinks)
		b = encode.AppendBytes(b, linkTrace, l.trace[:])
		b = encode.AppendBytes(b, linkSpan, l.span[:])
		b = encode.Close(b, mark)
	}
	for _, s := range d.strings.list {
		b = protowire.AppendTag(b, dictStrings, protowire.BytesType)
		b = protowire.AppendString(b, s)
	}
	for _, a := range d.attributes.list {
		b = appendAttribute(b, a)
	}
	for i := range d.stacks.len() {
		var mark int
		b, mark = encode.Open(b, dictStacks)
		b = encode.AppendPacked(b, stackLocations, d.stacks.at(uint32(i)))
		b = encode.Close(b, mark)
	}
	return encode.Close(b, end)
}

func appendLocation(b []byte, l location) []byte {
	b, end := encode.Open(b, dictLocations)
	if l.isFrame {
		var mark int
		b, mark = encode.Open(b, locationLines)
		b = encode.AppendUint(b, lineFunction, uint64(l.function))
		b = encode.AppendUint(b, lineLine, uint64(l.line))
		b = encode.Close(b, mark)
	}
	if l.frameType != 0 {
		b, mark := encode.Open(b, locationAttributes)
		b = protowire.AppendVarint(b, uint64(l.frameType))
		return encode.Close(encode.Close(b, mark), end)
	}
	return encode.Close(b, end)
}

func appendAttribute(b []byte, a attribute) []byte {
	b, end := encode.Open(b, dictAttributes)
	b = encode.AppendUint(b, attributeKey, uint64(a.key))
	if a.is != isNothing {
		var mark int
		b, mark = encode.Open(b, attributeValue)
		if a.is == isString {
			b = appendAnyString(b, a.str)
		} else {
			b = appendAnyInt(b, a.num)
		}
		b = encode.Close(b, mark)
	}
	return encode.Close(b, end)
}
