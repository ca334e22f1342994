package render

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Overlay is what a subset changes in the workload's pod template.
type Overlay struct {
	// NodeSelectorTerm is added to every required node affinity term of the pods.
	NodeSelectorTerm *corev1.NodeSelectorTerm
	// NodeSelector has alternatives, of which one must hold; each is added to every required node affinity term.
	NodeSelector *corev1.NodeSelector
	// Tolerations are appended to the pods'.
	Tolerations []corev1.Toleration
	// Patch is a raw strategic merge patch on the pod template, applied last; empty for none.
	Patch []byte
}

// Partition is how many pods of a child stay on the old revision.
type Partition struct {
	// Hold writes the kind's hold, which no scaling can leak; Value is then not used.
	Hold bool
	// Value is a number of pods or a percent of the child's live replicas.
	Value intstr.IntOrString
}

// Input is everything that makes one child.
type Input struct {
	// Owner is the UnitedDeployment on the hub; the child has its namespace. Its UID is in Intent.
	Owner types.NamespacedName
	// Subset is the subset's name.
	Subset string
	// Name of an existing child; empty: ChildName.
	Name string
	// HubID is 16 hex digits.
	HubID string
	// Intent orders this write.
	Intent Intent

	Workload Workload
	Overlay  Overlay
	// Revision is the subset revision, the hash of Overlaid.
	Revision string
	// Selector of the UnitedDeployment.
	Selector *metav1.LabelSelector

	// Replicas of the child; nil: somebody else scales it and the field is not named.
	Replicas *int32
	// Partition is always written, except by a Deployment and by a StatefulSet with OnDelete. A Deployment refuses any but
	// the hold and 0, and neither is written into it.
	Partition Partition
	// Paused stops updates in the child beside what the template itself says; the field is always written where the kind
	// has it. Kubernetes' StatefulSet has none and gets the hold instead: its pods that moved stay. A Deployment must not
	// be created paused: it would have no pods.
	Paused bool
	// Controller is the owner reference of a child in the hub's own cluster; nil on members.
	Controller *metav1.OwnerReference
}

// Overlaid is the workload template with the subset's overlay merged in, as {"metadata": ..., "spec": ...}, without any
// stamp, replicas or partition of the hub: what the subset revision is the hash of.
func Overlaid(w Workload, o Overlay) (map[string]any, error) {
	return overlaid(w, o)
}

// Child is the whole object the hub applies. Its error names the field that cannot be read.
func Child(in Input) (*unstructured.Unstructured, error) {
	return child(in)
}

// PercentPartition is the smallest whole percent of old pods that lets at most grant of replicas pods leave the old
// revision, rounded towards old; it holds when nothing may leave or replicas is 0. Below 100% a CloneSet keeps at most
// replicas-1 pods, so that a child scaled down until its share is less than one pod moves one pod all the same.
func PercentPartition(grant, replicas int32) Partition {
	if replicas <= 0 || grant <= 0 {
		return Partition{Hold: true}
	}
	if grant >= replicas {
		return Partition{Value: intstr.FromInt32(0)}
	}
	old := int64(replicas - grant)
	percent := (old*100 + int64(replicas) - 1) / int64(replicas)
	if percent >= 100 {
		return Partition{Hold: true}
	}
	return Partition{Value: intstr.FromString(strconv.FormatInt(percent, 10) + "%")}
}
