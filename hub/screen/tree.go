package screen

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// State is one word for a UnitedDeployment.
type State string

// Values of State.
const (
	// StateCurrent: every pod runs the revision of the spec.
	StateCurrent State = "Current"
	// StateUpdating: pods move.
	StateUpdating State = "Updating"
	// StateHeld: nothing moves until a person (or a policy) grants more.
	StateHeld State = "Held"
	// StatePending: the hub has not seen the latest change of the spec.
	StatePending State = "Pending"
	// StateBlocked: a condition says why nothing can move.
	StateBlocked State = "Blocked"
	// StateDeleting: the children are being deleted.
	StateDeleting State = "Deleting"
)

// Tree is one UnitedDeployment as a person reads it.
type Tree struct {
	Namespace, Name string
	// From and To are the short revisions a release moves between; equal when none is under way.
	From, To string
	State    State
	Age      string
	// Desired is the sum allotted; the others are what the members report.
	Desired, Replicas, Ready, Updated, UpdatedReady, Granted int32
	InPlace, Recreated                                       int32
	// Frozen says who stopped all writes to members; nil when nobody did.
	Frozen *Freeze
	// Why are the conditions that hold it up, worst first.
	Why []Reason
	// Rows are the subsets, in spec order.
	Rows []Row
	// Next is the command that moves it on, empty when nothing waits for a person.
	Next string
}

// Reason is one thing that holds a workload up.
type Reason struct {
	Type, Message, Since string
}

// Row is one subset.
type Row struct {
	Subset, Member, Workload string
	// Kind is the child's, as "<kind>.<group>".
	Kind                                      string
	Desired, Replicas, Granted, Updated       int32
	UpdatedReady, Ready, Partition, Recreated int32
	// InPlace is the number of pods updated in place, "?" when the member does not say.
	InPlace string
	State   string
	// Why says on what it waits.
	Why string
	// Since is how long it has been in its state.
	Since string
	// Heard is how long ago the member was last heard, set only while its numbers are stale.
	Heard string
}

// TreeOf reads a UnitedDeployment. frozen may be nil.
func TreeOf(ud *appsv1alpha1.UnitedDeployment, frozen *Freeze, now time.Time) Tree {
	s := &ud.Status
	t := Tree{
		Namespace: Clean(ud.Namespace), Name: Clean(ud.Name),
		From: ShortRevision(s.CurrentRevision), To: ShortRevision(s.UpdatedRevision),
		Age: Age(&ud.CreationTimestamp, now), Frozen: frozen,
		Replicas: s.Replicas, Ready: s.ReadyReplicas,
		Updated: s.UpdatedReplicas, UpdatedReady: s.UpdatedReadyReplicas,
		InPlace: s.UpdatedInPlace, Recreated: s.Recreated,
		Why: reasons(ud, now),
	}
	for i := range s.SubsetStatuses {
		row := rowOf(&s.SubsetStatuses[i], now)
		t.Desired += row.Desired
		t.Granted += row.Granted
		t.Rows = append(t.Rows, row)
	}
	t.State = stateOf(ud, t)
	t.Next = nextCommand(ud, t)
	return t
}

func rowOf(s *appsv1alpha1.SubsetStatus, now time.Time) Row {
	row := Row{
		Subset: Clean(s.Name), Member: Clean(s.Cluster), Workload: Clean(s.Workload), Kind: Clean(s.Kind),
		Desired: s.DesiredReplicas, Replicas: s.Replicas, Granted: s.Granted,
		Updated: s.UpdatedReplicas, UpdatedReady: s.UpdatedReadyReplicas,
		Ready: s.ReadyReplicas, Partition: s.Partition,
		InPlace: Unknown, State: Clean(s.State), Why: Clean(s.Message), Since: Age(s.Since, now),
	}
	if row.Member == "" {
		row.Member = "(local)"
	}
	if row.State == "" {
		row.State = Unknown
	}
	if s.Report != nil {
		row.InPlace = strconv.Itoa(int(s.Report.UpdatedInPlace))
		row.Recreated = s.Report.Recreated
		row.Why = join("; ", row.Why, problems("refused", s.Report.Refused), problems("broken", s.Report.Broken)) // Failing is in the message
	}
	if s.Stale {
		row.Heard = Age(s.HeardAt, now)
		row.Why = join("; ", "numbers are "+row.Heard+" old", row.Why)
	}
	return row
}

// problems is "broken: 2 x ImagePullBackOff (message)".
func problems(word string, list []appsv1alpha1.PodProblem) string {
	var all []string
	for _, p := range list {
		text := fmt.Sprintf("%d x %s", max(int(p.Count), len(p.Pods), 1), Clean(p.Reason))
		if p.Message != "" {
			text += " (" + Clean(p.Message) + ")"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return ""
	}
	return word + ": " + strings.Join(all, ", ")
}

func join(sep string, parts ...string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, p)
		}
	}
	return strings.Join(some, sep)
}

// blocking are the conditions that stop a release while they are True, worst first; the others of hinting are shown
// and stop nothing by themselves.
func blocking() []string {
	return []string{
		appsv1alpha1.ConditionInvalid, appsv1alpha1.ConditionTemplateInvalid, appsv1alpha1.ConditionRemovalHeld, appsv1alpha1.ConditionPeerActive,
		appsv1alpha1.ConditionConflict, appsv1alpha1.ConditionNotAllowed, appsv1alpha1.ConditionNamespaceMissing,
		appsv1alpha1.ConditionRefused,
	}
}

func hinting() []string {
	return []string{
		appsv1alpha1.ConditionDeleting, appsv1alpha1.ConditionPodsFailing, appsv1alpha1.ConditionStale,
		appsv1alpha1.ConditionLeftBehind, appsv1alpha1.ConditionUnknownSubsets,
		appsv1alpha1.ConditionHeld, appsv1alpha1.ConditionAllocation, appsv1alpha1.ConditionNotActedOn,
		appsv1alpha1.ConditionUnknownFields, appsv1alpha1.ConditionDeprecatedFields,
	}
}

func reasons(ud *appsv1alpha1.UnitedDeployment, now time.Time) []Reason {
	var out []Reason
	for _, kind := range append(blocking(), hinting()...) {
		if c := trueCondition(ud.Status.Conditions, kind); c != nil {
			out = append(out, reasonOf(c, now))
		}
	}
	if len(out) > 0 {
		return out
	}
	for i := range ud.Status.Conditions {
		c := &ud.Status.Conditions[i]
		if c.Type == appsv1alpha1.ConditionReady && c.Status != metav1.ConditionTrue {
			out = append(out, reasonOf(c, now))
		}
	}
	return out
}

func reasonOf(c *metav1.Condition, now time.Time) Reason {
	kind := c.Type
	if c.Status != metav1.ConditionTrue {
		kind = "not " + kind
	}
	message := c.Message
	if message == "" {
		message = c.Reason
	}
	return Reason{Type: Clean(kind), Message: Clean(message), Since: Age(&c.LastTransitionTime, now)}
}

func trueCondition(list []metav1.Condition, kind string) *metav1.Condition {
	for i := range list {
		if list[i].Type == kind && list[i].Status == metav1.ConditionTrue {
			return &list[i]
		}
	}
	return nil
}

func stateOf(ud *appsv1alpha1.UnitedDeployment, t Tree) State {
	switch {
	case ud.DeletionTimestamp != nil:
		return StateDeleting
	case ud.Status.ObservedGeneration < ud.Generation:
		return StatePending
	}
	for _, kind := range blocking() {
		if trueCondition(ud.Status.Conditions, kind) != nil {
			return StateBlocked
		}
	}
	switch {
	case t.UpdatedReady == t.Desired && t.Replicas == t.UpdatedReady && t.From == t.To:
		return StateCurrent
	case t.Granted < t.Desired && !slices.ContainsFunc(t.Rows, Row.moves):
		return StateHeld
	default:
		return StateUpdating
	}
}

// moves says whether a subset has something to do that it was granted, as far as is known.
func (r Row) moves() bool {
	return r.Heard != "" || r.UpdatedReady < r.Granted || r.Replicas != r.Desired
}

// nextCommand is what a person types to move the first thing that waits for one.
func nextCommand(ud *appsv1alpha1.UnitedDeployment, t Tree) string {
	if t.Frozen != nil {
		return "kubectl underway unfreeze --all"
	}
	namespace := "-n " + t.Namespace
	if trueCondition(ud.Status.Conditions, appsv1alpha1.ConditionRemovalHeld) != nil {
		return fmt.Sprintf("kubectl underway confirm ud %s %s", t.Name, namespace)
	}
	if t.State != StateHeld || ud.Spec.UpdateStrategy.Type == "Staged" {
		return ""
	}
	for _, row := range t.Rows {
		if row.Granted < row.Desired {
			return fmt.Sprintf("kubectl %s patch ud %s --type merge -p '%s'", namespace, t.Name, grantAll(row.Subset))
		}
	}
	return ""
}

// grantAll is the patch that lets every pod of a subset move.
func grantAll(subset string) string {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"updateStrategy": map[string]any{
		"manualUpdate": map[string]any{"partitions": map[string]int{subset: 0}},
	}}})
	if err != nil {
		return err.Error()
	}
	return string(patch)
}
