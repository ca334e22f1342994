//go:build lab

package member

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/underway-dev/underway/test/kit"
)

const inPlace = "\nupdateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}"

// dataOf are claim templates of that size and class; without a class it is the default one.
func dataOf(size, class string) string {
	if class != "" {
		class = ", storageClassName: " + class
	}
	return fmt.Sprintf("\nvolumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: %s}}%s}}]", size, class)
}

// ordinal is the number at the end of a name.
func ordinal(t *testing.T, name string) int {
	t.Helper()
	n, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ordinals are those of the pods that are there and not being deleted, ascending.
func (p place) ordinals() []int {
	p.Helper()
	var out []int
	for name := range p.Pods() {
		out = append(out, ordinal(p.T, name))
	}
	slices.Sort(out)
	return out
}

// numbered waits for pods of these ordinals and no others, all of them ready.
func (p place) numbered(within time.Duration, want ...int) {
	p.Helper()
	p.Eventually(within, func() string {
		for name, pod := range p.Pods() {
			if !kit.PodReady(pod) {
				return name + " is not ready"
			}
		}
		return differs(p.ordinals(), want)
	})
}

// differs says how two lists differ.
func differs[T comparable](got, want []T) string {
	if slices.Equal(got, want) {
		return ""
	}
	return fmt.Sprintf("got %v, want %v", got, want)
}

// image is what the spec of a pod says.
func (p place) image(pod string) string {
	p.Helper()
	if is := p.Pods()[pod]; is != nil {
		return is.Spec.Containers[0].Image
	}
	return ""
}

// claimIDs are the claims that are there and not being deleted.
func (p place) claimIDs() map[string]types.UID {
	p.Helper()
	out := map[string]types.UID{}
	for name, claim := range p.Claims() {
		out[name] = claim.UID
	}
	return out
}

// owners are the kinds of what owns a claim; "gone" without the claim.
func (p place) owners(claim string) string {
	p.Helper()
	is := p.Claims()[claim]
	if is == nil {
		return "gone"
	}
	var kinds []string
	for _, o := range is.OwnerReferences {
		kinds = append(kinds, o.Kind)
	}
	return strings.Join(kinds, " ")
}

// says is what a set says of itself in its conditions and events.
func (p place) says(s kit.Set) string {
	p.Helper()
	return kit.Text(s.Get().Status.Conditions) + kit.Text(p.Notes())
}

// sequence is the order in which pods came and went.
type sequence struct {
	mu    sync.Mutex
	ready map[string]bool
	// came and left are names; early are those that came while one of a lower ordinal was not ready.
	came, left, early, problems []string
}

// follow begins to note in which order pods come and go; it ends with the test.
func (p place) follow() *sequence {
	p.Helper()
	q := &sequence{ready: map[string]bool{}}
	pods, err := p.Follow(p.Context(), p.NS, func(e watch.Event) { q.see(p.T, e) }, func(err error) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.problems = append(q.problems, err.Error())
	})
	if err != nil {
		p.Fatal(err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range pods {
		q.ready[pods[i].Name] = kit.PodReady(&pods[i])
	}
	return q
}

func (q *sequence) see(t *testing.T, e watch.Event) {
	t.Helper()
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	_, known := q.ready[pod.Name]
	switch {
	case e.Type == watch.Deleted:
		if known && !slices.Contains(q.left, pod.Name) {
			q.left = append(q.left, pod.Name)
		}
		delete(q.ready, pod.Name)
		return
	case pod.DeletionTimestamp != nil && !slices.Contains(q.left, pod.Name):
		q.left = append(q.left, pod.Name)
	case !known:
		q.came = append(q.came, pod.Name)
		for other, ready := range q.ready {
			if ordinal(t, other) < ordinal(t, pod.Name) && !ready {
				q.early = append(q.early, pod.Name)
			}
		}
	}
	q.ready[pod.Name] = kit.PodReady(pod) && pod.DeletionTimestamp == nil
}

// seen returns the order so far.
func (q *sequence) seen() (came, left, early []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.came), slices.Clone(q.left), slices.Concat(q.early, q.problems)
}

// ofSet checks that everything of the namespace that a pod is made of belongs to the set.
func (p place) ofSet(s kit.Set) {
	p.Helper()
	uid := s.Get().UID
	for name, pod := range p.Pods() {
		if owner := metav1.GetControllerOf(pod); owner == nil || owner.UID != uid {
			p.Errorf("%s is controlled by %s", name, kit.Text(owner))
		}
	}
	for _, r := range p.revisions() {
		if owner := metav1.GetControllerOf(&r); owner == nil || owner.UID != uid {
			p.Errorf("revision %s is controlled by %s", r.Name, kit.Text(owner))
		}
	}
}
