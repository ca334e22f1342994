package workload

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/defaults"
	"github.com/underway-dev/underway/inplace/revision"
)

// readHistory lists the object's ControllerRevisions and plans what becomes of them.
func (r *Reconciler) readHistory(ctx context.Context, seen *observation) error {
	var list appsv1.ControllerRevisionList
	byController := client.MatchingFields{indexController: string(seen.obj.GetUID())}
	if err := r.Cache.List(ctx, &list, client.InNamespace(seen.obj.GetNamespace()), byController); err != nil {
		return fmt.Errorf("listing the revisions: %w", err)
	}
	seen.keep(list.Items)
	if name, lacking := seen.lacksRevision(); lacking {
		// A cache that is behind must not make a pod's revision "not kept": the pod would be recreated for it.
		var live appsv1.ControllerRevisionList
		if err := r.Live.List(ctx, &live, client.InNamespace(seen.obj.GetNamespace())); err != nil {
			return fmt.Errorf("listing the revisions live, for %s is not in the cache: %w", name, err)
		}
		seen.keep(slices.DeleteFunc(live.Items, func(cr appsv1.ControllerRevision) bool {
			owner := metav1.GetControllerOfNoCopy(&cr)
			return owner == nil || owner.UID != seen.obj.GetUID()
		}))
	}
	plan, err := seen.book.plan(seen.pastAndPresent())
	if err != nil {
		// A template that is not JSON has no revision: nothing moves, nothing is created, and the object says so.
		seen.wanted.Intent.Invalid = cmp.Or(seen.wanted.Intent.Invalid, "spec.template: "+err.Error())
		seen.wanted.Intent.Replicas = 0
		return nil //nolint:nilerr // said on the object: nobody retries until it changes
	}
	seen.history = plan
	in := &seen.wanted.Intent
	in.Update, in.Revisions = plan.Update, plan.Revisions
	in.Current = seen.current()
	if seen.wanted.Unfit && in.Current.Name == in.Update.Name {
		in.Replicas = 0
	}
	return nil
}

// planned is the history that was planned last, and what came of it.
type planned struct {
	of      revision.History
	changes revision.Changes
}

// plan is revision.Plan. Between two releases nothing of a history changes, and reading all its templates at every pass
// was a quarter of what a pass cost.
func (b *book) plan(h revision.History) (revision.Changes, error) {
	if b.planned != nil && sameHistory(b.planned.of, h) {
		return b.planned.changes, nil
	}
	b.planned = nil
	changes, err := revision.Plan(h)
	if err == nil {
		b.planned = &planned{of: h, changes: changes}
	}
	return changes, err
}

func sameHistory(a, b revision.History) bool {
	return a.Owner == b.Owner && bytes.Equal(a.Template, b.Template) && a.Limit == b.Limit && a.CollisionCount == b.CollisionCount &&
		slices.Equal(a.Taken, b.Taken) && slices.Equal(a.InUse, b.InUse) &&
		slices.EqualFunc(a.Existing, b.Existing, func(x, y revision.Stored) bool {
			return x.Name == y.Name && x.Number == y.Number && bytes.Equal(x.Data, y.Data)
		})
}

func (s *observation) keep(revisions []appsv1.ControllerRevision) {
	s.revisions = make(map[string]*appsv1.ControllerRevision, len(revisions))
	for i := range revisions {
		s.revisions[revisions[i].Name] = &revisions[i]
	}
}

// lacksRevision names a revision that the status or an active pod has and that was not found.
func (s *observation) lacksRevision() (name string, lacking bool) {
	if name = s.wanted.Status.CurrentRevision; name != "" && s.revisions[name] == nil {
		return name, true
	}
	for i := range s.pods {
		if name = s.pods[i].Revision; name != "" && s.pods[i].Active() && s.revisions[name] == nil {
			return name, true
		}
	}
	return "", false
}

// pastAndPresent is what the history is planned on.
func (s *observation) pastAndPresent() revision.History {
	h := revision.History{
		Owner: s.obj.GetName(), Template: s.wanted.Template, Limit: s.wanted.HistoryLimit,
		CollisionCount: s.wanted.Status.CollisionCount, Taken: s.book.revisionsTaken,
	}
	written := s.written()
	for _, name := range slices.Sorted(maps.Keys(s.revisions)) {
		cr := s.revisions[name]
		stored := revision.Stored{Name: name, Number: cr.Revision, Data: cr.Data.Raw}
		if name == written.name {
			stored.Data = written.data
		}
		h.Existing = append(h.Existing, stored)
	}
	used := map[string]bool{s.wanted.Status.CurrentRevision: true}
	for i := range s.pods {
		used[s.pods[i].Revision] = true
	}
	if oldest := s.oldest(); oldest != nil && s.wanted.Status.CurrentRevision == "" {
		used[oldest.Name] = true
	}
	h.InUse = slices.Sorted(maps.Keys(used))
	return h
}

// sameTemplate is the adopted revision that is the present template with its defaults written out, and that template as data.
type sameTemplate struct {
	name string
	data []byte
	// It was looked for at this generation of the object, among so many revisions.
	generation int64
	among      int
}

// written finds the adopted revision that the present template is up to defaults: apps/v1 and OpenKruise's webhook store
// them, and pods that are taken over would be restarted for nothing. A revision that has exactly this template comes first.
func (s *observation) written() sameTemplate {
	known := &s.book.written
	if known.generation == s.obj.GetGeneration() && known.among == len(s.revisions) {
		return *known
	}
	*known = sameTemplate{generation: s.obj.GetGeneration(), among: len(s.revisions)}
	born, newest := s.obj.GetCreationTimestamp(), int64(-1)
	for name, cr := range s.revisions {
		template, err := revision.Decode(cr.Data.Raw)
		if err != nil {
			continue
		}
		if revision.Equal(template, s.wanted.Template) {
			known.name, known.data = "", nil
			break
		}
		if cr.CreationTimestamp.Before(&born) && cr.Revision > newest && defaults.Equal(template, s.wanted.Template) {
			if data, err := revision.Encode(s.wanted.Template); err == nil {
				known.name, known.data, newest = name, data, cr.Revision
			}
		}
	}
	return *known
}

// oldest is the first revision that was ever stored for this object; those that were adopted are older than it.
func (s *observation) oldest() *appsv1.ControllerRevision {
	var first *appsv1.ControllerRevision
	for _, cr := range s.revisions {
		if born := s.obj.GetCreationTimestamp(); cr.CreationTimestamp.Before(&born) {
			continue
		}
		if first == nil || cr.Revision < first.Revision || (cr.Revision == first.Revision && cr.Name < first.Name) {
			first = cr
		}
	}
	return first
}

// current is the revision whose release was finished last: what the status says; before the first status, the first
// revision ever stored, so that a template that changes before the first pods exist is a release like any other; before
// that, the present one. A revision that the status names and that is not kept has a name and no template: pods of it
// cannot be created, and that is said, instead of creating others.
func (s *observation) current() inplace.Revision {
	name := s.wanted.Status.CurrentRevision
	if name == "" {
		first := s.oldest()
		if first == nil {
			return s.history.Update
		}
		name = first.Name
	}
	for _, r := range s.history.Revisions {
		if r.Name == name {
			return r
		}
	}
	return inplace.Revision{Name: name}
}

// storeRevision stores the revision of the template if it is new.
func (r *Reconciler) storeRevision(ctx context.Context, seen *observation) error {
	c := seen.history.Create
	if c == nil {
		return nil
	}
	if err := r.createRevision(ctx, seen, *c); err != nil {
		seen.unstored = true
		return err
	}
	return nil
}

// tidyHistory renumbers and trims. It comes after the pods: a refusal here must not keep them as they are.
func (r *Reconciler) tidyHistory(ctx context.Context, seen *observation) error {
	if n := seen.history.Renumber; n != nil {
		cr := seen.revisions[n.Name].DeepCopy()
		before := client.MergeFromWithOptions(cr.DeepCopy(), client.MergeFromWithOptimisticLock{})
		cr.Revision = n.Number
		if err := r.Live.Patch(ctx, cr, before, client.FieldOwner(appsv1alpha1.FieldManagerMember)); err != nil {
			return fmt.Errorf("renumbering revision %s: %w", n.Name, err)
		}
	}
	var errs []error
	for _, name := range seen.history.Trim {
		cr := seen.revisions[name]
		err := r.Live.Delete(ctx, cr.DeepCopy(), client.Preconditions{UID: &cr.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("trimming revision %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Reconciler) createRevision(ctx context.Context, seen *observation, c revision.Stored) error {
	labels := maps.Clone(seen.wanted.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[appsv1alpha1.LabelPodRevision] = seen.history.Update.Hash
	cr := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: c.Name, Namespace: seen.obj.GetNamespace(), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{r.ownerReference(seen.obj)},
		},
		Data: runtime.RawExtension{Raw: c.Data}, Revision: c.Number,
	}
	err := r.Live.Create(ctx, cr, client.FieldOwner(appsv1alpha1.FieldManagerMember))
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return fmt.Errorf("creating revision %s: %w", c.Name, err)
		}
		return nil
	}
	return r.revisionExists(ctx, seen, c)
}

// revisionExists looks at the revision that was in the way: ours of the same content is what we wanted (the cache is
// behind); anything else makes the name taken, and the next pass finds another.
func (r *Reconciler) revisionExists(ctx context.Context, seen *observation, c revision.Stored) error {
	var live appsv1.ControllerRevision
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: seen.obj.GetNamespace(), Name: c.Name}, &live); err != nil {
		return fmt.Errorf("reading revision %s: %w", c.Name, err)
	}
	owner := metav1.GetControllerOfNoCopy(&live)
	if owner != nil && owner.UID == seen.obj.GetUID() && revision.Equal(live.Data.Raw, c.Data) {
		return nil
	}
	if !slices.Contains(seen.book.revisionsTaken, c.Name) {
		seen.book.revisionsTaken = append(seen.book.revisionsTaken, c.Name)
	}
	return fmt.Errorf("revision name %s is taken, another one is used", c.Name)
}

func (r *Reconciler) ownerReference(obj client.Object) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: r.Resource.GroupVersion().String(), Kind: r.Resource.Kind, Name: obj.GetName(), UID: obj.GetUID(),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
}
