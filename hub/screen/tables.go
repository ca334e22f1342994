package screen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// ClusterTable is the list of members; columns of priority 1 are the wide ones.
func ClusterTable(members []fleetv1alpha1.MemberCluster, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		column("NAME", 0), column("READY", 0), column("REACHABLE", 0), column("VERSION", 0),
		column("RECONCILERS", 0), column("HEARD", 0), column("NOTE", 0),
		column("AGE", 0), column("HUB", 1), column("IDENTITY", 1), column("SERVER", 1), column("KINDS", 1),
	}}
	for i := range members {
		m := &members[i]
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			Clean(m.Name), statusOf(m.Status.Conditions, fleetv1alpha1.ConditionReady),
			statusOf(m.Status.Conditions, fleetv1alpha1.ConditionReachable), dash(m.Status.KubernetesVersion),
			dash(reconcilers(m)), Age(m.Status.LastHeardAt, now), dash(memberNote(m)),
			Age(&m.CreationTimestamp, now), dash(m.Status.HubID), dash(m.Status.Identity),
			dash(m.Status.Server), dash(kinds(m)),
		}})
	}
	return table
}

// ListTable is the list of UnitedDeployments; columns of priority 1 are the wide ones.
func ListTable(list []appsv1alpha1.UnitedDeployment, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		column("NAME", 0), column("DESIRED", 0), column("READY", 0), column("GRANTED", 0), column("UPDATED", 0),
		column("IN PLACE", 0), column("STATE", 0), column("WHY", 0), column("AGE", 0),
		column("FROM", 1), column("TO", 1), column("MESSAGE", 1),
	}}
	for i := range list {
		t := TreeOf(&list[i], nil, now)
		var why Reason
		if len(t.Why) > 0 {
			why = t.Why[0]
		}
		table.Rows = append(table.Rows, metav1.TableRow{
			Cells: []any{
				t.Name, t.Desired, t.Ready, t.Granted, t.Updated, t.InPlace, string(t.State), dash(why.Type), t.Age,
				t.From, t.To, dash(why.Message),
			},
		})
		table.Rows[i].Object.Object = &metav1.PartialObjectMetadata{ObjectMeta: list[i].ObjectMeta}
	}
	return table
}

func column(name string, priority int32) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Priority: priority}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return Clean(s)
}

func statusOf(list []metav1.Condition, kind string) string {
	for i := range list {
		if list[i].Type == kind {
			return string(list[i].Status)
		}
	}
	return "Unknown"
}

// reconcilers is who acts in a member, each with its version: "Underway 0.1.0, Kubernetes".
func reconcilers(m *fleetv1alpha1.MemberCluster) string {
	var names []string
	for _, k := range m.Status.WorkloadKinds {
		name := strings.TrimSpace(k.Reconciler + " " + k.Version)
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func kinds(m *fleetv1alpha1.MemberCluster) string {
	var all []string
	for _, k := range m.Status.WorkloadKinds {
		all = append(all, fmt.Sprintf("%s=%s", k.Kind, dash(k.Reconciler)))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// memberNote names every condition that is not as it should be, with its message.
func memberNote(m *fleetv1alpha1.MemberCluster) string {
	var notes []string
	for i := range m.Status.Conditions {
		c := &m.Status.Conditions[i]
		good := metav1.ConditionFalse
		switch c.Type {
		case fleetv1alpha1.ConditionReady, fleetv1alpha1.ConditionReachable, fleetv1alpha1.ConditionCredentialsValid,
			fleetv1alpha1.ConditionAgentReady, fleetv1alpha1.ConditionClusterFollowed:
			good = metav1.ConditionTrue
		}
		if c.Status != good {
			notes = append(notes, join(": ", c.Type+"="+string(c.Status), c.Message))
		}
	}
	slices.Sort(notes)
	if m.Spec.Drain {
		notes = append(notes, "being drained")
	}
	return strings.Join(notes, "; ")
}
