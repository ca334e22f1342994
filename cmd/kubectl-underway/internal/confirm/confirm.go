package confirm

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/hub/screen"
)

// pending is one object that waits for a person.
type pending struct {
	object       client.Object
	name         string
	confirmation screen.Confirmation
}

// finder finds what waits.
type finder func(ctx context.Context, c client.Client) ([]pending, error)

// confirmer asks and writes.
type confirmer struct {
	env   *cli.Env
	flags *genericclioptions.ConfigFlags
	yes   bool
}

// New is the command.
func New(env *cli.Env) *cobra.Command {
	o := &confirmer{env: env, flags: genericclioptions.NewConfigFlags(true)}
	cmd := &cobra.Command{
		Use:   "confirm (cluster NAME | hub | ud NAME | KIND NAME)",
		Short: "Accept what the hub will not decide alone",
		Long: "Accept what the hub will not decide alone. Each form shows what it accepts and asks, unless --yes.\n\n" +
			"  cluster NAME   another cluster answers under the member's name (IdentityChanged)\n" +
			"  hub            members carry newer intents than this hub remembers (HubBehind), or another hub of the same id\n" +
			"                 writes (TwoHubs)\n" +
			"  ud NAME        several subsets leave at once, or claims go with one (RemovalHeld)\n" +
			"  KIND NAME      an object that travels by its label, such as service/web, leaves several members at once",
		Example: "  kubectl underway confirm service/web -n shop",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usage(cmd, "say what: cluster NAME, hub, ud NAME or KIND NAME")
			}
			kind, name, ok := split(args)
			if !ok {
				return cli.Usage(cmd, "%q is not KIND NAME, nor KIND/NAME", strings.Join(args, " "))
			}
			return o.object(cmd.Context(), kind, name)
		},
	}
	o.bind(cmd)
	cmd.AddCommand(newCluster(env), newHub(env), newUD(env))
	return cmd
}

func newCluster(env *cli.Env) *cobra.Command {
	o := &confirmer{env: env, flags: genericclioptions.NewConfigFlags(true)}
	cmd := &cobra.Command{
		Use:               "cluster NAME",
		Short:             "Accept that another cluster answers under the member's name",
		Example:           "  kubectl underway confirm cluster eu-1",
		Args:              cli.Args(cobra.ExactArgs(1)),
		ValidArgsFunction: cli.CompleteNames(env, o.flags, fleetv1alpha1.GroupVersion.WithKind("MemberCluster")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), "member "+args[0], func(ctx context.Context, c client.Client) ([]pending, error) {
				return ofMember(ctx, c, args[0])
			})
		},
	}
	o.bind(cmd)
	return cmd
}

func ofMember(ctx context.Context, c client.Client, name string) ([]pending, error) {
	m := &fleetv1alpha1.MemberCluster{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, m); err != nil {
		return nil, err
	}
	if found, ok := screen.ClusterConfirmation(m); ok {
		return []pending{{object: m, name: "member " + m.Name, confirmation: found}}, nil
	}
	if _, ok := screen.HubConfirmation(m); ok {
		return nil, fmt.Errorf("what waits on member %s is about the hub: `kubectl underway confirm hub`", m.Name)
	}
	return nil, nil
}

func newHub(env *cli.Env) *cobra.Command {
	o := &confirmer{env: env, flags: genericclioptions.NewConfigFlags(true)}
	cmd := &cobra.Command{
		Use:     "hub",
		Short:   "Accept that this hub goes on, though members know newer intents or another hub",
		Example: "  kubectl underway confirm hub",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), "the hub", func(ctx context.Context, c client.Client) ([]pending, error) {
				members := &fleetv1alpha1.MemberClusterList{}
				if err := c.List(ctx, members); err != nil {
					return nil, err
				}
				var all []pending
				for i := range members.Items {
					m := &members.Items[i]
					if found, ok := screen.HubConfirmation(m); ok {
						all = append(all, pending{object: m, name: "the hub, seen on member " + m.Name, confirmation: found})
					}
				}
				return all, nil
			})
		},
	}
	o.bind(cmd)
	return cmd
}

func newUD(env *cli.Env) *cobra.Command {
	o := &confirmer{env: env, flags: genericclioptions.NewConfigFlags(true)}
	cmd := &cobra.Command{
		Use:               "ud NAME",
		Short:             "Accept that subsets of a UnitedDeployment leave",
		Example:           "  kubectl underway confirm ud web -n shop",
		Args:              cli.Args(cobra.ExactArgs(1)),
		ValidArgsFunction: cli.CompleteNames(env, o.flags, appsv1alpha1.GroupVersion.WithKind("UnitedDeployment")),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := client.ObjectKey{Namespace: cli.Namespace(o.flags), Name: args[0]}
			return o.run(cmd.Context(), "UnitedDeployment "+key.String(), func(ctx context.Context, c client.Client) ([]pending, error) {
				return ofUnited(ctx, c, key)
			})
		},
	}
	o.bind(cmd)
	return cmd
}

func ofUnited(ctx context.Context, c client.Client, key client.ObjectKey) ([]pending, error) {
	ud := &appsv1alpha1.UnitedDeployment{}
	if err := c.Get(ctx, key, ud); err != nil {
		return nil, err
	}
	if found, ok := screen.UDConfirmation(ud); ok {
		return []pending{{object: ud, name: "UnitedDeployment " + key.String(), confirmation: found}}, nil
	}
	return nil, nil
}

func (o *confirmer) bind(cmd *cobra.Command) {
	o.flags.AddFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
}

func (o *confirmer) run(ctx context.Context, what string, find finder) error {
	c, err := o.env.Client(o.flags)
	if err != nil {
		return err
	}
	all, err := find(ctx, c)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		o.env.Say("nothing waits for confirmation on %s", what)
		return nil
	}
	for _, p := range all {
		o.env.Note("%s: %s: %s", p.name, p.confirmation.Condition, p.confirmation.Message)
		o.env.Note("  accepts: %s", screen.Clean(p.confirmation.Value))
	}
	if !o.yes && !o.env.Ask("accept?") {
		return cli.ErrNotConfirmed()
	}
	for _, p := range all {
		if err := write(ctx, c, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		o.env.Say("%s: confirmed %s", p.name, screen.Clean(p.confirmation.Value))
	}
	return nil
}

// write patches the one annotation, so that fields this build does not know are left alone.
func write(ctx context.Context, c client.Client, p pending) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         p.object.GetUID(),
		"annotations": map[string]string{appsv1alpha1.AnnotationConfirm: p.confirmation.Value},
	}})
	if err != nil {
		return err
	}
	return c.Patch(ctx, p.object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(cli.FieldManager))
}
