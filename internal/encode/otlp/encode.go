package otlp

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spanflame/spanflame/internal/encode"
	"github.com/spanflame/spanflame/profile"
)

// Encode appends to dst an ExportProfilesServiceRequest with the profiles and
// returns the extended slice. It returns dst as it is when no profile has a
// value: then there is nothing to send.
//
// Samples that differ only in what is not sent are added up. What OTLP has no
// form for is mended (bytes that are no UTF-8) or left out and counted
// (attributes of other types than [profile.Attribute] allows).
func Encode(dst []byte, profiles []*profile.Profile, o Options) []byte {
	e := encoder{Options: o, dict: newDictionary(profiles)}
	b := dst
	for _, p := range profiles {
		b = e.resourceProfiles(b, p)
	}
	if len(b) == len(dst) {
		return dst
	}
	return e.dict.append(b)
}

type encoder struct {
	Options
	dict dictionary

	// Of the profile being encoded. Indexes of the request are kept by indexes
	// of the profile, plus one: 0 is not asked for yet.
	locations []uint32
	stacks    []uint32
	spans     []span
	labels    [][]uint32
	sets      lists // of attributes

	merged  []merged
	indexes map[merged]int
	values  []int64 // one for each type and merged sample
	scratch []uint32
}

// merged is the identity of a sample on the wire.
type merged struct{ stack, link, attributes uint32 }

// span is what a profile.Link becomes: a link and attributes, 0 for none.
type span struct {
	known            bool
	link, root, name uint32
}

func (e *encoder) resourceProfiles(b []byte, p *profile.Profile) []byte {
	e.merge(p)
	if len(e.merged) == 0 {
		return b
	}
	b, end := encode.Open(b, requestResourceProfiles)
	b = appendResource(b, p.Resource)
	b, scoped := encode.Open(b, resourceProfilesScopes)
	b, mark := encode.Open(b, scopeProfilesScope)
	b = encode.AppendString(b, scopeNameField, scopeName)
	b = encode.AppendString(b, scopeVersion, encode.Text(e.Version))
	b = encode.Close(b, mark)
	for i := range p.Types {
		b = e.profile(b, p, i)
	}
	return encode.Close(encode.Close(b, scoped), end)
}

// merge fills merged and values.
func (e *encoder) merge(p *profile.Profile) {
	e.locations = slices.Grow(e.locations[:0], len(p.Frames))[:len(p.Frames)]
	e.stacks = slices.Grow(e.stacks[:0], len(p.Stacks))[:len(p.Stacks)]
	e.spans = slices.Grow(e.spans[:0], len(p.Links))[:len(p.Links)]
	clear(e.locations)
	clear(e.stacks)
	clear(e.spans)
	e.labels = make([][]uint32, len(p.LabelSets))
	e.sets = newLists(len(p.LabelSets)+len(p.Links), 4*(len(p.LabelSets)+len(p.Links)))
	e.merged = slices.Grow(e.merged[:0], len(p.Samples))
	e.values = slices.Grow(e.values[:0], len(p.Samples)*len(p.Types))
	e.indexes = make(map[merged]int, len(p.Samples))
	for i := range p.Samples {
		s := &p.Samples[i]
		if !slices.ContainsFunc(s.Values, func(v int64) bool { return v != 0 }) {
			continue // would leave entries that nothing refers to
		}
		key := e.identity(p, s)
		at, ok := e.indexes[key]
		if !ok {
			at = len(e.merged)
			e.indexes[key] = at
			e.merged = append(e.merged, key)
			e.values = append(e.values, s.Values...)
			continue
		}
		for t, v := range s.Values {
			e.values[at*len(p.Types)+t] += v
		}
	}
}

func (e *encoder) identity(p *profile.Profile, s *profile.Sample) merged {
	sp := &e.spans[s.Link]
	if !sp.known {
		*sp = e.span(p, p.Links[s.Link])
	}
	set := e.labels[s.Labels]
	if set == nil {
		set = e.labelSet(p.LabelSets[s.Labels])
		e.labels[s.Labels] = set
	}
	e.scratch = append(e.scratch[:0], set...)
	for _, i := range [...]uint32{sp.root, sp.name} {
		if i != 0 {
			e.scratch = append(e.scratch, i)
		}
	}
	attributes := e.sets.index(e.scratch)
	return merged{e.stack(p, s.Stack), sp.link, attributes}
}

func (e *encoder) stack(p *profile.Profile, i int) uint32 {
	if e.stacks[i] != 0 {
		return e.stacks[i] - 1
	}
	e.scratch = e.scratch[:0]
	for _, f := range p.Stacks[i] {
		if e.locations[f] == 0 {
			e.locations[f] = e.dict.location(p.Frames[f]) + 1
		}
		e.scratch = append(e.scratch, e.locations[f]-1)
	}
	index := e.dict.stacks.index(e.scratch)
	e.stacks[i] = index + 1
	return index
}

// span decides what is said of the span that was current.
func (e *encoder) span(p *profile.Profile, l profile.Link) span {
	s := span{known: true}
	linked := l.Span
	if e.Scope == ScopeRoot || e.Pyroscope {
		linked = l.Root
	} else if !l.Root.IsZero() {
		s.root = e.dict.text(attrRoot, l.Root.String())
	}
	if !l.Trace.IsZero() && !linked.IsZero() {
		s.link = e.dict.links.index(link{l.Trace, linked})
	}
	if name := p.SpanNames[l.Root]; name != "" && !l.Root.IsZero() {
		s.name = e.dict.text(attrSpanName, name)
	}
	return s
}

// labelSet returns the attributes for a set of labels, never nil.
func (e *encoder) labelSet(set []profile.Label) []uint32 {
	indexes := make([]uint32, 0, len(set))
	for _, l := range set {
		switch {
		case l.Key == "" || l.Key == profile.LabelNativeThreadID:
		case l.Key == profile.LabelThreadID && e.Pyroscope:
		case l.Str != "":
			indexes = append(indexes, e.dict.text(l.Key, l.Str))
		default:
			indexes = append(indexes, e.dict.number(l.Key, l.Num))
		}
	}
	return indexes
}

// profile appends the samples that have a value of type i.
func (e *encoder) profile(b []byte, p *profile.Profile, i int) []byte {
	n := len(p.Types)
	if !e.has(i, n) {
		return b
	}
	b, end := encode.Open(b, scopeProfilesProfiles)
	t := p.Types[i]
	if t.PeriodType == "" {
		t.PeriodType, t.PeriodUnit = t.Type, t.Unit
	}
	b = e.valueType(b, profileType, t.Type, t.Unit)
	for at, m := range e.merged {
		value := e.values[at*n+i]
		if value == 0 {
			continue
		}
		var mark int
		b, mark = encode.Open(b, profileSamples)
		b = encode.AppendUint(b, sampleStack, uint64(m.stack))
		b = encode.AppendPacked(b, sampleAttributes, e.sets.at(m.attributes))
		b = encode.AppendUint(b, sampleLink, uint64(m.link))
		var values int
		b, values = encode.Open(b, sampleValues)
		b = protowire.AppendVarint(b, uint64(value))
		b = encode.Close(encode.Close(b, values), mark)
	}
	b = encode.AppendFixed64(b, profileTime, uint64(max(p.Start, 0)))
	b = encode.AppendUint(b, profileDuration, uint64(max(p.Duration, 0)))
	b = e.valueType(b, profilePeriodType, t.PeriodType, t.PeriodUnit)
	b = encode.AppendUint(b, profilePeriod, uint64(max(t.Period, 1)))
	return encode.Close(b, end)
}

// has reports whether any sample has a value of type i of n.
func (e *encoder) has(i, n int) bool {
	for ; i < len(e.values); i += n {
		if e.values[i] != 0 {
			return true
		}
	}
	return false
}

func (e *encoder) valueType(b []byte, field protowire.Number, typ, unit string) []byte {
	b, mark := encode.Open(b, field)
	b = encode.AppendUint(b, valueTypeType, uint64(e.dict.string(typ)))
	b = encode.AppendUint(b, valueTypeUnit, uint64(e.dict.string(unit)))
	return encode.Close(b, mark)
}
