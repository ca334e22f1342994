package clusters

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestBackoffStaysInItsBounds: no wait is shorter than the least or longer than the most, waits grow, and two members that
// failed together do not keep step.
func TestBackoffStaysInItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		least := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(10*time.Second)).Draw(t, "least"))
		most := least + time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "more"))
		b := backoff{least: least, most: most}
		for range 30 {
			if d := b.pause(); d < least || d > most {
				t.Fatalf("waits %s, bounds are %s and %s", d, least, most)
			}
		}
		if d := b.pause(); d < most*2/3-1 {
			t.Fatalf("after 30 failures it waits %s, the most is %s", d, most)
		}
		b.reset()
		if d := b.pause(); d > least*4/3+1 {
			t.Fatalf("after a success it waits %s, the least is %s", d, least)
		}
	})
}

// TestTheDefaultsAreTheDesigns: 1 s to 5 min, a probe each 10 s with 5 s.
func TestTheDefaultsAreTheDesigns(t *testing.T) {
	t.Parallel()
	got := Intervals{}.withDefaults()
	want := Intervals{
		Probe: 10 * time.Second, ProbeTimeout: 5 * time.Second, Request: 15 * time.Second, Sync: 2 * time.Minute,
		Discovery: 30 * time.Second, Lease: 20 * time.Second, LeaseExpiry: time.Minute,
		BackoffMin: time.Second, BackoffMax: 5 * time.Minute,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	seen := map[time.Duration]bool{}
	for range 50 {
		b := backoff{least: got.BackoffMin, most: got.BackoffMax}
		seen[b.pause()] = true
	}
	if len(seen) < 10 {
		t.Errorf("50 first waits take %d values: members come back in step", len(seen))
	}
}
