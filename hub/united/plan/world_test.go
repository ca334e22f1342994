package plan

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace/partition"
	"github.com/underway-dev/underway/inplace/revision"
	"github.com/underway-dev/underway/propagation/feedback"
	"github.com/underway-dev/underway/propagation/render"
)

// world is a hub with its memory, and members with a CloneSet controller each, small enough to be driven by a test.
type world struct {
	t    testing.TB
	ud   *appsv1alpha1.UnitedDeployment
	revs []revision.Stored
	// ever are all revisions that there were, those that were trimmed, too.
	ever    []revision.Stored
	members map[string]*member
	now     time.Time
	seenAt  time.Time
	uids    int
	// writes counts what reached a member's spec, by subset.
	writes map[string]int
	last   Decision
	book   *book
	bookOf int
	// maxGrant is the largest stored grant, by subset and subset revision; everCompleted are revisions that need none.
	maxGrant      map[string]int32
	everCompleted map[string]bool
	// had are the members that had a child, unless somebody deleted it by hand.
	had map[string]bool
}

// member is one cluster.
type member struct {
	name     string
	labels   map[string]string
	deleting bool
	draining bool
	// noGrants says why nothing new may be granted there, notAllowed why it takes no workloads.
	noGrants, notAllowed string
	down                 bool
	heard                time.Time
	agentOff             bool
	problem              Problem
	children             map[string]*cloneSet
	// shown is what the hub's cache has; nil: what is there.
	shown map[string]*cloneSet
}

// cloneSet is a child as a member's controller runs it.
type cloneSet struct {
	name, subset, uid string
	kind              render.Kind
	gen, observed     int64
	label             string
	replicas          int32
	part              render.Partition
	intent            string
	scaledBy          []string
	current, update   string
	pods              []string
	// ready are how many of the pods are ready; each step makes one more.
	ready              int32
	paused             bool
	deleting, orphaned bool
	// silent is one that our agent does not reconcile.
	silent bool
}

func newWorld(tb testing.TB, ud *appsv1alpha1.UnitedDeployment) *world {
	tb.Helper()
	w := &world{
		t: tb, ud: ud, members: map[string]*member{}, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC),
		writes: map[string]int{}, maxGrant: map[string]int32{}, everCompleted: map[string]bool{}, had: map[string]bool{},
	}
	w.seenAt = w.now.Add(-time.Hour)
	ud.UID, ud.Generation, ud.Namespace = "ud-uid", 1, "demo"
	for _, s := range ud.Spec.Topology.Subsets {
		w.members[s.Cluster] = &member{name: s.Cluster, children: map[string]*cloneSet{}}
	}
	if w.members[""] == nil {
		w.members[""] = &member{children: map[string]*cloneSet{}}
	}
	return w
}

// sub is a subset of a test: name, cluster and replicas ("" for not written).
func sub(name, cluster, replicas string) appsv1alpha1.Subset {
	s := appsv1alpha1.Subset{Name: name}
	s.Cluster = cluster
	if replicas != "" {
		s.Replicas = new(intstr.Parse(replicas))
	}
	return s
}

func united(name string, replicas int32, image string, subsets ...appsv1alpha1.Subset) *appsv1alpha1.UnitedDeployment {
	ud := &appsv1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	ud.Spec.Replicas = &replicas
	ud.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	ud.Spec.Topology.Subsets = subsets
	setImage(ud, image)
	return ud
}

func setImage(ud *appsv1alpha1.UnitedDeployment, image string) {
	setSpec(ud, fmt.Sprintf(`{"template":{"metadata":{"labels":{"app":%q}},"spec":{"containers":[{"name":"web","image":%q}]}},
		"updateStrategy":{"type":"InPlaceIfPossible","maxUnavailable":1}}`, ud.Name, image))
}

func setSpec(ud *appsv1alpha1.UnitedDeployment, raw string) {
	ud.Spec.Template.CloneSetTemplate = &appsv1alpha1.WorkloadTemplate{Spec: runtime.RawExtension{Raw: []byte(raw)}}
	ud.Generation++
}

func partitions(ud *appsv1alpha1.UnitedDeployment, values map[string]string) {
	m := map[string]intstr.IntOrString{}
	for k, v := range values {
		m[k] = intstr.Parse(v)
	}
	ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Partitions: m}
	ud.Generation++
}

func (w *world) observe() Observation {
	o := Observation{
		United: w.ud.DeepCopy(), HubID: "0123456789abcdef", Term: 1, Revisions: slices.Clone(w.revs),
		Members: map[string]Member{}, Deliveries: map[Target]Delivery{}, GenerationSeenAt: w.seenAt,
	}
	for name, m := range w.members {
		if !m.down {
			m.heard = w.now
		}
		o.Members[name] = Member{
			Ready: !m.down, Problem: "Unreachable", HeardAt: m.heard, Labels: m.labels, Deleting: m.deleting, Draining: m.draining,
			NoGrants: m.noGrants, NotAllowed: m.notAllowed,
		}
		children := m.children
		if m.shown != nil {
			children = m.shown
		}
		for _, c := range children {
			o.Children = append(o.Children, Child{Member: name, Report: c.report()})
			if m.problem != NoProblem {
				o.Deliveries[Target{name, c.report().Kind, c.name}] = Delivery{Problem: m.problem, Message: "told by the test"}
			}
		}
	}
	return o
}

func (c *cloneSet) report() feedback.Report {
	r := feedback.Report{
		Kind: KindName(c.kind), Namespace: "demo", Name: c.name, UID: types.UID(c.uid), Generation: c.gen,
		ObservedGeneration: c.observed, Fresh: c.observed >= c.gen, Deleting: c.deleting, Subset: c.subset, SubsetRevision: c.label,
		UpdateRevision: c.update, CurrentRevision: c.current, SpecReplicas: new(c.replicas), Replicas: int32(len(c.pods)),
		Ready: c.ready, Available: c.ready, PodsUnknown: !c.kind.NeedsAgent, ScaledBy: slices.Clone(c.scaledBy), Intent: c.intent, Orphaned: c.orphaned,
	}
	r.Partition = c.partition()
	r.Updated = c.count(c.update)
	r.UpdatedReady = min(r.Updated, c.ready)
	if !c.silent {
		r.Workload = &appsv1alpha1.WorkloadReport{UpdatedInPlace: r.Updated}
	}
	return r
}

// partition is the child's, as feedback reads it.
func (c *cloneSet) partition() string {
	switch {
	case c.kind.Hold == render.HoldWhole:
		return ""
	case c.part.Hold && render.PodNames(c.kind) == render.NamesOrdinal:
		return strconv.Itoa(render.HoldOrdinal)
	case c.part.Hold:
		return render.HoldPercent
	}
	return c.part.Value.String()
}

func (c *cloneSet) key() string { return KindName(c.kind) + "/" + c.name }

func (c *cloneSet) count(rev string) int32 {
	n := int32(0)
	for _, pod := range c.pods {
		if pod == rev {
			n++
		}
	}
	return n
}

func (c *cloneSet) clone() *cloneSet {
	out := *c
	out.pods = slices.Clone(c.pods)
	out.scaledBy = slices.Clone(c.scaledBy)
	return &out
}

// pass runs the plan once and stores what it decided; it returns the pushes.
func (w *world) pass() []Push { return w.passOn(w.observe()) }

func (w *world) passOn(o Observation) []Push {
	d := Next(o, w.now)
	w.last = d
	w.checkStored(o, d)
	if d.Create != nil {
		w.revs, w.ever = append(w.revs, *d.Create), append(w.ever, *d.Create)
	}
	if d.Renumber != nil {
		for i := range w.revs {
			if w.revs[i].Name == d.Renumber.Name {
				w.revs[i].Number = d.Renumber.Number
			}
		}
	}
	w.revs = slices.DeleteFunc(w.revs, func(s revision.Stored) bool { return slices.Contains(d.Trim, s.Name) })
	if d.AddFinalizer {
		w.ud.Finalizers = append(w.ud.Finalizers, appsv1alpha1.FinalizerChildren)
	}
	if d.DropConfirm {
		delete(w.ud.Annotations, appsv1alpha1.AnnotationConfirm)
	}
	if o.United.Generation < w.ud.Generation {
		d.Status.ObservedGeneration = o.United.Generation
	}
	w.ud.Status = *d.Status.DeepCopy()
	if r := d.Status.Release; r != nil {
		for name, n := range r.Grants {
			key := name + "/" + r.Revision
			w.maxGrant[key] = max(w.maxGrant[key], n)
			if all := d.Status.SubsetReplicas[name]; all > 0 && n >= all {
				w.maxGrant[key] = math.MaxInt32 // everything was granted: this subset has no old revision any more
			}
		}
	}
	if d.Status.CurrentRevision != "" {
		w.everCompleted[d.Status.CurrentRevision] = true
	}
	return d.Pushes
}

// checkStored holds that what is pushed is in the status as it was stored before: the epoch, and the grant.
func (w *world) checkStored(o Observation, d Decision) {
	w.t.Helper()
	if d.StoreFirst && len(d.Pushes) > 0 {
		w.t.Fatalf("pushes in a pass that stores first")
	}
	stored := o.United.Status.Release
	for _, p := range d.Pushes {
		if p.Want != WantApplied {
			continue
		}
		if stored == nil || p.Input.Intent.Epoch != stored.Epoch || o.United.Status.CurrentRevision == "" {
			w.t.Fatalf("pushed with epoch %d, stored is %+v", p.Input.Intent.Epoch, stored)
		}
		part := p.Input.Partition
		if part.Hold || p.Input.Replicas == nil || part.Value.Type != intstr.Int {
			continue
		}
		if granted := *p.Input.Replicas - part.Value.IntVal; granted > stored.Grants[p.Subset] {
			w.t.Fatalf("%s is pushed with %d granted, stored is %d", p.Subset, granted, stored.Grants[p.Subset])
		}
	}
}

// deliver does what the outbox and a member's API server do with a push.
func (w *world) deliver(p Push) {
	m := w.members[p.Member]
	if m == nil || m.down || m.problem != NoProblem {
		return
	}
	key := KindName(p.Kind) + "/" + p.Name
	c := m.children[key]
	switch p.Want {
	case WantDeleted:
		if c != nil && c.uid == string(p.Judged) && w.stillWanted(p) {
			delete(m.children, key)
			w.checkRetired(m, c)
		}
		return
	case WantOrphaned:
		if c != nil {
			c.orphaned = true
		}
		return
	case WantApplied:
	}
	if (c == nil) != (p.Judged == "") || (c != nil && string(p.Judged) != c.uid) {
		return // the owner plans again
	}
	if c != nil && c.label != p.Carried && c.label != p.Input.Revision {
		return // it got another template since: the owner plans again
	}
	if c == nil {
		w.uids++
		c = &cloneSet{name: p.Name, kind: p.Kind, subset: p.Subset, uid: fmt.Sprintf("uid-%d", w.uids)}
		m.children[key] = c
	} else if got, err := render.ParseIntent(c.intent); err == nil {
		if n, ok := p.Input.Intent.Compare(got); !ok || n < 0 {
			return // an older plan
		}
	}
	next := c.clone()
	next.label, next.part, next.paused = p.Input.Revision, p.Input.Partition, p.Input.Paused
	if c.label != "" && c.label != next.label && p.Kind.Hold == render.HoldWhole && (p.Input.Partition.Hold || p.Input.Paused) && !w.completedHas(p.Subset, next.label) {
		w.t.Fatalf("%s: a held Deployment is sent %s", p.Subset, next.label)
	}
	if p.Input.Replicas != nil {
		next.replicas, next.scaledBy = *p.Input.Replicas, nil
	}
	if next.label != c.label || next.part != c.part || next.replicas != c.replicas || next.paused != c.paused {
		next.gen++
		w.writes[p.Subset]++
		next.intent = p.Input.Intent.String()
	}
	*c = *next
}

// agent is one step of the member's controller on one child: it observes, scales, and moves at most one pod.
func (c *cloneSet) agent() {
	c.observed = c.gen
	c.update = c.label
	if c.current == "" {
		c.current = c.update
	}
	value := c.part.Value
	if c.part.Hold {
		value = intstr.FromString("100%")
	}
	old, err := partition.Old(&value, c.replicas)
	if err != nil {
		panic(err)
	}
	if c.kind.Hold == render.HoldWhole {
		old = 0
		if c.paused {
			old = c.replicas
		}
	}
	defer func() { c.ready = min(c.ready+1, int32(len(c.pods))) }()
	for int32(len(c.pods)) > c.replicas {
		c.pods = c.pods[1:]
	}
	for int32(len(c.pods)) < c.replicas {
		rev := c.update
		if int32(len(c.pods))-c.count(c.update) < old {
			rev = c.current
		}
		c.pods = append(c.pods, rev)
	}
	if int32(len(c.pods))-c.count(c.update) > old {
		i := slices.IndexFunc(c.pods, func(r string) bool { return r != c.update })
		c.pods[i] = c.update
	}
	if old == 0 && c.count(c.update) == int32(len(c.pods)) {
		c.current = c.update // with a partition the old revision stays the one that more pods would get
	}
}

// run lets everything happen in order until nothing changes.
func (w *world) run() {
	w.t.Helper()
	for range 200 {
		before := w.fingerprint()
		for _, p := range w.pass() {
			w.deliver(p)
		}
		for _, m := range w.members {
			for _, c := range m.children {
				if !m.down && !m.agentOff {
					c.agent()
				}
			}
		}
		w.now = w.now.Add(time.Second)
		w.check()
		if before == w.fingerprint() && (w.last.LookAgainIn == 0 || w.last.LookAgainIn > time.Minute) { // a look far ahead is rest
			w.idle()
			return
		}
	}
	w.t.Fatalf("does not come to rest:\n%s", w.fingerprint())
}

// idle checks that the plan fed with its own result changes nothing.
func (w *world) idle() {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	o := w.observe()
	d := Next(o, w.now)
	if !equal(d.Status, w.ud.Status) || d.StoreFirst || d.AddFinalizer || d.DropConfirm || d.Create != nil || len(d.Happened) > 0 {
		w.t.Fatalf("an idle pass changes something: %+v\nwas %+v", d, w.ud.Status)
	}
}

func (w *world) fingerprint() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%+v%s", w.ud.Status.Release, w.ud.Status.CurrentRevision)
	for _, name := range w.memberNames() {
		for _, key := range sortedKeys(w.members[name].children) {
			fmt.Fprintf(&out, "\n%s %+v", name, *w.members[name].children[key])
		}
	}
	for _, s := range w.ud.Status.SubsetStatuses {
		fmt.Fprintf(&out, "\n%s %s %d/%d/%d", s.Name, s.State, s.UpdatedReplicas, s.Replicas, s.DesiredReplicas)
	}
	return out.String()
}

func (w *world) memberNames() []string { return sortedKeys(w.members) }

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// checkServed holds that a place that has had a child has one, whatever its kind.
func (w *world) checkServed() {
	w.t.Helper()
	for _, s := range w.ud.Spec.Topology.Subsets {
		there := slices.ContainsFunc(sortedKeys(w.members[s.Cluster].children), func(key string) bool {
			return w.members[s.Cluster].children[key].subset == s.Name
		})
		if !there && w.had[s.Name] {
			w.t.Fatalf("subset %s had a child and has none", s.Name)
		}
		w.had[s.Name] = there
	}
}

// check holds the one promise: pods of a revision that was never completed are never more than its largest grant.
func (w *world) check() {
	w.t.Helper()
	for _, name := range w.memberNames() {
		for _, c := range w.members[name].children {
			counts := map[string]int32{}
			for _, pod := range c.pods {
				counts[pod]++
			}
			for rev, n := range counts {
				if allowed, free := w.allowed(c.subset, rev); !free && n > allowed {
					w.t.Fatalf("member %q: %d pods of %s run %s, the largest grant was %d\n%+v", name, n, c.subset, rev, allowed, *c)
				}
			}
		}
	}
}

// allowed is the largest grant that any release gave to a subset revision.
func (w *world) allowed(subset, rev string) (int32, bool) {
	if w.book == nil || w.bookOf != len(w.ever) {
		var err error
		if w.book, err = newBook(w.decoded(w.ever)); err != nil {
			w.t.Fatal(err)
		}
		w.bookOf = len(w.ever)
	}
	b := w.book
	largest := int32(0)
	for name := range b.contents {
		r, err := b.render(name, b.contents[name].Overrides[subset])
		if err != nil {
			continue
		}
		if r.revision != rev && !w.withPresent(b, name, subset, rev) {
			continue
		}
		if w.everCompleted[name] {
			return 0, true
		}
		largest = max(largest, w.maxGrant[subset+"/"+name])
	}
	return largest, false
}

func (w *world) entry(name string) appsv1alpha1.SubsetStatus {
	w.t.Helper()
	for _, s := range w.ud.Status.SubsetStatuses {
		if s.Name == name {
			return s
		}
	}
	w.t.Fatalf("no subset %s in %+v", name, w.ud.Status.SubsetStatuses)
	return appsv1alpha1.SubsetStatus{}
}

func (w *world) condition(kind string) *metav1.Condition {
	for i := range w.ud.Status.Conditions {
		if w.ud.Status.Conditions[i].Type == kind {
			return &w.ud.Status.Conditions[i]
		}
	}
	return nil
}

func (w *world) child(subset string) *cloneSet {
	for _, m := range w.members {
		for _, c := range m.children {
			if c.subset == subset {
				return c
			}
		}
	}
	return nil
}

// edited says that the object was written just now.
func (w *world) edited() { w.seenAt = w.now }

func shuffled[V any](r *rand.Rand, in []V) []V {
	out := slices.Clone(in)
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func rawJSON(s string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(s)} }

// withPresent is true for the completed template with the overrides that a new subset has now, and for one with the
// overrides that some template of subsets has.
func (w *world) withPresent(b *book, name, subset, rev string) bool {
	templates, _ := readSelectors(w.ud.Spec.Topology.SubsetTemplates)
	overrides := slices.Collect(maps.Values(b.contents[name].Selected))
	for i := range templates {
		overrides = append(overrides, templates[i].changes)
	}
	for _, o := range overrides {
		if r, err := b.render(name, o); err == nil && r.revision == rev {
			return true
		}
	}
	for i := range w.ud.Spec.Topology.Subsets {
		if s := &w.ud.Spec.Topology.Subsets[i]; s.Name == subset && w.everCompleted[name] {
			r, err := b.render(name, overrideOf(&s.SubsetPlace))
			return err == nil && r.revision == rev
		}
	}
	return false
}

// stillWanted is the fresh look before a delete: the owner asks for another kind there and the child of it is whole, or has
// no such subset.
func (w *world) stillWanted(p Push) bool {
	if w.ud.DeletionTimestamp != nil {
		return true
	}
	if Leaves(w.ud, p.Subset, p.Member, Standing{Labels: w.members[p.Member].labels, Draining: w.members[p.Member].draining}) {
		return true
	}
	if p.After == nil || !slices.Equal(KindsOf([]appsv1alpha1.SubsetTemplate{w.ud.Spec.Template}), []string{p.After.Kind}) {
		return false
	}
	next := w.members[p.After.Member].children[p.After.Kind+"/"+p.After.Name]
	if next == nil {
		return false
	}
	r := next.report()
	return TookOver(&r, p.After.Revision, p.After.Replicas)
}

// checkRetired holds that a child of the spec's subset goes only when one of another kind has all that it had, ready.
func (w *world) checkRetired(m *member, gone *cloneSet) {
	w.t.Helper()
	if !slices.ContainsFunc(w.ud.Spec.Topology.Subsets, func(s appsv1alpha1.Subset) bool { return s.Name == gone.subset && s.Cluster == m.name }) {
		return
	}
	for _, c := range m.children {
		if c.subset != gone.subset {
			continue
		}
		n := int32(len(c.pods))
		if c.ready == n && n == c.replicas && c.count(c.label) == n {
			return
		}
	}
	w.t.Fatalf("%s: its %s is deleted and nothing stands in for it", gone.subset, KindName(gone.kind))
}

// completedHas is true for a subset revision that some completed revision makes.
func (w *world) completedHas(subset, rev string) bool {
	_, free := w.allowed(subset, rev)
	return free
}

// template sets a template of a kind, "cloneSet", "statefulSet", "advancedStatefulSet" or "deployment".
func template(ud *appsv1alpha1.UnitedDeployment, kind, image string) {
	templateSpec(ud, kind, fmt.Sprintf(`{"template":{"metadata":{"labels":{"app":%q}},"spec":{"containers":[{"name":"web","image":%q}]}}}`, ud.Name, image))
}

func templateSpec(ud *appsv1alpha1.UnitedDeployment, kind, raw string) {
	t := &appsv1alpha1.WorkloadTemplate{Spec: runtime.RawExtension{Raw: []byte(raw)}}
	ud.Spec.Template = appsv1alpha1.SubsetTemplate{}
	switch kind {
	case "cloneSet":
		ud.Spec.Template.CloneSetTemplate = t
	case "statefulSet":
		ud.Spec.Template.StatefulSetTemplate = t
	case "advancedStatefulSet":
		ud.Spec.Template.AdvancedStatefulSetTemplate = t
	default:
		ud.Spec.Template.DeploymentTemplate = t
	}
	ud.Generation++
}
