package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// request is one write that the agent sends.
type request struct {
	// verb is create, delete, patch, patch/status, patch/resize or status.
	verb, kind, name string
	// obj is what is created; body what a pod is patched with; ref are a delete's or patch's preconditions.
	obj  client.Object
	body *patchBody
	uid  string
	rv   string
	// was is the object that it met, nil without one; made what it became, nil when it was refused or lost.
	was, made client.Object
	err       error
}

// transport decides what becomes of a request before and after the API server acts on it, and sees what came of it.
type transport interface {
	// before returns an error for a request that never arrives, or is refused.
	before(q *request) error
	// after returns an error for a request whose answer is lost.
	after(q *request) error
}

// reader reads the server as it was at some version of each kind.
type reader struct {
	client.Client

	s *server
	// rv is how far each kind has come; a kind that is not in it is present.
	rv map[string]int64
	// read is told what was read.
	read func(kind string, objects []client.Object)
	// shuffle puts lists into some order.
	shuffle func(objects []client.Object)
}

func (r *reader) version(kind string) int64 {
	if rv, ok := r.rv[kind]; ok {
		return rv
	}
	return r.s.rv
}

// Get reads one object.
func (r *reader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	kind := kindOf(into)
	obj := r.s.at(kind, key.Name, r.version(kind))
	if obj == nil {
		return notFound(kind, key.Name)
	}
	if kind == kindSet {
		r.read(kind, []client.Object{obj})
	}
	return copyInto(into, obj)
}

func copyInto(into, from client.Object) error {
	switch to := into.(type) {
	case *corev1.Pod:
		from.(*corev1.Pod).DeepCopyInto(to)
	case *corev1.PersistentVolumeClaim:
		from.(*corev1.PersistentVolumeClaim).DeepCopyInto(to)
	case *appsv1.ControllerRevision:
		from.(*appsv1.ControllerRevision).DeepCopyInto(to)
	case *appsv1alpha1.CloneSet:
		from.(*appsv1alpha1.CloneSet).DeepCopyInto(to)
	case *appsv1alpha1.StatefulSet:
		from.(*appsv1alpha1.StatefulSet).DeepCopyInto(to)
	case *metav1.PartialObjectMetadata:
		to.ObjectMeta = *metaOf(from).DeepCopy()
	default:
		return fmt.Errorf("the model reads no %T", into)
	}
	return nil
}

func metaOf(obj client.Object) *metav1.ObjectMeta {
	switch o := obj.(type) {
	case *corev1.Pod:
		return &o.ObjectMeta
	case *corev1.PersistentVolumeClaim:
		return &o.ObjectMeta
	case *corev1.Node:
		return &o.ObjectMeta
	case *appsv1.ControllerRevision:
		return &o.ObjectMeta
	case *discoveryv1.EndpointSlice:
		return &o.ObjectMeta
	case *appsv1alpha1.CloneSet:
		return &o.ObjectMeta
	case *appsv1alpha1.StatefulSet:
		return &o.ObjectMeta
	}
	panic(fmt.Sprintf("the model has no metadata of %T", obj))
}

// List reads all objects of a kind that the options select.
func (r *reader) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	options := (&client.ListOptions{}).ApplyOptions(opts)
	kind, err := listKind(list)
	if err != nil {
		return err
	}
	found := slices.DeleteFunc(r.s.all(kind, r.version(kind)), func(obj client.Object) bool { return !selected(obj, options) })
	r.shuffle(found)
	if f := options.FieldSelector; f == nil || f.Requirements()[0].Value == setUID {
		r.read(kind, found)
	}
	list.SetResourceVersion(strconv.FormatInt(r.version(kind), 10))
	for _, obj := range found {
		switch l := list.(type) {
		case *corev1.PodList:
			l.Items = append(l.Items, *obj.(*corev1.Pod))
		case *corev1.PersistentVolumeClaimList:
			l.Items = append(l.Items, *obj.(*corev1.PersistentVolumeClaim))
		case *discoveryv1.EndpointSliceList:
			l.Items = append(l.Items, *obj.(*discoveryv1.EndpointSlice))
		case *appsv1.ControllerRevisionList:
			l.Items = append(l.Items, *obj.(*appsv1.ControllerRevision))
		case *storagev1.StorageClassList:
			l.Items = append(l.Items, *obj.(*storagev1.StorageClass))
		case *corev1.NodeList:
			l.Items = append(l.Items, *obj.(*corev1.Node))
		case *metav1.PartialObjectMetadataList:
			l.Items = append(l.Items, metav1.PartialObjectMetadata{ObjectMeta: *metaOf(obj)})
		}
	}
	return nil
}

func listKind(list client.ObjectList) (string, error) {
	switch l := list.(type) {
	case *corev1.PodList:
		return kindPod, nil
	case *corev1.PersistentVolumeClaimList:
		return kindClaim, nil
	case *discoveryv1.EndpointSliceList:
		return kindSlice, nil
	case *appsv1.ControllerRevisionList:
		return kindRevision, nil
	case *corev1.NodeList:
		return kindNode, nil
	case *storagev1.StorageClassList:
		return kindClass, nil
	case *metav1.PartialObjectMetadataList:
		kind := l.GroupVersionKind().Kind
		return kind[:len(kind)-len("List")], nil
	default:
		return "", fmt.Errorf("the model lists no %T", list)
	}
}

// selected plays the cache's indexes and the API server's label selectors.
func selected(obj client.Object, options *client.ListOptions) bool {
	if options.LabelSelector != nil && !options.LabelSelector.Matches(labelSet(obj.GetLabels())) {
		return false
	}
	if options.FieldSelector == nil {
		return true
	}
	want := options.FieldSelector.Requirements()[0].Value
	if slice, ok := obj.(*discoveryv1.EndpointSlice); ok {
		return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return e.TargetRef.Name == want })
	}
	owner := metav1.GetControllerOfNoCopy(obj)
	if owner == nil {
		return want == nobody
	}
	return string(owner.UID) == want
}

// nobody is what the cache's index calls the controller of objects without one.
const nobody = "nobody"

func ours(obj client.Object) bool {
	owner := metav1.GetControllerOfNoCopy(obj)
	return owner != nil && owner.UID == setUID
}

type labelSet map[string]string

func (l labelSet) Has(key string) bool   { _, ok := l[key]; return ok }
func (l labelSet) Get(key string) string { return l[key] }
func (l labelSet) Lookup(key string) (string, bool) {
	v, ok := l[key]
	return v, ok
}

// writer is the client that the agent writes with. It reads what is there now.
type writer struct {
	reader

	line transport
}

// send lets a request through the line; act is the API server's part.
func (w *writer) send(q *request, act func() error) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if err := w.line.before(q); err != nil {
		q.err = err
		return err
	}
	q.was = w.s.get(q.kind, q.name)
	q.err = act()
	if q.err == nil {
		q.made = w.s.get(q.kind, q.name)
	}
	if lost := w.line.after(q); lost != nil {
		return lost
	}
	return q.err
}

// Create creates pods and claims (unstructured) and revisions.
func (w *writer) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	q := &request{verb: "create", kind: kindOf(obj), name: obj.GetName(), obj: obj}
	return w.send(q, func() error {
		if q.was != nil {
			return apierrors.NewAlreadyExists(resourceOf(q.kind), q.name)
		}
		made, err := typed(obj)
		if err != nil {
			return err
		}
		w.s.born(made)
		w.s.put(q.kind, made)
		obj.SetResourceVersion(made.GetResourceVersion())
		obj.SetUID(made.GetUID())
		return nil
	})
}

func typed(obj client.Object) (client.Object, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj.DeepCopyObject().(client.Object), nil
	}
	switch kindOf(obj) {
	case kindPod:
		pod := &corev1.Pod{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, pod)
		pod.Status.Phase = corev1.PodPending
		return pod, err
	case kindClaim:
		claim := &corev1.PersistentVolumeClaim{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, claim)
		claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests.DeepCopy()
		return claim, err
	default:
		return nil, fmt.Errorf("the model creates no %s", kindOf(obj))
	}
}

// Delete deletes pods, claims and revisions.
func (w *writer) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	q := &request{verb: "delete", kind: kindOf(obj), name: obj.GetName()}
	if p := options.Preconditions; p != nil {
		if p.UID != nil {
			q.uid = string(*p.UID)
		}
		if p.ResourceVersion != nil {
			q.rv = *p.ResourceVersion
		}
	}
	return w.send(q, func() error {
		switch {
		case q.was == nil:
			return notFound(q.kind, q.name)
		case q.uid != "" && string(q.was.GetUID()) != q.uid, q.rv != "" && q.was.GetResourceVersion() != q.rv:
			return conflict(q.kind, q.name)
		}
		switch o := q.was.(type) {
		case *corev1.Pod:
			w.s.endPod(o)
		case *corev1.PersistentVolumeClaim:
			w.s.endClaim(o)
		default:
			w.s.remove(q.kind, q.name)
		}
		return nil
	})
}

// Patch patches pods, and other objects by a merge patch.
func (w *writer) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return w.patch(obj, patch, "")
}

func (w *writer) patch(obj client.Object, patch client.Patch, subresource string) error {
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	q := &request{verb: "patch", kind: kindOf(obj), name: obj.GetName()}
	if subresource != "" {
		q.verb += "/" + subresource
	}
	if q.kind != kindPod || patch.Type() == types.MergePatchType {
		return w.send(q, func() error { return w.merge(q, data, patch.Type(), obj) })
	}
	q.body = &patchBody{}
	if err := json.Unmarshal(data, q.body); err != nil {
		return err
	}
	q.uid, q.rv = q.body.Metadata.UID, q.body.Metadata.ResourceVersion
	return w.send(q, func() error {
		pod, _ := q.was.(*corev1.Pod)
		switch {
		case pod == nil:
			return notFound(q.kind, q.name)
		case string(pod.UID) != q.uid || pod.ResourceVersion != q.rv:
			return conflict(q.kind, q.name)
		}
		next := pod.DeepCopy()
		if err := applyPatch(next, q.body, subresource); err != nil {
			return err
		}
		w.s.put(kindPod, next)
		if next.DeletionTimestamp != nil && len(next.Finalizers) == 0 && next.Spec.NodeName == "" {
			w.s.gonePod(next)
		}
		obj.SetResourceVersion(next.ResourceVersion)
		obj.SetUID(next.UID)
		return nil
	})
}

// merge patches a revision or the CloneSet.
func (w *writer) merge(q *request, data []byte, kind types.PatchType, obj client.Object) error {
	if q.was == nil {
		return notFound(q.kind, q.name)
	}
	if kind != types.MergePatchType {
		return fmt.Errorf("the model takes no %s of a %s", kind, q.kind)
	}
	raw, err := json.Marshal(q.was)
	if err != nil {
		return err
	}
	var have, change map[string]any
	if err := errorsOf(json.Unmarshal(raw, &have), json.Unmarshal(data, &change)); err != nil {
		return err
	}
	for field, has := range map[string]string{"resourceVersion": q.was.GetResourceVersion(), "uid": string(q.was.GetUID())} {
		if want, ok, _ := unstructured.NestedString(change, "metadata", field); ok && want != has {
			return conflict(q.kind, q.name)
		}
	}
	mergeJSON(have, change)
	raw, err = json.Marshal(have)
	if err != nil {
		return err
	}
	var next client.Object
	switch q.kind {
	case kindPod:
		next = &corev1.Pod{}
	case kindSet:
		next = &appsv1alpha1.CloneSet{}
		if w.s.ordered() != nil {
			next = &appsv1alpha1.StatefulSet{}
		}
	case kindRevision:
		next = &appsv1.ControllerRevision{}
	case kindClaim:
		next = &corev1.PersistentVolumeClaim{}
	default:
		return fmt.Errorf("the model patches no %s", q.kind)
	}
	if err := json.Unmarshal(raw, next); err != nil {
		return err
	}
	if claim, is := next.(*corev1.PersistentVolumeClaim); is {
		if err := resizes(q.was.(*corev1.PersistentVolumeClaim), claim); err != nil {
			return err
		}
	}
	if _, spec := change["spec"]; spec {
		next.SetGeneration(next.GetGeneration() + 1)
	}
	w.s.put(q.kind, next)
	obj.SetResourceVersion(next.GetResourceVersion())
	obj.SetUID(next.GetUID())
	return nil
}

// classFixed is a storage class that allows no expansion.
const classFixed = "fixed"

// resizes is what the API server says to a claim that asks for another size.
func resizes(was, next *corev1.PersistentVolumeClaim) error {
	from, to := was.Spec.Resources.Requests[corev1.ResourceStorage], next.Spec.Resources.Requests[corev1.ResourceStorage]
	switch d := to.Cmp(from); {
	case d < 0:
		return apierrors.NewForbidden(resourceOf(kindClaim), was.Name, fmt.Errorf("a claim does not shrink"))
	case d > 0 && ptr.Deref(was.Spec.StorageClassName, "") == classFixed:
		return apierrors.NewForbidden(resourceOf(kindClaim), was.Name, fmt.Errorf("its class allows no expansion"))
	}
	return nil
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Status writes the status of the CloneSet.
func (w *writer) Status() client.SubResourceWriter { return &subresource{w: w, name: "status"} }

// SubResource patches pods/status and pods/resize.
func (w *writer) SubResource(name string) client.SubResourceClient {
	return &subresource{w: w, name: name}
}

type subresource struct {
	client.SubResourceClient

	w    *writer
	name string
}

// Patch patches a subresource of a pod.
func (s *subresource) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.w.patch(obj, patch, s.name)
}

// Update writes the CloneSet's status.
func (s *subresource) Update(_ context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	if kindOf(obj) != kindSet {
		return fmt.Errorf("the model writes no status of %T", obj)
	}
	q := &request{verb: "status", kind: kindSet, name: obj.GetName(), obj: obj}
	return s.w.send(q, func() error {
		if q.was == nil {
			return notFound(q.kind, q.name)
		}
		if q.was.GetResourceVersion() != obj.GetResourceVersion() {
			return conflict(q.kind, q.name)
		}
		made := q.was.DeepCopyObject().(client.Object)
		switch next := obj.(type) {
		case *appsv1alpha1.CloneSet:
			next.Status.DeepCopyInto(&made.(*appsv1alpha1.CloneSet).Status)
		case *appsv1alpha1.StatefulSet:
			next.Status.DeepCopyInto(&made.(*appsv1alpha1.StatefulSet).Status)
		}
		s.w.s.put(kindSet, made)
		obj.SetResourceVersion(made.GetResourceVersion())
		return nil
	})
}
