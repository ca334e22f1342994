package changeset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/render"
)

// SharedInput is one object that belongs to a set of owners, as wanted and as it is. Each owner has a mark on it.
type SharedInput struct {
	// Desired is the object as content.Prepare returns it, without our stamps. For an object that no owner wants its
	// apiVersion, kind, namespace and name are enough.
	Desired *unstructured.Unstructured
	Live    *unstructured.Unstructured
	Memory  *Memory
	HubID   string
	// Source orders the contents: the hub's term, the UID of the hub's object, and its resourceVersion as generation.
	Source render.Intent
	// Owners want the object and are to have their marks; Leaving are to have none. UIDs.
	Owners, Leaving []string
	// LetGo: when no mark is left the object stays, marked as let go. Claims stay always: they are data.
	LetGo bool
	// Hold keeps the content that is there.
	Hold  bool
	Adopt appsv1alpha1.AdoptPolicy
}

// DecideShared says what is to be done. Marks of owners that are neither in Owners nor in Leaving stay.
func DecideShared(in SharedInput) Decision {
	if in.Live == nil {
		if len(in.Owners) == 0 {
			return Decision{Op: OpNothing, Reason: ReasonGone, Message: "it is gone", Object: in.Desired}
		}
		return Decision{Op: OpCreate, Reason: ReasonAbsent, Message: "it does not exist", Object: in.stamped(in.Desired, in.Owners, in.Source)}
	}
	out := Decision{Object: in.Desired, UID: in.Live.GetUID(), ResourceVersion: in.Live.GetResourceVersion()}
	c := sharedClaim(in.Live, in.HubID, in.Source)
	switch {
	case c.reason == ReasonManagedElsewhere:
		return out.is(OpNothing, c.reason, "it is left as it is: "+c.message)
	case !c.ours && len(in.Owners) == 0:
		return out.is(OpNothing, c.reason, "it is left as it is: "+c.message)
	case !c.ours && !c.adoptable(in.Adopt):
		return out.is(OpConflict, c.reason, fmt.Sprintf("%s %s/%s is not touched: %s; taking it over would change %s",
			in.Live.GetKind(), in.Live.GetNamespace(), in.Live.GetName(), c.message, list(names(differences(in.wanted(), in.Live), nil))))
	case !c.ours && in.Hold:
		return out.is(OpNothing, c.reason, "it is left as it is until the release comes here: "+c.message)
	case in.Live.GetDeletionTimestamp() != nil:
		return out.is(OpNothing, ReasonTerminating, "it is being deleted")
	case !c.ours:
		out.Object = in.stamped(in.wanted(), in.Owners, in.Source)
		out.ClearOrphaned = c.orphaned
		out.Fields = names(differences(out.Object, in.Live), nil)
		return out.is(OpApply, ReasonAdopted, "it is adopted; this changes "+list(out.Fields))
	}
	marks := content.Marks(in.Live.GetAnnotations())
	left := slices.DeleteFunc(slices.Clone(marks), func(uid string) bool { return slices.Contains(in.Leaving, uid) })
	for _, uid := range in.Owners {
		if !slices.Contains(left, uid) {
			left = append(left, uid)
		}
	}
	if len(left) == 0 {
		return in.withoutOwners(out, marks)
	}
	return in.shared(out, c, left)
}

// shared decides about an object of ours that has owners.
func (in SharedInput) shared(out Decision, c claim, marks []string) Decision {
	base, source := in.wanted(), in.Source
	switch {
	case len(in.Owners) == 0, in.Hold:
		base = owned(in.Live)
		if c.intent != nil {
			source = *c.intent
		}
	case c.newer(in.Source):
		return out.is(OpHubBehind, ReasonNewerIntent, fmt.Sprintf("it is a copy of %s, ours is %s", c.intent, in.Source))
	}
	out.Object = in.stamped(base, marks, source)
	out.ClearOrphaned = c.orphaned
	if c.orphaned {
		out.Fields = names(differences(out.Object, in.Live), nil)
		return out.is(OpApply, ReasonAdopted, "this hub let it go and takes it back; this changes "+list(out.Fields))
	}
	d := compare(Input{Desired: out.Object, Live: in.Live, Memory: in.Memory, Intent: source}, out, c)
	if slices.Sort(marks); d.Reason == ReasonOwnershipLost && !slices.Equal(marks, content.Marks(in.Live.GetAnnotations())) {
		// A mark has no value, and what has none is not told from what is absent.
		return d.is(OpApply, ReasonChanged, "it changes "+list(d.Fields))
	}
	return d
}

// withoutOwners decides about an object of ours that nobody wants any more: nothing where no mark goes, or where the marks
// are not of our making, as on a copy that somebody made of it.
func (in SharedInput) withoutOwners(out Decision, marks []string) Decision {
	mine := own(in.Live)
	proven := slices.ContainsFunc(marks, func(uid string) bool {
		return owns(mine, "metadata", "annotations", appsv1alpha1.AnnotationOwnerPrefix+uid)
	})
	switch {
	case len(marks) == 0:
		return out.is(OpNothing, ReasonGone, "it has no owner of ours")
	case !proven:
		return out.is(OpNothing, ReasonNotOurs, "it is left as it is: its marks were not put on by this hub")
	case in.LetGo || in.Live.GetKind() == content.KindClaim:
		for _, uid := range marks {
			out.Unmark = append(out.Unmark, appsv1alpha1.AnnotationOwnerPrefix+uid)
		}
		return out.is(OpOrphan, ReasonLetGo, "nobody on the hub uses it any more, and it stays")
	}
	return out.is(OpDelete, ReasonUnwanted, "nobody on the hub uses it any more")
}

// sharedClaim is claimOf for an object whose owners are marks. What this hub let go it may take back.
func sharedClaim(live *unstructured.Unstructured, hubID string, source render.Intent) claim {
	labels, annotations := live.GetLabels(), live.GetAnnotations()
	at, orphaned := annotations[appsv1alpha1.AnnotationOrphaned]
	hub := labels[appsv1alpha1.LabelHub]
	switch {
	case annotations[appsv1alpha1.AnnotationPropagate] == "false":
		return claim{reason: ReasonManagedElsewhere, message: "it is marked as managed elsewhere"}
	case hub == "":
		return claim{reason: ReasonNotOurs, message: "it was not made by a hub"}
	case hub != hubID && orphaned:
		return claim{orphaned: true, reason: ReasonNotOurs, message: "a hub let it go at " + at}
	case hub != hubID:
		return claim{reason: ReasonOtherHub, message: "it belongs to hub " + hub}
	}
	out := claim{ours: true, orphaned: orphaned}
	// Only a copy of the same object can be newer or older.
	if intent, err := render.ParseIntent(annotations[appsv1alpha1.AnnotationIntent]); err == nil && intent.Plausible(source.Term) &&
		(source.OwnerUID == "" || intent.OwnerUID == source.OwnerUID) {
		out.intent = &intent
	}
	return out
}

// wanted is what is to be sent of Desired beside what lives. Of a claim that is ours or adopted only more storage is.
func (in SharedInput) wanted() *unstructured.Unstructured {
	if in.Desired.GetKind() != content.KindClaim {
		return in.Desired
	}
	out := in.Desired.DeepCopy()
	spec, _ := owned(in.Live).Object["spec"].(map[string]any)
	spec = maps.Clone(spec)
	want, _, _ := unstructured.NestedString(in.Desired.Object, "spec", "resources", "requests", "storage")
	have, _, _ := unstructured.NestedString(in.Live.Object, "spec", "resources", "requests", "storage")
	if more(want, have) {
		if spec == nil {
			spec = map[string]any{}
		}
		spec["resources"] = map[string]any{"requests": map[string]any{"storage": want}}
	}
	delete(out.Object, "spec")
	if len(spec) > 0 {
		out.Object["spec"] = spec
	}
	return out
}

func more(want, have string) bool {
	w, errW := resource.ParseQuantity(want)
	h, errH := resource.ParseQuantity(have)
	return errW == nil && errH == nil && w.Cmp(h) > 0
}

// stamped is base with our label, the owners' marks and the source, and no other mark of ours.
func (in SharedInput) stamped(base *unstructured.Unstructured, marks []string, source render.Intent) *unstructured.Unstructured {
	out := base.DeepCopy()
	annotations := out.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.DeleteFunc(annotations, func(name, _ string) bool {
		return strings.HasPrefix(name, appsv1alpha1.AnnotationOwnerPrefix) || name == appsv1alpha1.AnnotationOrphaned
	})
	for _, uid := range marks {
		annotations[appsv1alpha1.AnnotationOwnerPrefix+uid] = ""
	}
	annotations[appsv1alpha1.AnnotationIntent] = source.String()
	out.SetAnnotations(annotations)
	labels := out.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[appsv1alpha1.LabelHub] = in.HubID
	out.SetLabels(labels)
	return out
}

// owned is what our applies own of live, with its identity: applied again it changes nothing.
func owned(live *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	if live == nil {
		return out
	}
	if mine := own(live); len(mine) > 0 {
		out.Object, _ = restrict(live.DeepCopy().Object, mine).(map[string]any)
	}
	out.SetGroupVersionKind(live.GroupVersionKind())
	out.SetNamespace(live.GetNamespace())
	out.SetName(live.GetName())
	return out
}

// restrict is the part of v that a tree names. A node without children names all of it.
func restrict(v any, t tree) any {
	if len(t) == 0 {
		return v
	}
	switch have := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, node := range t {
			field, ok := strings.CutPrefix(key, "f:")
			if !ok {
				continue
			}
			below, _ := node.(map[string]any)
			if value, there := have[field]; there {
				out[field] = restrict(value, below)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, item := range have {
			if below, ok := itemNode(item, t); ok {
				out = append(out, restrict(item, below))
			}
		}
		return out
	}
	return v
}
