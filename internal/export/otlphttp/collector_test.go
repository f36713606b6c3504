package otlphttp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spanflame/spanflame/internal/config"
	"github.com/spanflame/spanflame/internal/encode/otlp"
	"github.com/spanflame/spanflame/internal/export"
)

// collectorBinary returns the path of a real Collector.
func collectorBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("SPANFLAME_COLLECTOR"); path != "" {
		return path
	}
	cannot := t.Skipf
	if os.Getenv("CI") != "" {
		cannot = t.Fatalf
	}
	// `make test` has built it before; the first time takes minutes.
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../../scripts/collector")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		cannot("no Collector: scripts/collector: %v\n%s", err, &stderr)
	}
	lines := strings.Fields(string(out))
	return lines[len(lines)-1]
}

// freePort returns an address at which nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startCollector returns the file that a Collector writes profiles to, one JSON
// object a line.
func startCollector(t *testing.T, binary, address string) (file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "profiles.json")
	settings := filepath.Join(dir, "config.yaml")
	err := os.WriteFile(settings, fmt.Appendf(nil, `
receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {file: {path: %q, flush_interval: 100ms}}
service: {pipelines: {profiles: {receivers: [otlp], exporters: [file]}}}
`, address, file), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "--config", settings, "--feature-gates=service.profilesSupport")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the Collector said:\n%s", &log)
		}
	})
	until(t, "the Collector to listen", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return file
}

func until(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ready(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

const path = "/v1development/profiles"

// received is a line of the Collector's file: OTLP/JSON, which has ids in
// hexadecimal and large numbers as strings.
type received struct {
	ResourceProfiles []struct {
		Resource struct {
			Attributes []attribute
		}
		ScopeProfiles []struct {
			Scope    struct{ Name, Version string }
			Profiles []struct {
				SampleType, PeriodType             struct{ TypeStrindex, UnitStrindex int }
				TimeUnixNano, DurationNano, Period string
				Samples                            []struct {
					StackIndex, LinkIndex int
					AttributeIndices      []int
					Values                []string
				}
			}
		}
	}
	Dictionary struct {
		LocationTable []struct {
			Lines []struct {
				FunctionIndex int
				Line          string
			}
			AttributeIndices []int
		}
		FunctionTable []struct {
			NameStrindex, FilenameStrindex int
			StartLine                      string
		}
		LinkTable      []struct{ TraceID, SpanID string }
		StringTable    []string
		AttributeTable []attribute
		StackTable     []struct{ LocationIndices []int }
	}
}

type attribute struct {
	Key         string
	KeyStrindex int
	Value       struct {
		StringValue         string
		StringValueStrindex int
		IntValue            string
	}
}

// text resolves references, to which the Collector turns resource attributes.
func (r *received) text(a attribute) string {
	key := a.Key + r.Dictionary.StringTable[a.KeyStrindex]
	return key + "=" + a.Value.StringValue + r.Dictionary.StringTable[a.Value.StringValueStrindex] + a.Value.IntValue
}

// lines has one text for each sample: everything that is known of it.
func (r *received) lines() (list []string) {
	d := r.Dictionary
	for _, rp := range r.ResourceProfiles {
		var resource []string
		for _, a := range rp.Resource.Attributes {
			resource = append(resource, r.text(a))
		}
		for _, sp := range rp.ScopeProfiles {
			for _, p := range sp.Profiles {
				for _, s := range p.Samples {
					var attributes, stack []string
					for _, a := range s.AttributeIndices {
						attributes = append(attributes, r.text(d.AttributeTable[a]))
					}
					for _, l := range d.StackTable[s.StackIndex].LocationIndices {
						location := d.LocationTable[l]
						f := d.FunctionTable[location.Lines[0].FunctionIndex]
						stack = append(stack, fmt.Sprint(d.StringTable[f.NameStrindex], " ", d.StringTable[f.FilenameStrindex], ":",
							location.Lines[0].Line, " from ", f.StartLine, " ", r.text(d.AttributeTable[location.AttributeIndices[0]])))
					}
					link := d.LinkTable[s.LinkIndex]
					list = append(list, fmt.Sprintf("%v %s %s | %s %s per %s %s at %s for %s | link %s %s %v | %v",
						resource, sp.Scope.Name, sp.Scope.Version,
						d.StringTable[p.SampleType.TypeStrindex], s.Values, p.Period, d.StringTable[p.PeriodType.TypeStrindex],
						p.TimeUnixNano, p.DurationNano, link.TraceID, link.SpanID, attributes, strings.Join(stack, " < ")))
				}
			}
		}
	}
	return list
}

// waitFor returns the lines of n requests.
func waitFor(t *testing.T, file string, n int) (lines []string) {
	t.Helper()
	var b []byte
	until(t, fmt.Sprintf("%d requests in the Collector's file", n), func() bool {
		b, _ = os.ReadFile(file)
		return bytes.Count(b, []byte("\n")) >= n
	})
	for line := range bytes.Lines(b) {
		var r received
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		lines = append(lines, r.lines()...)
	}
	return lines
}

// What the real Collector takes and writes is what was sampled.
func TestCollector(t *testing.T) {
	address := freePort(t)
	file := startCollector(t, collectorBinary(t), address)
	var want []string
	p := shop()
	for i, tt := range []struct {
		c          config.OTLP
		o          otlp.Options
		link       string
		attributes string
		idle       string // attributes of the sample without a span
	}{
		{config.OTLP{Compression: config.CompressionGzip}, otlp.Options{}, child.String(),
			"thread.id=7 thread.name=MainThread spanflame.local_root.span_id=" + root.String() + " span_name=POST /checkout", "thread.id=7 thread.name=MainThread"},
		{config.OTLP{Compression: config.CompressionNone}, otlp.Options{Scope: otlp.ScopeRoot}, root.String(),
			"thread.id=7 thread.name=MainThread span_name=POST /checkout", "thread.id=7 thread.name=MainThread"},
		{config.OTLP{Compression: config.CompressionGzip}, otlp.Options{Pyroscope: true}, root.String(),
			"thread.name=MainThread span_name=POST /checkout", "thread.name=MainThread"},
	} {
		tt.c.Endpoint, tt.o.Version = "http://"+address+path, "1.2.3"
		e, err := New(tt.c, tt.o)
		if err != nil {
			t.Fatal(err)
		}
		p.Start += int64(i) * p.Duration
		if err := e.Export(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if err := e.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		const burn, module = "burn /srv/shop.py:12 from 10 profile.frame.type=cpython", "<module> /srv/shop.py:90 from 1 profile.frame.type=cpython"
		line := func(typ string, value int, link, attributes, stack string) {
			want = append(want, fmt.Sprintf("[service.name=shop process.pid=4711] spanflame 1.2.3 | %s [%d] per 10000000 %s at %d for 1000000000 | link %s [%s] | %s",
				typ, value, typ, p.Start, link, attributes, stack))
		}
		line("cpu", 30, trace.String()+" "+tt.link, tt.attributes, burn+" < "+module)
		line("wall", 40, trace.String()+" "+tt.link, tt.attributes, burn+" < "+module)
		line("wall", 50, " ", tt.idle, module)
	}
	if diff := cmp.Diff(want, waitFor(t, file, 3)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}

	e := exporter(t, config.OTLP{Endpoint: "http://" + address + "/v1/profiles"})
	if err := e.Export(t.Context(), p); !strings.Contains(export.HintOf(err), "/v1development/profiles") {
		t.Errorf("wrong path: %v, hint %q", err, export.HintOf(err))
	}
}

// What was sampled while no Collector ran is delivered when one does.
func TestCollectorComesLate(t *testing.T) {
	binary, address := collectorBinary(t), freePort(t)
	e, err := New(config.OTLP{Endpoint: "http://" + address + path}, otlp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	q := export.NewQueue(e, export.QueueOptions{MinBackoff: 10 * time.Millisecond, MaxBackoff: 200 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 3 {
		q.Put(shop())
	}
	until(t, "a few attempts", func() bool { return q.Stats().Failures > 2 })
	file := startCollector(t, binary, address)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := q.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if s := q.Stats(); s.Delivered != (export.Count{Profiles: 3, Samples: 6}) || len(s.Dropped) > 0 {
		t.Errorf("stats %+v", s)
	}
	if n := len(waitFor(t, file, 3)); n != 9 {
		t.Errorf("%d samples arrived, want 9", n)
	}
	for _, want := range []string{"trying again", `hint="start one or use --pprof-path PREFIX"`, "delivered again"} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("not once %q in the log:\n%s", want, &log)
		}
	}
}
