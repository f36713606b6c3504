package report

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	nameWidth      = 24
	functionsWidth = 31 // makes lines of 100 columns
)

// WriteTable prints rows in at most 100 columns.
func WriteTable(w io.Writer, rows []Row) error {
	const format = "%s %6s %8s %8s %8s %8s  %s\n"
	var b strings.Builder
	fmt.Fprintf(&b, format, pad("span", nameWidth), "count", "total", "mean", "cpu", "wall", "top functions by cpu")
	for _, r := range rows {
		count, total, mean := "", "", ""
		if r.Count > 0 {
			count = fmt.Sprint(r.Count)
			total = short(r.Duration)
			mean = short(r.Duration / time.Duration(r.Count))
		}
		fmt.Fprintf(&b, format, pad(r.Name, nameWidth), count, total, mean, short(r.CPU), short(r.Wall), top(r, functionsWidth))
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// top is as many of the row's functions as fit, and at least one.
func top(r Row, width int) string {
	var text string
	for i, f := range r.Functions {
		share := fmt.Sprintf(" %.0f%%", 100*f.CPU.Seconds()/r.CPU.Seconds())
		if i == 0 {
			text = cut(f.Name, width-len(share)) + share
			continue
		}
		next := text + ", " + f.Name + share
		if utf8.RuneCountInString(next) > width {
			break
		}
		text = next
	}
	return text
}

// short is a duration in three or four digits.
func short(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case d == 0:
		return "-"
	case ms < 100:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.2f s", ms/1000)
}

func pad(s string, width int) string {
	s = cut(s, width)
	return s + strings.Repeat(" ", width-utf8.RuneCountInString(s))
}

func cut(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	return string(runes[:width-1]) + "…"
}
