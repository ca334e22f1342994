package install

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

func second(n int) time.Time { return time.Date(2026, 11, 30, 12, 0, n, 0, time.UTC) }

// TestAHubThatDoesNotRunIsTold by its signs alone: what a Lease says of time is another clock's, and is not judged by.
func TestAHubThatDoesNotRunIsTold(t *testing.T) {
	t.Parallel()
	held := func(renewed int, observed int64) sign {
		lease, mc := &coordinationv1.Lease{}, &fleetv1alpha1.MemberCluster{}
		holder, at := "hub-0", metav1.NewMicroTime(second(renewed))
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &at
		mc.Status.ObservedGeneration = observed
		return signOf(lease, mc)
	}
	given := held(7, 0)
	given.holder = ""
	for name, tc := range map[string]struct {
		signs []sign // ten seconds apart
		says  string
	}{
		"it renews":                      {[]sign{held(0, 0), held(10, 0), held(20, 0), held(30, 0), held(40, 0)}, ""},
		"it renews by a clock of 1970":   {[]sign{held(-9e8, 0), held(-9e8+1, 0), held(-9e8+2, 0), held(-9e8+3, 0)}, ""},
		"it has not renewed for 20 s":    {[]sign{held(0, 0), held(0, 0), held(0, 0)}, ""},
		"it has not renewed for 30 s":    {[]sign{held(0, 0), held(0, 0), held(0, 0), held(0, 0)}, "of hub-0 was last renewed at 2026-11-30T12:00:00Z"},
		"its Lease is ahead of our time": {[]sign{held(9e8, 0), held(9e8, 0), held(9e8, 0), held(9e8, 0)}, "of hub-0 was last renewed"},
		"it stops":                       {[]sign{held(0, 0), held(10, 0), held(10, 0), held(10, 0), held(10, 0)}, "last renewed at 2026-11-30T12:00:10Z"},
		"it comes back":                  {[]sign{held(0, 0), held(0, 0), held(0, 0), held(0, 0), held(40, 0)}, ""},
		"there never was one":            {[]sign{{}, {}, {}, {}}, "Lease underway-system/underway-hub does not exist"},
		"it gave the Lease back":         {[]sign{given, given, given, given}, "nobody holds Lease underway-system/underway-hub since 2026-11-30T12:00:07Z"},
		"without a Lease, it looks":      {[]sign{{}, {}, {}, {observed: 3}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, got := &pulse{}, ""
			for i, s := range tc.signs {
				got = p.gone(s, second(10*i))
			}
			if (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
				t.Errorf("got %q, want it to say %q", got, tc.says)
			}
			if got != "" && !strings.Contains(got, "start it: underway-hub") {
				t.Errorf("it does not say what to do: %s", got)
			}
		})
	}
}

func TestAWaitIsSpokenOfAfterAWhile(t *testing.T) {
	t.Parallel()
	var spoken []int
	var w talk
	for n := range 40 {
		if _, due := w.due(second(n)); due {
			spoken = append(spoken, n)
		}
	}
	if want := []int{5, 15, 25, 35}; !slices.Equal(spoken, want) {
		t.Errorf("it is spoken of at %v s, want %v", spoken, want)
	}
}

// TestAMemberIsEmptyWhenNobodyWillFillIt: nothing is there, but a hub that has not seen the mark could still put something there.
func TestAMemberIsEmptyWhenNobodyWillFillIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		observed int64
		noHub    string
		empty    bool
	}{
		"the hub has seen the mark": {observed: 2, empty: true},
		"it has not":                {observed: 1},
		"there is no hub":           {observed: 1, noHub: "none", empty: true},
	} {
		mc := eu(metav1.ConditionTrue)
		mc.Generation, mc.Spec.Drain, mc.Status.ObservedGeneration = 2, true, tc.observed
		s := staying{member: mc, noHub: tc.noHub}
		if rest := s.rest(); (len(rest) == 0) != tc.empty {
			t.Errorf("%s: %v", name, rest)
		}
	}
	mc := eu(metav1.ConditionFalse)
	s := staying{member: mc, noHub: "no hub seems to run", uds: []appsv1alpha1.UnitedDeployment{web(func(ud *appsv1alpha1.UnitedDeployment) {
		ud.Status.SubsetStatuses = []appsv1alpha1.SubsetStatus{{Name: "eu-1", Cluster: "eu-1"}}
	})}}
	if rest := s.rest(); !slices.Contains(rest, s.noHub) || slices.ContainsFunc(rest, func(l string) bool { return strings.Contains(l, "not ready") }) {
		t.Errorf("without a hub the report of the member is old and no reason: %v", rest)
	}
}
