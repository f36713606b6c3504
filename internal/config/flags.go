package config

import (
	"fmt"
	"io"
	"strings"
)

// parseFlags splits args into flags, by name without dashes, and the rest.
// It is not package flag, whose errors repeat values: they may be secret.
func parseFlags(args []string) (flags map[string]string, rest []string, err error) {
	flags = map[string]string{}
	for len(args) > 0 {
		arg := args[0]
		if arg == "-h" || arg == "--help" {
			return nil, nil, ErrHelp
		}
		if arg == "--" {
			return flags, args[1:], nil
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			return flags, args, nil
		}
		args = args[1:]
		name, value, hasValue := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		s := settingNamed(name)
		if s == nil {
			shown, _, _ := strings.Cut(arg, "=")
			return nil, nil, fmt.Errorf("unknown flag %s; --help lists them", shown)
		}
		switch {
		case hasValue:
		case s.kind.word == "": // a switch
			value = "true"
		case len(args) == 0 || args[0] == "--":
			return nil, nil, &ValueError{"--" + name, "needs a value: " + s.kind.word}
		default:
			value, args = args[0], args[1:]
		}
		flags[name] = value
	}
	return flags, nil, nil
}

func settingNamed(name string) *setting {
	for i := range table {
		if table[i].name == name {
			return &table[i]
		}
	}
	return nil
}

// Usage writes the flags, their defaults and variables.
func Usage(w io.Writer) {
	for _, s := range table {
		fmt.Fprintf(w, "  %s\n", s.synopsis())
		for _, line := range wrap(strings.ReplaceAll(s.help, "`", ""), 90) {
			fmt.Fprintf(w, "        %s\n", line)
		}
		if s.def != "" {
			fmt.Fprintf(w, "        default: %s\n", s.def)
		}
		fmt.Fprintf(w, "        environment: %s\n", strings.Join(s.env, ", "))
	}
}

func (s *setting) synopsis() string {
	if s.kind.word == "" {
		return "--" + s.name + "[=true|false]"
	}
	return "--" + s.name + " " + s.kind.word
}

// wrap breaks text into lines of at most width bytes, if its words allow it.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
