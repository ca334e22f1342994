package cli

import (
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CompleteNames offers the names of a kind's objects that are not arguments yet. A hub that does not answer offers none.
func CompleteNames(env *Env, flags *genericclioptions.ConfigFlags, gvk schema.GroupVersionKind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := env.Client(flags)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := c.List(cmd.Context(), list, client.InNamespace(Namespace(flags))); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []cobra.Completion
		for i := range list.Items {
			if !slices.Contains(args, list.Items[i].GetName()) {
				names = append(names, list.Items[i].GetName())
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// Namespace is what --namespace or the context says, else "default".
func Namespace(flags *genericclioptions.ConfigFlags) string {
	ns, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil || ns == "" {
		return "default"
	}
	return ns
}
