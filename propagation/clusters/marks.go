package clusters

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/render"
)

const markIndex = "mark"

// marksOf are the owners that an object is marked for, as an index.
func marksOf(obj any) ([]string, error) {
	return content.Marks(obj.(*unstructured.Unstructured).GetAnnotations()), nil
}

// Marked are the cached objects of a kind that carry an owner's mark, in the order of their names; false while not synced.
// It puts the kind into use. Read only.
func (f *Fleet) Marked(name string, gvk schema.GroupVersionKind, owner types.UID) ([]*unstructured.Unstructured, bool) {
	f.Use(gvk.GroupKind().String())
	c := f.cache(name, gvk)
	if c == nil {
		return nil, false
	}
	objs, err := c.ByIndex(markIndex, string(owner))
	if err != nil {
		return nil, false
	}
	out := make([]*unstructured.Unstructured, len(objs))
	for i, obj := range objs {
		out[i] = obj.(*unstructured.Unstructured)
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return out, true
}

// kindOf finds one of the fleet's kinds by its group and kind, whatever the version.
func (f *Fleet) kindOf(gvk schema.GroupVersionKind) (render.Kind, bool) {
	for _, k := range f.kinds {
		if k.GVK.GroupKind() == gvk.GroupKind() {
			return k, true
		}
	}
	return render.KindOf(gvk)
}
