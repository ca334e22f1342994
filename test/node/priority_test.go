//go:build lab

package node

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// barrier is the variable by which OpenKruise orders containers: a key of a ConfigMap, which the kubelet waits for.
const barrier = `{name: KRUISE_CONTAINER_BARRIER, valueFrom: {configMapKeyRef: {name: barrier, key: p_%d}}}`

// batches records how the images of two containers changed in the spec of each pod.
type batches struct {
	mu sync.Mutex
	// steps are the pairs of images each pod had, in order.
	steps map[string][][2]string
	// early are pods whose second container was patched before the first was ready.
	early []string
	last  map[string]*corev1.Pod
}

func (b *batches) see(pod *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := [2]string{imageOf(pod, "main"), imageOf(pod, "side")}
	steps := b.steps[pod.Name]
	if len(steps) == 0 || steps[len(steps)-1] != now {
		b.steps[pod.Name] = append(steps, now)
		was := b.last[pod.Name]
		if len(steps) > 0 && steps[len(steps)-1][1] != now[1] {
			if s := statusOf(was, "main"); !s.Ready || s.Image != now[0] {
				b.early = append(b.early, fmt.Sprintf("%s: %s", pod.Name, kit.Text(s)))
			}
		}
	}
	b.last[pod.Name] = pod
}

// batches follows the pods until the test ends.
func (p place) batches() *batches {
	p.Helper()
	b := &batches{steps: map[string][][2]string{}, last: map[string]*corev1.Pod{}}
	p.watchPods(b.see)
	return b
}

// TestLaunchPriority: containers with launch priorities change in batches, the higher first; the next batch waits until the
// containers of the one before run and are ready. One request more for it.
func TestLaunchPriority(t *testing.T) {
	const pods = 2
	p := onSteady(t)
	p.Make(`
apiVersion: v1
kind: ConfigMap
metadata: {name: barrier}
data: {p_10: "true", p_0: "true"}`)
	p.create(app{
		replicas: pods, rollout: "maxUnavailable: 1", main: fmt.Sprintf("env: ["+barrier+"]", 10),
		more: fmt.Sprintf(`{name: side, image: %q, imagePullPolicy: Never, env: [{name: PORT, value: "8081"}, `+barrier+`]}`, lab.Image(lab.AppImage, "v1"), 0),
	})
	before, b, mark := kit.Identities(p.Pods()), p.batches(), p.auditMark()
	v1, slow, v2 := lab.Image(lab.AppImage, "v1"), lab.Image(lab.AppImage, "slow-start"), lab.Image(lab.AppImage, "v2")
	p.set(mainImage, slow, sideImage, v2)
	p.Ready("web", pods, patience)
	time.Sleep(time.Second)
	p.kept(before, map[string]int32{"main": 1, "side": 1})
	p.runs("main", slow)
	p.runs("side", v2)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range p.names() {
		if got, want := b.steps[name], [][2]string{{v1, v1}, {slow, v1}, {slow, v2}}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s had the images %v, want %v", name, got, want)
		}
	}
	if len(b.early) > 0 {
		t.Errorf("the second batch did not wait for the first: %v", b.early)
	}
	writes, conflicts, reads := p.requests(mark)
	t.Logf("%d pods in two batches: %v, %d conflicts, %d reads", pods, writes, conflicts, reads)
	if writes["patch pods"] != 2*pods || writes["patch pods/status"] != 2*pods || len(writes) != 2 || reads != 0 {
		t.Errorf("%v and %d reads, want 2 patches of pods and 2 of pods/status a pod", writes, reads)
	}
}
