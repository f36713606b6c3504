package agent

import (
	"time"

	"github.com/spanflame/spanflame/internal/proc"
)

// nativeThreads follows what threads without Python use. Only their sum can
// be told: where they are is not in Python's memory.
type nativeThreads struct {
	threads map[int]*nativeThread // by kernel id
	sum     time.Duration         // since the last take
	last    time.Time
}

type nativeThread struct {
	task *proc.Thread
	used time.Duration
}

// How often they are looked at, where there are none and where there are: what
// one uses between the last look and its end is not known to be its.
const (
	nativeEvery     = 100 * time.Millisecond
	nativeEveryBusy = 20 * time.Millisecond
)

func (n *nativeThreads) update(s *sampler, now time.Time) {
	every := nativeEvery
	if len(n.threads) > 0 {
		every = nativeEveryBusy
	}
	if now.Sub(n.last) >= every {
		n.last = now
		n.read(s)
	}
}

func (n *nativeThreads) read(s *sampler) {
	tids, err := s.process.Threads()
	if err != nil || len(tids) <= len(s.threads) && len(n.threads) == 0 {
		return
	}
	python := map[int]bool{}
	for _, t := range s.threads {
		if t.task != nil {
			python[t.task.TID] = true
		}
	}
	now := make(map[int]*nativeThread, len(tids))
	for _, tid := range tids {
		if python[tid] {
			continue
		}
		t := n.threads[tid]
		if t == nil {
			task, err := s.process.OpenThread(tid)
			if err != nil {
				continue
			}
			t = &nativeThread{task: task}
		}
		usage, err := t.task.Usage()
		if err != nil {
			t.task.Close()
			continue
		}
		n.sum += usage.CPU - t.used
		t.used = usage.CPU
		now[tid] = t
	}
	for tid, t := range n.threads {
		if now[tid] != t {
			t.task.Close()
		}
	}
	n.threads = now
}

// take returns what was used since the last call.
func (n *nativeThreads) take() time.Duration {
	sum := n.sum
	n.sum = 0
	return sum
}

func (n *nativeThreads) close() {
	for _, t := range n.threads {
		t.task.Close()
	}
}
