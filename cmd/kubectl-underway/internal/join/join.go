package join

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
)

// options are the flags.
type options struct {
	name string

	kubeconfig, context       string
	hubKubeconfig, hubContext string

	namespaces         []string
	allNamespaces      bool
	allowNamespaces    string
	allowAllNamespaces bool

	tokenLifetime time.Duration

	noAgent    bool
	agentImage string
	insecure   bool
	upgrade    bool
	dryRun     bool
}

// New is the command.
func New(env *cli.Env) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "join NAME --kubeconfig FILE (--namespaces a,b | --all-namespaces) (--agent-image IMAGE | --no-agent)",
		Short: "Make a cluster a member of the fleet",
		Long: `Make a cluster a member of the fleet, under a name that subsets refer to.

Two clusters are involved:
  the member  --kubeconfig FILE and --context, with an administrator's rights. Used once, stored nowhere.
  the hub     the current context of $KUBECONFIG (or ~/.kube/config), or --hub-kubeconfig and --hub-context.

On the member it makes CRDs, namespace underway-system, the agent's account and the hub's account underway-hub, and binds
what the hub may write: everywhere with --all-namespaces (the hub then creates missing namespaces), or in the namespaces
named (it creates none). On the hub it stores the credential of that account and a MemberCluster.

Which of the hub's namespaces may use the member: those of --namespaces, or all with --all-namespaces, unless
--allow-namespaces or --allow-all-namespaces say otherwise.

The token of that account ends; the hub renews it by itself, in time. --upgrade makes a new one where the hub could not,
and replaces the token without end that older versions made.

Doing it again changes nothing. CRDs and agents of another version of ours are changed with --upgrade only; CRDs of
somebody else (OpenKruise's) never: there the hub pushes and OpenKruise reconciles, join with --no-agent.`,
		Example: "  # The agent runs in the member\n" +
			"  kubectl underway join eu-1 --kubeconfig eu-1.yaml --all-namespaces --agent-image registry.example/underway-member:v0.1.0\n\n" +
			"  # Only two namespaces; the agent runs elsewhere, or OpenKruise does the work\n" +
			"  kubectl underway join us-1 --kubeconfig us.yaml --context us-1 --namespaces shop,cart --no-agent\n\n" +
			"  # See first\n" +
			"  kubectl underway join ap-1 --kubeconfig ap-1.yaml --all-namespaces --no-agent --dry-run",
		DisableFlagsInUseLine: true,
		Args:                  cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			if err := o.check(cmd); err != nil {
				return err
			}
			return (&joiner{env: env, options: *o}).run(cmd.Context())
		},
	}
	o.bind(cmd)
	return cmd
}

func (o *options) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the MEMBER, with an administrator's rights (required)")
	f.StringVar(&o.context, "context", "", "context of the member in --kubeconfig; default: its current one")
	f.StringVar(&o.hubKubeconfig, "hub-kubeconfig", "", "kubeconfig `file` of the HUB; default: $KUBECONFIG, then ~/.kube/config")
	f.StringVar(&o.hubContext, "hub-context", "", "context of the hub; default: the current one")
	f.StringSliceVar(&o.namespaces, "namespaces", nil, "the hub may write in these namespaces of the member only, and creates none")
	f.BoolVar(&o.allNamespaces, "all-namespaces", false, "the hub may write in every namespace of the member, and creates missing ones")
	f.StringVar(&o.allowNamespaces, "allow-namespaces", "", "label `selector` of the hub's Namespaces that may use the member")
	f.BoolVar(&o.allowAllNamespaces, "allow-all-namespaces", false, "every namespace of the hub may use the member")
	f.BoolVar(&o.noAgent, "no-agent", false, "do not deploy the agent: it runs elsewhere, or OpenKruise does the work")
	f.StringVar(&o.agentImage, "agent-image", "", "`image` of underway-member to deploy; there is no default registry")
	f.DurationVar(&o.tokenLifetime, "token-lifetime", 7*24*time.Hour, "how long the hub's token lasts; the hub renews it at half of that (at least 10m; the member may allow less)")
	f.BoolVar(&o.insecure, "insecure-skip-tls-verify", false, "let the hub skip the verification of the member's certificate, as --kubeconfig does")
	f.BoolVar(&o.upgrade, "upgrade", false, "change CRDs and the agent when they differ from this version's, and make a new token")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be done and write nothing")
	_ = cmd.MarkFlagFilename("kubeconfig")
	_ = cmd.MarkFlagFilename("hub-kubeconfig")
}

// check refuses what does not say clearly what is wanted; each error names the flag and the remedy.
func (o *options) check(cmd *cobra.Command) error {
	switch {
	case len(validation.IsDNS1123Label(o.name)) > 0:
		return cli.Usage(cmd, "NAME %q: a member's name is a DNS label (lower-case letters, digits and -, at most 63)", o.name)
	case o.kubeconfig == "":
		return cli.Usage(cmd, "--kubeconfig is required: the file that reaches the MEMBER as its administrator "+
			"(the hub is $KUBECONFIG's current context, or --hub-kubeconfig)")
	case o.allNamespaces == (len(o.namespaces) > 0):
		return cli.Usage(cmd, "say where the hub may write in the member: either --namespaces a,b or --all-namespaces")
	case o.noAgent == (o.agentImage != ""):
		return cli.Usage(cmd, "say who does the work in the member: either --agent-image IMAGE (there is no default registry) "+
			"or --no-agent (the agent runs elsewhere, or OpenKruise does it)")
	case o.tokenLifetime < 10*time.Minute:
		return cli.Usage(cmd, "--token-lifetime %s: an API server makes no token that ends in less than 10m", o.tokenLifetime)
	case o.allowAllNamespaces && o.allowNamespaces != "":
		return cli.Usage(cmd, "--allow-namespaces and --allow-all-namespaces exclude each other")
	}
	for _, ns := range o.namespaces {
		if len(validation.IsDNS1123Label(ns)) > 0 {
			return cli.Usage(cmd, "--namespaces: %q is not the name of a namespace", ns)
		}
	}
	if _, err := o.allowed(); err != nil {
		return cli.Usage(cmd, "%v", err)
	}
	return nil
}

// allowed is which of the hub's Namespaces may use the member.
func (o *options) allowed() (*metav1.LabelSelector, error) {
	switch {
	case o.allowNamespaces != "":
		s, err := metav1.ParseToLabelSelector(o.allowNamespaces)
		if err != nil {
			return nil, fmt.Errorf("--allow-namespaces %q: %w", o.allowNamespaces, err)
		}
		return s, nil
	case o.allowAllNamespaces, o.allNamespaces:
		return &metav1.LabelSelector{}, nil
	default:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: o.namespaces,
		}}}, nil
	}
}

// member and hub are the flags of the two connections.
func (o *options) member() *genericclioptions.ConfigFlags { return connection(o.kubeconfig, o.context) }

func (o *options) hub() *genericclioptions.ConfigFlags {
	return connection(o.hubKubeconfig, o.hubContext)
}

func connection(kubeconfig, context string) *genericclioptions.ConfigFlags {
	f := genericclioptions.NewConfigFlags(true)
	f.KubeConfig, f.Context = &kubeconfig, &context
	return f
}

// hubFlags is the part of the command line that names the hub again, for the commands printed at the end.
func (o *options) hubFlags() string {
	var flags []string
	if o.hubKubeconfig != "" {
		flags = append(flags, "--kubeconfig", o.hubKubeconfig)
	}
	if o.hubContext != "" {
		flags = append(flags, "--context", o.hubContext)
	}
	if len(flags) == 0 {
		return ""
	}
	return " " + strings.Join(flags, " ")
}
