package clusters

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/underway-dev/underway/propagation/render"
)

// A member whose roles are of a version that did not know a kind serves the others as before.
func TestAKindThatMayNotBeReadHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	set, deployment := render.CloneSet(), render.Deployment()
	used := map[schema.GroupKind]bool{set.GVK.GroupKind(): true, deployment.GVK.GroupKind(): true}
	m := &member{
		name: "east", fleet: &Fleet{kinds: []render.Kind{set, deployment}, used: used}, wake: make(chan struct{}, 1),
		view: View{Reachable: true},
		caches: map[schema.GroupKind]*kindCache{
			set.GVK.GroupKind():        {served: true},
			deployment.GVK.GroupKind(): {served: true, synced: true},
		},
	}
	m.settle()
	if got := m.View().State; got != StateSyncing {
		t.Fatalf("with a kind not read yet it is %s", got)
	}
	m.filled(m.caches[set.GVK.GroupKind()])
	refused := m.caches[deployment.GVK.GroupKind()]
	m.listFailed(refused, apierrors.NewForbidden(deployment.GVR().GroupResource(), "", nil))
	view := m.View()
	if view.State != StateReady || !view.Kinds[0].Synced || view.Kinds[0].Refused != "" {
		t.Errorf("the member is %s, its other kind %+v", view.State, view.Kinds[0])
	}
	if k := view.Kinds[1]; k.Synced || k.Refused == "" {
		t.Errorf("the refused kind is %+v", k)
	}
	m.filled(refused)
	if k := m.View().Kinds[1]; !k.Synced || k.Refused != "" {
		t.Errorf("once it may be read it is %+v", k)
	}
}
