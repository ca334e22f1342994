package plan_test

import (
	"strings"
	"testing"

	"github.com/underway-dev/underway/inplace/plan"
)

// One pass over 1,000 pods in mid-release: what an agent pays per reconcile beside reading its cache.
func BenchmarkNext(b *testing.B) {
	in := intent(1000, 100, 200)
	p := pods(strings.Repeat("N", 450) + strings.Repeat("u", 100) + strings.Repeat("d", 100) + strings.Repeat("O", 350))
	b.ReportAllocs()
	for b.Loop() {
		plan.Next(in, p, now)
	}
}
