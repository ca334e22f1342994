package workload

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podview"
	"github.com/underway-dev/underway/inplace/revision"
	"github.com/underway-dev/underway/inplace/step"
)

// observation is all that one pass reads.
type observation struct {
	now    time.Time
	obj    client.Object
	wanted Wanted
	pods   []inplace.Pod
	claims []inplace.Claim
	// claimObjects are what claims were read from.
	claimObjects []corev1.PersistentVolumeClaim
	// volumes are, for a Named kind, the claims that the object may use; expandable is storage class to allowVolumeExpansion.
	volumes    []corev1.PersistentVolumeClaim
	expandable map[string]bool
	// volumesSeen are the status of each claim template.
	volumesSeen []appsv1alpha1.VolumeClaimStatus
	// resource is how the kind is named.
	resource Resource
	// nodes are the labels of the pods' nodes, by name; nil where nobody needs them, or they are not known.
	nodes map[string]map[string]string
	// revisions are the object's ControllerRevisions by name.
	revisions map[string]*appsv1.ControllerRevision
	history   revision.Changes
	// unstored is set when the revision of the template could not be stored: nothing may name it yet.
	unstored bool
	book     *book
	// members are who joins and who leaves: nothing else is filled in then.
	members members
	// late is set when the release has got nowhere for its progressDeadline.
	late bool
	// others are the instance ids of pods without a controller.
	others map[string]bool
	// struck is what became of names that no pod has.
	struck struck
	// wait is set when the view does not include our own last write yet: nothing else is filled in then.
	wait time.Duration
}

// observe reads the object and what belongs to it; nil when there is nothing to do.
func (r *Reconciler) observe(ctx context.Context, name types.NamespacedName) (*observation, error) {
	seen := &observation{now: r.Clock.Now(), obj: r.Kind.New(), resource: r.Resource}
	if err := r.Cache.Get(ctx, name, seen.obj); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(r.ledger.close(name))
			return nil, nil
		}
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	if seen.obj.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	seen.book = r.ledger.open(name, seen.obj.GetUID())
	pods, err := r.readPods(ctx, seen)
	if err != nil || seen.wait > 0 {
		return seen, err
	}
	seen.wanted = r.Kind.Read(seen.obj)
	if r.NoResize != nil {
		seen.wanted.Intent.NoResize = r.NoResize()
	}
	for _, read := range []func(context.Context, *observation, []corev1.Pod) error{r.readClaims, r.readMembers, r.view} {
		if err := read(ctx, seen, pods); err != nil || seen.wait > 0 {
			return seen, err
		}
	}
	for _, read := range []func(context.Context, *observation) error{r.readNodes, r.readClasses, r.readTaken} {
		if err := read(ctx, seen); err != nil || seen.wait > 0 {
			return seen, err
		}
	}
	missing, first := int(seen.wanted.Intent.Replicas)-countActive(seen.pods), seen.book.seen == nil
	gone := seen.book.follow(seen.pods, missing, seen.proven)
	if r.named != nil {
		seen.book.followNames(seen.pods, missing)
	}
	if len(gone) > 0 {
		seen.book.roomMade()
	}
	r.forget(gone)
	if err := r.readHistory(ctx, seen); err != nil {
		return nil, err
	}
	if first {
		seen.recall(missing)
	}
	return seen, nil
}

// proven reports whether a pod runs the revision of its label.
func (s *observation) proven(p inplace.Pod) bool {
	return step.Prove(p, step.Update{}, s.now).Done
}

// recall adds, at the first look of this process, the pods that went away before it and are not replaced yet. The last
// status tells how many pods were not updated; what is not there any more of them was on its way to be replaced. Of
// which revision each was is not known: the one that the release leaves.
func (s *observation) recall(missing int) {
	was, in := s.wanted.Status, s.wanted.Intent
	if was.UpdateRevision == "" || was.UpdateRevision != in.Update.Name || in.Current.Name == in.Update.Name {
		return
	}
	older := int(was.Replicas - was.Updated)
	for i := range s.pods {
		p := &s.pods[i]
		if p.Active() && (p.Revision != in.Update.Name || !s.proven(*p)) {
			older--
		}
	}
	for _, lost := range s.book.lost {
		if lost.revision != in.Update.Name {
			older--
		}
	}
	for range min(older, missing-len(s.book.lost)) {
		s.book.lost = append(s.book.lost, origin{revision: in.Current.Name})
	}
}

func (r *Reconciler) forget(pods []types.UID) {
	for _, uid := range pods {
		r.memory.Forget(uid)
	}
}

func countActive(pods []inplace.Pod) int {
	n := 0
	for i := range pods {
		if pods[i].Active() {
			n++
		}
	}
	return n
}

// readPods lists the object's pods. When the cache does not show our own last write it sets seen.wait, and after
// patience has passed reads object and pods from the API server.
func (r *Reconciler) readPods(ctx context.Context, seen *observation) ([]corev1.Pod, error) {
	version := r.PodsVersion()
	var list corev1.PodList
	byController := client.MatchingFields{indexController: string(seen.obj.GetUID())}
	if err := r.Cache.List(ctx, &list, client.InNamespace(seen.obj.GetNamespace()), byController); err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	if seen.book.caughtUp(version, seen.obj.GetResourceVersion(), activeUIDs(list.Items)) {
		return list.Items, nil
	}
	if left := seen.book.patienceLeft(&seen.book.pods, seen.now); left > 0 {
		seen.wait = left
		return nil, nil
	}
	return r.readLive(ctx, seen)
}

func activeUIDs(pods []corev1.Pod) map[types.UID]bool {
	uids := make(map[types.UID]bool, len(pods))
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			uids[pods[i].UID] = true
		}
	}
	return uids
}

// readLive reads object and pods from the API server.
func (r *Reconciler) readLive(ctx context.Context, seen *observation) ([]corev1.Pod, error) {
	uid := seen.obj.GetUID()
	obj := r.Kind.New()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(seen.obj), obj); err != nil {
		return nil, fmt.Errorf("reading the object live: %w", err)
	}
	if obj.GetUID() != uid || obj.GetDeletionTimestamp() != nil {
		seen.wait = patience
		return nil, nil
	}
	seen.obj = obj
	var list corev1.PodList
	err := r.Live.List(ctx, &list, client.InNamespace(obj.GetNamespace()))
	if err != nil {
		return nil, fmt.Errorf("listing the pods live: %w", err)
	}
	seen.book.settle(list.ResourceVersion, obj.GetResourceVersion())
	ours := list.Items[:0]
	for i := range list.Items {
		if owner := metav1.GetControllerOfNoCopy(&list.Items[i]); owner != nil && owner.UID == uid {
			ours = append(ours, list.Items[i])
		}
	}
	return ours, nil
}

// view turns pods into what the plans read.
func (r *Reconciler) view(ctx context.Context, seen *observation, pods []corev1.Pod) error {
	seen.pods = make([]inplace.Pod, 0, len(pods))
	for i := range pods {
		endpoints, err := r.endpoints(ctx, &pods[i])
		if err != nil {
			return err
		}
		seen.pods = append(seen.pods, podview.From(&pods[i], podview.Around{
			Now: seen.now, MinReadySeconds: seen.wanted.MinReadySeconds, Endpoints: endpoints,
			Seen: r.memory.Look(&pods[i], endpoints, seen.now),
		}))
	}
	return nil
}

// endpoints finds the slices that list a pod. Only a pod on its way out of service is looked up.
func (r *Reconciler) endpoints(ctx context.Context, pod *corev1.Pod) (podview.Endpoints, error) {
	if !gateFalse(pod) {
		return podview.Endpoints{}, nil
	}
	var list discoveryv1.EndpointSliceList
	if err := r.Cache.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingFields{indexPod: pod.Name}); err != nil {
		return podview.Endpoints{}, fmt.Errorf("listing the endpoints of pod %s: %w", pod.Name, err)
	}
	found := make([]*discoveryv1.EndpointSlice, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return podview.EndpointsOf(found, pod.Name), nil
}
