package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
)

// act carries a decision out: a confirmed stop first, then the status, and with a new identity the connection again.
func (r *Reconciler) act(ctx context.Context, seen observation, d *decision) error {
	if d.confirmed != nil {
		if err := r.resume(ctx, *d.confirmed); err != nil {
			if r.Events != nil {
				r.Events.Eventf(seen.member, nil, corev1.EventTypeWarning, "NotConfirmed", "Confirm", "%s", err.Error())
			}
			return err
		}
	}
	mc := seen.member.DeepCopy()
	if d.write {
		base := mc.DeepCopy()
		mc.Status = d.status
		if err := r.Client.Status().Patch(ctx, mc, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("writing the status: %w", err)
		}
		r.tell(mc, seen.member)
	}
	if d.status.Identity != seen.member.Status.Identity {
		klog.FromContext(ctx).Info("Stored a member's identity", "MemberCluster", klog.KObj(mc), "identity", d.status.Identity)
		r.ensure(mc.Name, seen.config, d.status.Identity)
	}
	if d.renew {
		r.renew(ctx, seen)
	}
	if d.dropConfirm {
		base := mc.DeepCopy()
		delete(mc.Annotations, appsv1alpha1.AnnotationConfirm)
		if err := r.Client.Patch(ctx, mc, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("taking the used confirmation off: %w", err)
		}
	}
	return nil
}

// resume lets writes go on after a person accepted a stop. HubBehind raises the term above everything seen, so that no
// intent on any member is newer than this hub's.
func (r *Reconciler) resume(ctx context.Context, confirmed outbox.StopReason) error {
	seen := r.Fleet.MaxTerm()
	for _, stop := range r.Outbox.Stopped() {
		if stop.Condition != confirmed.Condition {
			continue
		}
		if i, err := render.ParseIntent(stop.Seen); err == nil {
			seen = max(seen, i.Term)
		}
	}
	switch confirmed.Condition {
	case fleetv1alpha1.ConditionHubBehind:
		if err := r.Terms.RaiseAbove(ctx, seen); err != nil {
			return fmt.Errorf("raising the term: %w", err)
		}
	case fleetv1alpha1.ConditionTwoHubs:
		r.Fleet.ClearTwoHubs()
	}
	klog.FromContext(ctx).Info("A person confirmed this hub; writes go on", "condition", confirmed.Condition, "seen", confirmed.Seen)
	r.Outbox.Resume(confirmed.Condition)
	return nil
}

// Recall stops the outbox again as the members' conditions say; it is called before anything is sent.
func Recall(ctx context.Context, live client.Reader, out Outbox) error {
	list := &fleetv1alpha1.MemberClusterList{}
	if err := live.List(ctx, list); err != nil {
		return fmt.Errorf("listing members: %w", err)
	}
	for _, kind := range []string{fleetv1alpha1.ConditionHubBehind, fleetv1alpha1.ConditionTwoHubs} {
		for i := range list.Items {
			c := meta.FindStatusCondition(list.Items[i].Status.Conditions, kind)
			if c == nil || c.Status != "True" {
				continue
			}
			if seen, ok := seenIn(*c); ok {
				out.Stop(outbox.StopReason{Condition: kind, Member: list.Items[i].Name, Seen: seen})
				break
			}
		}
	}
	return nil
}

// tell notes conditions that are new.
func (r *Reconciler) tell(now, was *fleetv1alpha1.MemberCluster) {
	if r.Events == nil {
		return
	}
	ready := meta.FindStatusCondition(now.Status.Conditions, fleetv1alpha1.ConditionReady)
	before := meta.FindStatusCondition(was.Status.Conditions, fleetv1alpha1.ConditionReady)
	if ready == nil || (before != nil && before.Status == ready.Status && before.Reason == ready.Reason) {
		return
	}
	kind := corev1.EventTypeNormal
	if ready.Status != "True" {
		kind = corev1.EventTypeWarning
	}
	r.Events.Eventf(now, nil, kind, ready.Reason, ready.Reason, "%s", ready.Message)
}
