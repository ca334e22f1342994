package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

const (
	// lookEvery is how often the screen is drawn, podsEvery how often the pods of all members are read.
	lookEvery = 250 * time.Millisecond
	podsEvery = time.Second
	// heldFor is how long the held release must move nothing.
	heldFor = 3 * time.Second
)

//go:embed app.yaml
var appYAML []byte

func cachedRead() *metav1.ListOptions { return &metav1.ListOptions{ResourceVersion: "0"} }

// app is app.yaml with this run's members, numbers and image.
func (d *demo) app(image string) (*unstructured.Unstructured, error) {
	content := map[string]any{}
	text := strings.ReplaceAll(string(appYAML), "image: "+oldImage, "image: "+image)
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		return nil, fmt.Errorf("reading app.yaml: %w", err)
	}
	u := &unstructured.Unstructured{Object: content}
	subsets := make([]any, len(d.names))
	for i, name := range d.names {
		subsets[i] = map[string]any{"name": name, "cluster": name, "replicas": int64(d.counts[i])}
	}
	held := map[string]any{}
	for _, name := range d.names {
		held[name] = "100%"
	}
	return u, errors.Join(
		unstructured.SetNestedField(u.Object, int64(d.opts.pods), "spec", "replicas"),
		unstructured.SetNestedSlice(u.Object, subsets, "spec", "topology", "subsets"),
		unstructured.SetNestedMap(u.Object, held, "spec", "updateStrategy", "manualUpdate", "partitions"),
	)
}

// put applies the declaration, as `kubectl apply --server-side` does.
func (d *demo) put(ctx context.Context, image string) error {
	u, err := d.app(image)
	if err != nil {
		return err
	}
	err = d.hub.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("underway-demo"), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying app.yaml: %w", err)
	}
	return nil
}

// apply applies the workload for the first time, waits until all of it is ready, and remembers every pod.
func (d *demo) apply(ctx context.Context) error {
	defer d.chapter("apply", fmt.Sprintf("apply test/demo/app.yaml: %d pods over %s", d.opts.pods, strings.Join(d.names, ", ")))()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := d.hub.Create(ctx, ns); err != nil {
		return err
	}
	if err := d.put(ctx, oldImage); err != nil {
		return err
	}
	d.live = newScreen(d)
	err := d.watch(ctx, "all pods to be ready", func(ud *appsv1alpha1.UnitedDeployment, now sight) (bool, string, error) {
		ready := 0
		for _, m := range d.members {
			ready += now.count(m.name, func(p pod) bool { return p.runs(oldImage) })
		}
		finished := ud.Status.CurrentRevision != "" && ud.Status.CurrentRevision == ud.Status.UpdatedRevision &&
			int(ud.Status.UpdatedReadyReplicas) == d.opts.pods
		return ready == d.opts.pods && len(now) == d.opts.pods && finished, fmt.Sprintf("%d of %d pods are ready", ready, d.opts.pods), nil
	})
	if err != nil {
		return err
	}
	before, err := look(ctx, d.members, true)
	if err != nil {
		return err
	}
	d.report.before = before
	for _, m := range d.members {
		if n := len(before.of(m.name)); n != m.replicas {
			return fmt.Errorf("%s has %d pods, want %d", m.name, n, m.replicas)
		}
	}
	return nil
}

// release changes the image with everything held, proves that nothing moves, and then makes the steps.
func (d *demo) release(ctx context.Context) error {
	defer d.chapter("release", fmt.Sprintf("release %s -> %s", oldImage, newImage))()
	if err := d.mark(); err != nil {
		return err
	}
	if err := d.hold(ctx); err != nil {
		return fmt.Errorf("with everything held: %w", err)
	}
	for _, s := range d.steps {
		if err := d.take(ctx, s); err != nil {
			return fmt.Errorf("step %q: %w", s.name, err)
		}
	}
	return nil
}

func (d *demo) hold(ctx context.Context) error {
	began := time.Now()
	d.live.say("-- change the image, everything held")
	if err := d.put(ctx, newImage); err != nil {
		return err
	}
	none := nothing(d.names)
	var since time.Time
	err := d.watch(ctx, "the hub to see the new image and hold it", func(ud *appsv1alpha1.UnitedDeployment, now sight) (bool, string, error) {
		if err := within(now, none); err != nil {
			return false, "", err
		}
		seen := ud.Status.ObservedGeneration == ud.Generation && ud.Status.UpdatedRevision != ud.Status.CurrentRevision
		switch {
		case !seen:
			return false, "the hub has not seen it", nil
		case since.IsZero():
			since = time.Now()
		}
		return time.Since(since) >= heldFor, "it is held", nil
	})
	if err != nil {
		return err
	}
	return d.record(ctx, step{name: "held", granted: none}, began)
}

// take makes one step: grants by the partitions, waits until it is proven, and checks every pod.
func (d *demo) take(ctx context.Context, s step) error {
	began := time.Now()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"updateStrategy": map[string]any{
		"manualUpdate": map[string]any{"partitions": partitions(d.names, d.counts, s.granted)},
	}}})
	if err != nil {
		return err
	}
	d.live.say("-- %s: kubectl -n %s patch ud %s --type merge -p '%s'", s.name, namespace, workload, patch)
	ud := &appsv1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: workload}}
	if err := d.hub.Patch(ctx, ud, client.RawPatch(types.MergePatchType, patch), client.FieldOwner("underway-demo")); err != nil {
		return err
	}
	err = d.watch(ctx, "it to be proven", func(ud *appsv1alpha1.UnitedDeployment, now sight) (bool, string, error) {
		if err := within(now, s.granted); err != nil {
			return false, "", err
		}
		waiting := d.unproven(ud, now, s)
		return len(waiting) == 0, strings.Join(waiting, "; "), nil
	})
	if err != nil {
		return err
	}
	return d.record(ctx, s, began)
}

// unproven says which members are not where the step wants them, by the hub's status and by their pods.
func (d *demo) unproven(ud *appsv1alpha1.UnitedDeployment, now sight, s step) []string {
	var waiting []string
	status := map[string]appsv1alpha1.SubsetStatus{}
	if ud.Status.ObservedGeneration == ud.Generation {
		for _, entry := range ud.Status.SubsetStatuses {
			status[entry.Name] = entry
		}
	}
	for _, m := range d.members {
		want := s.granted[m.name]
		moved := now.count(m.name, func(p pod) bool { return p.runs(newImage) })
		ready := now.count(m.name, func(p pod) bool { return p.ready && !p.going })
		entry, told := status[m.name]
		if moved != want || ready != m.replicas || !told || int(entry.UpdatedReadyReplicas) != want || int(entry.Granted) != want {
			waiting = append(waiting, fmt.Sprintf("%s: %d of %d granted run %s, %d of %d ready; the hub says granted %d, updated and ready %d",
				m.name, moved, want, newImage, ready, m.replicas, entry.Granted, entry.UpdatedReadyReplicas))
		}
	}
	return waiting
}

// record checks a step pod by pod, on a fresh read, and writes it down.
func (d *demo) record(ctx context.Context, s step, began time.Time) error {
	now, err := look(ctx, d.members, true)
	if err != nil {
		return err
	}
	if err := exactly(d.report.before, now, newImage, s.granted); err != nil {
		return err
	}
	d.report.step(d, s, now, time.Since(began))
	d.live.say("   proven: %s", d.report.last())
	return nil
}

// watch draws the tree, and asks done with the hub's object and the pods, until it says so or the patience is over.
func (d *demo) watch(ctx context.Context, what string, done func(*appsv1alpha1.UnitedDeployment, sight) (bool, string, error)) error {
	var lookedAt time.Time
	var now sight
	err := d.until(ctx, d.opts.patience, what, func(ctx context.Context) (bool, string, error) {
		ud := &appsv1alpha1.UnitedDeployment{}
		if err := d.hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: workload}, ud); err != nil {
			return false, "", err
		}
		d.live.draw(ud)
		if time.Since(lookedAt) < podsEvery {
			return false, "", nil
		}
		var err error
		if now, err = look(ctx, d.members, false); err != nil {
			return false, "", err
		}
		lookedAt = time.Now()
		return done(ud, now)
	})
	d.live.settle()
	return err
}

// invite prints what to play with.
func (d *demo) invite() {
	hub := relative(d.opts.root, d.fleet.Hub().Kubeconfig())
	d.say("\nThe fleet is up. `make lab-down` ends it. From the repository:\n")
	d.say("  export PATH=$PWD/bin:$PATH KUBECONFIG=%s", hub)
	d.say("  kubectl underway get clusters")
	d.say("  kubectl underway get ud %s -n %s -w", workload, namespace)
	d.say("  kubectl -n %s apply --server-side --force-conflicts -f test/demo/app.yaml      # declares app:v1 again, held", namespace)
	d.say("  kubectl -n %s patch ud %s --type merge -p '{\"spec\":{\"updateStrategy\":{\"manualUpdate\":{\"partitions\":{\"%s\":0}}}}}'", namespace, workload, d.names[0])
	d.say("  kubectl underway freeze --all --reason lunch; kubectl underway unfreeze --all\n")
	if _, err := exec.LookPath("kubectl"); err != nil {
		d.say("  # there is no kubectl on the PATH: `kubectl-underway get ...` works without, the other lines want one\n")
	}
	d.say("  # the pods of each member")
	for _, m := range d.names {
		d.say("  kubectl --kubeconfig %s -n %s get pods", relative(d.opts.root, d.fleet.Member(m).Kubeconfig()), namespace)
	}
}
