package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
)

// Output is the -o flag: nothing or wide for the human form, else kubectl's printers.
type Output struct {
	flags     *genericclioptions.PrintFlags
	NoHeaders bool
	NoColor   bool
}

// NewOutput makes the flag.
func NewOutput() *Output {
	return &Output{flags: genericclioptions.NewPrintFlags("").WithTypeSetter(Scheme())}
}

// Bind registers the flags.
func (o *Output) Bind(cmd *cobra.Command) {
	o.flags.AddFlags(cmd)
	f := cmd.Flags().Lookup("output")
	f.Usage = "Output format. One of: (" + strings.Join(o.formats(), ", ") + ")."
	cmd.Flags().BoolVar(&o.NoHeaders, "no-headers", false, "leave out the line of column names")
	cmd.Flags().BoolVar(&o.NoColor, "no-color", false, "no colours on a terminal (as NO_COLOR)")
}

func (o *Output) formats() []string {
	all := append(o.flags.AllowedFormats(), "wide")
	slices.Sort(all)
	return all
}

// Human says whether the human form is wanted.
func (o *Output) Human() bool { return *o.flags.OutputFormat == "" || o.Wide() }

// Wide says whether more columns are wanted.
func (o *Output) Wide() bool { return *o.flags.OutputFormat == "wide" }

// Check refuses a format that nobody can print.
func (o *Output) Check(cmd *cobra.Command) error {
	if o.Human() {
		return nil
	}
	if _, err := o.flags.ToPrinter(); err != nil {
		return Usage(cmd, "--output %q: one of %s", *o.flags.OutputFormat, strings.Join(o.formats(), ", "))
	}
	return nil
}

// Object prints an object in a machine's form.
func (o *Output) Object(e *Env, obj runtime.Object) error {
	printer, err := o.flags.ToPrinter()
	if err != nil {
		return err
	}
	return printer.PrintObj(obj, e.Out)
}

// Table prints a table in the human form.
func (o *Output) Table(e *Env, table *metav1.Table, withNamespace bool) error {
	return printers.NewTablePrinter(printers.PrintOptions{
		Wide: o.Wide(), NoHeaders: o.NoHeaders, WithNamespace: withNamespace,
	}).PrintObj(table, e.Out)
}
