package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spanflame/spanflame/profile"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md")

func defaults() Config {
	return Config{
		Enabled:             true,
		SampleInterval:      10 * time.Millisecond,
		ExportInterval:      time.Minute,
		ShutdownTimeout:     5 * time.Second,
		MaxFrames:           1000,
		IncludeTraceContext: true,
		LinkScope:           LinkAll,
		Exporter:            ExporterOTLP,
		PprofPath:           "spanflame",
		OTLP: OTLP{
			Endpoint:    "http://localhost:4318/v1development/profiles",
			Protocol:    ProtocolHTTPProtobuf,
			Headers:     Headers{},
			Timeout:     10 * time.Second,
			Compression: CompressionGzip,
		},
	}
}

func TestLoad(t *testing.T) {
	const profiles = "/v1development/profiles"
	attribute := func(k, v string) profile.Attribute { return profile.Attribute{Key: k, Value: v} }
	for _, test := range []struct {
		name string
		args string // separated by spaces
		env  string // separated by spaces
		want func(c *Config)
	}{
		{"defaults", "", "", func(c *Config) {}},
		{"an empty variable is none", "", "OTEL_PYTHON_PROFILING_SAMPLE_INTERVAL= OTEL_PROFILING_SAMPLE_INTERVAL=0.5",
			func(c *Config) { c.SampleInterval = 500 * time.Millisecond }},
		{"flag over environment", "--sample-interval 2ms --max-frames=7", "OTEL_PYTHON_PROFILING_SAMPLE_INTERVAL=0.5 OTEL_PROFILING_MAX_FRAMES=9",
			func(c *Config) { c.SampleInterval = 2 * time.Millisecond; c.MaxFrames = 7 }},
		{"the last flag counts", "--max-frames=7 --max-frames 8", "", func(c *Config) { c.MaxFrames = 8 }},
		{"python name over general name", "", "OTEL_PROFILING_MAX_FRAMES=9 OTEL_PYTHON_PROFILING_MAX_FRAMES=8",
			func(c *Config) { c.MaxFrames = 8 }},
		{"own variables take durations", "", "SPANFLAME_SHUTDOWN_TIMEOUT=1m30s", func(c *Config) { c.ShutdownTimeout = 90 * time.Second }},

		{"generic endpoint is a base", "", "OTEL_EXPORTER_OTLP_ENDPOINT=https://collector:4318/base/",
			func(c *Config) { c.OTLP.Endpoint = "https://collector:4318/base" + profiles }},
		{"profiles endpoint is whole", "", "OTEL_EXPORTER_OTLP_ENDPOINT=http://a:4318 OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT=http://b:1/x",
			func(c *Config) { c.OTLP.Endpoint = "http://b:1/x" }},
		{"endpoint without a path", "--otlp-endpoint http://b:4317", "", func(c *Config) {
			c.OTLP.Endpoint = "http://b:4317"
			c.Warnings = []string{
				"--otlp-endpoint: port 4317 usually speaks gRPC; profiles are sent by http/protobuf, usually to port 4318",
				"--otlp-endpoint: used as it is, without a path; a Collector takes profiles at /v1development/profiles",
			}
		}},
		{"timeout in milliseconds", "", "OTEL_EXPORTER_OTLP_TIMEOUT=2500", func(c *Config) { c.OTLP.Timeout = 2500 * time.Millisecond }},
		{"timeout in seconds", "", "OTEL_EXPORTER_OTLP_PROFILES_TIMEOUT=2.5", func(c *Config) {
			c.OTLP.Timeout = 2500 * time.Millisecond
			c.Warnings = []string{"OTEL_EXPORTER_OTLP_PROFILES_TIMEOUT: 2.5 is taken as seconds; OTLP timeouts are milliseconds"}
		}},
		{"compression", "", "OTEL_EXPORTER_OTLP_COMPRESSION=NONE", func(c *Config) { c.OTLP.Compression = CompressionNone }},
		{"headers", "", "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Basic%20dXNlcg==,x-tenant=a+b,", func(c *Config) {
			c.OTLP.Headers = Headers{"authorization": "Basic dXNlcg==", "x-tenant": "a+b"}
		}},
		{"an empty flag removes headers", "--otlp-headers=", "OTEL_EXPORTER_OTLP_HEADERS=a=b", func(c *Config) {}},
		{"resource", "", "OTEL_SERVICE_NAME=shop OTEL_RESOURCE_ATTRIBUTES=service.name=other,team=a%2Cb", func(c *Config) {
			c.ServiceName = "shop"
			c.ResourceAttributes = []profile.Attribute{attribute("service.name", "other"), attribute("team", "a,b")}
		}},

		{"pprof path by flag chooses pprof", "--pprof-path /tmp/p", "", func(c *Config) { c.Exporter = ExporterPprof; c.PprofPath = "/tmp/p" }},
		{"pprof path by variable does not", "", "OTEL_PYTHON_PROFILING_PPROF_PATH=/tmp/p", func(c *Config) { c.PprofPath = "/tmp/p" }},
		{"pprof path that is not used", "--pprof-path /tmp/p", "OTEL_PROFILING_EXPORTER=otlp", func(c *Config) {
			c.PprofPath = "/tmp/p"
			c.Warnings = []string{"--pprof-path: no file is written, OTEL_PROFILING_EXPORTER chose the exporter otlp"}
		}},
		{"a protocol that is not used", "--exporter pprof", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
			func(c *Config) { c.Exporter = ExporterPprof; c.OTLP.Protocol = "grpc" }},
		{"a protocol for traces only", "--otlp-protocol http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", func(c *Config) {}},

		{"booleans are true or false", "", "OTEL_PYTHON_PROFILING_INCLUDE_TRACE_CONTEXT=1", func(c *Config) {
			c.IncludeTraceContext = false
			c.Warnings = []string{`OTEL_PYTHON_PROFILING_INCLUDE_TRACE_CONTEXT: "1" is neither true nor false; taken as false`}
		}},
		{"a switch", "--include-trace-context", "OTEL_PYTHON_PROFILING_INCLUDE_TRACE_CONTEXT=false", func(c *Config) {}},
		{"turned off", "", "OTEL_PYTHON_PROFILING_ENABLED=False", func(c *Config) {
			c.Enabled, c.DisabledBy = false, "OTEL_PYTHON_PROFILING_ENABLED"
		}},
		{"not clearly turned off", "", "OTEL_PROFILING_ENABLED=no", func(c *Config) {
			c.Warnings = []string{`OTEL_PROFILING_ENABLED: "no" is neither true nor false; taken as true`}
		}},
		{"OpenTelemetry turned off", "", "OTEL_SDK_DISABLED=true", func(c *Config) { c.Enabled, c.DisabledBy = false, "OTEL_SDK_DISABLED" }},
		{"profiles without OpenTelemetry", "--enabled", "OTEL_SDK_DISABLED=true", func(c *Config) {}},
		{"log level", "--log-level debug", "", func(c *Config) { c.LogLevel = slog.LevelDebug }},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, _, err := Load(strings.Fields(test.args), strings.Fields(test.env))
			if err != nil {
				t.Fatal(err)
			}
			want := defaults()
			test.want(&want)
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	for _, test := range []struct{ args, env, want string }{
		{"--sample-interval 10", "", `--sample-interval: "10" is not a duration with its unit, such as 250ms or 1m30s, from 1ms to 10s`},
		{"--sample-interval 11s", "", `--sample-interval: "11s" is not a duration`},
		{"", "OTEL_PYTHON_PROFILING_SAMPLE_INTERVAL=10ms", `OTEL_PYTHON_PROFILING_SAMPLE_INTERVAL: "10ms" is not a number of seconds from 0.001 to 10`},
		{"", "OTEL_PROFILING_EXPORT_INTERVAL=NaN", "is not a number of seconds"},
		{"", "OTEL_PROFILING_EXPORT_INTERVAL=1e300", "is not a number of seconds"},
		{"", "OTEL_EXPORTER_OTLP_TIMEOUT=10s", `"10s" is not a number of milliseconds from 1 to 3600000`},
		{"--max-frames 0", "", `--max-frames: "0" is not a whole number from 1 to 10000`},
		{"--exporter file", "", `--exporter: "file" is not one of otlp, pprof, none`},
		{"--exporter pyroscope", "", `--exporter: "pyroscope" is not built yet; use one of otlp, pprof, none`},
		{"", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", `OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" is not built yet for profiles; use --otlp-protocol http/protobuf`},
		{"", "OTEL_EXPORTER_OTLP_PROTOCOL=smtp", `"smtp" is not one of http/protobuf`},
		{"", "OTEL_EXPORTER_OTLP_ENDPOINT=collector:4317", `"collector:4317" is not a URL that starts with http:// or https://`},
		{"--pprof-path=", "", `--pprof-path: "" is not a text of at least one character`},
		{"--enabled=1", "", `--enabled: "1" is not true or false`},
		{"--log-level trace", "", "one of debug, info, warn, error"},
		{"--no-such-flag=1", "", "unknown flag --no-such-flag; --help lists them"},
		{"-sample-interval 1ms", "", "unknown flag -sample-interval"},
		{"--exporter", "", "--exporter: needs a value: otlp|pprof|none"},
		{"--exporter -- python app.py", "", "--exporter: needs a value"},
		{"", "OTEL_RESOURCE_ATTRIBUTES=a=1,b", "OTEL_RESOURCE_ATTRIBUTES: item 2 has no ="},
		{"", "OTEL_RESOURCE_ATTRIBUTES=a=100%", "item 1 has a % that no two hexadecimal digits follow"},
		{"--max-frames x --log-level y", "", "--max-frames: \"x\" is not a whole number from 1 to 10000\n--log-level"},
	} {
		_, _, err := Load(strings.Fields(test.args), strings.Fields(test.env))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Load(%s, %s): got error %v\nwant %s", test.args, test.env, err, test.want)
		}
	}
}

func TestLoadRest(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--max-frames 7 -- python --version", "python --version"},
		{"python app.py --max-frames 7", "python app.py --max-frames 7"},
		{"--enabled python -- x", "python -- x"},
		{"--", ""},
		{"- x", "- x"},
	} {
		_, rest, err := Load(strings.Fields(test.args), nil)
		if err != nil || strings.Join(rest, " ") != test.want {
			t.Errorf("Load(%s): rest %q, %v; want %s", test.args, rest, err, test.want)
		}
	}
	for _, args := range []string{"-h", "--help", "--max-frames 7 --help"} {
		if _, _, err := Load(strings.Fields(args), nil); !errors.Is(err, ErrHelp) {
			t.Errorf("Load(%s): got %v, want ErrHelp", args, err)
		}
	}
	if _, rest, err := Load([]string{"python", "--help"}, nil); err != nil || len(rest) != 2 {
		t.Errorf("the command's own --help: %q, %v", rest, err)
	}
}

func TestSecretsDoNotShow(t *testing.T) {
	const secret = "hunter2"
	for _, env := range []string{
		"OTEL_EXPORTER_OTLP_HEADERS=" + secret,
		"OTEL_EXPORTER_OTLP_HEADERS=a%zz=" + secret,
		"OTEL_EXPORTER_OTLP_HEADERS=a=%zz" + secret,
		"OTEL_EXPORTER_OTLP_HEADERS=a=b%0d" + secret,
		"OTEL_EXPORTER_OTLP_HEADERS=" + secret + "%20=b",
		"OTEL_EXPORTER_OTLP_ENDPOINT=ftp://user:" + secret + "@host",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://user:" + secret + "@host:port",
	} {
		_, _, err := Load(nil, []string{env})
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: error %v", env, err)
		}
	}

	cfg, _, err := Load([]string{"--otlp-headers=authorization=" + secret, "--otlp-endpoint=http://u:" + secret + "@host/x"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("config", "config", cfg, "headers", cfg.OTLP.Headers)
	slog.New(slog.NewTextHandler(&out, nil)).Info("config", "config", cfg)
	fmt.Fprintf(&out, "%v %+v %#v", cfg.OTLP.Headers, cfg.OTLP.Headers, cfg.OTLP.Headers)
	if strings.Contains(out.String(), secret) {
		t.Errorf("a secret shows in %s", &out)
	}
	if !strings.Contains(out.String(), "authorization") {
		t.Errorf("the header's name is missing in %s", &out)
	}
}

func TestConfigSurvivesJSON(t *testing.T) {
	want, _, err := Load([]string{"--otlp-headers=a=b", "--resource-attributes=k=v", "--log-level=warn", "--service-name=s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := &Config{}
	if err := json.Unmarshal(text, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestResource(t *testing.T) {
	cfg, _, err := Load(nil, []string{"OTEL_SERVICE_NAME=shop", "OTEL_RESOURCE_ATTRIBUTES=service.name=other,team=a"})
	if err != nil {
		t.Fatal(err)
	}
	want := []profile.Attribute{{Key: "team", Value: "a"}, {Key: "service.name", Value: "shop"}}
	if diff := cmp.Diff(want, cfg.Resource()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDocumentation(t *testing.T) {
	const path = "../../docs/configuration.md"
	if *update {
		if err := os.WriteFile(path, []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Markdown(), string(got)); diff != "" {
		t.Errorf("%s is not what the table says; run: go test ./internal/config -update\n%s", path, diff)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("--sample-interval", "2ms", "OTEL_EXPORTER_OTLP_HEADERS=a=b")
	f.Add("--otlp-endpoint", "http://[::1]:4318/%41", "OTEL_RESOURCE_ATTRIBUTES=a=%41,")
	f.Fuzz(func(t *testing.T, flag, value, variable string) {
		cfg, _, err := Load([]string{flag, value}, []string{variable})
		if err == nil && (cfg.SampleInterval < time.Millisecond || cfg.MaxFrames < 1 || cfg.OTLP.Timeout <= 0) {
			t.Errorf("%+v", cfg)
		}
	})
}
