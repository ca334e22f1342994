package completion

import (
	"github.com/spf13/cobra"

	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
)

// forKubectl is what kubectl 1.26 and later runs to complete `kubectl underway ...`.
const forKubectl = "#!/bin/sh\nexec kubectl-underway __complete \"$@\"\n"

// New is the command.
func New(env *cli.Env) *cobra.Command {
	shells := []cobra.Completion{"bash", "zsh", "fish", "powershell", "kubectl"}
	return &cobra.Command{
		Use:   "completion (bash | zsh | fish | powershell | kubectl)",
		Short: "Print a completion script",
		Long: "Print a completion script.\n\n" +
			"For `kubectl underway <TAB>` kubectl looks for an executable kubectl_complete-underway in PATH: that is `kubectl`.\n" +
			"The others complete the binary's own name, kubectl-underway.",
		Example: "  kubectl underway completion kubectl > ~/.local/bin/kubectl_complete-underway\n" +
			"  chmod +x ~/.local/bin/kubectl_complete-underway",
		DisableFlagsInUseLine: true,
		ValidArgs:             shells,
		Args:                  cli.Args(cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(env.Out, true)
			case "zsh":
				return root.GenZshCompletion(env.Out)
			case "fish":
				return root.GenFishCompletion(env.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(env.Out)
			default:
				_, err := env.Out.Write([]byte(forKubectl))
				return err
			}
		},
	}
}
