package report

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

const record = `{"name": "checkout", "span_id": "a1", "parent": "", "start": 1000000000, "end": 1100000000}
{"name": "checkout", "span_id": "a2", "parent": "", "start": 1000000000, "end": 1300000000}
{"name": "wait for a slow upstream in another place", "span_id": "b1", "start": 0, "end": 5000000000}
{"process": {"pid": 7, "cpu": 300000000}}
`

// pprofOf builds a profile by hand: spanflame's own encoder is not under test.
func pprofOf(samples ...*profile.Sample) *profile.Profile {
	return &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "wall", Unit: "nanoseconds"}, {Type: "cpu", Unit: "nanoseconds"}},
		Sample:     samples,
	}
}

func sample(function, span string, wall, cpu time.Duration) *profile.Sample {
	s := &profile.Sample{
		Value:    []int64{int64(wall), int64(cpu)},
		Location: []*profile.Location{{Line: []profile.Line{{Function: &profile.Function{Name: function}}}}},
	}
	if span != "" {
		s.Label = map[string][]string{"span_id": {"a1"}, "active_span_id": {span}}
	}
	return s
}

func TestTable(t *testing.T) {
	const ms = time.Millisecond
	rec, err := ReadRecord(strings.NewReader(record))
	if err != nil {
		t.Fatal(err)
	}
	if rec.PID != 7 || rec.CPU != 300*ms || len(rec.Spans) != 3 {
		t.Fatalf("record: %+v", rec)
	}
	rows, err := Rows(rec.Spans, []*profile.Profile{
		pprofOf(sample("price_basket", "a1", 100*ms, 90*ms), sample("json.dumps", "a2", 20*ms, 10*ms)),
		pprofOf(
			sample("price_basket", "a2", 100*ms, 100*ms),
			sample("select", "", 1900*ms, 5*ms),
			sample("a_function_with_a_name_that_does_not_fit_here", "b1", 10*ms, 5*ms),
			sample("late", "ff", 1*ms, 0)),
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := WriteTable(&out, rows); err != nil {
		t.Fatal(err)
	}
	want := `
span                      count    total     mean      cpu     wall  top functions by cpu
checkout                      2   400 ms   200 ms   200 ms   220 ms  price_basket 95%, json.dumps 5%
(no span)                                           5.0 ms   1.90 s  select 100%
wait for a slow upstrea…      1   5.00 s   5.00 s   5.0 ms  10.0 ms  a_function_with_a_name_th… 100%
(not recorded)                                           -   1.0 ms
`
	if diff := cmp.Diff(want, "\n"+out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for line := range strings.Lines(out.String()) {
		if utf8.RuneCountInString(line) > 101 {
			t.Errorf("over 100 columns: %s", line)
		}
	}
}

func TestRecordIsCut(t *testing.T) {
	if _, err := ReadRecord(strings.NewReader(record + `{"name": "hal`)); err == nil || !strings.Contains(err.Error(), "line 5") {
		t.Errorf("got %v", err)
	}
}

func TestProfileWithoutWall(t *testing.T) {
	p := pprofOf()
	p.SampleType[0].Type = "off_cpu"
	if _, err := Rows(nil, []*profile.Profile{p}); err == nil {
		t.Error("no error")
	}
}
