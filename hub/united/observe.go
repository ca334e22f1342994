package united

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/united/plan"
	"github.com/underway-dev/underway/inplace/revision"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/feedback"
	"github.com/underway-dev/underway/propagation/render"
)

// observation is what one pass saw, with what only acting needs.
type observation struct {
	plan.Observation

	// kinds of which the object may have children, by name.
	kinds []string
	// last is the revision that the spec had when it was last decided about; nil: none, or it is not stored.
	last      *appsv1.ControllerRevision
	memory    *memory
	lookAgain time.Duration
}

// observe reads everything; nil when the object is gone.
func (r *Reconciler) observe(ctx context.Context, req ctrl.Request) (*observation, error) {
	ud := &appsv1alpha1.UnitedDeployment{}
	if err := r.Client.Get(ctx, req.NamespacedName, ud); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return nil, nil
		}
		return nil, fmt.Errorf("reading the UnitedDeployment: %w", err)
	}
	m := r.remember(req.NamespacedName, ud.UID)
	if m.generation != ud.Generation {
		m.generation, m.seenAt = ud.Generation, r.Clock.Now()
	}
	seen := &observation{memory: m, Observation: plan.Observation{
		United: ud, HubID: r.HubID, Term: r.Term(), GenerationSeenAt: m.seenAt, TakenNames: slices.Clone(m.taken),
	}}
	if r.Clock.Now().Before(m.unkept.Until) {
		seen.Unkept = m.unkept
	}
	if err := r.observeRevisions(ctx, seen); err != nil {
		return nil, err
	}
	seen.kinds = kindsOf(seen)
	r.Members.Use(seen.kinds...)
	if err := r.observeMembers(ctx, seen); err != nil {
		return nil, err
	}
	r.observeChildren(seen)
	r.observeScalers(ctx, seen)
	r.observePods(ctx, seen)
	seen.Deliveries = r.deliveries(m)
	r.observeTravel(ctx, seen)
	if r.Checker != nil {
		seen.Checker, seen.Checks = true, r.Checker.Results(req.NamespacedName)
	}
	if ud.DeletionTimestamp != nil {
		ending, err := r.ending(ctx, ud)
		if err != nil {
			return nil, err
		}
		seen.Ending = ending
	}
	return seen, nil
}

func ownedRevisions(ud *appsv1alpha1.UnitedDeployment) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(ud.Namespace), client.MatchingLabels{appsv1alpha1.LabelOwnerUID: string(ud.UID)},
	}
}

func (r *Reconciler) observeRevisions(ctx context.Context, seen *observation) error {
	list := &appsv1.ControllerRevisionList{}
	if err := r.Client.List(ctx, list, ownedRevisions(seen.United)...); err != nil {
		return fmt.Errorf("listing revisions: %w", err)
	}
	for i := range list.Items {
		c := &list.Items[i]
		seen.Revisions = append(seen.Revisions, revision.Stored{Name: c.Name, Number: c.Revision, Data: c.Data.Raw})
		if c.Name == seen.United.Status.UpdatedRevision {
			seen.last = c
		}
	}
	return nil
}

// observeMembers reads every MemberCluster, and the hub's own cluster as member "". A list that fails is an error, never
// "no members".
func (r *Reconciler) observeMembers(ctx context.Context, seen *observation) error {
	list := &fleetv1alpha1.MemberClusterList{}
	if err := r.Client.List(ctx, list); err != nil {
		return fmt.Errorf("listing members: %w", err)
	}
	ns := &corev1.Namespace{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: seen.United.Namespace}, ns)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	seen.Members = map[string]plan.Member{clusters.Local: r.member(seen, clusters.Local, nil)}
	for i := range list.Items {
		mc := &list.Items[i]
		m := r.member(seen, mc.Name, mc)
		m.NotAllowed = notAllowed(mc, ns)
		m.Labels, m.Deleting, m.NoGrants = mc.Labels, mc.DeletionTimestamp != nil, mc.NoNewGrants()
		m.Draining = mc.Spec.Drain
		seen.Members[mc.Name] = m
	}
	return nil
}

// notAllowed says why a member does not take workloads of a namespace.
func notAllowed(mc *fleetv1alpha1.MemberCluster, ns *corev1.Namespace) string {
	remedy := fmt.Sprintf("; label the namespace, or change spec.allowedNamespaces of MemberCluster %s", mc.Name)
	if mc.Spec.AllowedNamespaces == nil {
		return fmt.Sprintf("member %s takes workloads of no namespace%s", mc.Name, remedy)
	}
	selector, err := metav1.LabelSelectorAsSelector(mc.Spec.AllowedNamespaces)
	if err != nil {
		return fmt.Sprintf("spec.allowedNamespaces of MemberCluster %s cannot be read: %v", mc.Name, err)
	}
	if !selector.Matches(labels.Set(ns.Labels)) {
		return fmt.Sprintf("member %s takes workloads of namespaces with %s only, and %s is none%s", mc.Name, selector, ns.Name, remedy)
	}
	return ""
}

// member reads one connection, for the kinds that the object has or had. Its words are stable: they go into the status.
func (r *Reconciler) member(seen *observation, name string, mc *fleetv1alpha1.MemberCluster) plan.Member {
	view, ok := r.Members.View(name)
	if !ok {
		if refused(mc) {
			return plan.Member{Problem: "its credential is not usable: kubectl get membercluster " + name}
		}
		return r.settle(seen, name)
	}
	out := plan.Member{HeardAt: view.LastHeard}
	switch {
	case view.State == clusters.StateReady && r.readKinds(seen, view, &out):
		out.Ready = true
		r.settled(name)
		return out
	case view.Block == clusters.BlockUnreachable:
		out.Problem = "it does not answer"
	case view.Block == clusters.BlockUnauthorized:
		out.Problem = "it refuses the credential"
	case view.Block == clusters.BlockIdentityChanged:
		out.Problem = "another cluster answers under its name: kubectl underway confirm cluster " + name
	case view.Block == clusters.BlockIdentityTaken:
		out.Problem = "it is a cluster that is registered under another name"
	case out.Problem != "":
	default:
		return r.settle(seen, name)
	}
	r.settled(name)
	return out
}

// readKinds says which of the object's kinds the member does not serve, and which nobody reconciles there; false while
// one of them is not read whole. Kinds that the object has nothing to do with keep nobody up.
func (r *Reconciler) readKinds(seen *observation, view clusters.View, out *plan.Member) bool {
	for _, name := range seen.kinds {
		kind, ok := plan.KindNamed(name)
		if !ok {
			continue
		}
		got, known := kindOf(view, kind)
		switch {
		case got.Refused != "":
			out.Problem = fmt.Sprintf("it does not let the hub read its %s: kubectl underway join %s --upgrade --kubeconfig FILE", kind.Resource, view.Name)
			return false
		case !known || (got.Served && !got.Synced):
			return false
		case !got.Served:
			out.NotServed = append(out.NotServed, name)
		case kind.NeedsAgent && got.Reconciler == clusters.ReconcilerNobody:
			out.Nobody = append(out.Nobody, name)
		}
	}
	return true
}

// kindsOf are the kinds of which the object may have children: those of its template, of its stored revisions and of its
// status.
func kindsOf(seen *observation) []string {
	templates := []appsv1alpha1.SubsetTemplate{seen.United.Spec.Template}
	out := plan.KindsOf(append(templates, plan.Templates(seen.Revisions)...))
	for i := range seen.United.Status.SubsetStatuses {
		if e := &seen.United.Status.SubsetStatuses[i]; e.Workload != "" {
			kind, _ := plan.KindNamed(e.Kind)
			out = append(out, plan.KindName(kind))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func kindOf(view clusters.View, kind render.Kind) (clusters.KindView, bool) {
	for _, k := range view.Kinds {
		if k.GVK.GroupKind() == kind.GVK.GroupKind() {
			return k, true
		}
	}
	return clusters.KindView{}, false
}

// refused is true for a MemberCluster that the hub has no connection to, and says so.
func refused(mc *fleetv1alpha1.MemberCluster) bool {
	if mc == nil || mc.Status.ObservedGeneration != mc.Generation {
		return false
	}
	return slices.ContainsFunc(mc.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == fleetv1alpha1.ConditionReady && c.Status == metav1.ConditionFalse &&
			(c.Reason == fleetv1alpha1.ConditionCredentialRefused || c.Reason == reasonNoCredential)
	})
}

// reasonNoCredential is what package cluster says of a member without a readable Secret.
const reasonNoCredential = "NoCredential" //nolint:gosec // a reason, not a credential

// settle is a member that is on its way; after a while it counts as not heard from.
func (r *Reconciler) settle(seen *observation, name string) plan.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock.Now()
	since, ok := r.settling[name]
	if !ok {
		since = now
		r.settling[name] = now
	}
	if left := since.Add(r.SettleTime).Sub(now); left > 0 {
		seen.lookAgain = soonest(seen.lookAgain, left)
		return plan.Member{Settling: true}
	}
	return plan.Member{Problem: "its workloads are not read yet"}
}

func (r *Reconciler) settled(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.settling, name)
}

// observeChildren reads what the members' caches have of the object, of every kind that it has or had.
func (r *Reconciler) observeChildren(seen *observation) {
	for name, m := range seen.Members {
		if m.Ready {
			r.observeMember(seen, name, m)
		}
	}
	slices.SortFunc(seen.Children, func(a, b plan.Child) int {
		return cmp.Or(cmp.Compare(a.Member, b.Member), cmp.Compare(a.Report.Name, b.Report.Name), cmp.Compare(a.Report.Kind, b.Report.Kind))
	})
}

// observeMember reads one member's. A cache that was emptied since the look at the member tells nothing, of any kind.
func (r *Reconciler) observeMember(seen *observation, name string, m plan.Member) {
	var found []plan.Child
	for _, kindName := range seen.kinds {
		kind, ok := plan.KindNamed(kindName)
		if !ok || slices.Contains(m.NotServed, kindName) {
			continue
		}
		children, synced := r.Members.Children(name, kind.GVK, client.ObjectKeyFromObject(seen.United))
		if !synced {
			seen.Members[name] = unread(m, r.settle(seen, name))
			return
		}
		for _, obj := range children {
			found = append(found, childOf(name, obj))
		}
	}
	seen.Children = append(seen.Children, found...)
}

// unread is a member whose children could not be read after all. What its MemberCluster says of it stands: a pass that forgot
// that nothing may be granted there, or whom its labels select, would store what it decided.
func unread(m, settling plan.Member) plan.Member {
	m.Ready, m.Settling, m.Problem = false, settling.Settling, settling.Problem
	return m
}

func childOf(member string, obj *unstructured.Unstructured) plan.Child {
	report, err := feedback.Of(obj)
	if err == nil {
		return plan.Child{Member: member, Report: report}
	}
	text := obj.GetAnnotations()
	label := obj.GetLabels()
	return plan.Child{Member: member, Unreadable: err.Error(), Report: feedback.Report{
		Kind:      obj.GroupVersionKind().GroupKind().String(),
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), Deleting: obj.GetDeletionTimestamp() != nil,
		Subset: label[appsv1alpha1.LabelSubsetName], SubsetRevision: label[appsv1alpha1.LabelSubsetRevision],
		Hub: label[appsv1alpha1.LabelHub], Intent: text[appsv1alpha1.AnnotationIntent], Owner: text[appsv1alpha1.AnnotationOwner],
	}}
}
