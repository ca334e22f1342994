package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/config"
)

// UninstallOptions are for [Uninstall].
type UninstallOptions struct {
	Options

	// Members are administrators' clients of the members, by name.
	Members map[string]client.Client
	// Kinds are of LeaveOptions, by member.
	Kinds map[string][]schema.GroupVersionKind
	// HubKinds are what the hub's own cluster serves, see Served. Nil: the kinds that every hub sends.
	HubKinds []schema.GroupVersionKind
	// Force goes on though there are members without a client; what is left there is reported.
	Force bool
	// Orphan goes on though there are UnitedDeployments: the objects go, their workloads stay.
	Orphan bool
	// KeepAgents leaves the agents on the members.
	KeepAgents bool
	// Now is the time of the marks; Patience how long the hub may take to stop (default 1 minute).
	Now      time.Time
	Patience time.Duration
}

// Uninstall takes Underway off the hub and off the members. The order is safe to stop at any point, and everything can be
// done again:
//
//  1. Look at all: members, UnitedDeployments. Anything that is not allowed for ends it before anything is written.
//  2. Stop the hub, and wait until nobody leads: from here on nothing is written to members but what is said here.
//  3. Let the workloads of the hub's own cluster go: marked, without the reference by which the garbage collector would
//     delete them. Then release the finalizers of what travels by its label, and of the UnitedDeployments, which are deleted
//     without their dependents.
//  4. Give every member back, see Leave, and forget it.
//  5. Remove the hub's roles, account, Secrets, and CRDs without objects. Namespaces stay.
//
// Workloads are never deleted; a CRD with objects stays.
func Uninstall(ctx context.Context, hub client.Client, o UninstallOptions) error {
	u := &uninstaller{applier: &applier{where: HubWhere, client: hub, opts: o.Options}, o: o}
	for _, phase := range []func(context.Context) error{u.look, u.stop, u.release, u.members, u.clean} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

type uninstaller struct {
	*applier

	o     UninstallOptions
	id    string
	uds   []appsv1alpha1.UnitedDeployment
	known []fleetv1alpha1.MemberCluster
}

// look refuses before anything is written.
func (u *uninstaller) look(ctx context.Context) (err error) {
	if u.id, err = HubID(ctx, u.client); err != nil {
		return err
	}
	uds, known := &appsv1alpha1.UnitedDeploymentList{}, &fleetv1alpha1.MemberClusterList{}
	for _, list := range []client.ObjectList{uds, known} {
		if err := u.client.List(ctx, list); err != nil && !notInstalled(err) {
			return fmt.Errorf("looking at the hub: %w", err)
		}
	}
	u.uds, u.known = uds.Items, known.Items
	if err := u.unknown(ctx); err != nil {
		return err
	}
	var missing, names []string
	for i := range u.known {
		mc := &u.known[i]
		member := u.o.Members[mc.Name]
		if member == nil {
			missing = append(missing, mc.Name)
			continue
		}
		if err := mayLeaveAs(ctx, member, mc); err != nil {
			return err
		}
	}
	for i := range u.uds {
		names = append(names, u.uds[i].Namespace+"/"+u.uds[i].Name)
	}
	switch {
	case len(missing) > 0 && !u.o.Force:
		return fmt.Errorf("no kubeconfig for %s: give --member NAME=FILE for each, or leave what is there with --force", strings.Join(missing, ", "))
	case len(names) > 0 && !u.o.Orphan:
		return fmt.Errorf("%d UnitedDeployments would be deleted and their workloads left, nobody's: %s\ndelete those whose workloads should go first, then say --orphan for the others",
			len(names), strings.Join(names, ", "))
	}
	return nil
}

// unknown refuses a kubeconfig for a name that no member has: its cluster would be left as it is without a word. One that
// was given back and forgotten before a stop in the middle has no account of the hub any more, and is passed over.
func (u *uninstaller) unknown(ctx context.Context) error {
	there := make([]string, 0, len(u.known))
	for i := range u.known {
		there = append(there, u.known[i].Name)
	}
	for _, name := range slices.Sorted(maps.Keys(u.o.Members)) {
		if slices.Contains(there, name) {
			continue
		}
		account := &corev1.ServiceAccount{}
		err := u.o.Members[name].Get(ctx, client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: config.HubAccount}, account)
		switch {
		case apierrors.IsNotFound(err):
			u.report(Unchanged, "member "+name, "the hub does not know it, and it has no account of a hub")
		case err != nil:
			return fmt.Errorf("the hub knows no member %s, and its cluster does not answer: %w", name, err)
		default:
			return fmt.Errorf("the hub knows no member %s (--member %s=FILE), it knows %s; if that cluster was a member once: kubectl underway unjoin %s --kubeconfig FILE",
				name, name, cmp.Or(strings.Join(there, ", "), "none"), name)
		}
	}
	return nil
}

func notInstalled(err error) bool {
	return apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
}

// mayLeaveAs refuses a cluster that is not the member of that name.
func mayLeaveAs(ctx context.Context, member client.Client, mc *fleetv1alpha1.MemberCluster) error {
	seen, err := Identity(ctx, member)
	if err != nil {
		return fmt.Errorf("member %s: %w", mc.Name, err)
	}
	if mc.Status.Identity != "" && seen != mc.Status.Identity {
		return fmt.Errorf("the kubeconfig for %s reaches another cluster (kube-system UID %s, want %s)", mc.Name, seen, mc.Status.Identity)
	}
	return nil
}

// stop removes the hub's Deployment and waits until its leader Lease is no more renewed.
func (u *uninstaller) stop(ctx context.Context) error {
	if err := u.removeAll(ctx, config.HubManager); err != nil {
		return err
	}
	if u.opts.DryRun {
		return nil
	}
	patience := u.o.Patience
	if patience == 0 {
		patience = time.Minute
	}
	last, still, told := "", 0, false
	until := pause{
		what:   "Lease/" + appsv1alpha1.SystemNamespace + "/" + hubLease + " is no more renewed",
		remedy: "a hub that runs as a process is yours to stop", every: time.Second, limit: patience,
	}
	err := u.await(ctx, until, func(ctx context.Context) (bool, error) {
		lease := &coordinationv1.Lease{}
		err := u.client.Get(ctx, client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: hubLease}, lease)
		if apierrors.IsNotFound(err) || (err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "")) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if !told {
			told = true
			u.report(Waiting, "the hub stops", "Lease/"+appsv1alpha1.SystemNamespace+"/"+hubLease+" is held by "+*lease.Spec.HolderIdentity+": "+until.remedy)
		}
		// By our own clock: what is not renewed for 20 looks is over.
		if now := fmt.Sprint(*lease.Spec.HolderIdentity, lease.Spec.RenewTime); now != last {
			last, still = now, 0
		} else {
			still++
		}
		return still >= 20, nil
	})
	if err != nil {
		return fmt.Errorf("the hub still runs (Lease %s/%s is renewed): stop its process and do this again: %w", appsv1alpha1.SystemNamespace, hubLease, err)
	}
	return nil
}

// release lets the hub's own workloads go and deletes the UnitedDeployments without anything that depends on them.
func (u *uninstaller) release(ctx context.Context) error {
	if err := u.releaseCopies(ctx); err != nil {
		return err
	}
	if len(u.uds) == 0 {
		return u.revisions(ctx) // what a stop in the middle left
	}
	if u.id != "" { // without an id the hub was never started, and has nothing anywhere
		if _, err := u.letGo(ctx, u.id, nil, u.o.Now); err != nil {
			return err
		}
	}
	for i := range u.uds {
		if err := u.releaseOne(ctx, &u.uds[i]); err != nil {
			return err
		}
	}
	if err := u.released(ctx); err != nil {
		return err
	}
	return u.revisions(ctx)
}

// released waits until the UnitedDeployments are gone: the garbage collector takes the last finalizer off.
func (u *uninstaller) released(ctx context.Context) error {
	if u.opts.DryRun {
		return nil
	}
	var held []string
	until := pause{
		what: "the UnitedDeployments are gone", remedy: "look at their metadata.finalizers (orphan is taken off by the cluster's kube-controller-manager)",
		every: 200 * time.Millisecond, limit: time.Minute,
	}
	err := u.await(ctx, until, func(ctx context.Context) (bool, error) {
		list := &appsv1alpha1.UnitedDeploymentList{}
		err := u.client.List(ctx, list)
		held = heldBy(list.Items)
		return len(list.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("UnitedDeployments are still there: %s; %s, and do this again: %w", strings.Join(held, ", "), until.remedy, err)
	}
	return nil
}

// heldBy names each with the finalizers that hold it.
func heldBy(list []appsv1alpha1.UnitedDeployment) []string {
	out := make([]string, 0, len(list))
	for i := range list {
		out = append(out, fmt.Sprintf("%s/%s %v", list[i].Namespace, list[i].Name, list[i].Finalizers))
	}
	return out
}

func (u *uninstaller) releaseOne(ctx context.Context, ud *appsv1alpha1.UnitedDeployment) error {
	name := "UnitedDeployment/" + ud.Namespace + "/" + ud.Name
	if u.opts.DryRun {
		u.report(Removed, name, "its workloads stay")
		return nil
	}
	// Orphan first: with it on the object, whoever looks knows that nothing below is to be deleted.
	uid, orphan := ud.UID, metav1.DeletePropagationOrphan
	err := u.client.Delete(ctx, ud, client.Preconditions{UID: &uid}, client.PropagationPolicy(orphan))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	// The garbage collector takes the orphan finalizer off meanwhile, so that a conflict is nothing unusual.
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		err := u.client.Get(ctx, client.ObjectKeyFromObject(ud), ud)
		if err != nil || ud.UID != uid {
			return err
		}
		base := client.MergeFromWithOptions(ud.DeepCopy(), client.MergeFromWithOptimisticLock{})
		if !controllerutil.RemoveFinalizer(ud, appsv1alpha1.FinalizerChildren) {
			return nil
		}
		return u.client.Patch(ctx, ud, base)
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing %s: %w", name, err)
	}
	u.report(Removed, name, "its workloads stay")
	return nil
}

// revisions removes the ControllerRevisions of UnitedDeployments, which nobody else does once they are orphaned. Here no
// UnitedDeployment is left, so that all of them are nobody's.
func (u *uninstaller) revisions(ctx context.Context) error {
	list := &appsv1.ControllerRevisionList{}
	if err := u.client.List(ctx, list, client.HasLabels{appsv1alpha1.LabelOwnerUID}); err != nil {
		return fmt.Errorf("listing revisions: %w", err)
	}
	for i := range list.Items {
		r := &list.Items[i]
		if err := u.remove(ctx, r, "ControllerRevision/"+r.Namespace+"/"+r.Name, ""); err != nil {
			return err
		}
	}
	return nil
}

// members gives every member back. One that fails does not hold up the others, but what follows.
func (u *uninstaller) members(ctx context.Context) error {
	var errs []error
	for i := range u.known {
		mc := &u.known[i]
		if member := u.o.Members[mc.Name]; member != nil && u.id != "" {
			err := Leave(ctx, member, LeaveOptions{
				Options: u.opts, Name: mc.Name, HubID: u.id, Now: u.o.Now, KeepAgent: u.o.KeepAgents, RemoveCRDs: !u.o.KeepAgents,
				Kinds: u.o.Kinds[mc.Name],
			})
			if err != nil {
				errs = append(errs, err)
				continue
			}
		} else {
			u.left(mc.Name, u.id)
		}
		errs = append(errs, u.forget(ctx, mc, true, mc.Name))
	}
	return errors.Join(errs...)
}

// clean removes what is the hub's in its own cluster.
func (u *uninstaller) clean(ctx context.Context) error {
	ns := appsv1alpha1.SystemNamespace
	if err := u.removeCRDs(ctx, config.HubCRDs); err != nil {
		return err
	}
	if err := u.removeAll(ctx, config.HubClusterAPI, config.HubRBAC); err != nil {
		return err
	}
	for _, o := range []struct{ version, kind, name string }{
		{"v1", "Secret", appsv1alpha1.SecretHubID}, {"v1", "Secret", appsv1alpha1.SecretPropagation}, {"v1", "ConfigMap", appsv1alpha1.ConfigMapFreeze},
	} {
		if err := u.removeAlways(ctx, o.version, o.kind, ns, o.name); err != nil {
			return err
		}
	}
	return u.removeAlways(ctx, "coordination.k8s.io/v1", "Lease", ns, hubLease)
}

// removeAlways removes one of our own names, which need not carry our label.
func (u *uninstaller) removeAlways(ctx context.Context, apiVersion, kind, namespace, name string) error {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	err := u.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s/%s/%s: %w", kind, namespace, name, err)
	}
	return u.remove(ctx, obj, nameOf(obj), "")
}
