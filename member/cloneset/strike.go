package cloneset

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// Strike takes names out of spec.scaleStrategy.podsToDelete, as OpenKruise does when the pods are gone. Those that somebody
// applies server-side stay: a hub whose template names them would take the removal back for ever.
func (Kind) Strike(obj client.Object, names []string) (stay []string) {
	cs, ok := obj.(*appsv1alpha1.CloneSet)
	if !ok || cs.Spec.ScaleStrategy == nil {
		return nil
	}
	for _, name := range names {
		if applied(cs.ManagedFields, name) {
			stay = append(stay, name)
		}
	}
	cs.Spec.ScaleStrategy.PodsToDelete = slices.DeleteFunc(cs.Spec.ScaleStrategy.PodsToDelete, func(name string) bool {
		return slices.Contains(names, name) && !slices.Contains(stay, name)
	})
	return stay
}

// applied reports whether somebody who applies the object owns that name in podsToDelete. What cannot be read counts.
func applied(managers []metav1.ManagedFieldsEntry, name string) bool {
	key, err := json.Marshal(name)
	if err != nil {
		return true
	}
	for i := range managers {
		m := &managers[i]
		if m.Operation != metav1.ManagedFieldsOperationApply || m.Subresource != "" || m.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec struct {
				Scale struct {
					Names map[string]json.RawMessage `json:"f:podsToDelete"`
				} `json:"f:scaleStrategy"`
			} `json:"f:spec"`
		}
		if json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			return true
		}
		owned := fields.Spec.Scale.Names
		// A list that is owned as a whole (of a CRD that does not call it a set) has no entries of its own.
		if _, named := owned["v:"+string(key)]; named || owned != nil && len(owned) == 0 {
			return true
		}
	}
	return false
}
