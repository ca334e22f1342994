// Command underway-hub keeps the workloads of a fleet of clusters as their UnitedDeployments on this one say.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/cmd/internal/boot"
	"github.com/underway-dev/underway/hub"
	"github.com/underway-dev/underway/hub/travel/plan"
)

func main() {
	var o hub.Options
	var capi clusterAPI
	var kinds string
	os.Exit(boot.Main(hub.Name, os.Args[1:],
		func(fs *flag.FlagSet) {
			fs.IntVar(&o.Workers, "concurrency", 4, "how many UnitedDeployments are reconciled at once")
			fs.StringVar((*string)(&o.Content), "content", string(hub.ContentAll),
				"what travels to members beside workloads, of what their templates name: All, NoSecrets or Off")
			fs.StringVar(&kinds, "propagate-kinds", "",
				"kinds beside Services whose objects travel to members when they are labelled fleet.underway.dev/propagate=true, as networking.k8s.io/v1/Ingress,v1/ConfigMap; the hub needs the rights, here and there")
			capi.bind(fs)
		},
		func(ctx context.Context, b *boot.Options) (err error) {
			if o.PropagateKinds, err = plan.ParseKinds(kinds); err != nil {
				return fmt.Errorf("--propagate-kinds: %w", err)
			}
			if o.ClusterAPI, err = capi.options(); err != nil {
				return err
			}
			return run(ctx, b, o)
		}))
}

func run(ctx context.Context, b *boot.Options, o hub.Options) error {
	cfg, err := b.Config()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := hub.AddToScheme(scheme); err != nil {
		return err
	}
	o.Holder = holder()
	var lockErr error
	mgr, err := b.Manager(ctx, cfg, scheme, func(m *ctrl.Options) {
		lockErr = hub.Caches(m)
		if b.LeaderElect && lockErr == nil {
			m.LeaderElectionResourceLockInterface, lockErr = lock(b, cfg, o.Holder)
		}
	})
	if lockErr != nil {
		return fmt.Errorf("preparing the manager: %w", lockErr)
	}
	if err != nil {
		return err
	}
	if b.LeaderElect {
		o.Lease = b.Name
	}
	if err := hub.Setup(ctx, mgr, o); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// holder is this process in Leases: its host and a random part.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + string(uuid.NewUUID())
}

// lock is the leader Lease under an identity that we know: the hub reads the Lease to find out whether it still leads.
func lock(b *boot.Options, cfg *rest.Config, identity string) (resourcelock.Interface, error) {
	return resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, appsv1alpha1.SystemNamespace, b.Name,
		resourcelock.ResourceLockConfig{Identity: identity}, cfg, b.RenewDeadline)
}
