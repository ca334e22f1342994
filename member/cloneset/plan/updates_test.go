package plan

import (
	"testing"

	"github.com/underway-dev/underway/inplace"
	engine "github.com/underway-dev/underway/inplace/plan"
)

// TestUpdateCount: reference/oracles.md 5.3, O126 to O134, on who moves (inplace/plan), by being recreated. Upstream bounds
// pods that are not ready as well; ours move free of charge, so that a broken release can be fixed in one round (design 5).
func TestUpdateCount(t *testing.T) {
	t.Parallel()
	const free = "pods that are not ready move without budget, as far as the grant goes"
	rows := []struct {
		id, pods string
		strategies
		want int
		ours int
		why  string
	}{
		{id: "O126", pods: "3O", strategies: strategies{replicas: 3}, want: 1},
		{id: "O128", pods: "On 2O", strategies: strategies{replicas: 3}, want: 1},
		{id: "O129", pods: "2On 7O", strategies: strategies{replicas: 10}, want: 1, ours: 2, why: free},
		{id: "O131", pods: "5On", strategies: strategies{replicas: 5, unavailable: 2}, want: 2, ours: 5, why: free},
		{id: "O133", pods: "5On Nn", strategies: strategies{replicas: 5, unavailable: 2, surge: 1}, want: 2, ours: 4, why: free},
		{id: "O133", pods: "4On N Nn", strategies: strategies{replicas: 5, unavailable: 2, surge: 1}, want: 2, ours: 3, why: free},
		{id: "O133", pods: "3On N 2Nn", strategies: strategies{replicas: 5, unavailable: 2, surge: 1}, want: 1, ours: 2, why: free},
		{id: "O133", pods: "3On 3Nn", strategies: strategies{replicas: 5, unavailable: 2, surge: 1}, want: 0, ours: 2, why: free},
		{id: "O133b", pods: "3O 5Nn", strategies: strategies{replicas: 8, partition: 7, unavailable: 3}, want: 3, ours: 4, why: free},
		{id: "O134", pods: "2O 3N", strategies: strategies{replicas: 4, unavailable: 2, surge: 1}, want: 1},
		{id: "O134", pods: "4O 2N", strategies: strategies{replicas: 4, unavailable: 2, surge: 1}, want: 2},
		{id: "B023: who is down counts, whatever its place in the order", pods: "On 4N 3O", strategies: strategies{replicas: 8, unavailable: 1}, want: 1},
	}
	for _, row := range rows {
		t.Run(row.id+" "+row.pods, func(t *testing.T) {
			t.Parallel()
			in := row.input(t, row.pods).Intent
			in.Policy = inplace.PolicyReCreate
			want := row.want
			if row.why != "" {
				want = row.ours
			}
			got := engine.Next(in, pods(row.pods), start)
			if len(got.Deletes) != want {
				t.Errorf("%d pods are moved, want %d: %v", len(got.Deletes), want, got.Holds)
			}
		})
	}
}
