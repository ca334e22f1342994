//go:build lab

package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

const (
	v1 = "app:v1"
	v2 = "app:v2"
	v3 = "app:v3"
)

// united is a UnitedDeployment of a test, in a namespace of its own.
type united struct {
	*world
	ns    string
	marks map[string]lab.Mark
	// replicas by subset, which are called as their members.
	replicas map[string]int
}

// united creates one with so many replicas in each member, all held, and waits until it is whole.
func (w *world) united(partitions string, members map[string]int) *united {
	w.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-"}}
	w.must(w.hub.Create(w.Context(), ns))
	u := &united{world: w, ns: ns.Name, replicas: members, marks: map[string]lab.Mark{}}
	total := 0
	var subsets []string
	for m, n := range members {
		total += n
		subsets = append(subsets, fmt.Sprintf("{name: %s, cluster: %s, replicas: %d}", m, m, n))
	}
	slices.Sort(subsets)
	obj := &appsv1alpha1.UnitedDeployment{}
	w.must(yaml.UnmarshalStrict(fmt.Appendf(nil, `
apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: web, namespace: %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: web}}
      spec:
        selector: {matchLabels: {app: web}}
        template:
          metadata: {labels: {app: web}}
          spec:
            terminationGracePeriodSeconds: 1
            containers: [{name: app, image: "app:v1"}]
        updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 2}
  topology: {subsets: [%s]}
  updateStrategy: {type: Manual, manualUpdate: {partitions: %s}}
`, ns.Name, total, strings.Join(subsets, ", "), partitions), obj))
	w.must(w.hub.Create(w.Context(), obj))
	u.settled(v1)
	u.mark()
	return u
}

// mark forgets what was sent before.
func (u *united) mark() {
	u.Helper()
	for _, m := range u.lab.Members() {
		mark, err := m.Mark()
		u.must(err)
		u.marks[m.Name()] = mark
	}
}

func (u *united) get(ctx context.Context) *appsv1alpha1.UnitedDeployment {
	obj := &appsv1alpha1.UnitedDeployment{}
	_ = u.hub.Get(ctx, types.NamespacedName{Namespace: u.ns, Name: "web"}, obj)
	return obj
}

// edit is one change of image and partitions.
func (u *united) edit(image, partitions string) {
	u.Helper()
	raw, err := yaml.YAMLToJSON([]byte(partitions))
	u.must(err)
	patch := fmt.Sprintf(`{"spec":{
		"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"app","image":%q}]}}}}},
		"updateStrategy":{"manualUpdate":{"partitions":%s}}}}`, image, raw)
	u.must(u.hub.Patch(u.Context(), u.get(u.Context()), client.RawPatch(types.MergePatchType, []byte(patch))))
}

// subset is a subset's status.
func subset(obj *appsv1alpha1.UnitedDeployment, name string) appsv1alpha1.SubsetStatus {
	i := slices.IndexFunc(obj.Status.SubsetStatuses, func(s appsv1alpha1.SubsetStatus) bool { return s.Name == name })
	if i < 0 {
		return appsv1alpha1.SubsetStatus{Name: name, State: "absent"}
	}
	return obj.Status.SubsetStatuses[i]
}

// reached waits until so many pods of a subset are updated and ready, and its report is a fresh one of the present spec.
func (u *united) reached(name string, updated int) {
	u.Helper()
	u.eventually(fmt.Sprintf("%s has %d updated", name, updated), func(ctx context.Context) string {
		obj := u.get(ctx)
		s := subset(obj, name)
		if obj.Generation > 0 && obj.Status.ObservedGeneration == obj.Generation && !s.Stale && int(s.UpdatedReadyReplicas) == updated {
			return ""
		}
		return fmt.Sprintf("generation %d, observed %d, %+v", obj.Generation, obj.Status.ObservedGeneration, s)
	})
}

// settled waits until the release has ended, everywhere on the image.
func (u *united) settled(image string) {
	u.Helper()
	u.eventually("the release ends on "+image, func(ctx context.Context) string {
		obj := u.get(ctx)
		s := &obj.Status
		total := 0
		for m, n := range u.replicas {
			total += n
			if got := u.running(ctx, m, u.ns, image); got != n {
				return fmt.Sprintf("%d pods of %s run %s, want %d; %+v", got, m, image, n, subset(obj, m))
			}
		}
		if obj.Generation > 0 && s.ObservedGeneration == obj.Generation && int(s.UpdatedReadyReplicas) == total && s.CurrentRevision == s.UpdatedRevision {
			return ""
		}
		return fmt.Sprintf("generation %d: %+v", obj.Generation, *s)
	})
}

// sent is one write of the hub to a child, as the member's API server got it.
type sent struct {
	verb, member, partition, image string
	replicas                       int64
	code                           int
	body                           string
}

func (s sent) String() string {
	return fmt.Sprintf("%s %s: %s, partition %s, replicas %d: %d", s.verb, s.member, s.image, s.partition, s.replicas, s.code)
}

// writes are all writes of the hub to a member since the mark, Leases, dry runs and questions about its own rights apart.
func (u *united) writes(member string, filters ...lab.AuditFilter) []lab.AuditEvent {
	u.Helper()
	events, err := u.lab.Member(member).Since(u.marks[member], append(filters, lab.Writes, lab.ByUser(hubUser))...)
	u.must(err)
	return slices.DeleteFunc(events, func(e lab.AuditEvent) bool {
		return e.ObjectRef.Resource == "leases" || strings.HasPrefix(e.ObjectRef.Resource, "selfsubject")
	})
}

// sent are the writes to the test's own child in a member.
func (u *united) sent(member string) []sent {
	u.Helper()
	var out []sent
	for _, e := range u.writes(member, lab.On("clonesets"), func(e lab.AuditEvent) bool { return e.ObjectRef.Namespace == u.ns }) {
		var obj struct {
			Spec struct {
				Replicas       *int64
				UpdateStrategy struct{ Partition any }
				Template       struct {
					Spec struct{ Containers []struct{ Image string } }
				}
			}
		}
		if len(e.RequestObject) > 0 {
			u.must(json.Unmarshal(e.RequestObject, &obj))
		}
		s := sent{verb: e.Verb, member: member, code: e.ResponseStatus.Code, partition: fmt.Sprint(obj.Spec.UpdateStrategy.Partition), replicas: -1}
		if obj.Spec.Replicas != nil {
			s.replicas = *obj.Spec.Replicas
		}
		if c := obj.Spec.Template.Spec.Containers; len(c) > 0 {
			s.image = c[0].Image
		}
		var whole struct{ Spec json.RawMessage }
		if len(e.RequestObject) > 0 {
			u.must(json.Unmarshal(e.RequestObject, &whole))
		}
		s.body = string(whole.Spec)
		out = append(out, s)
	}
	return out
}

// accepted are those that the member did not refuse.
func accepted(list []sent) []sent {
	return slices.DeleteFunc(slices.Clone(list), func(s sent) bool { return s.code >= 300 })
}

// untouched fails when anything of the test was written to a member, and nothing may be deleted anywhere.
func (u *united) untouched(members ...string) {
	u.Helper()
	for _, m := range members {
		for _, e := range u.writes(m, func(e lab.AuditEvent) bool { return e.ObjectRef.Namespace == u.ns || e.ObjectRef.Name == u.ns }) {
			u.Errorf("%s got %s %s/%s: %d", m, e.Verb, e.Resource(), e.ObjectRef.Name, e.ResponseStatus.Code)
		}
	}
}

// nothingDeleted fails when anybody deleted a child, a pod or a namespace of the test since the mark.
func (u *united) nothingDeleted(members ...string) {
	u.Helper()
	for _, m := range members {
		events, err := u.lab.Member(m).Since(u.marks[m], func(e lab.AuditEvent) bool {
			return strings.HasPrefix(e.Verb, "delete") && (e.ObjectRef.Namespace == u.ns || e.ObjectRef.Name == u.ns) &&
				slices.Contains([]string{"clonesets", "pods", "namespaces", "controllerrevisions"}, e.ObjectRef.Resource)
		})
		u.must(err)
		for _, e := range events {
			u.Errorf("%s: %s %s %s by %s", m, e.Verb, e.Resource(), e.ObjectRef.Name, e.User.Username)
		}
	}
}

// writtenOnce fails when one content was written twice to a child, or a partition went back.
func (u *united) writtenOnce(member string, atMost int) {
	u.Helper()
	list := accepted(u.sent(member))
	if len(list) > atMost {
		u.Errorf("%s got %d writes for %d changes: %v", member, len(list), atMost, list)
	}
	last := ""
	for _, s := range list {
		if s.body == last {
			u.Errorf("%s got the same twice: %s", member, s)
		}
		last = s.body
	}
	for i := 1; i < len(list); i++ {
		before, after := oldest(list[i-1], u.replicas[member]), oldest(list[i], u.replicas[member])
		if after > before {
			u.Errorf("%s: an older partition after a newer one: %v", member, list)
		}
	}
}

// oldest is how many pods a write holds back.
func oldest(s sent, replicas int) int {
	if percent, ok := strings.CutSuffix(s.partition, "%"); ok {
		n := 0
		_, _ = fmt.Sscan(percent, &n)
		return (n*replicas + 99) / 100
	}
	n := 0
	_, _ = fmt.Sscan(s.partition, &n)
	return n
}

// restartedOnce fails unless every pod was updated in place, by exactly one restart.
func (u *united) restartedOnce() {
	u.Helper()
	for m := range u.replicas {
		for _, p := range u.pods(u.Context(), m, u.ns) {
			if n := p.Status.ContainerStatuses[0].RestartCount; n != 1 {
				u.Errorf("%s: pod %s restarted %d times", m, p.Name, n)
			}
		}
	}
}

// sighting records every pod that ever had an image, also for a moment.
type sighting struct {
	mu   sync.Mutex
	seen map[string]map[types.UID]bool
}

// lookout watches the pods of a namespace until the test ends.
func (w *world) lookout(member, ns string) *sighting {
	w.Helper()
	s := &sighting{seen: map[string]map[types.UID]bool{}}
	watcher, err := w.at[member].Watch(w.Context(), &corev1.PodList{}, client.InNamespace(ns))
	w.must(err)
	w.Cleanup(watcher.Stop)
	go func() {
		for event := range watcher.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			image := pod.Spec.Containers[0].Image
			s.mu.Lock()
			if s.seen[image] == nil {
				s.seen[image] = map[types.UID]bool{}
			}
			s.seen[image][pod.UID] = true
			s.mu.Unlock()
		}
	}()
	return s
}

// of is how many pods ever had the image.
func (s *sighting) of(image string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen[image])
}
