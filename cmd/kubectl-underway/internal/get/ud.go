package get

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/hub/screen"
)

type ud struct {
	env           *cli.Env
	flags         *genericclioptions.ConfigFlags
	output        *cli.Output
	selector      string
	allNamespaces bool
	watch         bool
}

func newUD(env *cli.Env) *cobra.Command {
	o := &ud{env: env, flags: genericclioptions.NewConfigFlags(true), output: cli.NewOutput()}
	cmd := &cobra.Command{
		Use:     "ud [NAME]",
		Aliases: []string{"uniteddeployment", "uniteddeployments", "uds"},
		Short:   "Show a UnitedDeployment as a tree: what each member was granted, has, and waits for",
		Long: "Show a UnitedDeployment as a tree, or list them when no name is given.\n\n" +
			"GRANTED   pods that may run the new revision, of those the subset has\n" +
			"UPDATED   pods that run it, proven\n" +
			"IN PLACE  pods that got there without being replaced; ? where the member does not say\n" +
			"WHY       on what it waits; NEXT is the command that moves it\n\n" +
			"-w redraws on a terminal, and elsewhere prints one line per change.",
		Example: "  # The tree, live\n  kubectl underway get ud web -n shop -w\n\n" +
			"  # All of them\n  kubectl underway get ud -A",
		ValidArgsFunction: cli.CompleteNames(env, o.flags, kind()),
		Args:              cli.Args(cobra.MaximumNArgs(1)),
		RunE:              o.run,
	}
	o.flags.AddFlags(cmd.Flags())
	o.output.Bind(cmd)
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "only those with these labels")
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "in all namespaces")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "go on showing changes until interrupted")
	return cmd
}

func (o *ud) run(cmd *cobra.Command, args []string) error {
	if err := o.output.Check(cmd); err != nil {
		return err
	}
	switch {
	case o.allNamespaces && len(args) > 0:
		return cli.Usage(cmd, "--all-namespaces: a name needs one namespace, give --namespace")
	case o.watch && len(args) == 0:
		return cli.Usage(cmd, "--watch: name the UnitedDeployment to watch")
	case o.watch && !o.output.Human():
		return cli.Usage(cmd, "--watch: it cannot be combined with --output; `kubectl get ud NAME -w -o ...` does that")
	}
	c, err := o.env.Client(o.flags)
	if err != nil {
		return err
	}
	if o.watch {
		return o.follow(cmd.Context(), c, args[0])
	}
	namespace := cli.Namespace(o.flags)
	if o.allNamespaces {
		namespace = ""
	}
	list, err := read(cmd.Context(), c, kind(), args, query{namespace: namespace, selector: o.selector})
	if err != nil {
		return err
	}
	if !o.output.Human() {
		return printMachine(o.env, o.output, list, len(args))
	}
	return o.print(cmd.Context(), c, list, len(args) == 1)
}

func (o *ud) print(ctx context.Context, c client.Client, list *unstructured.UnstructuredList, asTree bool) error {
	typed := &appsv1alpha1.UnitedDeploymentList{}
	if err := convert(list, typed); err != nil {
		return err
	}
	now := o.env.Clock.Now()
	if asTree {
		tree := screen.TreeOf(&typed.Items[0], o.frozen(ctx, c), now)
		_, err := fmt.Fprint(o.env.Out, tree.Render(o.env.Style(o.output.Wide(), o.output.NoHeaders, o.output.NoColor)))
		return err
	}
	if len(typed.Items) == 0 {
		o.env.Note("no UnitedDeployments found")
		return nil
	}
	return o.output.Table(o.env, screen.ListTable(typed.Items, now), o.allNamespaces)
}

// frozen reads who stopped the fleet. Who may not read it is told so on stderr and sees the tree all the same.
func (o *ud) frozen(ctx context.Context, c client.Client) *screen.Freeze {
	cm := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: appsv1alpha1.ConfigMapFreeze}, cm)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		o.env.Note("whether the fleet is frozen is not known: %v", err)
		return nil
	}
	return screen.FreezeOf(cm, o.env.Clock.Now())
}
