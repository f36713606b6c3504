package otlphttp

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spanflame/spanflame/internal/config"
	"github.com/spanflame/spanflame/internal/encode"
	"github.com/spanflame/spanflame/internal/encode/otlp"
	"github.com/spanflame/spanflame/internal/encode/otlp/otlpcheck"
	"github.com/spanflame/spanflame/internal/export"
	"github.com/spanflame/spanflame/profile"
)

const token = "abcdef0123456789"

var (
	trace = profile.TraceID{0xaa, 15: 1}
	root  = profile.SpanID{0xa0, 7: 1}
	child = profile.SpanID{0xa0, 7: 2}
)

func shop() *profile.Profile {
	b := profile.NewBuilder(
		profile.ValueType{Type: "cpu", Unit: "nanoseconds", PeriodType: "cpu", PeriodUnit: "nanoseconds", Period: 10_000_000},
		profile.ValueType{Type: "wall", Unit: "nanoseconds", PeriodType: "wall", PeriodUnit: "nanoseconds", Period: 10_000_000},
	)
	burn := b.Frame(profile.Frame{Function: "burn", File: "/srv/shop.py", Line: 12, StartLine: 10, Type: "cpython"})
	main := b.Frame(profile.Frame{Function: "<module>", File: "/srv/shop.py", Line: 90, StartLine: 1, Type: "cpython"})
	thread := b.Labels([]profile.Label{{Key: profile.LabelThreadID, Num: 7}, {Key: profile.LabelThreadName, Str: "MainThread"}})
	b.NameSpan(root, "POST /checkout")
	b.Add(b.Stack([]int{burn, main}), b.Link(profile.Link{Trace: trace, Span: child, Root: root}), thread, 30, 40)
	b.Add(b.Stack([]int{main}), 0, thread, 0, 50)
	p := b.Build()
	p.Start, p.Duration, p.PID = time.Now().UnixNano(), int64(time.Second), 4711
	p.Resource = []profile.Attribute{{Key: "service.name", Value: "shop"}, {Key: "process.pid", Value: int64(4711)}}
	return p
}

func exporter(t *testing.T, c config.OTLP) *Exporter {
	t.Helper()
	e, err := New(c, otlp.Options{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL + "/v1development/profiles"
}

func TestRequest(t *testing.T) {
	for _, compression := range []config.Compression{config.CompressionGzip, config.CompressionNone} {
		t.Run(string(compression), func(t *testing.T) {
			var got *http.Request
			var body []byte
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				got = r
				body, _ = io.ReadAll(r.Body)
			})
			e := exporter(t, config.OTLP{Endpoint: url, Compression: compression, Headers: config.Headers{
				"authorization": "Bearer " + token, "host": "tenant.example", "content-type": "text/plain", "content-encoding": "br"}})
			for range 2 {
				if err := e.Export(t.Context(), shop()); err != nil {
					t.Fatal(err)
				}
			}
			if got.Header.Get("Content-Encoding") == "gzip" {
				r, err := gzip.NewReader(bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if body, err = io.ReadAll(r); err != nil {
					t.Fatal(err)
				}
			}
			want := map[string]string{
				"Authorization": "Bearer " + token, "Content-Type": "application/x-protobuf", "User-Agent": "spanflame/1.2.3",
				"Otlp-Profiles-Development-Version": "1", "Content-Encoding": map[config.Compression]string{config.CompressionGzip: "gzip"}[compression],
			}
			for name, value := range want {
				if got.Header.Get(name) != value {
					t.Errorf("%s: %q, want %q", name, got.Header.Get(name), value)
				}
			}
			if got.Method != http.MethodPost || got.URL.Path != "/v1development/profiles" || got.Host != "tenant.example" {
				t.Errorf("%s %s for host %s", got.Method, got.URL, got.Host)
			}
			if err := otlpcheck.Check(body); err != nil {
				t.Error(err)
			}
			decoded, err := otlp.Decode(body)
			if err != nil || len(decoded) != 1 {
				t.Fatalf("%d profiles, %v", len(decoded), err)
			}
			if cpu, _ := decoded[0].Total("cpu"); cpu != 30 {
				t.Errorf("cpu %d", cpu)
			}
		})
	}
}

func TestNothingToSend(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request came") })
	if err := exporter(t, config.OTLP{Endpoint: url}).Export(t.Context(), &profile.Profile{}); err != nil {
		t.Error(err)
	}
}

func TestOutcomes(t *testing.T) {
	message := func(field protowire.Number, text string) []byte { return encode.AppendString(nil, field, text) }
	partial := func(b []byte) []byte { return encode.AppendBytes(nil, 1, b) }
	const protobuf, text = "application/x-protobuf", "text/plain; charset=utf-8"
	for name, tt := range map[string]struct {
		status   int
		headers  map[string]string
		body     []byte
		want     *export.Error // nil: delivered
		contains string
		hint     string
	}{
		"ok":                    {status: 200},
		"accepted":              {status: 202},
		"empty partial success": {status: 200, headers: map[string]string{"Content-Type": protobuf}, body: partial(nil)},
		"partial": {status: 200, headers: map[string]string{"Content-Type": protobuf}, body: partial(append(encode.AppendUint(nil, 1, 2), message(2, "label too long")...)),
			want: &export.Error{Partial: true}, contains: "rejected 2 of the types of a profile: label too long"},
		"warning": {status: 200, headers: map[string]string{"Content-Type": protobuf}, body: partial(message(2, "old")),
			want: &export.Error{Accepted: true}, contains: "warns: old"},
		"garbage":       {status: 200, headers: map[string]string{"Content-Type": protobuf}, body: []byte{0xff, 0xff}},
		"html of proxy": {status: 200, headers: map[string]string{"Content-Type": "text/html"}, body: []byte("<p>")},

		"429 seconds":  {status: 429, headers: map[string]string{"Retry-After": "17"}, want: &export.Error{Retryable: true, After: 17 * time.Second}, contains: "429 Too Many Requests"},
		"503 date":     {status: 503, headers: map[string]string{"Retry-After": time.Now().Add(100 * time.Second).UTC().Format(http.TimeFormat)}, want: &export.Error{Retryable: true, After: 100 * time.Second}},
		"503 past":     {status: 503, headers: map[string]string{"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, want: &export.Error{Retryable: true}},
		"503 forever":  {status: 503, headers: map[string]string{"Retry-After": "99999999999999999999999"}, want: &export.Error{Retryable: true, After: time.Hour}},
		"503 nonsense": {status: 503, headers: map[string]string{"Retry-After": "-5"}, want: &export.Error{Retryable: true}},
		"502":          {status: 502, want: &export.Error{Retryable: true}},
		"504":          {status: 504, want: &export.Error{Retryable: true}},

		"400": {status: 400, headers: map[string]string{"Content-Type": protobuf}, body: append(encode.AppendUint(nil, 1, 3), message(2, "bad\nlength")...),
			want: &export.Error{}, contains: "answers 400 Bad Request: bad length"},
		"400 large":      {status: 400, headers: map[string]string{"Content-Type": text}, body: []byte("http: request body too large"), want: &export.Error{}, hint: "--export-interval"},
		"401":            {status: 401, headers: map[string]string{"Content-Type": text}, body: []byte("no user for Bearer " + token + " here"), want: &export.Error{}, contains: "no user for *** here", hint: "OTEL_EXPORTER_OTLP_HEADERS"},
		"403":            {status: 403, headers: map[string]string{"Content-Type": text}, body: []byte("token " + token), want: &export.Error{}, contains: "token ***", hint: "OTEL_EXPORTER_OTLP_HEADERS"},
		"404":            {status: 404, want: &export.Error{}, hint: "--feature-gates=service.profilesSupport"},
		"405":            {status: 405, want: &export.Error{}, hint: "/v1development/profiles"},
		"408":            {status: 408, want: &export.Error{}},
		"413":            {status: 413, want: &export.Error{}, hint: "--export-interval"},
		"415":            {status: 415, want: &export.Error{}, hint: "--otlp-compression none"},
		"500":            {status: 500, headers: map[string]string{"Content-Type": text}, body: bytes.Repeat([]byte("long "), 1<<20), want: &export.Error{}, contains: "long …"},
		"501":            {status: 501, want: &export.Error{}},
		"redirect":       {status: 307, headers: map[string]string{"Location": "https://elsewhere.example/p?key=" + token}, want: &export.Error{}, hint: "the final address, https://elsewhere.example/p"},
		"redirect where": {status: 302, want: &export.Error{}, hint: "the final address"},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range tt.headers {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.status)
				_, _ = w.Write(tt.body)
			})
			e := exporter(t, config.OTLP{Endpoint: url, Headers: config.Headers{"authorization": "Bearer " + token}})
			err := e.Export(t.Context(), shop())
			if tt.want == nil {
				if err != nil {
					t.Errorf("error %v", err)
				}
				return
			}
			var got *export.Error
			if !errors.As(err, &got) {
				t.Fatalf("error %v", err)
			}
			if got.Retryable != tt.want.Retryable || got.Partial != tt.want.Partial || got.Accepted != tt.want.Accepted {
				t.Errorf("got %+v", got)
			}
			if late := tt.want.After - got.After; late < 0 || late > 2*time.Second {
				t.Errorf("after %v, want %v", got.After, tt.want.After)
			}
			if !strings.Contains(err.Error(), tt.contains) || !strings.Contains(got.Hint, tt.hint) || (tt.hint == "") != (got.Hint == "") {
				t.Errorf("error %v\nhint %s", err, got.Hint)
			}
			if all := err.Error() + got.Hint; strings.Contains(all, token) || strings.ContainsAny(all, "\n\x00") || len(all) > 800 {
				t.Errorf("bad text: %s", all)
			}
		})
	}
}

// raw answers each connection by hand.
func raw(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = http.ReadRequest(bufio.NewReader(c))
				answer(c)
			}()
		}
	}()
	return l.Addr().String()
}

func TestNoAnswer(t *testing.T) {
	closed := raw(t, func(net.Conn) {})
	http2 := raw(t, func(c net.Conn) { fmt.Fprint(c, "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00") })
	half := raw(t, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf") })
	silent := raw(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	_ = l.Close()

	for name, tt := range map[string]struct{ endpoint, text, hint string }{
		"nobody listens":  {"http://user:" + token + "@" + nobody + "/v1?key=" + token, "no collector at http://" + nobody + "/v1:", "start one or use --pprof-path PREFIX"},
		"closes":          {"http://" + closed, "post to http://" + closed, ""},
		"gRPC":            {"http://" + http2, "does not speak HTTP", "4318"},
		"half an answer":  {"http://" + half, "unexpected EOF", ""},
		"silent":          {"http://" + silent, "no answer from http://" + silent + " within 200ms", "--otlp-timeout"},
		"no TLS there":    {"https://" + http2, "", ""},
		"not our TLS":     {secure.URL, "certificate of " + secure.URL, "SSL_CERT_FILE"},
		"no such host":    {"http://nobody.invalid", "no collector at http://nobody.invalid", "--otlp-endpoint"},
		"HTTP, not HTTPS": {strings.Replace(serve(t, func(http.ResponseWriter, *http.Request) {}), "http://", "https://", 1), "does not speak TLS", "http://"},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := 5 * time.Second
			if name == "silent" {
				timeout = 200 * time.Millisecond
			}
			e := exporter(t, config.OTLP{Endpoint: tt.endpoint, Timeout: timeout, Headers: config.Headers{"x-key": token}})
			err := e.Export(t.Context(), shop())
			var got *export.Error
			if !errors.As(err, &got) || !got.Retryable {
				t.Fatalf("error %#v", err)
			}
			if !strings.Contains(err.Error(), tt.text) || !strings.Contains(got.Hint, tt.hint) {
				t.Errorf("error %v\nhint %s", err, got.Hint)
			}
			if strings.Contains(err.Error()+got.Hint, token) {
				t.Errorf("secret in %v, %s", err, got.Hint)
			}
		})
	}
}

// A redirect must not carry headers to another host.
func TestRedirectIsNotFollowed(t *testing.T) {
	other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the other host got a request") })
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusTemporaryRedirect) })
	e := exporter(t, config.OTLP{Endpoint: url, Headers: config.Headers{"x-key": token}})
	var got *export.Error
	if err := e.Export(t.Context(), shop()); !errors.As(err, &got) || got.Retryable {
		t.Errorf("error %v", err)
	}
}

func TestEndsWithItsContext(t *testing.T) {
	silent := raw(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := exporter(t, config.OTLP{Endpoint: "http://" + silent}).Export(ctx, shop()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestEndpointShowsNoSecret(t *testing.T) {
	e := exporter(t, config.OTLP{Endpoint: "https://user:" + token + "@host:4318/a%20b?key=" + token + "#x"})
	if got, want := e.Endpoint(), "https://host:4318/a%20b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, endpoint := range []string{"", "localhost:4318", "ftp://host", "http://", "http://us er:" + token + "@h/\x7f"} {
		if _, err := New(config.OTLP{Endpoint: endpoint}, otlp.Options{}); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%q: error %v", endpoint, err)
		}
	}
}
