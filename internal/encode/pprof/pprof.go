// Package pprof turns profiles into pprof files and back. A file is written once
// a minute, so it stands on github.com/google/pprof, not on code of our own.
package pprof

import (
	"cmp"
	"fmt"
	"io"
	"strconv"

	gprofile "github.com/google/pprof/profile"

	"github.com/spanflame/spanflame/internal/encode"
	"github.com/spanflame/spanflame/profile"
)

// Labels of a sample. All are strings: numeric ones are left out by Pyroscope
// and cannot be searched by `go tool pprof -tagfocus`.
const (
	labelTrace        = "trace_id"       // 32 hexadecimal digits
	labelRoot         = "span_id"        // of the local root, 16 hexadecimal digits
	labelRootName     = "span_name"      // of the local root
	labelSpan         = "active_span_id" // the exact span
	labelThread       = "thread_id"      // decimal
	labelThreadName   = "thread_name"
	labelNativeThread = "native_thread_id" // decimal
)

// labelNames maps keys of the profile to those of the file.
var labelNames = map[string]string{
	profile.LabelThreadID:       labelThread,
	profile.LabelThreadName:     labelThreadName,
	profile.LabelNativeThreadID: labelNativeThread,
}

const defaultType = "cpu"

// Encode writes p as one gzipped file with all its value types; its default is
// cpu where p has it. Samples whose values are all zero are left out. The error
// is that of w, or says what makes p impossible to write.
func Encode(w io.Writer, p *profile.Profile) error {
	if len(p.Types) == 0 {
		return fmt.Errorf("encode pprof: the profile has no value type")
	}
	e := encoder{p: p, contexts: map[[2]int]map[string][]string{}}
	e.header()
	e.frames()
	e.samples()
	if err := e.out.Write(w); err != nil {
		return fmt.Errorf("encode pprof: %w", err)
	}
	return nil
}

type encoder struct {
	p         *profile.Profile
	out       gprofile.Profile
	locations []*gprofile.Location // by frame
	// contexts holds labels by link and label set. The samples share them.
	contexts map[[2]int]map[string][]string
}

func (e *encoder) header() {
	e.out.TimeNanos, e.out.DurationNanos = e.p.Start, e.p.Duration
	period := e.p.Types[0]
	for _, t := range e.p.Types {
		e.out.SampleType = append(e.out.SampleType, &gprofile.ValueType{Type: encode.Text(t.Type), Unit: encode.Text(t.Unit)})
		if t.Type == defaultType {
			e.out.DefaultSampleType = defaultType
			period = t
		}
	}
	e.out.PeriodType = &gprofile.ValueType{
		Type: encode.Text(cmp.Or(period.PeriodType, period.Type)),
		Unit: encode.Text(cmp.Or(period.PeriodUnit, period.Unit)),
	}
	e.out.Period = max(period.Period, 1)
	// Without a mapping that says it is symbolized, `go tool pprof` makes one
	// up and looks for its binary.
	e.out.Mapping = []*gprofile.Mapping{{
		ID: 1, HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true,
	}}
}

// frames makes one location for each frame.
func (e *encoder) frames() {
	type key struct {
		name, file string
		start      int32
	}
	functions := map[key]*gprofile.Function{}
	e.locations = make([]*gprofile.Location, len(e.p.Frames))
	for i, f := range e.p.Frames {
		k := key{encode.Text(f.Function), encode.Text(f.File), f.StartLine}
		function := functions[k]
		if function == nil {
			// No system name: one that is equal to the name would be taken for
			// mangled C++, and <lambda> cut off as its template arguments.
			function = &gprofile.Function{ID: uint64(len(functions) + 1), Name: k.name, Filename: k.file, StartLine: int64(k.start)}
			functions[k] = function
			e.out.Function = append(e.out.Function, function)
		}
		e.locations[i] = &gprofile.Location{
			ID: uint64(i + 1), Mapping: e.out.Mapping[0],
			Line: []gprofile.Line{{Function: function, Line: int64(f.Line)}},
		}
	}
	e.out.Location = e.locations
}

func (e *encoder) samples() {
	for i := range e.p.Samples {
		s := &e.p.Samples[i]
		nothing := true
		for _, v := range s.Values {
			nothing = nothing && v == 0
		}
		if nothing {
			continue
		}
		stack := e.p.Stacks[s.Stack]
		locations := make([]*gprofile.Location, len(stack))
		for j, f := range stack {
			locations[j] = e.locations[f]
		}
		context := [2]int{s.Link, s.Labels}
		labels, ok := e.contexts[context]
		if !ok {
			labels = e.labels(e.p.Links[s.Link], e.p.LabelSets[s.Labels])
			e.contexts[context] = labels
		}
		e.out.Sample = append(e.out.Sample, &gprofile.Sample{Location: locations, Value: s.Values, Label: labels})
	}
}

// labels are there when they say something.
func (e *encoder) labels(l profile.Link, set []profile.Label) map[string][]string {
	labels := map[string][]string{}
	add := func(key, value string) {
		if key != "" && value != "" {
			labels[key] = []string{encode.Text(value)}
		}
	}
	for _, label := range set {
		value := label.Str
		if value == "" {
			value = strconv.FormatInt(label.Num, 10)
		}
		add(encode.Text(cmp.Or(labelNames[label.Key], label.Key)), value)
	}
	if !l.Trace.IsZero() {
		add(labelTrace, l.Trace.String())
	}
	if !l.Span.IsZero() {
		add(labelSpan, l.Span.String())
	}
	if !l.Root.IsZero() {
		add(labelRoot, l.Root.String())
		add(labelRootName, e.p.SpanNames[l.Root])
	}
	return labels
}
