package workload_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// TestB085CountsOverARestart: pods that a release recreates are counted as such, whenever in the release the agent starts
// anew, and however far its last status is behind: the one that it had put off, or could not write.
func TestB085CountsOverARestart(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Second, 20 * time.Millisecond} { // with the second the status is mostly put off
		for at := range 12 {
			t.Run(fmt.Sprintf("before pass %d, %s each", at, step), func(t *testing.T) {
				t.Parallel()
				set := cloneSet(t, 3)
				set.Spec.UpdateStrategy.MaxUnavailable = new(intstr.FromInt32(1))
				w := newWorld(t, set)
				clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
				r := w.reconciler(clock)
				reconcile := func() {
					t.Helper()
					if _, err := r.Reconcile(t.Context(), request); err != nil {
						t.Fatal(err)
					}
				}
				for range 3 {
					reconcile()
					w.start(t)
					clock.Step(time.Second)
				}
				var cs appsv1alpha1.CloneSet
				if err := w.Get(t.Context(), request.NamespacedName, &cs); err != nil {
					t.Fatal(err)
				}
				cs.Generation++
				cs.Spec.Template.Raw = []byte(strings.Replace(string(cs.Spec.Template.Raw), `"image":"app:v1"`, `"image":"app:v1","args":["x"]`, 1))
				if err := w.Update(t.Context(), &cs); err != nil {
					t.Fatal(err)
				}
				for pass := range 40 {
					if pass == at {
						r = w.reconciler(clock)
					}
					reconcile()
					w.start(t)
					clock.Step(step)
				}
				clock.Step(time.Minute)
				reconcile()
				if err := w.Get(t.Context(), request.NamespacedName, &cs); err != nil {
					t.Fatal(err)
				}
				var list corev1.PodList
				if err := w.Client.List(t.Context(), &list); err != nil {
					t.Fatal(err)
				}
				if cs.Status.UpdatedReadyReplicas != 3 || cs.Status.Underway.Recreated != 3 {
					replaces := []string{}
					for i := range list.Items {
						replaces = append(replaces, list.Items[i].Annotations[appsv1alpha1.AnnotationReplaces])
					}
					t.Errorf("%d updated, %d recreated, they replace %q", cs.Status.UpdatedReadyReplicas, cs.Status.Underway.Recreated, replaces)
				}
			})
		}
	}
}
