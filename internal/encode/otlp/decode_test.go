package otlp

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/profiles/v1development"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	wire "go.opentelemetry.io/proto/slim/otlp/profiles/v1development"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spanflame/spanflame/internal/encode"
	"github.com/spanflame/spanflame/internal/encode/otlp/otlpcheck"
	"github.com/spanflame/spanflame/profile"
)

func TestRoundTrip(t *testing.T) {
	second := shop()
	second.Start += second.Duration
	for profiles, list := range map[string][]*profile.Profile{
		"shop": {shop(), second}, "small": {random(6, 20)}, "large": {random(7, 500)},
	} {
		for name, o := range allOptions {
			t.Run(profiles+" "+name, func(t *testing.T) {
				first, _ := encoded(t, list, o)
				decoded, err := Decode(first)
				if err != nil {
					t.Fatal(err)
				}
				if len(decoded) != len(list) {
					t.Fatalf("%d profiles, want %d", len(decoded), len(list))
				}
				for i, p := range decoded {
					if diff := cmp.Diff(list[i].Resource, p.Resource); diff != "" {
						t.Errorf("resource: -want +got\n%s", diff)
					}
					if diff := cmp.Diff(list[i].Types, p.Types); diff != "" {
						t.Errorf("types: -want +got\n%s", diff)
					}
					if p.PID != 4711 || p.Start != list[i].Start || p.Duration != list[i].Duration {
						t.Errorf("pid %d, start %d, duration %d", p.PID, p.Start, p.Duration)
					}
				}
				// What was decoded says the same again.
				_, r := encoded(t, decoded, o)
				if diff := cmp.Diff(expected(list, o), told(r)); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
			})
		}
	}
}

func TestDecodeLinks(t *testing.T) {
	exact := profile.Link{Trace: traceA, Span: childA, Root: rootA}
	root := profile.Link{Trace: traceA, Span: rootA, Root: rootA}
	for name, tt := range map[string]struct {
		o    Options
		want []profile.Link
	}{
		"all":       {Options{}, []profile.Link{{}, exact, root, {Trace: traceB, Span: rootB}}},
		"root":      {Options{Scope: ScopeRoot}, []profile.Link{{}, root}},
		"pyroscope": {Options{Pyroscope: true}, []profile.Link{{}, root}},
	} {
		b, _ := encoded(t, []*profile.Profile{shop()}, tt.o)
		decoded, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		p := decoded[0]
		if diff := cmp.Diff(tt.want, p.Links); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		if diff := cmp.Diff(map[profile.SpanID]string{rootA: "POST /checkout"}, p.SpanNames); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// foreign is a request as others write it.
func foreign() *collector.ExportProfilesServiceRequest {
	str := func(s string) *common.AnyValue {
		return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
	}
	list := func(values ...*common.AnyValue) *common.AnyValue {
		return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: values}}}
	}
	return &collector.ExportProfilesServiceRequest{
		Dictionary: &wire.ProfilesDictionary{
			MappingTable:  []*wire.Mapping{{}, {MemoryStart: 1, MemoryLimit: 2}},
			LocationTable: []*wire.Location{{}, {Lines: []*wire.Line{{FunctionIndex: 1, Line: 5}, {FunctionIndex: 2, Line: math.MaxInt64}}}, {Address: 0xabc, MappingIndex: 1}},
			FunctionTable: []*wire.Function{{}, {NameStrindex: 1, FilenameStrindex: 3}, {NameStrindex: 2}},
			LinkTable:     []*wire.Link{{}, {TraceId: []byte("short"), SpanId: rootA[:]}},
			StringTable:   []string{"", "inlined", "caller", "file.c", "service.name", "shop", "flag", "samples", "count", "list"},
			AttributeTable: []*wire.KeyValueAndUnit{{}, {KeyStrindex: 6, Value: &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: true}}},
				{KeyStrindex: 9, Value: list(str("x"))}, {KeyStrindex: 6, Value: str("again")}},
			StackTable: []*wire.Stack{{}, {LocationIndices: []int32{1, 2}}},
		},
		ResourceProfiles: []*wire.ResourceProfiles{{
			Resource: &resource.Resource{Attributes: []*common.KeyValue{
				{KeyStrindex: 4, Value: &common.AnyValue{Value: &common.AnyValue_StringValueStrindex{StringValueStrindex: 5}}}, // as the Collector writes it
				{Key: "nested", Value: list(list(str("x")))},
				{Key: "mixed", Value: list(str("x"), &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: 1}})},
				{Key: "none", Value: list()},
			}},
			ScopeProfiles: []*wire.ScopeProfiles{{Profiles: []*wire.Profile{
				{SampleType: &wire.ValueType{TypeStrindex: 7, UnitStrindex: 8}, TimeUnixNano: math.MaxUint64, Samples: []*wire.Sample{
					{StackIndex: 1, LinkIndex: 1, AttributeIndices: []int32{1, 2, 3, 0}, TimestampsUnixNano: []uint64{1, 2, 3}},
					{StackIndex: 1, Values: []int64{2, 5}, TimestampsUnixNano: []uint64{1, 2}},
				}},
				{SampleType: &wire.ValueType{TypeStrindex: 7, UnitStrindex: 8}, TimeUnixNano: math.MaxUint64},
			}}},
		}},
	}
}

func TestDecodeForeign(t *testing.T) {
	b, err := proto.Marshal(foreign())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	want := []*profile.Profile{{
		Resource:  []profile.Attribute{{Key: "service.name", Value: "shop"}, {Key: "none", Value: []string{}}},
		Start:     math.MaxInt64,
		Types:     []profile.ValueType{{Type: "samples", Unit: "count", Period: 1}},
		Frames:    []profile.Frame{{Function: "inlined", File: "file.c", Line: 5}, {Function: "caller"}, {Function: "0xabc"}},
		Stacks:    [][]int{{0, 1, 2}},
		Links:     []profile.Link{{}, {Span: rootA}},
		SpanNames: map[profile.SpanID]string{},
		LabelSets: [][]profile.Label{nil, {{Key: "flag", Str: "true"}}},
		Samples:   []profile.Sample{{Stack: 0, Link: 1, Labels: 1, Values: []int64{3}}, {Stack: 0, Values: []int64{7}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestDecodeRefuses(t *testing.T) {
	profiles := func(r *collector.ExportProfilesServiceRequest) []*wire.Profile {
		return r.ResourceProfiles[0].ScopeProfiles[0].Profiles
	}
	for want, spoil := range map[string]func(r *collector.ExportProfilesServiceRequest){
		"stack_table index 9 is out of range":     func(r *collector.ExportProfilesServiceRequest) { profiles(r)[0].Samples[0].StackIndex = 9 },
		"stack_table index -1 is out of range":    func(r *collector.ExportProfilesServiceRequest) { profiles(r)[0].Samples[0].StackIndex = -1 },
		"link_table index 2 is out of range":      func(r *collector.ExportProfilesServiceRequest) { profiles(r)[0].Samples[0].LinkIndex = 2 },
		"attribute_table index 4 is out of range": func(r *collector.ExportProfilesServiceRequest) { profiles(r)[0].Samples[0].AttributeIndices[0] = 4 },
		"string_table index 10 is out of range":   func(r *collector.ExportProfilesServiceRequest) { profiles(r)[0].SampleType.UnitStrindex = 10 },
		"function_table index 3 is out of range": func(r *collector.ExportProfilesServiceRequest) {
			r.Dictionary.LocationTable[1].Lines[0].FunctionIndex = 3
		},
		"location_table index 3 is out of range":  func(r *collector.ExportProfilesServiceRequest) { r.Dictionary.StackTable[1].LocationIndices[0] = 3 },
		"string_table index 4096 is out of range": func(r *collector.ExportProfilesServiceRequest) { r.Dictionary.FunctionTable[1].NameStrindex = 4096 },
		"attribute_table index 99 is out of range": func(r *collector.ExportProfilesServiceRequest) {
			r.Dictionary.LocationTable[1].AttributeIndices = []int32{99}
		},
	} {
		r := foreign()
		spoil(r)
		b, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(b); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	b, _ := encoded(t, []*profile.Profile{shop()}, Options{})
	for cut := 1; cut < len(b); cut++ {
		_, _ = Decode(b[:cut])
	}
}

// Short requests that are made to be huge, or slow to read.
func TestDecodeIsBounded(t *testing.T) {
	many := func(n int, b []byte) []byte { return bytes.Repeat(b, n) }
	in := encode.AppendBytes
	lines := in(nil, dictLocations, many(2_000, in(nil, locationLines, nil)))
	deep := in(nil, dictStacks, in(nil, stackLocations, make([]byte, 2_000)))
	samples := in(nil, profileSamples, encode.AppendUint(nil, sampleStack, 0))
	wrap := func(profiles []byte) []byte {
		return in(nil, requestResourceProfiles, in(nil, resourceProfilesScopes, profiles))
	}
	for name, b := range map[string][]byte{
		"a deep stack of inlined calls": append(wrap(in(nil, scopeProfilesProfiles, samples)), in(nil, requestDictionary, append(lines, deep...))...),
		"empty profiles":                wrap(many(2_000, in(nil, scopeProfilesProfiles, nil))),
		"entries of the dictionary":     in(nil, requestDictionary, many(70_000, in(nil, dictStacks, nil))),
		"attributes of a sample": append(wrap(many(100, in(nil, scopeProfilesProfiles, in(nil, profileSamples, in(nil, sampleAttributes, make([]byte, 2_000)))))),
			in(nil, requestDictionary, in(nil, dictAttributes, nil))...),
		"a resource of lists": in(nil, requestResourceProfiles, in(nil, resourceProfilesResource, in(nil, resourceAttributes,
			in(nil, keyValueValue, in(nil, anyArray, many(70_000, in(nil, 1, nil))))))),
	} {
		if _, err := decode(b, 1<<16); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Errors are logged: they must not give content away.
func TestErrorsHoldNoContent(t *testing.T) {
	p := shop()
	p.Resource = append(p.Resource, profile.Attribute{Key: "key", Value: "s3cret"})
	b := Encode(nil, []*profile.Profile{p}, Options{})
	for i := range b {
		spoiled := bytes.Clone(b)
		spoiled[i] ^= 0xff
		_, err := Decode(spoiled)
		if text := fmt.Sprint(err, otlpcheck.Check(spoiled)); strings.Contains(text, "s3cret") || strings.Contains(text, "shop") {
			t.Fatalf("byte %d: %s", i, text)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, o := range allOptions {
		f.Add(Encode(nil, []*profile.Profile{shop()}, o))
		f.Add(Encode(nil, []*profile.Profile{random(8, 10)}, o))
	}
	if b, err := proto.Marshal(foreign()); err == nil {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := Decode(b)
		if err != nil {
			return
		}
		again := Encode(nil, first, Options{})
		if checkable(first) {
			if err := otlpcheck.Check(again); err != nil {
				t.Fatalf("decoded and encoded:\n%v", err)
			}
		}
		second, err := Decode(again)
		if err != nil {
			t.Fatalf("decode what was encoded: %v", err)
		}
		if want, got := sums(first), sums(second); want != got {
			t.Fatalf("sum of values %d, then %d", want, got)
		}
	})
}

// checkable reports whether a profile says enough for a good request.
func checkable(list []*profile.Profile) bool {
	for _, p := range list {
		if p.Start == 0 {
			return false
		}
		for _, t := range p.Types {
			if t.Type == "" || t.Unit == "" || (t.PeriodType != "" && t.PeriodUnit == "") {
				return false
			}
		}
		for _, s := range p.Samples {
			for _, v := range s.Values {
				if v < 0 {
					return false // sums may be zero
				}
			}
		}
	}
	return len(list) > 0 && sums(list) != 0
}

func sums(list []*profile.Profile) (sum int64) {
	for _, p := range list {
		for _, s := range p.Samples {
			for _, v := range s.Values {
				sum += v
			}
		}
	}
	return sum
}
