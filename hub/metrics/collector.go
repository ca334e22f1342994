package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
)

// defaultSubsetLimit bounds the subsets with series of their own: 6 series each.
const defaultSubsetLimit = 5000

// notConnected is the state of a member that there is no connection to: its credential is missing or refused.
const notConnected = "NotConnected"

// Fleet is what is read of the connections; *clusters.Fleet is one.
type Fleet interface {
	View(name string) (clusters.View, bool)
}

// Outbox is what is read of the outbox; *outbox.Outbox is one.
type Outbox interface {
	Depth() (byMember map[string]int, byState map[outbox.State]int)
	Tallies() map[string]outbox.Tally
	Stopped() []outbox.StopReason
}

// Options of a Collector.
type Options struct {
	Fleet  Fleet
	Outbox Outbox
	// Members and Deployments read the objects from a cache; what they return is not changed. An error leaves their series
	// out of that scrape.
	Members     func() ([]fleetv1alpha1.MemberCluster, error)
	Deployments func() ([]appsv1alpha1.UnitedDeployment, error)
	Clock       clock.PassiveClock
	// SubsetLimit is how many subsets have series of their own, default 5000. UnitedDeployments are taken in the order of
	// their namespaces and names, each whole or not at all; the sums per UnitedDeployment are always there.
	SubsetLimit int
}

// Collector is a prometheus.Collector over one hub.
type Collector struct {
	Options

	d descriptions
}

// New returns a Collector; register it once per process.
func New(o Options) *Collector {
	if o.SubsetLimit == 0 {
		o.SubsetLimit = defaultSubsetLimit
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Collector{Options: o, d: describe()}
}

// Describe is of prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	c.d.each(func(d *prometheus.Desc) { out <- d })
}

// Collect is of prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := sink{out}
	c.members(s)
	c.outbox(s)
	c.deployments(s)
}

// sink makes metrics.
type sink struct{ out chan<- prometheus.Metric }

func (s sink) gauge(d *prometheus.Desc, value float64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (s sink) counter(d *prometheus.Desc, value int64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (c *Collector) members(s sink) {
	list, err := c.Members()
	if err != nil {
		return
	}
	now := c.Clock.Now()
	for i := range list {
		mc := &list[i]
		view, connected := c.Fleet.View(mc.Name)
		state := notConnected
		if connected {
			state = string(view.State)
		}
		ready := meta.IsStatusConditionTrue(mc.Status.Conditions, fleetv1alpha1.ConditionReady)
		s.gauge(c.d.memberReady, truth(ready && connected && view.State == clusters.StateReady), mc.Name)
		s.gauge(c.d.memberState, 1, mc.Name, state)
		heard := view.LastHeard
		if heard.IsZero() && mc.Status.LastHeardAt != nil {
			// Since before this process began.
			heard = mc.Status.LastHeardAt.Time
		}
		if !heard.IsZero() {
			s.gauge(c.d.reportAge, max(now.Sub(heard).Seconds(), 0), mc.Name)
		}
		if at := mc.Status.CredentialExpiresAt; at != nil {
			s.gauge(c.d.credentialExpiry, float64(at.Unix()), mc.Name)
		}
	}
}

func (c *Collector) outbox(s sink) {
	byMember, byState := c.Outbox.Depth()
	for member, n := range byMember {
		s.gauge(c.d.depth, float64(n), member)
	}
	for state, n := range byState {
		s.gauge(c.d.items, float64(n), string(state))
	}
	for member, t := range c.Outbox.Tallies() {
		for op, n := range t.Writes {
			s.counter(c.d.writes, n, member, string(op))
		}
		for state, n := range t.Refusals {
			s.counter(c.d.refusals, n, member, string(state))
		}
	}
	stops := c.Outbox.Stopped()
	for _, reason := range []string{outbox.StopHubBehind, outbox.StopTwoHubs} {
		inForce := slices.ContainsFunc(stops, func(r outbox.StopReason) bool { return r.Condition == reason })
		s.gauge(c.d.stopped, truth(inForce), reason)
	}
}

func (c *Collector) deployments(s sink) {
	list, err := c.Deployments()
	if err != nil {
		return
	}
	order := make([]*appsv1alpha1.UnitedDeployment, len(list))
	for i := range list {
		order[i] = &list[i]
	}
	slices.SortFunc(order, func(a, b *appsv1alpha1.UnitedDeployment) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	room, left := c.SubsetLimit, 0
	for _, ud := range order {
		c.sums(s, ud)
		subsets := merged(ud.Status.SubsetStatuses)
		if len(subsets) > room {
			left += len(subsets)
			continue
		}
		room -= len(subsets)
		for _, one := range subsets {
			c.subset(s, ud, one)
		}
	}
	s.gauge(c.d.left, float64(left))
}

// counts are the numbers of one or of several entries.
type counts struct {
	subset, member                                   string
	desired, replicas, granted, updated, unavailable int32
	stale                                            int
}

// add takes an entry in. Pods of a surge do not make up for others that are not ready.
func (n *counts) add(e *appsv1alpha1.SubsetStatus) {
	n.desired += e.DesiredReplicas
	n.replicas += e.Replicas
	n.granted += e.Granted
	n.updated += e.UpdatedReplicas
	n.unavailable += max(e.DesiredReplicas-e.ReadyReplicas, 0)
	if e.Stale {
		n.stale++
	}
}

// merged has one item per subset and member: a subset whose child changes its kind has two entries. A label set that is
// sent twice would fail the whole scrape.
func merged(entries []appsv1alpha1.SubsetStatus) []*counts {
	type key struct{ subset, member string }
	found := map[key]*counts{}
	var out []*counts
	for i := range entries {
		e := &entries[i]
		k := key{e.Name, e.Cluster}
		if found[k] == nil {
			found[k] = &counts{subset: e.Name, member: e.Cluster}
			out = append(out, found[k])
		}
		found[k].add(e)
	}
	return out
}

// sums are of a whole UnitedDeployment.
func (c *Collector) sums(s sink, ud *appsv1alpha1.UnitedDeployment) {
	var all counts
	for i := range ud.Status.SubsetStatuses {
		all.add(&ud.Status.SubsetStatuses[i])
	}
	c.d.united.send(s, &all, ud.Namespace, ud.Name)
	s.gauge(c.d.unitedStale, float64(all.stale), ud.Namespace, ud.Name)
	if ready := meta.FindStatusCondition(ud.Status.Conditions, appsv1alpha1.ConditionReady); ready != nil {
		s.gauge(c.d.unitedReady, truth(ready.Status == metav1.ConditionTrue), ud.Namespace, ud.Name)
	}
}

func (c *Collector) subset(s sink, ud *appsv1alpha1.UnitedDeployment, n *counts) {
	labels := []string{ud.Namespace, ud.Name, n.subset, n.member}
	c.d.subset.send(s, n, labels...)
	s.gauge(c.d.subsetStale, truth(n.stale > 0), labels...)
}

func (n numbers) send(s sink, of *counts, labels ...string) {
	s.gauge(n.desired, float64(of.desired), labels...)
	s.gauge(n.replicas, float64(of.replicas), labels...)
	s.gauge(n.granted, float64(of.granted), labels...)
	s.gauge(n.updated, float64(of.updated), labels...)
	s.gauge(n.unavailable, float64(of.unavailable), labels...)
}
