package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// TestRevisionWithoutTemplatesIsWhatItWas: what is hashed of an object without overrides by selector has not changed.
func TestRevisionWithoutTemplatesIsWhatItWas(t *testing.T) {
	t.Parallel()
	a := sub("a", "a", "2")
	a.Patch = rawJSON(`{"metadata":{"annotations":{"of":"a"}}}`)
	ud := united("web", 4, "web:1", a, sub("b", "b", "2"))
	raw, err := json.Marshal(contentOf(&ud.Spec, nil))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "selected") || strings.Contains(string(raw), `"template":"`) {
		t.Errorf("content %s", raw)
	}
	w := newWorld(t, ud)
	w.run()
	if diff := cmp.Diff("web-x5x2jl67qh", w.ud.Status.CurrentRevision); diff != "" {
		t.Errorf("revision (-want +got):\n%s", diff)
	}
	// A template without overrides is no part of it either.
	plain := selectedFleet(t, 4, nil, "a", "b")
	plain.ud.Spec.Topology.Subsets = ud.Spec.Topology.Subsets
	plain.ud.Spec.Topology.SubsetTemplates = []appsv1alpha1.SubsetSelector{tmpl("tier=web", "")}
	plain.run()
	if diff := cmp.Diff("web-x5x2jl67qh", plain.ud.Status.CurrentRevision); diff != "" {
		t.Errorf("revision (-want +got):\n%s", diff)
	}
}

func patched(label, of string) appsv1alpha1.SubsetSelector {
	t := tmpl(label, "")
	t.Patch = rawJSON(fmt.Sprintf(`{"metadata":{"annotations":{"of":%q}}}`, of))
	return t
}

// TestMembersAreNoRelease: the overrides of templates are part of the revision, and who they are for is not.
func TestMembersAreNoRelease(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 12, []appsv1alpha1.SubsetSelector{patched("tier=a", "a"), patched("tier=b", "b")}, "a:tier=a", "b:tier=b", "c:tier=a")
	w.run()
	first, epoch := w.ud.Status.CurrentRevision, w.ud.Status.Release.StartedAt
	if w.entry("a").Revision == w.entry("b").Revision || w.entry("a").Revision != w.entry("c").Revision {
		t.Errorf("entries %+v", w.ud.Status.SubsetStatuses)
	}
	revision := w.entry("b").Revision
	w.join("d:tier=b")
	w.run()
	w.members["a"].relabel("tier=c")
	w.run()
	w.members["c"].relabel("tier=b") // to the other template: it takes that one's overrides, as of the completed revision
	w.run()
	if w.entry("c").Revision != revision || w.entry("d").Revision != revision {
		t.Errorf("entries %+v", w.ud.Status.SubsetStatuses)
	}
	if s := w.ud.Status; s.UpdatedRevision != first || s.CurrentRevision != first || !s.Release.StartedAt.Equal(epoch) || len(w.revs) != 1 {
		t.Errorf("a release began: %+v, %d revisions", s.Release, len(w.revs))
	}
	// The order and the spelling of a selector are no release, its overrides are.
	list := w.ud.Spec.Topology.SubsetTemplates
	list[0], list[1] = list[1], list[0]
	list[0].ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "b"}}
	w.ud.Generation++
	w.run()
	if w.ud.Status.UpdatedRevision != first {
		t.Error("a release began with the order of the templates")
	}
	list[0].Patch = rawJSON(`{"metadata":{"annotations":{"of":"other"}}}`)
	w.ud.Generation++
	w.run()
	if w.ud.Status.UpdatedRevision == first {
		t.Error("no release began with the overrides of a template")
	}
}

// TestRelabelledInMidRelease: a member that goes to another template in mid-release and loses its child gets the completed
// template with the overrides of its new one, held; a held one keeps what it carries.
func TestRelabelledInMidRelease(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 6, []appsv1alpha1.SubsetSelector{patched("tier=a", "a"), patched("tier=b", "b")}, "a:tier=a", "b:tier=b")
	w.run()
	ofA, ofB := w.entry("a").Revision, w.entry("b").Revision
	w.hold("100%")
	setImage(w.ud, "web:2")
	w.run()
	w.members["a"].relabel("tier=b")
	w.run()
	if c := w.child("a"); c.label != ofA || c.count(ofA) != 3 || w.entry("a").State != stateHeld {
		t.Errorf("the held child was changed: %+v", c)
	}
	clear(w.members["a"].children)
	w.run()
	if c := w.child("a"); c.label != ofB || c.count(ofB) != 3 {
		t.Errorf("the child that was lost came back as %+v", c)
	}
	w.hold("0")
	w.run()
	if w.entry("a").Revision != w.entry("b").Revision || w.ud.Status.UpdatedReplicas != 6 || w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision {
		t.Errorf("%v", w.states())
	}
}

// TestLeavingChangesNobodysShare: those that leave in mid-release, by selector or by the list, keep their share of a total.
func TestLeavingChangesNobodysShare(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 0, []appsv1alpha1.SubsetSelector{tmpl("tier=web", "1")}, "a:tier=web", "b:tier=web", "c:tier=web", "d:tier=web")
	w.ud.Spec.Replicas = nil
	w.ud.Spec.Topology.Subsets = []appsv1alpha1.Subset{sub("x", "", "1"), sub("y", "", "1")}
	w.run()
	w.hold("4")
	setImage(w.ud, "web:2")
	w.run()
	want := map[string]int32{"x": 0, "y": 0, "a": 0, "b": 0, "c": 1, "d": 1}
	if diff := cmp.Diff(want, w.ud.Status.Release.Grants); diff != "" {
		t.Fatalf("grants (-want +got):\n%s", diff)
	}
	// Without the order as it was, the seats of x and y would go to c and d: their grants would be taken back.
	w.ud.Spec.Topology.Subsets = nil
	w.ud.Annotations = map[string]string{appsv1alpha1.AnnotationConfirm: "RemovalHeld/x,y"}
	w.ud.Generation++
	w.run()
	w.members["a"].relabel("")
	w.run()
	delete(w.members, "d")
	w.run()
	w.join("aa:tier=web")
	w.run()
	if got := w.ud.Status.Release.Grants; got["c"] != 1 || got["b"] != 0 || got["aa"] != 0 {
		t.Errorf("grants %v", got)
	}
	w.hold("0")
	w.run()
	if w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision {
		t.Errorf("%v", w.states())
	}
}

// TestHostileTemplates: a hundred templates, a selector twice, and five hundred members.
func TestHostileTemplates(t *testing.T) {
	t.Parallel()
	var list []appsv1alpha1.SubsetSelector
	for i := range 99 {
		list = append(list, patched(fmt.Sprintf("tier=t%d", i), fmt.Sprint(i)))
	}
	list = append(list, tmpl("tier=t7", "")) // once more, without overrides: the first one wins
	var members []string
	for i := range 500 {
		members = append(members, fmt.Sprintf("m%d:tier=t%d", i, i%99))
	}
	w := selectedFleet(t, 1000, list, members...)
	w.run()
	s := &w.ud.Status
	if len(s.SubsetStatuses) != 500 || s.Replicas != 1000 || w.entry("m7").Revision == w.entry("m8").Revision {
		t.Errorf("%d subsets, %d pods", len(s.SubsetStatuses), s.Replicas)
	}
	w.hold("50%")
	setImage(w.ud, "web:2")
	w.run()
	if s.UpdatedReplicas != 500 {
		t.Errorf("%d updated", s.UpdatedReplicas)
	}
	for i := range 250 {
		w.members[fmt.Sprintf("m%d", i)].relabel("")
	}
	clear(w.writes)
	w.run()
	if len(w.writes) > 0 || len(s.SubsetStatuses) != 500 {
		t.Errorf("%d writes, %d subsets", len(w.writes), len(s.SubsetStatuses))
	}
}

// TestM019Selected is manifest M019 with its three places by selector: keys of partitions name members.
func TestM019Selected(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 9, []appsv1alpha1.SubsetSelector{tmpl("tier=web", "")}, "east:tier=web", "north:tier=web", "west:tier=web")
	partitions(w.ud, map[string]string{"east": "2", "west": "3", "north": "3"})
	w.run()
	setImage(w.ud, "web:2")
	w.run()
	if w.ud.Status.UpdatedReplicas != 1 || w.entry("east").UpdatedReplicas != 1 {
		t.Errorf("%v", w.states())
	}
	if diff := cmp.Diff(map[string]int32{"east": 2, "west": 3, "north": 3}, w.ud.Status.UpdateStatus.CurrentPartitions); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
	partitions(w.ud, map[string]string{"east": "0", "west": "3", "north": "3", "south": "0"})
	w.run()
	if c := w.condition("UnknownSubsets"); c == nil || !strings.Contains(c.Message, "south") || w.ud.Status.UpdatedReplicas != 3 {
		t.Errorf("condition %+v, %d updated", c, w.ud.Status.UpdatedReplicas)
	}
	w.members["west"].relabel("")
	w.run()
	if c := w.condition("UnknownSubsets"); strings.Contains(c.Message, "west") {
		t.Errorf("a member that is not selected any more is not unknown: %s", c.Message)
	}
	partitions(w.ud, map[string]string{"east": "0", "west": "0", "north": "0"})
	w.run()
	if w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision || w.ud.Status.UpdatedReplicas != 6 {
		t.Errorf("%v", w.states())
	}
}
