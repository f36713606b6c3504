// Command spanflame profiles programs that are traced with OpenTelemetry.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spanflame/spanflame/internal/config"
	"github.com/spanflame/spanflame/internal/shim"
)

// Exit codes of our own; otherwise it is the command's.
const (
	codeOK    = 0
	codeError = 1
	codeUsage = 2
)

func main() { os.Exit(dispatch(os.Args[1:])) }

func dispatch(args []string) (code int) {
	if len(args) == 0 {
		usage(os.Stderr)
		return codeUsage
	}
	switch args[0] {
	case "run":
		return run(args[1:])
	case "agent": // started by run
		return runAgent()
	case "version", "--version":
		fmt.Println("spanflame", shim.Version)
	case "help", "-h", "--help":
		if len(args) > 1 && args[1] == "run" {
			usageOfRun(os.Stdout)
		} else {
			usage(os.Stdout)
		}
	default:
		say(fmt.Sprintf("unknown command %q; `spanflame help` lists them", args[0]))
		return codeUsage
	}
	return codeOK
}

// say prints a line for the user, where it does not mix with the output of
// the command.
func say(line string) {
	for l := range strings.SplitSeq(line, "\n") {
		fmt.Fprintln(os.Stderr, "spanflame: "+l)
	}
}

func usage(w io.Writer) {
	fmt.Fprint(w, `spanflame profiles programs that are traced with OpenTelemetry.

  spanflame run [flags] -- CMD ARGS…   run a command and profile the Python in it
  spanflame help run                   the flags, their defaults and variables
  spanflame version
`)
}

func usageOfRun(w io.Writer) {
	fmt.Fprint(w, `spanflame run [flags] -- CMD ARGS…

Runs the command and profiles the CPython processes in it. Streams, signals and
the exit code are the command's own. Exit codes of spanflame itself: 2 for a wrong
setting, 126 and 127 for a command that cannot be run or found.

`)
	config.Usage(w)
}
