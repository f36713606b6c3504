package otlp

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spanflame/spanflame/internal/encode"
	"github.com/spanflame/spanflame/profile"
)

// ErrTooLarge is returned by [Decode] for a request that is short on the wire
// and would be huge in memory, such as one deep stack of many inlined calls.
var ErrTooLarge = errors.New("otlp: request unfolds to more than is sensible")

// maxItems bounds what a request unfolds to: entries of the dictionary, frames
// of stacks, labels and values together. A minute of a big process has about
// 100,000.
const maxItems = 4 << 20

// maxTypes of one profile: more begin another one.
const maxTypes = 64

// Decode reads an ExportProfilesServiceRequest from anybody. The OTLP Profiles
// of one scope with the same time and duration become one profile with several
// types, as [Encode] wrote them.
//
// The request may be hostile: references that lead nowhere are an error, and so
// is a request that would need more memory than is sensible (ErrTooLarge); the
// size of b itself is the caller's to bound. What a profile has no place for is
// left out: mappings, nested attributes, times of single samples. The thread
// ids of the kernel and the number of the profile are not on the wire. Errors
// hold field names and indexes, never content.
func Decode(b []byte) ([]*profile.Profile, error) { return decode(b, maxItems) }

func decode(b []byte, items int) ([]*profile.Profile, error) {
	d := decoder{left: items}
	if err := d.dictionary(b); err != nil {
		return nil, fmt.Errorf("read dictionary: %w", err)
	}
	var profiles []*profile.Profile
	err := encode.Fields(b, func(f encode.Field) error {
		if f.Number != requestResourceProfiles || f.Type != protowire.BytesType {
			return nil
		}
		list, err := d.resourceProfiles(f.Bytes)
		profiles = append(profiles, list...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read profiles: %w", err)
	}
	return profiles, nil
}

// decoder holds the dictionary, each entry read once: a short reference to an
// entry that is long to read could be repeated a million times.
type decoder struct {
	strings    []string
	functions  []profile.Frame   // function, file, start line
	locations  [][]profile.Frame // inlined calls first
	links      []link
	attributes []profile.Attribute
	stacks     [][]byte
	left       int // items that it may still unfold to
}

func (d *decoder) spend(n int) error {
	if d.left -= n; d.left < 0 {
		return ErrTooLarge
	}
	return nil
}

// entry returns an entry of a table. Index 0 is the zero value, also in a table
// that lacks it.
func entry[T any](table []T, name string, index uint64) (v T, err error) {
	if index < uint64(len(table)) {
		return table[index], nil
	}
	if index == 0 {
		return v, nil
	}
	return v, fmt.Errorf("%s index %d is out of range", name, int64(index))
}

func (d *decoder) text(index uint64) (string, error) { return entry(d.strings, "string_table", index) }

func (d *decoder) resourceProfiles(b []byte) ([]*profile.Profile, error) {
	var resource []profile.Attribute
	var list []*profile.Profile
	err := encode.Fields(b, func(f encode.Field) error {
		if f.Type != protowire.BytesType {
			return nil
		}
		switch f.Number {
		case resourceProfilesResource:
			var err error
			resource, err = d.resource(f.Bytes)
			return err
		case resourceProfilesScopes:
			more, err := d.scopeProfiles(f.Bytes)
			list = append(list, more...)
			return err
		}
		return nil
	})
	for _, p := range list {
		p.Resource = resource
		for _, a := range resource {
			if pid, ok := a.Value.(int64); ok && a.Key == attrPID && pid > 0 && pid <= math.MaxInt32 {
				p.PID = int(pid)
			}
		}
	}
	return list, err
}

func (d *decoder) scopeProfiles(b []byte) ([]*profile.Profile, error) {
	var list []*profile.Profile
	var group []header // of the same window
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		p, err := d.profile(group)
		group = group[:0]
		if err == nil && len(p.Samples) > 0 {
			list = append(list, p)
		}
		return err
	}
	err := encode.Fields(b, func(f encode.Field) error {
		if f.Number != scopeProfilesProfiles || f.Type != protowire.BytesType {
			return nil
		}
		h, err := d.header(f.Bytes)
		if err != nil {
			return err
		}
		if !h.joins(group) {
			if err := flush(); err != nil {
				return err
			}
		}
		group = append(group, h)
		return nil
	})
	if err == nil {
		err = flush()
	}
	return list, err
}

// header is an OTLP Profile without its samples.
type header struct {
	start, duration uint64
	typ             profile.ValueType
	body            []byte
}

// joins reports whether h is one more type of the profile that group makes.
func (h *header) joins(group []header) bool {
	if len(group) == maxTypes {
		return false
	}
	for i := range group {
		g := &group[i]
		if g.start != h.start || g.duration != h.duration || g.typ.Type == h.typ.Type && g.typ.Unit == h.typ.Unit {
			return false
		}
	}
	return true
}

func (d *decoder) header(b []byte) (header, error) {
	h := header{body: b, typ: profile.ValueType{Period: 1}}
	err := encode.Fields(b, func(f encode.Field) (err error) {
		switch {
		case f.Number == profileTime && f.Type == protowire.Fixed64Type:
			h.start = f.Num
		case f.Number == profileDuration && f.Type == protowire.VarintType:
			h.duration = f.Num
		case f.Number == profilePeriod && f.Type == protowire.VarintType:
			h.typ.Period = max(int64(f.Num), 1)
		case f.Number == profileType && f.Type == protowire.BytesType:
			h.typ.Type, h.typ.Unit, err = d.valueType(f.Bytes)
		case f.Number == profilePeriodType && f.Type == protowire.BytesType:
			h.typ.PeriodType, h.typ.PeriodUnit, err = d.valueType(f.Bytes)
		}
		return err
	})
	return h, err
}

func (d *decoder) valueType(b []byte) (typ, unit string, err error) {
	err = encode.Fields(b, func(f encode.Field) (err error) {
		switch {
		case f.Type != protowire.VarintType:
		case f.Number == valueTypeType:
			typ, err = d.text(f.Num)
		case f.Number == valueTypeUnit:
			unit, err = d.text(f.Num)
		}
		return err
	})
	return typ, unit, err
}
