package hubinit

import (
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/hub/install"
)

// New is the command.
func New(env *cli.Env) *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	var opts install.HubOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a cluster the hub: CRDs, namespace and account",
		Long: "Make a cluster the hub: CRDs, namespace underway-system, account and roles.\n\n" +
			"The cluster is the one of --kubeconfig and --context, as with kubectl. Doing it again changes nothing; CRDs of " +
			"another version of ours are changed with --upgrade only, and CRDs of somebody else never.\n\n" +
			"Without --hub-image no Deployment is made: run underway-hub yourself. There is no default registry.",
		Example: "  # See first\n  kubectl underway init --dry-run\n\n" +
			"  # The hub runs in the cluster\n  kubectl underway init --hub-image registry.example/underway-hub:v0.1.0",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := metav1.ParseToLabelSelector(opts.ClusterAPISelector); err != nil {
				return cli.Usage(cmd, "--cluster-api-selector %q: %v", opts.ClusterAPISelector, err)
			}
			c, err := env.Client(flags)
			if err != nil {
				return err
			}
			opts.Report = env.Step
			if err := install.Hub(cmd.Context(), c, opts); err != nil {
				return err
			}
			if opts.DryRun {
				env.Note("dry run: nothing was written")
				return nil
			}
			if opts.Image == "" {
				env.Note("next: run underway-hub --kubeconfig FILE%s against this cluster, then", hubFlag(opts.ClusterAPISelector))
			}
			env.Note("next: kubectl underway join NAME --kubeconfig FILE --all-namespaces --no-agent")
			return nil
		},
	}
	flags.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "say what would be done and write nothing")
	cmd.Flags().BoolVar(&opts.Upgrade, "upgrade", false, "change CRDs and the hub's Deployment when they differ from this version's")
	cmd.Flags().StringVar(&opts.Image, "hub-image", "", "image of underway-hub; without it no Deployment is made")
	cmd.Flags().StringVar(&opts.ClusterAPISelector, "cluster-api-selector", "", "label `selector` of Cluster API's Clusters that become members by themselves; the hub's account may then read Clusters and their kubeconfig Secrets")
	return cmd
}

func hubFlag(selector string) string {
	if selector == "" {
		return ""
	}
	return " --cluster-api-selector '" + selector + "'"
}
