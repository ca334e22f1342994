package install

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// hubLease is the hub's leader Lease.
const hubLease = "underway-hub"

// silence is how long a hub may show no sign of life before it is said that none seems to run. It renews its Lease every 2 s.
const silence = 30 * time.Second

// sign is what a hub leaves behind where it runs.
type sign struct {
	// holder and renewed are of the leader Lease; empty where there is none.
	holder, renewed string
	// observed is the generation of the MemberCluster that the hub has seen.
	observed int64
}

func signOf(lease *coordinationv1.Lease, mc *fleetv1alpha1.MemberCluster) sign {
	out := sign{holder: ptr.Deref(lease.Spec.HolderIdentity, ""), observed: mc.Status.ObservedGeneration}
	if at := lease.Spec.RenewTime; at != nil {
		out.renewed = at.UTC().Format(time.RFC3339Nano)
	}
	return out
}

// pulse tells by signs, and by our own clock only, whether a hub runs.
type pulse struct {
	last sign
	at   time.Time
}

// beat takes a sign in, and says for how long nothing has changed.
func (p *pulse) beat(s sign, now time.Time) time.Duration {
	if p.at.IsZero() || s != p.last {
		p.last, p.at = s, now
	}
	return now.Sub(p.at)
}

// gone says why no hub seems to run; "" while one may.
func (p *pulse) gone(s sign, now time.Time) string {
	if p.beat(s, now) < silence {
		return ""
	}
	lease := "Lease " + appsv1alpha1.SystemNamespace + "/" + hubLease
	why := lease + " does not exist"
	switch {
	case s.holder != "" && s.renewed != "":
		why = fmt.Sprintf("%s of %s was last renewed at %s", lease, s.holder, s.renewed)
	case s.renewed != "":
		why = fmt.Sprintf("nobody holds %s since %s", lease, s.renewed)
	}
	return "no hub seems to run: " + why + ", and nothing moves without one; start it: underway-hub --kubeconfig FILE, " +
		"or its Deployment (kubectl -n " + appsv1alpha1.SystemNamespace + " get deployment " + hubLease + ")"
}

// readSign reads it from the hub's cluster.
func readSign(ctx context.Context, hub client.Client, mc *fleetv1alpha1.MemberCluster) (sign, error) {
	lease := &coordinationv1.Lease{}
	err := hub.Get(ctx, client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: hubLease}, lease)
	if client.IgnoreNotFound(err) != nil {
		return sign{}, fmt.Errorf("reading the hub's Lease: %w", err)
	}
	return signOf(lease, mc), nil
}
