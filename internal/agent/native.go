package agent

import "time"

// nativeThreads follows what threads without Python use. Only their sum can
// be told: where they are is not in Python's memory.
type nativeThreads struct {
	used map[int]time.Duration // by kernel id, when last read
	sum  time.Duration         // since the last take
	last time.Time
}

// nativeEvery is how often they are looked at: what one uses between the last
// look and its end is not known to be its.
const nativeEvery = 100 * time.Millisecond

func (n *nativeThreads) update(s *sampler, now time.Time) {
	if now.Sub(n.last) >= nativeEvery {
		n.last = now
		n.read(s)
	}
}

func (n *nativeThreads) read(s *sampler) {
	tids, err := s.process.Threads()
	if err != nil || len(tids) <= len(s.threads) && len(n.used) == 0 {
		return
	}
	python := map[int]bool{}
	for _, t := range s.threads {
		if t.task != nil {
			python[t.task.TID] = true
		}
	}
	used := map[int]time.Duration{}
	for _, tid := range tids {
		if python[tid] {
			continue
		}
		task, err := s.process.OpenThread(tid)
		if err != nil {
			continue
		}
		if usage, err := task.Usage(); err == nil {
			used[tid] = usage.CPU
			n.sum += usage.CPU - n.used[tid]
		}
		task.Close()
	}
	n.used = used
}

// take returns what was used since the last call.
func (n *nativeThreads) take() time.Duration {
	sum := n.sum
	n.sum = 0
	return sum
}
