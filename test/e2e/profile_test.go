//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// prof is what the files of one process say, flattened for asking.
type prof struct {
	samples []sample
	windows []window // in order of their number
}

type window struct {
	number         int
	start, seconds float64
	file           string
}

type sample struct {
	cpu, wall int64
	labels    map[string]string
	stack     []frame // leaf first
}

type frame struct {
	function, file string
	first, line    int64
}

var fileName = regexp.MustCompile(`^p\.(\d+)\.(\d+)\.pprof$`)

// readProfiles reads every p.PID.N.pprof of a directory and checks their shape.
func readProfiles(dir string) (map[int]*prof, []string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "p.*"))
	if err != nil {
		return nil, nil, err
	}
	profiles := map[int]*prof{}
	var problems []string
	for _, file := range files {
		m := fileName.FindStringSubmatch(filepath.Base(file))
		if m == nil {
			problems = append(problems, "left behind: "+filepath.Base(file))
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		raw, err := profile.Parse(bytes.NewReader(data))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, problem := range checkShape(raw) {
			problems = append(problems, filepath.Base(file)+": "+problem)
		}
		pid, _ := strconv.Atoi(m[1])
		number, _ := strconv.Atoi(m[2])
		p := profiles[pid]
		if p == nil {
			p = &prof{}
			profiles[pid] = p
		}
		p.add(raw)
		p.windows = append(p.windows, window{number, float64(raw.TimeNanos) / 1e9, float64(raw.DurationNanos) / 1e9, file})
	}
	for _, p := range profiles {
		slices.SortFunc(p.windows, func(a, b window) int { return a.number - b.number })
	}
	return profiles, problems, nil
}

func (p *prof) add(raw *profile.Profile) {
	cpu, wall := valueIndex(raw, "cpu"), valueIndex(raw, "wall")
	for _, s := range raw.Sample {
		flat := sample{labels: map[string]string{}}
		if cpu >= 0 {
			flat.cpu = s.Value[cpu]
		}
		if wall >= 0 {
			flat.wall = s.Value[wall]
		}
		for key, values := range s.Label {
			flat.labels[key] = strings.Join(values, ",")
		}
		for _, l := range s.Location {
			for _, line := range l.Line {
				f := line.Function
				flat.stack = append(flat.stack, frame{f.Name, f.Filename, f.StartLine, line.Line})
			}
		}
		p.samples = append(p.samples, flat)
	}
}

func valueIndex(raw *profile.Profile, name string) int {
	return slices.IndexFunc(raw.SampleType, func(v *profile.ValueType) bool { return v.Type == name })
}

type match func(*sample) bool

func all(*sample) bool { return true }

// in matches samples with a function anywhere on the stack.
func in(function string) match {
	return func(s *sample) bool {
		return slices.ContainsFunc(s.stack, func(f frame) bool { return f.function == function })
	}
}

// at matches samples whose innermost function it is.
func at(function string) match {
	return func(s *sample) bool { return len(s.stack) > 0 && s.stack[0].function == function }
}

func labelled(key, value string) match {
	return func(s *sample) bool { return s.labels[key] == value }
}

func both(a, b match) match { return func(s *sample) bool { return a(s) && b(s) } }

func (p *prof) cpu(m match) int64 {
	var sum int64
	for i := range p.samples {
		if m(&p.samples[i]) {
			sum += p.samples[i].cpu
		}
	}
	return sum
}

func (p *prof) wall(m match) int64 {
	var sum int64
	for i := range p.samples {
		if m(&p.samples[i]) {
			sum += p.samples[i].wall
		}
	}
	return sum
}

// lines sums a function's CPU by the line it was at.
func (p *prof) lines(function string) (byLine map[int64]int64, first int64) {
	byLine = map[int64]int64{}
	for _, s := range p.samples {
		for _, f := range s.stack {
			if f.function == function {
				byLine[f.line] += s.cpu
				first = f.first
				break
			}
		}
	}
	return byLine, first
}

// innermost is the function of a set that is nearest to the leaf.
func (s *sample) innermost(set map[string]bool) string {
	for _, f := range s.stack {
		if set[f.function] {
			return f.function
		}
	}
	return ""
}

// where describes a sample in a message.
func (s *sample) where() string {
	var names []string
	for i, f := range s.stack {
		if i == 8 {
			names = append(names, "…")
			break
		}
		names = append(names, fmt.Sprintf("%s:%d", f.function, f.line))
	}
	return fmt.Sprintf("[%s] %v cpu %d wall %d", strings.Join(names, " < "), s.labels, s.cpu, s.wall)
}
