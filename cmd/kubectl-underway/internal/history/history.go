package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/hub/screen"
	"github.com/underway-dev/underway/hub/united/plan"
	"github.com/underway-dev/underway/inplace/revision"
)

type history struct {
	env    *cli.Env
	flags  *genericclioptions.ConfigFlags
	output *cli.Output
	number int64
}

// New is the command.
func New(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show the stored revisions of a UnitedDeployment",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cli.Usage(cmd, "say what: ud NAME") },
	}
	cmd.AddCommand(newUD(env))
	return cmd
}

func newUD(env *cli.Env) *cobra.Command {
	o := &history{env: env, flags: genericclioptions.NewConfigFlags(true), output: cli.NewOutput()}
	cmd := &cobra.Command{
		Use:     "ud NAME",
		Aliases: []string{"uniteddeployment"},
		Short:   "List the revisions, newest first, or print one",
		Long: "List the stored revisions of a UnitedDeployment, newest first.\n\n" +
			"MARK      spec: the revision of the spec; completed: the one whose release was finished last\n" +
			"SUBSETS   whose child carries it, as last heard\n" +
			"IMAGES    of each container\n" +
			"CAUSE     the object's annotation kubernetes.io/change-cause when the revision became the spec's\n\n" +
			"--revision N prints the template and the overrides of that one. -o json|yaml prints the ControllerRevisions.",
		Example: "  # What ran, and where\n  kubectl underway history ud web -n shop\n\n" +
			"  # The template of one\n  kubectl underway history ud web -n shop --revision 3",
		ValidArgsFunction: cli.CompleteNames(env, o.flags, cli.UnitedKind()),
		Args:              cli.Args(cobra.ExactArgs(1)),
		RunE:              o.run,
	}
	o.flags.AddFlags(cmd.Flags())
	o.output.Bind(cmd)
	cmd.Flags().Int64Var(&o.number, "revision", 0, "print the revision of this number")
	return cmd
}

func (o *history) run(cmd *cobra.Command, args []string) error {
	if err := o.output.Check(cmd); err != nil {
		return err
	}
	c, err := o.env.Client(o.flags)
	if err != nil {
		return err
	}
	ud, list, err := read(cmd.Context(), c, client.ObjectKey{Namespace: cli.Namespace(o.flags), Name: args[0]})
	if err != nil {
		return err
	}
	if o.number != 0 {
		return o.one(ud, list)
	}
	if !o.output.Human() {
		return o.output.Object(o.env, list)
	}
	if len(list.Items) == 0 {
		o.env.Note("no stored revisions of %s/%s: has the hub seen it?", ud.Namespace, ud.Name)
		return nil
	}
	return o.output.Table(o.env, table(ud, list, o.env.Clock.Now()), false)
}

// read reads the object and its revisions, newest first.
func read(ctx context.Context, c client.Client, key client.ObjectKey) (*appsv1alpha1.UnitedDeployment, *appsv1.ControllerRevisionList, error) {
	ud, err := cli.GetUnited(ctx, c, key)
	if err != nil {
		return nil, nil, err
	}
	list, err := cli.Revisions(ctx, c, ud.Typed)
	if err != nil {
		return nil, nil, err
	}
	list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevisionList"))
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), cmp.Compare(b.Name, a.Name))
	})
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))
	}
	return ud.Typed, list, nil
}

// Stored are the revisions as package plan reads them, with what the spec had when each was its own, by name.
func Stored(list *appsv1.ControllerRevisionList) (stored []revision.Stored, known map[string]plan.Known) {
	known = map[string]plan.Known{}
	for i := range list.Items {
		c := &list.Items[i]
		stored = append(stored, revision.Stored{Name: c.Name, Number: c.Revision, Data: c.Data.Raw})
		known[c.Name] = plan.Known{
			Subsets: names(c, appsv1alpha1.AnnotationSubsets), Templates: names(c, appsv1alpha1.AnnotationSubsetTemplates),
		}
	}
	return stored, known
}

// names are what an annotation lists; nil where it is absent, which is not the same as empty.
func names(c *appsv1.ControllerRevision, annotation string) []string {
	value, has := c.Annotations[annotation]
	if !has {
		return nil
	}
	return strings.Split(value, ",")
}

func table(ud *appsv1alpha1.UnitedDeployment, list *appsv1.ControllerRevisionList, now time.Time) *metav1.Table {
	stored, _ := Stored(list)
	out := &metav1.Table{}
	for _, name := range []string{"NUMBER", "REVISION", "MARK", "AGE", "SUBSETS", "IMAGES", "CAUSE"} {
		out.ColumnDefinitions = append(out.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, name := range []string{"KIND", "NAME"} {
		out.ColumnDefinitions = append(out.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string", Priority: 1})
	}
	past := plan.HistoryOf(ud, stored) // newest first, as the list is
	for i := range past {
		p, c := &past[i], &list.Items[i]
		cause := c.Annotations[appsv1alpha1.AnnotationChangeCause]
		if p.Unreadable != "" {
			cause = "cannot be read: " + p.Unreadable
		}
		out.Rows = append(out.Rows, metav1.TableRow{Cells: []any{
			p.Number, screen.ShortRevision(p.Name), orDash(mark(p)), screen.Age(&c.CreationTimestamp, now),
			orDash(some(p.Subsets)), orDash(images(p.Images)), orDash(cause), orDash(p.Kind), screen.Clean(p.Name),
		}})
	}
	return out
}

func mark(p *plan.Past) string {
	switch {
	case p.Spec && p.Completed:
		return "spec, completed"
	case p.Spec:
		return "spec"
	case p.Completed:
		return "completed"
	default:
		return ""
	}
}

// shown is how many subsets are named in a row.
const shown = 5

func some(names []string) string {
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

func images(list []plan.Image) string {
	var out []string
	for _, i := range list {
		out = append(out, i.Container+"="+i.Image)
	}
	return strings.Join(out, ", ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return screen.Clean(s)
}

// one prints a revision: its content, or the ControllerRevision for machines.
func (o *history) one(ud *appsv1alpha1.UnitedDeployment, list *appsv1.ControllerRevisionList) error {
	stored, _ := Stored(list)
	past := plan.HistoryOf(ud, stored)
	at := slices.IndexFunc(past, func(p plan.Past) bool { return p.Number == o.number })
	switch {
	case at < 0:
		return fmt.Errorf("--revision %d: there is no such revision; `kubectl underway history ud %s -n %s` lists them", o.number, ud.Name, ud.Namespace)
	case !o.output.Human():
		return o.output.Object(o.env, &list.Items[at])
	case past[at].Unreadable != "":
		return fmt.Errorf("revision %d (%s) cannot be read: %s", o.number, past[at].Name, past[at].Unreadable)
	}
	raw, err := json.Marshal(map[string]any{"template": past[at].Template})
	if len(past[at].Overrides)+len(past[at].Selected) > 0 {
		raw, err = json.Marshal(map[string]any{
			"template": past[at].Template, "overrides": past[at].Overrides, "selected": past[at].Selected,
		})
	}
	if err != nil {
		return fmt.Errorf("writing the revision: %w", err)
	}
	text, err := yaml.JSONToYAML(raw)
	if err != nil {
		return fmt.Errorf("writing the revision: %w", err)
	}
	_, err = o.env.Out.Write(text)
	return err
}
