package changeset_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
)

// TestB043: the hub wants another image and its own number of replicas, and an autoscaler has made another number of them.
// The image goes in one pass, replicas are left out of it, and then nothing is due, with memory and without.
func TestB043(t *testing.T) {
	t.Parallel()
	before := desired(intent(1, 5, 0))
	live := server(before)
	set(live, int64(5), "spec", "replicas")
	disown(live, "spec", "replicas")
	manage(live, replicasOf("kube-controller-manager", "scale"))
	want := desired(intent(1, 6, 0))
	container(want)["image"] = "web:2"
	input := changeset.Input{Want: changeset.WantApplied, Desired: want, Live: live, HubID: hub, Intent: intent(1, 6, 0)}
	got := changeset.Decide(input)
	if got.Op != changeset.OpApply {
		t.Fatalf("%s: %s", got.Op, got.Message)
	}
	if _, named, _ := unstructured.NestedFieldNoCopy(got.Object.Object, "spec", "replicas"); named || container(got.Object)["image"] != "web:2" {
		t.Errorf("what is sent is %v", got.Object.Object["spec"])
	}
	after := server(got.Object)
	set(after, int64(5), "spec", "replicas")
	manage(after, replicasOf("kube-controller-manager", "scale"))
	memory := changeset.Remember(got.Object, after)
	for _, m := range []*changeset.Memory{nil, &memory} {
		input.Live, input.Memory = after, m
		if again := changeset.Decide(input); again.Op != changeset.OpNothing {
			t.Errorf("it does not settle: %s %s", again.Op, again.Message)
		}
	}
}

// TestB125Upgrade: an object with the marks of a hub version before or after ours. It stays managed whatever is wanted of it,
// its marks are the one thing that an upgrade changes, and an owner is never told by what was added later.
func TestB125Upgrade(t *testing.T) {
	t.Parallel()
	const tomorrow = "mark-of-the-next-version"
	marks := map[string]func(o *unstructured.Unstructured){
		"written by the version before": func(o *unstructured.Unstructured) {
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations", appsv1alpha1.AnnotationOwner)
		},
		"written by the version after": func(o *unstructured.Unstructured) { set(o, "x", "metadata", "labels", tomorrow) },
		"written by ours":              func(*unstructured.Unstructured) {},
	}
	for name, mark := range marks {
		for wanted, op := range map[changeset.Want]changeset.Op{
			changeset.WantApplied: changeset.OpApply, changeset.WantDeleted: changeset.OpDelete, changeset.WantOrphaned: changeset.OpOrphan,
		} {
			stored := desired(intent(1, 5, 0))
			mark(stored)
			live := server(stored)
			want := desired(intent(1, 5, 0))
			got := changeset.Decide(changeset.Input{Want: wanted, Desired: want, Live: live, HubID: hub, Intent: intent(1, 5, 0)})
			if name == "written by ours" && wanted == changeset.WantApplied {
				op = changeset.OpNothing
			}
			if got.Op != op {
				t.Errorf("%s, %s: %s, want %s (%s)", name, wanted, got.Op, op, got.Message)
			}
			if got.Op != changeset.OpApply {
				continue
			}
			if diff := cmp.Diff(stored.Object["spec"], got.Object.Object["spec"]); diff != "" {
				t.Errorf("%s: more than marks (-stored +sent):\n%s", name, diff)
			}
			for _, field := range got.Fields {
				if field != "metadata.annotations."+appsv1alpha1.AnnotationOwner && field != "metadata.labels."+tomorrow {
					t.Errorf("%s: it changes %s", name, field)
				}
			}
			after := server(got.Object)
			memory := changeset.Remember(got.Object, after)
			for _, m := range []*changeset.Memory{nil, &memory} {
				again := changeset.Decide(changeset.Input{Want: wanted, Desired: want, Live: after, Memory: m, HubID: hub, Intent: intent(1, 5, 0)})
				if again.Op != changeset.OpNothing {
					t.Errorf("%s: the upgrade does not end: %s %s", name, again.Op, fmt.Sprint(again.Fields))
				}
			}
		}
	}
}

// TestB167Fence: whatever is wanted of an object with a newer intent of the same owner, by generation, epoch or term, is not
// done; one of an owner that was made again is another owner's, and not touched either.
func TestB167Fence(t *testing.T) {
	t.Parallel()
	for _, wanted := range []changeset.Want{changeset.WantApplied, changeset.WantDeleted, changeset.WantOrphaned} {
		for name, newer := range map[string][3]int64{"generation": {1, 6, 0}, "epoch": {1, 5, 3}, "term": {2, 1, 0}} {
			live := server(desired(intent(newer[0], newer[1], newer[2])))
			in := intent(1, 5, 2)
			got := changeset.Decide(changeset.Input{Want: wanted, Desired: desired(in), Live: live, HubID: hub, Intent: in, Adopt: appsv1alpha1.AdoptAny})
			if got.Op != changeset.OpHubBehind {
				t.Errorf("%s of a newer %s: %s (%s)", wanted, name, got.Op, got.Message)
			}
		}
		in := intent(1, 5, 2)
		in.OwnerUID = "made-again"
		live := server(desired(intent(1, 1, 0)))
		got := changeset.Decide(changeset.Input{Want: wanted, Desired: desired(in), Live: live, HubID: hub, Intent: in})
		if got.Op == changeset.OpDelete || got.Op == changeset.OpOrphan || got.Op == changeset.OpApply || got.Op == changeset.OpCreate {
			t.Errorf("%s of another owner's: %s (%s)", wanted, got.Op, got.Message)
		}
	}
}
