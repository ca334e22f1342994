package united

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/united/plan"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
)

// members are connections without clusters.
type members struct {
	views    map[string]clusters.View
	children map[string][]*unstructured.Unstructured
	// pods answers for the pods of every member; lists counts the looks.
	pods  dynamic.Interface
	lists int
	// emptied is true for caches that were emptied since the views were taken.
	emptied bool
}

func (m *members) View(name string) (clusters.View, bool) {
	v, ok := m.views[name]
	return v, ok
}

func (m *members) Use(...string) {}

func (m *members) Children(member string, gvk schema.GroupVersionKind, _ types.NamespacedName) ([]*unstructured.Unstructured, bool) {
	var out []*unstructured.Unstructured
	for _, obj := range m.children[member] {
		if obj.GroupVersionKind() == gvk {
			out = append(out, obj)
		}
	}
	return out, !m.emptied
}

func (m *members) Client(string) (dynamic.Interface, error) {
	if m.pods == nil {
		return nil, errors.New("no client")
	}
	m.lists++
	return m.pods, nil
}

func (m *members) Get(_ context.Context, member string, gvk schema.GroupVersionKind, object types.NamespacedName) (*unstructured.Unstructured, error) {
	for _, obj := range m.children[member] {
		if obj.GroupVersionKind() == gvk && obj.GetName() == object.Name && obj.GetNamespace() == object.Namespace {
			return obj, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, object.Name)
}

// box notes what is posted.
type box struct {
	items    map[outbox.Key]outbox.Item
	outcomes map[outbox.Key]outbox.Outcome
	posts    int
}

func (b *box) Post(i outbox.Item) {
	b.posts++
	b.items[i.Key()] = i
	b.outcomes[i.Key()] = outbox.Outcome{State: outbox.StatePending}
}

func (b *box) Withdraw(k outbox.Key) {
	delete(b.items, k)
	delete(b.outcomes, k)
}

func (b *box) Outcome(k outbox.Key) (outbox.Outcome, bool) {
	o, ok := b.outcomes[k]
	return o, ok
}

// bench is a reconciler with an API server in memory.
type bench struct {
	*Reconciler

	t       *testing.T
	clock   *testingclock.FakeClock
	members *members
	box     *box
	name    types.NamespacedName
}

func crd(fields string) *unstructured.Unstructured {
	out := crdObject()
	out.SetName(crdName)
	properties := map[string]any{}
	if fields != "" {
		properties[fields] = map[string]any{"type": "string"}
	}
	tree := any(map[string]any{"properties": properties})
	for _, name := range []string{"items", "subsets", "properties", "topology", "properties", "spec", "properties", "openAPIV3Schema", "schema"} {
		tree = map[string]any{name: tree}
	}
	version := tree.(map[string]any)
	version["storage"] = true
	_ = unstructured.SetNestedSlice(out.Object, []any{version}, "spec", "versions")
	return out
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, appsv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	s.AddKnownTypeWithName(crdObject().GroupVersionKind(), &unstructured.Unstructured{})
	objects = append(objects,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo", Labels: map[string]string{"team": "shop"}}},
		&fleetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "east", Generation: 1},
			Spec:       fleetv1alpha1.MemberClusterSpec{AllowedNamespaces: &metav1.LabelSelector{}},
		})
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(&appsv1alpha1.UnitedDeployment{}).Build()
	kind := clusters.KindView{GVK: render.CloneSet().GVK, Served: true, Synced: true, Reconciler: clusters.ReconcilerUnderway}
	view := clusters.View{State: clusters.StateReady, Synced: true, Reachable: true, Kinds: []clusters.KindView{kind}}
	b := &bench{
		t: t, clock: testingclock.NewFakeClock(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)),
		members: &members{views: map[string]clusters.View{"": view, "east": view}, children: map[string][]*unstructured.Unstructured{}},
		box:     &box{items: map[outbox.Key]outbox.Item{}, outcomes: map[outbox.Key]outbox.Outcome{}},
		name:    types.NamespacedName{Namespace: "demo", Name: "web"},
	}
	b.Reconciler = New(Options{
		Client: c, Live: c, Members: b.members, Outbox: b.box, HubID: "0123456789abcdef", Term: func() int64 { return 1 }, Clock: b.clock,
	})
	return b
}

func web() *appsv1alpha1.UnitedDeployment {
	ud := &appsv1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "demo", UID: "ud-uid", Generation: 1}}
	replicas := int32(3)
	ud.Spec.Replicas = &replicas
	ud.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	ud.Spec.Topology.Subsets = []appsv1alpha1.Subset{{Name: "a", SubsetPlace: appsv1alpha1.SubsetPlace{Cluster: "east"}}}
	ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Partitions: map[string]intstr.IntOrString{"a": intstr.FromInt32(0)}}
	ud.Spec.Template.CloneSetTemplate = &appsv1alpha1.WorkloadTemplate{Spec: runtime.RawExtension{
		Raw: []byte(`{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:1"}]}}}`),
	}}
	return ud
}

func (b *bench) reconcile() ctrl.Result {
	b.t.Helper()
	result, err := b.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: b.name})
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

func (b *bench) get() *appsv1alpha1.UnitedDeployment {
	b.t.Helper()
	ud := &appsv1alpha1.UnitedDeployment{}
	if err := b.Client.Get(b.t.Context(), b.name, ud); err != nil {
		b.t.Fatal(err)
	}
	return ud
}

func TestTheStatusIsStoredBeforeAnythingIsPosted(t *testing.T) {
	t.Parallel()
	b := newBench(t, crd("cluster"), web())
	b.reconcile()
	ud := b.get()
	if len(b.box.items) != 0 || ud.Status.Release == nil || ud.Status.CurrentRevision == "" || len(ud.Finalizers) != 1 {
		t.Fatalf("the first pass posts %d and stores %+v, finalizers %v", len(b.box.items), ud.Status.Release, ud.Finalizers)
	}
	b.clock.Step(2 * time.Second)
	b.reconcile()
	if len(b.box.items) != 1 {
		t.Fatalf("the second pass posts %d", len(b.box.items))
	}
	for key, item := range b.box.items {
		if key.Member != "east" || item.Want != changeset.WantApplied || item.Judged != "" || !item.EnsureNamespace {
			t.Errorf("%+v", item)
		}
	}
	posts := b.box.posts
	b.reconcile()
	if b.box.posts != posts {
		t.Error("what is posted already is posted again")
	}
	for key := range b.box.items {
		b.box.outcomes[key] = outbox.Outcome{State: outbox.StateReplan}
	}
	b.reconcile()
	if b.box.posts != posts+1 {
		t.Error("a plan that was dropped is not made anew")
	}
}

func TestTheStatusIsWrittenOnceASecond(t *testing.T) {
	t.Parallel()
	b := newBench(t, crd("cluster"), web())
	b.reconcile()
	ud := b.get()
	ud.Spec.UpdateStrategy.ManualUpdate.Partitions["a"] = intstr.FromInt32(1)
	ud.Generation++
	if err := b.Client.Update(t.Context(), ud); err != nil {
		t.Fatal(err)
	}
	version := b.get().ResourceVersion
	b.clock.Step(300 * time.Millisecond)
	result := b.reconcile()
	if b.get().ResourceVersion != version {
		t.Error("a second write within a second")
	}
	if result.RequeueAfter <= 0 || result.RequeueAfter > 700*time.Millisecond {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	b.clock.Step(time.Second)
	b.reconcile()
	version = b.get().ResourceVersion
	b.clock.Step(time.Minute)
	b.reconcile()
	if b.get().ResourceVersion != version {
		t.Error("a write though nothing changed")
	}
}

func TestWhatCannotBeReadIsWithdrawn(t *testing.T) {
	t.Parallel()
	b := newBench(t, crd("cluster"), web())
	b.reconcile()
	b.clock.Step(2 * time.Second)
	b.reconcile()
	ud := b.get()
	ud.Spec.UpdateStrategy.ManualUpdate.Partitions["a"] = intstr.FromString("abc")
	ud.Generation++
	if err := b.Client.Update(t.Context(), ud); err != nil {
		t.Fatal(err)
	}
	b.clock.Step(2 * time.Second)
	b.reconcile()
	if len(b.box.items) != 0 {
		t.Error("an older plan is still under way")
	}
	if c := meta.FindStatusCondition(b.get().Status.Conditions, "Invalid"); c == nil || !strings.Contains(c.Message, "partitions[a]") {
		t.Errorf("%+v", c)
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		crd        *unstructured.Unstructured
		reconciler clusters.Reconciler
		open       bool
	}{
		"our CRD":                      {crd("cluster"), clusters.ReconcilerUnderway, true},
		"nobody else on the hub":       {crd("cluster"), clusters.ReconcilerNobody, true},
		"OpenKruise's CRD":             {crd(""), clusters.ReconcilerNobody, false},
		"OpenKruise's manager alive":   {crd("cluster"), clusters.ReconcilerOpenKruise, false},
		"not known yet who reconciles": {crd("cluster"), clusters.ReconcilerUnknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.crd, web())
			view := b.members.views[""]
			view.Kinds = []clusters.KindView{{GVK: render.CloneSet().GVK, Served: true, Synced: true, Reconciler: tc.reconciler}}
			b.members.views[""] = view
			b.reconcile()
			if written := b.get().Status.Release != nil; written != tc.open {
				t.Errorf("written %v, want %v", written, tc.open)
			}
		})
	}
}

func TestAMemberThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	b := newBench(t, crd("cluster"), web())
	mc := &fleetv1alpha1.MemberCluster{}
	if err := b.Client.Get(t.Context(), types.NamespacedName{Name: "east"}, mc); err != nil {
		t.Fatal(err)
	}
	mc.Spec.AllowedNamespaces = nil
	if err := b.Client.Update(t.Context(), mc); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		b.reconcile()
		b.clock.Step(2 * time.Second)
	}
	if c := meta.FindStatusCondition(b.get().Status.Conditions, "NotAllowed"); c == nil || len(b.box.items) != 0 {
		t.Errorf("%+v, %d posted", c, len(b.box.items))
	}
}

// TestEnding is rule 8: what a deletion means, read fresh.
func TestEnding(t *testing.T) {
	t.Parallel()
	owned := func(refs ...metav1.OwnerReference) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
			Name: "web-1", Namespace: "demo", Labels: map[string]string{appsv1alpha1.LabelOwnerUID: "ud-uid"}, OwnerReferences: refs,
		}}
	}
	ref := metav1.OwnerReference{APIVersion: "apps.kruise.io/v1alpha1", Kind: "UnitedDeployment", Name: "web", UID: "ud-uid"}
	going := crd("cluster")
	going.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	going.SetFinalizers([]string{"customresourcecleanup.apiextensions.k8s.io"})
	orphan := web()
	orphan.Finalizers = []string{metav1.FinalizerOrphanDependents}
	lost := web()
	lost.Namespace = "gone"
	for name, tc := range map[string]struct {
		ud      *appsv1alpha1.UnitedDeployment
		objects []client.Object
		want    plan.Ending
	}{
		"a person deletes it": {web(), []client.Object{crd("cluster"), owned(ref)}, plan.EndingDelete},
		"cascade=orphan":      {orphan, []client.Object{crd("cluster"), owned(ref)}, plan.EndingOrphan},
		"cascade=orphan, and the finalizer is off again": {web(), []client.Object{crd("cluster"), owned()}, plan.EndingOrphan},
		"its CRD goes":          {web(), []client.Object{going, owned(ref)}, plan.EndingOrphan},
		"its CRD is gone":       {web(), []client.Object{owned(ref)}, plan.EndingOrphan},
		"its namespace is gone": {lost, []client.Object{crd("cluster")}, plan.EndingOrphan},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.objects...)
			got, err := b.ending(t.Context(), tc.ud)
			if err != nil || got != tc.want {
				t.Errorf("got %s, %v; want %s", got, err, tc.want)
			}
		})
	}
}

// TestStillWanted is rule 2: the answer before a delete.
func TestStillWanted(t *testing.T) {
	t.Parallel()
	deleted := web()
	deleted.Finalizers = []string{appsv1alpha1.FinalizerChildren}
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	another := web()
	another.UID = "another"
	for name, tc := range map[string]struct {
		objects []client.Object
		subset  string
		want    bool
	}{
		"the owner is being deleted":                {[]client.Object{crd("cluster"), deleted}, "a", true},
		"the owner is being deleted and so the CRD": {[]client.Object{deleted}, "a", false},
		"the subset was taken out":                  {[]client.Object{crd("cluster"), web()}, "b", true},
		"the subset is back":                        {[]client.Object{crd("cluster"), web()}, "a", false},
		"the owner is gone":                         {[]client.Object{crd("cluster")}, "a", false},
		"the owner is another one":                  {[]client.Object{crd("cluster"), another}, "b", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.objects...)
			got, err := b.stillWanted(b.name, "ud-uid", &plan.Push{Member: "east", Subset: tc.subset})(t.Context())
			if err != nil || got != tc.want {
				t.Errorf("got %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func TestDeliveriesAreStableWords(t *testing.T) {
	t.Parallel()
	first := deliveryOf(outbox.Outcome{State: outbox.StateFailed, Err: fmt.Errorf("read tcp 127.0.0.1:41234: connection reset")})
	again := deliveryOf(outbox.Outcome{State: outbox.StateFailed, Err: fmt.Errorf("read tcp 127.0.0.1:41999: connection reset")})
	if first != again || first.Problem != plan.ProblemOther {
		t.Errorf("%+v then %+v", first, again)
	}
	known := deliveryOf(outbox.Outcome{State: outbox.StateFailed, Err: apierrors.NewTooManyRequests("slow down", 1)})
	if !strings.Contains(known.Message, "slow down") {
		t.Errorf("the API server's words are lost: %+v", known)
	}
	if d := deliveryOf(outbox.Outcome{State: outbox.StateDone, Op: changeset.OpNothing, Reason: changeset.ReasonUpToDate}); d.Gone {
		t.Error("an applied child counts as gone")
	}
	if d := deliveryOf(outbox.Outcome{State: outbox.StateDone, Op: changeset.OpNothing, Reason: changeset.ReasonGone}); !d.Gone {
		t.Error("a delete that is proven does not count")
	}
}

// TestRestartSettles: right after its start the hub neither writes nor posts, and after a while it says what is missing.
func TestRestartSettles(t *testing.T) {
	t.Parallel()
	b := newBench(t, crd("cluster"), web())
	for range 3 {
		b.reconcile()
		b.clock.Step(2 * time.Second)
	}
	version := b.get().ResourceVersion
	delete(b.members.views, "east")
	for key := range b.box.items {
		b.box.Withdraw(key)
	}
	b.reconcile()
	if b.get().ResourceVersion != version || len(b.box.items) != 0 {
		t.Error("a hub that knows nothing wrote something")
	}
	b.clock.Step(time.Minute)
	b.reconcile()
	if c := meta.FindStatusCondition(b.get().Status.Conditions, "Stale"); c == nil {
		t.Error("a member that never comes is not said")
	}
}

// TestAUsedConfirmationGoes: it is taken off once, and only that is.
func TestAUsedConfirmationGoes(t *testing.T) {
	t.Parallel()
	for value, stays := range map[string]bool{"RemovalHeld/b,c": false, "other": true} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			ud := web()
			ud.Annotations = map[string]string{appsv1alpha1.AnnotationConfirm: value, "team": "shop"}
			b := newBench(t, crd("cluster"), ud)
			for range 3 {
				b.reconcile()
				b.clock.Step(2 * time.Second)
			}
			got := b.get()
			if _, there := got.Annotations[appsv1alpha1.AnnotationConfirm]; there != stays || got.Annotations["team"] != "shop" {
				t.Errorf("%v", got.Annotations)
			}
			if b.reconcile(); b.get().ResourceVersion != got.ResourceVersion {
				t.Error("an idle pass writes")
			}
		})
	}
}

// TestTheKindIsNotServed: only a positive answer says so.
func TestTheKindIsNotServed(t *testing.T) {
	t.Parallel()
	kind := clusters.KindView{GVK: render.CloneSet().GVK}
	for name, tc := range map[string]struct {
		view clusters.View
		want bool
	}{
		"it answers and has no such kind": {clusters.View{State: clusters.StateReady, Kinds: []clusters.KindView{kind}}, true},
		"it does not answer":              {clusters.View{State: clusters.StateDegraded, Block: clusters.BlockUnreachable, Kinds: []clusters.KindView{kind}}, false},
		"its kinds are not known":         {clusters.View{State: clusters.StateReady}, false},
	} {
		b := newBench(t, crd("cluster"), web())
		b.members.views[""] = tc.view
		seen, err := b.observe(t.Context(), ctrl.Request{NamespacedName: b.name})
		if err != nil || slices.Contains(seen.Members[""].NotServed, "CloneSet.apps.kruise.io") != tc.want || seen.Members[""].Ready != tc.want {
			t.Errorf("%s: %+v (%v)", name, seen.Members[""], err)
		}
	}
}
