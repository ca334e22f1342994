package workload_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/member/cloneset"
	"github.com/underway-dev/underway/member/cloneset/plan"
	"github.com/underway-dev/underway/member/workload"
)

// world is an API server, a cache that shows the pods of some time ago, and a count of calls.
type world struct {
	client.Client

	mu               sync.Mutex
	version          int
	creates, deletes int
	// refuse answers creates of pods; nil accepts them. unsynced is a watch of claims that has not begun.
	refuse   error
	unsynced bool
	// claimsBehind hides claims from the cache, which then has the version 1.
	claimsBehind bool
	// blind hides all ControllerRevisions from the cache.
	blind bool
	// past are the pods, and the version, that the cache shows; nil: the present ones.
	past *snapshot
}

type snapshot struct {
	pods    corev1.PodList
	version string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{version: 1000}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&appsv1alpha1.CloneSet{}, &appsv1alpha1.StatefulSet{}, &corev1.Pod{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				switch obj.GetObjectKind().GroupVersionKind().Kind {
				case "Pod":
					w.mu.Lock()
					w.creates++
					w.version++
					refuse := w.refuse
					w.mu.Unlock()
					if refuse != nil {
						return refuse
					}
					obj.SetUID(types.UID("uid-" + obj.GetName()))
				case "PersistentVolumeClaim":
					obj.SetUID(types.UID("uid-" + obj.GetName()))
				}
				err := c.Create(ctx, obj, opts...)
				w.stamp(obj)
				return err
			},
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				if obj.GetObjectKind().GroupVersionKind().Kind == "Pod" {
					w.mu.Lock()
					w.deletes++
					w.mu.Unlock()
				}
				return c.Delete(ctx, obj, opts...)
			},
		}).Build()
	return w
}

// stamp gives an answer a version that orders over all pods, as etcd's does; the fake client counts per object.
func (w *world) stamp(obj client.Object) {
	if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind == "Pod" || kind == "PersistentVolumeClaim" {
		w.mu.Lock()
		defer w.mu.Unlock()
		obj.SetResourceVersion(strconv.Itoa(w.version))
	}
}

// List plays the cache: indexes, and pods as they were.
func (w *world) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if options.FieldSelector == nil {
		return w.Client.List(ctx, list, opts...)
	}
	controller := types.UID(options.FieldSelector.Requirements()[0].Value)
	options.FieldSelector = nil
	if pods, ok := list.(*corev1.PodList); ok && w.past != nil {
		w.past.pods.DeepCopyInto(pods)
	} else if err := w.Client.List(ctx, list, options); err != nil {
		return err
	}
	others := func(it metav1.Object) bool {
		owner := metav1.GetControllerOfNoCopy(it)
		return owner == nil && controller != "nobody" || owner != nil && owner.UID != controller
	}
	switch list := list.(type) {
	case *corev1.PodList:
		list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return others(&p) })
	case *corev1.PersistentVolumeClaimList:
		list.Items = slices.DeleteFunc(list.Items, func(c corev1.PersistentVolumeClaim) bool { return w.claimsBehind || others(&c) })
	case *appsv1.ControllerRevisionList:
		list.Items = slices.DeleteFunc(list.Items, func(r appsv1.ControllerRevision) bool { return w.blind || others(&r) })
	}
	return nil
}

func (w *world) podsVersion() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.past != nil {
		return w.past.version
	}
	return strconv.Itoa(w.version)
}

func (w *world) claimsVersion() string {
	if w.claimsBehind {
		return "1"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return strconv.Itoa(w.version)
}

func cloneSet(t *testing.T, replicas int32) *appsv1alpha1.CloneSet {
	t.Helper()
	template, err := json.Marshal(corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app:v1"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &appsv1alpha1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-web", Generation: 1},
		Spec: appsv1alpha1.CloneSetSpec{
			Replicas: new(replicas), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: runtime.RawExtension{Raw: template},
		},
	}
}

var request = ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "web"}}

func (w *world) reconciler(clock *clocktesting.FakeClock) *workload.Reconciler {
	return workload.New(workload.Options{
		Kind: cloneset.Kind{}, Resource: cloneset.Resource(), Cache: w, PodsVersion: w.podsVersion, Live: w.Client,
		Claims: workload.Feed{Synced: func() bool { return !w.unsynced }, Version: w.claimsVersion},
		Clock:  clock, Extended: true,
	})
}

func (w *world) pods(t *testing.T) int {
	t.Helper()
	var list corev1.PodList
	if err := w.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

// TestB069: the cache shows the pods of three seconds ago, and ten passes are forced in that time.
func TestB069(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloneSet(t, 5))
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	r := w.reconciler(clock)
	w.past = &snapshot{version: "1000"}
	for range 11 {
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		clock.Step(300 * time.Millisecond)
	}
	w.past = nil
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if w.creates != 5 || w.deletes != 0 || w.pods(t) != 5 {
		t.Errorf("%d create calls, %d delete calls, %d pods; want 5, 0, 5", w.creates, w.deletes, w.pods(t))
	}
}

// TestStaleCacheAfterRestart: a new process knows nothing of the former one's writes; names keep it from doubling, and
// what it finds in its way it looks at before it takes another name.
func TestStaleCacheAfterRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloneSet(t, 5))
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	w.past = &snapshot{version: "1000"}
	for range 3 {
		r := w.reconciler(clock)
		for range 3 {
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
	}
	if w.pods(t) != 5 || w.deletes != 0 {
		t.Errorf("%d pods, %d delete calls; want 5 and 0", w.pods(t), w.deletes)
	}
}

// TestBurst: a pass does a bounded part, and the next ones the rest.
func TestBurst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloneSet(t, 600))
	r := w.reconciler(clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)))
	for _, want := range []int{250, 500, 600} {
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if got := w.pods(t); got != want {
			t.Fatalf("%d pods, want %d", got, want)
		}
	}
}

// TestNameOfAnother: a pod that is not ours has the name that comes first; it is left alone and the next one is used.
func TestNameOfAnother(t *testing.T) {
	t.Parallel()
	name := plan.PodName("web", plan.ID("uid-web", 0))
	foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "foreign"}}
	w := newWorld(t, cloneSet(t, 2), foreign)
	w.past = &snapshot{version: "1000"}
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	r := w.reconciler(clock)
	result, err := r.Reconcile(t.Context(), request)
	if err != nil || result.RequeueAfter <= 0 {
		t.Fatalf("result %v, error %v; want another look", result, err)
	}
	// The cache shows the one that could be created.
	var list corev1.PodList
	if err := w.Client.List(t.Context(), &list, client.HasLabels{appsv1alpha1.LabelCloneSetInstanceID}); err != nil {
		t.Fatal(err)
	}
	w.past = &snapshot{pods: list, version: "2000"}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if w.pods(t) != 3 || w.deletes != 0 || w.creates != 3 {
		t.Errorf("%d pods, %d creates, %d deletes; want the foreign one and two of ours", w.pods(t), w.creates, w.deletes)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || foreign.UID != "foreign" {
		t.Errorf("the foreign pod: %v", err)
	}
}

// TestCacheThatStaysBehind: after five seconds the pods are read from the API server instead, and scaling goes on.
func TestCacheThatStaysBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloneSet(t, 2))
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	r := w.reconciler(clock)
	w.past = &snapshot{version: "1000"}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var cs appsv1alpha1.CloneSet
	if err := w.Get(t.Context(), request.NamespacedName, &cs); err != nil {
		t.Fatal(err)
	}
	cs.Spec.Replicas = ptr.To[int32](3)
	if err := w.Update(t.Context(), &cs); err != nil {
		t.Fatal(err)
	}
	result, err := r.Reconcile(t.Context(), request)
	if err != nil || result.RequeueAfter <= 0 {
		t.Fatalf("result %v, error %v; want a wait", result, err)
	}
	if w.pods(t) != 2 {
		t.Fatalf("%d pods, want 2", w.pods(t))
	}
	clock.Step(result.RequeueAfter)
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if w.creates != 3 || w.deletes != 0 || w.pods(t) != 3 {
		t.Errorf("%d create calls, %d delete calls, %d pods; want 3, 0, 3", w.creates, w.deletes, w.pods(t))
	}
}

// A child that was deleted by hand and comes back at once meets the ControllerRevision of the one before, which the
// garbage collector has not taken yet. A status that named a revision which could not be stored held the object for good.
func TestARevisionNameInTheWayHoldsNothing(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	first := newWorld(t, cloneSet(t, 2))
	if _, err := first.reconciler(clock).Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var stored appsv1.ControllerRevisionList
	if err := first.Client.List(t.Context(), &stored); err != nil || len(stored.Items) != 1 {
		t.Fatalf("%d revisions: %v", len(stored.Items), err)
	}
	inTheWay := stored.Items[0]
	inTheWay.ResourceVersion = ""
	inTheWay.OwnerReferences[0].UID = "uid-of-the-one-before"

	again := cloneSet(t, 2)
	again.Spec.UpdateStrategy.Partition = new(intstr.FromString("100%"))
	w := newWorld(t, again, &inTheWay)
	r := w.reconciler(clock)
	for range 4 {
		_, _ = r.Reconcile(t.Context(), request) // the first pass meets the name and says so
		clock.Step(10 * time.Second)
	}
	if got := w.pods(t); got != 2 {
		t.Errorf("%d pods exist, want 2", got)
	}
	var set appsv1alpha1.CloneSet
	if err := w.Client.Get(t.Context(), request.NamespacedName, &set); err != nil {
		t.Fatal(err)
	}
	if name := set.Status.CurrentRevision; name == "" || name == inTheWay.Name {
		t.Errorf("status.currentRevision is %q, which is not a revision of this object", name)
	}
}

// A cache that lacks a revision must not make a running pod's revision "not kept": it would be recreated for it.
func TestARevisionMissingInTheCacheRecreatesNothing(t *testing.T) {
	t.Parallel()
	set := cloneSet(t, 2)
	set.Spec.UpdateStrategy.Type = appsv1alpha1.InPlaceIfPossibleUpdate
	set.Spec.UpdateStrategy.MaxUnavailable = new(intstr.FromString("100%"))
	w := newWorld(t, set)
	clock := clocktesting.NewFakeClock(time.Now())
	r := w.reconciler(clock)
	pass := func() {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		clock.Step(10 * time.Second)
	}
	pass()
	pass()
	var live appsv1alpha1.CloneSet
	if err := w.Get(t.Context(), request.NamespacedName, &live); err != nil {
		t.Fatal(err)
	}
	live.Spec.Template.Raw = []byte(strings.Replace(string(live.Spec.Template.Raw), "app:v1", "app:v2", 1))
	if err := w.Update(t.Context(), &live); err != nil {
		t.Fatal(err)
	}
	w.blind = true
	pass()
	pass()
	if w.deletes != 0 || w.pods(t) != 2 {
		t.Errorf("%d pods were deleted, %d exist", w.deletes, w.pods(t))
	}
	var list corev1.PodList
	if err := w.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if image := list.Items[i].Spec.Containers[0].Image; image != "app:v2" {
			t.Errorf("%s has %s: it was to be updated in place", list.Items[i].Name, image)
		}
	}
}

// TestReplacesAfterARestart: the agent ends after it deleted a pod and before it created the next one. Its successor
// finds neither; the last status tells that a pod of the old revision was there.
func TestReplacesAfterARestart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scaleTo, wantPods, wantReplacements int
	}{
		"replaced":            {scaleTo: 3, wantPods: 3, wantReplacements: 1},
		"replaced and scaled": {scaleTo: 5, wantPods: 5, wantReplacements: 1},
		// The next pod goes down: two are wanted and one may be missing.
		"scaled in, so not replaced": {scaleTo: 2, wantPods: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := cloneSet(t, 3)
			set.Spec.UpdateStrategy.MaxUnavailable = new(intstr.FromInt32(1))
			w := newWorld(t, set)
			clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
			pass := func(r *workload.Reconciler) {
				t.Helper()
				if _, err := r.Reconcile(t.Context(), request); err != nil {
					t.Fatal(err)
				}
				clock.Step(time.Second)
			}
			edit := func(change func(*appsv1alpha1.CloneSet)) {
				t.Helper()
				var cs appsv1alpha1.CloneSet
				if err := w.Get(t.Context(), request.NamespacedName, &cs); err != nil {
					t.Fatal(err)
				}
				change(&cs)
				if err := w.Update(t.Context(), &cs); err != nil {
					t.Fatal(err)
				}
			}
			first := w.reconciler(clock)
			pass(first)
			w.start(t)
			pass(first)
			edit(func(cs *appsv1alpha1.CloneSet) {
				cs.Spec.Template.Raw = []byte(strings.Replace(string(cs.Spec.Template.Raw), "app:v1", "app:v2", 1))
			})
			pass(first)
			if got := w.pods(t); got != 2 {
				t.Fatalf("%d pods, want 2: one is deleted", got)
			}
			edit(func(cs *appsv1alpha1.CloneSet) { cs.Spec.Replicas = new(int32(tc.scaleTo)) })
			pass(w.reconciler(clock))
			var list corev1.PodList
			if err := w.Client.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			replacements := 0
			for i := range list.Items {
				if list.Items[i].Annotations[appsv1alpha1.AnnotationReplaces] != "" {
					replacements++
				}
			}
			if len(list.Items) != tc.wantPods || replacements != tc.wantReplacements {
				t.Errorf("%d pods, %d of them replace one; want %d and %d", len(list.Items), replacements, tc.wantPods, tc.wantReplacements)
			}
		})
	}
}

// start makes all pods run and be ready.
func (w *world) start(t *testing.T) {
	t.Helper()
	var list corev1.PodList
	if err := w.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			{Type: appsv1alpha1.ConditionInPlaceUpdateReady, Status: corev1.ConditionTrue},
		}
		if err := w.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
}

// TestB083: of a template whose pods end no pod is made; a lost one comes back on the revision before.
func TestB083(t *testing.T) {
	t.Parallel()
	set := cloneSet(t, 2)
	good := set.Spec.Template.Raw
	ends := []byte(strings.Replace(string(good), `"spec":{`, `"spec":{"restartPolicy":"Never",`, 1))
	set.Spec.Template.Raw = ends
	w := newWorld(t, set)
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	r := w.reconciler(clock)
	pass := func(template []byte) {
		t.Helper()
		var cs appsv1alpha1.CloneSet
		if err := w.Get(t.Context(), request.NamespacedName, &cs); err != nil {
			t.Fatal(err)
		}
		cs.Spec.Template.Raw = template
		if err := w.Update(t.Context(), &cs); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			clock.Step(10 * time.Second)
		}
	}
	if pass(ends); w.pods(t) != 0 {
		t.Fatalf("%d pods", w.pods(t))
	}
	if pass(good); w.pods(t) != 2 {
		t.Fatalf("%d pods, want 2", w.pods(t))
	}
	w.start(t)
	pass(good)
	pass(ends)
	var list corev1.PodList
	if err := w.Client.List(t.Context(), &list); err != nil || len(list.Items) != 2 {
		t.Fatalf("%d pods, %v", len(list.Items), err)
	}
	if err := w.Delete(t.Context(), &list.Items[0]); err != nil {
		t.Fatal(err)
	}
	pass(ends)
	if err := w.Client.List(t.Context(), &list); err != nil || len(list.Items) != 2 {
		t.Fatalf("%d pods, %v", len(list.Items), err)
	}
	for i := range list.Items {
		if policy := list.Items[i].Spec.RestartPolicy; policy == corev1.RestartPolicyNever {
			t.Errorf("%s has restartPolicy %s", list.Items[i].Name, policy)
		}
	}
}
