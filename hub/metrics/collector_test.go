package metrics_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/metrics"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
)

// world is what a hub knows.
type world struct {
	views       map[string]clusters.View
	depth       map[string]int
	states      map[outbox.State]int
	tallies     map[string]outbox.Tally
	stops       []outbox.StopReason
	members     []fleetv1alpha1.MemberCluster
	deployments []appsv1alpha1.UnitedDeployment
	err         error
}

func (w *world) View(name string) (clusters.View, bool) {
	v, ok := w.views[name]
	return v, ok
}

func (w *world) Depth() (map[string]int, map[outbox.State]int) { return w.depth, w.states }
func (w *world) Tallies() map[string]outbox.Tally              { return w.tallies }
func (w *world) Stopped() []outbox.StopReason                  { return w.stops }

func now() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

func registry(t *testing.T, w *world, limit int) *prometheus.Registry {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	err := r.Register(metrics.New(metrics.Options{
		Fleet: w, Outbox: w, Clock: testingclock.NewFakePassiveClock(now()), SubsetLimit: limit,
		Members:     func() ([]fleetv1alpha1.MemberCluster, error) { return w.members, w.err },
		Deployments: func() ([]appsv1alpha1.UnitedDeployment, error) { return w.deployments, w.err },
	}))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// scrape is every series with its value, "name{label=value ...}".
func scrape(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := make([]string, 0, len(m.GetLabel()))
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := strings.TrimPrefix(f.GetName(), "underway_hub_")
			out[name+"{"+strings.Join(labels, " ")+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

func member(name string, ready metav1.ConditionStatus) fleetv1alpha1.MemberCluster {
	mc := fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	mc.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: ready}}
	return mc
}

func full() *world {
	at := metav1.NewTime(now().Add(-time.Hour))
	ends := metav1.NewTime(now().Add(24 * time.Hour))
	west, north := member("west", metav1.ConditionFalse), member("north", metav1.ConditionFalse)
	west.Status.LastHeardAt, west.Status.CredentialExpiresAt = &at, &ends
	return &world{
		views: map[string]clusters.View{
			"east": {State: clusters.StateReady, LastHeard: now().Add(-5 * time.Second)},
			"west": {State: clusters.StateConnecting},
		},
		depth:  map[string]int{"": 0, "east": 2},
		states: map[outbox.State]int{outbox.StateDone: 3, outbox.StateFailed: 2},
		tallies: map[string]outbox.Tally{"east": {
			Writes:   map[changeset.Op]int64{changeset.OpApply: 7},
			Refusals: map[outbox.State]int64{outbox.StateFailed: 2},
		}},
		stops:   []outbox.StopReason{{Condition: outbox.StopTwoHubs}},
		members: []fleetv1alpha1.MemberCluster{member("east", metav1.ConditionTrue), west, north},
		deployments: []appsv1alpha1.UnitedDeployment{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Status: appsv1alpha1.UnitedDeploymentStatus{
				Conditions: []metav1.Condition{{Type: appsv1alpha1.ConditionReady, Status: metav1.ConditionFalse}},
				SubsetStatuses: []appsv1alpha1.SubsetStatus{
					{Name: "e", Cluster: "east", DesiredReplicas: 6, Replicas: 7, ReadyReplicas: 4, Granted: 3, UpdatedReplicas: 2},
					{Name: "w", Cluster: "west", DesiredReplicas: 4, Replicas: 5, ReadyReplicas: 5, Stale: true},
					// The same subset with a child of another kind.
					{Name: "e", Cluster: "east", Kind: "Deployment.apps", Replicas: 1, ReadyReplicas: 1},
				},
			},
		}},
	}
}

// TestWhatIsShown: every series of a small fleet.
func TestWhatIsShown(t *testing.T) {
	t.Parallel()
	want := map[string]float64{
		"member_ready{member=east}":                                           1,
		"member_ready{member=west}":                                           0,
		"member_ready{member=north}":                                          0,
		"member_state{member=east state=Ready}":                               1,
		"member_state{member=west state=Connecting}":                          1,
		"member_state{member=north state=NotConnected}":                       1,
		"member_report_age_seconds{member=east}":                              5,
		"member_report_age_seconds{member=west}":                              3600,
		"member_credential_expiry_timestamp_seconds{member=west}":             float64(now().Add(24 * time.Hour).Unix()),
		"outbox_depth{member=}":                                               0,
		"outbox_depth{member=east}":                                           2,
		"outbox_items{state=Done}":                                            3,
		"outbox_items{state=Failed}":                                          2,
		"outbox_writes_total{member=east operation=Apply}":                    7,
		"outbox_refusals_total{member=east reason=Failed}":                    2,
		"writes_stopped{reason=HubBehind}":                                    0,
		"writes_stopped{reason=TwoHubs}":                                      1,
		"subsets_left_out{}":                                                  0,
		"uniteddeployment_ready{namespace=shop uniteddeployment=web}":         0,
		"uniteddeployment_stale_subsets{namespace=shop uniteddeployment=web}": 1,
	}
	for name, n := range map[string]float64{"desired": 10, "": 13, "granted": 3, "updated": 2, "unavailable": 2} {
		want["uniteddeployment_"+prefixed(name)+"replicas{namespace=shop uniteddeployment=web}"] = n
	}
	for subset, numbers := range map[string]map[string]float64{
		"member=east namespace=shop subset=e": {"desired": 6, "": 8, "granted": 3, "updated": 2, "unavailable": 2, "stale": 0},
		"member=west namespace=shop subset=w": {"desired": 4, "": 5, "granted": 0, "updated": 0, "unavailable": 0, "stale": 1},
	} {
		for name, n := range numbers {
			full := "subset_" + prefixed(name) + "replicas"
			if name == "stale" {
				full = "subset_stale"
			}
			want[full+"{"+subset+" uniteddeployment=web}"] = n
		}
	}
	if diff := cmp.Diff(want, scrape(t, registry(t, full(), 0))); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func prefixed(name string) string {
	if name == "" {
		return ""
	}
	return name + "_"
}

// TestNamesAreAsPrometheusWantsThem also holds what the connections count.
func TestNamesAreAsPrometheusWantsThem(t *testing.T) {
	t.Parallel()
	r := registry(t, full(), 0)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestTheNumberOfSeriesIsBounded: beyond the limit UnitedDeployments keep their sums, and it is said how many are left out.
func TestTheNumberOfSeriesIsBounded(t *testing.T) {
	t.Parallel()
	w := &world{}
	for i := range 30 {
		ud := appsv1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web-%02d", i)}}
		for j := range 10 {
			ud.Status.SubsetStatuses = append(ud.Status.SubsetStatuses, appsv1alpha1.SubsetStatus{Name: fmt.Sprintf("s%d", j), Granted: 1})
		}
		w.deployments = append(w.deployments, ud)
	}
	slices.Reverse(w.deployments)
	got := scrape(t, registry(t, w, 45))
	subsets := 0
	for series := range got {
		if strings.HasPrefix(series, "subset_granted_replicas{") {
			subsets++
		}
	}
	if subsets != 40 || got["subsets_left_out{}"] != 260 {
		t.Errorf("%d subsets have series and %v are left out, want 40 and 260", subsets, got["subsets_left_out{}"])
	}
	if n := got["uniteddeployment_granted_replicas{namespace=shop uniteddeployment=web-29}"]; n != 10 {
		t.Errorf("the sum of one that is left out is %v, want 10", n)
	}
	if _, ok := got["subset_granted_replicas{member= namespace=shop subset=s0 uniteddeployment=web-00}"]; !ok {
		t.Errorf("the first one has no series: %v", slices.Sorted(maps.Keys(got)))
	}
}

// TestWhatCannotBeReadIsAbsent: never 0.
func TestWhatCannotBeReadIsAbsent(t *testing.T) {
	t.Parallel()
	w := full()
	w.err = errors.New("the cache has not started")
	for series := range scrape(t, registry(t, w, 0)) {
		if strings.HasPrefix(series, "member_") || strings.HasPrefix(series, "subset") || strings.HasPrefix(series, "united") {
			t.Errorf("%s is there", series)
		}
	}
}

// TestEveryMetricIsDocumented: docs/operations.md has a row for each.
func TestEveryMetricIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"underway_hub_member_requests_total", "underway_hub_member_connections_total"}
	families, err := registry(t, full(), 0).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		names = append(names, f.GetName())
	}
	for _, name := range names {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/operations.md does not name %s", name)
		}
	}
	// And the other way: an alert on a metric that is not there never fires. hub/travel has its own.
	names = append(names, "underway_hub_propagated_members")
	for _, named := range regexp.MustCompile(`underway_hub_[a-z_]+`).FindAllString(string(text), -1) {
		if !slices.Contains(names, named) {
			t.Errorf("docs/operations.md names %s, which the hub has not", named)
		}
	}
}
