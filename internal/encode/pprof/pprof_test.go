package pprof

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gprofile "github.com/google/pprof/profile"

	"github.com/spanflame/spanflame/profile"
)

var update = flag.Bool("update", false, "rewrite golden files")

var (
	trace = profile.TraceID{0xaa, 15: 1}
	root  = profile.SpanID{0xa0, 7: 1}
	child = profile.SpanID{0xa0, 7: 2}
)

// shop is a small profile with one of everything.
func shop() *profile.Profile {
	b := profile.NewBuilder(
		profile.ValueType{Type: "wall", Unit: "nanoseconds", PeriodType: "wall", PeriodUnit: "nanoseconds", Period: 10_000_000},
		profile.ValueType{Type: "cpu", Unit: "nanoseconds", PeriodType: "cpu", PeriodUnit: "nanoseconds", Period: 10_000_000},
	)
	frame := func(name string, line, start int32) int {
		return b.Frame(profile.Frame{Function: name, File: "/srv/shop.py", Line: line, StartLine: start})
	}
	burn, lambda, main := frame("burn", 12, 10), frame("Shop.checkout.<locals>.<lambda>", 33, 30), frame("<module>", 90, 1)
	again := frame("burn", 13, 10)
	unseen := b.Stack([]int{b.Frame(profile.Frame{Function: "[cpu not observed]"})})
	deep, other := b.Stack([]int{burn, lambda, main}), b.Stack([]int{again, main})
	thread := b.Labels([]profile.Label{
		{Key: profile.LabelNativeThreadID, Num: 41},
		{Key: profile.LabelThreadID, Num: 0x7f0000000001},
		{Key: profile.LabelThreadName, Str: "MainThread"},
	})
	exact := b.Link(profile.Link{Trace: trace, Span: child, Root: root})
	remote := b.Link(profile.Link{Trace: trace, Span: child})
	b.NameSpan(root, "POST /checkout")
	b.Add(deep, exact, thread, 4e9, 3e9)
	b.Add(other, remote, thread, 2e9, 1e9)
	b.Add(other, 0, thread, 5e9, 0)
	b.Add(unseen, 0, 0, 0, 5e8)
	b.Add(unseen, exact, 0, 0, 0)
	p := b.Build()
	p.Start, p.Duration, p.PID, p.Seq = 1_790_000_000_000_000_000, 60_000_000_000, 4711, 1
	return p
}

func write(t *testing.T, p *profile.Profile) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Encode(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestEncodeGolden(t *testing.T) {
	file := write(t, shop())
	p, err := gprofile.Parse(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	if p.DefaultSampleType != "cpu" {
		t.Errorf("default sample type %q", p.DefaultSampleType)
	}
	for _, f := range p.Function {
		if f.SystemName != "" {
			t.Errorf("%s has a system name: go tool pprof would demangle it", f.Name)
		}
	}
	got := p.String() + "\n"
	name := filepath.Join("testdata", "shop.txt")
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestEncodeLabels(t *testing.T) {
	p, err := gprofile.Parse(bytes.NewReader(write(t, shop())))
	if err != nil {
		t.Fatal(err)
	}
	thread := map[string][]string{"thread_id": {"139637976727553"}, "thread_name": {"MainThread"}, "native_thread_id": {"41"}}
	with := func(more map[string][]string) map[string][]string {
		for k, v := range thread {
			more[k] = v
		}
		return more
	}
	want := []map[string][]string{
		with(map[string][]string{"trace_id": {trace.String()}, "span_id": {root.String()}, "span_name": {"POST /checkout"}, "active_span_id": {child.String()}}),
		with(map[string][]string{"trace_id": {trace.String()}, "active_span_id": {child.String()}}),
		thread,
		nil,
	}
	var got []map[string][]string
	for _, s := range p.Sample {
		got = append(got, s.Label)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestRoundTrip(t *testing.T) {
	want := shop()
	got, err := Decode(bytes.NewReader(write(t, want)))
	if err != nil {
		t.Fatal(err)
	}
	want.PID, want.Seq = 0, 0
	want.Samples = want.Samples[:4] // the rest is zero
	if diff := cmp.Diff(flat(want), flat(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, p := range []*profile.Profile{want, got} {
		p.Frames, p.Stacks, p.Links, p.LabelSets, p.Samples = nil, nil, nil, nil, nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

type flatSample struct {
	Stack  []profile.Frame
	Link   profile.Link
	Labels []profile.Label
	Values []int64
}

func flat(p *profile.Profile) (list []flatSample) {
	for _, s := range p.Samples {
		f := flatSample{Link: p.Links[s.Link], Labels: p.LabelSets[s.Labels], Values: s.Values}
		for _, i := range p.Stacks[s.Stack] {
			f.Stack = append(f.Stack, p.Frames[i])
		}
		list = append(list, f)
	}
	return list
}

// The tool that people have reads the file, silently, and shows names as they
// are.
func TestGoToolPprof(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	p := shop()
	p.Frames[0].File = "/srv/\xff.py" // a path that is no UTF-8
	file := filepath.Join(t.TempDir(), "shop.pprof")
	if err := os.WriteFile(file, write(t, p), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"top": {[]string{"-top"}, []string{`(?m)^Type: cpu$`, `(?m)^Duration: 60s, Total samples = 4500ms`, `4000ms .* burn$`,
			`Shop\.checkout\.<locals>\.<lambda>`, `<module>`, `\[cpu not observed\]`}},
		"wall":  {[]string{"-top", "-sample_index=wall"}, []string{`(?m)^Type: wall$`, `(?m)11s .* burn$`}},
		"lines": {[]string{"-top", "-lines"}, []string{`burn /srv/\x{FFFD}\.py:12`, `burn /srv/shop\.py:13`}},
		"tags": {[]string{"-tags"}, []string{`trace_id: Total`, `span_id: Total`, `span_name: Total`, `POST /checkout`,
			`active_span_id: Total`, `thread_id: Total`, `thread_name: Total`, `native_thread_id: Total`, `MainThread`}},
		"one span": {[]string{"-top", "-tagfocus=span_name=POST /checkout"}, []string{`3s .* burn$`}},
		"one root": {[]string{"-top", "-tagfocus=span_id=" + root.String()}, []string{`3s .* burn$`}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("go", append(append([]string{"tool", "pprof"}, tt.args...), file)...)
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, &stderr)
			}
			if stderr.Len() > 0 {
				t.Errorf("complains: %s", &stderr)
			}
			for _, want := range tt.want {
				if !regexp.MustCompile(`(?m)` + want).MatchString(stdout.String()) {
					t.Errorf("no %s in\n%s", want, &stdout)
				}
			}
		})
	}
}

func TestEncodeFails(t *testing.T) {
	if err := Encode(&bytes.Buffer{}, &profile.Profile{}); err == nil {
		t.Error("a profile without types was written")
	}
	full := errors.New("disk full")
	if err := Encode(failing{full}, shop()); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestDecodeForeign(t *testing.T) {
	inlined, caller := &gprofile.Function{ID: 1, Name: "inlined", Filename: "a.c"}, &gprofile.Function{ID: 2, Name: "caller", StartLine: 3}
	lines := &gprofile.Location{ID: 1, Line: []gprofile.Line{{Function: inlined, Line: 5}, {Function: caller, Line: 1 << 40}}}
	bare := &gprofile.Location{ID: 2, Address: 0xabc}
	in := &gprofile.Profile{
		SampleType: []*gprofile.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"}},
		PeriodType: &gprofile.ValueType{Type: "space", Unit: "bytes"}, Period: 524288, TimeNanos: 1, DurationNanos: 2,
		Function: []*gprofile.Function{inlined, caller}, Location: []*gprofile.Location{lines, bare},
		Sample: []*gprofile.Sample{
			{Location: []*gprofile.Location{lines, bare}, Value: []int64{1, 2},
				NumLabel: map[string][]int64{"bytes": {512}}, Label: map[string][]string{"trace_id": {"no hex"}, "thread_id": {"main"}, "k": {"v", "w"}}},
			{Value: []int64{-1, 0}},
		},
	}
	var b bytes.Buffer
	if err := in.WriteUncompressed(&b); err != nil {
		t.Fatal(err)
	}
	got, err := Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	want := &profile.Profile{
		Start: 1, Duration: 2,
		Types: []profile.ValueType{{Type: "alloc_objects", Unit: "count", PeriodType: "alloc_objects", PeriodUnit: "count", Period: 1},
			{Type: "alloc_space", Unit: "bytes", PeriodType: "alloc_space", PeriodUnit: "bytes", Period: 524288}},
		Frames:    []profile.Frame{{Function: "inlined", File: "a.c", Line: 5}, {Function: "caller", StartLine: 3}, {Function: "0xabc"}},
		Stacks:    [][]int{{0, 1, 2}, nil},
		Links:     []profile.Link{{}},
		SpanNames: map[profile.SpanID]string{},
		LabelSets: [][]profile.Label{nil, {{Key: "k", Str: "v"}, {Key: profile.LabelThreadID, Str: "main"}, {Key: "bytes", Num: 512}}},
		Samples:   []profile.Sample{{Labels: 1, Values: []int64{1, 2}}, {Stack: 1, Values: []int64{-1, 0}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestDecodeIsBounded(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	if _, err := w.Write(make([]byte, 1<<20+1)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := decode(&bomb, 1<<20, maxCalls); !errors.Is(err, ErrTooLarge) {
		t.Errorf("gzip bomb: error %v", err)
	}

	fn := &gprofile.Function{ID: 1, Name: "f"}
	l := &gprofile.Location{ID: 1, Line: make([]gprofile.Line, 1_000)}
	for i := range l.Line {
		l.Line[i].Function = fn
	}
	deep := &gprofile.Sample{Value: []int64{1}}
	for range 1_000 {
		deep.Location = append(deep.Location, l)
	}
	in := &gprofile.Profile{SampleType: []*gprofile.ValueType{{Type: "cpu", Unit: "count"}}, Function: []*gprofile.Function{fn},
		Location: []*gprofile.Location{l}, Sample: []*gprofile.Sample{deep}}
	var b bytes.Buffer
	if err := in.Write(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := decode(&b, maxSize, 1<<16); !errors.Is(err, ErrTooLarge) {
		t.Errorf("inlined calls: error %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	var b bytes.Buffer
	if err := Encode(&b, shop()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	r, err := gzip.NewReader(&b)
	if err != nil {
		f.Fatal(err)
	}
	plain, err := limited(r, maxSize)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(bytes.NewReader(b))
		if err != nil || len(p.Types) == 0 {
			return
		}
		var again bytes.Buffer
		if err := Encode(&again, p); err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(&again); err != nil {
			t.Fatalf("decode what was encoded: %v", err)
		}
	})
}
