package pprof

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	gprofile "github.com/google/pprof/profile"

	"github.com/spanflame/spanflame/internal/encode"
	"github.com/spanflame/spanflame/profile"
)

// maxSize of a file in bytes, unpacked: gzip can make a thousandfold of it.
const maxSize = 64 << 20

// maxCalls bounds the calls of all stacks together: a short reference to a
// location with many inlined calls can be repeated without end.
const maxCalls = 4 << 20

// ErrTooLarge is returned by [Decode] for a file that unfolds to more than is
// sensible.
var ErrTooLarge = errors.New("decode pprof: file unfolds to more than is sensible")

// Decode reads a pprof file, gzipped or not, from anybody. The labels that
// [Encode] writes become links and span names again. What a profile has no
// place for is left out: mappings, addresses where there are functions,
// comments, second values of a label. Resource, process and frame types are not
// in a pprof file.
func Decode(r io.Reader) (*profile.Profile, error) { return decode(r, maxSize, maxCalls) }

func decode(r io.Reader, size, calls int) (*profile.Profile, error) {
	b, err := read(r, size)
	if err != nil {
		return nil, err
	}
	in, err := gprofile.ParseUncompressed(b)
	if err != nil {
		return nil, fmt.Errorf("decode pprof: %w", err)
	}
	if err := in.CheckValid(); err != nil {
		return nil, fmt.Errorf("decode pprof: %w", err)
	}
	d := decoder{
		in: in,
		p: &profile.Profile{
			Start: in.TimeNanos, Duration: in.DurationNanos,
			Links: []profile.Link{{}}, LabelSets: [][]profile.Label{nil}, SpanNames: map[profile.SpanID]string{},
		},
		frames: map[profile.Frame]int{},
		stacks: map[string]int{},
		links:  map[profile.Link]int{{}: 0},
		labels: map[string]int{"": 0},
		left:   calls,
	}
	d.types()
	for _, s := range in.Sample {
		if err := d.sample(s); err != nil {
			return nil, err
		}
	}
	return d.p, nil
}

// read returns the message that the file holds.
func read(r io.Reader, size int) ([]byte, error) {
	b, err := limited(r, size)
	if err != nil || !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		return b, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("decode pprof: %w", err)
	}
	return limited(unpacked, size)
}

func limited(r io.Reader, size int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(size)+1))
	if err != nil {
		return nil, fmt.Errorf("decode pprof: %w", err)
	}
	if len(b) > size {
		return nil, ErrTooLarge
	}
	return b, nil
}

type decoder struct {
	in     *gprofile.Profile
	p      *profile.Profile
	frames map[profile.Frame]int
	stacks map[string]int // by their frames in decimal
	links  map[profile.Link]int
	labels map[string]int // by their text
	left   int            // calls that may still come
}

// types gives the period to the types that it is of; of the others' none is
// known.
func (d *decoder) types() {
	for _, t := range d.in.SampleType {
		v := profile.ValueType{Type: t.Type, Unit: t.Unit, PeriodType: t.Type, PeriodUnit: t.Unit, Period: 1}
		if p := d.in.PeriodType; p != nil && p.Unit == t.Unit && d.in.Period > 0 {
			v.Period = d.in.Period
		}
		d.p.Types = append(d.p.Types, v)
	}
}

func (d *decoder) sample(s *gprofile.Sample) error {
	var frames []int
	for _, l := range s.Location {
		if d.left -= 1 + len(l.Line); d.left < 0 {
			return ErrTooLarge
		}
		frames = d.location(frames, l)
	}
	key := fmt.Sprint(frames)
	stack, ok := d.stacks[key]
	if !ok {
		stack = len(d.p.Stacks)
		d.stacks[key] = stack
		d.p.Stacks = append(d.p.Stacks, frames)
	}
	out := profile.Sample{Stack: stack, Link: d.link(s), Labels: d.labelSet(s), Values: slices.Clone(s.Value)}
	d.p.Samples = append(d.p.Samples, out)
	return nil
}

// location appends the calls of a location, inlined ones first.
func (d *decoder) location(frames []int, l *gprofile.Location) []int {
	if len(l.Line) == 0 && l.Address != 0 {
		return append(frames, d.frame(profile.Frame{Function: "0x" + strconv.FormatUint(l.Address, 16)}))
	}
	for _, line := range l.Line {
		f := profile.Frame{Line: lineNumber(line.Line)}
		if fn := line.Function; fn != nil {
			f.Function, f.File, f.StartLine = encode.Text(fn.Name), encode.Text(fn.Filename), lineNumber(fn.StartLine)
		}
		frames = append(frames, d.frame(f))
	}
	return frames
}

func (d *decoder) frame(f profile.Frame) int {
	i, ok := d.frames[f]
	if !ok {
		i = len(d.p.Frames)
		d.frames[f] = i
		d.p.Frames = append(d.p.Frames, f)
	}
	return i
}

// lineNumber returns 0, unknown, for what no file has.
func lineNumber(n int64) int32 {
	if n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int32(n)
}

func (d *decoder) link(s *gprofile.Sample) int {
	var l profile.Link
	for key, id := range map[string][]byte{labelTrace: l.Trace[:], labelSpan: l.Span[:], labelRoot: l.Root[:]} {
		readID(id, first(s.Label[key]))
	}
	if name := first(s.Label[labelRootName]); name != "" && !l.Root.IsZero() {
		d.p.SpanNames[l.Root] = encode.Text(name)
	}
	i, ok := d.links[l]
	if !ok {
		i = len(d.p.Links)
		d.links[l] = i
		d.p.Links = append(d.p.Links, l)
	}
	return i
}

func readID(id []byte, text string) {
	if b, err := hex.DecodeString(text); err == nil && len(b) == len(id) {
		copy(id, b)
	}
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// labelSet returns the set of labels that are not in the link.
func (d *decoder) labelSet(s *gprofile.Sample) int {
	var set []profile.Label
	for _, key := range slices.Sorted(maps.Keys(s.Label)) {
		value := encode.Text(first(s.Label[key]))
		switch key {
		case "", labelTrace, labelRoot, labelRootName, labelSpan:
			continue
		case labelThread, labelNativeThread:
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				set = append(set, profile.Label{Key: ours(key), Num: n})
				continue
			}
		}
		set = append(set, profile.Label{Key: encode.Text(ours(key)), Str: value})
	}
	for _, key := range slices.Sorted(maps.Keys(s.NumLabel)) {
		if n := s.NumLabel[key]; key != "" && len(n) > 0 && s.Label[key] == nil {
			set = append(set, profile.Label{Key: encode.Text(ours(key)), Num: n[0]})
		}
	}
	var text strings.Builder
	for _, l := range set {
		fmt.Fprintf(&text, "%q=%q,%d ", l.Key, l.Str, l.Num)
	}
	i, ok := d.labels[text.String()]
	if !ok {
		i = len(d.p.LabelSets)
		d.labels[text.String()] = i
		d.p.LabelSets = append(d.p.LabelSets, set)
	}
	return i
}

// ours is the key of a label in a profile.
func ours(key string) string {
	for name, theirs := range labelNames {
		if theirs == key {
			return name
		}
	}
	return key
}
