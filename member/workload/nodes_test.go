package workload

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/inplace"
)

// nodeCache has one node, which it shows when it is synced.
type nodeCache struct {
	cache.Cache
	cache.Informer

	synced bool
	begun  int
}

func (c *nodeCache) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	c.begun++
	return c, nil
}

func (c *nodeCache) HasSynced() bool { return c.synced }

func (c *nodeCache) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if key.Name != "n1" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, key.Name)
	}
	obj.SetLabels(map[string]string{"zone": "a"})
	return nil
}

// TestNodes: the watch begins when it is asked for, is waited for a while, and nobody is held up for good by it.
func TestNodes(t *testing.T) {
	t.Parallel()
	c := &nodeCache{}
	n := NewNodes(c)
	ask := func(after time.Duration, names ...string) (map[string]map[string]string, time.Duration) {
		t.Helper()
		labels, wait, err := n.Labels(t.Context(), names, noon.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return labels, wait
	}
	if _, wait := ask(0); wait != 0 || c.begun != 0 {
		t.Errorf("nobody asked for a node: wait %s, %d watches", wait, c.begun)
	}
	if labels, wait := ask(0, "n1"); labels != nil || wait <= 0 {
		t.Errorf("%v, wait %s; want a wait for the watch", labels, wait)
	}
	if labels, wait := ask(patience, "n1"); labels != nil || wait != 0 {
		t.Errorf("%v, wait %s; want to go on without", labels, wait)
	}
	c.synced = true
	labels, _ := ask(patience, "n1", "n2")
	if diff := cmp.Diff(map[string]map[string]string{"n1": {"zone": "a"}}, labels); diff != "" || c.begun != 1 {
		t.Errorf("%d watches, labels (-want +got):\n%s", c.begun, diff)
	}
	var none *Nodes
	if _, wait, err := none.Labels(t.Context(), []string{"n1"}, noon); wait != 0 || err != nil {
		t.Errorf("%s %v", wait, err)
	}
}

func TestNodesOf(t *testing.T) {
	t.Parallel()
	pods := []inplace.Pod{
		{Node: "b", Phase: inplace.PhaseRunning},
		{Node: "a", Phase: inplace.PhaseRunning},
		{Node: "b", Phase: inplace.PhasePending},
		{Phase: inplace.PhasePending},
		{Node: "z", Phase: inplace.PhaseTerminating},
	}
	if diff := cmp.Diff([]string{"a", "b"}, nodesOf(pods)); diff != "" {
		t.Error(diff)
	}
}

func TestLeanNode(t *testing.T) {
	t.Parallel()
	whole := node()
	whole.Labels, whole.Annotations = map[string]string{corev1.LabelTopologyZone: "a"}, map[string]string{"a": "b"}
	whole.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	lean, err := leanNode(whole.DeepCopy())
	want := node()
	want.Labels = whole.Labels
	if diff := cmp.Diff(any(want), lean); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}
