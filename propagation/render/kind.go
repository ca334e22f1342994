package render

import (
	"errors"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// ErrUnsupportedKind is returned for a workload that is accepted but not propagated yet.
var ErrUnsupportedKind = errors.New("workload kind is not propagated yet")

const (
	// HoldPercent is the partition of a CloneSet that no scaling can leak.
	HoldPercent = "100%"
	// HoldOrdinal is the partition of a StatefulSet that no scaling can leak.
	HoldOrdinal = math.MaxInt32
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
}

// CloneSet is the CloneSet kind.
func CloneSet() Kind {
	return Kind{
		GVK:      schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"},
		Resource: "clonesets",
		Template: "cloneSetTemplate",
	}
}

// Kinds are the workload kinds that are propagated.
func Kinds() []Kind { return []Kind{CloneSet()} }

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

// WorkloadOf reads the one workload of a subset template. It is an error when there is none or more than one, and
// ErrUnsupportedKind when the kind is not propagated yet.
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
	for field := range set {
		return Workload{}, fmt.Errorf("spec.template.%s: %w", field, ErrUnsupportedKind)
	}
	return Workload{}, ErrUnsupportedKind
}
