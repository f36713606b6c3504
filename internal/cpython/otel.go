package cpython

import "fmt"

// moduleDict is where a module object keeps its dict (Objects/moduleobject.c):
// right after the object's head.
const moduleDict = 16

// FindOtel looks for OpenTelemetry among the modules that the target has
// loaded; an error says that it is not there (yet).
func (r *Reader) FindOtel() (Otel, error) {
	modules, err := r.modules()
	if err != nil {
		return Otel{}, err
	}
	w := walk{r: r}
	runtime := w.global(modules, "opentelemetry.context", "_RUNTIME_CONTEXT")
	if w.err != nil {
		return Otel{}, w.err
	}
	found := Otel{
		ContextVar: w.attribute(runtime, "_current_context").value,
		SpanKey:    w.global(modules, "opentelemetry.trace.propagation", "_SPAN_KEY"),
	}
	if w.err == nil && found.ContextVar == 0 {
		w.fail(fmt.Errorf("OpenTelemetry's context is not in a ContextVar: %w", ErrUnsupported))
	}
	return found, w.err
}

func (r *Reader) modules() (dict uint64, err error) {
	interp, err := r.mainInterpreter()
	if err != nil {
		return 0, err
	}
	return r.word(interp + r.layout.interpModules)
}

// Modules returns how many modules the target has loaded: while that stays the
// same, FindOtel will hardly find more.
func (r *Reader) Modules() (uint64, error) {
	dict, err := r.modules()
	if err != nil {
		return 0, err
	}
	return r.word(dict + r.layout.dict.used)
}

// global walks to a global of a loaded module.
func (w *walk) global(modules uint64, module, name string) uint64 {
	object := w.named(modules, module).value
	if w.err == nil && object == 0 {
		w.fail(fmt.Errorf("module %s is not loaded", module))
	}
	value := w.named(w.word(object+moduleDict), name).value
	if w.err == nil && value == 0 {
		w.fail(fmt.Errorf("module %s has no %s", module, name))
	}
	return value
}
