package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/underway-dev/underway/inplace"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

// Nodes reads labels of nodes, for workloads that rank their pods by the topology these are spread over. The watch, of the
// nodes' metadata, begins when the first of them asks: most clusters have none. It is safe for concurrent use.
type Nodes struct {
	cache cache.Cache

	mu       sync.Mutex
	informer cache.Informer
	asked    time.Time
}

// NewNodes returns Nodes that watch through c.
func NewNodes(c cache.Cache) *Nodes {
	return &Nodes{cache: c}
}

func node() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	return m
}

// Labels are those of the named nodes. While the watch has not shown all nodes, wait says how long it is worth waiting; when
// that is over too (the agent may not watch nodes), labels is nil: then only the spread over nodes counts.
func (n *Nodes) Labels(ctx context.Context, names []string, now time.Time) (labels map[string]map[string]string, wait time.Duration, err error) {
	if n == nil || len(names) == 0 {
		return nil, 0, nil
	}
	synced, err := n.begin(ctx, now)
	if err != nil {
		return nil, 0, err
	}
	if !synced {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.asked.Add(patience).After(now) {
			return nil, lookAgain, nil
		}
		return nil, 0, nil
	}
	labels = make(map[string]map[string]string, len(names))
	for _, name := range names {
		one := node()
		switch err := n.cache.Get(ctx, types.NamespacedName{Name: name}, one); {
		case apierrors.IsNotFound(err):
			// It is gone, or so new that a pod was bound to it before we heard of it.
		case err != nil:
			return nil, 0, fmt.Errorf("reading node %s: %w", name, err)
		default:
			labels[name] = one.Labels
		}
	}
	return labels, 0, nil
}

// begin starts the watch and reports whether it has shown all nodes.
func (n *Nodes) begin(ctx context.Context, now time.Time) (synced bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.informer == nil {
		if n.informer, err = n.cache.GetInformer(ctx, node(), cache.BlockUntilSynced(false)); err != nil {
			return false, fmt.Errorf("watching nodes: %w", err)
		}
		n.asked = now
	}
	return n.informer.HasSynced(), nil
}

// nodesOf are the nodes that pods are on, each once.
func nodesOf(pods []inplace.Pod) []string {
	var names []string
	for i := range pods {
		if pods[i].Node != "" && pods[i].Active() {
			names = append(names, pods[i].Node)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// readNodes reads the labels of the nodes, where the object ranks its pods by them.
func (r *Reconciler) readNodes(ctx context.Context, seen *observation) (err error) {
	if !seen.wanted.NodeLabels {
		return nil
	}
	seen.nodes, seen.wait, err = r.Nodes.Labels(ctx, nodesOf(seen.pods), seen.now)
	return err
}

// leanNode keeps the labels.
func leanNode(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.ManagedFields, m.Annotations, m.OwnerReferences, m.Finalizers = nil, nil, nil, nil
	}
	return obj, nil
}
