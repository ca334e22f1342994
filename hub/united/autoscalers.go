package united

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/underway-dev/underway/hub/united/plan"
)

// A child whose replicas an autoscaler wrote keeps the trace of it when the autoscaler is deleted, and its last number. Where
// the trace is Kubernetes' HPA controller's, the hub looks whether an HPA is still there; without one the hub's own number
// counts again. Other autoscalers cannot be looked for: theirs stays until somebody runs kubectl scale.

const (
	// hpaManager is the field manager of Kubernetes' HPA controller.
	hpaManager = "kube-controller-manager"
	// scalersEvery is the time between two looks, scalerGoneAfter how long no HPA must have been seen: one that is deleted and
	// created again, as some tools do, is no reason to scale.
	scalersEvery    = 20 * time.Second
	scalerGoneAfter = time.Minute
)

// scaler is what is remembered of a child that an HPA scales, or did.
type scaler struct {
	look     *scalerLook
	lookedAt time.Time
	// missing is since when no HPA has been seen; zero: there is one, or it is not known.
	missing time.Time
}

// scalerLook is one list of a member's HPAs; the result is there when done is closed.
type scalerLook struct {
	done  chan struct{}
	found bool
	err   error
}

// observeScalers takes the name of an autoscaler that is gone off the children that it scaled. What cannot be read counts
// as there.
func (r *Reconciler) observeScalers(ctx context.Context, seen *observation) {
	now := r.Clock.Now()
	scalers := map[plan.Target]*scaler{}
	for i := range seen.Children {
		c := &seen.Children[i]
		if len(c.Report.ScaledBy) == 0 || slices.ContainsFunc(c.Report.ScaledBy, func(m string) bool { return m != hpaManager }) {
			continue
		}
		at := plan.Target{Member: c.Member, Kind: c.Report.Kind, Name: c.Report.Name}
		s := seen.memory.scalers[at]
		if s == nil {
			s = &scaler{}
		}
		scalers[at] = s
		s.take(ctx, at, now)
		if s.look == nil && now.Sub(s.lookedAt) >= scalersEvery {
			s.look, s.lookedAt = r.lookForScaler(ctx, seen.United.Namespace, at), now
		}
		seen.lookAgain = soonest(seen.lookAgain, s.again(now))
		if !s.missing.IsZero() && now.Sub(s.missing) >= scalerGoneAfter {
			c.Report.ScaledBy, c.ScalerGone = nil, true
		}
	}
	seen.memory.scalers = scalers
}

// again is when to look again.
func (s *scaler) again(now time.Time) time.Duration {
	if s.look != nil {
		return lookPause
	}
	return s.lookedAt.Add(scalersEvery).Sub(now)
}

// lookPause is when a look that is under way is asked for again.
const lookPause = 2 * time.Second

// take takes what a look found, if it is back.
func (s *scaler) take(ctx context.Context, at plan.Target, now time.Time) {
	if s.look == nil {
		return
	}
	select {
	case <-s.look.done:
	default:
		return
	}
	switch look := s.look; {
	case look.err != nil:
		s.missing = time.Time{}
		klog.FromContext(ctx).V(2).Info("Autoscalers of a member cannot be read", "MemberCluster", klog.KRef("", at.Member), "reason", look.err.Error())
	case look.found:
		s.missing = time.Time{}
	case s.missing.IsZero():
		s.missing = now
	}
	s.look = nil
}

// lookForScaler begins to look for an HPA of a child.
func (r *Reconciler) lookForScaler(ctx context.Context, namespace string, at plan.Target) *scalerLook {
	out := &scalerLook{done: make(chan struct{})}
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer close(out.done)
		out.found, out.err = r.hasScaler(ctx, namespace, at)
	}()
	return out
}

func (r *Reconciler) hasScaler(ctx context.Context, namespace string, at plan.Target) (bool, error) {
	client, err := r.Members.Client(at.Member)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	list, err := client.Resource(schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}).
		Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("listing autoscalers: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(h unstructured.Unstructured) bool { return scales(&h, at) }), nil
}

// scales is true for an HPA of that child, of any version of its kind.
func scales(h *unstructured.Unstructured, at plan.Target) bool {
	ref, _, err := unstructured.NestedStringMap(h.Object, "spec", "scaleTargetRef")
	if err != nil {
		return true // what cannot be read counts as there
	}
	gv, err := schema.ParseGroupVersion(ref["apiVersion"])
	kind := schema.GroupKind{Group: gv.Group, Kind: ref["kind"]}.String()
	return ref["name"] == at.Name && (err != nil || kind == at.Kind)
}
