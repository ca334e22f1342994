package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/push"
	"github.com/underway-dev/underway/propagation/render"
)

const hub = "0123456789abcdef"

// world is members, pusher and fence in one: objects per member, with the answers a real API server gives.
type world struct {
	mu      sync.Mutex
	members map[string]*place
	tell    []func(clusters.Event)
	// log is every write, as "<member> <op> <name>".
	log []string

	frozen    string
	frozenErr error
	leading   bool
	current   map[types.NamespacedName]render.Intent
	asked     int
}

// place is one member.
type place struct {
	view    clusters.View
	objects map[string]*unstructured.Unstructured
	// cached lags behind objects when it is not nil.
	cached  map[string]*unstructured.Unstructured
	version int
	uids    int
	reads   int
	// hang makes every push wait until it is closed or the attempt ends.
	hang chan struct{}
	// errs are answers to the next pushes.
	errs       []error
	namespaces map[string]error
}

func newWorld(names ...string) *world {
	w := &world{members: map[string]*place{}, leading: true, current: map[types.NamespacedName]render.Intent{}}
	for _, n := range names {
		w.members[n] = &place{
			view: clusters.View{Name: n, State: clusters.StateReady, Kinds: []clusters.KindView{
				{GVK: render.CloneSet().GVK, Served: true, Synced: true},
			}},
			objects: map[string]*unstructured.Unstructured{},
		}
	}
	return w
}

func (w *world) View(name string) (clusters.View, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.members[name]
	if !ok {
		return clusters.View{}, false
	}
	return p.view, true
}

func (w *world) Child(member string, _ schema.GroupVersionKind, name types.NamespacedName) (*unstructured.Unstructured, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.members[member]
	from := p.objects
	if p.cached != nil {
		from = p.cached
	}
	obj := from[name.String()]
	if obj == nil || obj.GetLabels()[appsv1alpha1.LabelHub] != hub {
		return nil, p.view.Kinds[0].Synced
	}
	return obj.DeepCopy(), true
}

func (w *world) Get(_ context.Context, member string, _ schema.GroupVersionKind, name types.NamespacedName) (*unstructured.Unstructured, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.members[member]
	p.reads++
	if obj := p.objects[name.String()]; obj != nil {
		return obj.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(render.CloneSet().GVR().GroupResource(), name.Name)
}

func (w *world) Subscribe(fn func(clusters.Event)) { w.tell = append(w.tell, fn) }

func (w *world) event(e clusters.Event) {
	for _, fn := range w.tell {
		fn(e)
	}
}

func (w *world) Do(ctx context.Context, member string, op push.Operation) (*unstructured.Unstructured, error) {
	w.mu.Lock()
	p := w.members[member]
	hang := p.hang
	w.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	name := op.Object.GetNamespace() + "/" + op.Object.GetName()
	w.log = append(w.log, fmt.Sprintf("%s %s %s", member, op.Op, op.Object.GetName()))
	if len(p.errs) > 0 {
		err := p.errs[0]
		p.errs = p.errs[1:]
		if err != nil {
			return nil, err
		}
	}
	if err, missing := p.namespaces[op.Object.GetNamespace()]; missing && !errors.Is(err, errCreated) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, op.Object.GetNamespace())
	}
	live := p.objects[name]
	gr := render.CloneSet().GVR().GroupResource()
	switch op.Op {
	case changeset.OpCreate:
		if live != nil {
			return nil, apierrors.NewConflict(gr, name, errors.New("another manager"))
		}
		p.uids++
		return p.store(name, op.Object, types.UID(member+"-"+strconv.Itoa(p.uids))), nil
	case changeset.OpApply:
		if live == nil || live.GetUID() != op.UID || live.GetResourceVersion() != op.ResourceVersion {
			return nil, apierrors.NewConflict(gr, name, errors.New("not what was judged"))
		}
		return p.store(name, op.Object, op.UID), nil
	case changeset.OpDelete:
		if live == nil || live.GetUID() != op.UID || live.GetResourceVersion() != op.ResourceVersion {
			return nil, apierrors.NewConflict(gr, name, errors.New("not what was judged"))
		}
		delete(p.objects, name)
		return nil, nil
	case changeset.OpOrphan:
		annotations := live.GetAnnotations()
		annotations[appsv1alpha1.AnnotationOrphaned] = op.At.Format(time.RFC3339)
		for _, name := range op.Unmark {
			delete(annotations, name)
		}
		live.SetAnnotations(annotations)
		return live, nil
	case changeset.OpNothing, changeset.OpHandover, changeset.OpConflict, changeset.OpHubBehind:
	}
	return nil, fmt.Errorf("unexpected %s", op.Op)
}

var errCreated = errors.New("created")

func (w *world) EnsureNamespace(_ context.Context, member, namespace string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, member+" namespace "+namespace)
	if err := w.members[member].namespaces[namespace]; err != nil {
		return err
	}
	w.members[member].namespaces[namespace] = errCreated
	return nil
}

// store puts the object there as the hub's apply leaves it.
func (p *place) store(name string, obj *unstructured.Unstructured, uid types.UID) *unstructured.Unstructured {
	live := obj.DeepCopy()
	p.version++
	live.SetUID(uid)
	live.SetResourceVersion(strconv.Itoa(100 + p.version))
	live.SetGeneration(int64(p.version))
	annotations := map[string]any{}
	for name := range obj.GetAnnotations() {
		annotations["f:"+name] = map[string]any{}
	}
	fields := map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{}, "f:annotations": annotations}}
	for field := range obj.Object {
		if field != "apiVersion" && field != "kind" && field != "metadata" {
			fields["f:"+field] = map[string]any{}
		}
	}
	live.Object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{
		"manager": appsv1alpha1.FieldManagerHub, "operation": "Apply", "fieldsV1": fields,
	}}
	p.objects[name] = live
	return live.DeepCopy()
}

func (w *world) Leading(context.Context) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leading, nil
}

func (w *world) CurrentIntent(_ context.Context, owner types.NamespacedName, _ types.UID) (render.Intent, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, ok := w.current[owner]
	return i, ok, nil
}

func (w *world) Frozen(context.Context) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	return w.frozen, w.frozenErr
}

func (w *world) with(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
}

func (w *world) writes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.log...)
}

func (w *world) live(member, name string) *unstructured.Unstructured {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.members[member].objects["shop/"+name]
}

// start runs an outbox on the world.
func start(t *testing.T, w *world) *outbox.Outbox {
	t.Helper()
	o := outbox.New(outbox.Options{
		HubID: hub, Members: w, Pusher: w, Fence: w,
		RetryMin: 5 * time.Millisecond, RetryMax: 50 * time.Millisecond, Recheck: 20 * time.Millisecond, Timeout: 300 * time.Millisecond,
	})
	run(t, o)
	return o
}

func run(t *testing.T, o *outbox.Outbox) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func intent(generation, epoch int64) render.Intent {
	return render.Intent{Term: 1, OwnerUID: "owner", Generation: generation, Epoch: epoch}
}

func owner() types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: "web"} }

// item wants a child with an image.
func item(member, name, image string, in render.Intent) outbox.Item {
	return outbox.Item{
		Member: member, Want: changeset.WantApplied, Owner: owner(), Intent: in,
		Object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
			"metadata": map[string]any{
				"namespace": "shop", "name": name,
				"labels":      map[string]any{appsv1alpha1.LabelHub: hub},
				"annotations": map[string]any{appsv1alpha1.AnnotationIntent: in.String(), appsv1alpha1.AnnotationOwner: "shop/web"},
			},
			"spec": map[string]any{"image": image},
		}},
	}
}

func image(obj *unstructured.Unstructured) string {
	if obj == nil {
		return ""
	}
	s, _, _ := unstructured.NestedString(obj.Object, "spec", "image")
	return s
}

// eventually waits until the outcome of the item's object has this state.
func eventually(t *testing.T, o *outbox.Outbox, i outbox.Item, want outbox.State) outbox.Outcome {
	t.Helper()
	var got outbox.Outcome
	for range 400 {
		got, _ = o.Outcome(i.Key())
		if got.State == want {
			return got
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("outcome is %s %s %q, want %s", got.State, got.Reason, got.Message, want)
	return got
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 400 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("never happened: %s", what)
}
