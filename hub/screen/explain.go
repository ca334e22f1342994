package screen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// Explanation says why a UnitedDeployment is not moving.
type Explanation struct {
	// Name is "<namespace>/<name>"; State is the whole's.
	Name  string
	State State
	// Frozen says who stopped all writes to members; nil when nobody did.
	Frozen *Freeze
	// Why are the conditions, worst first.
	Why []Reason
	// Waits are the subsets that wait, in the order of the status; Quiet is how many do not.
	Waits []Wait
	Quiet int
}

// Wait is one subset that waits.
type Wait struct {
	Subset, Member, State, Since string
	// For says on what; Report how old the member's numbers are.
	For, Report string
	// Pods are the pods that do not come up, in words.
	Pods []string
	// Command moves it, or shows what is to be looked at; Moves says which of the two.
	Command string
	Moves   bool
}

// Explain reads a UnitedDeployment; with a subset's name, that subset only. frozen may be nil.
func Explain(ud *appsv1alpha1.UnitedDeployment, frozen *Freeze, subset string, now time.Time) (Explanation, error) {
	t := TreeOf(ud, frozen, now)
	out := Explanation{Name: t.Namespace + "/" + t.Name, State: t.State, Frozen: frozen, Why: t.Why}
	found := subset == ""
	for i := range ud.Status.SubsetStatuses {
		s := &ud.Status.SubsetStatuses[i]
		if subset != "" && s.Name != subset {
			continue
		}
		found = true
		if s.State == "Current" && len(s.Failing) == 0 {
			out.Quiet++
			continue
		}
		out.Waits = append(out.Waits, waitOf(ud, s, t.Rows[i], now))
	}
	if !found {
		return out, fmt.Errorf("%s has no subset %s", out.Name, subset)
	}
	return out, nil
}

func waitOf(ud *appsv1alpha1.UnitedDeployment, s *appsv1alpha1.SubsetStatus, row Row, now time.Time) Wait {
	out := Wait{
		Subset: row.Subset, Member: row.Member, State: row.State, Since: row.Since, Report: row.report(),
		For: withoutPods(withoutCommand(Clean(s.Message))),
	}
	for i := range s.Failing {
		out.Pods = append(out.Pods, podsIn(&s.Failing[i], now))
	}
	out.Command, out.Moves = next(ud, s, row)
	return out
}

// withoutPods drops what the pods suffer from a message: it is told apart.
func withoutPods(message string) string {
	before, _, broken := strings.Cut(message, " broken since ")
	if !broken {
		return message
	}
	return before[:max(strings.LastIndex(before, "; "), 0)]
}

func podsIn(p *appsv1alpha1.PodProblem, now time.Time) string {
	names := ""
	if len(p.Pods) > 0 {
		names = " (" + Clean(strings.Join(p.Pods, ", "))
		if more := int(p.Count) - len(p.Pods); more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		names += ")"
	}
	return fmt.Sprintf("%d x %s for %s: %s%s", max(int(p.Count), len(p.Pods), 1), Clean(p.Reason), Age(p.Since, now), Clean(p.Message), names)
}

// next is what a person types about one subset: the hub's own command where it names one, else the grant where the subset is
// held, else a look at what is in the way.
func next(ud *appsv1alpha1.UnitedDeployment, s *appsv1alpha1.SubsetStatus, row Row) (command string, moves bool) {
	namespace := "-n " + Clean(ud.Namespace)
	if c := commandOf(Clean(s.Message)); c != "" {
		return c, true
	}
	context := ""
	if s.Cluster != "" {
		context = "--context " + row.Member + " "
	}
	switch {
	case s.State == "Held":
		return fmt.Sprintf("kubectl %s patch ud %s --type merge -p '%s'", namespace, Clean(ud.Name), grantAll(row.Subset)), true
	case s.Stale || slices.Contains([]string{"Stale", "NotServed", "NotAllowed", "Waiting"}, s.State):
		return strings.TrimSpace("kubectl underway get clusters -o wide " + Clean(s.Cluster)), false
	case len(s.Failing) > 0 && len(s.Failing[0].Pods) > 0:
		return fmt.Sprintf("kubectl %s%s describe pod %s", context, namespace, Clean(s.Failing[0].Pods[0])), false
	case s.Workload != "":
		kind, _, _ := strings.Cut(row.Kind, ".")
		if row.Kind != "" {
			kind = row.Kind
		}
		return fmt.Sprintf("kubectl %s%s describe %s %s", context, namespace, strings.ToLower(kind), row.Workload), false
	default:
		return fmt.Sprintf("kubectl underway get ud %s %s -w", Clean(ud.Name), namespace), false
	}
}

// commandOf is the command in a hub's message, up to the next clause; "" for none. One that was cut is none.
func commandOf(message string) string {
	_, after, found := strings.Cut(message, ": kubectl ")
	if !found {
		return ""
	}
	command, _, _ := strings.Cut(after, "; ")
	if strings.HasSuffix(command, " ...") {
		return ""
	}
	return "kubectl " + command
}

// Render draws it, each line ended by a line break.
func (e Explanation) Render() string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("%s is %s", e.Name, e.State)
	if e.Frozen != nil {
		line("  %s; go on with: kubectl underway unfreeze --all", e.Frozen.String())
	}
	for _, why := range e.Why {
		line("  %s for %s: %s", why.Type, why.Since, withoutCommand(why.Message))
	}
	for _, w := range e.Waits {
		line("%s on %s is %s for %s, its report is %s", w.Subset, w.Member, w.State, w.Since, reportWord(w.Report))
		if w.For != "" {
			line("  waits for   %s", w.For)
		}
		for _, pods := range w.Pods {
			line("  pods        %s", pods)
		}
		word := "look at     "
		if w.Moves {
			word = "moves with  "
		}
		line("  %s%s", word, w.Command)
	}
	switch {
	case len(e.Waits) == 0:
		line("nothing waits: %d of %d subsets are Current", e.Quiet, e.Quiet)
	case e.Quiet > 0:
		line("%d more are Current", e.Quiet)
	}
	return out.String()
}

func reportWord(report string) string {
	if report == "- old" {
		return "from before this hub started"
	}
	return report
}
