package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/render"
)

func cloneSets(by clusters.Reconciler, version string) clusters.KindView {
	return clusters.KindView{GVK: render.CloneSet().GVK, Served: true, Synced: true, Reconciler: by, Version: version}
}

func TestAgentVersion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		by      clusters.Reconciler
		version string

		status metav1.ConditionStatus
		reason string
		says   string
	}{
		"a release":               {clusters.ReconcilerUnderway, "v0.2.1", "True", "Underway", "underway-member v0.2.1"},
		"the oldest":              {clusters.ReconcilerUnderway, oldestAgent, "True", "Underway", oldestAgent},
		"older than is supported": {clusters.ReconcilerUnderway, "v0.0.9", "False", "AgentTooOld", "older than " + oldestAgent + ", the oldest that this hub works with: kubectl underway join eu-1 "},
		"a build of no release":   {clusters.ReconcilerUnderway, "v0.0.0-20261130101010-0123456789ab_dirty", "True", "Underway", "v0.0.0-2026"},
		"a build without a name":  {clusters.ReconcilerUnderway, "devel-0123456789ab", "True", "Underway", "devel-"},
		"none said":               {clusters.ReconcilerUnderway, "", "True", "Underway", "does not say its version, so it is older than this hub"},
		"OpenKruise":              {clusters.ReconcilerOpenKruise, "", "True", "OpenKruise", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := ready(named("eu-1", "uid-1"))
			o.view.Kinds = []clusters.KindView{cloneSets(tc.by, tc.version)}
			d := next(o, at(0))
			if c := conditionOf(t, d, "AgentReady"); c.Status != tc.status || c.Reason != tc.reason || !strings.Contains(c.Message, tc.says) {
				t.Errorf("AgentReady is %+v", c)
			}
			if d.status.AgentVersion != tc.version {
				t.Errorf("agentVersion %q, want %q", d.status.AgentVersion, tc.version)
			}
		})
	}
}

// TestAgentVersionGoesWithTheAgent: nobody reconciles there any more, so no version does.
func TestAgentVersionGoesWithTheAgent(t *testing.T) {
	t.Parallel()
	o := ready(named("eu-1", "uid-1"))
	o.view.Kinds = []clusters.KindView{cloneSets(clusters.ReconcilerUnderway, "v0.2.1")}
	o.member = after(o.member, next(o, at(0)))
	o.view.State = clusters.StateDegraded
	if d := next(o, at(1)); d.status.AgentVersion != "v0.2.1" {
		t.Errorf("a member that is not read forgets %q", d.status.AgentVersion)
	}
	o.view.State = clusters.StateReady
	o.view.Kinds = []clusters.KindView{cloneSets(clusters.ReconcilerNobody, "")}
	if d := next(o, at(2)); d.status.AgentVersion != "" || !d.write {
		t.Errorf("agentVersion %q, write %v", d.status.AgentVersion, d.write)
	}
}

// TestWhatOnlyTravelsIsNoWorkloadKind: Services and kinds of the hub's flag are watched on members, and nobody reconciles them.
func TestWhatOnlyTravelsIsNoWorkloadKind(t *testing.T) {
	t.Parallel()
	o := ready(named("eu-1", "uid-1"))
	o.view.Kinds = []clusters.KindView{cloneSets(clusters.ReconcilerUnderway, "v0.2.1")}
	for _, k := range append(content.Kinds(), content.ByLabel()...) {
		o.view.Kinds = append(o.view.Kinds, clusters.KindView{GVK: k.GVK, Served: true, Reconciler: clusters.ReconcilerNobody})
	}
	o.view.Kinds = append(o.view.Kinds, clusters.KindView{
		GVK: schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}, Served: true, Reconciler: clusters.ReconcilerNobody,
	})
	d := next(o, at(0))
	want := []fleetv1alpha1.WorkloadKind{{Kind: "CloneSet.apps.kruise.io", Reconciler: "Underway", Version: "v0.2.1"}}
	if diff := cmp.Diff(want, d.status.WorkloadKinds); diff != "" {
		t.Error(diff)
	}
	if c := conditionOf(t, d, "AgentReady"); c.Status != metav1.ConditionTrue {
		t.Errorf("AgentReady is %+v", c)
	}
}
