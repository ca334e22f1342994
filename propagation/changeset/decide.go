package changeset

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// maxFields bounds the fields a decision names.
const maxFields = 10

func decide(in Input) Decision {
	if in.Live == nil {
		if in.Want != WantApplied {
			return Decision{Op: OpNothing, Reason: ReasonGone, Message: "it is gone", Object: in.Desired}
		}
		return Decision{Op: OpCreate, Reason: ReasonAbsent, Message: "it does not exist", Object: in.Desired}
	}
	out := Decision{Object: in.Desired, UID: in.Live.GetUID(), ResourceVersion: in.Live.GetResourceVersion()}
	c := claimOf(in.Live, in.HubID, in.Intent)
	if c.newer(in.Intent) {
		return out.is(OpHubBehind, ReasonNewerIntent, fmt.Sprintf("it carries intent %s, ours is %s", c.intent, in.Intent))
	}
	switch in.Want {
	case WantDeleted:
		return letGo(in, out, c, OpDelete)
	case WantOrphaned:
		return letGo(in, out, c, OpOrphan)
	case WantApplied, WantPresent:
	}
	if !c.ours {
		return adopt(in, out, c)
	}
	if in.Live.GetDeletionTimestamp() != nil {
		return out.is(OpNothing, ReasonTerminating, "it is being deleted; what is wanted waits until it is gone")
	}
	if scaled(in.Live) && !in.TakeReplicas {
		// The plan may not know yet that somebody scales it: taking replicas back now would take them from the autoscaler,
		// and with them the trace that there is one.
		in.Desired = in.Desired.DeepCopy()
		unstructured.RemoveNestedField(in.Desired.Object, "spec", "replicas")
		out.Object = in.Desired
	}
	if handover(in) {
		n, _, _ := unstructured.NestedInt64(in.Live.Object, "spec", "replicas")
		out.Replicas = n
		return out.is(OpHandover, ReasonReplicasGivenUp, fmt.Sprintf("replicas (%d) are given up to who scales it", n))
	}
	return compare(in, out, c)
}

func (d Decision) is(op Op, reason Reason, message string) Decision {
	d.Op, d.Reason, d.Message = op, reason, message
	return d
}

// letGo decides a delete or an orphaning.
func letGo(in Input, out Decision, c claim, op Op) Decision {
	switch {
	case c.orphaned && op == OpOrphan:
		return out.is(OpNothing, ReasonGone, "it was let go already")
	case !c.ours:
		return out.is(OpNothing, c.reason, "it is left as it is: "+c.message)
	case in.Live.GetDeletionTimestamp() != nil:
		return out.is(OpNothing, ReasonTerminating, "it is being deleted")
	case op == OpDelete:
		return out.is(OpDelete, ReasonUnwanted, "its owner wants it gone")
	default:
		return out.is(OpOrphan, ReasonLetGo, "its owner lets it go")
	}
}

func adopt(in Input, out Decision, c claim) Decision {
	if !c.adoptable(in.Adopt) {
		would := ""
		if c.adoptable(appsv1alpha1.AdoptAny) {
			out.Fields = names(differences(in.Desired, in.Live), nil)
			would = "; taking it over would change " + list(out.Fields)
		}
		return out.is(OpConflict, c.reason, fmt.Sprintf("%s %s/%s is not touched: %s%s",
			in.Live.GetKind(), in.Live.GetNamespace(), in.Live.GetName(), c.message, would))
	}
	if in.Live.GetDeletionTimestamp() != nil {
		return out.is(OpNothing, ReasonTerminating, "it is being deleted")
	}
	want, _, _ := unstructured.NestedFieldNoCopy(in.Desired.Object, "spec", "selector")
	have, _, _ := unstructured.NestedFieldNoCopy(in.Live.Object, "spec", "selector")
	if want != nil && canonical(want) != canonical(have) {
		return out.is(OpConflict, ReasonSelectorDiffers, fmt.Sprintf(
			"it cannot be adopted: its selector is %s, ours is %s, and a selector cannot be changed", canonical(have), canonical(want)))
	}
	out.ClearOrphaned = c.orphaned
	out.Fields = names(differences(in.Desired, in.Live), nil)
	return out.is(OpApply, ReasonAdopted, "it is adopted; this changes "+list(out.Fields))
}

// handover is true when an apply without replicas would take them away: we own them and nobody else does.
func handover(in Input) bool {
	if _, named, _ := unstructured.NestedFieldNoCopy(in.Desired.Object, "spec", "replicas"); named {
		return false
	}
	if _, set, _ := unstructured.NestedInt64(in.Live.Object, "spec", "replicas"); !set {
		return false
	}
	return owns(own(in.Live), "spec", "replicas") && !scales(in.Live)
}

// compare decides whether anything is due on an object of ours.
func compare(in Input, out Decision, c claim) Decision {
	diff := differences(in.Desired, in.Live)
	mine := own(in.Live)
	lost := missing(in.Desired.Object, mine, nil)
	stale := extra(in.Desired.Object, mine, nil)
	out.Fields = names(diff, append(slices.Clone(lost), stale...))

	known := in.Memory != nil && in.Memory.UID == in.Live.GetUID()
	same := known && in.Memory.Applied == Hash(in.Desired)
	untouched := same && in.Memory.Managed == digest(mine)
	term := c.intent != nil && c.intent.Term != in.Intent.Term
	switch {
	case untouched && !term && len(diff) == 0:
		return out.upToDate()
	case untouched && !term && in.Memory.Rewritten == rewritten(diff):
		return out.is(OpNothing, ReasonRewritten, "the member does not keep what we send: "+list(out.Fields))
	case len(diff)+len(lost)+len(stale) == 0 && !term:
		return out.upToDate()
	case same && len(diff) > 0, !known && c.intent != nil && *c.intent == in.Intent && len(diff) > 0:
		return out.is(OpApply, ReasonDrifted, "somebody changed "+list(out.Fields))
	case len(diff)+len(stale) > 0 || term:
		return out.is(OpApply, ReasonChanged, "it changes "+list(out.Fields))
	default:
		return out.is(OpApply, ReasonOwnershipLost, "we no longer own "+list(out.Fields))
	}
}

func (d Decision) upToDate() Decision {
	d.Fields = nil
	return d.is(OpNothing, ReasonUpToDate, "nothing is due")
}

func names(diff []difference, paths []path) []string {
	out := make([]string, 0, len(diff)+len(paths))
	for _, d := range diff {
		out = append(out, d.at.String())
	}
	for _, p := range paths {
		out = append(out, p.String())
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxFields)]
}

func list(fields []string) string {
	if len(fields) == 0 {
		return "nothing but the intent"
	}
	return strings.Join(fields, ", ")
}

// Hash is the hash of a rendered object, intent aside.
func Hash(desired *unstructured.Unstructured) string {
	return digest(withoutIntent(desired.Object))
}

// Remember is the memory of an object after an apply: answer is what the member returned.
func Remember(desired, answer *unstructured.Unstructured) Memory {
	return Memory{
		UID:       answer.GetUID(),
		Applied:   Hash(desired),
		Managed:   digest(own(answer)),
		Rewritten: rewritten(differences(desired, answer)),
	}
}

func rewritten(diff []difference) string {
	if len(diff) == 0 {
		return ""
	}
	seen := map[string]any{}
	for _, d := range diff {
		seen[d.at.String()] = d.live
	}
	return digest(seen)
}

// Taken is a field and the manager that wrote it over ours.
type Taken struct {
	Field   string
	Manager string
}

// Culprits names who wrote over our fields: live must have all its managedFields. Fields nobody owns are left out.
func Culprits(desired, live *unstructured.Unstructured) []Taken {
	var out []Taken
	paths := missing(desired.Object, own(live), nil)
	for _, d := range differences(desired, live) {
		paths = append(paths, d.at)
	}
	for _, e := range entries(live) {
		if e.mine() || e.subresource == "status" {
			continue
		}
		for _, p := range paths {
			if covers(e.fields, p) {
				out = append(out, Taken{Field: p.String(), Manager: e.manager})
			}
		}
	}
	slices.SortFunc(out, func(a, b Taken) int {
		return strings.Compare(a.Field+" "+a.Manager, b.Field+" "+b.Manager)
	})
	out = slices.Compact(out)
	return out[:min(len(out), maxFields)]
}

// covers is true when the tree owns the path or something above it as a whole.
func covers(t tree, p path) bool {
	for _, s := range p {
		if strings.HasPrefix(s, "[") {
			return true
		}
		next, ok := t["f:"+s].(map[string]any)
		if !ok {
			return false
		}
		if len(next) == 0 {
			return true
		}
		t = next
	}
	return true
}

// Others are the managers, sorted, beside the hub that own anything but the status: after a create by us there must be
// none.
func Others(obj *unstructured.Unstructured) []string {
	var out []string
	for _, e := range entries(obj) {
		if e.subresource != "status" && e.manager != appsv1alpha1.FieldManagerHub && e.manager != appsv1alpha1.FieldManagerHubHandover {
			out = append(out, e.manager)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
