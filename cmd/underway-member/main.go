// Command underway-member is the agent of a member cluster: it reconciles the workloads that people and the hub write
// there, and updates their pods in place.
package main

import (
	"context"
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/underway-dev/underway/cmd/internal/boot"
	"github.com/underway-dev/underway/member"
)

func main() {
	var o member.Options
	os.Exit(boot.Main(member.Name, os.Args[1:],
		func(fs *flag.FlagSet) {
			fs.IntVar(&o.Concurrency, "concurrency", 5, "how many objects of a kind are reconciled at once")
			fs.BoolVar(&o.PartitionRollback, "partition-rollback", false, "what spec.updateStrategy.partitionRollback is where a "+
				"CloneSet does not say (OpenKruise's feature gate CloneSetPartitionRollback)")
		},
		func(ctx context.Context, b *boot.Options) error {
			return run(ctx, b, o)
		}))
}

// Namespace underway-system, for the leader Lease; an agent that runs as somebody else may create it:
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// run starts the agent.
func run(ctx context.Context, b *boot.Options, o member.Options) error {
	cfg, err := b.Config()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := member.AddToScheme(scheme); err != nil {
		return err
	}
	mgr, err := b.Manager(ctx, cfg, scheme, nil)
	if err != nil {
		return err
	}
	if b.LeaderElect {
		o.LeaseName = b.Name
	}
	if err := member.Setup(mgr, o); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
