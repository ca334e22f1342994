package plan

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Upgrade is what a Cluster says of its versions and machines.
type Upgrade struct {
	// Wanted is the version of a managed topology; empty: the Cluster has none.
	Wanted string
	// ControlPlane and Workers are the versions that are there.
	ControlPlane, Workers []string
	// ControlPlanePlan and WorkersPlan are versions still to come.
	ControlPlanePlan, WorkersPlan []string
	// Conditions of the Cluster.
	Conditions []metav1.Condition
}

// Types and reasons of Cluster API's conditions.
const (
	conditionRollingOut           = "RollingOut"
	conditionControlPlaneUpToDate = "ControlPlaneMachinesUpToDate"
	conditionWorkersUpToDate      = "WorkerMachinesUpToDate"
	conditionTopology             = "TopologyReconciled"
	reasonClusterUpgrading        = "ClusterUpgrading"
)

// Of says whether the Cluster is being upgraded. Unknown is said when Cluster API itself does not know and nothing else
// shows it.
func (u Upgrade) Of() (status metav1.ConditionStatus, reason, message string) {
	for _, part := range []struct {
		reason, what  string
		versions, due []string
	}{
		{"ControlPlaneUpgrading", "the control plane", u.ControlPlane, u.ControlPlanePlan},
		{"WorkersUpgrading", "the workers", u.Workers, u.WorkersPlan},
	} {
		if message := u.part(part.what, part.versions, part.due); message != "" {
			return metav1.ConditionTrue, part.reason, message
		}
	}
	return u.conditions()
}

// part says what of the control plane or the workers is on its way; empty: nothing.
func (u Upgrade) part(what string, versions, due []string) string {
	there := slices.Compact(slices.Sorted(slices.Values(versions)))
	switch {
	case len(due) > 0:
		return fmt.Sprintf("%s goes through %s", what, strings.Join(due, ", "))
	case len(there) > 1:
		return fmt.Sprintf("%s has machines of %s", what, strings.Join(there, ", "))
	case len(there) == 1 && u.Wanted != "" && release(there[0]) != release(u.Wanted):
		return fmt.Sprintf("%s goes from %s to %s", what, there[0], u.Wanted)
	}
	return ""
}

// release is a version without the build that some providers add.
func release(version string) string {
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "v"), "+")
	return version
}

func (u Upgrade) conditions() (status metav1.ConditionStatus, reason, message string) {
	unknown := ""
	for _, c := range u.Conditions {
		switch {
		case c.Type == conditionTopology && c.Status == metav1.ConditionFalse && c.Reason == reasonClusterUpgrading:
			return metav1.ConditionTrue, "ClusterUpgrading", "Cluster API upgrades it"
		case c.Type == conditionRollingOut && c.Status == metav1.ConditionTrue:
			return metav1.ConditionTrue, "RollingOut", "machines are being replaced"
		case c.Type == conditionControlPlaneUpToDate && c.Status == metav1.ConditionFalse && c.Reason == "NotUpToDate":
			return metav1.ConditionTrue, "MachinesNotUpToDate", "machines of the control plane are to be replaced"
		case c.Type == conditionWorkersUpToDate && c.Status == metav1.ConditionFalse && c.Reason == "NotUpToDate":
			return metav1.ConditionTrue, "MachinesNotUpToDate", "machines of the workers are to be replaced"
		case c.Type == conditionRollingOut && c.Status == metav1.ConditionUnknown:
			unknown = "Cluster API does not know whether machines are being replaced"
		}
	}
	if unknown != "" {
		return metav1.ConditionUnknown, "Unknown", unknown
	}
	return metav1.ConditionFalse, "NotUpgrading", ""
}
