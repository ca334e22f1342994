package podwriter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podwriter"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: "uid-" + "x",
			Labels:     map[string]string{"app": "web", "old": "1"},
			Finalizers: []string{"a/keep", "a/drop"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "web", Image: "app:v1", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}}, {Name: "side", Image: "side:v1"},
		}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: "Ready", Status: "True"},
			{Type: appsv1alpha1.ConditionInPlaceUpdateReady, Status: "False", Reason: appsv1alpha1.ReasonStartInPlaceUpdate},
		}},
	}
}

// counting is a client that counts requests by verb; reads are counted too.
type counting struct {
	mu    sync.Mutex
	calls map[string]int
	fail  func(verb, name string) error
}

func (c *counting) note(verb, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[verb]++
	if c.fail != nil {
		return c.fail(verb, name)
	}
	return nil
}

func (c *counting) client(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	c.calls = map[string]int{}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&corev1.Pod{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				return errors.Join(c.note("get", key.Name), w.Get(ctx, key, o, opts...))
			},
			Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if err := c.note("create", o.GetName()); err != nil {
					return err
				}
				return w.Create(ctx, o, opts...)
			},
			Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := c.note("delete", o.GetName()); err != nil {
					return err
				}
				return w.Delete(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if err := c.note("patch", o.GetName()); err != nil {
					return err
				}
				return w.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if err := c.note("patch/"+sub, o.GetName()); err != nil {
					return err
				}
				return w.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
}

func get(t *testing.T, c client.Client, name string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, p); err != nil {
		t.Fatal(err)
	}
	return p
}

func ref(p *corev1.Pod) inplace.Ref {
	return inplace.Ref{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}
}

func TestOneUpdateIsThreeRequestsAndNoRead(t *testing.T) {
	t.Parallel()
	n := &counting{}
	c := n.client(t, pod("a"))
	w := podwriter.New(c)
	seen := get(t, c, "a")
	n.calls = map[string]int{}
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	steps := []inplace.Patch{
		{Kind: inplace.PatchDrain, At: at},
		{Kind: inplace.PatchUpdate, At: at, Images: map[string]string{"web": "app:v2"}, Metadata: inplace.MetadataChange{
			Labels:      map[string]*string{"old": nil, "new": new("1")},
			Annotations: map[string]*string{appsv1alpha1.AnnotationInPlaceState: new(`{"revision":"web-2"}`)},
		}},
		{Kind: inplace.PatchReturn, At: at},
	}
	current := ref(seen)
	for _, p := range steps {
		p.Ref = current
		result, err := w.Do(t.Context(), inplace.Decision{Patches: []inplace.Patch{p}})
		if err != nil || result.Patched != 1 || len(result.Written) != 1 {
			t.Fatalf("%s: %+v, %v", p.Kind, result, err)
		}
		current.ResourceVersion = result.Written[0].ResourceVersion
	}
	if diff := cmp.Diff(map[string]int{"patch": 1, "patch/status": 2}, n.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	got := get(t, c, "a")
	if got.ResourceVersion != current.ResourceVersion {
		t.Errorf("resourceVersion %s, the last write said %s", got.ResourceVersion, current.ResourceVersion)
	}
	if diff := cmp.Diff(map[string]string{"app": "web", "new": "1"}, got.Labels); diff != "" {
		t.Error(diff)
	}
	want := []corev1.Container{{Name: "web", Image: "app:v2", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}}, {Name: "side", Image: "side:v1"}}
	if diff := cmp.Diff(want, got.Spec.Containers); diff != "" {
		t.Error(diff)
	}
	for _, condition := range got.Status.Conditions {
		if condition.Status != corev1.ConditionTrue || condition.Reason != "" {
			t.Errorf("condition %+v", condition)
		}
	}
}

// The fake client above does not know directives and gates as the API server's library does; this is that library.
func TestBodyIsAStrategicMergePatchOfAPod(t *testing.T) {
	t.Parallel()
	p := inplace.Patch{
		Ref: inplace.Ref{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "7"}, Kind: inplace.PatchUpdate,
		Images: map[string]string{"side": "side:v2"},
		Metadata: inplace.MetadataChange{
			Labels:        map[string]*string{"old": nil, "k1": new("v1")},
			AddFinalizers: []string{"a/new"}, RemoveFinalizers: []string{"a/drop"},
		},
	}
	data, sub, err := podwriter.Body(p)
	if err != nil || sub != "" {
		t.Fatal(sub, err)
	}
	before, err := json.Marshal(pod("a"))
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, data, &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	var got corev1.Pod
	if err := json.Unmarshal(after, &got); err != nil {
		t.Fatal(err)
	}
	if got.UID != "u" || got.ResourceVersion != "7" {
		t.Errorf("preconditions are not in the body: %s/%s", got.UID, got.ResourceVersion)
	}
	if diff := cmp.Diff([]string{"a/new", "a/keep"}, got.Finalizers); diff != "" {
		if diff := cmp.Diff([]string{"a/keep", "a/new"}, got.Finalizers); diff != "" {
			t.Errorf("finalizers (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(map[string]string{"app": "web", "k1": "v1"}, got.Labels); diff != "" {
		t.Error(diff)
	}
	if got.Spec.Containers[0].Image != "app:v1" || got.Spec.Containers[1].Image != "side:v2" || len(got.Spec.Containers) != 2 {
		t.Errorf("containers %+v", got.Spec.Containers)
	}
}

// A patch that names two containers of a list must name them as they stand: the library, and the API server, would
// swap them otherwise, and refuse the pod for it.
func TestContainersKeepTheirOrder(t *testing.T) {
	t.Parallel()
	p := inplace.Patch{
		Ref: inplace.Ref{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "7"}, Kind: inplace.PatchUpdate,
		Images: map[string]string{"web": "app:v2", "side": "side:v2"},
	}
	if data, _, err := podwriter.Body(p); err == nil {
		t.Errorf("without their order it would be sent: %s", data)
	}
	p.Order = []string{"web", "side", "prep"}
	data, _, err := podwriter.Body(p)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(pod("a"))
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, data, &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	var got corev1.Pod
	if err := json.Unmarshal(after, &got); err != nil {
		t.Fatal(err)
	}
	if c := got.Spec.Containers; c[0].Name != "web" || c[0].Image != "app:v2" || c[1].Name != "side" || c[1].Image != "side:v2" {
		t.Errorf("containers %+v", c)
	}
}

func TestAWriteWithoutPreconditionsIsNotSent(t *testing.T) {
	t.Parallel()
	n := &counting{}
	w := podwriter.New(n.client(t, pod("a")))
	_, err := w.Do(t.Context(), inplace.Decision{
		Patches: []inplace.Patch{{Ref: inplace.Ref{Namespace: "ns", Name: "a", UID: "u"}, Kind: inplace.PatchDrain}},
		Deletes: []inplace.Delete{{Ref: inplace.Ref{Namespace: "ns", Name: "a", ResourceVersion: "1"}}},
		Creates: []inplace.Create{{Object: &unstructured.Unstructured{Object: map[string]any{}}}},
	})
	if err == nil || len(n.calls) != 0 {
		t.Errorf("err %v, calls %v", err, n.calls)
	}
}

func TestConflictsAreCountedAndAreNoErrors(t *testing.T) {
	t.Parallel()
	n := &counting{}
	c := n.client(t, pod("a"), pod("b"))
	w := podwriter.New(c)
	stale := ref(get(t, c, "a"))
	stale.ResourceVersion = "1"
	gone := inplace.Ref{Namespace: "ns", Name: "gone", UID: "u", ResourceVersion: "1"}
	result, err := w.Do(t.Context(), inplace.Decision{
		Patches: []inplace.Patch{{Ref: stale, Kind: inplace.PatchDrain}, {Ref: gone, Kind: inplace.PatchReturn}},
		Deletes: []inplace.Delete{{Ref: stale}},
		Creates: []inplace.Create{{Object: create(t, "b")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := podwriter.Result{Conflicts: 3, AlreadyExists: 1}
	if diff := cmp.Diff(want, result); diff != "" {
		t.Error(diff)
	}
	if got := get(t, c, "a"); len(got.Status.Conditions) != 2 {
		t.Errorf("the pod was written: %+v", got.Status)
	}
}

func create(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": "ns"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": "app:v1"}}},
	}}
}

func TestARecreatedPodAnswers422AndIsAConflict(t *testing.T) {
	t.Parallel()
	n := &counting{fail: func(verb, _ string) error {
		if verb != "patch" {
			return nil
		}
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Reason: metav1.StatusReasonInvalid, Code: 422,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid"}}},
		}}
	}}
	c := n.client(t, pod("a"))
	result, err := podwriter.New(c).Do(t.Context(), inplace.Decision{
		Patches: []inplace.Patch{{Ref: ref(get(t, c, "a")), Kind: inplace.PatchUpdate, Images: map[string]string{"web": "x"}}},
	})
	if err != nil || result.Conflicts != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// O11: ten creates, every one fails: one call. And the writes without a clear answer are named.
func TestO11SlowStart(t *testing.T) {
	t.Parallel()
	var creates []inplace.Create
	for i := range 10 {
		creates = append(creates, inplace.Create{Object: create(t, fmt.Sprintf("p-%d", i))})
	}
	cases := map[string]struct {
		failFrom    int // the first call that fails
		err         error
		wantCalls   int
		wantCreated int
		wantUnsure  int
	}{
		"every call refused":          {failFrom: 1, err: apierrors.NewForbidden(schema.GroupResource{}, "x", nil), wantCalls: 1},
		"five succeed, then refusals": {failFrom: 6, err: apierrors.NewForbidden(schema.GroupResource{}, "x", nil), wantCalls: 7, wantCreated: 5},
		"no answer":                   {failFrom: 1, err: errors.New("connection reset"), wantCalls: 1, wantUnsure: 1},
		"server error":                {failFrom: 1, err: apierrors.NewInternalError(errors.New("etcd")), wantCalls: 1, wantUnsure: 1},
		"all succeed":                 {failFrom: 99, wantCalls: 10, wantCreated: 10},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &counting{}
			c := n.client(t)
			n.fail = func(verb, _ string) error {
				if n.calls[verb] >= tc.failFrom {
					return tc.err
				}
				return nil
			}
			result, err := podwriter.New(c).Do(t.Context(), inplace.Decision{Creates: creates})
			if (err != nil) != (tc.err != nil) {
				t.Errorf("err %v", err)
			}
			if n.calls["create"] != tc.wantCalls || result.Created != tc.wantCreated || len(result.Unsure) != tc.wantUnsure {
				t.Errorf("%d calls, %+v", n.calls["create"], result)
			}
		})
	}
}

func TestAFailedPatchDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	n := &counting{}
	c := n.client(t, pod("a"), pod("b"), pod("c"))
	var patches []inplace.Patch
	for _, name := range []string{"a", "b", "c"} {
		patches = append(patches, inplace.Patch{Ref: ref(get(t, c, name)), Kind: inplace.PatchReturn})
	}
	n.fail = func(_, name string) error {
		if name == "a" {
			return apierrors.NewForbidden(schema.GroupResource{}, name, nil)
		}
		return nil
	}
	result, err := podwriter.New(c).Do(t.Context(), inplace.Decision{Patches: patches})
	if err == nil || result.Patched != 2 || len(result.Unsure) != 0 {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestANamespaceThatEndsIsNoError: its pods go before its workloads do; making them anew is asked once and not told.
func TestANamespaceThatEndsIsNoError(t *testing.T) {
	t.Parallel()
	c := counting{fail: func(string, string) error {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("unable to create new content"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return err
	}}
	w := podwriter.New(c.client(t))
	var d inplace.Decision
	for i := range 5 {
		d.Creates = append(d.Creates, inplace.Create{Object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "ns", "name": fmt.Sprintf("web-%d", i)},
		}}})
	}
	result, err := w.Do(t.Context(), d)
	if err != nil || result.Created != 0 || len(result.Unsure) > 0 || c.calls["create"] != 1 {
		t.Errorf("%v, %+v, %v", err, result, c.calls)
	}
}

// TestLabelsRideOnTheGate: the state of a pod's lifecycle hooks goes with the drain or the return, or alone.
func TestLabelsRideOnTheGate(t *testing.T) {
	t.Parallel()
	for kind, sub := range map[inplace.PatchKind]string{inplace.PatchDrain: "status", inplace.PatchReturn: "status", inplace.PatchState: ""} {
		data, got, err := podwriter.Body(inplace.Patch{
			Ref: inplace.Ref{UID: "u", ResourceVersion: "1"}, Kind: kind, At: time.Unix(0, 0),
			Metadata: inplace.MetadataChange{Labels: map[string]*string{"state": new("Updating"), "gone": nil}},
		})
		var sent struct {
			Metadata struct {
				Labels map[string]*string `json:"labels"`
			} `json:"metadata"`
		}
		if err != nil || got != sub || json.Unmarshal(data, &sent) != nil {
			t.Fatalf("%s: %v %q %s", kind, err, got, data)
		}
		if diff := cmp.Diff(map[string]*string{"state": new("Updating"), "gone": nil}, sent.Metadata.Labels); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
}
