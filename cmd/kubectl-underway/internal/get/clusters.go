package get

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/hub/screen"
)

type clusters struct {
	env      *cli.Env
	flags    *genericclioptions.ConfigFlags
	output   *cli.Output
	selector string
}

func newClusters(env *cli.Env) *cobra.Command {
	o := &clusters{env: env, flags: genericclioptions.NewConfigFlags(true), output: cli.NewOutput()}
	cmd := &cobra.Command{
		Use:     "clusters [NAME...]",
		Aliases: []string{"cluster", "membercluster", "memberclusters", "mc"},
		Short:   "List the members: reachable, ready, version, who reconciles there, last heard",
		Long: "List the members of the fleet.\n\n" +
			"HEARD is how long ago the hub wrote that the member answered; the hub writes it when something else changes.\n" +
			"-o wide adds the hub's id, the member's identity (UID of its kube-system namespace), its address and its kinds.",
		Example: "  # All members\n  kubectl underway get clusters\n\n" +
			"  # One, with identity and kinds\n  kubectl underway get clusters eu-1 -o wide",
		ValidArgsFunction: completeClusters(env, o.flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.output.Check(cmd); err != nil {
				return err
			}
			return o.run(cmd.Context(), args)
		},
	}
	o.flags.AddFlags(cmd.Flags())
	o.output.Bind(cmd)
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "only members with these labels")
	return cmd
}

func (o *clusters) run(ctx context.Context, names []string) error {
	c, err := o.env.Client(o.flags)
	if err != nil {
		return err
	}
	list, err := read(ctx, c, fleetv1alpha1.GroupVersion.WithKind("MemberCluster"), names, query{selector: o.selector})
	if err != nil {
		return err
	}
	if !o.output.Human() {
		return printMachine(o.env, o.output, list, len(names))
	}
	if len(list.Items) == 0 {
		o.env.Note("no members; `kubectl underway join NAME --kubeconfig FILE` registers one")
		return nil
	}
	members := &fleetv1alpha1.MemberClusterList{}
	if err := convert(list, members); err != nil {
		return err
	}
	return o.output.Table(o.env, screen.ClusterTable(members.Items, o.env.Clock.Now()), false)
}

// query narrows a read.
type query struct {
	namespace, selector string
}

// read lists, or gets by name, in the order asked for.
func read(ctx context.Context, c client.Client, gvk schema.GroupVersionKind, names []string, q query) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if len(names) == 0 {
		opts := &client.ListOptions{Namespace: q.namespace}
		selector, err := metav1.ParseToLabelSelector(q.selector)
		if err != nil {
			return nil, fmt.Errorf("--selector %q: %w", q.selector, err)
		}
		if opts.LabelSelector, err = metav1.LabelSelectorAsSelector(selector); err != nil {
			return nil, fmt.Errorf("--selector %q: %w", q.selector, err)
		}
		return list, c.List(ctx, list, opts)
	}
	if q.selector != "" {
		return nil, fmt.Errorf("--selector: it cannot be combined with names")
	}
	for _, name := range names {
		one := &unstructured.Unstructured{}
		one.SetGroupVersionKind(gvk)
		if err := c.Get(ctx, client.ObjectKey{Namespace: q.namespace, Name: name}, one); err != nil {
			return nil, err
		}
		list.Items = append(list.Items, *one)
	}
	return list, nil
}

// printMachine prints one object when one was named, as kubectl does, and else the list.
func printMachine(env *cli.Env, out *cli.Output, list *unstructured.UnstructuredList, named int) error {
	if named == 1 {
		return out.Object(env, &list.Items[0])
	}
	return out.Object(env, list)
}

func convert(list *unstructured.UnstructuredList, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.UnstructuredContent(), into); err != nil {
		return fmt.Errorf("reading what the hub answered: %w", err)
	}
	return nil
}

func completeClusters(env *cli.Env, flags *genericclioptions.ConfigFlags) cobra.CompletionFunc {
	return cli.CompleteNames(env, flags, fleetv1alpha1.GroupVersion.WithKind("MemberCluster"))
}
