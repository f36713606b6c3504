package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spanflame/spanflame/profile"
)

// kind is a type of setting, bound to the field that it fills.
type kind struct {
	word   string // stands for the value in help
	secret bool
	// accepts completes "is not ...".
	accepts func(unit) string
	set     func(c *Config, in input) (warning string, err error)
}

// input is one value as somebody wrote it.
type input struct {
	name string // flag or variable, empty for the default
	text string
	unit unit
}

// unit is what the number of a duration counts.
type unit int

const (
	goDuration   unit = iota // none: the text names its unit
	seconds                  // OTEL_PYTHON_PROFILING_*, OTEL_PROFILING_*
	milliseconds             // OTEL_EXPORTER_OTLP_*, by the OTLP specification
)

func unitOf(variable string) unit {
	switch {
	case strings.HasPrefix(variable, "OTEL_EXPORTER_OTLP_"):
		return milliseconds
	case strings.HasPrefix(variable, "OTEL_"):
		return seconds
	}
	return goDuration
}

// errNotAccepted is for a value that is not what the kind accepts; any other
// error of set is shown as it is.
var errNotAccepted = errors.New("not accepted")

func always(text string) func(unit) string { return func(unit) string { return text } }

func duration(field func(*Config) *time.Duration, low, high time.Duration) kind {
	accepts := func(u unit) string {
		switch u {
		case seconds:
			return fmt.Sprintf("a number of seconds from %g to %g", low.Seconds(), high.Seconds())
		case milliseconds:
			return fmt.Sprintf("a number of milliseconds from %d to %d", low.Milliseconds(), high.Milliseconds())
		}
		return fmt.Sprintf("a duration with its unit, such as 250ms or 1m30s, from %s to %s", short(low), short(high))
	}
	return kind{word: "DURATION", accepts: accepts, set: func(c *Config, in input) (string, error) {
		d, warning, err := readDuration(in)
		if err != nil || d < low || d > high {
			return "", errNotAccepted
		}
		*field(c) = d
		return warning, nil
	}}
}

func readDuration(in input) (d time.Duration, warning string, err error) {
	if in.unit == goDuration {
		d, err = time.ParseDuration(in.text)
		return d, "", err
	}
	number, err := strconv.ParseFloat(in.text, 64)
	if err != nil {
		return 0, "", err
	}
	scale := time.Second
	if in.unit == milliseconds {
		scale = time.Millisecond
		// The Python SDK reads seconds, against the specification.
		if number < 100 {
			scale = time.Second
			warning = fmt.Sprintf("%s is taken as seconds; OTLP timeouts are milliseconds", in.text)
		}
	}
	// The largest float below 2⁶³ is far over every limit; beyond it the
	// conversion would wrap. NaN fails the comparison too.
	if ns := number * float64(scale); ns >= 0 && ns < 1<<62 {
		return time.Duration(ns), warning, nil
	}
	return 0, "", strconv.ErrRange
}

// short is 1m for "1m0s".
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func count(field func(*Config) *int, low, high int) kind {
	return kind{word: "N", accepts: always(fmt.Sprintf("a whole number from %d to %d", low, high)),
		set: func(c *Config, in input) (string, error) {
			n, err := strconv.Atoi(in.text)
			if err != nil || n < low || n > high {
				return "", errNotAccepted
			}
			*field(c) = n
			return "", nil
		}}
}

// boolean follows OpenTelemetry where a variable says something else than true
// or false: that is otherwise, with a warning. A flag must be one of them.
func boolean(field func(*Config) *bool, otherwise bool) kind {
	return kind{accepts: always("true or false"), set: func(c *Config, in input) (string, error) {
		switch {
		case strings.EqualFold(in.text, "true"):
			*field(c) = true
		case strings.EqualFold(in.text, "false"):
			*field(c) = false
		case strings.HasPrefix(in.name, "--"):
			return "", errNotAccepted
		default:
			*field(c) = otherwise
			return fmt.Sprintf("%q is neither true nor false; taken as %t", in.text, otherwise), nil
		}
		return "", nil
	}}
}

// oneOf takes a name, in any case. Those in later are known and not built yet.
func oneOf[T ~string](field func(*Config) *T, now []T, later ...T) kind {
	var names []string
	for _, v := range now {
		names = append(names, string(v))
	}
	list := strings.Join(names, ", ")
	return kind{word: strings.Join(names, "|"), accepts: always("one of " + list),
		set: func(c *Config, in input) (string, error) {
			v := T(strings.ToLower(in.text))
			switch {
			case slices.Contains(later, v):
				return "", fmt.Errorf("%q is not built yet; use one of %s", v, list)
			case in.name != "" && !slices.Contains(now, v):
				return "", errNotAccepted
			}
			*field(c) = v
			return "", nil
		}}
}

// protocol is oneOf, except that it lets pass what is not built yet: that may be
// set for traces, so settle refuses it once profiles are known to go by OTLP.
func protocol(field func(*Config) *Protocol) kind {
	k := oneOf(field, []Protocol{ProtocolHTTPProtobuf})
	setBuilt := k.set
	k.set = func(c *Config, in input) (string, error) {
		if v := Protocol(strings.ToLower(in.text)); v == protocolGRPC || v == protocolHTTPJSON {
			*field(c) = v
			return "", nil
		}
		return setBuilt(c, in)
	}
	return k
}

func text(field func(*Config) *string, word string) kind {
	return kind{word: word, accepts: always("a text of at least one character"),
		set: func(c *Config, in input) (string, error) {
			if in.text == "" && in.name != "" {
				return "", errNotAccepted
			}
			*field(c) = in.text
			return "", nil
		}}
}

// profilesPath is where OTLP receivers take profiles.
const profilesPath = "/v1development/profiles"

// endpoint takes a URL. OpenTelemetry's variable for all signals holds a base,
// to which each signal adds its path; the others are used as they are.
func endpoint(field func(*Config) *string) kind {
	return kind{word: "URL", accepts: always("a URL that starts with http:// or https://"),
		set: func(c *Config, in input) (string, error) {
			u, err := url.Parse(in.text)
			if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
				return "", errNotAccepted
			}
			*field(c) = in.text
			if in.name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
				u.Path, u.RawPath = strings.TrimRight(u.Path, "/")+profilesPath, ""
				*field(c) = u.String()
			}
			return "", nil
		}}
}

var password = regexp.MustCompile(`://[^/?#]*@`)

// hidePassword works on what is no valid URL, too.
func hidePassword(address string) string { return password.ReplaceAllString(address, "://***@") }

var headerName = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$") // RFC 9110, token

func headers(field func(*Config) *Headers) kind {
	return kind{word: "KEY=VALUE,...", secret: true, accepts: always("a list KEY=VALUE,KEY=VALUE with %XX for special characters"),
		set: func(c *Config, in input) (string, error) {
			h := Headers{}
			err := eachPair(in.text, func(item int, key, value string) error {
				if !headerName.MatchString(key) {
					return fmt.Errorf("item %d has a name that no HTTP header can have", item)
				}
				if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
					return fmt.Errorf("item %d has a control character in its value", item)
				}
				h[strings.ToLower(key)] = value
				return nil
			})
			*field(c) = h
			return "", err
		}}
}

func attributes(field func(*Config) *[]profile.Attribute) kind {
	return kind{word: "KEY=VALUE,...", accepts: always("a list KEY=VALUE,KEY=VALUE with %XX for special characters"),
		set: func(c *Config, in input) (string, error) {
			var list []profile.Attribute
			err := eachPair(in.text, func(_ int, key, value string) error {
				list = slices.DeleteFunc(list, func(a profile.Attribute) bool { return a.Key == key })
				list = append(list, profile.Attribute{Key: key, Value: value})
				return nil
			})
			*field(c) = list
			return "", err
		}}
}

// eachPair reads the format of W3C baggage without its metadata. Its errors
// name an item by its position: the text may be secret.
func eachPair(list string, visit func(item int, key, value string) error) error {
	item := 0
	for pair := range strings.SplitSeq(list, ",") {
		item++
		if strings.TrimSpace(pair) == "" {
			continue // such as after a last comma
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("item %d has no =", item)
		}
		// PathUnescape leaves "+" alone.
		key, err := url.PathUnescape(strings.TrimSpace(key))
		if err != nil || key == "" {
			return fmt.Errorf("item %d has no valid name before its =", item)
		}
		value, err = url.PathUnescape(strings.TrimSpace(value))
		if err != nil {
			return fmt.Errorf("item %d has a %% that no two hexadecimal digits follow (write %%25 for %%)", item)
		}
		if err := visit(item, key, value); err != nil {
			return err
		}
	}
	return nil
}

func level(field func(*Config) *slog.Level) kind {
	return kind{word: "debug|info|warn|error", accepts: always("one of debug, info, warn, error"),
		set: func(c *Config, in input) (string, error) {
			if !slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(in.text)) {
				return "", errNotAccepted
			}
			return "", field(c).UnmarshalText([]byte(in.text))
		}}
}
