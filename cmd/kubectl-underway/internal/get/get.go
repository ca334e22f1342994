package get

import (
	"github.com/spf13/cobra"

	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
)

// New is the command.
func New(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get",
		Short: "Show the members of the fleet, or a UnitedDeployment as a tree",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cli.Usage(cmd, "say what: clusters or ud") },
	}
	cmd.AddCommand(newClusters(env), newUD(env))
	return cmd
}
