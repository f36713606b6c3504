// Package config holds every setting of spanflame. One table (table.go) names
// each of them with its type, default, help and environment variables; flags,
// environment and docs/configuration.md all come from it.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spanflame/spanflame/profile"
)

// Config is what spanflame was told to do. It survives JSON, headers included,
// so that it can be handed to another process over a pipe; its JSON is secret.
type Config struct {
	// Enabled is false when profiling was turned off; DisabledBy then names the
	// flag or variable that did.
	Enabled    bool
	DisabledBy string

	SampleInterval      time.Duration
	ExportInterval      time.Duration
	ShutdownTimeout     time.Duration
	MaxFrames           int
	IncludeTraceContext bool
	LinkScope           LinkScope

	Exporter Exporter
	// PprofPath is the part of a file's name before .PID.N.pprof. A relative
	// one is meant from the target's working directory at its start.
	PprofPath string
	OTLP      OTLP

	ServiceName        string
	ResourceAttributes []profile.Attribute

	LogLevel slog.Level

	// Warnings are for the user who wrote the settings, one line each.
	Warnings []string `json:"-"`
}

// OTLP says how to reach an OTLP receiver.
type OTLP struct {
	Endpoint    string // the whole URL, path included
	Protocol    Protocol
	Headers     Headers
	Timeout     time.Duration
	Compression Compression
}

// Exporter names where profiles go.
type Exporter string

const (
	ExporterOTLP  Exporter = "otlp"
	ExporterPprof Exporter = "pprof"
	ExporterNone  Exporter = "none"
)

// LinkScope says which span a sample is linked to.
type LinkScope string

const (
	LinkAll  LinkScope = "all"  // the span that was current
	LinkRoot LinkScope = "root" // its local root
)

// Protocol is an OTLP transport.
type Protocol string

const (
	ProtocolHTTPProtobuf Protocol = "http/protobuf"

	// Named by OTLP, not built yet.
	protocolGRPC     Protocol = "grpc"
	protocolHTTPJSON Protocol = "http/json"
)

// Compression of a request's body.
type Compression string

const (
	CompressionGzip Compression = "gzip"
	CompressionNone Compression = "none"
)

// Headers are sent with each request. Their values are secret: they show in no
// print and no log, only in JSON.
type Headers map[string]string

// String shows the names only.
func (h Headers) String() string {
	names := slices.Sorted(maps.Keys(h))
	for i := range names {
		names[i] += "=***"
	}
	return "[" + strings.Join(names, " ") + "]"
}

// GoString is String: %#v must not give values away either.
func (h Headers) GoString() string { return h.String() }

// LogValue is String for package slog.
func (h Headers) LogValue() slog.Value { return slog.StringValue(h.String()) }

// LogValue keeps headers and a password in the endpoint out of logs.
func (c Config) LogValue() slog.Value {
	type plain Config // without this method, which slog would call again
	c.OTLP.Endpoint = hidePassword(c.OTLP.Endpoint)
	c.OTLP.Headers = maps.Clone(c.OTLP.Headers)
	for name := range c.OTLP.Headers {
		c.OTLP.Headers[name] = "***"
	}
	return slog.AnyValue(plain(c))
}

// Resource returns the attributes that describe the service, the service's name
// among them if it was set.
func (c *Config) Resource() []profile.Attribute {
	const serviceName = "service.name"
	attributes := slices.Clone(c.ResourceAttributes)
	if c.ServiceName == "" {
		return attributes
	}
	attributes = slices.DeleteFunc(attributes, func(a profile.Attribute) bool { return a.Key == serviceName })
	return append(attributes, profile.Attribute{Key: serviceName, Value: c.ServiceName})
}

// ErrHelp is returned by Load when the flags ask for help; see Usage.
var ErrHelp = errors.New("help requested")

// ValueError is a value that a setting does not take.
type ValueError struct {
	Name   string // the flag, with its dashes, or the variable
	Reason string // never holds the value of a secret
}

func (e *ValueError) Error() string { return e.Name + ": " + e.Reason }

// Load reads the settings of a command from its arguments, up to "--" or the
// first one that is no flag, and from the environment (each entry NAME=VALUE).
// rest is what follows the flags. The error joins everything that is wrong.
func Load(args, environ []string) (cfg *Config, rest []string, err error) {
	flags, rest, err := parseFlags(args)
	if err != nil {
		return nil, nil, err
	}
	env := lookup(environ)
	cfg = &Config{}
	given := map[string]string{} // setting → the flag or variable that set it
	var failures []error
	for _, s := range table {
		in := s.find(flags, env)
		warning, err := s.kind.set(cfg, in)
		if err != nil {
			failures = append(failures, s.refuse(in, err))
		}
		if warning != "" {
			cfg.Warnings = append(cfg.Warnings, in.name+": "+warning)
		}
		if in.name != "" {
			given[s.name] = in.name
		}
	}
	if len(failures) == 0 {
		failures = append(failures, cfg.settle(given, env))
	}
	if err := errors.Join(failures...); err != nil {
		return nil, nil, err
	}
	return cfg, rest, nil
}

// settle decides what depends on more than one setting.
func (c *Config) settle(given map[string]string, env map[string]string) error {
	switch {
	case !c.Enabled:
		c.DisabledBy = given["enabled"]
	case given["enabled"] == "" && strings.EqualFold(env[sdkDisabled], "true"):
		// Who turns OpenTelemetry off expects no telemetry from anything that
		// reads its variables; asking for profiles by name is stronger.
		c.Enabled, c.DisabledBy = false, sdkDisabled
	}
	byFlag := given["pprof-path"] == "--pprof-path"
	switch {
	case c.Exporter == "" && byFlag:
		c.Exporter = ExporterPprof
	case c.Exporter == "":
		c.Exporter = ExporterOTLP
	case byFlag && c.Exporter != ExporterPprof:
		c.Warnings = append(c.Warnings, fmt.Sprintf("--pprof-path: no file is written, %s chose the exporter %s", given["exporter"], c.Exporter))
	}
	if c.Exporter != ExporterOTLP {
		return nil // the variables of OTLP may be there for traces
	}
	if c.OTLP.Protocol != ProtocolHTTPProtobuf {
		return &ValueError{given["otlp-protocol"], fmt.Sprintf(
			"%q is not built yet for profiles; use --otlp-protocol http/protobuf, or OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL=http/protobuf, with an endpoint for it (a Collector's is port 4318)",
			c.OTLP.Protocol)}
	}
	if u, err := url.Parse(c.OTLP.Endpoint); err == nil {
		name := given["otlp-endpoint"]
		if u.Port() == "4317" {
			c.Warnings = append(c.Warnings, name+": port 4317 usually speaks gRPC; profiles are sent by http/protobuf, usually to port 4318")
		}
		if u.Path == "" || u.Path == "/" {
			c.Warnings = append(c.Warnings, name+": used as it is, without a path; a Collector takes profiles at "+profilesPath)
		}
	}
	return nil
}

// sdkDisabled is OpenTelemetry's own switch, for all signals.
const sdkDisabled = "OTEL_SDK_DISABLED"

// lookup indexes an environment; of equal names the last counts, as in
// os/exec. An empty value is the same as none, by OpenTelemetry's rules.
func lookup(environ []string) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = strings.TrimSpace(value)
		}
	}
	return env
}
