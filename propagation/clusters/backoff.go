package clusters

import (
	"math/rand/v2"
	"time"
)

// backoff is the growing wait between two attempts, spread so that members that went together do not come together. The
// zero value's first wait is about least.
type backoff struct {
	least, most time.Duration
	next        time.Duration
}

// pause is the next wait: never less than least, never more than most.
func (b *backoff) pause() time.Duration {
	d := min(max(b.next, b.least), b.most)
	b.next = min(2*d, b.most)
	spread := time.Duration(rand.Int64N(int64(d)/3 + 1)) //nolint:gosec // spreading, not secrecy
	if d == b.most {
		return max(d-spread, min(b.least, b.most))
	}
	return min(d+spread, b.most)
}

// reset makes the next wait the shortest one.
func (b *backoff) reset() { b.next = 0 }
