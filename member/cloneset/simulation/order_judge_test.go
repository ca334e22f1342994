package simulation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace/hooks"
	"github.com/underway-dev/underway/member/statefulset/plan"
)

// slots are the numbers of a StatefulSet's spec, read here a second time: the stories write numbers and no percents.
type slots struct {
	replicas, partition, unavailable, start int
	reserved                                []int
	inOrder, paused, onDelete, unordered    bool
	policy                                  appsv1alpha1.CloneSetUpdateStrategyType
	minReady                                int32
	// size is what the claim template asks for, nil without one; resizes: it is brought to claims that exist.
	size    *resource.Quantity
	resizes bool
}

func slotsOf(set *appsv1alpha1.StatefulSet) slots {
	spec := &set.Spec
	n := slots{replicas: int(*spec.Replicas), unavailable: 1, inOrder: !spec.Parallel()}
	if spec.Ordinals != nil {
		n.start = int(spec.Ordinals.Start)
	}
	for _, r := range spec.ReserveOrdinals {
		n.reserved = append(n.reserved, r.IntValue())
	}
	if r := spec.UpdateStrategy.RollingUpdate; r != nil {
		n.partition = min(int(ptr.Deref(r.Partition, 0)), n.replicas)
		if r.MaxUnavailable != nil {
			n.unavailable = r.MaxUnavailable.IntValue()
		}
		n.paused, n.minReady = r.Paused, ptr.Deref(r.MinReadySeconds, 0)
		n.policy, n.unordered = r.PodUpdatePolicy, r.UnorderedUpdate != nil
	}
	n.onDelete = spec.UpdateStrategy.Type == appsv1alpha1.OnDeleteUpdate
	if len(spec.VolumeClaimTemplates) > 0 {
		n.size = new(resource.MustParse(sizeOf(set)))
	}
	n.resizes = spec.VolumeClaimUpdateStrategy.Type == appsv1alpha1.ClaimsOnPodRollingUpdate
	return n
}

func sizeOf(set *appsv1alpha1.StatefulSet) string {
	_, rest, _ := strings.Cut(string(set.Spec.VolumeClaimTemplates[0].Raw), `"storage":"`)
	size, _, _ := strings.Cut(rest, `"`)
	return size
}

// ordinals are the wanted ones, by position.
func (n slots) ordinals() []int {
	var out []int
	for at := n.start; len(out) < n.replicas; at++ {
		if !slices.Contains(n.reserved, at) {
			out = append(out, at)
		}
	}
	return out
}

// position is that of a pod, -1 when none is wanted of its name.
func (n slots) position(pod *corev1.Pod) int {
	return slices.Index(n.ordinals(), ordinal(pod))
}

func ordinal(pod *corev1.Pod) int {
	at, ok := plan.OrdinalOf(setName, pod.Name)
	if !ok {
		return -1
	}
	return int(at)
}

func orderBuild(set *appsv1alpha1.StatefulSet) string { return buildIn(set.Spec.Template.Raw) }

func askedToGo(pod *corev1.Pod) bool {
	_, asked := pod.Labels[appsv1alpha1.LabelSpecifiedDelete]
	return asked
}

// orderJudge holds what the agent does with a StatefulSet against the rules.
type orderJudge struct {
	a      *agent
	grants map[string]int
	// first is the build of the first revision that was ever stored.
	first  string
	broken error
	// claims are the UIDs of claims by name; released are those that a policy or somebody let go.
	claims map[string]types.UID
	// deletes is set once a retention policy has said Delete.
	deletes bool
	tally   map[string]int
}

func newOrderJudge(a *agent) *orderJudge {
	return &orderJudge{a: a, grants: map[string]int{firstBuild: 1 << 20}, claims: map[string]types.UID{}, tally: map[string]int{}}
}

func (j *orderJudge) fail(format string, args ...any) {
	if j.broken == nil {
		j.broken = fmt.Errorf(format, args...)
	}
}

func (j *orderJudge) check(err error) {
	if j.broken == nil {
		j.broken = err
	}
}

// granted notes what the spec allows now, retargeted how many pods its build has already.
func (j *orderJudge) granted() {
	set := j.a.c.ordered()
	n, build := slotsOf(set), orderBuild(set)
	j.grants[build] = max(j.grants[build], n.replicas-n.partition)
	if p := set.Spec.PersistentVolumeClaimRetentionPolicy; p != nil && p.WhenScaled == appsv1alpha1.DeleteClaims {
		j.deletes = true
	}
}

func (j *orderJudge) retargeted() {
	build, n := orderBuild(j.a.c.ordered()), 0
	for _, pod := range j.a.c.pods() {
		n += one(active(pod) && ours(pod) && pod.Labels[labelBuild] == build)
	}
	j.grants[build] = max(j.grants[build], n)
	j.granted()
}

// written judges one request that was carried out.
func (j *orderJudge) written(p *pass, q *request) {
	if p.ordered == nil {
		return
	}
	n := slotsOf(p.ordered)
	was, _ := q.was.(*corev1.Pod)
	made, _ := q.made.(*corev1.Pod)
	switch {
	case q.kind == kindClaim:
		j.tally["claim "+q.verb]++
		if q.verb == "delete" {
			j.fail("claim: %s is deleted by us", q.name)
		}
	case q.kind == kindSet && q.verb == "status":
		j.status(p, q.obj.(*appsv1alpha1.StatefulSet))
	case q.kind == kindRevision && q.verb == "create" && j.first == "":
		j.first = orderBuild(p.ordered)
	case q.kind != kindPod:
	case q.verb == "create":
		j.tally["create"]++
		j.created(p, made, n)
		j.onBuild(p, made)
	case q.verb == "delete":
		j.check(hookBefore(was, lifeOf(p.ordered).PreDelete, "deleted"))
		j.deleted(p, was, n)
	case was != nil && made != nil:
		j.changed(p, was, made, n)
	}
}

// changed judges a patch of a pod.
func (j *orderJudge) changed(p *pass, was, made *corev1.Pod, n slots) {
	j.check(moveBefore(lifeOf(p.ordered), was, made))
	j.check(followed(lifeOf(p.ordered), was, made))
	from, _ := hooks.Of(was.Labels)
	to, _ := hooks.Of(made.Labels)
	j.tally["state "+string(to)] += one(from != to)
	if to == hooks.PreparingDelete && from != to {
		j.scaledAway(p, was, n)
	}
	j.tally["adopt"] += one(!ours(was) && ours(made))
	j.tally["let go"] += one(ours(was) && !ours(made))
	for key, want := range map[string]string{appsv1alpha1.LabelPodName: was.Name, appsv1alpha1.LabelPodIndex: fmt.Sprint(ordinal(was))} {
		if made.Labels[key] != want && made.Labels[key] != was.Labels[key] {
			j.fail("identity: %s gets the label %s=%s", was.Name, key, made.Labels[key])
		}
	}
	if was.Labels[labelBuild] != made.Labels[labelBuild] {
		j.tally["update"]++
		j.tally["update of labels only"] += one(was.Spec.Containers[0].Image == made.Spec.Containers[0].Image)
		j.onBuild(p, made)
		j.moved(p, was, made.Labels[labelBuild], n)
	}
	if was.Spec.Containers[0].Image != made.Spec.Containers[0].Image && isTrue(was, corev1.PodReady) {
		j.fail("budget: %s gets another image while it is Ready", was.Name)
	}
}

// created: the pod is one of those wanted, with its labels and its claims, and in order those before it are available.
func (j *orderJudge) created(p *pass, made *corev1.Pod, n slots) {
	at := n.position(made)
	if at < 0 {
		j.fail("identity: %s is created and not wanted", made.Name)
		return
	}
	if made.Labels[appsv1alpha1.LabelPodName] != made.Name || made.Labels[appsv1alpha1.LabelPodIndex] != fmt.Sprint(ordinal(made)) {
		j.fail("identity: %s has the labels %v", made.Name, made.Labels)
	}
	for _, v := range made.Spec.Volumes {
		if c := v.PersistentVolumeClaim; c != nil && (c.ClaimName != "data-"+made.Name || j.a.c.claim(c.ClaimName) == nil) {
			j.fail("claim: pod %s is created with claim %s, there %t", made.Name, c.ClaimName, j.a.c.claim(c.ClaimName) != nil)
		}
	}
	if n.size != nil && len(made.Spec.Volumes) != 1 {
		j.fail("claim: pod %s has %d volumes", made.Name, len(made.Spec.Volumes))
	}
	if !n.inOrder {
		return
	}
	for i, o := range n.ordinals()[:at] {
		before := seen(p, fmt.Sprintf("%s-%d", setName, o))
		if before == nil || !askedToGo(before) && !j.available(before, n) {
			j.fail("order: %s is created, and the pod of position %d is not available", made.Name, i)
		}
	}
}

func seen(p *pass, name string) *corev1.Pod {
	i := slices.IndexFunc(p.pods, func(pod *corev1.Pod) bool { return pod.Name == name })
	if i < 0 {
		return nil
	}
	return p.pods[i]
}

func (j *orderJudge) available(pod *corev1.Pod, n slots) bool {
	return j.a.judge.available(pod, n.minReady)
}

// deleted: wanted pods go only when asked, or when they cannot change in place.
func (j *orderJudge) deleted(p *pass, was *corev1.Pod, n slots) {
	was = seen(p, was.Name)
	if was == nil || !active(was) {
		return
	}
	if n.position(was) < 0 {
		j.tally["scale-in"]++
		j.scaledAway(p, was, n)
		return
	}
	if askedToGo(was) {
		j.tally["delete what was asked to go"]++
		return
	}
	if preparing(was) {
		j.tally["delete what its hook let go"]++
		return
	}
	j.tally["recreate"]++
	env := was.Spec.Containers[0].Env[0].Value
	if n.policy == appsv1alpha1.InPlaceIfPossibleUpdate && strings.Contains(string(p.ordered.Spec.Template.Raw), fmt.Sprintf(`"value":%q`, env)) {
		j.fail("uid: %s is deleted and could be changed in place", was.Name)
	}
	j.moved(p, was, orderBuild(p.ordered), n)
}

// scaledAway: condemned pods go from the highest down.
func (j *orderJudge) scaledAway(p *pass, was *corev1.Pod, n slots) {
	if was = seen(p, was.Name); was == nil || n.position(was) >= 0 || askedToGo(was) || !n.inOrder || !serves(was) {
		return
	}
	for _, pod := range p.pods {
		if n.position(pod) < 0 && ordinal(pod) > ordinal(was) {
			j.fail("order: %s is scaled away before %s", was.Name, pod.Name)
		}
	}
}

// moved: the partition holds those below it, and nobody moves while nobody may.
func (j *orderJudge) moved(p *pass, was *corev1.Pod, build string, n slots) {
	status := p.ordered.Status
	at := n.position(was)
	if seen := seen(p, was.Name); seen == nil || at < 0 || status.CurrentRevision == "" || build != orderBuild(p.ordered) {
		return
	}
	if n.paused || n.onDelete {
		j.fail("paused: %s moves to build %s, paused %t, OnDelete %t", was.Name, build, n.paused, n.onDelete)
	}
	if at < n.partition && !n.unordered && status.CurrentRevision != status.UpdateRevision && status.ObservedGeneration == p.ordered.Generation {
		j.fail("overtake: %s moves, and the partition %d holds position %d", was.Name, n.partition, at)
	}
}

// overtakes: no available pod is taken down for an update while one that comes first, and is available, is left on another
// build: a higher position; unordered, one of a higher priority before. A change of labels takes nobody down: it waits for
// nobody. The requests of a pass are sent together, so the whole pass is judged, and none of which some were lost.
func (j *orderJudge) overtakes(p *pass, n slots) error {
	if p.faulty || p.ends >= 0 || p.blind {
		return nil
	}
	first := func(a, b *corev1.Pod) bool {
		urgent := func(pod *corev1.Pod) bool { return n.unordered && pod.Labels[labelTier] == tierFirst }
		if urgent(a) != urgent(b) {
			return urgent(a)
		}
		return n.position(a) > n.position(b)
	}
	touched := func(name string) bool {
		return slices.ContainsFunc(p.requests, func(q *request) bool { return q.kind == kindPod && q.name == name })
	}
	for _, mover := range p.movers {
		j.tally["moves while others wait"] += one(slices.ContainsFunc(p.pods, func(pod *corev1.Pod) bool {
			return n.position(pod) >= 0 && first(mover, pod) && pod.Labels[labelBuild] != orderBuild(p.ordered)
		}))
		for _, pod := range p.pods {
			if n.position(pod) >= 0 && first(pod, mover) && pod.Labels[labelBuild] != orderBuild(p.ordered) && j.available(pod, n) && !askedToGo(pod) && !touched(pod.Name) {
				return fmt.Errorf("overtake: %s moves before %s", mover.Name, pod.Name)
			}
		}
	}
	return nil
}

// onBuild: never more pods are on the build of the template than it was ever granted.
func (j *orderJudge) onBuild(p *pass, made *corev1.Pod) {
	build := made.Labels[labelBuild]
	if p.blind || build != orderBuild(p.ordered) || p.ordered.Status.CurrentRevision == made.Labels[appsv1alpha1.LabelPodRevision] {
		return
	}
	if p.ordered.Status.CurrentRevision == "" && build == j.first {
		return
	}
	count := 0
	for _, pod := range j.a.c.pods() {
		count += one(active(pod) && ours(pod) && pod.Labels[labelBuild] == build)
	}
	if most := j.grants[build]; count > most {
		j.fail("grant: %d pods are on build %s, at most %d were ever granted", count, build, most)
	}
}

// status: what is said to be updated and ready was seen so.
func (j *orderJudge) status(p *pass, next *appsv1alpha1.StatefulSet) {
	updated, ready := 0, 0
	for _, pod := range p.pods {
		updated += one(pod.Labels[labelBuild] == orderBuild(p.ordered))
		ready += one(isTrue(pod, corev1.PodReady))
	}
	if int(next.Status.UpdatedReplicas) > updated && p.scaled {
		j.fail("boast: the status says %d updated, %d were seen", next.Status.UpdatedReplicas, updated)
	}
	if int(next.Status.ReadyReplicas) > ready && p.scaled {
		j.fail("boast: the status says %d ready, %d were seen", next.Status.ReadyReplicas, ready)
	}
}

// judgePass judges what only the whole pass shows.
func (j *orderJudge) judgePass(p *pass) error {
	if j.broken != nil {
		return j.broken
	}
	if p.ordered == nil || !p.scaled {
		return nil
	}
	if err := j.budget(p, slotsOf(p.ordered)); err != nil {
		return err
	}
	if err := j.overtakes(p, slotsOf(p.ordered)); err != nil {
		return err
	}
	return j.world()
}

// budget: of the wanted pods at most maxUnavailable are down because of us; a scale-in keeps as many that serve, condemned
// ones counted. A pod in PreparingUpdate that still serves has paid: it goes while those and the available are enough. No pod
// that serves is taken down for an update before its claim is as large as it should be.
func (j *orderJudge) budget(p *pass, n slots) error {
	if p.blind {
		return nil
	}
	up, serving, upheld := 0, 0, 0
	for _, pod := range p.pods {
		wanted := n.position(pod) >= 0
		up += one(wanted && j.available(pod, n))
		upheld += one(wanted && waits(pod))
		serving += one(serves(pod))
	}
	floor := n.replicas - n.unavailable
	for _, q := range j.a.judge.inOrder(p) {
		pod := seen(p, q.name)
		if q.err != nil || pod == nil || !serves(pod) {
			continue
		}
		how := takes(q, pod)
		if how == "" || how == "holds" && !j.available(pod, n) {
			continue
		}
		j.tally[how]++
		serving--
		if n.position(pod) < 0 {
			if serving < floor {
				return fmt.Errorf("budget: %s %s, condemned, and %d serve after it, at least %d should", how, pod.Name, serving, floor)
			}
			continue
		}
		up -= one(j.available(pod, n))
		left := up
		if waits(pod) {
			upheld--
			left += upheld
		}
		if left < floor {
			return fmt.Errorf("budget: %s %s: %d of the wanted pods are available after it, at least %d should", how, pod.Name, left, floor)
		}
		if err := j.takenDown(p, pod, how, n); err != nil {
			return err
		}
	}
	return nil
}

// takenDown judges a wanted pod that serves and is taken down, mostly for an update.
func (j *orderJudge) takenDown(p *pass, pod *corev1.Pod, how string, n slots) error {
	if askedToGo(pod) || preparing(pod) {
		return nil
	}
	if n.paused || n.onDelete {
		return fmt.Errorf("paused: %s %s, paused %t, OnDelete %t", how, pod.Name, n.paused, n.onDelete)
	}
	if !j.available(pod, n) {
		return nil
	}
	p.movers = append(p.movers, pod)
	claim := j.a.c.claim("data-" + pod.Name)
	if claim == nil || n.size == nil || !n.resizes || ptr.Deref(claim.Spec.StorageClassName, "") == classFixed {
		return nil
	}
	if has := claim.Status.Capacity[corev1.ResourceStorage]; has.Cmp(*n.size) < 0 {
		return fmt.Errorf("resize: %s %s, whose claim has %s and should have %s", how, pod.Name, has.String(), n.size.String())
	}
	return nil
}

// world: the claim of an ordinal stays the same unless a policy says Delete, and no pod has lost its claim.
func (j *orderJudge) world() error {
	for _, c := range j.a.c.claims() {
		if was := j.claims[c.Name]; was != "" && was != c.UID && !j.deletes {
			return fmt.Errorf("claim: %s is another one", c.Name)
		}
		j.claims[c.Name] = c.UID
		if c.DeletionTimestamp != nil && !j.deletes {
			return fmt.Errorf("claim: %s goes", c.Name)
		}
	}
	for _, pod := range j.a.c.pods() {
		if active(pod) && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && j.a.c.claim(v.PersistentVolumeClaim.ClaimName) == nil
		}) {
			return fmt.Errorf("claim: pod %s has lost its claim", pod.Name)
		}
	}
	return nil
}
