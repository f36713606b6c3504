package otlp

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/profiles/v1development"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	wire "go.opentelemetry.io/proto/slim/otlp/profiles/v1development"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/spanflame/spanflame/internal/encode/otlp/otlpcheck"
	"github.com/spanflame/spanflame/profile"
)

var update = flag.Bool("update", false, "rewrite golden files")

var allOptions = map[string]Options{
	"all":       {},
	"root":      {Scope: ScopeRoot, Version: "1.2.3"},
	"pyroscope": {Pyroscope: true, Version: "1.2.3"},
}

// encoded encodes, checks the rules of the format, and returns the request as
// the generated messages read it.
func encoded(t *testing.T, profiles []*profile.Profile, o Options) ([]byte, *collector.ExportProfilesServiceRequest) {
	t.Helper()
	b := Encode(nil, profiles, o)
	if err := otlpcheck.Check(b); err != nil {
		t.Fatalf("bad request:\n%v", err)
	}
	var r collector.ExportProfilesServiceRequest
	if err := proto.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return b, &r
}

// told is everything a receiver gets to know, one line for each sample.
func told(r *collector.ExportProfilesServiceRequest) map[string]int64 {
	d := r.Dictionary
	s := func(i int32) string { return d.StringTable[i] }
	lines := map[string]int64{}
	for _, rp := range r.ResourceProfiles {
		for _, p := range rp.ScopeProfiles[0].Profiles {
			for _, sample := range p.Samples {
				var stack, attributes []string
				for _, i := range d.StackTable[sample.StackIndex].LocationIndices {
					l := d.LocationTable[i]
					f := d.FunctionTable[l.Lines[0].FunctionIndex]
					frameType := ""
					for _, a := range l.AttributeIndices {
						frameType = s(d.AttributeTable[a].KeyStrindex) + "=" + text(d.AttributeTable[a].Value)
					}
					stack = append(stack, fmt.Sprintf("%s %s:%d (%d) %s", s(f.NameStrindex), s(f.FilenameStrindex), l.Lines[0].Line, f.StartLine, frameType))
				}
				for _, i := range sample.AttributeIndices {
					attributes = append(attributes, s(d.AttributeTable[i].KeyStrindex)+"="+text(d.AttributeTable[i].Value))
				}
				link := d.LinkTable[sample.LinkIndex]
				key := fmt.Sprintf("%s %s %d %d %d %x %x %v %v", s(p.SampleType.TypeStrindex), s(p.PeriodType.TypeStrindex),
					p.Period, p.TimeUnixNano, p.DurationNano, link.TraceId, link.SpanId, attributes, stack)
				lines[key] += sample.Values[0]
			}
		}
	}
	return lines
}

func text(v *common.AnyValue) string {
	if s, ok := v.Value.(*common.AnyValue_StringValue); ok {
		return s.StringValue
	}
	return fmt.Sprint(v.GetIntValue())
}

// expected is told, by the shortest way from the profiles.
func expected(profiles []*profile.Profile, o Options) map[string]int64 {
	lines := map[string]int64{}
	toRoot := o.Scope == ScopeRoot || o.Pyroscope
	for _, p := range profiles {
		for _, sample := range p.Samples {
			var stack, attributes []string
			for _, i := range p.Stacks[sample.Stack] {
				f := p.Frames[i]
				frameType := ""
				if f.Type != "" {
					frameType = "profile.frame.type=" + f.Type
				}
				stack = append(stack, fmt.Sprintf("%s %s:%d (%d) %s", f.Function, f.File, f.Line, f.StartLine, frameType))
			}
			for _, l := range p.LabelSets[sample.Labels] {
				switch {
				case l.Key == profile.LabelNativeThreadID, l.Key == profile.LabelThreadID && o.Pyroscope:
				case l.Str != "":
					attributes = append(attributes, l.Key+"="+l.Str)
				default:
					attributes = append(attributes, fmt.Sprint(l.Key, "=", l.Num))
				}
			}
			link := p.Links[sample.Link]
			if !link.Root.IsZero() && !toRoot {
				attributes = append(attributes, "spanflame.local_root.span_id="+link.Root.String())
			}
			if name := p.SpanNames[link.Root]; name != "" {
				attributes = append(attributes, "span_name="+name)
			}
			if toRoot {
				link.Span = link.Root
			}
			if link.Span.IsZero() {
				link = profile.Link{}
			}
			for i, typ := range p.Types {
				if sample.Values[i] != 0 {
					lines[fmt.Sprintf("%s %s %d %d %d %s %s %v %v", typ.Type, typ.PeriodType, typ.Period, p.Start, p.Duration,
						link.Trace, link.Span, attributes, stack)] += sample.Values[i]
				}
			}
		}
	}
	return lines
}

func TestEncodeSaysWhatTheProfileSays(t *testing.T) {
	second := shop()
	second.Start += second.Duration
	for profiles, list := range map[string][]*profile.Profile{
		"shop": {shop()}, "two windows": {shop(), second}, "small": {random(1, 20)},
		"large": {random(2, 500)}, "several": {random(3, 50), random(4, 50), shop()},
	} {
		for name, o := range allOptions {
			t.Run(profiles+" "+name, func(t *testing.T) {
				b, r := encoded(t, list, o)
				if diff := cmp.Diff(expected(list, o), told(r)); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
				canonical, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(b, canonical) {
					t.Errorf("%d bytes, the generated messages write %d others", len(b), len(canonical))
				}
				if scope := r.ResourceProfiles[0].ScopeProfiles[0].Scope; scope.Name != "spanflame" || scope.Version != o.Version {
					t.Errorf("scope %v", scope)
				}
			})
		}
	}
}

func TestEncodeAppends(t *testing.T) {
	b := Encode([]byte("before"), []*profile.Profile{shop()}, Options{})
	if want := Encode(nil, []*profile.Profile{shop()}, Options{}); string(b) != "before"+string(want) {
		t.Error("what was there changed")
	}
}

func TestEncodeNothing(t *testing.T) {
	empty := shop()
	for i := range empty.Samples {
		clear(empty.Samples[i].Values)
	}
	for name, list := range map[string][]*profile.Profile{"no profile": nil, "no samples": {{}}, "no values": {empty}} {
		if b := Encode(nil, list, Options{}); len(b) != 0 {
			t.Errorf("%s: %d bytes", name, len(b))
		}
	}
	onlyCPU := shop()
	for i := range onlyCPU.Samples {
		onlyCPU.Samples[i].Values[1] = 0
	}
	_, r := encoded(t, []*profile.Profile{onlyCPU, empty}, Options{})
	if n := len(r.ResourceProfiles); n != 1 {
		t.Errorf("%d resources", n)
	}
	if n := len(r.ResourceProfiles[0].ScopeProfiles[0].Profiles); n != 1 {
		t.Errorf("%d profiles", n)
	}
}

func TestEncodeMends(t *testing.T) {
	p := shop()
	p.Frames[0].Function = "burn\xff"
	p.Frames[1].Function = "burn\xfe"
	p.Frames[0].Line, p.Frames[1].Line, p.Frames[1].StartLine = -1, -5, p.Frames[0].StartLine
	p.LabelSets[1][1].Str = "\xed\xa0\x80"
	p.SpanNames[rootA] = "POST \xc3"
	p.Types[1].PeriodType, p.Types[1].Period = "", 0
	p.Resource = []profile.Attribute{
		{Key: "twice", Value: "first"}, {Key: "odd\xff", Value: "\xff"}, {Key: "twice", Value: "last"},
		{Key: "", Value: "no key"}, {Key: "unknown type", Value: struct{}{}},
	}
	_, r := encoded(t, []*profile.Profile{p}, Options{})
	resource := r.ResourceProfiles[0].Resource
	got := map[string]string{}
	for _, a := range resource.Attributes {
		got[a.Key] = a.Value.GetStringValue()
	}
	if want := map[string]string{"odd\uFFFD": "\uFFFD", "twice": "last"}; !maps.Equal(got, want) || resource.DroppedAttributesCount != 3 {
		t.Errorf("resource %v, %d dropped", got, resource.DroppedAttributesCount)
	}
	wall := r.ResourceProfiles[0].ScopeProfiles[0].Profiles[1]
	if name := r.Dictionary.StringTable[wall.PeriodType.TypeStrindex]; name != "wall" || wall.Period != 1 {
		t.Errorf("period %d of type %q", wall.Period, name)
	}
}

func TestEncodeGolden(t *testing.T) {
	for name, o := range allOptions {
		_, r := encoded(t, []*profile.Profile{shop()}, o)
		got := indented(t, r)
		file := filepath.Join("testdata", name+".json")
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: -want +got\n%s", file, diff)
		}
	}
}

// indented is the request as JSON. protojson varies its spaces on purpose.
func indented(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	b, err = json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

// What a window costs must not grow with its samples.
func TestEncodeAllocations(t *testing.T) {
	for _, n := range []int{100, 5000} {
		list := []*profile.Profile{random(5, n)}
		b := Encode(nil, list, Options{})
		if err := otlpcheck.Check(b); err != nil {
			t.Fatal(err)
		}
		allocs := testing.AllocsPerRun(10, func() { b = Encode(b[:0], list, Options{}) })
		t.Logf("%d samples: %d bytes, %.0f allocations", n, len(b), allocs)
		// Names of local roots are written as hexadecimal: one each.
		if limit := 150 + 2*float64(len(list[0].Links)); allocs > limit {
			t.Errorf("%d samples: %.0f allocations, more than %.0f", n, allocs, limit)
		}
	}
}

func TestCheckFindsBadRequests(t *testing.T) {
	type request = collector.ExportProfilesServiceRequest
	first := func(r *request) *wire.Profile { return r.ResourceProfiles[0].ScopeProfiles[0].Profiles[0] }
	for want, spoil := range map[string]func(r *request){
		"no dictionary":                     func(r *request) { r.Dictionary = nil },
		"mapping_table has no entry 0":      func(r *request) { r.Dictionary.MappingTable = nil },
		"location_table[0] is not zero":     func(r *request) { r.Dictionary.LocationTable = r.Dictionary.LocationTable[1:] },
		"string_table[0] is not":            func(r *request) { r.Dictionary.StringTable[0] = "x" },
		"link_table[0] has trace id":        func(r *request) { r.Dictionary.LinkTable[0] = r.Dictionary.LinkTable[1] },
		"ids of 15 and 8 bytes":             func(r *request) { r.Dictionary.LinkTable[1].TraceId = make([]byte, 15) },
		"link_table[3] is the same":         func(r *request) { r.Dictionary.LinkTable[3] = r.Dictionary.LinkTable[1] },
		"refers to stack_table[99]":         func(r *request) { first(r).Samples[0].StackIndex = 99 },
		"refers to link_table[-1]":          func(r *request) { first(r).Samples[0].LinkIndex = -1 },
		"refers to attribute_table[77]":     func(r *request) { first(r).Samples[0].AttributeIndices[0] = 77 },
		"two attributes with the key":       func(r *request) { first(r).Samples[0].AttributeIndices = []int32{1, 2, 1} },
		"the zero attribute":                func(r *request) { first(r).Samples[0].AttributeIndices = []int32{0} },
		"nothing refers to string_table":    func(r *request) { r.Dictionary.StringTable = append(r.Dictionary.StringTable, "orphan") },
		"string_table[2] is the same":       func(r *request) { r.Dictionary.StringTable[2] = r.Dictionary.StringTable[1] },
		"function_table[2] is the same":     func(r *request) { r.Dictionary.FunctionTable[2] = r.Dictionary.FunctionTable[1] },
		"the zero location":                 func(r *request) { r.Dictionary.StackTable[1].LocationIndices[0] = 0 },
		"has period 0":                      func(r *request) { first(r).Period = 0 },
		"period_type is missing":            func(r *request) { first(r).PeriodType = nil },
		"sample_type is empty":              func(r *request) { first(r).SampleType.TypeStrindex = 0 },
		"has 2 values and 0 timestamps":     func(r *request) { first(r).Samples[0].Values = []int64{1, 2} },
		"has value 0":                       func(r *request) { first(r).Samples[0].Values[0] = 0 },
		"is the same as samples[0]":         func(r *request) { first(r).Samples = append(first(r).Samples, first(r).Samples[0]) },
		"has no samples":                    func(r *request) { first(r).Samples = nil },
		"has no time":                       func(r *request) { first(r).TimeUnixNano = 0 },
		"has no scope name":                 func(r *request) { r.ResourceProfiles[0].ScopeProfiles[0].Scope = nil },
		"has no inline key":                 func(r *request) { r.ResourceProfiles[0].Resource.Attributes[0].Key = "" },
		"has a key that is there twice":     func(r *request) { r.ResourceProfiles[0].Resource.Attributes[0].Key = "canary" },
		"attributes[0] has no value":        func(r *request) { r.ResourceProfiles[0].Resource.Attributes[0].Value = nil },
		"has an id of 3 bytes":              func(r *request) { first(r).ProfileId = []byte("abc") },
		"has 2 bytes of unknown fields":     func(r *request) { first(r).ProtoReflect().SetUnknown([]byte{0x78, 1}) },
		"location_table[1] refers to mappi": func(r *request) { r.Dictionary.LocationTable[1].MappingIndex = 1 },
	} {
		_, r := encoded(t, []*profile.Profile{shop()}, Options{})
		spoil(r)
		b, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := otlpcheck.Check(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := otlpcheck.Check([]byte{0xff}); err == nil {
		t.Error("garbage passes")
	}
}

func BenchmarkEncode(b *testing.B) {
	list := []*profile.Profile{random(5, 5000)}
	buffer := Encode(nil, list, Options{})
	b.SetBytes(int64(len(buffer)))
	b.ReportAllocs()
	for b.Loop() {
		buffer = Encode(buffer[:0], list, Options{})
	}
}
