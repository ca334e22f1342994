package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace/hooks"
	"github.com/underway-dev/underway/inplace/partition"
)

// numbers are those of a spec, read here a second time, without the adapter.
type numbers struct {
	valid                                   bool
	replicas, partition, unavailable, surge int
	paused, onDelete, reuse, exclude        bool
	policy                                  appsv1alpha1.CloneSetUpdateStrategyType
	asked                                   []string
}

func numbersOf(set *appsv1alpha1.CloneSet) numbers {
	spec := &set.Spec
	n := numbers{replicas: int(max(ptr.Deref(spec.Replicas, 1), 0))}
	rollout, err := spec.Rollout()
	if err != nil || len(spec.Problems()) > 0 {
		return n
	}
	replicas := int32(n.replicas)
	old, err := partition.Old(rollout.Partition, replicas)
	surge, err2 := partition.MaxSurge(rollout.MaxSurge, replicas)
	down, err3 := partition.MaxUnavailable(rollout.MaxUnavailable, surge, replicas)
	if err != nil || err2 != nil || err3 != nil {
		return n
	}
	n.valid, n.partition, n.surge, n.unavailable = true, int(old), int(surge), int(down)
	n.paused, n.onDelete, n.policy = rollout.Paused, rollout.OnDelete, rollout.Policy
	n.exclude = set.Labels[appsv1alpha1.LabelExcludePreparingDelete] == "true"
	n.reuse = !rollout.Nested
	if s := spec.ScaleStrategy; s != nil {
		n.asked = s.PodsToDelete
		n.exclude = n.exclude || ptr.Deref(s.ExcludePreparingDelete, false)
		switch {
		case s.DisablePVCReuse != nil:
			n.reuse = !*s.DisablePVCReuse
		case s.EnablePVCReuse != nil:
			n.reuse = *s.EnablePVCReuse
		}
	}
	return n
}

func (n numbers) wants(pod *corev1.Pod) bool {
	_, asked := pod.Labels[appsv1alpha1.LabelSpecifiedDelete]
	return !asked && !slices.Contains(n.asked, pod.Name)
}

func preparing(pod *corev1.Pod) bool {
	return pod.Labels[appsv1alpha1.LabelLifecycleState] == string(hooks.PreparingDelete)
}

// judge holds what the agent does against the rules, after every request and every pass.
type judge struct {
	a *agent
	// grants are, by build, the most pods that were ever allowed on it: replicas-partition while it was the template, and
	// what it had when it became it.
	grants map[string]int
	last   *pass
	// first is the build of the first revision that was ever stored: what is current until the first status.
	first string
	// broken is the first rule that a request broke.
	broken error
	// doomed are claims that somebody else asked to go.
	doomed map[types.UID]bool
	// tally counts what the agent did, so that a story that proves nothing shows.
	tally map[string]int
	// known are the numbers of the generations: they are read often.
	known map[int64]numbers
}

// numbers are those of a spec that the agent saw.
func (j *judge) numbers(set *appsv1alpha1.CloneSet) numbers {
	n, ok := j.known[set.Generation]
	if !ok {
		n = numbersOf(set)
		j.known[set.Generation] = n
	}
	return n
}

func newJudge(a *agent) *judge {
	return &judge{a: a, grants: map[string]int{firstBuild: 1 << 20}, doomed: map[types.UID]bool{}, tally: map[string]int{}, known: map[int64]numbers{}}
}

func (j *judge) fail(format string, args ...any) {
	if j.broken == nil {
		j.broken = fmt.Errorf(format, args...)
	}
}

func (j *judge) check(err error) {
	if j.broken == nil {
		j.broken = err
	}
}

// granted notes what the spec allows now.
func (j *judge) granted() {
	set := j.a.c.set()
	if n := numbersOf(set); n.valid {
		build := buildOf(set)
		j.grants[build] = max(j.grants[build], n.replicas-n.partition)
	}
}

// retargeted notes how many pods the build that is the template now has already.
func (j *judge) retargeted() {
	build, n := buildOf(j.a.c.set()), 0
	for _, pod := range j.a.c.pods() {
		n += one(active(pod) && ours(pod) && pod.Labels[labelBuild] == build)
	}
	j.grants[build] = max(j.grants[build], n)
	j.granted()
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// written judges one request that was carried out.
func (j *judge) written(p *pass, q *request) {
	if p.set == nil {
		return
	}
	n := j.numbers(p.set)
	j.count(p, q, n)
	switch q.kind {
	case kindPod:
		j.pod(p, q, n)
	case kindRevision:
		if j.first == "" && q.verb == "create" {
			j.first = buildOf(p.set)
		}
	case kindClaim:
		if q.verb == "delete" {
			j.claimGoes(p, q, n)
		}
	}
}

// count tells what kind of deed a request was.
func (j *judge) count(p *pass, q *request, n numbers) {
	deed := func(name string, yes bool) { j.tally[name] += one(yes) }
	was, _ := q.was.(*corev1.Pod)
	made, _ := q.made.(*corev1.Pod)
	switch {
	case q.kind == kindClaim:
		deed("claim "+q.verb, true)
	case q.kind != kindPod:
	case q.verb == "create":
		total := 0
		for _, pod := range j.a.c.pods() {
			total += one(active(pod) && ours(pod))
		}
		deed("create", true)
		deed("create at the current revision", made.Labels[labelBuild] != buildOf(p.set))
		deed("create as surge", total > n.replicas)
		deed("create with claims of before", slices.ContainsFunc(p.claims, func(c *corev1.PersistentVolumeClaim) bool { return idOf(c) == idOf(made) }))
	case q.verb == "delete":
		deed("delete", true)
		deed("delete what was asked to go", !n.wants(was))
		deed("delete what its hook let go", preparing(was))
	case was != nil && made != nil:
		from, _ := hooks.Of(was.Labels)
		to, _ := hooks.Of(made.Labels)
		deed("state "+string(to), from != to)
		deed("state back from PreparingDelete", from == hooks.PreparingDelete && to != from)
		deed("drain", gateTrue(was) && !gateTrue(made))
		deed("return", !gateTrue(was) && gateTrue(made))
		deed("update", was.Spec.Containers[0].Image != made.Spec.Containers[0].Image)
		moved := was.Labels[labelBuild] != made.Labels[labelBuild]
		deed("update of labels only", moved && was.Spec.Containers[0].Image == made.Spec.Containers[0].Image)
		deed("roll back", moved && made.Labels[labelBuild] != buildOf(p.set))
		deed("adopt", !ours(was) && ours(made))
		deed("let go", ours(was) && !ours(made))
	}
}

func (j *judge) pod(p *pass, q *request, n numbers) {
	was, _ := q.was.(*corev1.Pod)
	made, _ := q.made.(*corev1.Pod)
	switch q.verb {
	case "create":
		j.created(p, made, n)
		j.onBuild(p, made, n)
	case "delete":
		j.check(hookBefore(was, lifeOf(p.set).PreDelete, "deleted"))
	default:
		if was.Labels[labelBuild] != made.Labels[labelBuild] {
			j.onBuild(p, made, n)
		}
		j.check(moveBefore(lifeOf(p.set), was, made))
		if was.Spec.Containers[0].Image != made.Spec.Containers[0].Image && isTrue(was, corev1.PodReady) {
			j.fail("budget: %s gets another image while it is Ready", q.name)
		}
		j.check(followed(lifeOf(p.set), was, made))
	}
}

// hookBefore: no pod is deleted or updated while its hook holds it. Finished pods hold nothing.
func hookBefore(was *corev1.Pod, hook *appsv1alpha1.LifecycleHook, what string) error {
	if !active(was) {
		return nil
	}
	if has, _ := held(was, hook); len(has) > 0 {
		return fmt.Errorf("hook: %s is %s while %v holds it", was.Name, what, has)
	}
	return nil
}

// moveBefore is hookBefore for a patch that brings a pod to another build.
func moveBefore(life *appsv1alpha1.Lifecycle, was, made *corev1.Pod) error {
	moves := was.Labels[labelBuild] != made.Labels[labelBuild] || was.Spec.Containers[0].Image != made.Spec.Containers[0].Image
	if !moves || was.Labels[appsv1alpha1.LabelLifecycleState] == string(hooks.PreparingNormal) {
		return nil
	}
	return hookBefore(was, life.InPlaceUpdate, "updated")
}

// next are the states that may follow each.
func next() map[hooks.State][]hooks.State {
	return map[hooks.State][]hooks.State{
		hooks.None:            {hooks.PreparingUpdate, hooks.Updating, hooks.PreparingDelete, hooks.Normal},
		hooks.Normal:          {hooks.PreparingUpdate, hooks.Updating, hooks.PreparingDelete},
		hooks.PreparingNormal: {hooks.Normal, hooks.PreparingDelete},
		hooks.PreparingUpdate: {hooks.Updating, hooks.Updated, hooks.Normal, hooks.PreparingDelete},
		hooks.Updating:        {hooks.Updated, hooks.Normal, hooks.PreparingUpdate, hooks.PreparingDelete},
		hooks.Updated:         {hooks.Normal, hooks.PreparingUpdate, hooks.Updating, hooks.PreparingDelete},
		hooks.PreparingDelete: {hooks.Normal, hooks.PreparingNormal},
	}
}

// followed: states follow each other as they should, and a pod is Normal only when its hooks are satisfied.
func followed(life *appsv1alpha1.Lifecycle, was, made *corev1.Pod) error {
	from, _ := hooks.Of(was.Labels)
	to, _ := hooks.Of(made.Labels)
	if from == to {
		return nil
	}
	if !slices.Contains(next()[from], to) {
		return fmt.Errorf("hook: %s goes from state %q to %q", was.Name, from, to)
	}
	hook := life.InPlaceUpdate
	switch from {
	case hooks.PreparingNormal:
		hook = life.PreNormal
	case hooks.PreparingUpdate, hooks.Updating, hooks.Updated:
	case hooks.None, hooks.Normal, hooks.PreparingDelete:
		return nil
	}
	if _, missing := held(was, hook); to == hooks.Normal && len(missing) > 0 {
		return fmt.Errorf("hook: %s is called Normal and lacks %v", was.Name, missing)
	}
	updated := made.Annotations[appsv1alpha1.AnnotationInPlaceState] != ""
	if to == hooks.Updated && updated && made.Generation != made.Status.ObservedGeneration {
		return fmt.Errorf("hook: %s is called Updated before its kubelet has seen the update", was.Name)
	}
	return nil
}

// created: never two pods of one id, never more pods than replicas and surge, and every pod has its claims.
func (j *judge) created(p *pass, made *corev1.Pod, n numbers) {
	id, total := idOf(made), 0
	if id == "" || made.Name != setName+"-"+id {
		j.fail("id: pod %s has the id %q", made.Name, id)
	}
	for _, pod := range j.a.c.pods() {
		if pod.UID != made.UID && idOf(pod) == id {
			j.fail("id: %s and %s are of one id", pod.Name, made.Name)
		}
		total += one(active(pod) && ours(pod) && (!n.exclude || !preparing(pod)))
	}
	for _, c := range p.claims {
		if idOf(c) == id && c.DeletionTimestamp != nil {
			j.fail("id: %s gets an id whose claim %s is on its way out", made.Name, c.Name)
		}
	}
	most := n.replicas
	if !n.paused {
		most += n.surge
	}
	if total > most {
		j.fail("total: %d pods, %d wanted and %d surge", total, n.replicas, most-n.replicas)
	}
	for _, v := range made.Spec.Volumes {
		if c := v.PersistentVolumeClaim; c != nil && j.a.c.claim(c.ClaimName) == nil {
			j.fail("claim: pod %s is created before its claim %s", made.Name, c.ClaimName)
		}
	}
	if want := len(p.set.Spec.VolumeClaimTemplates); want > 0 && len(made.Spec.Volumes) != want {
		j.fail("claim: pod %s has %d volumes of %d claim templates", made.Name, len(made.Spec.Volumes), want)
	}
}

// onBuild is called when one more pod is asked to run a build: never more than it was ever granted. A pod that is asked to
// go may be one more, until it is gone.
func (j *judge) onBuild(p *pass, made *corev1.Pod, n numbers) {
	build := made.Labels[labelBuild]
	if !n.valid || build != buildOf(p.set) || p.set.Status.CurrentRevision == made.Labels[appsv1alpha1.LabelPodRevision] {
		return
	}
	if p.set.Status.CurrentRevision == "" && build == j.first {
		return
	}
	asked := map[types.UID]bool{}
	for _, pod := range p.pods {
		asked[pod.UID] = !n.wants(pod) || preparing(pod)
	}
	count := 0
	for _, pod := range j.a.c.pods() {
		count += one(active(pod) && ours(pod) && pod.Labels[labelBuild] == build && n.wants(pod) && !preparing(pod) && !asked[pod.UID])
	}
	if most := j.grants[build]; count > most {
		j.fail("grant: %d pods are on build %s, at most %d were ever granted", count, build, most)
	}
}

// claimGoes: a claim is deleted with a pod that a scale-in deletes, or without reuse when no pod has it.
func (j *judge) claimGoes(p *pass, q *request, n numbers) {
	claim, id := q.was, idOf(q.was)
	var pod *corev1.Pod
	for _, seen := range p.pods {
		if idOf(seen) == id {
			pod = seen
		}
	}
	var gone *request
	for _, r := range p.requests {
		if r.verb == "delete" && r.kind == kindPod && r.err == nil && idOf(r.was) == id {
			gone = r
		}
	}
	switch now := j.a.c.pod(setName + "-" + id); {
	case now != nil && active(now):
		j.fail("claim: %s is deleted while pod %s is there", claim.GetName(), now.Name)
	case pod == nil && n.reuse:
		j.fail("claim: %s of a pod that is gone is deleted, and claims are used again", claim.GetName())
	case pod == nil:
	case gone == nil && n.reuse:
		j.fail("claim: %s is deleted without its pod", claim.GetName())
	case gone != nil && n.reuse && !j.surplus(p, pod, n):
		j.fail("claim: %s goes with pod %s, which is no scale-in, and claims are used again", claim.GetName(), pod.Name)
	}
}

// surplus reports whether there were more pods than wanted, or the pod was on its way out.
func (j *judge) surplus(p *pass, pod *corev1.Pod, n numbers) bool {
	total := 0
	for _, seen := range p.pods {
		total += one(active(seen))
	}
	return total > n.replicas || preparing(pod)
}

// judgePass judges what only the whole pass shows.
func (j *judge) judgePass(p *pass) error {
	before := j.last
	j.last = p
	if j.broken != nil {
		return j.broken
	}
	if p.set == nil || !p.scaled {
		return nil
	}
	if err := j.budget(p, j.numbers(p.set)); err != nil {
		return err
	}
	if err := j.world(); err != nil {
		return err
	}
	between := before != nil && before.set != nil && before.after == p.before && before.at.Equal(p.at)
	if between && before.current && !before.faulty && p.current {
		return undone(before, p)
	}
	return nil
}

// available is what a pod counts as for the budget, from what the agent saw.
func (j *judge) available(pod *corev1.Pod, minReady int32) bool {
	ready := conditionOf(pod, corev1.PodReady)
	due := ready.LastTransitionTime.Add(time.Duration(minReady) * time.Second)
	return serves(pod) && pod.Status.Phase == corev1.PodRunning && settled(pod) && !j.a.c.now.Before(due)
}

// settled reports whether no hook has the pod in hand.
func settled(pod *corev1.Pod) bool {
	state, _ := hooks.Of(pod.Labels)
	return state == hooks.None || state == hooks.Normal
}

func serves(pod *corev1.Pod) bool {
	return active(pod) && !preparing(pod) && isTrue(pod, corev1.PodReady) && gateTrue(pod)
}

// waits reports whether a pod serves and counts as unavailable only because its hook was asked before an update.
func waits(pod *corev1.Pod) bool {
	return serves(pod) && pod.Labels[appsv1alpha1.LabelLifecycleState] == string(hooks.PreparingUpdate)
}

func gateTrue(pod *corev1.Pod) bool {
	return isTrue(pod, appsv1alpha1.ConditionInPlaceUpdateReady)
}

// takes says how a request takes a pod down.
func takes(q *request, pod *corev1.Pod) string {
	if q.kind != kindPod {
		return ""
	}
	if q.verb == "delete" {
		return "deletes"
	}
	if q.body == nil {
		return ""
	}
	if q.body.Status != nil && len(q.body.Status.Conditions) > 0 && q.body.Status.Conditions[0].Status == corev1.ConditionFalse {
		return "drains"
	}
	if to := q.body.Metadata.Labels[appsv1alpha1.LabelLifecycleState]; to != nil && *to != string(hooks.Normal) {
		if s, _ := hooks.Of(pod.Labels); s == hooks.None || s == hooks.Normal {
			return "holds"
		}
	}
	return ""
}

// budget: no pod that serves is taken down while what was seen shows the budget spent. A scale-in keeps enough pods that
// serve, everything else enough that are available. Requests are judged in the order in which they were decided.
func (j *judge) budget(p *pass, n numbers) error {
	seen := map[string]*corev1.Pod{}
	available, serving, staying, upheld := 0, 0, 0, 0
	for _, pod := range p.pods {
		seen[pod.Name] = pod
		available += one(j.available(pod, p.set.Spec.MinReadySeconds))
		serving += one(serves(pod))
		staying += one(active(pod) && n.wants(pod) && !preparing(pod))
		upheld += one(waits(pod))
	}
	floor := n.replicas - n.unavailable
	if n.unavailable == 0 && n.policy != appsv1alpha1.ReCreateUpdate {
		floor--
	}
	scaleIns := map[string]bool{}
	restored := 0
	for _, d := range p.population.Deletes {
		scaleIns[d.Name] = true
	}
	for _, x := range p.population.Patches {
		to := x.Metadata.Labels[appsv1alpha1.LabelLifecycleState]
		scaleIns[x.Name] = to != nil && *to == string(hooks.PreparingDelete)
		restored += one(!scaleIns[x.Name])
	}
	staying += restored
	surplus := staying - n.replicas
	for _, q := range j.inOrder(p) {
		pod := seen[q.name]
		if pod == nil || !active(pod) {
			continue
		}
		how := takes(q, pod)
		if how == "" {
			continue
		}
		scaleIn := scaleIns[q.name] && n.wants(pod) && !preparing(pod)
		if scaleIn {
			surplus--
		}
		if !n.valid {
			return fmt.Errorf("budget: %s %s although the spec cannot be read", how, pod.Name)
		}
		if scaleIn && surplus < 0 {
			return fmt.Errorf("budget: %s %s as a scale-in, and %d of %d would stay", how, pod.Name, n.replicas+surplus, n.replicas)
		}
		if !serves(pod) || how == "holds" && !j.available(pod, p.set.Spec.MinReadySeconds) {
			continue
		}
		serving--
		available -= one(j.available(pod, p.set.Spec.MinReadySeconds))
		left := available
		if waits(pod) {
			// It counts as unavailable since its hook was asked, and serves all the same: it has paid.
			upheld--
			left += upheld
		}
		if scaleIn && serving < floor || !scaleIn && left < floor {
			return fmt.Errorf("budget: %s %s, which serves (scale-in %t): %d serve and %d are available after it, at least %d should; it saw %s",
				how, pod.Name, scaleIn, serving, available, floor, j.view(p))
		}
	}
	return nil
}

// view is what a pass saw of the pods.
func (j *judge) view(p *pass) string {
	var out []string
	for _, pod := range p.pods {
		ready := conditionOf(pod, corev1.PodReady)
		out = append(out, fmt.Sprintf("%s(%s %s, ready %s since %s, gate %s, state %q, available %t, deleted %t)", pod.Name, pod.Status.Phase,
			pod.Spec.Containers[0].Image, ready.Status, ready.LastTransitionTime.UTC().Format("04:05"),
			conditionOf(pod, appsv1alpha1.ConditionInPlaceUpdateReady).Status, pod.Labels[appsv1alpha1.LabelLifecycleState],
			j.available(pod, p.set.Spec.MinReadySeconds), pod.DeletionTimestamp != nil))
	}
	return strings.Join(out, ", ")
}

// inOrder are the requests that name pods: those of scaling as it decided them, then the others by name.
func (j *judge) inOrder(p *pass) []*request {
	at := map[string]int{}
	for i, d := range p.population.Deletes {
		at[d.Name] = i - 1<<20
	}
	for i, x := range p.population.Patches {
		at[x.Name] = i - 1<<10
	}
	out := slices.DeleteFunc(slices.Clone(p.requests), func(q *request) bool { return q.kind != kindPod || q.verb == "create" })
	slices.SortStableFunc(out, func(x, y *request) int {
		if d := at[x.name] - at[y.name]; d != 0 {
			return d
		}
		if x.name < y.name {
			return -1
		}
		return one(x.name > y.name)
	})
	return out
}

// world: never two pods of one id, and no pod that is there has lost a claim.
func (j *judge) world() error {
	ids := map[string]string{}
	for _, pod := range j.a.c.pods() {
		id := idOf(pod)
		if other := ids[id]; other != "" {
			return fmt.Errorf("id: pods %s and %s have the id %s", other, pod.Name, id)
		}
		ids[id] = pod.Name
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim == nil || !active(pod) {
				continue
			}
			claim := j.a.c.claim(v.PersistentVolumeClaim.ClaimName)
			if claim == nil || claim.DeletionTimestamp != nil && !j.doomed[claim.UID] {
				return fmt.Errorf("claim: pod %s has lost its claim %s", pod.Name, v.PersistentVolumeClaim.ClaimName)
			}
		}
	}
	return nil
}

// deed is what a pass did to one pod.
type deed struct {
	created, deleted, drained, returned bool
	state                               [2]hooks.State
	build                               [2]string
}

func deeds(p *pass) map[string]deed {
	out := map[string]deed{}
	for _, q := range p.requests {
		if q.kind != kindPod || q.err != nil {
			continue
		}
		d := out[q.name]
		was, _ := q.was.(*corev1.Pod)
		made, _ := q.made.(*corev1.Pod)
		switch {
		case q.verb == "create":
			d.created = true
		case q.verb == "delete":
			d.deleted = true
		case was != nil && made != nil:
			d.drained = gateTrue(was) && !gateTrue(made)
			d.returned = !gateTrue(was) && gateTrue(made)
			from, _ := hooks.Of(was.Labels)
			to, _ := hooks.Of(made.Labels)
			d.state = [2]hooks.State{from, to}
			d.build = [2]string{was.Labels[labelBuild], made.Labels[labelBuild]}
		}
		out[q.name] = d
	}
	return out
}

// undone: of two passes with nothing between them the second takes nothing back.
func undone(first, second *pass) error {
	if first.set.Generation != second.set.Generation {
		return nil
	}
	before, after := deeds(first), deeds(second)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		b, had := before[name]
		a := after[name]
		if !had {
			continue
		}
		leaves := a.deleted || a.state[1] == hooks.PreparingDelete && a.state[0] != hooks.PreparingDelete
		restored := b.state[0] == hooks.PreparingDelete && b.state[1] != hooks.PreparingDelete
		switch {
		case b.created && leaves:
			return fmt.Errorf("undone: %s is deleted right after it was created", name)
		case restored && leaves:
			return fmt.Errorf("undone: %s is deleted right after it was taken back", name)
		case b.drained && a.returned, b.returned && a.drained && !leaves:
			return fmt.Errorf("undone: %s is drained and returned, or the other way round", name)
		case b.build[0] == b.build[1] && b.state[0] != b.state[1] && a.state[0] != a.state[1] && a.state[1] == b.state[0]:
			return fmt.Errorf("undone: %s goes from state %q to %q and back", name, b.state[0], b.state[1])
		case b.build[0] != b.build[1] && a.build[0] != a.build[1]:
			return fmt.Errorf("undone: %s goes from build %s to %s and on to %s", name, b.build[0], b.build[1], a.build[1])
		}
	}
	return nil
}
