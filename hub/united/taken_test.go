package united

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// TestRevisionsOfAnother: a ControllerRevision of somebody else that has the name of a new one is read, left alone, and the
// next pass takes another name.
func TestRevisionsOfAnother(t *testing.T) {
	t.Parallel()
	first := newBench(t, crd("cluster"), web())
	first.reconcile()
	name := first.get().Status.CurrentRevision
	if name == "" {
		t.Fatal("no revision was made")
	}
	foreign := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Revision: 7, Data: runtime.RawExtension{Raw: []byte(`{"of":"another"}`)},
	}
	b := newBench(t, crd("cluster"), web(), foreign)
	b.reconcile()
	b.reconcile()
	if got := b.get().Status.CurrentRevision; got == "" || got == name {
		t.Errorf("the revision is %q, the taken name %q", got, name)
	}
	there := &appsv1.ControllerRevision{}
	if err := b.Client.Get(t.Context(), types.NamespacedName{Namespace: "demo", Name: name}, there); err != nil || there.Revision != 7 || string(there.Data.Raw) != `{"of":"another"}` {
		t.Errorf("the other's revision was touched: %+v %v", there, err)
	}
}
