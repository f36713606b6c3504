// Package otlphttp sends profiles to an OTLP receiver over HTTP with protobuf,
// by the rules of the OTLP specification (opentelemetry-proto 1.11, "OTLP/HTTP").
package otlphttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spanflame/spanflame/internal/config"
	"github.com/spanflame/spanflame/internal/encode/otlp"
	"github.com/spanflame/spanflame/internal/export"
	"github.com/spanflame/spanflame/profile"
)

// maxResponse is read of a response: the limit that OTLP recommends.
const maxResponse = 4 << 20

// Exporter posts one request for each profile. It is an [export.Exporter].
type Exporter struct {
	settings config.OTLP
	encoding otlp.Options
	shown    string // the endpoint without what may be secret
	secrets  []string
	client   *http.Client

	request []byte // reused: Export is called from one goroutine at a time
	packed  bytes.Buffer
	gzip    *gzip.Writer
}

var _ export.Exporter = (*Exporter)(nil)

// New returns an Exporter for the endpoint, headers, timeout (of one request;
// not positive means 10 s) and compression of c. The error is about the
// endpoint. Redirects are not followed: headers hold keys that are meant for
// one host.
func New(c config.OTLP, o otlp.Options) (*Exporter, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("the OTLP endpoint is no URL that starts with http:// or https://")
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Second
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 64 << 10
	e := &Exporter{
		settings: c, encoding: o,
		shown: u.Scheme + "://" + u.Host + u.EscapedPath(),
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		gzip: gzip.NewWriter(io.Discard),
	}
	for _, value := range c.Headers {
		e.secrets = append(e.secrets, secretsIn(value)...)
	}
	if password, ok := u.User.Password(); ok {
		e.secrets = append(e.secrets, secretsIn(password)...)
	}
	// The longest first: a part of it would spoil the search for the whole.
	slices.SortFunc(e.secrets, func(a, b string) int { return len(b) - len(a) })
	return e, nil
}

// secretsIn returns the texts that must not show: a value, and its token if it
// has a scheme before it. Very short ones are no secret, and would make any
// text unreadable.
func secretsIn(value string) []string {
	var list []string
	for _, s := range append(strings.Fields(value), value) {
		if len(s) > 3 {
			list = append(list, s)
		}
	}
	return list
}

// Name is "otlp".
func (e *Exporter) Name() string { return "otlp" }

// Endpoint returns the URL for people to read: without user, password and query,
// which may be secret.
func (e *Exporter) Endpoint() string { return e.shown }

// Shutdown closes idle connections. It does not fail.
func (e *Exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// Export posts p. A profile without a value is delivered by doing nothing.
func (e *Exporter) Export(ctx context.Context, p *profile.Profile) error {
	e.request = otlp.Encode(e.request[:0], []*profile.Profile{p}, e.encoding)
	if len(e.request) == 0 {
		return nil
	}
	body := e.request
	if e.settings.Compression == config.CompressionGzip {
		if err := e.pack(); err != nil {
			return err
		}
		body = e.packed.Bytes()
	}
	within, cancel := context.WithTimeout(ctx, e.settings.Timeout)
	defer cancel()
	request, err := e.newRequest(within, body)
	if err != nil {
		return err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return e.unsent(ctx, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil && response.StatusCode == http.StatusOK {
		// Whether all was taken is not known. A resend may count twice where a
		// back end does not recognize it; a loss would be worse.
		return e.unsent(ctx, err)
	}
	return e.outcome(response, answer)
}

func (e *Exporter) pack() error {
	e.packed.Reset()
	e.gzip.Reset(&e.packed)
	if _, err := e.gzip.Write(e.request); err != nil {
		return fmt.Errorf("compress request: %w", err)
	}
	if err := e.gzip.Close(); err != nil {
		return fmt.Errorf("compress request: %w", err)
	}
	return nil
}

func (e *Exporter) newRequest(ctx context.Context, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.settings.Endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make a request for %s", e.shown)
	}
	request.Header.Set("User-Agent", strings.TrimSuffix("spanflame/"+e.encoding.Version, "/"))
	for name, value := range e.settings.Headers {
		if strings.EqualFold(name, "host") {
			request.Host = value // no header to net/http
			continue
		}
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	// What Collectors send each other since v0.163; receivers refuse a version
	// of the signal that they do not know instead of misreading it.
	request.Header.Set("Otlp-Profiles-Development-Version", "1")
	request.Header.Del("Content-Encoding")
	if e.settings.Compression == config.CompressionGzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	return request, nil
}
