// Command table prints what each span of the demo's shop cost: it joins the
// pprof files of spanflame with the spans that the shop wrote down itself.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/google/pprof/profile"

	"github.com/spanflame/spanflame/internal/report"
)

func main() {
	spans := flag.String("spans", "", "file of spans that the shop wrote")
	flag.Parse()
	if err := run(*spans, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(spans string, files []string) error {
	f, err := os.Open(spans)
	if err != nil {
		return err
	}
	defer f.Close()
	record, err := report.ReadRecord(f)
	if err != nil {
		return err
	}
	var profiles []*profile.Profile
	for _, name := range files {
		p, err := parse(name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		profiles = append(profiles, p)
	}
	rows, err := report.Rows(record.Spans, profiles)
	if err != nil {
		return err
	}
	fmt.Println()
	if err := report.WriteTable(os.Stdout, rows); err != nil {
		return err
	}
	return summarize(rows, record.CPU)
}

func parse(name string) (*profile.Profile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return profile.Parse(f)
}

// summarize compares the profiles with what the process says of itself. It is
// an error if they tell nothing of its spans.
func summarize(rows []report.Row, own time.Duration) error {
	var all, linked time.Duration
	for _, r := range rows {
		all += r.CPU
		if r.Count > 0 {
			linked += r.CPU
		}
	}
	fmt.Printf("\ncpu and wall are a span's own, without its child spans; %.0f%% of cpu is linked to a span\n",
		percent(linked, all))
	fmt.Printf("cpu in the profiles %.2f s; the shop itself counted %.2f s before its interpreter was torn down\n",
		all.Seconds(), own.Seconds())
	if linked == 0 {
		return errors.New("no sample is linked to a span of the shop")
	}
	return nil
}

func percent(part, whole time.Duration) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * part.Seconds() / whole.Seconds()
}
