package content

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// The kinds that a pod template can name, as they are called in references.
const (
	KindConfigMap      = "ConfigMap"
	KindSecret         = "Secret"
	KindServiceAccount = "ServiceAccount"
	KindClaim          = "PersistentVolumeClaim"
)

// KindService is the kind that travels by label where no others are asked for.
const KindService = "Service"

// Kinds are the kinds that a pod template can name, in the order in which they are sent.
func Kinds() []render.Kind {
	core := func(kind, resource string) render.Kind {
		return render.Kind{GVK: schema.GroupVersionKind{Version: "v1", Kind: kind}, Resource: resource, TypedLists: true}
	}
	return []render.Kind{
		core(KindConfigMap, "configmaps"), core(KindSecret, "secrets"),
		core(KindServiceAccount, "serviceaccounts"), core(KindClaim, "persistentvolumeclaims"),
	}
}

// ByLabel are the kinds that travel by their own label, fleet.underway.dev/propagate, on every hub.
func ByLabel() []render.Kind {
	return []render.Kind{{GVK: schema.GroupVersionKind{Version: "v1", Kind: KindService}, Resource: "services", TypedLists: true}}
}

// KindNamed is the kind of a reference.
func KindNamed(name string) (render.Kind, bool) {
	for _, k := range Kinds() {
		if k.GVK.Kind == name {
			return k, true
		}
	}
	return render.Kind{}, false
}

// Marks are the owners that an object's annotations name, by UID; the values do not count.
func Marks(annotations map[string]string) []string {
	var out []string
	for name := range annotations {
		if uid, ok := strings.CutPrefix(name, appsv1alpha1.AnnotationOwnerPrefix); ok && uid != "" {
			out = append(out, uid)
		}
	}
	return sorted(out)
}
