package uninstall

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/hub/install"
)

// options are the flags.
type options struct {
	install.UninstallOptions

	flags   *genericclioptions.ConfigFlags
	members map[string]string
	yes     bool
}

// New is the command.
func New(env *cli.Env) *cobra.Command {
	o := &options{flags: genericclioptions.NewConfigFlags(true)}
	cmd := &cobra.Command{
		Use:   "uninstall [--member NAME=FILE ...] [--orphan] [--force]",
		Short: "Take Underway off the hub and its members; workloads stay",
		Long: `Take Underway off the hub and its members. No workload is deleted; nothing but namespaces is left, and CRDs that have
objects.

In this order, which can be stopped at any point and done again:
  1. look: a member without --member, or a UnitedDeployment without --orphan, ends it before anything is written
  2. stop the hub (its Deployment is removed; a process must be stopped by you) and wait until nobody leads
  3. mark the hub's own workloads as nobody's, release what travels by its label and the UnitedDeployments, and delete the
     latter without dependents
  4. give every member back, as unjoin does, and forget it
  5. remove the hub's CRDs, roles, account and Secrets

Members are reached by --member NAME=FILE, a kubeconfig with an administrator's rights, once for each; with --force those
without one are left as they are, and what stays there is printed.`,
		Example: "  kubectl underway uninstall --member eu-1=eu-1.yaml --member us-1=us-1.yaml --orphan --dry-run\n" +
			"  kubectl underway uninstall --member eu-1=eu-1.yaml --member us-1=us-1.yaml --orphan --yes",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), env) },
	}
	o.flags.AddFlags(cmd.Flags())
	f := cmd.Flags()
	f.StringToStringVar(&o.members, "member", nil, "`NAME=FILE`: the kubeconfig of a member, with an administrator's rights; may be repeated")
	f.BoolVar(&o.Orphan, "orphan", false, "delete UnitedDeployments and leave their workloads, nobody's")
	f.BoolVar(&o.Force, "force", false, "leave members without --member as they are, and print what stays there")
	f.BoolVar(&o.KeepAgents, "keep-agents", false, "leave the agents and CRDs on the members: they go on with the workloads that are there")
	f.BoolVar(&o.DryRun, "dry-run", false, "say what would be done and write nothing")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	return cmd
}

func (o *options) run(ctx context.Context, env *cli.Env) error {
	cfg, err := env.RESTConfig(o.flags)
	if err != nil {
		return err
	}
	hub, err := env.Connect(cfg)
	if err != nil {
		return err
	}
	if o.HubKinds, err = env.Served(cfg, install.HubWhere); err != nil {
		return err
	}
	o.Members, o.Kinds = map[string]client.Client{}, map[string][]schema.GroupVersionKind{}
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		file, none := o.members[name], ""
		flags := genericclioptions.NewConfigFlags(true)
		flags.KubeConfig, flags.Context = &file, &none
		cfg, err := env.RESTConfig(flags)
		if err == nil {
			o.Members[name], err = env.Connect(cfg)
		}
		if err == nil {
			o.Kinds[name], err = env.Served(cfg, name)
		}
		if err != nil {
			return fmt.Errorf("--member %s=%s: %w", name, file, err)
		}
	}
	o.Report, o.Now = env.Step, env.Clock.Now()
	if !o.DryRun && !o.yes && !env.Ask("Take Underway off this hub and its members?") {
		return cli.ErrNotConfirmed()
	}
	if err := install.Uninstall(ctx, hub, o.UninstallOptions); err != nil {
		return err
	}
	if o.DryRun {
		env.Note("dry run: nothing was written; CRDs whose objects would go are shown as kept")
	}
	return nil
}
