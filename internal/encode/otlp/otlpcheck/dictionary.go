package otlpcheck

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// entries checks the dictionary's own entries.
func (c *checker) entries() {
	c.known("dictionary", c.d)
	distinct(c, mappings, c.d.MappingTable)
	distinct(c, locations, c.d.LocationTable)
	distinct(c, functions, c.d.FunctionTable)
	distinct(c, attributes, c.d.AttributeTable)
	distinct(c, stacks, c.d.StackTable)
	c.links()
	c.strings()
	for i, l := range c.d.LocationTable {
		where := fmt.Sprintf("location_table[%d]", i)
		c.refer(where, mappings, l.MappingIndex)
		c.indices(where, l.AttributeIndices)
		for _, line := range l.Lines {
			c.refer(where, functions, line.FunctionIndex)
			if line.Line < 0 {
				c.bad("%s has line %d", where, line.Line)
			}
		}
	}
	for i, f := range c.d.FunctionTable {
		where := fmt.Sprintf("function_table[%d]", i)
		c.refer(where, texts, f.NameStrindex)
		c.refer(where, texts, f.SystemNameStrindex)
		c.refer(where, texts, f.FilenameStrindex)
	}
	for i, m := range c.d.MappingTable {
		where := fmt.Sprintf("mapping_table[%d]", i)
		c.refer(where, texts, m.FilenameStrindex)
		c.indices(where, m.AttributeIndices)
	}
	for i, a := range c.d.AttributeTable {
		where := fmt.Sprintf("attribute_table[%d]", i)
		keyed := c.refer(where, texts, a.KeyStrindex)
		c.refer(where, texts, a.UnitStrindex)
		if i != 0 {
			c.value(where, a.Value)
			if keyed && c.d.StringTable[a.KeyStrindex] == "" {
				c.bad("%s has no key", where)
			}
		}
	}
	for i, s := range c.d.StackTable {
		where := fmt.Sprintf("stack_table[%d]", i)
		for _, l := range s.LocationIndices {
			if c.refer(where, locations, l) && l == 0 {
				c.bad("%s has the zero location", where)
			}
		}
	}
}

// distinct wants a zero entry 0 and no entry twice.
func distinct[M proto.Message](c *checker, table int, list []M) {
	name := c.tables[table].name
	if len(list) == 0 {
		c.bad("%s has no entry 0", name)
		return
	}
	if proto.Size(list[0]) != 0 {
		c.bad("%s[0] is not zero", name)
	}
	seen := map[string]int{}
	for i, m := range list {
		c.known(fmt.Sprintf("%s[%d]", name, i), m)
		key, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			c.bad("%s[%d]: %w", name, i, err)
		}
		if first, ok := seen[string(key)]; ok {
			c.bad("%s[%d] is the same as [%d]", name, i, first)
		}
		seen[string(key)] = i
	}
}

func (c *checker) links() {
	if len(c.d.LinkTable) == 0 {
		c.bad("link_table has no entry 0")
	}
	seen := map[string]int{}
	for i, l := range c.d.LinkTable {
		if len(l.TraceId) != 16 || len(l.SpanId) != 8 {
			c.bad("link_table[%d] has ids of %d and %d bytes", i, len(l.TraceId), len(l.SpanId))
			continue
		}
		zero := allZero(l.TraceId) || allZero(l.SpanId)
		if both := allZero(l.TraceId) && allZero(l.SpanId); (i == 0 && !both) || (i != 0 && zero) {
			c.bad("link_table[%d] has trace id %x and span id %x", i, l.TraceId, l.SpanId)
		}
		key := string(l.TraceId) + string(l.SpanId)
		if first, ok := seen[key]; ok {
			c.bad("link_table[%d] is the same as [%d]", i, first)
		}
		seen[key] = i
	}
}

func allZero(id []byte) bool {
	for _, b := range id {
		if b != 0 {
			return false
		}
	}
	return true
}

func (c *checker) strings() {
	if len(c.d.StringTable) == 0 || c.d.StringTable[0] != "" {
		c.bad(`string_table[0] is not ""`)
	}
	seen := map[string]int{}
	for i, s := range c.d.StringTable {
		if first, ok := seen[s]; ok {
			c.bad("string_table[%d] is the same as [%d]", i, first)
		}
		seen[s] = i
	}
}

// known wants no field that the protocol does not have.
func (c *checker) known(where string, m proto.Message) {
	if n := len(m.ProtoReflect().GetUnknown()); n != 0 {
		c.bad("%s has %d bytes of unknown fields", where, n)
	}
}
