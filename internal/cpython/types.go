package cpython

// typeInfo is what is known of a type object.
type typeInfo struct {
	flags      uint64
	basicSize  uint64
	dictOffset int64
	keys       uint64         // ht_cached_keys
	entries    uint64         // in keys when they were indexed
	index      map[string]int // of attributes among an object's values
}

// typeOf reads the type at addr. Its shared keys only ever grow, so that an
// index once found stays right while the type has the same keys object.
func (r *Reader) typeOf(addr uint64, attribute string) (*typeInfo, error) {
	l := &r.layout.typ
	flags, err := r.word(addr + l.flags)
	if err != nil {
		return nil, err
	}
	keys, err := r.word(addr + l.cachedKeys)
	if err != nil {
		return nil, err
	}
	if known := r.types[addr]; known != nil && known.flags == flags && known.keys == keys {
		if _, ok := known.index[attribute]; ok || keys == 0 {
			return known, nil
		}
		// Objects of many types lack one of the attributes that are looked for.
		if n, err := r.word(keys + r.layout.dict.entries); err != nil || n == known.entries {
			return known, err
		}
	}
	dictOffset, err := r.word(addr + l.dictOffset)
	if err != nil {
		return nil, err
	}
	info := &typeInfo{flags: flags, dictOffset: int64(dictOffset), keys: keys, index: map[string]int{}}
	if l.attributes == inlineValues {
		if info.basicSize, err = r.word(addr + l.basicSize); err != nil {
			return nil, err
		}
	}
	if keys != 0 && flags>>l.managedDictBit&1 == 1 {
		if err := r.indexKeys(info); err != nil {
			return nil, err
		}
	}
	if len(r.types) >= maxTypes {
		clear(r.types)
	}
	r.types[addr] = info
	return info, nil
}

func (r *Reader) indexKeys(info *typeInfo) error {
	table, err := r.keysTable(info.keys, func(addr, n uint64) ([]byte, error) { return r.read(addr, n) })
	if err != nil {
		return err
	}
	info.entries = table.count()
	for i := range min(table.count(), maxAttributes) {
		key, _ := table.entry(i)
		if key == 0 {
			continue
		}
		name, err := r.str(key)
		if err != nil {
			return err
		}
		info.index[name] = int(i)
	}
	return nil
}

// attributeIndex returns where an attribute is among an object's values; false
// if it is not known there.
func (t *typeInfo) attributeIndex(name string) (int, bool) {
	if t == nil {
		return 0, false
	}
	i, ok := t.index[name]
	return i, ok
}

// attribute walks to an instance attribute.
func (w *walk) attribute(object uint64, name string) slot {
	l := &w.r.layout.typ
	before := l.attributes.before()
	head, info := w.head, w.info
	if object != w.object {
		w.ahead(object-before, before+objectType+8)
		head = w.read(object-before, before+objectType+8)
		info = nil
	}
	if w.err != nil {
		return slot{}
	}
	if _, ok := info.attributeIndex(name); !ok {
		var err error
		if info, err = w.r.typeOf(le.Uint64(head[before+objectType:]), name); err != nil {
			w.fail(err)
			return slot{}
		}
	}
	w.object, w.head, w.info = object, head, info
	if info.flags>>l.managedDictBit&1 == 1 {
		values, dict := w.managed(info, object, head)
		if dict != 0 {
			return w.named(dict, name)
		}
		if i, ok := info.index[name]; ok && values != 0 {
			values += w.r.layout.dict.valuesHeader
			if w.values != values {
				w.values = values
				w.ahead(values, 8*uint64(len(info.index)))
			}
			return w.slot(values + 8*uint64(i))
		}
		return slot{}
	}
	if info.dictOffset > 0 && info.dictOffset < 1<<16 {
		if dict := w.word(object + uint64(info.dictOffset)); dict != 0 {
			return w.named(dict, name)
		}
	}
	return slot{}
}

// managed returns where an object's attributes are: its values or its dict.
func (w *walk) managed(info *typeInfo, object uint64, before []byte) (values, dict uint64) {
	const valid = 3 // PyDictValues.valid
	l := &w.r.layout.typ
	word := le.Uint64(before)
	switch l.attributes {
	case twoPointers:
		if word != 0 {
			return word, 0
		}
		return 0, le.Uint64(before[8:])
	case taggedWord:
		if word&1 == 1 {
			return word + 1, 0
		}
		return 0, word
	}
	if word != 0 || info.flags>>l.inlineBit&1 == 0 {
		return 0, word
	}
	values = object + info.basicSize
	if first := values + w.r.layout.dict.valuesHeader; w.values != first {
		w.values = first
		w.ahead(values, first-values+8*uint64(len(info.index)))
	}
	if w.read(values, w.r.layout.dict.valuesHeader)[valid] != 1 {
		return 0, 0
	}
	return values, 0
}
