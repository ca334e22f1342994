package united

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/united/plan"
	"github.com/underway-dev/underway/propagation/render"
)

// podsTimeout is how long one list of pods may take.
const podsTimeout = 10 * time.Second

// look is one list of the pods of a child; the results are there when done is closed.
type look struct {
	done chan struct{}
	pods []corev1.Pod
	err  error
}

// lookAt begins to list the pods of one child.
func (r *Reconciler) lookAt(ctx context.Context, ud *appsv1alpha1.UnitedDeployment, c *plan.Child) *look {
	out := &look{done: make(chan struct{})}
	selector := &metav1.LabelSelector{}
	if ud.Spec.Selector != nil {
		selector = ud.Spec.Selector.DeepCopy()
	}
	selector = metav1.AddLabelToSelector(selector, appsv1alpha1.LabelSubsetName, c.Report.Subset)
	from := podsOfChild{member: c.Member, namespace: ud.Namespace, selector: metav1.FormatLabelSelector(selector), is: ownedBy(c)}
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer close(out.done)
		out.pods, out.err = r.listPods(ctx, from)
	}()
	return out
}

// podsOfChild says which pods are a child's.
type podsOfChild struct {
	member, namespace, selector string
	is                          func(*corev1.Pod) bool
}

// ownedBy tells the pods of a child from others that its selector finds. Those of a Deployment belong to its ReplicaSets,
// which the hub does not read.
func ownedBy(c *plan.Child) func(*corev1.Pod) bool {
	uid, deployment := c.Report.UID, c.Report.Kind == plan.KindName(render.Deployment())
	return func(pod *corev1.Pod) bool {
		owner := metav1.GetControllerOf(pod)
		return owner != nil && (owner.UID == uid || (deployment && owner.Kind == "ReplicaSet"))
	}
}

// listPods lists the pods of one child, by the selector that the hub gave it; what nobody looks at is left out.
func (r *Reconciler) listPods(ctx context.Context, from podsOfChild) ([]corev1.Pod, error) {
	client, err := r.Members.Client(from.member)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	list, err := client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(from.namespace).
		List(ctx, metav1.ListOptions{LabelSelector: from.selector})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	var out []corev1.Pod
	for i := range list.Items {
		pod := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, pod); err != nil {
			return nil, fmt.Errorf("reading a pod: %w", err)
		}
		if !from.is(pod) {
			continue
		}
		pod.Spec, pod.ManagedFields, pod.Annotations = corev1.PodSpec{}, nil, nil
		out = append(out, *pod)
	}
	return out, nil
}

// podsOf is what the plan looks at where pods may be stuck.
func podsOf(pods []corev1.Pod, now time.Time) []plan.Pod {
	var out []plan.Pod
	for i := range pods {
		pod := &pods[i]
		p := plan.Pod{
			Name: pod.Name, Revision: pod.Labels[appsv1.ControllerRevisionHashLabelKey], Deleting: pod.DeletionTimestamp != nil, Ready: isReady(pod),
		}
		p.Reason, p.Message = plan.Trouble(pod, now)
		out = append(out, p)
	}
	return out
}

// waiting is what the plan looks at where replicas may move.
func (s *short) waiting() []plan.Waiting {
	out := []plan.Waiting{}
	for i := range s.pods {
		pod := &s.pods[i]
		w := plan.Waiting{Revision: pod.Labels[appsv1alpha1.LabelSubsetRevision], Unscheduled: s.unscheduled[pod.UID], Ready: s.ready[pod.UID]}
		if !w.Unscheduled.IsZero() || !w.Ready.IsZero() {
			out = append(out, w)
		}
	}
	return out
}
