package travel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
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
	"github.com/underway-dev/underway/propagation/render"
)

// place is a member of a stage: away, ready, or ready without the right to the kind. Its copy carries the mark of UID owner.
type place struct {
	away, refused bool
	owner         string
	// version of the hub's object that it is a copy of; 0 is 1.
	version int
}

// stage is a hub with members, through the real reads and writes; it is its own Members and Outbox.
type stage struct {
	testing.TB

	client client.Client
	clock  *testingclock.FakeClock
	places map[string]*place
	// asked is what the outbox holds; answers, by member, override what it answers at once.
	asked    map[outbox.Key]outbox.Item
	outcomes map[outbox.Key]outbox.Outcome
	r        *Reconciler
	kinds    []render.Kind
	retired  []render.Kind
}

func newStage(tb testing.TB, objects ...client.Object) *stage {
	tb.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, networkingv1.AddToScheme, appsv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			tb.Fatal(err)
		}
	}
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	s := &stage{
		TB: tb, client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		clock: testingclock.NewFakeClock(time.Unix(1_800_000_000, 0)), places: map[string]*place{}, kinds: content.ByLabel(),
	}
	s.restart()
	return s
}

// restart is a new process of the hub.
func (s *stage) restart() {
	s.asked, s.outcomes = map[outbox.Key]outbox.Item{}, map[outbox.Key]outbox.Outcome{}
	s.r = New(Options{
		Client: s.client, Live: s.client, Meta: s.client, Kinds: s.kinds, Retired: s.retired, Ledger: NewLedger(s.client), Members: s, Outbox: s,
		HubID: "0123456789abcdef", Term: func() int64 { return 1 }, Clock: s.clock,
	}, &bell.Bell{})
}

// join makes a member of a region.
func (s *stage) join(name, region string, p place) *place {
	s.Helper()
	mc := &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"region": region}},
		Spec:       fleetv1alpha1.MemberClusterSpec{AllowedNamespaces: &metav1.LabelSelector{}},
	}
	if err := s.client.Create(s.Context(), mc); err != nil {
		s.Fatal(err)
	}
	s.places[name] = &p
	return &p
}

func (s *stage) View(name string) (clusters.View, bool) {
	p := s.places[name]
	if p == nil || p.away {
		return clusters.View{}, false
	}
	v := clusters.View{State: clusters.StateReady}
	if p.refused {
		v.Kinds = []clusters.KindView{{GVK: s.kinds[0].GVK, Served: true, Refused: "forbidden"}}
	}
	return v, true
}

func (s *stage) Child(name string, gvk schema.GroupVersionKind, key types.NamespacedName) (*unstructured.Unstructured, bool) {
	if p := s.places[name]; p != nil {
		return p.copy(gvk, key)
	}
	return nil, false
}

func (p *place) copy(gvk schema.GroupVersionKind, key types.NamespacedName) (*unstructured.Unstructured, bool) {
	if p.away || p.refused {
		return nil, false
	}
	if p.owner == "" {
		return nil, true
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	u.SetAnnotations(map[string]string{appsv1alpha1.AnnotationOwnerPrefix + p.owner: "", appsv1alpha1.AnnotationIntent: fmt.Sprintf("1/%s/%d/0", p.owner, max(1, p.version))})
	return u, true
}

func (s *stage) Get(_ context.Context, member string, gvk schema.GroupVersionKind, key types.NamespacedName) (*unstructured.Unstructured, error) {
	p := *s.places[member]
	p.refused = false
	if u, _ := p.copy(gvk, key); u != nil {
		return u, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// Post answers at once, as a member that is there does: a delete is done when it is still wanted.
func (s *stage) Post(i outbox.Item) {
	p := s.places[i.Member]
	o := outbox.Outcome{State: outbox.StatePending}
	switch {
	case p.away:
	case p.refused:
		o = outbox.Outcome{State: outbox.StateRefused, Err: apierrors.NewForbidden(schema.GroupResource{}, "web", errors.New("no"))}
	case i.Want == changeset.WantApplied:
		p.owner = string(i.Intent.OwnerUID)
		o = outbox.Outcome{State: outbox.StateDone, Marked: []string{p.owner}}
	default:
		still, err := i.StillWanted(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		if o.State = outbox.StateUnwantedDelete; still {
			p.owner = ""
			o = outbox.Outcome{State: outbox.StateDone, Reason: changeset.ReasonGone}
		}
	}
	s.asked[i.Key()], s.outcomes[i.Key()] = i, o
}

func (s *stage) WithdrawShare(key outbox.Key, _ types.UID) {
	delete(s.asked, key)
	delete(s.outcomes, key)
}

func (s *stage) Outcome(key outbox.Key) (outbox.Outcome, bool) {
	o, ok := s.outcomes[key]
	return o, ok
}

// pass lets some time go by and the object, and what has ended, be looked at.
func (s *stage) pass(key types.NamespacedName) {
	s.Helper()
	for range 3 {
		s.clock.Step(time.Minute)
		for _, k := range []types.NamespacedName{key, endedKey()} {
			if _, err := s.r.Reconcile(s.Context(), ctrl.Request{NamespacedName: k}); err != nil {
				s.Fatal(err)
			}
		}
	}
}

func (s *stage) wants(want ...string) {
	s.Helper()
	var got []string
	for key, i := range s.asked {
		got = append(got, key.Member+"="+string(i.Want))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// owed are the UIDs that the ledger has, as stored.
func (s *stage) owed() []string {
	s.Helper()
	ended, err := NewLedger(s.client).Ended(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	out := []string{}
	for uid := range ended {
		out = append(out, string(uid))
	}
	slices.Sort(out)
	return out
}

func webService() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "u", Labels: map[string]string{appsv1alpha1.LabelPropagate: "true"},
		Annotations: map[string]string{appsv1alpha1.AnnotationClusters: "region=eu"}, Finalizers: []string{appsv1alpha1.FinalizerCopies},
	}}
}

func webKey() types.NamespacedName {
	return Key(schema.GroupKind{Kind: content.KindService}, "shop", "web")
}

func (s *stage) gone(obj client.Object) {
	s.Helper()
	if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
		s.Errorf("it is still there, with finalizers %v: %v", obj.GetFinalizers(), err)
	}
}

// TestLeftWhileAway: a member that was relabelled while it was away, with a restart of the hub before it is back, loses its
// copy when it is back.
func TestLeftWhileAway(t *testing.T) {
	t.Parallel()
	s := newStage(t, webService())
	for _, name := range []string{"a", "b", "c", "d"} {
		s.join(name, "eu", place{owner: "u"})
	}
	west := s.join("west", "us", place{owner: "u", away: true})
	s.pass(webKey())
	s.wants("a=Applied", "b=Applied", "c=Applied", "d=Applied")
	s.restart()
	west.away = false
	s.pass(webKey())
	if west.owner != "" {
		t.Error("it keeps its copy")
	}
}

// TestEndedWhileAway: an object is deleted while a member that it left is away, after a restart of the hub. Its deletion does
// not wait, and the copy goes when the member is back, after another restart, too.
func TestEndedWhileAway(t *testing.T) {
	t.Parallel()
	svc := webService()
	s := newStage(t, svc)
	east, west := s.join("east", "eu", place{owner: "u"}), s.join("west", "us", place{owner: "u", away: true})
	s.join("dead", "us", place{away: true})
	if err := s.client.Delete(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	s.pass(webKey())
	s.gone(svc)
	if diff := cmp.Diff([]string{"u"}, s.owed()); diff != "" || east.owner != "" {
		t.Fatalf("owed (-want +got), east has %q:\n%s", east.owner, diff)
	}

	s.restart()
	s.pass(webKey())
	s.wants()
	west.away = false
	s.pass(webKey())
	if west.owner != "" {
		t.Error("the copy stays on the member that was away")
	}
	s.wants()
	if diff := cmp.Diff([]string{"u"}, s.owed()); diff != "" {
		t.Errorf("while another is away (-want +got):\n%s", diff)
	}
	if err := s.client.Delete(t.Context(), &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "dead"}}); err != nil {
		t.Fatal(err)
	}
	s.pass(webKey())
	if diff := cmp.Diff([]string{}, s.owed()); diff != "" {
		t.Errorf("when everybody has answered (-want +got):\n%s", diff)
	}
}

// TestEndedAndWantedAgain: who puts the label back on owes nothing any more, and a copy of another object of that name is
// not taken for the old one's.
func TestEndedAndWantedAgain(t *testing.T) {
	t.Parallel()
	svc := webService()
	s := newStage(t, svc)
	s.join("east", "eu", place{owner: "u"})
	west := s.join("west", "us", place{owner: "u", away: true})
	unlabelled := svc.DeepCopy()
	unlabelled.Labels = nil
	if err := s.client.Patch(t.Context(), unlabelled, client.MergeFrom(svc)); err != nil {
		t.Fatal(err)
	}
	s.pass(webKey())
	if diff := cmp.Diff([]string{"u"}, s.owed()); diff != "" {
		t.Fatalf("owed (-want +got):\n%s", diff)
	}
	still := s.r.stillOwed(s.kinds[0], Ended{UID: "u", Kind: "Service", Namespace: "shop", Name: "web", Term: 1, Version: 1 << 40}, "west")
	west.away = false // it is back, and was not looked at yet
	if ok, err := still(t.Context()); !ok || err != nil {
		t.Errorf("its label is off: %v, %v", ok, err)
	}
	again := unlabelled.DeepCopy()
	again.Labels = svc.Labels
	if err := s.client.Patch(t.Context(), again, client.MergeFrom(unlabelled)); err != nil {
		t.Fatal(err)
	}
	if ok, err := still(t.Context()); ok || err != nil {
		t.Errorf("its label is on again: %v, %v", ok, err)
	}
	s.pass(webKey())
	if diff := cmp.Diff([]string{}, s.owed()); diff != "" {
		t.Errorf("wanted again (-want +got):\n%s", diff)
	}
	if ok, err := still(t.Context()); ok || err != nil {
		t.Errorf("nothing is owed any more: %v, %v", ok, err)
	}

	// Another object of that name, with a debt of the first.
	if err := s.r.Ledger.Add(t.Context(), Ended{UID: "older", Kind: "Service", Namespace: "shop", Name: "web", At: s.clock.Now()}); err != nil {
		t.Fatal(err)
	}
	west.owner = "u2"
	s.pass(webKey())
	if west.owner != "u2" {
		t.Error("a copy of another object went")
	}
}

// TestEndedWhereTheRoleWasRevoked: the member is asked once, not again and again; given the right back, it loses the copy.
func TestEndedWhereTheRoleWasRevoked(t *testing.T) {
	t.Parallel()
	svc := webService()
	s := newStage(t, svc)
	s.join("east", "eu", place{owner: "u"})
	west := s.join("west", "us", place{owner: "u", refused: true})
	if err := s.client.Delete(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	s.pass(webKey())
	s.gone(svc)
	s.pass(webKey())
	s.wants() // withdrawn
	if west.owner != "u" || len(s.owed()) != 1 {
		t.Fatalf("west has %q, owed %v", west.owner, s.owed())
	}
	west.refused = false
	s.r.Heard(clusters.Event{Member: "west"})
	s.pass(webKey())
	if west.owner != "" || len(s.owed()) != 0 {
		t.Errorf("west has %q, owed %v", west.owner, s.owed())
	}
}

// TestARetiredKindIsLetGo: an object of a kind that was taken out of --propagate-kinds is released, its copies stay, and
// nothing is remembered of the kind.
func TestARetiredKindIsLetGo(t *testing.T) {
	t.Parallel()
	kind := render.Kind{GVK: networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), Resource: "networkpolicies"}
	calm := &networkingv1.NetworkPolicy{ObjectMeta: webService().ObjectMeta}
	s := newStage(t, calm)
	s.retired = []render.Kind{kind}
	s.restart()
	s.join("east", "eu", place{owner: "u"})
	s.join("dead", "eu", place{owner: "u", away: true})
	if err := s.r.Ledger.AddKinds(t.Context(), []schema.GroupVersionKind{kind.GVK, {Group: "g", Version: "v1", Kind: "K"}}); err != nil {
		t.Fatal(err)
	}
	s.pass(Key(kind.GVK.GroupKind(), "shop", "web"))
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(calm), calm); err != nil || isHeldObject(calm) {
		t.Fatalf("finalizers %v, %v", calm.Finalizers, err)
	}
	got, err := s.r.Ledger.Kinds(t.Context())
	if diff := cmp.Diff([]schema.GroupVersionKind{{Group: "g", Version: "v1", Kind: "K"}}, got); diff != "" || err != nil {
		t.Errorf("kinds (-want +got), %v:\n%s", err, diff)
	}
}

// TestARestoredHubOwesNothing (R1.13 a): the hub's etcd is of a moment at which the copies were owed; the object was wanted
// again since, and its copies are of a later version.
func TestARestoredHubOwesNothing(t *testing.T) {
	t.Parallel()
	svc := webService()
	svc.Labels, svc.Finalizers = nil, nil
	s := newStage(t, svc)
	if err := s.r.Ledger.Add(t.Context(), Ended{UID: "u", Kind: "Service", Namespace: "shop", Name: "web", Term: 1, Version: 100}); err != nil {
		t.Fatal(err)
	}
	later, owed := s.join("later", "eu", place{owner: "u", version: 101}), s.join("owed", "eu", place{owner: "u", version: 100})
	blind := s.join("blind", "eu", place{owner: "u", version: 101, refused: true})
	s.pass(webKey())
	if later.owner == "" || owed.owner != "" {
		t.Errorf("later has %q, owed has %q", later.owner, owed.owner)
	}
	still := s.r.stillOwed(s.kinds[0], Ended{UID: "u", Kind: "Service", Namespace: "shop", Name: "web", Term: 1, Version: 100}, "blind")
	if ok, err := still(t.Context()); ok || err != nil || blind.owner == "" {
		t.Errorf("where the cache shows nothing: %v, %v", ok, err)
	}
}

// TestAStandbyRemembersNothing (R1.13 b): what was read before this process led is read again.
func TestAStandbyRemembersNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	standby := NewLedger(s.client)
	if err := standby.AddKinds(t.Context(), []schema.GroupVersionKind{{Group: "g", Version: "v1", Kind: "K"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.r.Ledger.Add(t.Context(), Ended{UID: "u"}); err != nil {
		t.Fatal(err)
	}
	got, err := standby.Ended(t.Context())
	if _, there := got["u"]; err != nil || !there {
		t.Errorf("the next leader knows of %v: %v", got, err)
	}
}

// TestWantedAgainBeforeItWasReleased (R1.13 c): the label comes back between the note and the finalizer's removal, which then
// conflicts; the object's pass forgets the note, and nobody deletes.
func TestWantedAgainBeforeItWasReleased(t *testing.T) {
	t.Parallel()
	s := newStage(t, webService())
	if err := s.r.Ledger.Add(t.Context(), Ended{UID: "u", Kind: "Service", Namespace: "shop", Name: "web", Term: 1, Version: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	east := s.join("east", "eu", place{owner: "u"})
	s.pass(webKey())
	s.wants("east=Applied")
	if got := s.owed(); len(got) > 0 || east.owner != "u" {
		t.Errorf("owed %v, east has %q", got, east.owner)
	}
}

func isHeldObject(obj client.Object) bool {
	return slices.Contains(obj.GetFinalizers(), appsv1alpha1.FinalizerCopies)
}

// TestWhatIsGivenUp (R1.17): a kind that the flag names is not, though the API server lacks that version of it.
func TestWhatIsGivenUp(t *testing.T) {
	t.Parallel()
	kind := func(version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "policy", Version: version, Kind: kind}
	}
	got := GivenUp(
		[]schema.GroupVersionKind{kind("v1", "PodDisruptionBudget"), kind("v1", "Eviction"), {Version: "v1", Kind: "Service"}},
		[]schema.GroupVersionKind{kind("v1beta1", "PodDisruptionBudget")},
	)
	if diff := cmp.Diff([]schema.GroupVersionKind{kind("v1", "Eviction")}, got); diff != "" {
		t.Errorf("given up (-want +got):\n%s", diff)
	}
}

// TestTheLedgerHasAnEnd: of more objects than a Secret holds the oldest are forgotten.
func TestTheLedgerHasAnEnd(t *testing.T) {
	t.Parallel()
	data := map[string][]byte{keyKinds: []byte("g/v1/K")}
	for i := range endedMost + 3 {
		at := time.Unix(1_800_000_000+int64(i), 0).UTC().Format(time.RFC3339)
		data[endedPrefix+at] = []byte(`{"kind":"Service","namespace":"shop","name":"web","at":"` + at + `"}`)
	}
	forgetOldest(t.Context(), data)
	if len(data) != endedMost+1 {
		t.Errorf("%d entries", len(data))
	}
	if _, there := data[endedPrefix+time.Unix(1_800_000_002, 0).UTC().Format(time.RFC3339)]; there {
		t.Error("the third oldest is there, and a younger one went")
	}
}
