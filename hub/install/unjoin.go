package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// UnjoinOptions are for [Unjoin].
type UnjoinOptions struct {
	Options

	// Name of the member.
	Name string
	// Orphan goes on though UnitedDeployments have pods there: they stay, and are nobody's.
	Orphan bool
	// KeepAgent and RemoveCRDs are of LeaveOptions.
	KeepAgent, RemoveCRDs bool
	// Kinds are of LeaveOptions.
	Kinds []schema.GroupVersionKind
	// Now is the time of the marks.
	Now time.Time
}

// Unjoin takes a member out of the fleet. First the hub forgets it, and so stops to write there; then the member is given
// back. member is nil where it cannot be reached: what is left there is reported. It can be done again after a stop in the
// middle, and for a member that the hub does not know any more. No workload is deleted.
func Unjoin(ctx context.Context, hub, member client.Client, o UnjoinOptions) error {
	a := &applier{where: HubWhere, client: hub, opts: o.Options}
	id, err := HubID(ctx, hub)
	if err != nil {
		return err
	}
	mc := &fleetv1alpha1.MemberCluster{}
	err = hub.Get(ctx, client.ObjectKey{Name: o.Name}, mc)
	known := err == nil
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading MemberCluster %s: %w", o.Name, err)
	}
	if known {
		if err := mayLeave(ctx, hub, member, mc, o.Orphan); err != nil {
			return err
		}
		id = firstOf(id, mc.Status.HubID)
	}
	if member != nil && id == "" {
		return fmt.Errorf("the hub has no id (Secret %s/%s): nothing on %s can be told to be this hub's; was the hub ever started?",
			appsv1alpha1.SystemNamespace, appsv1alpha1.SecretHubID, o.Name)
	}
	if err := a.forget(ctx, mc, known, o.Name); err != nil {
		return err
	}
	if member == nil {
		a.left(o.Name, id)
		return nil
	}
	return Leave(ctx, member, LeaveOptions{
		Options: o.Options, Name: o.Name, HubID: id, Now: o.Now, KeepAgent: o.KeepAgent, RemoveCRDs: o.RemoveCRDs,
		Kinds: o.Kinds,
	})
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// mayLeave refuses what would surprise: what isMember refuses, and pods there that nobody has said what to do with.
func mayLeave(ctx context.Context, hub, member client.Client, mc *fleetv1alpha1.MemberCluster, orphan bool) error {
	if err := isMember(ctx, member, mc); err != nil {
		return err
	}
	placed, err := Placed(ctx, hub, mc.Name)
	if err != nil || len(placed) == 0 || orphan {
		return err
	}
	return fmt.Errorf("these UnitedDeployments have pods on %s: %s\neither empty the member first with --drain, which says what is yours to do, or leave the pods there, nobody's, with --orphan",
		mc.Name, strings.Join(placed, ", "))
}

// isMember refuses a cluster that is not the member of that name, and a Cluster that would come back by itself. member is
// nil where it cannot be reached.
func isMember(ctx context.Context, member client.Client, mc *fleetv1alpha1.MemberCluster) error {
	if followed := conditionReason(mc, fleetv1alpha1.ConditionClusterFollowed); mc.Spec.ClusterRef != nil && followed != fleetv1alpha1.ReasonDeselected &&
		followed != fleetv1alpha1.ReasonClusterNotFound {
		return fmt.Errorf("member %s is Cluster %s/%s of Cluster API and would come back: take the label off the Cluster first",
			mc.Name, mc.Spec.ClusterRef.Namespace, mc.Spec.ClusterRef.Name)
	}
	if member == nil || mc.Status.Identity == "" {
		return nil
	}
	seen, err := Identity(ctx, member)
	if err != nil {
		return fmt.Errorf("member %s: %w", mc.Name, err)
	}
	if seen != mc.Status.Identity {
		return fmt.Errorf("this cluster is not member %s (kube-system UID %s, want %s): look at --kubeconfig and --context", mc.Name, seen, mc.Status.Identity)
	}
	return nil
}

func conditionReason(mc *fleetv1alpha1.MemberCluster, kind string) string {
	for _, c := range mc.Status.Conditions {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}

// Placed names the UnitedDeployments that have, or want, a child on a member, as "<namespace>/<name>".
func Placed(ctx context.Context, hub client.Client, member string) ([]string, error) {
	list := &appsv1alpha1.UnitedDeploymentList{}
	if err := hub.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing UnitedDeployments: %w", err)
	}
	var out []string
	for i := range list.Items {
		ud := &list.Items[i]
		wants := slices.ContainsFunc(ud.Spec.Topology.Subsets, func(s appsv1alpha1.Subset) bool { return s.Cluster == member })
		has := slices.ContainsFunc(ud.Status.SubsetStatuses, func(s appsv1alpha1.SubsetStatus) bool { return s.Cluster == member })
		if wants || has {
			out = append(out, ud.Namespace+"/"+ud.Name)
		}
	}
	return out, nil
}

// forget takes the MemberCluster and its credential off the hub.
func (a *applier) forget(ctx context.Context, mc *fleetv1alpha1.MemberCluster, known bool, name string) error {
	if known {
		if err := a.remove(ctx, mc, "MemberCluster/"+name, "the hub writes there no more"); err != nil {
			return err
		}
	}
	if err := a.gone(ctx, name); err != nil {
		return err
	}
	return a.removeNamed(ctx, "v1", "Secret", appsv1alpha1.SystemNamespace, SecretName(name))
}

// gone waits until a MemberCluster that somebody's finalizer holds is gone; a credential outlives nobody who may use it.
func (a *applier) gone(ctx context.Context, name string) error {
	if a.opts.DryRun {
		return nil
	}
	err := a.client.Get(ctx, client.ObjectKey{Name: name}, &fleetv1alpha1.MemberCluster{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading MemberCluster %s: %w", name, err)
	}
	return fmt.Errorf("MemberCluster %s is being deleted and a finalizer holds it: look at its metadata.finalizers, and do this again", name)
}

// left reports what stays on a member that could not be reached.
func (a *applier) left(name, hubID string) {
	ns := appsv1alpha1.SystemNamespace
	for _, what := range []string{
		"workloads and what travelled with them (label " + appsv1alpha1.LabelHub + "=" + hubID + "), unmarked",
		"ServiceAccount/" + ns + "/underway-hub, with its roles and bindings (app.kubernetes.io/part-of=underway)",
		"Lease/" + ns + "/" + appsv1alpha1.LeaseHubPrefix + hubID, "Deployment/" + ns + "/underway-member, if join made it", "CRDs",
	} {
		a.opts.report(Step{Where: name, Action: Kept, Object: what, Note: "not reached; when it answers again: kubectl underway unjoin " + name + " --kubeconfig FILE"})
	}
}

func (o Options) report(s Step) {
	if o.Report != nil {
		o.Report(s)
	}
}
