package simulation

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// Kinds of the model's objects.
const (
	kindPod      = "Pod"
	kindClaim    = "PersistentVolumeClaim"
	kindSlice    = "EndpointSlice"
	kindRevision = "ControllerRevision"
	kindNode     = "Node"
	kindClass    = "StorageClass"
	// kindSet is the workload under test, of whichever kind.
	kindSet = "CloneSet"

	namespace = "ns"
	setName   = "web"
	sliceName = "web-slice"
)

// version is one version of one object; obj is nil when the object is gone. What is stored is never changed.
type version struct {
	rv  int64
	obj client.Object
}

// server is the API server: all versions that objects ever had, so that a cache can be behind.
type server struct {
	mu  sync.Mutex
	rv  int64
	now time.Time
	// objects are the versions by kind and name, oldest first.
	objects map[string]map[string][]version
	// names are those of every kind, sorted, of objects that are gone too.
	names map[string][]string
}

func newServer(now time.Time) *server {
	return &server{now: now, objects: map[string]map[string][]version{}, names: map[string][]string{}}
}

// put stores a new version of an object; the caller gives the object away.
func (s *server) put(kind string, obj client.Object) {
	s.rv++
	obj.SetResourceVersion(strconv.FormatInt(s.rv, 10))
	s.append(kind, obj.GetName(), obj)
}

func (s *server) append(kind, name string, obj client.Object) {
	byName := s.objects[kind]
	if byName == nil {
		byName = map[string][]version{}
		s.objects[kind] = byName
	}
	if byName[name] == nil {
		at, _ := slices.BinarySearch(s.names[kind], name)
		s.names[kind] = slices.Insert(s.names[kind], at, name)
	}
	byName[name] = append(byName[name], version{s.rv, obj})
}

// remove ends an object.
func (s *server) remove(kind, name string) {
	s.rv++
	s.append(kind, name, nil)
}

// get is the object now, nil when there is none.
func (s *server) get(kind, name string) client.Object {
	versions := s.objects[kind][name]
	if len(versions) == 0 {
		return nil
	}
	return versions[len(versions)-1].obj
}

// at is the object as it was at a version.
func (s *server) at(kind, name string, rv int64) client.Object {
	for _, v := range slices.Backward(s.objects[kind][name]) {
		if v.rv <= rv {
			return v.obj
		}
	}
	return nil
}

// all are the objects of a kind as they were at a version, by name.
func (s *server) all(kind string, rv int64) []client.Object {
	out := make([]client.Object, 0, len(s.names[kind]))
	for _, name := range s.names[kind] {
		if obj := s.at(kind, name, rv); obj != nil {
			out = append(out, obj)
		}
	}
	return out
}

// present are the present objects of a kind.
func present[T client.Object](s *server, kind string) []T {
	var out []T
	for _, obj := range s.all(kind, s.rv) {
		if t, ok := obj.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

func (s *server) pods() []*corev1.Pod { return present[*corev1.Pod](s, kindPod) }

func (s *server) pod(name string) *corev1.Pod {
	pod, _ := s.get(kindPod, name).(*corev1.Pod)
	return pod
}

func (s *server) claims() []*corev1.PersistentVolumeClaim {
	return present[*corev1.PersistentVolumeClaim](s, kindClaim)
}

func (s *server) claim(name string) *corev1.PersistentVolumeClaim {
	claim, _ := s.get(kindClaim, name).(*corev1.PersistentVolumeClaim)
	return claim
}

func (s *server) set() *appsv1alpha1.CloneSet {
	set, _ := s.get(kindSet, setName).(*appsv1alpha1.CloneSet)
	return set
}

// ordered is the StatefulSet under test, nil where it is a CloneSet.
func (s *server) ordered() *appsv1alpha1.StatefulSet {
	set, _ := s.get(kindSet, setName).(*appsv1alpha1.StatefulSet)
	return set
}

func (s *server) slice() *discoveryv1.EndpointSlice {
	slice, _ := s.get(kindSlice, sliceName).(*discoveryv1.EndpointSlice)
	return slice
}

// editPod stores a changed copy of a pod.
func (s *server) editPod(name string, change func(*corev1.Pod)) {
	pod := s.pod(name)
	if pod == nil {
		return
	}
	next := pod.DeepCopy()
	change(next)
	s.put(kindPod, next)
}

// editSet stores a changed copy of the CloneSet, of a new generation.
func (s *server) editSet(change func(*appsv1alpha1.CloneSet)) {
	next := s.set().DeepCopy()
	change(next)
	next.Generation++
	s.put(kindSet, next)
}

// born fills in what the API server gives to a new object.
func (s *server) born(obj client.Object) {
	// Derived from the name, so that parallel creates get the same in every run.
	n := 0
	for _, v := range s.objects[kindOf(obj)][obj.GetName()] {
		if v.obj == nil {
			n++
		}
	}
	obj.SetUID(types.UID(fmt.Sprintf("%s-%s-%d", kindOf(obj), obj.GetName(), n)))
	obj.SetNamespace(namespace)
	obj.SetGeneration(1)
	obj.SetCreationTimestamp(metav1.NewTime(s.now))
}

func kindOf(obj client.Object) string {
	switch o := obj.(type) {
	case *corev1.Pod:
		return kindPod
	case *corev1.PersistentVolumeClaim:
		return kindClaim
	case *discoveryv1.EndpointSlice:
		return kindSlice
	case *appsv1.ControllerRevision:
		return kindRevision
	case *appsv1alpha1.CloneSet, *appsv1alpha1.StatefulSet:
		return kindSet
	case *storagev1.StorageClass:
		return kindClass
	case *corev1.Node:
		return kindNode
	default:
		return o.GetObjectKind().GroupVersionKind().Kind
	}
}

// endPod is the deletion of a pod: at once where no kubelet has it, else it terminates and goes later.
func (s *server) endPod(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		return
	}
	if pod.Spec.NodeName == "" && len(pod.Finalizers) == 0 {
		s.remove(kindPod, pod.Name)
		s.releaseClaims()
		return
	}
	const grace = 30 * time.Second
	s.editPod(pod.Name, func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(s.now.Add(grace))) })
}

// gonePod removes a terminating pod whose containers have ended, as soon as nothing holds it.
func (s *server) gonePod(pod *corev1.Pod) {
	if len(pod.Finalizers) == 0 {
		s.remove(kindPod, pod.Name)
		s.releaseClaims()
	}
}

// endClaim is the deletion of a claim: a pod that uses it holds it.
func (s *server) endClaim(claim *corev1.PersistentVolumeClaim) {
	if claim.DeletionTimestamp != nil {
		return
	}
	next := claim.DeepCopy()
	next.DeletionTimestamp = new(metav1.NewTime(s.now))
	s.put(kindClaim, next)
	s.releaseClaims()
}

// releaseClaims removes claims that are asked to go and used by nobody, after the garbage collector has asked those to go
// that only pods own that are no more.
func (s *server) releaseClaims() {
	for _, c := range s.claims() {
		if c.DeletionTimestamp == nil && len(c.OwnerReferences) > 0 && !slices.ContainsFunc(c.OwnerReferences, s.lives) {
			next := c.DeepCopy()
			next.DeletionTimestamp = new(metav1.NewTime(s.now))
			s.put(kindClaim, next)
		}
	}
	for _, c := range s.claims() {
		if c.DeletionTimestamp != nil && !slices.ContainsFunc(s.pods(), func(p *corev1.Pod) bool { return uses(p, c.Name) }) {
			s.remove(kindClaim, c.Name)
		}
	}
}

// lives reports whether an owner is there.
func (s *server) lives(o metav1.OwnerReference) bool {
	if o.Kind != kindPod {
		return true
	}
	pod := s.pod(o.Name)
	return pod != nil && pod.UID == o.UID
}

func uses(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

func idOf(obj client.Object) string { return obj.GetLabels()[appsv1alpha1.LabelCloneSetInstanceID] }

// errLost is what a client sees when no answer comes.
var errLost = errors.New("connection reset by peer")

func resourceOf(kind string) schema.GroupResource {
	return schema.GroupResource{Resource: kind}
}

func notFound(kind, name string) error { return apierrors.NewNotFound(resourceOf(kind), name) }

func conflict(kind, name string) error {
	return apierrors.NewConflict(resourceOf(kind), name, errors.New("the object has been modified"))
}

// quota is the answer of an admission plugin.
func quota(kind, name string) error {
	return apierrors.NewForbidden(resourceOf(kind), name, errors.New("exceeded quota: the model's"))
}

// busy is an API server that has too much to do.
func busy(kind string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: kind + ": too many requests",
	}}
}
