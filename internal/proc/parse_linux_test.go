package proc

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestParseMapping(t *testing.T) {
	for line, want := range map[string]Mapping{
		"00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a b":      {0x400000, 0x452000, 0x1000, true, "/usr/bin/a b"},
		"7f00-7fff rw-p 00000000 00:00 0":                                     {0x7f00, 0x7fff, 0, false, ""},
		"7f00-7fff rw-p 00000000 00:00 0 ":                                    {0x7f00, 0x7fff, 0, false, ""},
		"7f00-7fff rw-p 00000000 00:00 0                          [heap]":     {0x7f00, 0x7fff, 0, false, "[heap]"},
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]": {0xffffffffff600000, 0xffffffffff601000, 0, true, "[vsyscall]"},
		`7f00-7fff r--s 00000000 00:01 9 /x\012y (deleted)`:                   {0x7f00, 0x7fff, 0, false, `/x\012y (deleted)`},
	} {
		if got, ok := parseMapping([]byte(line)); !ok || got != want {
			t.Errorf("%q: %+v, %t", line, got, ok)
		}
	}
	for _, line := range []string{
		"", " ", "-", "7f00-7fff", "7f00 7fff rw-p 0 00:00 0", "7fff-7f00 rw-p 0 00:00 0 x", "7f00-7fff rw 0 00:00 0 x",
		"g-7fff rw-p 0 00:00 0", "7f00-7fff rw-p x 00:00 0", "10000000000000000-7fff rw-p 0 00:00 0 x", "7f00-7fff rw-p 0 00:00",
	} {
		if got, ok := parseMapping([]byte(line)); ok {
			t.Errorf("%q: %+v", line, got)
		}
	}
}

func TestMappingsOfOurselves(t *testing.T) {
	p, err := OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	all, err := p.Mappings()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := p.Link("exe")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, m := range all {
		found = found || m.Path == exe && m.Executable
	}
	if !found {
		t.Errorf("%s is not executable in %v", exe, all)
	}
	if _, err := p.Link("no such link"); err == nil {
		t.Error("a link that is not there was read")
	}
}

func TestParseStat(t *testing.T) {
	const rest = " S 42 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 1234 21 22\n"
	for _, name := range []string{"sleep", "a b", "a) R 1 2 (", ") R 9 9 9", "", "\xff\n)"} {
		got, err := parseStat([]byte("7 (" + name + ")" + rest))
		if want := (Stat{Sleeping, 42, 12340 * time.Millisecond}); err != nil || got != want {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
	for _, text := range []string{
		"", "7", "7 (x)", "7 (x) ", "7 (x) S", "7 (x) S 1 2 3", strings.Replace("7 (x)"+rest, "42", "x", 1),
		strings.Replace("7 (x)"+rest, "1234", "-", 1), strings.Replace("7 (x)"+rest, "1234", "99999999999999999999", 1),
	} {
		if got, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestLeadingNumber(t *testing.T) {
	for _, test := range []struct {
		text string
		n    uint64
		rest string
	}{
		{"", 0, ""}, {"   ", 0, ""}, {"12", 12, ""}, {"  12 34", 12, " 34"}, {"-5", 0, "-5"}, {"x", 0, "x"},
		{"18446744073709551615\n", 1<<64 - 1, "\n"}, {"1,2", 1, ",2"},
	} {
		if n, rest := leadingNumber([]byte(test.text)); n != test.n || string(rest) != test.rest {
			t.Errorf("%q: %d, %q", test.text, n, rest)
		}
	}
}

// FuzzMappings holds that any text gives sane mappings or none.
func FuzzMappings(f *testing.F) {
	f.Add([]byte("00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a b\n7f00-7fff rw-p 00000000 00:00 0\n\n-\n"))
	f.Add([]byte("7f00-7fff rw-p 0 0 0"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, m := range parseMappings(text) {
			if m.End < m.Start || len(m.Path) > len(text) {
				t.Errorf("%+v", m)
			}
		}
	})
}

// FuzzStat holds that any text gives a state or an error.
func FuzzStat(f *testing.F) {
	f.Add([]byte("7 (a b) S 42 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 1234 21 22\n"))
	f.Add([]byte("7 ())"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := parseStat(text); err == nil && got.State == 0 {
			t.Errorf("%q: %+v", text, got)
		}
		leadingNumber(text)
	})
}
