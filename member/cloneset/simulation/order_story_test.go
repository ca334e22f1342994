package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

const classGrows = "grows"

// orderStory is one StatefulSet with people who change everything.
type orderStory struct {
	*story

	class string
	// rolling are the numbers of an update while its type is OnDelete, which does not go with them.
	rolling *appsv1alpha1.StatefulSetRollingUpdate
}

// tellOrdered runs a story of a StatefulSet and returns the first rule that is broken.
func (p plot) tellOrdered() (*story, error) {
	s := &orderStory{story: &story{plot: p}}
	return s.story, s.play(s)
}

// granted notes what the spec allows now.
func (s *orderStory) granted() {
	s.a.stale = s.has&withStale != 0
	s.a.order.granted()
}

func (s *orderStory) begin() {
	s.life = s.drawHooks()
	s.builds = []build{{app: 1, number: 1}}
	s.class = []string{classGrows, classGrows, classFixed}[s.rng.IntN(3)]
	set := &appsv1alpha1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: setName, UID: setUID, Generation: 1, CreationTimestamp: metav1.NewTime(s.c.now)},
		Spec: appsv1alpha1.StatefulSetSpec{
			Replicas: new(int32(1 + s.rng.IntN(6))), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, ServiceName: "web",
		},
	}
	set.Spec.Template.Raw = s.template(s.builds[0])
	if s.draws(withPolicy, 2) {
		set.Spec.PodManagementPolicy = "Parallel"
	}
	if s.draws(withClaims, 2) {
		set.Spec.VolumeClaimTemplates = []appsv1alpha1.RawObject{s.claim("1Gi")}
		set.Spec.VolumeClaimUpdateStrategy.Type = []string{appsv1alpha1.ClaimsOnDelete, appsv1alpha1.ClaimsOnPodRollingUpdate}[s.rng.IntN(2)]
		if s.rng.IntN(3) == 0 {
			set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1alpha1.StatefulSetClaimRetentionPolicy{
				WhenDeleted: appsv1alpha1.RetainClaims, WhenScaled: appsv1alpha1.DeleteClaims,
			}
		}
	}
	if s.draws(withHooks, 2) {
		set.Spec.Lifecycle = s.life
	}
	s.strategy(set)
	if s.draws(withMinReady, 3) {
		s.update(set).MinReadySeconds = new(int32(10))
	}
	s.numbers(set)
	s.c.put(kindSet, set)
	s.c.put(kindSlice, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: sliceName}})
	for _, class := range []string{classGrows, classFixed} {
		s.c.put(kindClass, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, AllowVolumeExpansion: new(class == classGrows)})
	}
}

func (s *orderStory) claim(size string) appsv1alpha1.RawObject {
	raw := appsv1alpha1.RawObject{}
	raw.Raw = fmt.Appendf(nil, `{"metadata":{"name":"data"},"spec":{"storageClassName":%q,"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":%q}}}}`, s.class, size)
	return raw
}

// update is where the numbers of an update stand.
func (s *orderStory) update(set *appsv1alpha1.StatefulSet) *appsv1alpha1.StatefulSetRollingUpdate {
	if set.Spec.UpdateStrategy.RollingUpdate == nil {
		return s.rolling
	}
	return set.Spec.UpdateStrategy.RollingUpdate
}

// strategy draws what seldom changes: how pods move, and in which order.
func (s *orderStory) strategy(set *appsv1alpha1.StatefulSet) {
	s.roll(set)
	policies := []appsv1alpha1.CloneSetUpdateStrategyType{appsv1alpha1.InPlaceIfPossibleUpdate, appsv1alpha1.InPlaceIfPossibleUpdate, appsv1alpha1.ReCreateUpdate}
	r := s.update(set)
	r.PodUpdatePolicy, r.UnorderedUpdate = policies[s.rng.IntN(3)], nil
	if s.draws(withOrder, 3) && set.Spec.Parallel() {
		r.UnorderedUpdate = &appsv1alpha1.UnorderedUpdate{PriorityStrategy: &appsv1alpha1.UpdatePriorityStrategy{
			WeightPriority: []appsv1alpha1.UpdatePriorityWeightTerm{
				{Weight: 50, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelTier: tierFirst}}},
			},
		}}
	}
	if s.draws(withPolicy, 8) {
		s.rolling, set.Spec.UpdateStrategy.RollingUpdate = r, nil
		set.Spec.UpdateStrategy.Type = appsv1alpha1.OnDeleteUpdate
	}
}

// roll brings the strategy back from OnDelete.
func (s *orderStory) roll(set *appsv1alpha1.StatefulSet) {
	set.Spec.UpdateStrategy.Type = appsv1alpha1.RollingUpdate
	if s.rolling != nil {
		set.Spec.UpdateStrategy.RollingUpdate, s.rolling = s.rolling, nil
	}
	if set.Spec.UpdateStrategy.RollingUpdate == nil {
		set.Spec.UpdateStrategy.RollingUpdate = &appsv1alpha1.StatefulSetRollingUpdate{}
	}
}

// numbers draws replicas, partition, budget and ordinals.
func (s *orderStory) numbers(set *appsv1alpha1.StatefulSet) {
	if s.rng.IntN(2) == 0 {
		set.Spec.Replicas = new(int32(s.rng.IntN(7)))
	}
	r := s.update(set)
	r.Partition = nil
	if s.rng.IntN(3) > 0 {
		r.Partition = new(int32(s.rng.IntN(int(*set.Spec.Replicas) + 1)))
	}
	r.MaxUnavailable = nil
	if s.rng.IntN(2) == 0 && set.Spec.Parallel() {
		r.MaxUnavailable = new(intstr.FromInt32(int32(1 + s.rng.IntN(3))))
	}
	r.Paused = s.draws(withPolicy, 10)
	if s.draws(withOrder, 4) {
		set.Spec.ReserveOrdinals = nil
		for range s.rng.IntN(3) {
			set.Spec.ReserveOrdinals = append(set.Spec.ReserveOrdinals, intstr.FromInt32(int32(s.rng.IntN(6))))
		}
	}
	if s.draws(withOrder, 8) {
		set.Spec.Ordinals = &appsv1alpha1.StatefulSetOrdinals{Start: int32(s.rng.IntN(3))}
	}
	set.Spec.ScaleStrategy = nil
	if s.draws(withScaleLimits, 5) {
		set.Spec.ScaleStrategy = &appsv1alpha1.StatefulSetScaleStrategy{MaxUnavailable: new(intstr.FromInt32(int32(1 + s.rng.IntN(3))))}
	}
}

// edit is a person's change of the StatefulSet.
func (s *orderStory) edit(change func(*appsv1alpha1.StatefulSet)) {
	next := s.c.ordered().DeepCopy()
	change(next)
	next.Generation++
	s.c.put(kindSet, next)
	s.granted()
}

func (s *orderStory) describe() string {
	set := s.c.ordered()
	n := slotsOf(set)
	out := fmt.Sprintf("build %s (%s), ordinals %v, partition %d, maxUnavailable %d, in order %t, unordered %t, paused %t, OnDelete %t, minReady %d, "+
		"size %v resizes %t class %s, policy %v", orderBuild(set), n.policy, n.ordinals(), n.partition, n.unavailable, n.inOrder, n.unordered, n.paused,
		n.onDelete, n.minReady, n.size, n.resizes, s.class, set.Spec.PersistentVolumeClaimRetentionPolicy)
	if life := set.Spec.Lifecycle; life != nil {
		raw, _ := json.Marshal(life)
		out += ", hooks " + string(raw)
	}
	return out
}

// turn is one step: something happens, and the agent may look.
func (s *orderStory) turn() error {
	var pod *corev1.Pod
	if pods := s.c.pods(); len(pods) > 0 {
		pod = pods[s.rng.IntN(len(pods))]
	}
	switch k := s.rng.IntN(100); {
	case k < 52:
		s.progress()
		s.resize()
	case k < 66 && pod != nil:
		s.podEvent(pod)
	case k < 68 && pod != nil && s.has&withFailures != 0:
		s.c.logf("somebody takes the index off pod %s", pod.Name)
		s.c.editPod(pod.Name, func(p *corev1.Pod) { delete(p.Labels, appsv1alpha1.LabelPodIndex) })
	case k < 71:
		s.c.advance(time.Duration(s.rng.IntN(60)) * time.Second)
	case k < 80:
		s.edit(s.numbers)
		s.c.logf("numbers: %s", s.describe())
	case k < 88:
		s.retarget()
	case k < 95:
		s.setEvent()
	case k < 98:
		s.restarts()
	default:
		s.nodeEvent()
	}
	return s.look()
}

// setEvent changes what is left of the StatefulSet.
func (s *orderStory) setEvent() {
	switch k := s.rng.IntN(7); {
	case k < 3 && len(s.c.ordered().Spec.VolumeClaimTemplates) > 0:
		s.sizes()
	case k < 4 && s.has&withFaults != 0:
		s.a.quota = !s.a.quota
		s.c.logf("quota: %t", s.a.quota)
		return
	case k < 5 && s.has&withHooks != 0:
		s.edit(func(set *appsv1alpha1.StatefulSet) {
			if set.Spec.Lifecycle != nil {
				set.Spec.Lifecycle = nil
			} else {
				set.Spec.Lifecycle = s.life
			}
		})
	case k < 7 && s.has&withPolicy != 0:
		s.edit(s.strategy)
	default:
		return
	}
	s.c.logf("changed: %s", s.describe())
}

// restarts is the agent starting anew; its first lists may be older than what the one before wrote last.
func (s *orderStory) restarts() {
	stale := s.draws(withStale, 2)
	s.a.startAnew(stale)
	s.c.logf("the agent starts anew, stale %t", stale)
}

// resize is the resizer: it makes one claim as large as it asks for.
func (s *orderStory) resize() {
	if claims := s.c.claims(); len(claims) > 0 {
		s.c.grow(claims[s.rng.IntN(len(claims))])
	}
	s.c.releaseClaims()
}

func (c *cluster) grow(claim *corev1.PersistentVolumeClaim) {
	want, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	if want.Cmp(has) <= 0 {
		return
	}
	next := claim.DeepCopy()
	next.Status.Capacity = next.Spec.Resources.Requests.DeepCopy()
	c.put(kindClaim, next)
}

// retarget is a new template, or an old one again.
func (s *orderStory) retarget() {
	b := s.builds[s.rng.IntN(len(s.builds))]
	if s.rng.IntN(3) > 0 {
		b = build{app: 1 + s.rng.IntN(4), env: one(s.rng.IntN(4) == 0), number: len(s.builds) + 1}
		if s.draws(withBadImages, 4) {
			b.app = 5 + s.rng.IntN(3)
		}
		s.builds = append(s.builds, b)
	}
	if len(s.c.ordered().Spec.VolumeClaimTemplates) > 0 && s.rng.IntN(2) == 0 {
		s.sizes()
	}
	s.target(b)
}

// sizes is another size of the claims.
func (s *orderStory) sizes() {
	s.edit(func(set *appsv1alpha1.StatefulSet) {
		set.Spec.VolumeClaimTemplates = []appsv1alpha1.RawObject{s.claim([]string{"1Gi", "2Gi", "3Gi"}[s.rng.IntN(3)])}
	})
}

func (s *orderStory) target(b build) {
	s.edit(func(set *appsv1alpha1.StatefulSet) { set.Spec.Template.Raw = s.template(b) })
	s.a.order.retargeted()
	s.c.logf("template: app:v%d env %d; %s", b.app, b.env, s.describe())
}

// end puts everything right and waits for peace.
func (s *orderStory) end() error {
	s.mend()
	for _, pod := range s.c.pods() {
		if !ours(pod) && !active(pod) {
			// What has ended is not adopted, and its name is in the way, which is said: a person deletes it.
			s.c.remove(kindPod, pod.Name)
			s.c.releaseClaims()
		} else if pod.Labels["app"] != "web" {
			s.c.editPod(pod.Name, func(p *corev1.Pod) { p.Labels["app"] = "web" })
		}
	}
	s.edit(func(set *appsv1alpha1.StatefulSet) {
		s.roll(set)
		r := s.update(set)
		r.Paused = false
		n := slotsOf(set)
		broken := func(pod *corev1.Pod) bool {
			at := n.position(pod)
			return pod.Spec.Containers[0].Image >= imageCrashes && at >= 0 && (at < n.partition || n.unordered)
		}
		// A pod that never comes up and that the partition holds is held as asked.
		if s.rng.IntN(2) == 0 || slices.ContainsFunc(s.c.pods(), broken) || s.bad(s.currentBuild()) {
			r.Partition = nil
		}
		if s.class == classFixed && set.Spec.VolumeClaimUpdateStrategy.Type == appsv1alpha1.ClaimsOnPodRollingUpdate && len(set.Spec.VolumeClaimTemplates) > 0 {
			// A class that allows no expansion holds the update, as asked.
			set.Spec.VolumeClaimTemplates = []appsv1alpha1.RawObject{s.claim("1Gi")}
		}
	})
	if now := s.currentBuild(); s.bad(orderBuild(s.c.ordered())) && !s.bad(now) && s.rng.IntN(2) == 0 {
		// Back to what was there, with fewer pods, perhaps.
		if s.rng.IntN(2) == 0 {
			s.edit(func(set *appsv1alpha1.StatefulSet) {
				set.Spec.Replicas = new(int32(s.rng.IntN(int(*set.Spec.Replicas) + 1)))
			})
		}
		number, _ := strconv.Atoi(now)
		s.target(s.builds[number-1])
	}
	if s.bad(orderBuild(s.c.ordered())) {
		s.builds = append(s.builds, build{app: 4, number: len(s.builds) + 1})
		s.target(s.builds[len(s.builds)-1])
	}
	return s.close(s.describe, s.peace)
}

// peace: the wanted pods are there and serve, as many on the update revision as may be, each with its claim, and the status
// says so.
func (s *orderStory) peace() error {
	set := s.c.ordered()
	n, build := slotsOf(set), orderBuild(set)
	fresh, total := 0, 0
	for _, pod := range s.c.pods() {
		at := n.position(pod)
		total++
		fresh += one(pod.Labels[labelBuild] == build)
		switch {
		case at < 0 || !active(pod) || !ours(pod):
			return fmt.Errorf("end: pod %s is still there", pod.Name)
		case !serves(pod):
			return fmt.Errorf("end: pod %s does not serve", pod.Name)
		case !settled(pod):
			return fmt.Errorf("end: pod %s is left in state %s", pod.Name, pod.Labels[appsv1alpha1.LabelLifecycleState])
		case pod.Labels[appsv1alpha1.LabelPodIndex] != strconv.Itoa(ordinal(pod)):
			return fmt.Errorf("end: pod %s has no index", pod.Name)
		}
		claim := s.c.claim("data-" + pod.Name)
		if n.size == nil || !n.resizes || s.class == classFixed || at < n.partition || n.unordered && pod.Labels[labelBuild] != build {
			continue
		}
		if has := claim.Status.Capacity[corev1.ResourceStorage]; has.Cmp(*n.size) < 0 {
			return fmt.Errorf("end: claim %s has %s and should have %s", claim.Name, has.String(), n.size.String())
		}
	}
	status := set.Status
	switch {
	case total != n.replicas:
		return fmt.Errorf("end: %d pods of %d", total, n.replicas)
	case fresh < n.replicas-n.partition:
		return fmt.Errorf("end: %d pods are on build %s, %d should", fresh, build, n.replicas-n.partition)
	case int(status.Replicas) != total || int(status.ReadyReplicas) != total || status.ObservedGeneration != set.Generation || int(status.UpdatedReplicas) != fresh:
		return fmt.Errorf("end: the status says %+v", status)
	}
	return nil
}
