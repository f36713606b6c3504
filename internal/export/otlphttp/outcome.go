package otlphttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spanflame/spanflame/internal/encode"
	"github.com/spanflame/spanflame/internal/export"
)

const op = "send profile"

// maxAfter bounds what Retry-After is believed: a date in the next century
// would be a typing error.
const maxAfter = time.Hour

// unsent is the error when no answer came. All of that may pass: it is retried.
func (e *Exporter) unsent(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &export.Error{Op: op, Err: ctx.Err(), Retryable: true}
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // its text has the whole URL
	}
	failed := func(hint, format string, args ...any) error {
		return &export.Error{Op: op, Err: fmt.Errorf(format, args...), Retryable: true, Hint: hint}
	}
	var dns *net.DNSError
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return failed("start one or use --pprof-path PREFIX", "no collector at %s: %w", e.shown, err)
	case errors.Is(err, context.DeadlineExceeded):
		return failed("is it reachable from here? --otlp-timeout sets how long to wait", "no answer from %s within %s: %w", e.shown, e.settings.Timeout, err)
	case errors.As(err, &dns):
		return failed("check the host name in --otlp-endpoint", "no collector at %s: %w", e.shown, err)
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return failed("use http:// in --otlp-endpoint", "%s does not speak TLS: %w", e.shown, err)
	case errors.As(err, &certificate):
		return failed("install its authority's certificate, or name it in SSL_CERT_FILE", "certificate of %s: %w", e.shown, err)
	case strings.Contains(err.Error(), "malformed HTTP"): // net/http has no type for it
		return failed("this may be a port for gRPC; OTLP over HTTP usually has port 4318", "what listens at %s does not speak HTTP", e.shown)
	}
	return failed("", "post to %s: %w", e.shown, &hidden{err, e.secrets})
}

// hidden is an error whose text does not show secrets.
type hidden struct {
	err     error
	secrets []string
}

func (h *hidden) Error() string { return hide(h.err.Error(), h.secrets) }
func (h *hidden) Unwrap() error { return h.err }

func hide(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "***")
	}
	return text
}

// outcome judges an answer.
func (e *Exporter) outcome(r *http.Response, body []byte) error {
	if r.StatusCode >= 200 && r.StatusCode < 300 {
		return e.partial(r, body)
	}
	said := e.said(r, body)
	fault := &export.Error{Op: op, Err: fmt.Errorf("%s answers %d %s%s", e.shown, r.StatusCode, http.StatusText(r.StatusCode), said)}
	switch r.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		fault.Retryable = true
		fault.After = retryAfter(r.Header.Get("Retry-After"), time.Now())
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		fault.Hint = "redirects are not followed; set --otlp-endpoint to the final address" + e.location(r)
	case http.StatusBadRequest:
		if strings.Contains(said, "too large") { // the Collector's answer to what is 413
			fault.Hint = tooLarge
		}
	case http.StatusUnauthorized, http.StatusForbidden:
		fault.Hint = "check the credentials in OTEL_EXPORTER_OTLP_HEADERS (or OTEL_EXPORTER_OTLP_PROFILES_HEADERS)"
	case http.StatusNotFound:
		fault.Hint = "nothing takes profiles under this path: a Collector takes them at /v1development/profiles, with a pipeline for profiles and --feature-gates=service.profilesSupport"
	case http.StatusMethodNotAllowed:
		fault.Hint = "this is no path for OTLP: a Collector takes profiles at /v1development/profiles"
	case http.StatusRequestEntityTooLarge:
		fault.Hint = tooLarge
	case http.StatusUnsupportedMediaType:
		fault.Hint = "what listens does not take OTLP profiles as protobuf, or not with this compression: try --otlp-compression none"
	}
	return fault
}

const tooLarge = "raise the receiver's limit, or send less at a time: --export-interval 15s"

// location names where a redirect leads, without query and password.
func (e *Exporter) location(r *http.Response) string {
	u, err := r.Location()
	if err != nil {
		return ""
	}
	return ", " + printable(hide(u.Scheme+"://"+u.Host+u.EscapedPath(), e.secrets))
}

// retryAfter reads both forms of Retry-After, 0 for none.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(maxAfter/time.Second))) * time.Second
	} else if errors.Is(err, strconv.ErrRange) {
		return maxAfter
	}
	if date, err := http.ParseTime(value); err == nil {
		return min(max(date.Sub(now), 0), maxAfter)
	}
	return 0
}

// partial reads the answer to a request that was taken: an
// ExportProfilesServiceResponse, whose partial_success is empty when all is
// well (the Collector sends it so).
func (e *Exporter) partial(r *http.Response, body []byte) error {
	if !isProtobuf(r) {
		return nil // 2xx counts, whatever a proxy writes
	}
	var rejected int64
	var message string
	err := encode.Fields(body, func(f encode.Field) error {
		if f.Number != 1 || f.Type != protowire.BytesType { // partial_success
			return nil
		}
		return encode.Fields(f.Bytes, func(f encode.Field) error {
			switch {
			case f.Number == 1 && f.Type == protowire.VarintType: // rejected_profiles
				rejected = int64(f.Num)
			case f.Number == 2 && f.Type == protowire.BytesType: // error_message
				message = string(f.Bytes)
			}
			return nil
		})
	})
	message = e.quoted(message)
	switch {
	case err != nil:
		return nil
	case rejected > 0:
		return &export.Error{Op: op, Partial: true, Err: fmt.Errorf("%s rejected %d of the types of a profile%s", e.shown, rejected, message)}
	case message != "":
		return &export.Error{Op: op, Accepted: true, Err: fmt.Errorf("%s warns%s", e.shown, message)}
	}
	return nil
}

func isProtobuf(r *http.Response) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-protobuf")
}

// said returns what the receiver says of an error, as ": text": a
// google.rpc.Status, or plain text as Pyroscope sends it.
func (e *Exporter) said(r *http.Response, body []byte) string {
	switch {
	case isProtobuf(r):
		var message string
		err := encode.Fields(body, func(f encode.Field) error {
			if f.Number == 2 && f.Type == protowire.BytesType {
				message = string(f.Bytes)
			}
			return nil
		})
		if err != nil {
			return ""
		}
		return e.quoted(message)
	case strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain"):
		return e.quoted(string(body))
	}
	return "" // a page of a proxy
}

const maxQuoted = 300

// quoted makes a text of others fit for one line of a log: it is cut, and
// headers of ours that it repeats are taken out.
func (e *Exporter) quoted(text string) string {
	text = strings.TrimSpace(printable(hide(text, e.secrets)))
	if text == "" {
		return ""
	}
	if runes := []rune(text); len(runes) > maxQuoted {
		text = string(runes[:maxQuoted]) + "…"
	}
	return ": " + text
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, encode.Text(text))
}
