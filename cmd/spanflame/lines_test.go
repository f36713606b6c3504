package main

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	var b strings.Builder
	log := slog.New(&lines{level: slog.LevelInfo, out: &b})
	log.Debug("not shown")
	log.Info("plain")
	log.Warn("export failed", "err", errors.New(`dial "x": refused`), "n", 3, "empty", "")
	log.With("pid", 7).WithGroup("g").With("a", 1).Info("grouped", "b", 2, slog.Group("in", "c", 3))
	log.Info("one\nline", "v", "two\nlines")
	want := `spanflame: plain
spanflame: export failed err="dial \"x\": refused" n=3 empty=""
spanflame: grouped pid=7 g.a=1 g.b=2 g.in.c=3
spanflame: one line v="two\nlines"
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
