// Package otlpcheck checks OTLP profiles requests by the rules of the protocol
// that receivers leave unchecked: the Collector forwards a request with dangling
// references, Pyroscope drops its profiles in silence. It reads requests with
// the generated messages, and so shares no code with the encoder. For tests.
package otlpcheck

import (
	"errors"
	"fmt"
	"slices"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/profiles/v1development"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"
)

// Check returns everything that is wrong with an ExportProfilesServiceRequest:
// an entry 0 of a dictionary table that is missing or not zero, references out
// of range, entries that are there twice or that nothing refers to, samples and
// profiles that a back end would refuse or misread. Its messages hold indexes,
// never attribute values.
func Check(request []byte) error {
	var r collector.ExportProfilesServiceRequest
	if err := proto.Unmarshal(request, &r); err != nil {
		return fmt.Errorf("unmarshal request: %w", err)
	}
	if r.Dictionary == nil {
		return errors.New("no dictionary")
	}
	c := newChecker(r.Dictionary)
	c.entries()
	for i, rp := range r.ResourceProfiles {
		where := fmt.Sprintf("resource_profiles[%d]", i)
		c.known(where, rp)
		c.resource(where, rp)
		for j, sp := range rp.ScopeProfiles {
			where := fmt.Sprintf("%s.scope_profiles[%d]", where, j)
			if sp.Scope.GetName() == "" {
				c.bad("%s has no scope name", where)
			}
			for k, p := range sp.Profiles {
				c.profile(fmt.Sprintf("%s.profiles[%d]", where, k), p)
			}
		}
	}
	c.orphans()
	return errors.Join(c.problems...)
}

type checker struct {
	d        *otlp.ProfilesDictionary
	tables   [7]use
	problems []error
}

// use counts who refers to the entries of a table.
type use struct {
	name string
	by   []int
}

const (
	mappings = iota
	locations
	functions
	links
	texts
	attributes
	stacks
)

func newChecker(d *otlp.ProfilesDictionary) *checker {
	return &checker{d: d, tables: [7]use{
		{"mapping_table", make([]int, len(d.MappingTable))},
		{"location_table", make([]int, len(d.LocationTable))},
		{"function_table", make([]int, len(d.FunctionTable))},
		{"link_table", make([]int, len(d.LinkTable))},
		{"string_table", make([]int, len(d.StringTable))},
		{"attribute_table", make([]int, len(d.AttributeTable))},
		{"stack_table", make([]int, len(d.StackTable))},
	}}
}

func (c *checker) bad(format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf(format, args...))
}

// refer reports whether an index is in range, and counts the reference.
func (c *checker) refer(where string, table int, index int32) bool {
	t := &c.tables[table]
	if index < 0 || int(index) >= len(t.by) {
		c.bad("%s refers to %s[%d] of %d", where, t.name, index, len(t.by))
		return false
	}
	t.by[index]++
	return true
}

func (c *checker) orphans() {
	for _, t := range c.tables {
		for i, by := range t.by {
			if by == 0 && i != 0 {
				c.bad("nothing refers to %s[%d]", t.name, i)
			}
		}
	}
}

func (c *checker) resource(where string, rp *otlp.ResourceProfiles) {
	seen := map[string]bool{}
	for i, a := range rp.Resource.GetAttributes() {
		where := fmt.Sprintf("%s.resource.attributes[%d]", where, i)
		if a.KeyStrindex != 0 || a.Key == "" {
			c.bad("%s has no inline key", where)
		}
		if seen[a.Key] {
			c.bad("%s has a key that is there twice", where)
		}
		seen[a.Key] = true
		c.value(where, a.Value)
	}
	if len(rp.ScopeProfiles) == 0 {
		c.bad("%s is empty", where)
	}
}

// value wants a value that Pyroscope understands: no reference to a string.
func (c *checker) value(where string, v *common.AnyValue) {
	if v.GetValue() == nil {
		c.bad("%s has no value", where)
	}
	if _, ok := v.GetValue().(*common.AnyValue_StringValueStrindex); ok {
		c.bad("%s has a reference for a value", where)
	}
	for i, element := range v.GetArrayValue().GetValues() {
		c.value(fmt.Sprintf("%s[%d]", where, i), element)
	}
}

func (c *checker) profile(where string, p *otlp.Profile) {
	c.known(where, p)
	c.valueType(where+".sample_type", p.SampleType)
	c.valueType(where+".period_type", p.PeriodType)
	if p.Period < 1 {
		c.bad("%s has period %d", where, p.Period)
	}
	if p.TimeUnixNano == 0 {
		c.bad("%s has no time", where)
	}
	if n := len(p.ProfileId); n != 0 && n != 16 {
		c.bad("%s has an id of %d bytes", where, n)
	}
	if len(p.Samples) == 0 {
		c.bad("%s has no samples", where)
	}
	c.indices(where, p.AttributeIndices)
	seen := map[string]int{}
	for i, s := range p.Samples {
		where := fmt.Sprintf("%s.samples[%d]", where, i)
		c.refer(where, stacks, s.StackIndex)
		c.refer(where, links, s.LinkIndex)
		c.indices(where, s.AttributeIndices)
		if len(s.Values) != 1 || len(s.TimestampsUnixNano) != 0 {
			c.bad("%s has %d values and %d timestamps", where, len(s.Values), len(s.TimestampsUnixNano))
		} else if s.Values[0] == 0 {
			c.bad("%s has value 0", where)
		}
		key := fmt.Sprint(s.StackIndex, s.LinkIndex, slices.Sorted(slices.Values(s.AttributeIndices)))
		if first, ok := seen[key]; ok {
			c.bad("%s is the same as samples[%d]", where, first)
		}
		seen[key] = i
	}
}

func (c *checker) valueType(where string, v *otlp.ValueType) {
	switch {
	case v == nil:
		c.bad("%s is missing", where)
	case c.refer(where, texts, v.TypeStrindex) && c.refer(where, texts, v.UnitStrindex):
		if c.d.StringTable[v.TypeStrindex] == "" || c.d.StringTable[v.UnitStrindex] == "" {
			c.bad("%s is empty", where)
		}
	}
}

// indices checks a set of attributes, whose keys have to differ.
func (c *checker) indices(where string, list []int32) {
	keys := map[int32]bool{}
	for _, index := range list {
		if !c.refer(where, attributes, index) {
			continue
		}
		if index == 0 {
			c.bad("%s has the zero attribute", where)
			continue
		}
		key := c.d.AttributeTable[index].KeyStrindex
		if keys[key] {
			c.bad("%s has two attributes with the key string_table[%d]", where, key)
		}
		keys[key] = true
	}
}
