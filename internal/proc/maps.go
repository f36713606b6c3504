package proc

import (
	"bytes"
	"strconv"
)

// Mapping is one line of /proc/PID/maps.
type Mapping struct {
	Start, End uint64
	Offset     uint64 // in the file
	Executable bool
	Path       string // as the process sees it; empty for memory without a file
}

// maxMappings bounds what is looked at: the kernel's own limit is 65530 unless
// an administrator raised it.
const maxMappings = 1 << 18

// Mappings lists the process's mappings: [ErrGone] or [ErrDenied].
func (p *Process) Mappings() ([]Mapping, error) {
	text, err := p.ReadFile("maps")
	if err != nil {
		return nil, err
	}
	return parseMappings(text), nil
}

func parseMappings(text []byte) []Mapping {
	var all []Mapping
	for line := range bytes.Lines(text) {
		if m, ok := parseMapping(bytes.TrimSuffix(line, []byte("\n"))); ok && len(all) < maxMappings {
			all = append(all, m)
		}
	}
	return all
}

// parseMapping parses "start-end perms offset dev inode path".
func parseMapping(line []byte) (Mapping, bool) {
	var m Mapping
	fields := make([][]byte, 5)
	for i := range fields {
		var ok bool
		line = bytes.TrimLeft(line, " ")
		if fields[i], line, ok = bytes.Cut(line, []byte(" ")); !ok && i < len(fields)-1 {
			return m, false
		}
	}
	start, end, _ := bytes.Cut(fields[0], []byte("-"))
	var errs [3]error
	m.Start, errs[0] = strconv.ParseUint(string(start), 16, 64)
	m.End, errs[1] = strconv.ParseUint(string(end), 16, 64)
	m.Offset, errs[2] = strconv.ParseUint(string(fields[2]), 16, 64)
	if errs != [3]error{} || m.End < m.Start || len(fields[1]) < 3 {
		return m, false
	}
	m.Executable = fields[1][2] == 'x'
	m.Path = string(bytes.TrimLeft(line, " "))
	return m, true
}
