package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

const classGrows = "grows"

// orderStory is one StatefulSet with people who change everything.
type orderStory struct {
	*story

	class string
}

// tellOrdered runs a story of a StatefulSet and returns the first rule that is broken.
func (p plot) tellOrdered() (*story, error) {
	s := &orderStory{story: &story{plot: p, rng: rand.New(rand.NewPCG(p.seed, 1<<40)), life: &appsv1alpha1.Lifecycle{}}}
	// Who takes a pod out of the selector keeps its name: that is another story.
	s.has &^= withOrphans | withHooks
	s.c = &cluster{server: newServer(start()), procs: map[types.UID]*process{}, down: map[string]bool{}, rng: s.rng}
	s.begin()
	s.a = newAgent(s.c, p.seed, p.fault)
	s.a.faults = s.draws(withFaults, 1)
	s.a.order.granted()
	steps := 25 + s.rng.IntN(50)
	for i := range steps {
		s.rng = rand.New(rand.NewPCG(p.seed, uint64(i)))
		s.c.rng, s.a.step = s.rng, i
		if p.skip[i] {
			continue
		}
		if err := s.turn(); err != nil {
			return s.story, err
		}
	}
	s.a.step = steps
	s.rng = rand.New(rand.NewPCG(p.seed, 1<<41))
	s.c.rng = s.rng
	return s.story, s.end()
}

func (s *orderStory) begin() {
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
	policies := []appsv1alpha1.CloneSetUpdateStrategyType{appsv1alpha1.InPlaceIfPossibleUpdate, appsv1alpha1.InPlaceIfPossibleUpdate, appsv1alpha1.ReCreateUpdate}
	set.Spec.UpdateStrategy = appsv1alpha1.StatefulSetUpdateStrategy{
		Type: appsv1alpha1.RollingUpdate, RollingUpdate: &appsv1alpha1.StatefulSetRollingUpdate{PodUpdatePolicy: policies[s.rng.IntN(3)]},
	}
	if s.draws(withMinReady, 3) {
		set.Spec.UpdateStrategy.RollingUpdate.MinReadySeconds = new(int32(10))
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

// numbers draws replicas, partition, budget and ordinals.
func (s *orderStory) numbers(set *appsv1alpha1.StatefulSet) {
	if s.rng.IntN(2) == 0 {
		set.Spec.Replicas = new(int32(s.rng.IntN(7)))
	}
	r := set.Spec.UpdateStrategy.RollingUpdate
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

func (s *orderStory) edit(change func(*appsv1alpha1.StatefulSet)) {
	next := s.c.ordered().DeepCopy()
	change(next)
	next.Generation++
	s.c.put(kindSet, next)
	s.a.order.granted()
}

func (s *orderStory) describe() string {
	set := s.c.ordered()
	n := slotsOf(set)
	return fmt.Sprintf("build %s (%s), ordinals %v, partition %d, maxUnavailable %d, in order %t, paused %t, minReady %d, size %v resizes %t class %s, policy %v",
		orderBuild(set), set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy, n.ordinals(), n.partition, n.unavailable, n.inOrder, n.paused, n.minReady, n.size,
		n.resizes, s.class, set.Spec.PersistentVolumeClaimRetentionPolicy)
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
	case k < 73:
		s.c.advance(time.Duration(s.rng.IntN(60)) * time.Second)
	case k < 82:
		s.edit(s.numbers)
		s.c.logf("numbers: %s", s.describe())
	case k < 91:
		s.retarget()
	case k < 94 && len(s.c.ordered().Spec.VolumeClaimTemplates) > 0:
		s.edit(func(set *appsv1alpha1.StatefulSet) {
			set.Spec.VolumeClaimTemplates = []appsv1alpha1.RawObject{s.claim([]string{"1Gi", "2Gi", "3Gi"}[s.rng.IntN(3)])}
		})
		s.c.logf("claim template: %s", s.describe())
	case k < 95 && s.has&withFaults != 0:
		s.a.quota = !s.a.quota
		s.c.logf("quota: %t", s.a.quota)
	case k < 98:
		s.a.restart()
		s.c.logf("the agent starts anew")
	default:
		s.nodeEvent()
	}
	if s.rng.IntN(3) == 0 {
		return nil
	}
	if err := s.a.reconcile(s.rng.IntN(3) > 0); err != nil {
		return err
	}
	if s.rng.IntN(3) > 0 {
		return nil
	}
	return s.a.reconcile(false)
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

func (s *orderStory) retarget() {
	b := s.builds[s.rng.IntN(len(s.builds))]
	if s.rng.IntN(3) > 0 {
		b = build{app: 1 + s.rng.IntN(4), env: one(s.rng.IntN(4) == 0), number: len(s.builds) + 1}
		if s.draws(withBadImages, 4) {
			b.app = 5 + s.rng.IntN(3)
		}
		s.builds = append(s.builds, b)
	}
	s.target(b)
}

func (s *orderStory) target(b build) {
	s.edit(func(set *appsv1alpha1.StatefulSet) { set.Spec.Template.Raw = s.template(b) })
	s.a.order.retargeted()
	s.c.logf("template: app:v%d env %d; %s", b.app, b.env, s.describe())
}

func (s *orderStory) currentBuild() string {
	cr, _ := s.c.get(kindRevision, s.c.ordered().Status.CurrentRevision).(*appsv1.ControllerRevision)
	if cr == nil {
		return firstBuild
	}
	_, rest, _ := strings.Cut(string(cr.Data.Raw), `"`+labelBuild+`":"`)
	number, _, _ := strings.Cut(rest, `"`)
	return number
}

// end puts everything right and waits for peace.
func (s *orderStory) end() error {
	s.c.logf("in the end all is put right")
	s.a.restart()
	s.a.quota, s.c.down = false, map[string]bool{}
	for _, pod := range s.c.pods() {
		p := s.c.process(pod)
		p.unhealthy, p.stuck = false, false
	}
	s.edit(func(set *appsv1alpha1.StatefulSet) {
		r := set.Spec.UpdateStrategy.RollingUpdate
		r.Paused = false
		broken := func(pod *corev1.Pod) bool {
			at := slotsOf(set).position(pod)
			return pod.Spec.Containers[0].Image >= imageCrashes && at >= 0 && at < slotsOf(set).partition
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
	if s.bad(orderBuild(s.c.ordered())) {
		s.builds = append(s.builds, build{app: 4, number: len(s.builds) + 1})
		s.target(s.builds[len(s.builds)-1])
	}
	s.c.logf("end: %s", s.describe())
	if err := s.a.settle(); err != nil {
		return fmt.Errorf("%w\n%s", err, s.shape())
	}
	if err := s.peace(); err != nil {
		return fmt.Errorf("%w\n%s", err, s.shape())
	}
	return nil
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
		case pod.Labels[appsv1alpha1.LabelPodIndex] != strconv.Itoa(ordinal(pod)):
			return fmt.Errorf("end: pod %s has no index", pod.Name)
		}
		claim := s.c.claim("data-" + pod.Name)
		if n.size == nil || !n.resizes || s.class == classFixed || at < n.partition {
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

func (s *orderStory) shape() string {
	out := s.describe() + "; current " + s.currentBuild()
	for _, pod := range s.c.pods() {
		out += fmt.Sprintf("\n%s build %s %s %s node %q ready %t gate %s deleted %t labels %v", pod.Name, pod.Labels[labelBuild], pod.Spec.Containers[0].Image,
			pod.Status.Phase, pod.Spec.NodeName, isTrue(pod, corev1.PodReady), conditionOf(pod, appsv1alpha1.ConditionInPlaceUpdateReady).Status,
			pod.DeletionTimestamp != nil, pod.Labels)
	}
	for _, c := range s.c.claims() {
		has := c.Status.Capacity[corev1.ResourceStorage]
		out += fmt.Sprintf("\nclaim %s deleted %t owners %d capacity %s", c.Name, c.DeletionTimestamp != nil, len(c.OwnerReferences), has.String())
	}
	for _, c := range s.c.ordered().Status.Conditions {
		out += fmt.Sprintf("\n%s %s %s %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return out
}
