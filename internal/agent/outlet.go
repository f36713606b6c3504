package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"github.com/spanflame/spanflame/internal/config"
	"github.com/spanflame/spanflame/internal/encode/otlp"
	"github.com/spanflame/spanflame/internal/export"
	"github.com/spanflame/spanflame/internal/export/otlphttp"
	"github.com/spanflame/spanflame/internal/export/pproffile"
	"github.com/spanflame/spanflame/internal/shim"
	"github.com/spanflame/spanflame/profile"
)

// outlet is where the profiles of all targets go; nowhere without a queue.
type outlet struct {
	queue *export.Queue
	files *pproffile.Exporter
	to    string
}

func newOutlet(cfg *config.Config, log *slog.Logger) (*outlet, error) {
	switch cfg.Exporter {
	case config.ExporterNone:
		return &outlet{}, nil
	case config.ExporterPprof:
		files := pproffile.New(cfg.PprofPath)
		return &outlet{
			queue: export.NewQueue(files, export.QueueOptions{Logger: log}),
			files: files,
		}, nil
	}
	scope := otlp.ScopeAll
	if cfg.LinkScope == config.LinkRoot {
		scope = otlp.ScopeRoot
	}
	exporter, err := otlphttp.New(cfg.OTLP, otlp.Options{Scope: scope, Version: shim.Version})
	if err != nil {
		return nil, err
	}
	return &outlet{
		queue: export.NewQueue(exporter, export.QueueOptions{Logger: log}),
		to:    exporter.Endpoint(),
	}, nil
}

// put hands a profile over and does not block.
func (o *outlet) put(p *profile.Profile) {
	if o.queue != nil {
		o.queue.Put(p)
	}
}

// flush waits until everything put so far is delivered or dropped, at most d.
func (o *outlet) flush(d time.Duration) {
	if o.queue != nil {
		o.within(d, o.queue.Flush)
	}
}

// shutdown delivers what waits, in d at most.
func (o *outlet) shutdown(d time.Duration) {
	if o.queue != nil {
		o.within(d, o.queue.Shutdown)
	}
}

// within gives deliver the time d, but not where nobody has ever listened: a
// command without a collector should not end much later for it.
func (o *outlet) within(d time.Duration, deliver func(context.Context) error) {
	const tries, look = 2, 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = deliver(ctx) // what it lost is in the stats and was logged
	}()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			s := o.queue.Stats()
			if s.Delivered.Profiles == 0 && s.Failures >= tries && errors.Is(s.LastError, syscall.ECONNREFUSED) {
				cancel()
			}
		}
	}
}

// fate says where profiles went, for the summary.
func (o *outlet) fate() string {
	if o.queue == nil {
		return "not exported (exporter none)"
	}
	stats := o.queue.Stats()
	lost := stats.DroppedTotal().Profiles + stats.Waiting.Profiles
	switch {
	case lost == 0 && o.files != nil:
		return "in " + o.written()
	case lost == 0:
		return "sent to " + o.to
	case stats.Delivered.Profiles > 0:
		return fmt.Sprintf("sent to %s, but for %d of %d profiles", cmp.Or(o.to, o.written()), lost, lost+stats.Delivered.Profiles)
	case o.files != nil:
		return "lost: no file could be written"
	}
	return fmt.Sprintf("lost: %s took no profile (--pprof-path PREFIX writes files instead)", o.to)
}

// written names the files, if there are few.
func (o *outlet) written() string {
	const few = 3
	if n := o.files.Count(); n > few {
		return fmt.Sprintf("%d files like %s", n, o.files.Files()[0])
	}
	return strings.Join(o.files.Files(), ", ")
}
