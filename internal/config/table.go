package config

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spanflame/spanflame/profile"
)

// setting is one row of the table.
type setting struct {
	name string   // of the flag, without its dashes
	env  []string // variables, strongest first
	def  string   // default, written as for the flag
	help string
	kind kind
}

// table is every setting there is, in the order of the documentation.
var table = []setting{
	{"enabled", profiling("ENABLED"), "true",
		"Only false counts: it turns `spanflame run` off, which then just runs the command. OTEL_SDK_DISABLED=true does the same where this setting is not given.",
		boolean(func(c *Config) *bool { return &c.Enabled }, true)},

	{"sample-interval", profiling("SAMPLE_INTERVAL"), "10ms",
		"Time between two looks at each process.",
		duration(func(c *Config) *time.Duration { return &c.SampleInterval }, time.Millisecond, 10*time.Second)},
	{"max-frames", profiling("MAX_FRAMES"), "1000",
		"Frames of a stack that are kept, from the innermost.",
		count(func(c *Config) *int { return &c.MaxFrames }, 1, 10_000)},
	{"include-trace-context", profiling("INCLUDE_TRACE_CONTEXT"), "true",
		"Link samples to spans.",
		boolean(func(c *Config) *bool { return &c.IncludeTraceContext }, false)},
	{"link-scope", []string{"SPANFLAME_LINK_SCOPE"}, "all",
		"Which span a sample is linked to: the current one (all) or its local root (root).",
		oneOf(func(c *Config) *LinkScope { return &c.LinkScope }, []LinkScope{LinkAll, LinkRoot})},

	{"exporter", profiling("EXPORTER"), "",
		"Where profiles go. Without this setting: pprof if the flag --pprof-path is given, otherwise otlp.",
		oneOf(func(c *Config) *Exporter { return &c.Exporter },
			[]Exporter{ExporterOTLP, ExporterPprof, ExporterNone}, "pprof_http", "pyroscope")},
	{"export-interval", profiling("EXPORT_INTERVAL"), "60s",
		"Time that one exported profile covers.",
		duration(func(c *Config) *time.Duration { return &c.ExportInterval }, 100*time.Millisecond, 24*time.Hour)},
	{"shutdown-timeout", []string{"SPANFLAME_SHUTDOWN_TIMEOUT"}, "5s",
		"How long to wait for the last profile to be delivered when the command has ended.",
		duration(func(c *Config) *time.Duration { return &c.ShutdownTimeout }, 0, time.Hour)},
	{"pprof-path", profiling("PPROF_PATH"), "spanflame",
		"Begin of the names of pprof files: PREFIX.PID.N.pprof. A relative one is meant from the command's working directory.",
		text(func(c *Config) *string { return &c.PprofPath }, "PREFIX")},

	{"otlp-endpoint", otlp("ENDPOINT"), "http://localhost:4318" + profilesPath,
		"Where OTLP profiles are posted, path included. Only OTEL_EXPORTER_OTLP_ENDPOINT is a base URL, to which " + profilesPath + " is added.",
		endpoint(func(c *Config) *string { return &c.OTLP.Endpoint })},
	{"otlp-protocol", otlp("PROTOCOL"), string(ProtocolHTTPProtobuf),
		"Transport of OTLP. grpc and http/json are not built yet.",
		protocol(func(c *Config) *Protocol { return &c.OTLP.Protocol })},
	{"otlp-headers", otlp("HEADERS"), "",
		"Headers of each request, percent-encoded. Their values are never shown. Give them in a variable: others can see a command line.",
		headers(func(c *Config) *Headers { return &c.OTLP.Headers })},
	{"otlp-timeout", otlp("TIMEOUT"), "10s",
		"Time for one request.",
		duration(func(c *Config) *time.Duration { return &c.OTLP.Timeout }, time.Millisecond, time.Hour)},
	{"otlp-compression", otlp("COMPRESSION"), string(CompressionGzip),
		"Compression of requests.",
		oneOf(func(c *Config) *Compression { return &c.OTLP.Compression }, []Compression{CompressionGzip, CompressionNone})},

	{"service-name", []string{"OTEL_SERVICE_NAME"}, "",
		"The attribute service.name of the profiled processes. Without it: what the processes say themselves.",
		text(func(c *Config) *string { return &c.ServiceName }, "NAME")},
	{"resource-attributes", []string{"OTEL_RESOURCE_ATTRIBUTES"}, "",
		"More attributes of the profiled processes, percent-encoded.",
		attributes(func(c *Config) *[]profile.Attribute { return &c.ResourceAttributes })},

	{"log-level", []string{"SPANFLAME_LOG_LEVEL"}, "info",
		"What spanflame says on standard error.",
		level(func(c *Config) *slog.Level { return &c.LogLevel })},
}

// profiling names the variables of a profiling setting.
func profiling(name string) []string {
	return []string{"OTEL_PYTHON_PROFILING_" + name, "OTEL_PROFILING_" + name}
}

// otlp names the variables of an OTLP exporter setting.
func otlp(name string) []string {
	return []string{"OTEL_EXPORTER_OTLP_PROFILES_" + name, "OTEL_EXPORTER_OTLP_" + name}
}

// find returns the strongest value given for s. A configuration file, once
// there is one, comes between the environment and the default.
func (s *setting) find(flags map[string]string, env map[string]string) input {
	if value, ok := flags[s.name]; ok {
		return input{"--" + s.name, value, goDuration}
	}
	for _, name := range s.env {
		if env[name] != "" {
			return input{name, env[name], unitOf(name)}
		}
	}
	return input{"", s.def, goDuration}
}

func (s *setting) refuse(in input, err error) error {
	reason := err.Error()
	if errors.Is(err, errNotAccepted) {
		shown := fmt.Sprintf("%q", hidePassword(in.text))
		if s.kind.secret {
			shown = "its value"
		}
		reason = shown + " is not " + s.kind.accepts(in.unit)
	}
	return &ValueError{in.name, reason}
}
