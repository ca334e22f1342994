package united

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/united/plan"
)

// short is what is remembered of a child that is short of ready pods.
type short struct {
	// mark was first seen at since; a change of it means that something moves.
	mark  string
	since time.Time
	// pods were read at readAt.
	readAt time.Time
	pods   []plan.Pod
}

// observePods looks at the pods of children that have been short of ready pods for a while with nothing moving: by one
// list each, now and then. What cannot be read is looked at again; nothing is said of it meanwhile.
func (r *Reconciler) observePods(ctx context.Context, seen *observation) {
	m, now := seen.memory, r.Clock.Now()
	seen.Pods = map[plan.Target][]plan.Pod{}
	shorts := map[plan.Target]*short{}
	for i := range seen.Children {
		c := &seen.Children[i]
		mark := plan.Short(&c.Report)
		if mark == "" || c.Unreadable != "" {
			continue
		}
		at := plan.Target{Member: c.Member, Kind: c.Report.Kind, Name: c.Report.Name}
		s := m.shorts[at]
		if s == nil || s.mark != mark {
			s = &short{mark: mark, since: now}
		}
		shorts[at] = s
		if left := s.since.Add(plan.ShortFor).Sub(now); left > 0 {
			seen.lookAgain = soonest(seen.lookAgain, left)
			continue
		}
		if now.Sub(s.readAt) >= plan.PodsEvery {
			pods, err := r.podsOf(ctx, seen.United, c)
			if err != nil {
				klog.FromContext(ctx).V(2).Info("Pods of a child cannot be read", "MemberCluster", klog.KRef("", c.Member), "reason", err.Error())
			} else {
				s.pods = pods
			}
			s.readAt = now
		}
		seen.Pods[at] = s.pods
		seen.lookAgain = soonest(seen.lookAgain, s.readAt.Add(plan.PodsEvery).Sub(now))
	}
	m.shorts = shorts
}

// podsOf lists the pods of one child, by the selector that the hub gave it.
func (r *Reconciler) podsOf(ctx context.Context, ud *appsv1alpha1.UnitedDeployment, c *plan.Child) ([]plan.Pod, error) {
	selector := &metav1.LabelSelector{}
	if ud.Spec.Selector != nil {
		selector = ud.Spec.Selector.DeepCopy()
	}
	selector = metav1.AddLabelToSelector(selector, appsv1alpha1.LabelSubsetName, c.Report.Subset)
	client, err := r.Members.Client(c.Member)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	list, err := client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(ud.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(selector)})
	if err != nil {
		return nil, err
	}
	var out []plan.Pod
	for i := range list.Items {
		pod := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, pod); err != nil {
			return nil, err
		}
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.UID == c.Report.UID {
			out = append(out, podOf(pod))
		}
	}
	return out, nil
}

// podsTimeout is how long one list may keep a reconcile.
const podsTimeout = 5 * time.Second

func podOf(pod *corev1.Pod) plan.Pod {
	out := plan.Pod{Name: pod.Name, Revision: pod.Labels[appsv1.ControllerRevisionHashLabelKey], Deleting: pod.DeletionTimestamp != nil}
	for _, c := range pod.Status.Conditions {
		out.Ready = out.Ready || (c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue)
	}
	return out
}
