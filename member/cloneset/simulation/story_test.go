package simulation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

const (
	setUID     = "uid-web"
	labelBuild = "build"
	firstBuild = "1"
	labelTier  = "tier"
	tierFirst  = "a"
)

// build is what a template is made of: the image, a variable that cannot change in place, and its number.
type build struct {
	app, env, number int
}

// feature is something a story has; shrinking a failure takes them away.
type feature uint

const (
	withClaims feature = 1 << iota
	withHooks
	withSurge
	withOrder
	withScaleLimits
	withAsking
	withNodes
	withFailures
	withFaults
	withRollback
	withHPA
	withInvalid
	withPolicy
	withMinReady
	withBadImages
	withOrphans
	withStale
	allFeatures = 1<<iota - 1
)

// plot is which story is told: a seed, less some features and some steps.
type plot struct {
	seed  uint64
	has   feature
	skip  map[int]bool
	fault *fault
}

// story is one CloneSet with people who change everything.
type story struct {
	plot

	c      *cluster
	a      *agent
	rng    *rand.Rand
	builds []build
	// hook keys are labels or finalizers.
	life *appsv1alpha1.Lifecycle
	flat bool
}

func start() time.Time { return time.Unix(1_800_000_000, 0) }

// teller is whose story it is: a CloneSet's or a StatefulSet's.
type teller interface {
	// begin makes the object.
	begin()
	// granted notes what the spec allows now.
	granted()
	// turn is one step.
	turn() error
	// end puts everything right and waits for peace.
	end() error
}

// tell runs a story of a CloneSet and returns the first rule that is broken.
func (p plot) tell() (*story, error) {
	s := &story{plot: p}
	err := s.play(s)
	return s, err
}

func (s *story) play(who teller) error {
	s.draw(1 << 40)
	s.c = &cluster{server: newServer(start()), procs: map[types.UID]*process{}, down: map[string]bool{}, rng: s.rng}
	who.begin()
	s.a = newAgent(s.c, s.seed, s.fault)
	s.a.faults = s.draws(withFaults, 1)
	who.granted()
	steps := 25 + s.rng.IntN(50)
	for i := range steps {
		s.draw(uint64(i))
		s.a.step = i
		if s.skip[i] {
			continue
		}
		if err := who.turn(); err != nil {
			return err
		}
	}
	s.a.step = steps
	s.draw(1 << 41)
	return who.end()
}

// draw gives a step a source of its own, so that steps can be left out.
func (s *story) draw(step uint64) {
	s.rng = rand.New(rand.NewPCG(s.seed, step))
	if s.c != nil {
		s.c.rng = s.rng
	}
}

// deeds are what the agent did, counted.
func (s *story) deeds() map[string]int {
	if s.a.order != nil {
		return s.a.order.tally
	}
	return s.a.judge.tally
}

// draws reports whether the story has a feature and one of n says so.
func (s *story) draws(f feature, n int) bool {
	yes := s.rng.IntN(n) == 0
	return yes && s.has&f != 0
}

// begin makes the CloneSet, of a number of pods that are not there yet.
func (s *story) begin() {
	s.flat = s.rng.IntN(3) > 0
	s.life = s.drawHooks()
	s.builds = []build{{app: 1, number: 1}}
	set := &appsv1alpha1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: setName, UID: setUID, Generation: 1, CreationTimestamp: metav1.NewTime(s.c.now)},
		Spec: appsv1alpha1.CloneSetSpec{
			Replicas: new(int32(1 + s.rng.IntN(6))), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
	set.Spec.Template.Raw = s.template(s.builds[0])
	if s.draws(withHooks, 2) {
		set.Spec.Lifecycle = s.life
	}
	if s.draws(withClaims, 2) {
		set.Spec.VolumeClaimTemplates = []appsv1alpha1.RawObject{claimTemplate("1Gi")}
	}
	if s.draws(withMinReady, 3) {
		set.Spec.MinReadySeconds = 10
	}
	s.strategy(set)
	s.numbers(set)
	s.c.put(kindSet, set)
	s.c.put(kindSlice, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: sliceName}})
	for i := range 3 {
		s.c.put(kindNode, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("n%d", i), Labels: map[string]string{corev1.LabelHostname: fmt.Sprintf("n%d", i), corev1.LabelTopologyZone: fmt.Sprintf("z%d", i%2)},
		}})
	}
}

func claimTemplate(size string) appsv1alpha1.RawObject {
	raw := appsv1alpha1.RawObject{}
	raw.Raw = fmt.Appendf(nil, `{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":%q}}}}`, size)
	return raw
}

// drawHooks draws hooks of labels and finalizers, with and without markPodNotReady; sometimes one key is in two hooks.
func (s *story) drawHooks() *appsv1alpha1.Lifecycle {
	keys := []string{"u", "d", "n"}
	if s.rng.IntN(3) == 0 {
		keys[2] = keys[s.rng.IntN(2)]
	}
	hook := func(key string, mark bool) *appsv1alpha1.LifecycleHook {
		if s.rng.IntN(4) == 0 {
			return nil
		}
		h := &appsv1alpha1.LifecycleHook{MarkPodNotReady: mark && s.rng.IntN(3) == 0}
		if finalizer := (s.seed+uint64(key[0]))%2 == 0; finalizer {
			h.FinalizersHandler = []string{hookPrefix + key}
		} else {
			h.LabelsHandler = map[string]string{"hook-" + key: "1"}
		}
		return h
	}
	return &appsv1alpha1.Lifecycle{InPlaceUpdate: hook(keys[0], true), PreDelete: hook(keys[1], true), PreNormal: hook(keys[2], false)}
}

// template is the pod template of a build. Keys that a preNormal hook puts on are not in it.
func (s *story) template(b build) []byte {
	labels := map[string]string{"app": "web", labelBuild: strconv.Itoa(b.number)}
	var finalizers []string
	for _, h := range []*appsv1alpha1.LifecycleHook{s.life.InPlaceUpdate, s.life.PreDelete} {
		if h == nil || s.has&withHooks == 0 {
			continue
		}
		for k, v := range h.LabelsHandler {
			if n := s.life.PreNormal; n == nil || n.LabelsHandler[k] == "" {
				labels[k] = v
			}
		}
		for _, f := range h.FinalizersHandler {
			if n := s.life.PreNormal; n == nil || !slices.Contains(n.FinalizersHandler, f) {
				finalizers = append(finalizers, f)
			}
		}
	}
	meta := map[string]any{"labels": labels}
	if len(finalizers) > 0 {
		meta["finalizers"] = finalizers
	}
	raw, err := json.Marshal(map[string]any{"metadata": meta, "spec": map[string]any{"containers": []any{map[string]any{
		"name": "main", "image": fmt.Sprintf("app:v%d", b.app), "env": []any{map[string]any{"name": "E", "value": strconv.Itoa(b.env)}},
	}}}})
	if err != nil {
		panic(err)
	}
	return raw
}

func buildOf(set *appsv1alpha1.CloneSet) string { return buildIn(set.Spec.Template.Raw) }

// buildIn is the build of a template, or of a revision's data.
func buildIn(raw []byte) string {
	_, rest, _ := strings.Cut(string(raw), `"`+labelBuild+`":"`)
	number, _, _ := strings.Cut(rest, `"`)
	return number
}

// granted notes what the spec allows now.
func (s *story) granted() { s.a.judge.granted() }

// rollout is where the numbers of an update stand, by the shape.
func (s *story) rollout(set *appsv1alpha1.CloneSet) *appsv1alpha1.CloneSetRollout {
	if s.flat {
		return &set.Spec.UpdateStrategy.CloneSetRollout
	}
	if set.Spec.UpdateStrategy.RollingUpdate == nil {
		set.Spec.UpdateStrategy.RollingUpdate = &appsv1alpha1.CloneSetRollingUpdate{}
	}
	return &set.Spec.UpdateStrategy.RollingUpdate.CloneSetRollout
}

// strategy draws what seldom changes.
func (s *story) strategy(set *appsv1alpha1.CloneSet) {
	policies := []appsv1alpha1.CloneSetUpdateStrategyType{
		appsv1alpha1.InPlaceIfPossibleUpdate, appsv1alpha1.InPlaceIfPossibleUpdate, appsv1alpha1.ReCreateUpdate, appsv1alpha1.InPlaceOnlyUpdate,
	}
	policy := policies[s.rng.IntN(len(policies))]
	update := &set.Spec.UpdateStrategy
	r := s.rollout(set)
	if s.flat {
		update.Type = policy
	} else {
		update.Type, update.RollingUpdate.PodUpdatePolicy = appsv1alpha1.RollingUpdate, policy
		if s.draws(withPolicy, 12) {
			update.Type = appsv1alpha1.OnDeleteUpdate
		}
	}
	r.InPlaceUpdateStrategy = nil
	if s.rng.IntN(4) == 0 {
		r.InPlaceUpdateStrategy = &appsv1alpha1.InPlaceUpdateStrategy{GracePeriodSeconds: 4}
	}
	r.PriorityStrategy, r.ScatterStrategy = nil, nil
	if s.draws(withOrder, 3) {
		r.PriorityStrategy = &appsv1alpha1.UpdatePriorityStrategy{WeightPriority: []appsv1alpha1.UpdatePriorityWeightTerm{
			{Weight: 50, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelTier: tierFirst}}},
		}}
	}
	if s.draws(withOrder, 3) {
		r.ScatterStrategy = []appsv1alpha1.UpdateScatterTerm{{Key: labelTier, Value: "b"}}
	}
	update.PartitionRollback = nil
	if s.draws(withRollback, 2) {
		update.PartitionRollback = new(true)
	}
	scale := &appsv1alpha1.CloneSetScaleStrategy{}
	if set.Spec.ScaleStrategy != nil {
		scale.PodsToDelete = set.Spec.ScaleStrategy.PodsToDelete
	}
	switch reuse := s.rng.IntN(2) == 0; {
	case s.rng.IntN(3) == 0:
	case s.flat:
		scale.DisablePVCReuse = new(!reuse)
	default:
		scale.EnablePVCReuse = new(reuse)
	}
	if s.draws(withScaleLimits, 4) {
		scale.ExcludePreparingDelete = new(true)
	}
	set.Spec.ScaleStrategy = scale
}

// numbers draws replicas, partition and budgets.
func (s *story) numbers(set *appsv1alpha1.CloneSet) {
	if s.rng.IntN(2) == 0 {
		set.Spec.Replicas = new(int32(s.rng.IntN(7)))
	}
	replicas := int(*set.Spec.Replicas)
	r := s.rollout(set)
	count := func(n int) *intstr.IntOrString { return new(intstr.FromInt32(int32(n))) }
	percent := func(n int) *intstr.IntOrString { return new(intstr.FromString(fmt.Sprintf("%d%%", n))) }
	switch s.rng.IntN(5) {
	case 0:
		r.Partition = nil
	case 1:
		r.Partition = percent(10 * s.rng.IntN(11))
	default:
		r.Partition = count(s.rng.IntN(replicas + 1))
	}
	r.MaxUnavailable, r.MaxSurge = count(1+s.rng.IntN(3)), nil
	if s.rng.IntN(4) == 0 {
		r.MaxUnavailable = percent(10 + 10*s.rng.IntN(10))
	}
	if s.draws(withSurge, 2) && s.policyOf(set) != appsv1alpha1.InPlaceOnlyUpdate {
		r.MaxSurge = []*intstr.IntOrString{count(1), count(2), percent(30)}[s.rng.IntN(3)]
		if s.rng.IntN(2) == 0 {
			r.MaxUnavailable = count(s.rng.IntN(2))
		}
	}
	set.Spec.ScaleStrategy.MaxUnavailable = nil
	if s.draws(withScaleLimits, 5) {
		set.Spec.ScaleStrategy.MaxUnavailable = count(1 + s.rng.IntN(3))
	}
	r.Paused = s.draws(withPolicy, 10)
	if s.draws(withInvalid, 25) {
		r.Partition = new(intstr.FromString("nonsense"))
	}
}

func (s *story) policyOf(set *appsv1alpha1.CloneSet) appsv1alpha1.CloneSetUpdateStrategyType {
	if s.flat {
		return set.Spec.UpdateStrategy.Type
	}
	return set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy
}

// edit is a person's change of the CloneSet.
func (s *story) edit(change func(*appsv1alpha1.CloneSet)) {
	s.c.editSet(change)
	s.granted()
}

func (s *story) describe() string {
	set := s.c.set()
	n := numbersOf(set)
	r := s.rollout(set)
	out := fmt.Sprintf("build %s (%s), replicas %d, partition %s = %d, maxUnavailable %s = %d, surge %d", buildOf(set), s.policyOf(set),
		n.replicas, r.Partition, n.partition, r.MaxUnavailable, n.unavailable, n.surge)
	for _, extra := range []struct {
		yes  bool
		text string
	}{
		{n.paused, "paused"},
		{n.onDelete, "OnDelete"},
		{n.reuse && len(set.Spec.VolumeClaimTemplates) > 0, "claims, reused"},
		{!n.reuse && len(set.Spec.VolumeClaimTemplates) > 0, "claims, not reused"},
		{n.exclude, "excludePreparingDelete"},
		{!n.valid, "INVALID"},
		{set.Spec.MinReadySeconds > 0, "minReadySeconds"},
		{set.Spec.UpdateStrategy.PartitionRollback != nil, "rollback"},
		{set.Spec.ScaleStrategy.MaxUnavailable != nil, "scale.maxUnavailable " + set.Spec.ScaleStrategy.MaxUnavailable.String()},
		{len(n.asked) > 0, "podsToDelete " + strings.Join(n.asked, " ")},
		{r.PriorityStrategy != nil, "priority"},
		{r.ScatterStrategy != nil, "scatter"},
	} {
		if extra.yes {
			out += ", " + extra.text
		}
	}
	if life := set.Spec.Lifecycle; life != nil {
		raw, _ := json.Marshal(life)
		out += ", hooks " + string(raw)
	}
	return out
}

// turn is one step: something happens, and the agent may look.
func (s *story) turn() error {
	var pod *corev1.Pod
	if pods := s.c.pods(); len(pods) > 0 {
		pod = pods[s.rng.IntN(len(pods))]
	}
	switch k := s.rng.IntN(100); {
	case k < 50:
		s.progress()
	case k < 66 && pod != nil:
		s.podEvent(pod)
	case k < 72:
		s.c.advance(time.Duration(s.rng.IntN(60)) * time.Second)
	case k < 79:
		s.edit(s.numbers)
		s.c.logf("numbers: %s", s.describe())
	case k < 83:
		s.scaled()
	case k < 90:
		s.retarget()
	case k < 96:
		s.setEvent(pod)
	case k < 98:
		s.a.restart()
		s.c.logf("the agent starts anew")
	default:
		s.nodeEvent()
	}
	return s.look()
}

// look lets the agent look, mostly, and now and then twice.
func (s *story) look() error {
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

// progress lets the cluster come on a little: most pods a step further.
func (s *story) progress() {
	for range 1 + s.rng.IntN(3) {
		for _, pod := range s.c.pods() {
			if s.rng.IntN(4) == 0 {
				continue
			}
			s.c.schedule(pod.Name)
			s.c.kubelet(pod.Name)
			if s.rng.IntN(3) == 0 {
				s.c.hook(pod.Name)
			}
			if s.rng.IntN(3) > 0 {
				s.c.endpoints(pod.Name)
			}
		}
		s.c.advance(time.Duration(s.rng.IntN(6000)) * time.Millisecond)
	}
}

// podEvent is something that happens to one pod.
func (s *story) podEvent(pod *corev1.Pod) {
	label := func(key, value string) {
		s.c.editPod(pod.Name, func(p *corev1.Pod) { p.Labels[key] = value })
	}
	switch k := s.rng.IntN(20); {
	case k < 4:
		s.c.hook(pod.Name)
	case k < 6:
		s.c.endpoints(pod.Name)
	case k < 8:
		p := s.c.process(pod)
		p.unhealthy = !p.unhealthy
	case k < 9:
		p := s.c.process(pod)
		p.stuck = !p.stuck
	case k < 11 && s.has&withFailures != 0:
		s.c.logf("somebody deletes pod %s", pod.Name)
		s.c.endPod(pod)
	case k < 12 && s.has&withFailures != 0:
		s.c.logf("pod %s fails", pod.Name)
		s.c.fail(pod)
	case k < 13 && s.has&withFailures != 0 && pod.DeletionTimestamp != nil:
		s.c.gonePod(pod)
	case k < 15 && s.has&withAsking != 0 && active(pod):
		s.c.logf("specified-delete on pod %s", pod.Name)
		label(appsv1alpha1.LabelSpecifiedDelete, "true")
	case k < 16 && s.has&withAsking != 0:
		s.c.editPod(pod.Name, func(p *corev1.Pod) { delete(p.Labels, appsv1alpha1.LabelSpecifiedDelete) })
	case k < 18 && k >= 17 && s.has&withOrder != 0:
		label(labelTier, []string{tierFirst, "b", "c"}[s.rng.IntN(3)])
	case k < 17 && s.has&withOrphans != 0 && active(pod):
		// Somebody takes a pod out of the selector, or puts it back.
		app := "web"
		if pod.Labels["app"] == app {
			app = "aside"
		}
		s.c.logf("label app=%s on pod %s", app, pod.Name)
		label("app", app)
	case k < 19 && s.has&withOrder != 0:
		s.c.editPod(pod.Name, func(p *corev1.Pod) {
			if p.Annotations == nil {
				p.Annotations = map[string]string{}
			}
			p.Annotations[appsv1alpha1.AnnotationDeletionCost] = strconv.Itoa(s.rng.IntN(5))
		})
	}
}

// scaled is the autoscaler: it sets replicas and nothing else.
func (s *story) scaled() {
	if s.has&withHPA == 0 {
		return
	}
	s.edit(func(set *appsv1alpha1.CloneSet) { set.Spec.Replicas = new(int32(s.rng.IntN(8))) })
	s.c.logf("scaled: %s", s.describe())
}

// retarget is a new template, or an old one again.
func (s *story) retarget() {
	b := s.builds[s.rng.IntN(len(s.builds))]
	if s.rng.IntN(3) > 0 {
		b = s.builds[len(s.builds)-1]
		if s.rng.IntN(4) > 0 {
			b.app = 1 + s.rng.IntN(4)
			if s.draws(withBadImages, 4) {
				b.app = 5 + s.rng.IntN(3)
			}
		}
		b.env = 0
		if s.rng.IntN(4) == 0 {
			b.env = 1
		}
		b.number = len(s.builds) + 1
		s.builds = append(s.builds, b)
	}
	s.target(b)
}

func (s *story) target(b build) {
	s.edit(func(set *appsv1alpha1.CloneSet) { set.Spec.Template.Raw = s.template(b) })
	s.a.judge.retargeted()
	s.c.logf("template: app:v%d env %d; %s", b.app, b.env, s.describe())
}

// setEvent changes what is left of the CloneSet.
func (s *story) setEvent(pod *corev1.Pod) {
	switch k := s.rng.IntN(12); {
	case k < 3 && s.has&withPolicy != 0:
		s.edit(s.strategy)
		s.edit(s.numbers)
	case k < 6 && s.has&withAsking != 0:
		s.edit(func(set *appsv1alpha1.CloneSet) {
			names := []string(nil)
			if pod != nil && s.rng.IntN(3) > 0 {
				names = append(names, pod.Name)
			}
			if s.rng.IntN(5) == 0 {
				names = append(names, "web-nobody")
			}
			set.Spec.ScaleStrategy.PodsToDelete = names
		})
	case k < 8 && s.has&withClaims != 0 && len(s.c.set().Spec.VolumeClaimTemplates) > 0:
		s.edit(func(set *appsv1alpha1.CloneSet) {
			set.Spec.VolumeClaimTemplates = []appsv1alpha1.RawObject{claimTemplate([]string{"1Gi", "2Gi"}[s.rng.IntN(2)])}
		})
		s.c.logf("claim template: %s", s.c.set().Spec.VolumeClaimTemplates[0].Raw[60:])
		return
	case k < 9 && s.has&withHooks != 0:
		s.edit(func(set *appsv1alpha1.CloneSet) {
			if set.Spec.Lifecycle != nil {
				set.Spec.Lifecycle = nil
			} else {
				set.Spec.Lifecycle = s.life
			}
		})
	case k < 10 && s.has&withFaults != 0:
		s.a.quota = !s.a.quota
		s.c.logf("quota: %t", s.a.quota)
		return
	default:
		return
	}
	s.c.logf("changed: %s", s.describe())
}

func (s *story) nodeEvent() {
	if s.has&withNodes == 0 {
		return
	}
	node := fmt.Sprintf("n%d", s.rng.IntN(3))
	switch {
	case !s.c.down[node]:
		s.c.nodeLost(node)
	case s.rng.IntN(2) == 0:
		s.c.logf("node %s is back", node)
		delete(s.c.down, node)
	default:
		s.c.logf("node %s is gone for good", node)
		s.c.nodeGone(node)
	}
}

// end puts everything right and waits for peace.
func (s *story) end() error {
	s.mend()
	s.edit(func(set *appsv1alpha1.CloneSet) {
		r := s.rollout(set)
		r.Paused = false
		if set.Spec.UpdateStrategy.Type == appsv1alpha1.OnDeleteUpdate {
			set.Spec.UpdateStrategy.Type = appsv1alpha1.RollingUpdate
		}
		if r.Partition != nil && r.Partition.StrVal == "nonsense" || s.rng.IntN(2) == 0 {
			r.Partition = nil
		}
		set.Spec.ScaleStrategy.PodsToDelete = nil
		broken := func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image >= imageCrashes }
		if slices.ContainsFunc(s.c.pods(), broken) || s.bad(s.currentBuild()) {
			// A pod that never comes up, and that a partition holds or InPlaceOnly refuses to move, spends the budget for good.
			r.Partition, set.Spec.ScaleStrategy.MaxUnavailable = nil, nil
		}
	})
	if s.hopeless() {
		b := build{app: 4, number: len(s.builds) + 1}
		s.builds = append(s.builds, b)
		s.target(b)
	}
	return s.close(s.describe, s.peace)
}

// mend puts right what is not in the spec.
func (s *story) mend() {
	s.c.logf("in the end all is put right")
	s.a.restart()
	s.a.quota, s.c.down = false, map[string]bool{}
	for _, pod := range s.c.pods() {
		p := s.c.process(pod)
		p.unhealthy, p.stuck = false, false
	}
}

// close waits until all is quiet, and looks whether it is as wanted.
func (s *story) close(describe func() string, peace func() error) error {
	s.c.logf("end: %s", describe())
	err := s.a.settle()
	if err == nil {
		err = peace()
	}
	if err != nil {
		return fmt.Errorf("%w\n%s; current %s%s", err, describe(), s.currentBuild(), s.shape())
	}
	return nil
}

// hopeless reports whether pods of the template, or of the revision before, never come up.
func (s *story) hopeless() bool {
	return s.bad(buildOf(s.c.set())) || s.bad(s.currentBuild())
}

func (s *story) bad(number string) bool {
	for _, b := range s.builds {
		if strconv.Itoa(b.number) == number {
			return b.app > 4
		}
	}
	return false
}

// currentBuild is the build of the revision whose release was finished last.
func (s *story) currentBuild() string {
	var name string
	if set := s.c.ordered(); set != nil {
		name = set.Status.CurrentRevision
	} else {
		name = s.c.set().Status.CurrentRevision
	}
	cr, _ := s.c.get(kindRevision, name).(*appsv1.ControllerRevision)
	if cr == nil {
		return firstBuild
	}
	return buildIn(cr.Data.Raw)
}

// peace: the wanted pods are there and in service, as many on the update revision as may be, and the status says so.
func (s *story) peace() error {
	set := s.c.set()
	n, build := numbersOf(set), buildOf(set)
	total, fresh, broken := 0, 0, 0
	for _, pod := range s.c.pods() {
		if !ours(pod) {
			if pod.Labels["app"] == "web" {
				return fmt.Errorf("end: pod %s matches and is nobody's", pod.Name)
			}
			continue
		}
		if !active(pod) {
			return fmt.Errorf("end: pod %s is still there", pod.Name)
		}
		total++
		fresh += one(pod.Labels[labelBuild] == build)
		bad := pod.Spec.Containers[0].Image >= imageCrashes
		broken += one(bad)
		if !bad && !serves(pod) {
			return fmt.Errorf("end: pod %s does not serve", pod.Name)
		}
		if state := pod.Labels[appsv1alpha1.LabelLifecycleState]; !bad && state != "" && state != "Normal" {
			return fmt.Errorf("end: pod %s is left in state %s", pod.Name, state)
		}
	}
	status := set.Status
	refused := status.Underway != nil && len(status.Underway.Refused) > 0
	switch {
	case total != n.replicas:
		return fmt.Errorf("end: %d pods of %d", total, n.replicas)
	case fresh < n.replicas-n.partition && !refused:
		return fmt.Errorf("end: %d pods are on build %s, %d should", fresh, build, n.replicas-n.partition)
	case int(status.Replicas) != total || int(status.ReadyReplicas) != total-broken || status.ObservedGeneration != set.Generation:
		return fmt.Errorf("end: the status says %+v", status)
	case int(status.UpdatedReplicas) != fresh && broken == 0:
		return fmt.Errorf("end: the status says %d updated, %d are", status.UpdatedReplicas, fresh)
	}
	return s.tidy(n)
}

// tidy: without reuse no claim is left over, and every pod has its own.
func (s *story) tidy(n numbers) error {
	if len(s.c.set().Spec.VolumeClaimTemplates) == 0 {
		return nil
	}
	used := map[string]bool{}
	for _, pod := range s.c.pods() {
		for _, v := range pod.Spec.Volumes {
			used[v.PersistentVolumeClaim.ClaimName] = true
		}
	}
	for _, c := range s.c.claims() {
		if !n.reuse && ours(c) && !used[c.Name] {
			return fmt.Errorf("end: claim %s is left over", c.Name)
		}
	}
	return nil
}

// shape is the cluster at the end.
func (s *story) shape() string {
	out := ""
	for _, pod := range s.c.pods() {
		out += fmt.Sprintf("\n%s build %s %s %s node %q ready %t gate %s deleted %t ours %t labels %v finalizers %v", pod.Name, pod.Labels[labelBuild],
			pod.Spec.Containers[0].Image, pod.Status.Phase, pod.Spec.NodeName, isTrue(pod, corev1.PodReady),
			conditionOf(pod, appsv1alpha1.ConditionInPlaceUpdateReady).Status, pod.DeletionTimestamp != nil, ours(pod), pod.Labels, pod.Finalizers)
	}
	for _, c := range s.c.claims() {
		has := c.Status.Capacity[corev1.ResourceStorage]
		out += fmt.Sprintf("\nclaim %s deleted %t owners %d capacity %s", c.Name, c.DeletionTimestamp != nil, len(c.OwnerReferences), has.String())
	}
	var conditions []metav1.Condition
	if set := s.c.ordered(); set != nil {
		conditions = set.Status.Conditions
	} else {
		conditions = s.c.set().Status.Conditions
	}
	for _, c := range conditions {
		out += fmt.Sprintf("\n%s %s %s %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return out
}
