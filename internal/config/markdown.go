package config

import (
	"fmt"
	"strings"
)

const intro = `<!-- Made from internal/config/table.go by: go test ./internal/config -update -->

# Configuration

Each setting is a flag of ` + "`spanflame run`" + ` and one or more environment variables. The strongest wins:

1. the flag
2. ` + "`OTEL_PYTHON_PROFILING_*`" + `
3. ` + "`OTEL_PROFILING_*`" + `
4. ` + "`OTEL_EXPORTER_OTLP_PROFILES_*`" + `
5. ` + "`OTEL_EXPORTER_OTLP_*`" + `
6. the default

What has no OpenTelemetry name is ` + "`SPANFLAME_*`" + `. An empty variable is the same as none.

**Durations.** Flags and ` + "`SPANFLAME_*`" + ` name the unit (` + "`250ms`, `1m30s`" + `). ` + "`OTEL_PYTHON_PROFILING_*`" + ` and
` + "`OTEL_PROFILING_*`" + ` are seconds (` + "`0.25`" + `). OTLP timeouts are milliseconds, as the OTLP specification says; the Python SDK
reads seconds, so a value under 100 is taken as seconds, with a warning.

**Wrong values** end spanflame with exit code 2 before the command starts, and one line for each. Variables that say
neither true nor false follow OpenTelemetry: a warning, and the value counts as false (` + "`ENABLED`" + `: as true).

`

// Markdown returns docs/configuration.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(intro)
	for _, s := range table {
		fmt.Fprintf(&b, "## `--%s`\n\n%s\n\n", s.name, strings.Join(wrap(s.help, 118), "\n"))
		fmt.Fprintf(&b, "- takes %s\n", s.takes())
		if s.def != "" {
			fmt.Fprintf(&b, "- default `%s`\n", s.def)
		}
		fmt.Fprintf(&b, "- environment `%s`\n\n", strings.Join(s.env, "`, `"))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// takes is what the flag accepts, and what its variables do where that differs.
func (s *setting) takes() string {
	text := s.kind.accepts(goDuration)
	if u := unitOf(s.env[0]); s.kind.accepts(u) != text {
		text += "; in the environment " + s.kind.accepts(u)
	}
	return text
}
