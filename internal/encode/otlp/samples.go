package otlp

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spanflame/spanflame/internal/encode"
	"github.com/spanflame/spanflame/profile"
)

// joiner puts the samples of one window together. Its maps lead from indexes of
// the dictionary to those of the profile: maps, not arrays as long as the
// tables, since a request may have many windows and large tables.
type joiner struct {
	*decoder
	p      *profile.Profile
	stacks map[uint64]int
	frames map[profile.Frame]int
	links  map[profile.Link]int
	labels map[uint32]int // by set
	sets   lists          // of attribute indexes
	of     map[sample]int
}

type sample struct{ stack, link, labels int }

func (d *decoder) profile(group []header) (*profile.Profile, error) {
	// A Profile of two bytes takes the room of many samples.
	if err := d.spend(64); err != nil {
		return nil, err
	}
	j := joiner{
		decoder: d,
		p: &profile.Profile{
			Start:     int64(min(group[0].start, math.MaxInt64)),
			Duration:  int64(min(group[0].duration, math.MaxInt64)),
			Links:     []profile.Link{{}},
			LabelSets: [][]profile.Label{nil},
			SpanNames: map[profile.SpanID]string{},
		},
		stacks: map[uint64]int{},
		frames: map[profile.Frame]int{},
		links:  map[profile.Link]int{{}: 0},
		labels: map[uint32]int{},
		sets:   newLists(0, 0),
		of:     map[sample]int{},
	}
	for _, h := range group {
		j.p.Types = append(j.p.Types, h.typ)
	}
	for i, h := range group {
		err := encode.Fields(h.body, func(f encode.Field) error {
			if f.Number != profileSamples || f.Type != protowire.BytesType {
				return nil
			}
			return j.sample(f.Bytes, i)
		})
		if err != nil {
			return nil, fmt.Errorf("read samples: %w", err)
		}
	}
	return j.p, nil
}

// sample adds one sample to type i.
func (j *joiner) sample(b []byte, i int) error {
	var stack, dictLink uint64
	var set []uint32
	var value, times int64
	valued := false
	err := encode.Fields(b, func(f encode.Field) error {
		switch {
		case f.Number == sampleStack && f.Type == protowire.VarintType:
			stack = f.Num
		case f.Number == sampleLink && f.Type == protowire.VarintType:
			dictLink = f.Num
		case f.Number == sampleAttributes:
			return f.Varints(func(v uint64) error {
				set = append(set, uint32(min(v, math.MaxUint32)))
				return nil
			})
		case f.Number == sampleValues:
			return f.Varints(func(v uint64) error { value += int64(v); valued = true; return nil })
		case f.Number == sampleTimestamps && f.Type == protowire.Fixed64Type:
			times++
		case f.Number == sampleTimestamps && f.Type == protowire.BytesType:
			times += int64(len(f.Bytes) / 8)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !valued {
		value = times // each time counts one
	}
	var s sample
	if s.stack, err = j.stack(stack); err != nil {
		return err
	}
	if s.link, s.labels, err = j.context(dictLink, set); err != nil {
		return err
	}
	at, ok := j.of[s]
	if !ok {
		if err := j.spend(1 + len(j.p.Types)); err != nil {
			return err
		}
		at = len(j.p.Samples)
		j.of[s] = at
		j.p.Samples = append(j.p.Samples, profile.Sample{
			Stack: s.stack, Link: s.link, Labels: s.labels, Values: make([]int64, len(j.p.Types)),
		})
	}
	j.p.Samples[at].Values[i] += value
	return nil
}

func (j *joiner) stack(index uint64) (int, error) {
	if i, ok := j.stacks[index]; ok {
		return i, nil
	}
	b, err := entry(j.decoder.stacks, "stack_table", index)
	if err != nil {
		return 0, err
	}
	var frames []int
	err = encode.Fields(b, func(f encode.Field) error {
		if f.Number != stackLocations {
			return nil
		}
		return f.Varints(func(v uint64) error {
			calls, err := entry(j.locations, "location_table", v)
			if err == nil {
				err = j.spend(1 + len(calls))
			}
			if err != nil {
				return err
			}
			for _, frame := range calls {
				frames = append(frames, j.frame(frame))
			}
			return nil
		})
	})
	if err != nil {
		return 0, err
	}
	i := len(j.p.Stacks)
	j.p.Stacks = append(j.p.Stacks, slices.Clip(frames))
	j.stacks[index] = i
	return i, nil
}

func (j *joiner) frame(f profile.Frame) int {
	i, ok := j.frames[f]
	if !ok {
		i = len(j.p.Frames)
		j.frames[f] = i
		j.p.Frames = append(j.p.Frames, f)
	}
	return i
}

// context returns link and labels of a sample: some of its attributes belong to
// the link.
func (j *joiner) context(dictLink uint64, set []uint32) (linkIndex, labelIndex int, err error) {
	wire, err := entry(j.decoder.links, "link_table", dictLink)
	if err != nil {
		return 0, 0, err
	}
	l := profile.Link{Trace: wire.trace, Span: wire.span}
	var name string
	if err := j.spend(len(set)); err != nil {
		return 0, 0, err
	}
	rest := set[:0]
	for _, index := range set {
		a, err := entry(j.attributes, "attribute_table", uint64(index))
		if err != nil {
			return 0, 0, err
		}
		text, isText := a.Value.(string)
		switch {
		case a.Key == "": // entry 0, or no attribute
		case a.Key == attrRoot && isText && len(text) == 2*len(l.Root):
			if id, err := hex.DecodeString(text); err == nil {
				copy(l.Root[:], id)
			}
		case a.Key == attrSpanName && isText && dictLink != 0:
			name = text
		default:
			rest = append(rest, index)
		}
	}
	if name != "" && l.Root.IsZero() {
		l.Root = l.Span // linked to local roots: a name is always the root's
	}
	if name != "" {
		j.p.SpanNames[l.Root] = name
	}
	linkIndex, ok := j.links[l]
	if !ok {
		linkIndex = len(j.p.Links)
		j.links[l] = linkIndex
		j.p.Links = append(j.p.Links, l)
	}
	return linkIndex, j.labelSet(rest), nil
}

func (j *joiner) labelSet(set []uint32) int {
	key := j.sets.index(set)
	if i, ok := j.labels[key]; ok {
		return i
	}
	var labels []profile.Label
	seen := map[string]bool{}
	for _, index := range set {
		label, ok := asLabel(j.attributes[index])
		if ok && !seen[label.Key] {
			labels = append(labels, label)
			seen[label.Key] = true
		}
	}
	i := 0
	if len(labels) > 0 {
		i = len(j.p.LabelSets)
		j.p.LabelSets = append(j.p.LabelSets, labels)
	}
	j.labels[key] = i
	return i
}

// asLabel reports whether a label can hold the attribute.
func asLabel(a profile.Attribute) (profile.Label, bool) {
	l := profile.Label{Key: a.Key}
	switch v := a.Value.(type) {
	case string:
		l.Str = v
	case int64:
		l.Num = v
	case bool:
		l.Str = strconv.FormatBool(v)
	case float64:
		l.Str = strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return l, false
	}
	return l, true
}
