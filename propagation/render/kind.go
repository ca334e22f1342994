package render

import (
	"errors"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// ErrUnsupportedKind is returned for a kind that is not in Kinds.
var ErrUnsupportedKind = errors.New("workload kind is not propagated")

const (
	// HoldPercent is the partition of a CloneSet that no scaling can leak.
	HoldPercent = "100%"
	// HoldOrdinal is the partition of a StatefulSet that no scaling can leak.
	HoldOrdinal = math.MaxInt32
)

// HoldMode says how far a child of a kind can be held back from a new revision.
type HoldMode string

// Values of HoldMode.
const (
	// HoldPartition: any number of pods can stay on the old revision, by Input.Partition.
	HoldPartition HoldMode = "Partition"
	// HoldWhole: all pods or none. A held child keeps the old template; Partition must be the hold or 0. A hold raised when
	// the child carries the new template already is Input.Paused.
	HoldWhole HoldMode = "Whole"
)

// NameScheme says how the pods of a child are named.
type NameScheme string

// Values of NameScheme.
const (
	// NamesOrdinal: "<child>-<ordinal>". Two children of one name have pods and claims of one name, whatever their kinds.
	NamesOrdinal NameScheme = "Ordinal"
	// NamesRandom: "<child>-" and a suffix that no other workload uses.
	NamesRandom NameScheme = "Random"
)

// Kind is a workload kind that a UnitedDeployment can have as children.
type Kind struct {
	// GVK the children are written and watched as.
	GVK schema.GroupVersionKind
	// Resource is the plural name in URLs.
	Resource string
	// Template is the field of spec.template of a UnitedDeployment.
	Template string
	// TypedLists is true where the API server merges lists of the pod template by their keys (its built-in kinds); in
	// preserved-unknown templates lists are atomic.
	TypedLists bool
	// Hold says how far a child can be held.
	Hold HoldMode
	// NeedsAgent is true where our agent or OpenKruise must run in the child's cluster; false for Kubernetes' own kinds.
	NeedsAgent bool
}

// CloneSet is the CloneSet kind.
func CloneSet() Kind {
	return Kind{
		GVK:      schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"},
		Resource: "clonesets", Template: "cloneSetTemplate", Hold: HoldPartition, NeedsAgent: true,
	}
}

// AdvancedStatefulSet is kind StatefulSet of apps.kruise.io. It is written as v1beta1: the schema of OpenKruise's v1alpha1
// lacks fields of it, and an API server drops what the schema of the written version lacks.
func AdvancedStatefulSet() Kind {
	return Kind{
		GVK:      schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "StatefulSet"},
		Resource: "statefulsets", Template: "advancedStatefulSetTemplate", Hold: HoldPartition, NeedsAgent: true,
	}
}

// StatefulSet is Kubernetes' own StatefulSet.
func StatefulSet() Kind {
	return Kind{
		GVK:      schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"},
		Resource: "statefulsets", Template: "statefulSetTemplate", TypedLists: true, Hold: HoldPartition,
	}
}

// Deployment is Kubernetes' own Deployment.
func Deployment() Kind {
	return Kind{
		GVK:      schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource: "deployments", Template: "deploymentTemplate", TypedLists: true, Hold: HoldWhole,
	}
}

// Kinds are the workload kinds that are propagated.
func Kinds() []Kind { return []Kind{CloneSet(), AdvancedStatefulSet(), StatefulSet(), Deployment()} }

// PodNames is how the pods of a kind's children are named.
func PodNames(k Kind) NameScheme {
	if k.GVK.Kind == StatefulSet().GVK.Kind {
		return NamesOrdinal
	}
	return NamesRandom
}

// GVR is the resource of the kind.
func (k Kind) GVR() schema.GroupVersionResource {
	return k.GVK.GroupVersion().WithResource(k.Resource)
}

// KindOf finds a kind by its group and kind, whatever the version.
func KindOf(gvk schema.GroupVersionKind) (Kind, bool) {
	for _, k := range Kinds() {
		if k.GVK.GroupKind() == gvk.GroupKind() {
			return k, true
		}
	}
	return Kind{}, false
}

// Workload is the workload template of a UnitedDeployment as the user wrote it.
type Workload struct {
	Kind Kind
	// Metadata and Spec are raw JSON objects; Metadata may be empty.
	Metadata, Spec []byte
}

// WorkloadOf reads the one workload of a subset template. It is an error when there is none or more than one.
func WorkloadOf(t appsv1alpha1.SubsetTemplate) (Workload, error) {
	set := map[string]*appsv1alpha1.WorkloadTemplate{}
	for field, w := range map[string]*appsv1alpha1.WorkloadTemplate{
		"statefulSetTemplate":         t.StatefulSetTemplate,
		"advancedStatefulSetTemplate": t.AdvancedStatefulSetTemplate,
		"deploymentTemplate":          t.DeploymentTemplate,
		"cloneSetTemplate":            t.CloneSetTemplate,
	} {
		if w != nil {
			set[field] = w
		}
	}
	if len(set) != 1 {
		return Workload{}, fmt.Errorf("spec.template has %d workloads, want exactly one", len(set))
	}
	for _, k := range Kinds() {
		if w := set[k.Template]; w != nil {
			out := Workload{Kind: k, Spec: w.Spec.Raw}
			if w.Metadata != nil {
				out.Metadata = w.Metadata.Raw
			}
			return out, nil
		}
	}
	return Workload{}, ErrUnsupportedKind
}
