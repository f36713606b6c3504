package agent

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spanflame/spanflame/internal/shim"
	"github.com/spanflame/spanflame/profile"
)

// describe returns the resource of the target: what its tracer provider says,
// completed by what the agent knows, under what the user set. Names are those
// of OpenTelemetry's semantic conventions.
func (t *target) describe() []profile.Attribute {
	const serviceName = "service.name"
	all := map[string]any{
		"process.pid":              int64(t.process.PID),
		"process.runtime.name":     "cpython",
		"process.runtime.version":  t.program.version.String(),
		"process.executable.path":  t.program.executable,
		"process.executable.name":  filepath.Base(t.program.executable),
		"telemetry.sdk.language":   "python",
		"telemetry.sdk.name":       "spanflame",
		"telemetry.sdk.version":    shim.Version,
		"telemetry.distro.name":    "spanflame",
		"telemetry.distro.version": shim.Version,
		serviceName:                "unknown_service:" + filepath.Base(t.program.executable),
	}
	t.mu.Lock()
	maps.Copy(all, t.resource)
	t.mu.Unlock()
	for _, a := range t.cfg.Resource() {
		all[a.Key] = a.Value
	}
	attributes := make([]profile.Attribute, 0, len(all))
	for key, value := range all {
		attributes = append(attributes, profile.Attribute{Key: key, Value: value})
	}
	slices.SortFunc(attributes, func(a, b profile.Attribute) int { return cmp.Compare(a.Key, b.Key) })
	return attributes
}

// attributes gives the lists among a provider's attributes the one type that
// OpenTelemetry says their items have; a list of several types is left out.
func attributes(from map[string]any) map[string]any {
	plain := make(map[string]any, len(from))
	for key, value := range from {
		list, ok := value.([]any)
		if !ok {
			plain[key] = value
			continue
		}
		if len(list) == 0 {
			continue
		}
		switch list[0].(type) {
		case string:
			value, ok = typed[string](list)
		case bool:
			value, ok = typed[bool](list)
		case int64:
			value, ok = typed[int64](list)
		case float64:
			value, ok = typed[float64](list)
		}
		if ok {
			plain[key] = value
		}
	}
	return plain
}

func typed[T any](list []any) (any, bool) {
	items := make([]T, 0, len(list))
	for _, item := range list {
		v, ok := item.(T)
		if !ok {
			return nil, false
		}
		items = append(items, v)
	}
	return items, true
}
