//go:build lab

package propagation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/push"
	"github.com/underway-dev/underway/test/lab"
)

// TestServerSideApply is the table of lab.md: what the API server answers to what package push sends.
func TestServerSideApply(t *testing.T) {
	t.Parallel()
	const ns = "ssa"
	h := startHub(t, "5500000000000001", "ssa")
	h.join(t, "alpha")
	makeNamespace(t, "alpha", ns)
	p := push.New(h.members, h.id)
	do := func(op changeset.Op, i outbox.Item, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		d := changeset.Decision{Op: op, Object: i.Object}
		if live != nil {
			d.UID, d.ResourceVersion = live.GetUID(), live.GetResourceVersion()
		}
		return p.Do(t.Context(), "alpha", push.Operation{Decision: d, OwnerUID: i.Intent.OwnerUID, At: time.Unix(0, 0)})
	}
	api := cloneSets(t, "alpha", ns)
	i := h.item(t, "alpha", ns, some("web:1", 1))
	name := i.Object.GetName()

	// A foreign object with another value.
	foreign := i.Object.DeepCopy()
	foreign.SetLabels(nil)
	foreign.SetAnnotations(nil)
	if err := unstructured.SetNestedField(foreign.Object, int64(7), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Create(t.Context(), foreign, metav1.CreateOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	_, err := do(changeset.OpCreate, i, nil)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "somebody") || !strings.Contains(err.Error(), "replicas") {
		t.Errorf("unforced apply on a foreign object: %v, want a conflict that names manager and field", err)
	}

	// A foreign object with the same values: accepted by the API server, so it is given back.
	if err := api.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	same := i.Object.DeepCopy()
	same.SetLabels(nil)
	same.SetAnnotations(map[string]string{"theirs": "x"})
	made, err := api.Create(t.Context(), same, metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = do(changeset.OpCreate, i, nil); !errors.Is(err, push.ErrForeign) {
		t.Errorf("unforced apply on a foreign object of equal values: %v, want ErrForeign", err)
	}
	after, err := api.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.GetLabels()[appsv1alpha1.LabelHub] != "" || after.GetUID() != made.GetUID() || after.GetGeneration() != made.GetGeneration() ||
		!cmp.Equal(after.Object["spec"], made.Object["spec"]) || after.GetAnnotations()["theirs"] != "x" || len(after.GetAnnotations()) != 1 {
		t.Errorf("what we put on it was not given back: %v", after.Object)
	}

	// Gone: an apply with a UID re-creates nothing.
	if err := api.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err = do(changeset.OpApply, i, made); !apierrors.IsConflict(err) {
		t.Errorf("apply with a UID and no such object: %v, want a conflict", err)
	}

	live, err := do(changeset.OpCreate, i, nil)
	if err != nil {
		t.Fatal(err)
	}
	if others := changeset.Others(live); len(others) != 0 {
		t.Errorf("a created object has fields of %v", others)
	}

	// Another UID than the one that is there.
	wrong := live.DeepCopy()
	wrong.SetUID("00000000-0000-0000-0000-000000000000")
	if _, err = do(changeset.OpApply, i, wrong); !apierrors.IsInvalid(err) {
		t.Errorf("apply with a wrong UID: %v, want invalid", err)
	}
	// An old resourceVersion.
	next, err := do(changeset.OpApply, h.item(t, "alpha", ns, some("web:2", 2)), live)
	if err != nil || image(t, next) != "web:2" {
		t.Fatal(err)
	}
	if _, err = do(changeset.OpApply, i, live); !apierrors.IsConflict(err) {
		t.Errorf("forced apply with an old resourceVersion: %v, want a conflict", err)
	}
	if _, err = do(changeset.OpDelete, i, live); !apierrors.IsConflict(err) {
		t.Errorf("delete with an old resourceVersion: %v, want a conflict", err)
	}
	// Applied without one of the fields: it goes, because the create was an apply.
	less := h.item(t, "alpha", ns, some("web:2", 3))
	unstructured.RemoveNestedField(less.Object.Object, "spec", "template", "spec", "fieldOfTomorrow")
	next, err = do(changeset.OpApply, less, next)
	if err != nil {
		t.Fatal(err)
	}
	if _, found, _ := unstructured.NestedMap(next.Object, "spec", "template", "spec", "fieldOfTomorrow"); found {
		t.Error("a field that is no longer applied stays")
	}
	if _, err = do(changeset.OpDelete, i, next); err != nil || read(t, "alpha", i) != nil {
		t.Errorf("delete: %v", err)
	}
}

// TestOneRequestPerChangeAndNoneForARestart holds the budgets of design.md 9.
func TestOneRequestPerChangeAndNoneForARestart(t *testing.T) {
	t.Parallel()
	const ns = "budget"
	h := startHub(t, "5500000000000002", "one")
	h.join(t, "alpha", "beta")
	var at []lab.Mark
	var uids []types.UID
	members := []string{"alpha", "beta"}
	for _, m := range members {
		uids = append(uids, h.apply(t, h.item(t, m, ns, some("web:1", 1))).UID)
	}
	for _, m := range members {
		at = append(at, mark(t, m))
	}
	for n, m := range members {
		got := h.apply(t, h.item(t, m, ns, some("web:2", 2).by(uids[n])))
		if got.Generation != 2 {
			t.Errorf("%s: generation %d, want 2", m, got.Generation)
		}
	}
	// The member's own view of it arrives, and what is posted again sends nothing.
	for n, m := range members {
		i := h.item(t, m, ns, some("web:2", 2).by(uids[n]))
		eventually(t, "the cache shows it", func() (bool, string) {
			obj, synced := h.members.Child(m, i.Object.GroupVersionKind(), types.NamespacedName{Namespace: ns, Name: i.Object.GetName()})
			return synced && image(t, obj) == "web:2", ""
		})
		for range 5 {
			h.box.Post(i)
		}
	}
	time.Sleep(2 * time.Second)
	for n, m := range members {
		if diff := cmp.Diff([]string{"patch clonesets 200"}, requests(t, m, ns, at[n])); diff != "" {
			t.Errorf("%s: requests for one change (-want +got):\n%s", m, diff)
		}
	}

	h.stop()
	for n, m := range members {
		at[n] = mark(t, m)
	}
	again := startHub(t, h.id, "two")
	for range 3 {
		for n, m := range members {
			view, _ := h.members.View(m)
			again.members.Ensure(m, config2(m, view.Identity))
			again.box.Post(again.item(t, m, ns, some("web:2", 3).by(uids[n])))
		}
	}
	for _, m := range members {
		again.settle(t, again.item(t, m, ns, some("web:2", 3)), outbox.StateDone)
	}
	time.Sleep(2 * time.Second)
	for n, m := range members {
		if got := requests(t, m, ns, at[n], lab.Writes); len(got) != 0 {
			t.Errorf("%s: a restart with nothing due wrote %v", m, got)
		}
		if got := requests(t, m, "", at[n], lab.Writes, func(e lab.AuditEvent) bool {
			return e.Resource() != "leases"
		}, func(e lab.AuditEvent) bool { return strings.Contains(e.ObjectRef.Name, again.id) }); len(got) != 0 {
			t.Errorf("%s: a restart wrote %v", m, got)
		}
	}
}

// TestB123: a label that changes on the hub arrives in both members with one request each; what the members wrote themselves
// (uid, selector as it was created, status, creation time) is as it was. What else travels with a workload is not pushed yet.
func TestB123(t *testing.T) {
	t.Parallel()
	const ns = "generated"
	h := startHub(t, "5500000000000123", "one")
	h.join(t, "alpha", "beta")
	for _, m := range []string{"alpha", "beta"} {
		first := some("web:1", 1)
		first.extra = `, "progressDeadlineSeconds": 60`
		i := h.item(t, m, ns, first)
		uid := h.apply(t, i).UID
		status := []byte(`{"status": {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 3, "updatedReadyReplicas": 3, "labelSelector": "app=web"}}`)
		if _, err := cloneSets(t, m, ns).Patch(t.Context(), i.Object.GetName(), types.MergePatchType, status, metav1.PatchOptions{FieldManager: "agent"}, "status"); err != nil {
			t.Fatal(err)
		}
		before, at := read(t, m, i), mark(t, m)
		next := h.item(t, m, ns, func() plan { p := first; p.generation = 2; return p }().by(uid))
		labels := next.Object.GetLabels()
		labels["team"] = "blue"
		next.Object.SetLabels(labels)
		h.apply(t, next)
		after := read(t, m, i)
		if after.GetLabels()["team"] != "blue" {
			t.Errorf("%s: labels %v", m, after.GetLabels())
		}
		if diff := cmp.Diff([]string{"patch clonesets 200"}, requests(t, m, ns, at)); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", m, diff)
		}
		for _, path := range [][]string{{"metadata", "uid"}, {"metadata", "creationTimestamp"}, {"spec"}, {"status"}} {
			was, _, _ := unstructured.NestedFieldCopy(before.Object, path...)
			is, _, _ := unstructured.NestedFieldCopy(after.Object, path...)
			if diff := cmp.Diff(was, is); diff != "" {
				t.Errorf("%s: %v (-before +after):\n%s", m, path, diff)
			}
		}
	}
}

// TestDriftIsTakenBackAndNamed is a person's edit, with the manager that is named in the event.
func TestDriftIsTakenBackAndNamed(t *testing.T) {
	t.Parallel()
	const ns = "drift"
	h := startHub(t, "5500000000000003", "one")
	h.join(t, "alpha")
	first := h.apply(t, h.item(t, "alpha", ns, some("web:1", 1)))
	i := h.item(t, "alpha", ns, some("web:1", 1).by(first.UID))
	h.apply(t, i)

	for name, patch := range map[string]struct{ body, field string }{
		"image": {`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"hacked:1","resources":{"requests":{"cpu":"1000m"}}}]}}}}`, "spec.template.spec.containers"},
		"label": {`{"metadata":{"labels":{"apps.kruise.io/subset-name":"other"}}}`, "metadata.labels.apps.kruise.io/subset-name"},
		"scale": {`{"spec":{"replicas":9}}`, "spec.replicas"},
	} {
		before, _ := h.box.Outcome(i.Key())
		_, err := cloneSets(t, "alpha", ns).Patch(t.Context(), i.Object.GetName(), types.MergePatchType, []byte(patch.body),
			metav1.PatchOptions{FieldManager: "intruder-" + name})
		if err != nil {
			t.Fatal(err)
		}
		var got outbox.Outcome
		eventually(t, name+" is taken back", func() (bool, string) {
			got, _ = h.box.Outcome(i.Key())
			return got.State == outbox.StateDone && got.WrittenAt.After(before.WrittenAt), got.Message
		})
		if got.Reason != changeset.ReasonDrifted || !slices.ContainsFunc(got.TookBack, func(k outbox.Taken) bool {
			return k.Manager == "intruder-"+name && strings.HasPrefix(k.Field, patch.field)
		}) {
			t.Errorf("%s: %s, taken back %v", name, got.Reason, got.TookBack)
		}
	}
	live := read(t, "alpha", i)
	replicas, _, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if image(t, live) != "web:1" || replicas != 3 || live.GetLabels()[appsv1alpha1.LabelSubsetName] != "alpha" {
		t.Errorf("live is %v", live.Object)
	}

	// What others add beside our fields stays.
	_, err := cloneSets(t, "alpha", ns).Patch(t.Context(), i.Object.GetName(), types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"theirs":"x"}},"spec":{"scaleStrategy":{"podsToDelete":["p"]}}}`), metav1.PatchOptions{FieldManager: "person"})
	if err != nil {
		t.Fatal(err)
	}
	h.apply(t, h.item(t, "alpha", ns, some("web:2", 2).by(first.UID)))
	live = read(t, "alpha", i)
	pods, _, _ := unstructured.NestedStringSlice(live.Object, "spec", "scaleStrategy", "podsToDelete")
	if live.GetLabels()["theirs"] != "x" || !slices.Equal(pods, []string{"p"}) || image(t, live) != "web:2" {
		t.Errorf("what others added is gone: %v", live.Object)
	}
}

// TestReplicasAreGivenUp holds that the live number survives every step of handing it to an autoscaler and back.
func TestReplicasAreGivenUp(t *testing.T) {
	t.Parallel()
	const ns = "handover"
	h := startHub(t, "5500000000000004", "one")
	h.join(t, "alpha")
	first := h.apply(t, h.item(t, "alpha", ns, some("web:1", 1)))
	given := some("web:1", 2).by(first.UID)
	given.replicas = nil
	i := h.item(t, "alpha", ns, given)
	replicas := func() int64 {
		n, found, _ := unstructured.NestedInt64(read(t, "alpha", i).Object, "spec", "replicas")
		if !found {
			return -1
		}
		return n
	}
	h.apply(t, i)
	if got := replicas(); got != 3 {
		t.Fatalf("giving replicas up made them %d, want 3", got)
	}
	for _, e := range read(t, "alpha", i).GetManagedFields() {
		if e.Manager == appsv1alpha1.FieldManagerHub && strings.Contains(string(e.FieldsV1.GetRawBytes()), "f:replicas") {
			t.Error("the hub still owns replicas")
		}
	}
	_, err := cloneSets(t, "alpha", ns).Patch(t.Context(), i.Object.GetName(), types.MergePatchType,
		[]byte(`{"spec":{"replicas":8}}`), metav1.PatchOptions{FieldManager: "autoscaler"}, "scale")
	if err != nil {
		t.Fatal(err)
	}
	given.image, given.generation = "web:2", 3
	i = h.item(t, "alpha", ns, given)
	h.apply(t, i)
	if got := replicas(); got != 8 || image(t, read(t, "alpha", i)) != "web:2" {
		t.Fatalf("the autoscaler's replicas are %d, want 8", got)
	}
	// A plan that does not know of the autoscaler leaves its number all the same.
	h.apply(t, h.item(t, "alpha", ns, some("web:3", 4).by(first.UID)))
	if got := replicas(); got != 8 || image(t, read(t, "alpha", i)) != "web:3" {
		t.Fatalf("the autoscaler's replicas are %d, want 8", got)
	}
	// Once a person has scaled it the autoscaler's trace is gone, and the plan's number is taken back.
	if _, err := cloneSets(t, "alpha", ns).Patch(t.Context(), i.Object.GetName(), types.MergePatchType,
		[]byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{FieldManager: "kubectl"}, "scale"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "replicas are taken back", func() (bool, string) { return replicas() == 3, "" })
}

// TestForeignObjectIsNotTouchedUnlessAdopted is rule 3, and letting go and taking back.
func TestForeignObjectIsNotTouchedUnlessAdopted(t *testing.T) {
	t.Parallel()
	const ns = "adopt"
	h := startHub(t, "5500000000000005", "one")
	h.join(t, "beta")
	makeNamespace(t, "beta", ns)
	p := some("web:2", 1)
	i := h.item(t, "beta", ns, p)
	foreign := h.item(t, "beta", ns, some("web:1", 1)).Object
	foreign.SetLabels(nil)
	foreign.SetAnnotations(nil)
	api := cloneSets(t, "beta", ns)
	made, err := api.Create(t.Context(), foreign, metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		t.Fatal(err)
	}
	start := mark(t, "beta")
	h.box.Post(i)
	if got := h.settle(t, i, outbox.StateConflict); got.Reason != changeset.ReasonNotOurs {
		t.Errorf("reason %s", got.Reason)
	}
	if got := requests(t, "beta", ns, start, lab.Writes); len(got) != 0 {
		t.Errorf("a foreign object was written: %v", got)
	}

	p.adopt = appsv1alpha1.AdoptAny
	i = h.item(t, "beta", ns, p)
	adopted := h.apply(t, i)
	if adopted.Reason != changeset.ReasonAdopted || adopted.UID != made.GetUID() || image(t, read(t, "beta", i)) != "web:2" {
		t.Errorf("adopted: %+v", adopted)
	}

	letGo := i
	letGo.Want = changeset.WantOrphaned
	h.apply(t, letGo)
	if read(t, "beta", i).GetAnnotations()[appsv1alpha1.AnnotationOrphaned] == "" {
		t.Error("not marked as let go")
	}
	p.adopt, p.ownerUID = appsv1alpha1.AdoptNever, "the-next-owner"
	next := h.item(t, "beta", ns, p)
	h.box.Post(next)
	h.settle(t, next, outbox.StateConflict)
	p.adopt = appsv1alpha1.AdoptOrphaned
	next = h.item(t, "beta", ns, p)
	h.apply(t, next)
	live := read(t, "beta", i)
	if _, marked := live.GetAnnotations()[appsv1alpha1.AnnotationOrphaned]; marked || live.GetUID() != made.GetUID() ||
		!strings.Contains(live.GetAnnotations()[appsv1alpha1.AnnotationIntent], "the-next-owner") {
		t.Errorf("taken back: %v", live.GetAnnotations())
	}

	del := next
	del.Want = changeset.WantDeleted
	del.StillWanted = func(context.Context) (bool, error) { return false, nil }
	h.box.Post(del)
	h.settle(t, del, outbox.StateUnwantedDelete)
	if read(t, "beta", i) == nil {
		t.Fatal("deleted though its owner does not want that")
	}
	del.StillWanted = func(context.Context) (bool, error) { return true, nil }
	h.box.Post(del)
	if got := h.settle(t, del, outbox.StateDone); got.Reason != changeset.ReasonGone || read(t, "beta", i) != nil {
		t.Errorf("deleted: %+v", got)
	}
}

// TestNewerIntentStopsTheHub is the restored hub: nothing is written to any member until a person confirms.
func TestNewerIntentStopsTheHub(t *testing.T) {
	t.Parallel()
	const ns = "behind"
	h := startHub(t, "5500000000000006", "one")
	h.join(t, "alpha", "beta")
	first := h.apply(t, h.item(t, "alpha", ns, some("web:9", 9)))
	h.stop()

	restored := startHub(t, h.id, "restored")
	restored.join(t, "alpha", "beta")
	old := restored.item(t, "alpha", ns, some("web:1", 1).by(first.UID))
	restored.fence.set(func(f *fence) { f.intent = old.Intent })
	restored.box.Post(old)
	restored.settle(t, old, outbox.StateStopped)
	other := restored.item(t, "beta", ns, some("web:1", 1))
	restored.box.Post(other)
	restored.settle(t, other, outbox.StateStopped)
	if got := restored.box.Stopped(); len(got) != 1 || got[0].Condition != outbox.StopHubBehind || got[0].Member != "alpha" {
		t.Errorf("stopped: %v", got)
	}
	if image(t, read(t, "alpha", old)) != "web:9" || read(t, "beta", other) != nil {
		t.Fatal("a hub that is behind wrote")
	}
}

// TestNamespaces is a namespace that is absent, forbidden, or being deleted.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	const ns = "spaces"
	h := startHub(t, "5500000000000007", "one")
	h.join(t, "alpha")
	p := some("web:1", 1)
	p.ensure = false
	i := h.item(t, "alpha", ns, p)
	h.box.Post(i)
	h.settle(t, i, outbox.StateNamespaceMissing)
	p.ensure = true
	i = h.item(t, "alpha", ns, p)
	first := h.apply(t, i)
	got, err := kube(t, "alpha").CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	if err != nil || got.Labels[appsv1alpha1.LabelHub] != h.id {
		t.Errorf("namespace: %v, %v", got, err)
	}

	// Held open by a finalizer, the namespace stays terminating.
	hold := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hold", Finalizers: []string{"test.underway.dev/hold"}}}
	if _, err := kube(t, "alpha").CoreV1().ConfigMaps(ns).Create(t.Context(), hold, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := kube(t, "alpha").CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child is gone with its namespace", func() (bool, string) { return read(t, "alpha", i) == nil, "" })
	replanned := h.item(t, "alpha", ns, p)
	start := mark(t, "alpha")
	h.box.Post(replanned)
	h.settle(t, replanned, outbox.StateNamespaceTerminating)
	time.Sleep(2 * time.Second)
	if n := len(requests(t, "alpha", ns, start, lab.Writes)); n > 15 {
		t.Errorf("%d writes into a terminating namespace in 2 s", n)
	}
	if _, err := kube(t, "alpha").CoreV1().ConfigMaps(ns).Patch(t.Context(), "hold", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if second := h.settle(t, replanned, outbox.StateDone); second.UID == first.UID {
		t.Error("the child is the old one")
	}
}
