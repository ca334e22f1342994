//go:build lab

package long

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
)

// sight is what a tally remembers of a pod.
type sight struct {
	name, id, image string
	restarts        int32
	active          bool
}

// tally counts the pods of a namespace by its watch, an event at a time: what kit.Recorder looks at anew for each event would
// cost more than the agent does.
type tally struct {
	mu   sync.Mutex
	pods map[types.UID]sight
	ids  map[string]types.UID
	// gone are those that were deleted.
	gone map[types.UID]bool

	active, most     int
	created, deleted int
	images           map[string]int
	problems         []string
}

func newTally() *tally {
	return &tally{pods: map[types.UID]sight{}, ids: map[string]types.UID{}, gone: map[types.UID]bool{}, images: map[string]int{}}
}

// follow counts until ctx ends; the namespace has no pods yet.
func (t *tally) follow(ctx context.Context, c kit.Cluster, namespace string) error {
	there, err := c.Follow(ctx, namespace, t.see, func(err error) { t.problem("%v", err) })
	if err == nil && len(there) > 0 {
		err = fmt.Errorf("namespace %s has pods", namespace)
	}
	return err
}

func (t *tally) problem(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note(format, args...)
}

// note keeps the first problems.
func (t *tally) note(format string, args ...any) {
	if len(t.problems) < 20 {
		t.problems = append(t.problems, fmt.Sprintf(format, args...))
	}
}

func (t *tally) see(e watch.Event) {
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	was, known := t.pods[pod.UID]
	now := sight{
		name: pod.Name, id: pod.Labels[appsv1alpha1.LabelCloneSetInstanceID], image: pod.Spec.Containers[0].Image,
		restarts: kit.Restarts(pod), active: e.Type != watch.Deleted && pod.DeletionTimestamp == nil,
	}
	t.count(was, -1)
	t.count(now, 1)
	t.most = max(t.most, t.active)
	switch {
	case e.Type == watch.Deleted:
		t.deleted++
		t.gone[pod.UID] = true
		delete(t.pods, pod.UID)
		if t.ids[now.id] == pod.UID {
			delete(t.ids, now.id)
		}
		return
	case !known:
		t.created++
		if t.gone[pod.UID] {
			t.note("%s is seen again after it was deleted", now.name)
		}
		if other, taken := t.ids[now.id]; taken || now.id == "" {
			t.note("%s has the id %q of pod %s, which exists", now.name, now.id, other)
		}
		t.ids[now.id] = pod.UID
	case now.restarts > was.restarts+1:
		t.note("%s restarted %d times and then %d times", now.name, was.restarts, now.restarts)
	}
	t.pods[pod.UID] = now
}

func (t *tally) count(s sight, by int) {
	if s.active {
		t.active += by
		t.images[s.image] += by
	}
}

// on is how many pods have an image in their spec.
func (t *tally) on(image string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.images[image]
}

// here is how many pods there are.
func (t *tally) here() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.active
}

// reset forgets the largest number of pods that there were at once.
func (t *tally) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.most = t.active
}

// said are the problems so far.
func (t *tally) said() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.problems)
}

// leaving is how many pods are being deleted.
func (t *tally) leaving() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pods) - t.active
}

// soFar are the pods that came and that went.
func (t *tally) soFar() (created, deleted int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.created, t.deleted
}
