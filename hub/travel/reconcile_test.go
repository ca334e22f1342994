package travel

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/bell"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/outbox"
)

// ready are members that answer and whose caches are empty.
type ready struct{}

func (ready) View(string) (clusters.View, bool) {
	return clusters.View{State: clusters.StateReady}, true
}

func (ready) Child(string, schema.GroupVersionKind, types.NamespacedName) (*unstructured.Unstructured, bool) {
	return nil, true
}

func (ready) Get(context.Context, string, schema.GroupVersionKind, types.NamespacedName) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{}, "web")
}

// box carries out what is posted at once, and notes it.
type box struct {
	items    map[outbox.Key]outbox.Item
	outcomes map[outbox.Key]outbox.Outcome
}

func (b *box) Post(i outbox.Item) {
	b.items[i.Key()] = i
	o := outbox.Outcome{State: outbox.StateDone, Reason: changeset.ReasonGone}
	if i.Want == changeset.WantApplied {
		o = outbox.Outcome{State: outbox.StateDone, Marked: []string{string(i.Intent.OwnerUID)}}
	}
	b.outcomes[i.Key()] = o
}

func (b *box) WithdrawShare(key outbox.Key, _ types.UID) {
	delete(b.items, key)
	delete(b.outcomes, key)
}

func (b *box) Outcome(key outbox.Key) (outbox.Outcome, bool) { o, ok := b.outcomes[key]; return o, ok }

func (b *box) wants() []string {
	var out []string
	for key, i := range b.items {
		out = append(out, key.Member+"="+string(i.Want))
	}
	slices.Sort(out)
	return out
}

// TestAnObjectIsHeldSentAndReleased drives the real reads and writes: the finalizer comes before the first post, a delete is
// answered for by fresh reads, and the object goes when the members have answered.
func TestAnObjectIsHeldSentAndReleased(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "u", Labels: map[string]string{appsv1alpha1.LabelPropagate: "true"},
		Annotations: map[string]string{appsv1alpha1.AnnotationClusters: "region=eu"},
	}}
	east := &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "east", Labels: map[string]string{"region": "eu"}},
		Spec:       fleetv1alpha1.MemberClusterSpec{AllowedNamespaces: &metav1.LabelSelector{}},
	}
	closed := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "north", Labels: map[string]string{"region": "eu"}}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(svc, east, closed, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}).Build()
	out := &box{items: map[outbox.Key]outbox.Item{}, outcomes: map[outbox.Key]outbox.Outcome{}}
	clock := testingclock.NewFakeClock(time.Unix(1_800_000_000, 0))
	r := New(Options{
		Client: c, Live: c, Meta: c, Kinds: content.ByLabel(), Ledger: NewLedger(c), Members: ready{}, Outbox: out, HubID: "0123456789abcdef",
		Term: func() int64 { return 1 }, Clock: clock,
	}, &bell.Bell{})
	pass := func() {
		t.Helper()
		clock.Step(time.Second)
		key := Key(schema.GroupKind{Kind: content.KindService}, "shop", "web")
		if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	is := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, out.wants()); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", what, diff)
		}
	}

	pass()
	is("before it is held")
	if err := c.Get(ctx, client.ObjectKeyFromObject(svc), svc); err != nil || !slices.Contains(svc.Finalizers, appsv1alpha1.FinalizerCopies) {
		t.Fatalf("finalizers %v: %v", svc.Finalizers, err)
	}
	pass()
	is("held", "east=Applied")

	if err := c.Delete(ctx, svc); err != nil {
		t.Fatal(err)
	}
	pass()
	is("deleted", "east=Deleted")
	for _, item := range out.items {
		still, err := item.StillWanted(ctx)
		if err != nil || !still {
			t.Errorf("a delete that is wanted: %v, %v", still, err)
		}
		if err := c.Delete(ctx, east); err != nil {
			t.Fatal(err)
		}
		if still, err = item.StillWanted(ctx); err != nil || still {
			t.Errorf("without its MemberCluster: %v, %v", still, err)
		}
	}
	pass()
	is("released")
	if err := c.Get(ctx, client.ObjectKeyFromObject(svc), svc); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("it is still there, with finalizers %v: %v", svc.Finalizers, err)
	}
}
