package version

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/cmd/internal/boot"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/hub/screen"
)

// hubLease is the leader Lease of the hub, named after its binary.
const hubLease = "underway-hub"

// report is what is printed.
type report struct {
	Client  string   `json:"client"`
	Hub     *hub     `json:"hub,omitempty"`
	Members []member `json:"members,omitempty"`
}

type hub struct {
	// Leader is the process that leads, empty when none does.
	Leader string `json:"leader,omitempty"`
	// Renewed is how long ago it said so.
	Renewed string `json:"renewed,omitempty"`
}

type member struct {
	Name       string   `json:"name"`
	Kubernetes string   `json:"kubernetes,omitempty"`
	Agents     []string `json:"agents,omitempty"`
}

// New is the command.
func New(env *cli.Env) *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	var output string
	var clientOnly bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show the version of the plugin, the hub's leader and the members' agents",
		Example: "  kubectl underway version\n\n  # Without asking the hub\n  kubectl underway version --client -o json",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" && output != "yaml" {
				return cli.Usage(cmd, "--output %q: one of json, yaml", output)
			}
			r := report{Client: boot.Version()}
			if !clientOnly {
				if err := r.ask(cmd.Context(), env, flags); err != nil {
					env.Note("the hub was not asked: %v", err)
				}
			}
			return r.print(env, output)
		},
	}
	flags.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: (json, yaml).")
	cmd.Flags().BoolVar(&clientOnly, "client", false, "only the plugin's, without asking the hub")
	return cmd
}

func (r *report) ask(ctx context.Context, env *cli.Env, flags *genericclioptions.ConfigFlags) error {
	c, err := env.Client(flags)
	if err != nil {
		return err
	}
	lease := &coordinationv1.Lease{}
	err = c.Get(ctx, client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: hubLease}, lease)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	r.Hub = &hub{Leader: screen.Clean(ptr.Deref(lease.Spec.HolderIdentity, ""))}
	if t := lease.Spec.RenewTime; t != nil {
		r.Hub.Renewed = screen.Since(t.Time, env.Clock.Now())
	}
	members := &fleetv1alpha1.MemberClusterList{}
	if err := c.List(ctx, members); err != nil {
		return err
	}
	for i := range members.Items {
		r.Members = append(r.Members, memberOf(&members.Items[i]))
	}
	return nil
}

func memberOf(m *fleetv1alpha1.MemberCluster) member {
	out := member{Name: screen.Clean(m.Name), Kubernetes: screen.Clean(m.Status.KubernetesVersion)}
	for _, k := range m.Status.WorkloadKinds {
		if k.Version == "" {
			continue
		}
		if agent := screen.Clean(k.Reconciler + " " + k.Version); !slices.Contains(out.Agents, agent) {
			out.Agents = append(out.Agents, agent)
		}
	}
	return out
}

func (r *report) print(env *cli.Env, output string) error {
	switch output {
	case "json":
		raw, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		env.Say("%s", raw)
	case "yaml":
		raw, err := yaml.Marshal(r)
		if err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		_, err = env.Out.Write(raw)
		return err
	default:
		r.say(env)
	}
	return nil
}

func (r *report) say(env *cli.Env) {
	env.Say("client  %s", r.Client)
	if r.Hub == nil {
		return
	}
	if r.Hub.Leader == "" {
		env.Say("hub     nobody leads: is underway-hub running?")
	} else {
		env.Say("hub     led by %s, renewed %s ago", r.Hub.Leader, r.Hub.Renewed)
	}
	for _, m := range r.Members {
		agents := "no agent's version is known"
		if len(m.Agents) > 0 {
			agents = fmt.Sprint(m.Agents)
		}
		env.Say("member  %s: Kubernetes %s, %s", m.Name, m.Kubernetes, agents)
	}
}
