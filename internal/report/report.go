// Package report tells what the spans of a program cost, from its profiles and
// a record of its spans.
package report

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/google/pprof/profile"
)

// Span is one ended span, a line of the record.
type Span struct {
	Name   string
	SpanID string `json:"span_id"`
	Start  int64  // Unix nanoseconds
	End    int64
}

// Record is what a program wrote about itself.
type Record struct {
	Spans []Span
	PID   int
	// CPU is the processor time of the whole process, as it saw it itself.
	CPU time.Duration
}

// ReadRecord reads one JSON object a line: spans, and at the end of the program
// {"process": {"pid": …, "cpu": nanoseconds}}.
func ReadRecord(r io.Reader) (Record, error) {
	var record Record
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		var line struct {
			Span
			Process *struct {
				PID int
				CPU time.Duration
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return record, fmt.Errorf("line %d of the record of spans: %w", n, err)
		}
		if line.Process != nil {
			record.PID, record.CPU = line.Process.PID, line.Process.CPU
		} else {
			record.Spans = append(record.Spans, line.Span)
		}
	}
	return record, lines.Err()
}

// Row is what the spans of one name cost.
type Row struct {
	Name     string
	Count    int           // of spans, 0 for what is no span
	Duration time.Duration // of all of them
	CPU      time.Duration
	Wall     time.Duration
	// Functions on top of the stack, most CPU first.
	Functions []Function
}

// Function is a function's own CPU time within a Row.
type Function struct {
	Name string
	CPU  time.Duration
}

// Names of rows for samples that belong to no recorded span.
const (
	NoSpan      = "(no span)"
	UnknownSpan = "(not recorded)" // such as a span that had not ended
)

// Rows adds profiles up by the names of the spans that were current, exactly:
// what a child span cost is not in its parent's row. Most CPU comes first.
func Rows(spans []Span, profiles []*profile.Profile) ([]Row, error) {
	names := map[string]string{"": NoSpan}
	rows := map[string]*Row{}
	row := func(name string) *Row {
		if rows[name] == nil {
			rows[name] = &Row{Name: name}
		}
		return rows[name]
	}
	for _, s := range spans {
		names[s.SpanID] = s.Name
		r := row(s.Name)
		r.Count++
		r.Duration += time.Duration(s.End - s.Start)
	}
	functions := map[string]map[string]time.Duration{}
	for _, p := range profiles {
		cpu, wall := valueIndex(p, "cpu"), valueIndex(p, "wall")
		if cpu < 0 || wall < 0 {
			return nil, errors.New("a profile has no values cpu and wall")
		}
		for _, s := range p.Sample {
			name, ok := names[spanOf(s)]
			if !ok {
				name = UnknownSpan
			}
			r := row(name)
			r.CPU += time.Duration(s.Value[cpu])
			r.Wall += time.Duration(s.Value[wall])
			if functions[name] == nil {
				functions[name] = map[string]time.Duration{}
			}
			functions[name][leaf(s)] += time.Duration(s.Value[cpu])
		}
	}
	list := make([]Row, 0, len(rows))
	for name, r := range rows {
		r.Functions = ranked(functions[name])
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

func ranked(cpu map[string]time.Duration) []Function {
	var list []Function
	for name, d := range maps.All(cpu) {
		if d > 0 {
			list = append(list, Function{name, d})
		}
	}
	slices.SortFunc(list, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func valueIndex(p *profile.Profile, typ string) int {
	return slices.IndexFunc(p.SampleType, func(v *profile.ValueType) bool { return v.Type == typ && v.Unit == "nanoseconds" })
}

// spanOf returns the id of the exact span, or of the local root if samples are
// linked to those.
func spanOf(s *profile.Sample) string {
	for _, key := range []string{"active_span_id", "span_id"} {
		if values := s.Label[key]; len(values) > 0 {
			return values[0]
		}
	}
	return ""
}

func leaf(s *profile.Sample) string {
	if len(s.Location) == 0 || len(s.Location[0].Line) == 0 || s.Location[0].Line[0].Function == nil {
		return "?"
	}
	return s.Location[0].Line[0].Function.Name
}
