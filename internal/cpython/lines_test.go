package cpython

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestLinesOfInterpreters compares every instruction of some modules with what
// the interpreter that compiled them says.
func TestLinesOfInterpreters(t *testing.T) {
	for minor := 9; minor <= 15; minor++ {
		t.Run(fmt.Sprintf("3.%d", minor), func(t *testing.T) {
			t.Parallel()
			python := findPython(minor)
			switch {
			case python == "" && minor == 11 && os.Getenv("CI") != "":
				t.Fatal("no CPython 3.11 found")
			case python == "":
				t.Skip("not installed")
			}
			out, err := exec.Command(python, "-I", "testdata/lines.py").Output()
			if err != nil {
				t.Fatalf("%s: %v", python, err)
			}
			codes := bytes.Split(bytes.TrimSpace(out), []byte("\n"))[1:]
			if len(codes) < 100 {
				t.Fatalf("only %d code objects", len(codes))
			}
			for _, code := range codes {
				compareLines(t, formatOf(minor), string(code))
			}
		})
	}
}

func formatOf(minor int) lineFormat {
	switch {
	case minor < 10:
		return lnotab
	case minor == 10:
		return linetable310
	}
	return locations311
}

// findPython returns an interpreter of 3.minor, "" if there is none. A name on
// PATH may be a shim that refuses to run.
func findPython(minor int) string {
	var candidates []string
	if minor == 11 {
		candidates = append(candidates, os.Getenv("SPANFLAME_TEST_PYTHON"))
	}
	candidates = append(candidates, fmt.Sprintf("python3.%d", minor), fmt.Sprintf("/usr/bin/python3.%d", minor))
	roots := []string{os.Getenv("PYENV_ROOT")}
	if home, err := os.UserHomeDir(); err == nil {
		roots = append(roots, filepath.Join(home, ".pyenv"))
	}
	for _, root := range roots {
		found, _ := filepath.Glob(filepath.Join(root, "versions", fmt.Sprintf("3.%d.*", minor), "bin", "python"))
		candidates = append(candidates, found...)
	}
	const version = "import sys; print(*sys.version_info[:2], sys.implementation.name)"
	for _, python := range candidates {
		if python == "" {
			continue
		}
		out, err := exec.Command(python, "-I", "-S", "-c", version).Output()
		if err == nil && string(out) == fmt.Sprintf("3 %d cpython\n", minor) {
			return python
		}
	}
	return ""
}

// compareLines takes what testdata/lines.py prints of one code object.
func compareLines(t *testing.T, format lineFormat, code string) {
	t.Helper()
	words := strings.Fields(code)
	first, length, runs := number(t, words[0]), number(t, words[2]), words[3:]
	table, err := hex.DecodeString(strings.TrimPrefix(words[1], "-"))
	if err != nil {
		t.Fatal(err)
	}
	want := int32(-1)
	for off := 0; off < length; off += 2 {
		for len(runs) > 0 {
			start, line, _ := strings.Cut(runs[0], ":")
			if number(t, start) > off {
				break
			}
			want, runs = int32(number(t, line)), runs[1:]
		}
		if got := lineAt(format, table, int32(first), off); got != want {
			t.Fatalf("code at line %d: offset %d is on line %d, want %d", first, off, got, want)
		}
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLineAt(t *testing.T) {
	head := func(kind, units byte) byte { return 0x80 | kind<<3 | (units - 1) }
	tests := []struct {
		name   string
		format lineFormat
		table  []byte
		first  int32
		off    int
		want   int32
	}{
		{"frame that has not begun", locations311, []byte{head(15, 1)}, 7, -2, 7},
		{"lnotab without table", lnotab, nil, 7, 40, 7},
		{"lnotab with half a pair", lnotab, []byte{2, 1, 4}, 7, 40, 8},
		{"lnotab backwards", lnotab, []byte{2, 0xff}, 7, 2, 6},
		{"310 without table", linetable310, nil, 7, 0, 0},
		{"310 none", linetable310, []byte{2, 1, 2, 0x80, 2, 1}, 7, 2, 0},
		{"310 after none", linetable310, []byte{2, 1, 2, 0x80, 2, 1}, 7, 4, 9},
		{"310 past the end", linetable310, []byte{2, 1}, 7, 2, 0},
		{"311 without table", locations311, nil, 7, 0, 0},
		{"311 short", locations311, []byte{head(3, 2), 0x11}, 7, 2, 7},
		{"311 one line", locations311, []byte{head(12, 1), 1, 2}, 7, 0, 9},
		{"311 none", locations311, []byte{head(15, 8)}, 7, 14, 0},
		{"311 no column, backwards", locations311, []byte{head(13, 1), 3}, 7, 0, 6},
		{"311 varint of two bytes", locations311, []byte{head(14, 1), 0x40, 0x02, 0, 0, 0}, 7, 0, 71},
		{"311 varint cut off", locations311, []byte{head(13, 1), 0x42}, 7, 0, 8},
		{"311 varint without end", locations311, append([]byte{head(13, 1)}, bytes.Repeat([]byte{0x7f}, 64)...), 7, 0, 0},
		{"311 past the end", locations311, []byte{head(11, 1), 0, 0}, 7, 2, 0},
		{"311 before line 0", locations311, []byte{head(13, 1), 0x3f}, 7, 0, 0},
		{"311 past the last line", locations311, []byte{head(11, 1), 0, 0}, math.MaxInt32, 0, 0},
		{"unknown format", 99, []byte{2, 1}, 7, 0, 0},
	}
	for _, test := range tests {
		if got := lineAt(test.format, test.table, test.first, test.off); got != test.want {
			t.Errorf("%s: line %d, want %d", test.name, got, test.want)
		}
	}
}

// FuzzLineAt holds that any memory gives a line or none.
func FuzzLineAt(f *testing.F) {
	f.Add(uint8(lnotab), []byte{2, 1, 255, 127, 0, 128}, int32(1), 300)
	f.Add(uint8(linetable310), []byte{2, 1, 2, 0x80, 2, 1}, int32(1), 4)
	f.Add(uint8(locations311), []byte{0xf0, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f}, int32(math.MaxInt32), 0)
	f.Add(uint8(locations311), []byte{0xff, 0x80, 0x90, 0xd8, 1, 2}, int32(-1), math.MaxInt)
	f.Fuzz(func(t *testing.T, format uint8, table []byte, first int32, off int) {
		if got := lineAt(lineFormat(format), table, first, off); got < 0 {
			t.Errorf("line %d", got)
		}
	})
}
