package cpython

import "time"

// pace knows how long a call takes that nothing interrupts.
type pace struct {
	unit float64 // nanoseconds for one unit of work
	seen int
}

// steady reports whether a call of so many ranges and bytes took no longer
// than it had to. A call that was interrupted may have read one part before
// and another after the target went on.
func (p *pace) steady(took time.Duration, ranges, bytes int) bool {
	work := float64(took) / float64(3+ranges+bytes>>12)
	if p.seen < 16 { // not known yet: the first calls also meet cold memory
		if p.seen == 0 || work < p.unit {
			p.unit = work
		}
		p.seen++
		return true
	}
	if work < p.unit {
		p.unit += (work - p.unit) / 4
		return true
	}
	const rise, slow = 64, 2
	steady := work <= slow*p.unit+200
	p.unit += (min(work, slow*p.unit) - p.unit) / rise
	return steady
}
