package undo

import (
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/history"
	"github.com/underway-dev/underway/hub/screen"
	"github.com/underway-dev/underway/hub/united/plan"
)

type undo struct {
	env    *cli.Env
	flags  *genericclioptions.ConfigFlags
	number int64
	dryRun bool
}

// New is the command.
func New(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "undo",
		Short: "Write a stored revision back to a UnitedDeployment's spec",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cli.Usage(cmd, "say what: ud NAME") },
	}
	cmd.AddCommand(newUD(env))
	return cmd
}

func newUD(env *cli.Env) *cobra.Command {
	o := &undo{env: env, flags: genericclioptions.NewConfigFlags(true)}
	cmd := &cobra.Command{
		Use:     "ud NAME",
		Aliases: []string{"uniteddeployment"},
		Short:   "Go back to the completed revision, or to any other",
		Long: "Write spec.template and the overrides of a stored revision back to the spec: without --to-revision the completed\n" +
			"revision while a release is under way, else the one before the present one. Replicas, partitions and the list of\n" +
			"subsets stay as they are. Going back to the completed revision is no release: every subset that moved goes back at\n" +
			"once. Going to another one is a release like any other, and partitions hold it.\n\n" +
			"Nothing is written when the spec has changed since it was read. A tool that applies the manifest again (GitOps)\n" +
			"takes the undo back: change its source, too.",
		Example: "  # Back to where the fleet was before this release\n  kubectl underway undo ud web -n shop\n\n" +
			"  # What it would do\n  kubectl underway undo ud web -n shop --to-revision 3 --dry-run",
		ValidArgsFunction: cli.CompleteNames(env, o.flags, cli.UnitedKind()),
		Args:              cli.Args(cobra.ExactArgs(1)),
		RunE:              o.run,
	}
	o.flags.AddFlags(cmd.Flags())
	cmd.Flags().Int64Var(&o.number, "to-revision", 0, "number of the revision to go back to; 0: the one before")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "ask the API server and say what would happen, without writing")
	return cmd
}

func (o *undo) run(cmd *cobra.Command, args []string) error {
	if o.number < 0 {
		return cli.Usage(cmd, "--to-revision %d: a number above 0, as `kubectl underway history ud %s` lists them", o.number, args[0])
	}
	c, err := o.env.Client(o.flags)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	ud, err := cli.GetUnited(ctx, c, client.ObjectKey{Namespace: cli.Namespace(o.flags), Name: args[0]})
	if err != nil {
		return err
	}
	list, err := cli.Revisions(ctx, c, ud.Typed)
	if err != nil {
		return err
	}
	raw, err := ud.Raw.MarshalJSON()
	if err != nil {
		return fmt.Errorf("reading what the hub answered: %w", err)
	}
	stored, known := history.Stored(list)
	way, err := plan.Undo(ud.Typed, raw, stored, o.number, known)
	if err != nil {
		return err
	}
	name := ud.Typed.Namespace + "/" + ud.Typed.Name
	to := fmt.Sprintf("revision %d (%s)", way.To.Number, screen.ShortRevision(way.To.Name))
	if way.Nothing {
		o.env.Say("%s: the spec is %s already; nothing was written", name, to)
		return nil
	}
	var options []client.PatchOption
	done := "went back to"
	if o.dryRun {
		options, done = append(options, client.DryRunAll), "would go back to"
	}
	err = c.Patch(ctx, ud.Raw, client.RawPatch(types.JSONPatchType, way.Patch), append(options, client.FieldOwner(cli.FieldManager))...)
	if apierrors.IsInvalid(err) || apierrors.IsConflict(err) {
		return fmt.Errorf("nothing was written, the spec may have changed since it was read; look again and repeat it: %w", err)
	}
	if err != nil {
		return err
	}
	o.env.Say("%s %s %s", name, done, to)
	for _, change := range way.Changes {
		o.env.Say("  %s", screen.Clean(change))
	}
	for _, says := range way.Says {
		o.env.Say("%s", screen.Clean(says))
	}
	return nil
}
