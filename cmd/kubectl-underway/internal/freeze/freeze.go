package freeze

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/hub/screen"
)

// NewFreeze is the command that stops.
func NewFreeze(env *cli.Env) *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	var all bool
	var reason string
	cmd := &cobra.Command{
		Use:   "freeze --all [--reason TEXT]",
		Short: "Stop every write of the hub to every member",
		Long: "Stop every write of the hub to every member, at once, until `kubectl underway unfreeze --all`.\n\n" +
			"It writes the ConfigMap underway-freeze (who, when, why) in namespace underway-system of the hub. Pods that an agent\n" +
			"was granted already go on moving; the hub grants no more. Leases are renewed all the same.",
		Example:               "  kubectl underway freeze --all --reason 'incident 991'",
		DisableFlagsInUseLine: true,
		Args:                  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !all {
				return cli.Usage(cmd, "--all is required: what is frozen is the whole fleet, nothing less")
			}
			c, err := env.Client(flags)
			if err != nil {
				return err
			}
			return freeze(cmd.Context(), env, c, reason)
		},
	}
	flags.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "the whole fleet (required)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who find it frozen")
	return cmd
}

// NewUnfreeze is the command that lets go.
func NewUnfreeze(env *cli.Env) *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	var all bool
	cmd := &cobra.Command{
		Use:                   "unfreeze --all",
		Short:                 "Let the hub write to members again",
		Long:                  "Let the hub write to members again: what was due meanwhile is sent.",
		Example:               "  kubectl underway unfreeze --all",
		DisableFlagsInUseLine: true,
		Args:                  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !all {
				return cli.Usage(cmd, "--all is required: what is frozen is the whole fleet, nothing less")
			}
			c, err := env.Client(flags)
			if err != nil {
				return err
			}
			return unfreeze(cmd.Context(), env, c)
		},
	}
	flags.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "the whole fleet (required)")
	return cmd
}

func freeze(ctx context.Context, env *cli.Env, c client.Client, reason string) error {
	now := env.Clock.Now()
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: appsv1alpha1.ConfigMapFreeze, Namespace: appsv1alpha1.SystemNamespace,
			Labels: map[string]string{appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf},
		},
		Data: map[string]string{
			screen.FreezeWho: whoAmI(ctx, c), screen.FreezeWhen: now.UTC().Format(time.RFC3339), screen.FreezeWhy: reason,
		},
	}
	err := c.Create(ctx, cm, client.FieldOwner(cli.FieldManager))
	switch {
	case apierrors.IsAlreadyExists(err):
		there := &corev1.ConfigMap{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(cm), there); err != nil {
			return fmt.Errorf("it is frozen already, by whom cannot be read: %w", err)
		}
		env.Say("already %s", screen.FreezeOf(there, now))
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w\nthis cluster has no namespace %s: is it the hub? `kubectl underway init` makes it", err, appsv1alpha1.SystemNamespace)
	case err != nil:
		return err
	}
	env.Say("%s", screen.FreezeOf(cm, now))
	env.Note("the hub writes nothing to members from here on; `kubectl underway unfreeze --all` ends it")
	return nil
}

func unfreeze(ctx context.Context, env *cli.Env, c client.Client) error {
	cm := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: appsv1alpha1.ConfigMapFreeze}
	err := c.Get(ctx, key, cm)
	if apierrors.IsNotFound(err) {
		env.Say("not frozen")
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.Delete(ctx, cm, client.Preconditions{UID: &cm.UID}); client.IgnoreNotFound(err) != nil {
		return err
	}
	env.Say("unfrozen; it was %s", screen.FreezeOf(cm, env.Clock.Now()))
	return nil
}

// whoAmI is the name by which the hub knows the caller; a server that does not tell leaves it empty.
func whoAmI(ctx context.Context, c client.Client) string {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}
