package unjoin

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/hub/install"
)

// options are the flags.
type options struct {
	install.UnjoinOptions

	kubeconfig, context       string
	hubKubeconfig, hubContext string
	force, drain              bool
	timeout                   time.Duration
}

// New is the command.
func New(env *cli.Env) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "unjoin NAME (--kubeconfig FILE | --force) [--drain | --orphan]",
		Short: "Take a cluster out of the fleet",
		Long: `Take a cluster out of the fleet, and back everything that join gave: the hub's account with its roles, bindings and token,
its Lease, and the agent. No workload is deleted.

While UnitedDeployments have pods there it refuses and names them. Two ways on:
  --drain   empties the member first. It is marked (spec.drain of the MemberCluster): nothing new is made there, subsets that
            a subsetTemplate makes of it leave once the others have taken over, and of subsets that a list names it says
            what to edit. It waits and says what for; stopped, or after --timeout, the mark stays and the hub goes on.
  --orphan  leaves the workloads as they are, marked as nobody's (fleet.underway.dev/orphaned).

The hub forgets the member first, and so stops to write there; then the member is given back. A member that does not answer
is left with --force: what stays there is printed, and the same command with --kubeconfig takes it back later.

What is not ours (by the label app.kubernetes.io/part-of=underway) and namespaces stay. CRDs stay unless --remove-crds, and
with objects always.`,
		Example: "  kubectl underway unjoin eu-1 --kubeconfig eu-1.yaml --dry-run\n" +
			"  kubectl underway unjoin eu-1 --kubeconfig eu-1.yaml --drain --timeout 1h\n" +
			"  kubectl underway unjoin eu-1 --kubeconfig eu-1.yaml --orphan --keep-agent\n\n" +
			"  # The cluster is lost\n  kubectl underway unjoin eu-1 --force --orphan",
		DisableFlagsInUseLine: true,
		Args:                  cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Name = args[0]
			if len(validation.IsDNS1123Label(o.Name)) > 0 {
				return cli.Usage(cmd, "NAME %q: a member's name is a DNS label", o.Name)
			}
			if (o.kubeconfig == "") != o.force {
				return cli.Usage(cmd, "say either --kubeconfig FILE, which reaches the MEMBER as its administrator, or --force, which leaves what is there")
			}
			switch {
			case o.drain && o.force:
				return cli.Usage(cmd, "--drain needs a member that answers; --force is for one that does not")
			case o.drain && o.Orphan:
				return cli.Usage(cmd, "--drain and --orphan exclude each other: the one moves the workloads, the other leaves them")
			case o.timeout != 0 && !o.drain:
				return cli.Usage(cmd, "--timeout is for --drain")
			case o.timeout < 0:
				return cli.Usage(cmd, "--timeout %s: it must not be negative", o.timeout)
			}
			return o.run(cmd.Context(), env)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the MEMBER, with an administrator's rights")
	f.StringVar(&o.context, "context", "", "context of the member in --kubeconfig; default: its current one")
	f.StringVar(&o.hubKubeconfig, "hub-kubeconfig", "", "kubeconfig `file` of the HUB; default: $KUBECONFIG, then ~/.kube/config")
	f.StringVar(&o.hubContext, "hub-context", "", "context of the hub; default: the current one")
	f.BoolVar(&o.drain, "drain", false, "empty the member first: the others take over before anything goes")
	f.DurationVar(&o.timeout, "timeout", 0, "how long --drain may take; 0: as long as it takes")
	f.BoolVar(&o.Orphan, "orphan", false, "leave the pods of UnitedDeployments there, nobody's")
	f.BoolVar(&o.force, "force", false, "the member cannot be reached: take it out on the hub only, and print what stays there")
	f.BoolVar(&o.KeepAgent, "keep-agent", false, "leave the agent: it goes on with the workloads that are there")
	f.BoolVar(&o.RemoveCRDs, "remove-crds", false, "remove our CRDs that have no objects")
	f.BoolVar(&o.DryRun, "dry-run", false, "say what would be done and write nothing")
	_ = cmd.MarkFlagFilename("kubeconfig")
	_ = cmd.MarkFlagFilename("hub-kubeconfig")
	return cmd
}

func (o *options) run(ctx context.Context, env *cli.Env) error {
	hub, err := env.Client(connection(o.hubKubeconfig, o.hubContext))
	if err != nil {
		return fmt.Errorf("the hub ($KUBECONFIG or --hub-kubeconfig; --kubeconfig is the member's): %w", err)
	}
	var member client.Client
	if !o.force {
		if member, err = o.connect(ctx, env); err != nil {
			return fmt.Errorf("the member (--kubeconfig %s): %w", o.kubeconfig, err)
		}
	}
	o.Report, o.Now = env.Step, env.Clock.Now()
	if o.drain {
		drain := install.DrainOptions{Options: o.Options, Name: o.Name, Timeout: o.timeout}
		if err := install.Drain(ctx, hub, member, drain); err != nil {
			return err
		}
		if o.DryRun {
			env.Note("dry run: nothing was written; when the member is empty it is taken out, as `unjoin %s --dry-run --orphan` shows", o.Name)
			return nil
		}
		o.Now = env.Clock.Now()
	}
	if err := install.Unjoin(ctx, hub, member, o.UnjoinOptions); err != nil {
		return err
	}
	if o.DryRun {
		env.Note("dry run: nothing was written")
	}
	return nil
}

// connect reaches the member and asks it what it serves.
func (o *options) connect(ctx context.Context, env *cli.Env) (client.Client, error) {
	cfg, err := env.RESTConfig(connection(o.kubeconfig, o.context))
	if err != nil {
		return nil, err
	}
	member, err := env.Connect(cfg)
	if err != nil {
		return nil, err
	}
	if _, err := install.Identity(ctx, member); err != nil {
		return nil, fmt.Errorf("it does not answer; --force leaves what is there: %w", err)
	}
	o.Kinds, err = env.Served(cfg, o.Name)
	return member, err
}

func connection(kubeconfig, context string) *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.Context = &kubeconfig, &context
	return flags
}
