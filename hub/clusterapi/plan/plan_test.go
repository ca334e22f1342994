package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

func at(minute int) time.Time { return time.Date(2026, 11, 30, 8, minute, 0, 0, time.UTC) }

// cluster is one that asks to be a member and can be.
func cluster() *Cluster {
	return &Cluster{UID: "c-1", Selected: true, Initialized: true, Labels: map[string]string{"fleet": "yes"}}
}

// member is the MemberCluster of it, followed and installed.
func member(conditions ...metav1.Condition) *fleetv1alpha1.MemberCluster {
	return &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "team-a-eu", Generation: 1, Labels: map[string]string{"fleet": "yes"}},
		Spec:       fleetv1alpha1.MemberClusterSpec{ClusterRef: &fleetv1alpha1.ClusterReference{Namespace: "team-a", Name: "eu"}},
		Status:     fleetv1alpha1.MemberClusterStatus{ClusterUID: "c-1", Identity: "uid-1", Conditions: conditions},
	}
}

func seen(edit func(*Observation)) Observation {
	o := Observation{
		Namespace: "team-a", Name: "eu", Cluster: cluster(), Member: member(), OwnLabels: map[string]bool{"fleet": true},
		Install: Install{Source: "s-1", Stored: true, From: "s-1", For: "c-1", By: "v1"}, Options: Options{Version: "v1"},
	}
	edit(&o)
	return o
}

func conditionOf(d Decision, kind string) metav1.Condition {
	if d.Status == nil {
		return metav1.Condition{}
	}
	if c := find(d.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func TestWhichClustersBecomeMembers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit func(*Observation)
		want string
	}{
		"it has the label and a control plane": {func(*Observation) {}, "team-a-eu"},
		"no label":                             {func(o *Observation) { o.Cluster.Selected = false }, ""},
		"no control plane yet":                 {func(o *Observation) { o.Cluster.Initialized = false }, ""},
		"paused":                               {func(o *Observation) { o.Cluster.Paused = true }, ""},
		"being deleted":                        {func(o *Observation) { o.Cluster.Deleting = true }, ""},
		"gone":                                 {func(o *Observation) { o.Cluster, o.ProvenGone = nil, true }, ""},
		"another member has its name":          {func(o *Observation) { o.Taken = map[string]bool{"team-a-eu": true} }, MemberName("team-a", "eu", map[string]bool{"team-a-eu": true})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := seen(tc.edit)
			o.Member = nil
			if diff := cmp.Diff(Decision{Create: tc.want}, Next(o, at(0))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMemberName(t *testing.T) {
	t.Parallel()
	if got := MemberName("a-b", "c", nil); got != "a-b-c" {
		t.Errorf("got %q", got)
	}
	if a, b := MemberName("a-b", "c", map[string]bool{"a-b-c": true}), MemberName("a", "b-c", map[string]bool{"a-b-c": true}); a == b {
		t.Errorf("two Clusters have the name %q", a)
	}
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`).Draw(t, "namespace")
		name := rapid.StringMatching(`[a-z0-9]([-.a-z0-9]{0,100}[a-z0-9])?`).Draw(t, "name")
		got := MemberName(ns, name, nil)
		if len(got) > 63 || strings.Contains(got, ".") || strings.HasPrefix(got, "-") || strings.HasSuffix(got, "-") {
			t.Fatalf("%q is no DNS label", got)
		}
		if again := MemberName(ns, name, nil); again != got {
			t.Fatalf("%q and %q", got, again)
		}
	})
}

func TestAMemberOutlivesEverythingButTheDeletionOfItsCluster(t *testing.T) {
	t.Parallel()
	followed := func(reason string) metav1.Condition {
		return metav1.Condition{Type: fleetv1alpha1.ConditionClusterFollowed, Status: metav1.ConditionFalse, Reason: reason}
	}
	deleted := followed(fleetv1alpha1.ReasonClusterDeleting)
	for name, tc := range map[string]struct {
		edit   func(*Observation)
		remove bool
		reason string
	}{
		"it was seen being deleted and is gone":      {func(o *Observation) { o.Cluster, o.ProvenGone, o.Member = nil, true, member(deleted) }, true, ""},
		"it cannot be read":                          {func(o *Observation) { o.Cluster, o.Member = nil, member(deleted) }, false, ""},
		"it is gone and nobody saw it being deleted": {func(o *Observation) { o.Cluster, o.ProvenGone = nil, true }, false, fleetv1alpha1.ReasonClusterNotFound},
		"it is gone after a pause": {func(o *Observation) {
			o.Cluster, o.ProvenGone, o.Member = nil, true, member(followed(fleetv1alpha1.ReasonClusterPaused))
		}, false, fleetv1alpha1.ReasonClusterNotFound},
		"it went with its CRD": {func(o *Observation) {
			o.Cluster, o.KindGoing, o.ProvenGone, o.Member = nil, true, true, member(deleted)
		}, false, ""},
		"it is being deleted":              {func(o *Observation) { o.Cluster.Deleting = true }, false, fleetv1alpha1.ReasonClusterDeleting},
		"it is being deleted with its CRD": {func(o *Observation) { o.Cluster.Deleting, o.KindGoing = true, true }, false, ""},
		"it is paused and being deleted":   {func(o *Observation) { o.Cluster.Paused, o.Cluster.Deleting = true, true }, false, fleetv1alpha1.ReasonClusterPaused},
		"it is paused after it began to go": {func(o *Observation) {
			o.Cluster.Paused, o.Cluster.Deleting, o.Member = true, true, member(deleted)
		}, false, fleetv1alpha1.ReasonClusterPaused},
		"it is paused":                     {func(o *Observation) { o.Cluster.Paused = true }, false, fleetv1alpha1.ReasonClusterPaused},
		"it lost the label":                {func(o *Observation) { o.Cluster.Selected = false }, false, fleetv1alpha1.ReasonDeselected},
		"its control plane is made anew":   {func(o *Observation) { o.Cluster.Initialized = false }, false, fleetv1alpha1.ReasonNotInitialized},
		"it lost the label and is paused":  {func(o *Observation) { o.Cluster.Selected, o.Cluster.Paused = false, true }, false, fleetv1alpha1.ReasonClusterPaused},
		"it lost the label and is deleted": {func(o *Observation) { o.Cluster.Selected, o.Cluster.Deleting = false, true }, false, fleetv1alpha1.ReasonClusterDeleting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := seen(tc.edit)
			o.Install.Stored = false // were it followed, it would be installed
			d := Next(o, at(0))
			if d.Remove != tc.remove || d.Install != "" || d.Create != "" || d.Labels != nil {
				t.Errorf("%+v", d)
			}
			if got := conditionOf(d, fleetv1alpha1.ConditionClusterFollowed); got.Reason != tc.reason || (tc.reason != "" && got.Status != metav1.ConditionFalse) {
				t.Errorf("%+v, want %s", got, tc.reason)
			}
		})
	}
}

// TestNoGrantsWhileTheClusterGoes: the contract with the hub's plan.
func TestNoGrantsWhileTheClusterGoes(t *testing.T) {
	t.Parallel()
	grants := func(duringUpgrade fleetv1alpha1.DuringUpgrade, edit func(*Observation)) string {
		o := seen(edit)
		o.Member.Spec.DuringUpgrade = duringUpgrade
		d := Next(o, at(0))
		o.Member.Status = *d.Status
		return o.Member.NoNewGrants()
	}
	rolling := func(o *Observation) {
		o.Cluster.Upgrade.Conditions = []metav1.Condition{{Type: "RollingOut", Status: metav1.ConditionTrue}}
	}
	if grants("", func(o *Observation) { o.Cluster.Deleting = true }) == "" {
		t.Error("a member whose Cluster is being deleted gets grants")
	}
	if got := grants("", rolling); got != "" {
		t.Errorf("by default an upgrade changes nothing: %s", got)
	}
	if got := grants(fleetv1alpha1.UpgradeRelease, rolling); got != "" {
		t.Errorf("Release: %s", got)
	}
	if grants(fleetv1alpha1.UpgradeHold, rolling) == "" {
		t.Error("Hold: a member that is being upgraded gets grants")
	}
	if got := grants(fleetv1alpha1.UpgradeHold, func(*Observation) {}); got != "" {
		t.Errorf("Hold without an upgrade: %s", got)
	}
}

func TestWhenTheAccountIsMade(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit    func(*Observation)
		install string
		reason  string
	}{
		"all is well":                   {func(*Observation) {}, "", fleetv1alpha1.ReasonFollowed},
		"there is no credential":        {func(o *Observation) { o.Install = Install{Source: "s-1"} }, "no credential", fleetv1alpha1.ReasonNotInstalled},
		"the member refuses it":         {func(o *Observation) { o.Install.Refused = true }, "refuses", fleetv1alpha1.ReasonFollowed},
		"its kubeconfig was rotated":    {func(o *Observation) { o.Install.Source = "s-2" }, "changed", fleetv1alpha1.ReasonFollowed},
		"its kubeconfig was not read":   {func(o *Observation) { o.Install.Source = "" }, "", fleetv1alpha1.ReasonFollowed},
		"another Cluster has its name":  {func(o *Observation) { o.Cluster.UID = "c-2" }, "another one", fleetv1alpha1.ReasonFollowed},
		"another version":               {func(o *Observation) { o.Options.Version = "v2" }, "", fleetv1alpha1.ReasonFollowed},
		"another version, and asked to": {func(o *Observation) { o.Options.Version, o.Options.Reinstall = "v2", true }, "version", fleetv1alpha1.ReasonFollowed},
		"it is being made":              {func(o *Observation) { o.Install = Install{Source: "s-1", Running: true} }, "", fleetv1alpha1.ReasonNotInstalled},
		"the kubeconfig runs a program": {func(o *Observation) { o.Install = Install{Unusable: "users[].user.exec must not be set"} }, "", fleetv1alpha1.ReasonNotInstalled},
		"the new one is refused, too": {func(o *Observation) {
			o.Install.Refused, o.Install.Done = true, at(0).Add(-time.Minute)
		}, "", fleetv1alpha1.ReasonFollowed},
		"the new one is refused since long": {func(o *Observation) {
			o.Install.Refused, o.Install.Done = true, at(0).Add(-time.Hour)
		}, "refuses", fleetv1alpha1.ReasonFollowed},
		"the new one is refused, and its kubeconfig was rotated": {func(o *Observation) {
			o.Install.Refused, o.Install.Done, o.Install.Source = true, at(0).Add(-time.Minute), "s-2"
		}, "refuses", fleetv1alpha1.ReasonFollowed},
		"it failed a moment ago": {func(o *Observation) {
			o.Install = Install{Source: "s-1", Failures: 1, Failed: at(0).Add(-time.Second), Why: "no route"}
		}, "", fleetv1alpha1.ReasonNotInstalled},
		"it failed a while ago": {func(o *Observation) {
			o.Install = Install{Source: "s-1", Failures: 1, Failed: at(0).Add(-time.Minute), Why: "no route"}
		}, "no credential", fleetv1alpha1.ReasonNotInstalled},
		"it failed for the tenth time a minute ago": {func(o *Observation) {
			o.Install = Install{Source: "s-1", Failures: 10, Failed: at(0).Add(-time.Minute), Why: "no route"}
		}, "", fleetv1alpha1.ReasonNotInstalled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := seen(tc.edit)
			d := Next(o, at(0))
			if (d.Install == "") != (tc.install == "") || !strings.Contains(d.Install, tc.install) {
				t.Errorf("install %q, want %q", d.Install, tc.install)
			}
			c := conditionOf(d, fleetv1alpha1.ConditionClusterFollowed)
			if c.Reason != tc.reason || (c.Status == metav1.ConditionTrue) != (tc.reason == fleetv1alpha1.ReasonFollowed) {
				t.Errorf("%+v, want %s", c, tc.reason)
			}
			if !strings.Contains(c.Message, o.Install.Why) || !strings.Contains(c.Message, o.Install.Unusable) {
				t.Errorf("it does not say why: %+v", c)
			}
			if d.LookAgain == 0 {
				t.Error("nobody looks again: a rotated kubeconfig wakes nobody")
			}
		})
	}
}

func TestIdleWritesNothing(t *testing.T) {
	t.Parallel()
	o := seen(func(*Observation) {})
	o.Member.Status = *Next(o, at(0)).Status
	if d := Next(o, at(30)); d.Status != nil || d.Labels != nil || d.Install != "" {
		t.Errorf("%+v", d)
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cluster, member map[string]string
		own             []string
		prefixes        []string
		want            map[string]string
	}{
		"a new member": {
			cluster: map[string]string{
				"region": "eu", "topology.kubernetes.io/zone": "a", "example.com/tier": "1", "cluster.x-k8s.io/cluster-name": "x",
				"topology.cluster.x-k8s.io/owned": "", "kubernetes.io/x": "y", "app.kubernetes.io/part-of": "other", "fleet.underway.dev/hub": "evil",
			},
			want: map[string]string{"region": "eu", "topology.kubernetes.io/zone": "a", "example.com/tier": "1"},
		},
		"what a person put there stays":        {cluster: map[string]string{"region": "eu", "tier": "1"}, member: map[string]string{"region": "mine"}, want: map[string]string{"tier": "1"}},
		"what was copied follows":              {cluster: map[string]string{"region": "us"}, member: map[string]string{"region": "eu"}, own: []string{"region"}, want: map[string]string{"region": "us"}},
		"what was copied and is gone is taken": {cluster: map[string]string{}, member: map[string]string{"region": "eu", "mine": "x"}, own: []string{"region"}, want: map[string]string{}},
		"nothing changes":                      {cluster: map[string]string{"region": "eu"}, member: map[string]string{"region": "eu", "mine": "x"}, own: []string{"region"}},
		"with prefixes": {
			cluster:  map[string]string{"region": "eu", "fleet/a": "1", "topology.kubernetes.io/zone": "z", "fleet.underway.dev/hub": "evil"},
			prefixes: []string{"fleet", "topology.kubernetes.io/"}, want: map[string]string{"fleet/a": "1", "topology.kubernetes.io/zone": "z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := seen(func(o *Observation) {
				o.Cluster.Labels, o.Member.Labels, o.OwnLabels, o.Options.LabelPrefixes = tc.cluster, tc.member, map[string]bool{}, tc.prefixes
				for _, key := range tc.own {
					o.OwnLabels[key] = true
				}
			})
			if diff := cmp.Diff(tc.want, Next(o, at(0)).Labels); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUpgrading(t *testing.T) {
	t.Parallel()
	condition := func(kind, status, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason}}
	}
	for name, tc := range map[string]struct {
		up     Upgrade
		status metav1.ConditionStatus
		reason string
	}{
		"nothing is said":                    {Upgrade{}, "False", "NotUpgrading"},
		"all of one version":                 {Upgrade{Wanted: "v1.37.2", ControlPlane: []string{"v1.37.2"}, Workers: []string{"v1.37.2"}}, "False", "NotUpgrading"},
		"a provider's build":                 {Upgrade{Wanted: "v1.37.2", ControlPlane: []string{"v1.37.2+rke2r1"}}, "False", "NotUpgrading"},
		"a new version is asked for":         {Upgrade{Wanted: "v1.38.0", ControlPlane: []string{"v1.37.2"}}, "True", "ControlPlaneUpgrading"},
		"a control plane of two versions":    {Upgrade{ControlPlane: []string{"v1.37.2", "v1.38.0"}}, "True", "ControlPlaneUpgrading"},
		"a plan":                             {Upgrade{ControlPlane: []string{"v1.38.0"}, ControlPlanePlan: []string{"v1.38.0", "v1.39.0"}}, "True", "ControlPlaneUpgrading"},
		"workers behind":                     {Upgrade{Wanted: "v1.38.0", ControlPlane: []string{"v1.38.0"}, Workers: []string{"v1.37.2"}}, "True", "WorkersUpgrading"},
		"workers of two versions":            {Upgrade{Workers: []string{"v1.37.2", "v1.38.0"}}, "True", "WorkersUpgrading"},
		"machines roll":                      {Upgrade{Conditions: condition("RollingOut", "True", "RollingOut")}, "True", "RollingOut"},
		"nobody knows whether machines roll": {Upgrade{Conditions: condition("RollingOut", "Unknown", "RollingOutUnknown")}, "Unknown", "Unknown"},
		"old machines":                       {Upgrade{Conditions: condition("WorkerMachinesUpToDate", "False", "NotUpToDate")}, "True", "MachinesNotUpToDate"},
		"a topology that upgrades":           {Upgrade{Conditions: condition("TopologyReconciled", "False", "ClusterUpgrading")}, "True", "ClusterUpgrading"},
		"a topology that is paused":          {Upgrade{Conditions: condition("TopologyReconciled", "False", "Paused")}, "False", "NotUpgrading"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if status, reason, _ := tc.up.Of(); status != tc.status || reason != tc.reason {
				t.Errorf("%s %s", status, reason)
			}
		})
	}
	// An upgrade that cannot be read is not over.
	o := seen(func(o *Observation) { o.Cluster.Upgrade.Conditions = condition("RollingOut", "True", "RollingOut") })
	o.Member.Status = *Next(o, at(0)).Status
	o.Cluster.Upgrade.Conditions = condition("RollingOut", "Unknown", "RollingOutUnknown")
	if d := Next(o, at(1)); d.Status != nil {
		t.Errorf("%+v", conditionOf(d, fleetv1alpha1.ConditionUpgrading))
	}
}
