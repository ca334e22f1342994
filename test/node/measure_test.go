//go:build lab

package node

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// move is how one pod got from v1 to v2. Moments are when this process saw them.
type move struct {
	// left is when the pod was taken out of service (gate False, or deleted); acted when its image was patched, or it was
	// deleted; ready when it, or its replacement, was Ready on v2.
	left, acted, ready time.Time
	// ran is when the status showed v2 running, returned when the gate was True with it.
	ran, returned time.Time
	// was and is are the pod before, and the pod that was Ready on v2; name is the latter's.
	was, is kit.Identity
	name    string
}

// arrive notes that a pod runs v2, is let back into service, and is Ready.
func (m *move) arrive(pod *corev1.Pod, now time.Time) {
	s := statusOf(pod, "main")
	runs := s.State.Running != nil && s.Image == lab.Image(lab.AppImage, "v2")
	stamp(&m.ran, runs, now)
	stamp(&m.returned, runs && kit.PodCondition(pod, appsv1alpha1.ConditionInPlaceUpdateReady), now)
	if m.ready.IsZero() && kit.PodReady(pod) && imageOf(pod, "main") == lab.Image(lab.AppImage, "v2") {
		m.ready, m.is, m.name = now, identity(pod), pod.Name
	}
}

func identity(pod *corev1.Pod) kit.Identity {
	return kit.Identity{UID: pod.UID, IP: pod.Status.PodIP, Node: pod.Spec.NodeName}
}

// moves are seen by a watch. One pod moves at a time, so the n-th new pod replaces the n-th deleted one.
type moves struct {
	mu      sync.Mutex
	old     map[types.UID]kit.Identity
	inPlace map[types.UID]*move
	deleted []*move
	created []types.UID
	gone    map[types.UID]bool
}

func (m *moves) see(pod *corev1.Pod, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, old := m.old[pod.UID]
	switch {
	case old && pod.DeletionTimestamp != nil:
		if !m.gone[pod.UID] {
			m.gone[pod.UID] = true
			m.deleted = append(m.deleted, &move{left: now, acted: now, was: was})
		}
	case old:
		one := m.inPlace[pod.UID]
		if one == nil {
			one = &move{was: was}
			m.inPlace[pod.UID] = one
		}
		stamp(&one.left, gateFalse(pod), now)
		stamp(&one.acted, imageOf(pod, "main") == lab.Image(lab.AppImage, "v2"), now)
		one.arrive(pod, now)
	default:
		if !slices.Contains(m.created, pod.UID) {
			m.created = append(m.created, pod.UID)
		}
		if n := slices.Index(m.created, pod.UID); n < len(m.deleted) {
			m.deleted[n].arrive(pod, now)
		}
	}
}

// stamp keeps the first moment at which something was so.
func stamp(at *time.Time, is bool, now time.Time) {
	if is && at.IsZero() {
		*at = now
	}
}

// follow records how the pods move until the test ends.
func (p place) follow() *moves {
	p.Helper()
	m := &moves{old: map[types.UID]kit.Identity{}, inPlace: map[types.UID]*move{}, gone: map[types.UID]bool{}}
	for _, pod := range p.Pods() {
		m.old[pod.UID] = identity(pod)
	}
	p.watchPods(func(pod *corev1.Pod) { m.see(pod, time.Now()) })
	return m
}

// all are the moves of pods that arrived, whichever way.
func (m *moves) all() []move {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []move
	for _, one := range m.deleted {
		out = append(out, *one)
	}
	for uid, one := range m.inPlace {
		if !m.gone[uid] && !one.ready.IsZero() {
			out = append(out, *one)
		}
	}
	return out
}

// TestMeasure is no test: it prints a table of recreating against updating in place, for docs/in-place-measured.md. Nothing
// of it depends on how fast it was.
func TestMeasure(t *testing.T) {
	if os.Getenv("MEASURE") == "" {
		t.Skip("prints a table of times; set MEASURE=1")
	}
	pods := 20
	if n, err := strconv.Atoi(os.Getenv("PODS")); err == nil {
		pods = n
	}
	p := onSteady(t)
	rows := []string{
		"| | patch or delete to Ready | out of service | the release | same UID | same IP | same node | file in the volume |",
		"| --- | --- | --- | --- | --- | --- | --- | --- |",
	}
	for _, policy := range []appsv1alpha1.CloneSetUpdateStrategyType{appsv1alpha1.ReCreateUpdate, appsv1alpha1.InPlaceOnlyUpdate} {
		t.Run(string(policy), func(t *testing.T) {
			q := place{Place: kit.In(t, member), node: p.node}
			rows = append(rows, q.measure(policy, pods))
		})
	}
	t.Logf("%d pods on two real nodes, one at a time:\n%s", pods, strings.Join(rows, "\n"))
}

func (p place) measure(policy appsv1alpha1.CloneSetUpdateStrategyType, pods int) string {
	p.Helper()
	p.create(app{replicas: pods, policy: policy, rollout: "maxUnavailable: 1", pod: "enableServiceLinks: false"})
	p.mark()
	m := p.follow()
	began := time.Now()
	p.tag("v2")
	p.Ready("web", int32(pods), 10*time.Minute)
	took := time.Since(began)
	time.Sleep(time.Second)
	var toReady, out []time.Duration
	var steps [4][]time.Duration
	for _, one := range m.all() {
		if one.left.IsZero() || one.acted.IsZero() || one.ready.IsZero() {
			p.Fatalf("a pod was not seen to move: %+v", one)
		}
		for i, step := range [4]time.Duration{one.acted.Sub(one.left), one.ran.Sub(one.acted), one.returned.Sub(one.ran), one.ready.Sub(one.returned)} {
			steps[i] = append(steps[i], step)
		}
		toReady, out = append(toReady, one.ready.Sub(one.acted)), append(out, one.ready.Sub(one.left))
	}
	if len(toReady) != pods {
		p.Fatalf("%d moves of %d were seen", len(toReady), pods)
	}
	p.Logf("%s: drain %s, then until v2 runs %s, is let back %s, and is Ready %s", policy, spreadOf(steps[0]), spreadOf(steps[1]), spreadOf(steps[2]), spreadOf(steps[3]))
	uid, ip, node, file := p.whatStayed(m.all())
	of := func(n int) string { return fmt.Sprintf("%d of %d", n, pods) }
	return fmt.Sprintf("| %s | %s | %s | %.0f s | %s | %s | %s | %s |",
		policy, spreadOf(toReady), spreadOf(out), took.Seconds(), of(uid), of(ip), of(node), of(file))
}

// whatStayed counts the pods that have still what they, or those they replace, had.
func (p place) whatStayed(moves []move) (uid, ip, node, file int) {
	p.Helper()
	for _, m := range moves {
		uid += one(m.was.UID == m.is.UID)
		ip += one(m.was.IP == m.is.IP)
		node += one(m.was.Node == m.is.Node)
		if out, err := p.RealNode(m.is.Node).Exec(p.Context(), p.NS, m.name, "main", "/app", "cat", "/data/mark"); err == nil {
			file += one(strings.HasPrefix(string(out), "written by "))
		}
	}
	return uid, ip, node, file
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// spreadOf is the median, and the least and the most.
func spreadOf(d []time.Duration) string {
	slices.Sort(d)
	return fmt.Sprintf("**%.2f s** (%.2f to %.2f)", d[len(d)/2].Seconds(), d[0].Seconds(), d[len(d)-1].Seconds())
}
