package travel

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/propagation/content"
)

// cost is a stage with many members and many Services; the manager's cache is a list in memory, as it is in a hub. requests
// counts what goes to the API server.
type cost struct {
	*stage

	requests int
	objects  int
	// cached are the copies as the hub's cache of a member has them; they are all of one object's name here.
	cached map[string]*unstructured.Unstructured
}

// Child is a look into a cache.
func (c *cost) Child(member string, gvk schema.GroupVersionKind, key types.NamespacedName) (*unstructured.Unstructured, bool) {
	p := c.places[member]
	if p.owner == "" {
		return nil, true
	}
	obj := c.cached[member]
	if obj == nil {
		obj, _ = p.copy(gvk, key)
		c.cached[member] = obj
	}
	return obj, true
}

func newCost(tb testing.TB, members, selected, objects int) *cost {
	tb.Helper()
	list := &fleetv1alpha1.MemberClusterList{}
	for i := range members {
		region := "us"
		if i < selected {
			region = "eu"
		}
		list.Items = append(list.Items, fleetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("member-%04d", i), Labels: map[string]string{"region": region}},
			Spec:       fleetv1alpha1.MemberClusterSpec{AllowedNamespaces: &metav1.LabelSelector{}},
		})
	}
	var all []client.Object
	for i := range objects {
		svc := webService()
		svc.Name = fmt.Sprintf("web-%03d", i)
		all = append(all, svc)
	}
	c := &cost{stage: newStage(tb, all...), objects: objects, cached: map[string]*unstructured.Unstructured{}}
	for i := range list.Items {
		c.places[list.Items[i].Name] = &place{}
	}
	count := func() { c.requests++ }
	under := c.client.(client.WithWatch)
	cached := interceptor.NewClient(under, interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			if out, ok := into.(*fleetv1alpha1.MemberClusterList); ok {
				out.Items = list.Items
				return nil
			}
			return w.List(ctx, into, opts...)
		},
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if ns, ok := into.(*corev1.Namespace); ok {
				ns.Name = key.Name
				return nil
			}
			return w.Get(ctx, key, into, opts...)
		},
		Patch: func(ctx context.Context, w client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			count()
			return w.Patch(ctx, obj, patch, opts...)
		},
	})
	c.r.Client, c.r.Members = cached, c
	c.r.Live = interceptor.NewClient(under, interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			count()
			return w.List(ctx, into, opts...)
		},
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			count()
			return w.Get(ctx, key, into, opts...)
		},
	})
	return c
}

// round looks at every object once.
func (c *cost) round(tb testing.TB) {
	tb.Helper()
	c.clock.Step(time.Minute)
	for i := range c.objects {
		key := Key(content.ByLabel()[0].GVK.GroupKind(), "shop", fmt.Sprintf("web-%03d", i))
		if _, err := c.r.Reconcile(tb.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestAPassCostsWhatItSelects: members that an object does not select cost it next to nothing; a pass that finds everything in
// order sends no request; no object has a goroutine.
func TestAPassCostsWhatItSelects(t *testing.T) {
	const members = 300
	allocs := func(selected int) float64 {
		c := newCost(t, members, selected, 2)
		c.round(t)
		c.round(t)
		before, goroutines := c.requests, runtime.NumGoroutine()
		got := testing.AllocsPerRun(2, func() { c.round(t) }) / float64(c.objects)
		if c.requests != before {
			t.Errorf("%d selected: %d requests where nothing is due", selected, c.requests-before)
		}
		if now := runtime.NumGoroutine(); now > goroutines {
			t.Errorf("%d goroutines, %d before", now, goroutines)
		}
		return got
	}
	few, many := allocs(10), allocs(members)
	t.Logf("allocations a pass: %.0f with 10 of %d members selected, %.0f with all", few, members, many)
	if perMember := (many - few) / (members - 10); perMember > 20 {
		t.Errorf("%.1f allocations for a member that is selected", perMember)
	}
	// What a pass allocates whatever it selects: reading the object, its selector, one list.
	if few > 2*members {
		t.Errorf("%.0f allocations with 10 members selected: those that are not cost something", few)
	}
}

// BenchmarkRound is a look at 200 Services on a hub with 1,000 members, where nothing is due; the time of the fake API
// server's one read an object is in it.
func BenchmarkRound(b *testing.B) {
	for _, selected := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("%d-of-1000", selected), func(b *testing.B) {
			c := newCost(b, 1000, selected, 200)
			c.round(b)
			c.round(b)
			b.ReportAllocs()
			for b.Loop() {
				c.round(b)
			}
		})
	}
}
