package united

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/united/plan"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	travels "github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
)

// What travels along is read in the hub's own cluster: metadata by a watch, the object itself when it changed.
//
// +kubebuilder:rbac:groups="",resources=configmaps;secrets;serviceaccounts;persistentvolumeclaims,verbs=get;list;watch

// Travel is how objects travel along with workloads.
type Travel struct {
	// Kinds are those that the hub sends, of content.Kinds.
	Kinds []render.Kind
	// Library has the hub's objects.
	Library *Library
	// Members finds what carries an owner's mark, and forgets one owner's wishes.
	Members interface {
		Marked(member string, gvk schema.GroupVersionKind, owner types.UID) ([]*unstructured.Unstructured, bool)
	}
	Outbox interface {
		WithdrawShare(key outbox.Key, owner types.UID)
	}
}

// traveller is what a Reconciler remembers of one object's contents.
type traveller struct {
	// named are the references at a version of the templates.
	named   []travels.Ref
	namedAt string
	// posted are fingerprints of what was posted.
	posted map[outbox.Key]string
	// objects are what is to be sent, of the last look.
	objects map[travels.Ref]*unstructured.Unstructured
}

// listSoon is how long to wait for the hub's lists; what arrives wakes who names it before that.
const listSoon = 2 * time.Second

// observeTravel reads what travels along. What cannot be read is left out: nothing that needs it is sent.
func (r *Reconciler) observeTravel(ctx context.Context, seen *observation) {
	if r.Travel == nil {
		return
	}
	t := &seen.memory.travel
	if t.posted == nil {
		t.posted = map[outbox.Key]string{}
	}
	if at := namedAt(seen); t.namedAt != at {
		t.named, t.namedAt = plan.Named(seen.United, seen.Revisions), at
	}
	out := plan.Travel{On: true, Hub: map[travels.Ref]plan.HubObject{}, Marked: map[string]plan.Marked{}}
	for _, k := range r.Travel.Kinds {
		out.Kinds = append(out.Kinds, k.GVK.Kind)
	}
	t.objects = map[travels.Ref]*unstructured.Unstructured{}
	if seen.United.Annotations[appsv1alpha1.AnnotationPropagateContent] != "false" {
		r.readHub(ctx, seen, &out)
	}
	r.concerns(seen, out.Hub)
	if len(out.Hub) > 0 || len(t.named) > 0 {
		r.readMarked(seen, &out)
	}
	out.Deliveries = r.contentDeliveries(t, seen.United.UID)
	seen.Travel = out
}

func namedAt(seen *observation) string {
	names := make([]string, 0, len(seen.Revisions))
	for _, s := range seen.Revisions {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return fmt.Sprint(seen.United.Generation, names)
}

// readHub reads what the templates name, and what that names.
func (r *Reconciler) readHub(ctx context.Context, seen *observation, out *plan.Travel) {
	todo := slices.Clone(seen.memory.travel.named)
	for len(todo) > 0 {
		ref := travels.Ref{Kind: todo[0].Kind, Name: todo[0].Name}
		todo = todo[1:]
		kind, ok := r.kindTravels(ref.Kind)
		if _, done := out.Hub[ref]; done || !ok {
			continue
		}
		hub, obj, err := r.Travel.Library.Read(ctx, kind, seen.United.Namespace, ref.Name)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("An object of the hub is not read", "kind", ref.Kind, "name", ref.Name, "reason", err.Error())
			seen.lookAgain = soonest(seen.lookAgain, listSoon)
			continue
		}
		out.Hub[ref], seen.memory.travel.objects[ref] = hub, obj
		todo = append(todo, hub.Needs...)
	}
}

func (r *Reconciler) kindTravels(name string) (render.Kind, bool) {
	for _, k := range r.Travel.Kinds {
		if k.GVK.Kind == name {
			return k, true
		}
	}
	return render.Kind{}, false
}

// readMarked finds, on members that are heard from, what carries our mark.
func (r *Reconciler) readMarked(seen *observation, out *plan.Travel) {
	for name, m := range seen.Members {
		if name == clusters.Local || !m.Ready {
			continue
		}
		got := plan.Marked{Known: true}
		view, _ := r.Members.View(name)
		for _, k := range r.Travel.Kinds {
			objs, synced := r.Travel.Members.Marked(name, k.GVK, seen.United.UID)
			if !synced {
				kind, known := kindOf(view, k)
				got.Known = false
				got.Settling = got.Settling || !known || (kind.Served && kind.Refused == "")
				continue
			}
			for _, obj := range objs {
				if obj.GetNamespace() == seen.United.Namespace {
					got.Refs = append(got.Refs, travels.Ref{Kind: k.GVK.Kind, Name: obj.GetName()})
				}
			}
		}
		out.Marked[name] = got
	}
}

// contentDeliveries reads what became of what was posted.
func (r *Reconciler) contentDeliveries(t *traveller, owner types.UID) map[plan.Target]plan.ContentDelivery {
	out := map[plan.Target]plan.ContentDelivery{}
	for key, mark := range t.posted {
		o, ok := r.Outbox.Outcome(key)
		if !ok {
			continue
		}
		d := deliveryOf(o)
		got := plan.ContentDelivery{Posted: mark, Problem: d.Problem, Message: d.Message, HeldBy: o.HeldBy}
		switch o.State {
		case outbox.StateDone:
			got.Gone = !slices.Contains(o.Marked, string(owner)) || ended(o)
			got.Ready = o.Reason != changeset.ReasonGone
		case outbox.StateTerminating:
			got.Problem, got.Message = plan.ProblemOther, "it is being deleted on the member"
		case outbox.StatePending, outbox.StateMemberNotReady, outbox.StateFrozen, outbox.StateStopped, outbox.StateNotLeading,
			outbox.StateReplan, outbox.StateConflict, outbox.StateNamespaceMissing, outbox.StateNamespaceTerminating,
			outbox.StateKindMissing, outbox.StateMissing, outbox.StateUnwantedDelete, outbox.StateRefused, outbox.StateFailed:
		}
		out[plan.Target{Member: key.Member, Kind: key.GVK.Kind, Name: key.Name}] = got
	}
	return out
}

// postContents hands the contents to the outbox and takes back what is not wanted any more.
func (r *Reconciler) postContents(ctx context.Context, seen *observation, contents []plan.Content) error {
	if r.Travel == nil {
		return nil
	}
	t := &seen.memory.travel
	keep := map[outbox.Key]bool{}
	var errs []error
	for i := range contents {
		c := &contents[i]
		kind, ok := r.kindTravels(c.Ref.Kind)
		if !ok {
			continue
		}
		key := outbox.Key{Member: c.Member, GVK: kind.GVK, Namespace: seen.United.Namespace, Name: c.Ref.Name}
		keep[key] = true
		mark := c.Fingerprint()
		if t.posted[key] == mark && r.lives(key) {
			continue
		}
		item, err := r.contentItem(seen, c, kind)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		klog.FromContext(ctx).V(2).Info("Posted content", "MemberCluster", klog.KRef("", c.Member), "kind", c.Ref.Kind,
			"name", c.Ref.Name, "want", c.Want, "hold", c.Hold)
		r.Outbox.Post(item)
		t.posted[key] = mark
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdrawContents(seen.memory, keep)
	return errors.Join(errs...)
}

// withdrawContents takes back what was posted and is not in keep; marks stay.
func (r *Reconciler) withdrawContents(m *memory, keep map[outbox.Key]bool) {
	if r.Travel == nil {
		return
	}
	for key := range m.travel.posted {
		if !keep[key] {
			r.Travel.Outbox.WithdrawShare(key, m.uid)
			delete(m.travel.posted, key)
			delete(m.toldAt, key)
		}
	}
}

func (r *Reconciler) contentItem(seen *observation, c *plan.Content, kind render.Kind) (outbox.Item, error) {
	ud := seen.United
	out := outbox.Item{
		Member: c.Member, Shared: true, Kind: kind, Owner: client.ObjectKeyFromObject(ud), Adopt: ud.Spec.Adopt, Hold: c.Hold,
		Intent: render.Intent{Term: r.Term(), OwnerUID: ud.UID}, EnsureNamespace: true, Gone: r.goneOwners(kind, ud.Namespace, c.Ref.Name),
	}
	out.Object = &unstructured.Unstructured{}
	out.Object.SetGroupVersionKind(kind.GVK)
	out.Object.SetNamespace(ud.Namespace)
	out.Object.SetName(c.Ref.Name)
	switch c.Want {
	case plan.ContentPresent:
		out.Want = changeset.WantPresent
	case plan.ContentReleased:
		out.Want, out.StillWanted = changeset.WantDeleted, r.stillLeaves(ud, plan.EndingDelete)
	case plan.ContentLetGo:
		out.Want, out.StillWanted = changeset.WantOrphaned, r.stillLeaves(ud, plan.EndingOrphan)
	case plan.ContentApplied:
		obj := seen.memory.travel.objects[c.Ref]
		version, err := strconv.ParseInt(c.Version, 10, 64)
		if obj == nil || err != nil {
			return outbox.Item{}, fmt.Errorf("%s cannot be sent: version %q: %w", c.Ref, c.Version, errors.Join(err, errNotListed))
		}
		out.Want, out.Object = changeset.WantApplied, obj
		out.Source = render.Intent{Term: r.Term(), OwnerUID: c.UID, Generation: version}
		out.CurrentSource = r.currentSource(kind, ud.Namespace, c.Ref.Name)
	}
	return out, nil
}

// currentSource is a quorum read of what is copied.
func (r *Reconciler) currentSource(kind render.Kind, namespace, name string) func(context.Context) (render.Intent, bool, error) {
	return func(ctx context.Context) (render.Intent, bool, error) {
		uid, version, found, err := r.Travel.Library.Current(ctx, kind, namespace, name)
		if err != nil || !found {
			return render.Intent{}, false, err
		}
		n, err := strconv.ParseInt(version, 10, 64)
		if err != nil {
			return render.Intent{}, false, fmt.Errorf("reading the version of %s %s: %w", kind.GVK.Kind, name, err)
		}
		return render.Intent{Term: r.Term(), OwnerUID: uid, Generation: n}, true, nil
	}
}

// goneOwners names the owners that do not exist: neither a UnitedDeployment nor, for what travels by its own label, the
// hub's object itself has that UID.
func (r *Reconciler) goneOwners(kind render.Kind, namespace, name string) func(context.Context, []string) ([]string, error) {
	return func(ctx context.Context, owners []string) ([]string, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(appsv1alpha1.GroupVersion.WithKind("UnitedDeploymentList"))
		if err := r.Live.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing UnitedDeployments: %w", err)
		}
		uid, _, _, err := r.Travel.Library.Current(ctx, kind, namespace, name)
		if err != nil {
			return nil, err
		}
		alive := map[string]bool{string(uid): true}
		for i := range list.Items {
			alive[string(list.Items[i].UID)] = true
		}
		return slices.DeleteFunc(slices.Clone(owners), func(owner string) bool { return alive[owner] }), nil
	}
}

// stillLeaves answers, by fresh reads, whether an owner still wants its mark off: it exists, and is as it was when the plan
// was made. One that is being deleted must go the way that the plan was made for.
func (r *Reconciler) stillLeaves(planned *appsv1alpha1.UnitedDeployment, way plan.Ending) func(context.Context) (bool, error) {
	owner, uid, generation := client.ObjectKeyFromObject(planned), planned.UID, planned.Generation
	opted := planned.Annotations[appsv1alpha1.AnnotationPropagateContent]
	return func(ctx context.Context) (bool, error) {
		ud := &appsv1alpha1.UnitedDeployment{}
		err := r.Live.Get(ctx, owner, ud)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading the owner: %w", err)
		}
		if ud.UID != uid || ud.Generation != generation || ud.Annotations[appsv1alpha1.AnnotationPropagateContent] != opted {
			return false, nil
		}
		if ud.DeletionTimestamp == nil || way == plan.EndingOrphan {
			return true, nil
		}
		ending, err := r.ending(ctx, ud)
		return err == nil && ending == way, err
	}
}

// concerns notes which of the hub's objects an object depends on.
func (r *Reconciler) concerns(seen *observation, hub map[travels.Ref]plan.HubObject) {
	names := map[string]bool{}
	for _, ref := range seen.memory.travel.named {
		names[concern(ref.Kind, seen.United.Namespace, ref.Name)] = true
	}
	for ref := range hub {
		names[concern(ref.Kind, seen.United.Namespace, ref.Name)] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen.memory.concerns = names
}

func concern(kind, namespace, name string) string {
	return strings.Join([]string{kind, namespace, name}, "/")
}

// Naming are the objects whose templates name an object of the hub, as of their last pass.
func (r *Reconciler) Naming(kind, namespace, name string) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []types.NamespacedName
	for owner, m := range r.memory {
		if m.concerns[concern(kind, namespace, name)] {
			out = append(out, owner)
		}
	}
	return out
}
