package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/render"
)

// ErrForeign is returned when an object that was created turns out to have existed and to be somebody else's; what we
// put on it was given back.
var ErrForeign = errors.New("an object of that name existed and is not ours")

// ErrNamespaceTerminating is returned when the namespace is there and being deleted.
var ErrNamespaceTerminating = errors.New("the namespace is being deleted")

// Members gives access to members; *clusters.Fleet is one.
type Members interface {
	Client(name string) (dynamic.Interface, error)
	VerifyIdentity(ctx context.Context, name string) error
}

// Operation is one decision with what only the moment of acting knows.
type Operation struct {
	changeset.Decision

	// Kind of an object that is no workload; zero: the workload kind of the object.
	Kind render.Kind
	// OwnerUID is whose owner reference OpOrphan takes off.
	OwnerUID types.UID
	// At is the time of the orphaned mark.
	At time.Time
}

// Pusher carries decisions out.
type Pusher struct {
	members Members
	hubID   string
}

// New returns a pusher to these members; hubID labels the namespaces that are created.
func New(members Members, hubID string) *Pusher { return &Pusher{members: members, hubID: hubID} }

// Do carries op out and returns the object as the member then has it, nil after a delete. Errors are the member's API
// errors (a conflict means: read and decide again), ErrForeign, or errors of Members.
func (p *Pusher) Do(ctx context.Context, member string, op Operation) (*unstructured.Unstructured, error) {
	kind, ok := render.KindOf(op.Object.GroupVersionKind())
	if op.Kind.Resource != "" {
		kind, ok = op.Kind, true
	}
	if !ok {
		return nil, fmt.Errorf("%s: %w", op.Object.GetKind(), render.ErrUnsupportedKind)
	}
	client, err := p.members.Client(member)
	if err != nil {
		return nil, fmt.Errorf("reaching the member: %w", err)
	}
	c := call{resource: client.Resource(kind.GVR()).Namespace(op.Object.GetNamespace()), op: op}
	switch op.Op {
	case changeset.OpCreate:
		// A create is the one write that another cluster under this address would take.
		if err := p.members.VerifyIdentity(ctx, member); err != nil {
			return nil, fmt.Errorf("before creating: %w", err)
		}
		return c.create(ctx)
	case changeset.OpApply:
		return c.apply(ctx)
	case changeset.OpHandover:
		return c.handover(ctx)
	case changeset.OpDelete:
		return nil, c.delete(ctx)
	case changeset.OpOrphan:
		return c.orphan(ctx)
	case changeset.OpNothing, changeset.OpConflict, changeset.OpHubBehind:
	}
	return nil, fmt.Errorf("operation %q is not one to carry out", op.Op)
}

// call is one operation on one resource.
type call struct {
	resource dynamic.ResourceInterface
	op       Operation
}

// create applies unforced and without UID. An answer with other managers' fields was not created by us: an unforced
// apply of equal values is accepted. Then our fields are given back.
func (c call) create(ctx context.Context) (*unstructured.Unstructured, error) {
	obj := c.op.Object.DeepCopy()
	answer, err := applied(ctx, c.resource, obj, false)
	if err != nil {
		return nil, fmt.Errorf("creating: %w", err)
	}
	others := changeset.Others(answer)
	if len(others) == 0 {
		return answer, nil
	}
	empty := identity(c.op.Object)
	empty.SetUID(answer.GetUID())
	empty.SetResourceVersion(answer.GetResourceVersion())
	if _, err := c.resource.Apply(ctx, obj.GetName(), empty, metav1.ApplyOptions{
		FieldManager: appsv1alpha1.FieldManagerHub, Force: true,
	}); err != nil {
		return nil, fmt.Errorf("%w (fields of %v), and giving ours back failed: %w", ErrForeign, others, err)
	}
	return nil, fmt.Errorf("%w: it has fields of %v", ErrForeign, others)
}

// apply applies forced, bound to what was judged.
func (c call) apply(ctx context.Context) (*unstructured.Unstructured, error) {
	obj := c.op.Object.DeepCopy()
	obj.SetUID(c.op.UID)
	obj.SetResourceVersion(c.op.ResourceVersion)
	if c.op.ClearOrphaned {
		patched, err := c.patch(ctx, map[string]any{
			"annotations": map[string]any{appsv1alpha1.AnnotationOrphaned: nil},
		})
		if err != nil {
			return nil, fmt.Errorf("taking the orphaned mark off: %w", err)
		}
		obj.SetResourceVersion(patched.GetResourceVersion())
	}
	answer, err := applied(ctx, c.resource, obj, true)
	if err != nil {
		return nil, fmt.Errorf("applying: %w", err)
	}
	return answer, nil
}

// handover applies the live replicas with the second manager; unforced would do, since the value is the live one.
func (c call) handover(ctx context.Context) (*unstructured.Unstructured, error) {
	obj := identity(c.op.Object)
	obj.SetUID(c.op.UID)
	obj.SetResourceVersion(c.op.ResourceVersion)
	obj.Object["spec"] = map[string]any{"replicas": c.op.Replicas}
	answer, err := c.resource.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{
		FieldManager: appsv1alpha1.FieldManagerHubHandover,
	})
	if err != nil {
		return nil, fmt.Errorf("handing replicas over: %w", err)
	}
	return answer, nil
}

func (c call) delete(ctx context.Context) error {
	policy := metav1.DeletePropagationBackground
	err := c.resource.Delete(ctx, c.op.Object.GetName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &c.op.UID, ResourceVersion: &c.op.ResourceVersion},
		PropagationPolicy: &policy,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting: %w", err)
	}
	return nil
}

// orphan marks the object and takes our owner reference off it, in one patch.
func (c call) orphan(ctx context.Context) (*unstructured.Unstructured, error) {
	annotations := map[string]any{appsv1alpha1.AnnotationOrphaned: c.op.At.UTC().Format(time.RFC3339)}
	for _, name := range c.op.Unmark {
		annotations[name] = nil
	}
	meta := map[string]any{"annotations": annotations}
	live, err := c.resource.Get(ctx, c.op.Object.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading what is let go: %w", err)
	}
	if refs := live.GetOwnerReferences(); len(refs) > 0 {
		kept := []any{}
		raw, _, _ := unstructured.NestedSlice(live.Object, "metadata", "ownerReferences")
		for i, ref := range refs {
			if ref.UID != c.op.OwnerUID {
				kept = append(kept, raw[i])
			}
		}
		meta["ownerReferences"] = kept
	}
	answer, err := c.patch(ctx, meta)
	if err != nil {
		return nil, fmt.Errorf("letting go: %w", err)
	}
	return answer, nil
}

// patch merges metadata, bound to what was judged.
func (c call) patch(ctx context.Context, meta map[string]any) (*unstructured.Unstructured, error) {
	meta["uid"] = string(c.op.UID)
	meta["resourceVersion"] = c.op.ResourceVersion
	body, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return nil, fmt.Errorf("writing the patch: %w", err)
	}
	return c.resource.Patch(ctx, c.op.Object.GetName(), types.MergePatchType, body, metav1.PatchOptions{
		FieldManager: appsv1alpha1.FieldManagerHub,
	})
}

func identity(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(obj.GroupVersionKind())
	out.SetNamespace(obj.GetNamespace())
	out.SetName(obj.GetName())
	return out
}

// EnsureNamespace creates a namespace if it is absent. Forbidden is an answer of the member; ErrNamespaceTerminating says
// that it must go first.
func (p *Pusher) EnsureNamespace(ctx context.Context, member, namespace string) error {
	client, err := p.members.Client(member)
	if err != nil {
		return fmt.Errorf("reaching the member: %w", err)
	}
	if err := p.members.VerifyIdentity(ctx, member); err != nil {
		return fmt.Errorf("before creating the namespace: %w", err)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": namespace, "labels": map[string]any{appsv1alpha1.LabelHub: p.hubID}},
	}}
	resource := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	_, err = resource.Create(ctx, obj, metav1.CreateOptions{FieldManager: appsv1alpha1.FieldManagerHub})
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return fmt.Errorf("creating namespace %s: %w", namespace, err)
		}
		return nil
	}
	live, err := resource.Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	if live.GetDeletionTimestamp() != nil {
		return ErrNamespaceTerminating
	}
	return nil
}
