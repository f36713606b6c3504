package cpython

import "encoding/binary"

// ThreadNames reads the names that threading gives to the threads it knows,
// by ident. It is empty while the module is not loaded.
func (r *Reader) ThreadNames() (map[uint64]string, error) {
	interp, err := r.mainInterpreter()
	if err != nil {
		return nil, err
	}
	w := walk{r: r}
	active := w.global(w.word(interp+r.layout.interpModules), "threading", "_active")
	if w.err != nil {
		return nil, w.err
	}
	keys := w.word(active + r.layout.dict.keys)
	if w.err != nil {
		return nil, w.err
	}
	table, err := r.keysTable(keys, r.read)
	if err != nil {
		return nil, err
	}
	names := map[uint64]string{}
	for i := range table.count() {
		key, thread := table.entry(i)
		if key == 0 || thread == 0 {
			continue
		}
		// A thread may start or end meanwhile: what fails is left for next time.
		w := walk{r: r}
		ident := binary.BigEndian.Uint64(w.integer(key)[8:])
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
