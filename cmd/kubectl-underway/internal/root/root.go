package root

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/completion"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/confirm"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/explain"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/freeze"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/get"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/history"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/hubinit"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/join"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/undo"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/uninstall"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/unjoin"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/version"
)

// New is the whole command.
func New(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubectl-underway",
		Short: "Move a workload through a fleet of clusters, in place",
		Long: "Move a workload through a fleet of clusters, in place.\n\n" +
			"Flags that name a cluster (--kubeconfig, --context ...) are kubectl's and name the hub; in `join` and `unjoin` they name the member.",
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl underway"},
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	cmd.SetIn(env.In)
	cmd.SetOut(env.Out)
	cmd.SetErr(env.ErrOut)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return cli.Usage(cmd, "%v", err) })
	cmd.AddCommand(
		hubinit.New(env), join.New(env), unjoin.New(env), uninstall.New(env), get.New(env), explain.New(env), history.New(env), undo.New(env),
		freeze.NewFreeze(env), freeze.NewUnfreeze(env), confirm.New(env),
		version.New(env), completion.New(env),
	)
	return cmd
}

// Run runs it with these arguments and returns the exit code: 0, or 1 with the error on stderr.
func Run(ctx context.Context, env *cli.Env, args []string) int {
	cmd := New(env)
	cmd.SetArgs(args)
	err := cli.Explain(cmd.ExecuteContext(ctx))
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintf(env.ErrOut, "error: %v\n", err)
	return 1
}
