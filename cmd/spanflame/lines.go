package main

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
)

// lines is a slog.Handler for people: "spanflame: message key=value", one
// write for each record, since other processes write to the same place.
type lines struct {
	level slog.Level
	out   io.Writer
	mu    sync.Mutex
}

func (l *lines) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level }

func (l *lines) Handle(_ context.Context, r slog.Record) error { return l.write(r, "", nil) }

func (l *lines) write(r slog.Record, prefix string, before []slog.Attr) error {
	var b strings.Builder
	b.WriteString("spanflame: ")
	b.WriteString(oneLine(r.Message))
	for _, a := range before {
		appendAttr(&b, "", a)
	}
	r.Attrs(func(a slog.Attr) bool {
		appendAttr(&b, prefix, a)
		return true
	})
	b.WriteByte('\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := io.WriteString(l.out, b.String())
	return err
}

func (l *lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	return (&derived{lines: l}).WithAttrs(attrs)
}

func (l *lines) WithGroup(name string) slog.Handler { return (&derived{lines: l}).WithGroup(name) }

// derived is lines with attributes of its own.
type derived struct {
	*lines
	prefix string
	attrs  []slog.Attr
}

func (d *derived) Handle(_ context.Context, r slog.Record) error {
	return d.write(r, d.prefix, d.attrs)
}

func (d *derived) WithAttrs(attrs []slog.Attr) slog.Handler {
	all := d.attrs[:len(d.attrs):len(d.attrs)]
	for _, a := range attrs {
		a.Key = d.prefix + a.Key
		all = append(all, a)
	}
	return &derived{d.lines, d.prefix, all}
}

func (d *derived) WithGroup(name string) slog.Handler {
	if name == "" {
		return d
	}
	return &derived{d.lines, d.prefix + name + ".", d.attrs}
}

func appendAttr(b *strings.Builder, prefix string, a slog.Attr) {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, inner := range value.Group() {
			appendAttr(b, prefix, inner)
		}
		return
	}
	if a.Equal(slog.Attr{}) {
		return
	}
	text := value.String()
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r == ' ' || r == '"' || !strconv.IsPrint(r) }) {
		text = strconv.Quote(text)
	}
	b.WriteString(" " + prefix + a.Key + "=" + text)
}

// oneLine keeps what came from elsewhere from writing lines of its own.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
