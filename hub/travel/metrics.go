package travel

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/underway-dev/underway/hub/travel/plan"
)

// seriesLimit bounds the objects with series of their own.
const seriesLimit = 1000

func description() *prometheus.Desc {
	return prometheus.NewDesc("underway_hub_propagated_members",
		"Members of an object that travels by label, by where its copy stands; absent for none.",
		[]string{"kind", "namespace", "name", "state"}, nil)
}

// Describe is of prometheus.Collector.
func (r *Reconciler) Describe(out chan<- *prometheus.Desc) { out <- description() }

// Collect is of prometheus.Collector. It reads memory; of more than 1,000 objects the first ones by namespace, kind and name
// have series.
func (r *Reconciler) Collect(out chan<- prometheus.Metric) {
	counts := r.counted()
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys[:min(len(keys), seriesLimit)] {
		kind, name, _ := strings.Cut(key.Name, "/")
		for _, state := range plan.States() {
			if n := counts[key][state]; n > 0 {
				out <- prometheus.MustNewConstMetric(description(), prometheus.GaugeValue, float64(n), kind, key.Namespace, name, string(state))
			}
		}
	}
}

func (r *Reconciler) counted() map[types.NamespacedName]map[plan.State]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[types.NamespacedName]map[plan.State]int, len(r.memory))
	for key, m := range r.memory {
		out[key] = m.counts
	}
	return out
}
