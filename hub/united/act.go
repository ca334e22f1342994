package united

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/united/plan"
	"github.com/underway-dev/underway/inplace/revision"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
)

// act carries a decision out and says when to look again. The order is the point: revisions before the status that
// names them, the finalizer before the first child, the status before the pushes it grants.
func (r *Reconciler) act(ctx context.Context, seen *observation, d *plan.Decision) (time.Duration, error) {
	ud := seen.United.DeepCopy()
	if err := r.writeRevisions(ctx, ud, seen, d); err != nil {
		if d.Create != nil && refusedForGood(err) {
			seen.memory.unkept = plan.UnkeptOf(d.Create, err.Error(), r.Clock.Now().Add(refusalLasts))
			return time.Millisecond, nil // the next pass says so
		}
		return 0, err
	}
	if d.AddFinalizer {
		if err := r.finalizers(ctx, ud, append(slices.Clone(ud.Finalizers), appsv1alpha1.FinalizerChildren)); err != nil {
			return 0, fmt.Errorf("adding the finalizer: %w", err)
		}
	}
	var errs []error
	r.ask(seen, d)
	if !d.StoreFirst && !d.AddFinalizer && !d.Keep {
		errs = append(errs, r.postContents(ctx, seen, d.Contents), r.post(ctx, seen, d.Pushes))
	}
	again, err := r.writeStatus(ctx, ud, seen, d)
	errs = append(errs, err)
	if !d.StoreFirst && errors.Join(errs...) == nil {
		errs = append(errs, r.trim(ctx, ud, d.Trim))
	}
	if err := errors.Join(errs...); err != nil {
		return again, err
	}
	return again, r.takeOff(ctx, ud, d)
}

// refusalLasts is how long a revision that the API server refused is not tried again.
const refusalLasts = time.Minute

// refusedForGood is true for an answer that the same request gets again: for its size, or because a quota, a webhook or the
// roles do not allow it.
func refusedForGood(err error) bool {
	return tooLarge(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// ask has the target's templates looked at, or forgets them when nothing is to be known.
func (r *Reconciler) ask(seen *observation, d *plan.Decision) {
	switch {
	case r.Checker == nil:
	case d.Ask != nil:
		r.Checker.Ask(*d.Ask)
	case len(seen.Checks) > 0 && !d.StoreFirst:
		r.Checker.Forget(client.ObjectKeyFromObject(seen.United)) // the release is open, as stored
	}
}

// takeOff removes from the object what it does not need any more, after everything else was done.
func (r *Reconciler) takeOff(ctx context.Context, ud *appsv1alpha1.UnitedDeployment, d *plan.Decision) error {
	if d.DropConfirm {
		if err := r.dropConfirm(ctx, ud); err != nil {
			return fmt.Errorf("taking the used confirmation off: %w", err)
		}
	}
	if d.DropFinalizer {
		without := slices.DeleteFunc(slices.Clone(ud.Finalizers), func(f string) bool { return f == appsv1alpha1.FinalizerChildren })
		if err := r.finalizers(ctx, ud, without); err != nil {
			return fmt.Errorf("removing the finalizer: %w", err)
		}
		r.forget(client.ObjectKeyFromObject(ud))
	}
	return nil
}

// finalizers writes the list, on exactly the object that was judged.
func (r *Reconciler) finalizers(ctx context.Context, ud *appsv1alpha1.UnitedDeployment, list []string) error {
	base := ud.DeepCopy()
	ud.Finalizers = list
	return r.Client.Patch(ctx, ud, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}

// dropConfirm takes the confirmation off exactly the object that was judged: one that was given since stays.
func (r *Reconciler) dropConfirm(ctx context.Context, ud *appsv1alpha1.UnitedDeployment) error {
	base := ud.DeepCopy()
	delete(ud.Annotations, appsv1alpha1.AnnotationConfirm)
	return r.Client.Patch(ctx, ud, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}

func (r *Reconciler) writeRevisions(ctx context.Context, ud *appsv1alpha1.UnitedDeployment, seen *observation, d *plan.Decision) error {
	if d.Create != nil {
		if err := r.createRevision(ctx, ud, seen.memory, d.Create); err != nil {
			return fmt.Errorf("creating revision %s: %w", d.Create.Name, err)
		}
	}
	if d.Renumber != nil {
		c := &appsv1.ControllerRevision{}
		c.Namespace, c.Name = ud.Namespace, d.Renumber.Name
		patch, err := renumbering(ud, d.Renumber)
		if err != nil {
			return err
		}
		if err := r.Client.Patch(ctx, c, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("renumbering revision %s: %w", d.Renumber.Name, err)
		}
	}
	if d.Create == nil && d.Renumber == nil {
		return r.note(ctx, seen)
	}
	return nil
}

// createRevision stores a revision. A name that somebody else has is remembered; the plan then takes another.
func (r *Reconciler) createRevision(ctx context.Context, ud *appsv1alpha1.UnitedDeployment, m *memory, s *revision.Stored) error {
	c := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.Name, Namespace: ud.Namespace,
			Labels:      map[string]string{appsv1alpha1.LabelOwnerUID: string(ud.UID)},
			Annotations: revisionNotes(ud),
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(ud, appsv1alpha1.GroupVersion.WithKind("UnitedDeployment")),
			},
		},
		Revision: s.Number, Data: runtime.RawExtension{Raw: s.Data},
	}
	err := r.Client.Create(ctx, c)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there := &appsv1.ControllerRevision{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(c), there); err != nil {
		return err
	}
	if there.Labels[appsv1alpha1.LabelOwnerUID] == string(ud.UID) && revision.Equal(there.Data.Raw, s.Data) {
		return nil // the cache is behind
	}
	m.taken = append(m.taken, s.Name)
	return apierrors.NewConflict(appsv1.Resource("controllerrevisions"), s.Name, errors.New("the name is taken"))
}

func (r *Reconciler) trim(ctx context.Context, ud *appsv1alpha1.UnitedDeployment, names []string) error {
	for _, name := range names {
		c := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ud.Namespace}}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, c)); err != nil {
			return fmt.Errorf("deleting revision %s: %w", name, err)
		}
	}
	return nil
}

// post hands the pushes to the outbox and takes back what is not wanted any more. What cannot be rendered keeps nobody
// else from being pushed.
func (r *Reconciler) post(ctx context.Context, seen *observation, pushes []plan.Push) error {
	keep := map[outbox.Key]bool{}
	var errs []error
	for i := range pushes {
		p := &pushes[i]
		key := outbox.Key{Member: p.Member, GVK: p.Kind.GVK, Namespace: seen.United.Namespace, Name: p.Name}
		keep[key] = true
		mark := fingerprint(p)
		if seen.memory.posted[key] == mark && r.lives(key) {
			continue
		}
		item, err := r.item(seen.United, p)
		if err != nil {
			errs = append(errs, fmt.Errorf("subset %s: %w", p.Subset, err))
			continue
		}
		klog.FromContext(ctx).V(2).Info("Posted a child", "MemberCluster", klog.KRef("", p.Member), "subset", p.Subset,
			"want", p.Want, "revision", p.Input.Revision, "reason", p.Because)
		r.Outbox.Post(item)
		seen.memory.posted[key] = mark
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdraw(seen.memory, keep)
	return errors.Join(errs...)
}

// lives is true while the outbox works on, or has done, what was posted.
func (r *Reconciler) lives(key outbox.Key) bool {
	o, ok := r.Outbox.Outcome(key)
	return ok && o.State != outbox.StateReplan && o.State != outbox.StateNotLeading && o.State != outbox.StateUnwantedDelete
}

// fingerprint is equal for pushes that render to equal items: everything of the spec is in the intent's generation.
func fingerprint(p *plan.Push) string {
	replicas := "-"
	if p.Input.Replicas != nil {
		replicas = fmt.Sprint(*p.Input.Replicas)
	}
	if p.TakeReplicas {
		replicas += " taken back"
	}
	after := ""
	if p.After != nil {
		after = fmt.Sprintf("%+v", *p.After)
	}
	return fmt.Sprintf("%s %s %s %v %v %s %s %s", p.Want, p.Input.Revision, replicas, p.Input.Partition, p.Input.Paused, p.Input.Intent, p.Judged, after)
}

// item renders a push.
func (r *Reconciler) item(ud *appsv1alpha1.UnitedDeployment, p *plan.Push) (outbox.Item, error) {
	out := outbox.Item{
		Member: p.Member, Owner: client.ObjectKeyFromObject(ud), Intent: p.Input.Intent, Adopt: ud.Spec.Adopt, Judged: p.Judged, Carried: p.Carried,
		EnsureNamespace: p.Member != clusters.Local,
	}
	switch p.Want {
	case plan.WantApplied:
		obj, err := render.Child(p.Input)
		if err != nil {
			return outbox.Item{}, err
		}
		out.Want, out.Object, out.TakeReplicas = changeset.WantApplied, obj, p.TakeReplicas
		return out, nil
	case plan.WantDeleted:
		out.Want = changeset.WantDeleted
		out.StillWanted = r.stillWanted(out.Owner, ud.UID, p)
	case plan.WantOrphaned:
		out.Want = changeset.WantOrphaned
	}
	out.Object = &unstructured.Unstructured{}
	out.Object.SetGroupVersionKind(p.Kind.GVK)
	out.Object.SetNamespace(ud.Namespace)
	out.Object.SetName(p.Name)
	return out, nil
}
