package podview_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podview"
)

// Refused in one release, rolled back, released again: the second request conflicts, and the old answer is taken for the
// new one's.
func TestAnOldRefusalIsForgotten(t *testing.T) {
	t.Parallel()
	m, pod := podview.NewMemory(), running()
	wants := func(text string) {
		pod.Annotations[appsv1alpha1.AnnotationInPlaceState] = `{"revision":"web-2","updateTimestamp":"2026-11-29T11:59:00Z","lastContainerStatuses":{},"resources":{"web":{"limits":{"cpu":"` + text + `"}}}}`
	}
	wants("2")
	m.Look(pod, podview.Endpoints{}, at(0))
	m.Refuse(inplace.Patch{Ref: inplace.Ref{UID: pod.UID}, Resources: map[string]corev1.ResourceRequirements{"web": cpu("2")}}, "too big", true, at(1))
	m.Look(pod, podview.Endpoints{}, at(2))
	wants("1") // rolled back
	m.Look(pod, podview.Endpoints{}, at(3600))
	wants("2") // released again, the node has grown; nothing was asked of the API server yet
	if got := m.Look(pod, podview.Endpoints{}, at(7200)).ResizeRefused; got != nil {
		t.Errorf("never sent, and given up: %+v", got)
	}
}
