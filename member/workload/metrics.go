package workload

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/underway-dev/underway/inplace/podwriter"
)

// Metrics counts writes to pods.
type Metrics struct {
	writes    *prometheus.CounterVec
	conflicts *prometheus.CounterVec
}

// NewMetrics registers the counters: underway_member_pod_writes_total by kind and verb, and
// underway_member_pod_conflicts_total by kind (writes judged on a version that had passed; they changed nothing).
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "underway_member_pod_writes_total",
			Help: "Writes to pods that succeeded, by kind of workload and verb.",
		}, []string{"kind", "verb"}),
		conflicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "underway_member_pod_conflicts_total",
			Help: "Writes to pods refused because the pod had changed, by kind of workload.",
		}, []string{"kind"}),
	}
	for _, c := range []prometheus.Collector{m.writes, m.conflicts} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) count(kind string, r podwriter.Result) {
	if m == nil {
		return
	}
	m.writes.WithLabelValues(kind, "create").Add(float64(r.Created))
	m.writes.WithLabelValues(kind, "patch").Add(float64(r.Patched))
	m.writes.WithLabelValues(kind, "delete").Add(float64(r.Deleted))
	m.conflicts.WithLabelValues(kind).Add(float64(r.Conflicts))
}
