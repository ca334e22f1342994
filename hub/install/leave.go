package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/config"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/render"
)

// LeaveOptions are for [Leave].
type LeaveOptions struct {
	Options

	// Name of the member, for the steps.
	Name string
	// HubID of the hub that lets go: 16 hex digits.
	HubID string
	// Now is the time of the marks.
	Now time.Time
	// KeepAgent leaves the agent, its account and its roles: the workloads go on being reconciled.
	KeepAgent bool
	// RemoveCRDs removes CRDs of ours that have no objects.
	RemoveCRDs bool
	// Kinds are what the member serves, see Served: objects of any of them may carry the hub's label, because what else than
	// workloads and their content travels is said by a flag of the hub. Nil: those that every hub sends.
	Kinds []schema.GroupVersionKind
}

// Leave takes back, as the member's administrator, all that join gave, in the order that is safe to stop at any point:
// first what this hub put there is marked as let go, then the hub's account, then its Lease, the agent, and at last CRDs.
// Workloads and what travelled with them stay; so does everything that lacks our label. Where another hub uses the member
// too, the account, the roles and the agent are shared and stay.
func Leave(ctx context.Context, member client.Client, o LeaveOptions) error {
	a := &applier{where: o.Name, client: member, opts: o.Options}
	left, err := a.letGo(ctx, o.HubID, o.Kinds, o.Now)
	if err != nil {
		return err
	}
	others, err := a.leases(ctx, o.HubID)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		a.report(Kept, "ServiceAccount/"+appsv1alpha1.SystemNamespace+"/"+config.HubAccount, "another hub uses this member too (Lease "+
			strings.Join(others, ", ")+"): account, roles and agent stay; delete that Lease if the hub is gone, and do this again")
		return a.removeLease(ctx, appsv1alpha1.LeaseHubPrefix+o.HubID)
	}
	if err := a.removeAccess(ctx); err != nil {
		return err
	}
	if err := a.removeLease(ctx, appsv1alpha1.LeaseHubPrefix+o.HubID); err != nil {
		return err
	}
	if o.KeepAgent {
		a.report(Kept, "Deployment/"+appsv1alpha1.SystemNamespace+"/underway-member", "the agent goes on with the workloads that are there")
		return nil
	}
	if err := a.removeAll(ctx, config.MemberManager, config.MemberRBAC); err != nil {
		return err
	}
	if err := a.removeLease(ctx, agentLease); err != nil {
		return err
	}
	if left > 0 {
		a.report(Warning, fmt.Sprintf("%d workloads stay", left), "their pods go on running, and without an agent nobody updates, scales or replaces those of CloneSets and Advanced StatefulSets")
	}
	if !o.RemoveCRDs {
		return nil
	}
	return a.removeCRDs(ctx, config.MemberCRDs)
}

// letGo marks what the hub put there and counts the workloads among it; served are further kinds to look at.
func (a *applier) letGo(ctx context.Context, hubID string, served []schema.GroupVersionKind, now time.Time) (int, error) {
	if hubID == "" {
		return 0, errors.New("the hub's id is not known: nothing on the member can be told to be this hub's")
	}
	count := 0
	for _, gvk := range kindsOf(served) {
		list, err := listHubs(ctx, a.client, gvk, hubID)
		if err != nil {
			return 0, fmt.Errorf("listing %s on %s: %w", gvk.Kind, a.where, err)
		}
		for i := range list {
			if derived(&list[i]) {
				continue
			}
			if err := a.mark(ctx, &list[i], now); err != nil {
				return 0, err
			}
			if isWorkload(gvk.GroupKind()) {
				count++
			}
		}
	}
	return count, nil
}

// kindsOf are the kinds that every hub sends, then those of served that are others.
func kindsOf(served []schema.GroupVersionKind) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, k := range slices.Concat(render.Kinds(), content.Kinds(), content.ByLabel()) {
		out = append(out, k.GVK)
	}
	for _, gvk := range served {
		known := slices.ContainsFunc(out, func(k schema.GroupVersionKind) bool { return k.GroupKind() == gvk.GroupKind() })
		if !known && !neverOurs(gvk) {
			out = append(out, gvk)
		}
	}
	return out
}

// neverOurs is true for kinds that no hub sends, and whose objects may have the label all the same: controllers copy labels,
// and namespaces and Leases have their own ways.
func neverOurs(gvk schema.GroupVersionKind) bool {
	switch gvk.Group {
	case "":
		return slices.Contains([]string{"Namespace", "Node", "Pod", "Endpoints", "Event"}, gvk.Kind)
	case "discovery.k8s.io", "coordination.k8s.io", "events.k8s.io", "apiextensions.k8s.io", "metrics.k8s.io":
		return true
	}
	return false
}

// derived is true for what a controller on the member made of something that the hub sent, with its labels.
func derived(u *unstructured.Unstructured) bool {
	of := metav1.GetControllerOf(u)
	return of != nil && of.Kind != "UnitedDeployment"
}

func isWorkload(gk schema.GroupKind) bool {
	return slices.ContainsFunc(render.Kinds(), func(k render.Kind) bool { return k.GVK.GroupKind() == gk })
}

// listHubs lists what carries a hub's label; a kind that is not served has nothing.
func listHubs(ctx context.Context, c client.Client, gvk schema.GroupVersionKind, hubID string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err := c.List(ctx, list, client.MatchingLabels{appsv1alpha1.LabelHub: hubID})
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil, nil
	}
	return list.Items, err
}

// mark writes the orphaned mark, and takes references to owners on the hub off: they would let the garbage collector
// delete what is to stay. What an agent or a controller has written meanwhile is read again: it is no reason to end.
func (a *applier) mark(ctx context.Context, u *unstructured.Unstructured, now time.Time) error {
	uid, hub := u.GetUID(), u.GetLabels()[appsv1alpha1.LabelHub]
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		err := a.markAsRead(ctx, u, now)
		if !apierrors.IsConflict(err) {
			return err
		}
		fresh := &unstructured.Unstructured{}
		fresh.SetGroupVersionKind(u.GroupVersionKind())
		switch readErr := a.client.Get(ctx, client.ObjectKeyFromObject(u), fresh); {
		case apierrors.IsNotFound(readErr):
			return nil
		case readErr != nil:
			return fmt.Errorf("reading %s on %s again: %w", nameOf(u), a.where, readErr)
		case fresh.GetUID() != uid || fresh.GetLabels()[appsv1alpha1.LabelHub] != hub:
			return nil // it is not the hub's any more
		}
		u.Object = fresh.Object
		return err
	})
}

func (a *applier) markAsRead(ctx context.Context, u *unstructured.Unstructured, now time.Time) error {
	if _, marked := u.GetAnnotations()[appsv1alpha1.AnnotationOrphaned]; marked && len(u.GetOwnerReferences()) == 0 {
		return nil
	}
	what := map[string]any{
		"uid": string(u.GetUID()), "resourceVersion": u.GetResourceVersion(),
		"annotations": map[string]any{appsv1alpha1.AnnotationOrphaned: now.UTC().Format(time.RFC3339)},
	}
	if refs, _, _ := unstructured.NestedSlice(u.Object, "metadata", "ownerReferences"); len(refs) > 0 {
		what["ownerReferences"] = slices.DeleteFunc(refs, ofUnitedDeployment)
	}
	if !a.opts.DryRun {
		body, err := json.Marshal(map[string]any{"metadata": what})
		if err != nil {
			return fmt.Errorf("writing the mark: %w", err)
		}
		if err := a.client.Patch(ctx, u, client.RawPatch(types.MergePatchType, body), client.FieldOwner(FieldManager)); err != nil {
			return fmt.Errorf("letting %s on %s go: %w", nameOf(u), a.where, err)
		}
	}
	a.report(Orphaned, nameOf(u), "it stays and is nobody's")
	return nil
}

func ofUnitedDeployment(ref any) bool {
	m, ok := ref.(map[string]any)
	return ok && m["kind"] == "UnitedDeployment"
}

// leases are the names of the other hubs' Leases.
func (a *applier) leases(ctx context.Context, hubID string) ([]string, error) {
	list := &coordinationv1.LeaseList{}
	if err := a.client.List(ctx, list, client.InNamespace(appsv1alpha1.SystemNamespace)); err != nil {
		return nil, fmt.Errorf("listing Leases on %s: %w", a.where, err)
	}
	var out []string
	for i := range list.Items {
		if name := list.Items[i].Name; strings.HasPrefix(name, appsv1alpha1.LeaseHubPrefix) && name != appsv1alpha1.LeaseHubPrefix+hubID {
			out = append(out, name)
		}
	}
	return out, nil
}

// agentLease is the agent's leader Lease. An agent that runs as a process makes it anew.
const agentLease = "underway-member"

func (a *applier) removeLease(ctx context.Context, name string) error {
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: name}
	if err := a.client.Get(ctx, key, lease); err != nil {
		return client.IgnoreNotFound(err)
	}
	return a.remove(ctx, lease, "Lease/"+key.Namespace+"/"+key.Name, "")
}

// removeAccess takes the hub's account and all that was bound to it: bindings first, so that a token that is still about
// can do nothing more.
func (a *applier) removeAccess(ctx context.Context) error {
	if err := a.unbind(ctx, []string{}, nil); err != nil {
		return err
	}
	if err := DropOldToken(ctx, a.client, a.where, a.opts); err != nil {
		return err
	}
	return a.removeAll(ctx, config.HubAccess)
}

// removeAll removes what the sources hold, the last first.
func (a *applier) removeAll(ctx context.Context, sources ...func() ([]*unstructured.Unstructured, error)) error {
	for _, source := range sources {
		objects, err := source()
		if err != nil {
			return err
		}
		slices.SortStableFunc(objects, func(x, y *unstructured.Unstructured) int { return removalRank(x) - removalRank(y) })
		for _, u := range objects {
			if err := a.removeOurs(ctx, u); err != nil {
				return err
			}
		}
	}
	return nil
}

// removalRank orders: what acts, what lets it act, what it is.
func removalRank(u *unstructured.Unstructured) int {
	switch {
	case u.GetKind() == "Deployment":
		return 0
	case strings.HasSuffix(u.GetKind(), "Binding"):
		return 1
	case strings.HasSuffix(u.GetKind(), "Role"):
		return 2
	}
	return 3
}

// removeOurs removes one object if it is there and carries our label. Namespaces stay.
func (a *applier) removeOurs(ctx context.Context, want *unstructured.Unstructured) error {
	if want.GetKind() == "Namespace" {
		return nil
	}
	live, err := a.read(ctx, want)
	if meta.IsNoMatchError(err) {
		return nil
	}
	switch {
	case err != nil:
		return err
	case live == nil:
		return nil
	case live.GetLabels()[appsv1alpha1.LabelPartOf] != appsv1alpha1.PartOf:
		a.report(Refused, nameOf(want), foreign(want))
		return nil
	}
	return a.remove(ctx, live, nameOf(live), "")
}

// removeCRDs removes CRDs of ours that have no objects, and says which have.
func (a *applier) removeCRDs(ctx context.Context, source func() ([]*unstructured.Unstructured, error)) error {
	crds, err := source()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		used, err := a.objects(ctx, crd)
		if err != nil {
			return err
		}
		if used {
			a.report(Kept, nameOf(crd), "there are objects of it: deleting it would delete them, and the pods with them")
			continue
		}
		if err := a.removeOurs(ctx, crd); err != nil {
			return err
		}
	}
	return a.awaitRemoved(ctx, crds)
}

// awaitRemoved waits until the CRDs that are being deleted are gone: an API server takes a moment for it, and who installs
// again at once would find them half there.
func (a *applier) awaitRemoved(ctx context.Context, crds []*unstructured.Unstructured) error {
	if a.opts.DryRun {
		return nil
	}
	for _, crd := range crds {
		until := pause{
			what: nameOf(crd) + " is gone", remedy: "see its finalizers and its condition Terminating",
			every: 100 * time.Millisecond, limit: time.Minute,
		}
		err := a.await(ctx, until, func(ctx context.Context) (bool, error) {
			live, err := a.read(ctx, crd)
			return err == nil && (live == nil || live.GetDeletionTimestamp() == nil), err
		})
		if err != nil {
			return fmt.Errorf("waiting until %s is gone on %s (see its finalizers and its condition Terminating; run this again then): %w", nameOf(crd), a.where, err)
		}
	}
	return nil
}

// objects says whether a CRD has objects.
func (a *applier) objects(ctx context.Context, crd *unstructured.Unstructured) (bool, error) {
	live, err := a.read(ctx, crd)
	if err != nil || live == nil {
		return false, err
	}
	group, _, _ := unstructured.NestedString(live.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(live.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(live.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if served, _ := version["served"].(bool); !served {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(fmt.Sprintf("%s/%v", group, version["name"]))
		list.SetKind(kind + "List")
		if err := a.client.List(ctx, list, client.Limit(1)); err != nil {
			return false, fmt.Errorf("listing %s on %s: %w", kind, a.where, err)
		}
		return len(list.Items) > 0, nil
	}
	return false, fmt.Errorf("%s on %s serves no version: its objects cannot be counted", nameOf(crd), a.where)
}

// HubID reads the hub's id.
func HubID(ctx context.Context, hub client.Client) (string, error) {
	identity, err := Identity(ctx, hub)
	if err != nil {
		return "", err
	}
	secret := &corev1.Secret{}
	err = hub.Get(ctx, client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: appsv1alpha1.SecretHubID}, secret)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the hub's id: %w", err)
	}
	return clusters.HubID(types.UID(identity), string(secret.Data["nonce"])), nil
}

// removeNamed removes one object of the hub if it carries our label.
func (a *applier) removeNamed(ctx context.Context, apiVersion, kind, namespace, name string) error {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return a.removeOurs(ctx, u)
}
