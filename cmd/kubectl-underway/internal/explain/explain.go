package explain

import (
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/hub/screen"
)

type explain struct {
	env    *cli.Env
	flags  *genericclioptions.ConfigFlags
	subset string
}

// New is the command.
func New(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "explain",
		Aliases: []string{"why"},
		Short:   "Say why a UnitedDeployment is not moving, since when, and what moves it",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cli.Usage(cmd, "say what: ud NAME") },
	}
	cmd.AddCommand(newUD(env))
	return cmd
}

func newUD(env *cli.Env) *cobra.Command {
	o := &explain{env: env, flags: genericclioptions.NewConfigFlags(true)}
	cmd := &cobra.Command{
		Use:     "ud NAME",
		Aliases: []string{"uniteddeployment"},
		Short:   "For each subset that waits: on what, since when, how old the report is, and the command that moves it",
		Example: "  kubectl underway explain ud web -n shop\n\n" +
			"  # One subset\n  kubectl underway explain ud web -n shop --subset eu",
		ValidArgsFunction: cli.CompleteNames(env, o.flags, cli.UnitedKind()),
		Args:              cli.Args(cobra.ExactArgs(1)),
		RunE:              o.run,
	}
	o.flags.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.subset, "subset", "", "this subset only")
	return cmd
}

func (o *explain) run(cmd *cobra.Command, args []string) error {
	c, err := o.env.Client(o.flags)
	if err != nil {
		return err
	}
	ctx, now := cmd.Context(), o.env.Clock.Now()
	ud, err := cli.GetUnited(ctx, c, client.ObjectKey{Namespace: cli.Namespace(o.flags), Name: args[0]})
	if err != nil {
		return err
	}
	var frozen *screen.Freeze
	cm := &corev1.ConfigMap{}
	switch err := c.Get(ctx, client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: appsv1alpha1.ConfigMapFreeze}, cm); {
	case err == nil:
		frozen = screen.FreezeOf(cm, now)
	case !apierrors.IsNotFound(err):
		o.env.Note("whether the fleet is frozen is not known: %v", err)
	}
	text, err := screen.Explain(ud.Typed, frozen, o.subset, now)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(o.env.Out, text.Render())
	return err
}
