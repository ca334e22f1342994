package hub

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/underway-dev/underway/hub/bell"
	"github.com/underway-dev/underway/hub/united"
	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/render"
)

// Content says what travels to members beside workloads.
type Content string

// Values of Content.
const (
	// ContentAll: every ConfigMap, Secret, ServiceAccount and claim that a template names. The default.
	ContentAll Content = "All"
	// ContentNoSecrets: the same without Secrets, which are then neither sent nor waited for.
	ContentNoSecrets Content = "NoSecrets"
	// ContentOff: nothing; what members have stays as it is.
	ContentOff Content = "Off"
)

// kinds that travel.
func (c Content) kinds() ([]render.Kind, error) {
	switch c {
	case ContentAll, "":
		return content.Kinds(), nil
	case ContentNoSecrets:
		return slices.DeleteFunc(content.Kinds(), func(k render.Kind) bool { return k.GVK.Kind == content.KindSecret }), nil
	case ContentOff:
		return nil, nil
	}
	return nil, fmt.Errorf("content is %q, want %s, %s or %s", c, ContentAll, ContentNoSecrets, ContentOff)
}

// contentLibrary reads the hub's objects through a cache of its own: the manager's holds Secrets of one namespace only.
func contentLibrary(mgr ctrl.Manager, live client.Reader, wake func(kind, namespace, name string)) (*united.Library, error) {
	meta, err := metadataCache(mgr, nil)
	if err != nil {
		return nil, err
	}
	return united.NewLibrary(meta, live, wake), nil
}

// ringNaming wakes the objects whose templates name what changed.
func ringNaming(ring *bell.Bell, naming func(kind, namespace, name string) []types.NamespacedName) func(kind, namespace, name string) {
	return func(kind, namespace, name string) {
		for _, owner := range naming(kind, namespace, name) {
			ring.Ring(reconcile.Request{NamespacedName: owner})
		}
	}
}
