package cpython

// ThreadNames reads the names that threading gives to the threads it knows,
// by ident, of those that wanted accepts.
func (r *Reader) ThreadNames(wanted func(ident uint64) bool) (map[uint64]string, error) {
	modules, err := r.modules()
	if err != nil {
		return nil, err
	}
	w := walk{r: r}
	active := w.global(modules, "threading", "_active")
	keys := w.word(active + r.layout.dict.keys)
	if w.err != nil {
		return nil, w.err
	}
	table, err := r.keysTable(keys, r.read)
	if err != nil {
		return nil, err
	}
	names := map[uint64]string{}
	for ident, thread := range r.idents(table) {
		if !wanted(ident) {
			continue
		}
		// A thread may start or end meanwhile: what fails is left for next time.
		w := walk{r: r}
		object := w.attribute(thread, "_name").value
		if w.err != nil || object == 0 {
			continue
		}
		if name, err := r.str(object); err == nil {
			names[ident] = name
		}
	}
	return names, nil
}

// idents reads the int keys of a dict, all in one call.
func (r *Reader) idents(table *keysTable) map[uint64]uint64 {
	const digits = 3 // of 30 bits: an ident is at most 64 bits wide
	size := r.layout.intDigits + 4*digits
	var keys batch
	var values []uint64
	for i := range min(table.count(), maxThreads) {
		key, value := table.entry(i)
		if key != 0 && value != 0 {
			keys.want(key, size)
			values = append(values, value)
		}
	}
	n, _ := r.mem.Read(keys.ranges)
	found := make(map[uint64]uint64, n)
	for i := range n {
		object := keys.ranges[i].Buf
		var ident uint64
		count, _ := r.layout.digits(le.Uint64(object[r.layout.intSize:]))
		for d := min(count, digits); d > 0; d-- {
			ident = ident<<30 | uint64(le.Uint32(object[r.layout.intDigits+4*(d-1):]))
		}
		found[ident] = values[i]
	}
	return found
}
