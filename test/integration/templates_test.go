//go:build lab

package integration

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

// images of all containers of the pods in a member, counted.
func images(ctx context.Context, member, ns string) map[string]int {
	GinkgoHelper()
	out := map[string]int{}
	for _, p := range pods(ctx, shared.at[member], ns) {
		if p.DeletionTimestamp == nil {
			out[p.Spec.Containers[0].Image]++
		}
	}
	return out
}

// have waits until the pods of a member that stay have these images.
func have(ctx context.Context, member, ns string, want map[string]int) {
	GinkgoHelper()
	soon(ctx, func(g Gomega) { g.Expect(images(ctx, member, ns)).To(Equal(want)) })
}

var _ = Describe("The templates of a UnitedDeployment", Ordered, ContinueOnFailure, SpecPriority(1), func() {
	var (
		ns    string
		u     *appsv1alpha1.UnitedDeployment
		stuck *played
	)

	// It takes the hub a minute to call a StatefulSet stuck: this one gets stuck while the others are played.
	BeforeAll(func(ctx context.Context) {
		ordered := native
		ordered.spec = `podManagementPolicy: OrderedReady`
		stuck = &played{template: ordered, ns: shared.namespace(ctx)}
		stuck.u = shared.create(ctx, ordered.yaml("stuck", stuck.ns, v1, `{west: 0}`, "west:2"))
		DeferCleanup(func(ctx context.Context) {
			Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, stuck.u))).To(Succeed())
		})
		shared.ready(ctx, stuck.u, 2)
		stuck.release(ctx, stuck.u, "app:never-ready")
		soon(ctx, func(g Gomega) {
			g.Expect(images(ctx, "west", stuck.ns)).To(Equal(map[string]int{v1: 1, "app:never-ready": 1}))
		})
		stuck.mark = shared.mark("west")
		stuck.release(ctx, stuck.u, v1)
	})

	BeforeEach(func(ctx context.Context) { ns, u = shared.namespace(ctx), nil })
	AfterEach(func(ctx context.Context) {
		if u != nil {
			Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, u))).To(Succeed())
		}
	})

	// One member granted in part, one held, one whole; then finished; then a second release is taken back. All kinds at
	// once, step by step.
	It("are released by partitions, and rolled back: N2 B149 CloneSets in both shapes, and both StatefulSets", func(ctx context.Context) {
		var all []*played
		for name, t := range map[string]template{"flat": flatCloneSet, "nested": nestedCloneSet, "advanced": advanced, "native": native} {
			p := &played{template: t, ns: shared.namespace(ctx)}
			p.u = shared.create(ctx, t.yaml(name, p.ns, v1, `{east: 1, west: 2, north: 0}`, "east:3", "west:2", "north:2"))
			DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, p.u))).To(Succeed()) })
			all = append(all, p)
		}
		each := func(step string, do func(ctx context.Context, p *played)) {
			for _, p := range all {
				By(p.u.Name + ": " + step)
				do(ctx, p)
			}
		}
		each("begins", func(ctx context.Context, p *played) {
			shared.ready(ctx, p.u, 7)
			p.before = map[string]map[string]identity{}
			for name, c := range shared.at {
				p.before[name] = identities(pods(ctx, c, p.ns))
			}
			p.west = lookout(ctx, shared.at["west"], p.ns)
			p.release(ctx, p.u, v2)
		})
		each("is granted in part", func(ctx context.Context, p *played) { p.inPart(ctx) })
		each("is granted whole", func(ctx context.Context, p *played) {
			shared.setPartitions(ctx, p.u, `{east: 0, west: 0, north: 0}`)
		})
		each("is finished", func(ctx context.Context, p *played) { p.finished(ctx) })
		each("is released again", func(ctx context.Context, p *played) {
			shared.setPartitions(ctx, p.u, `{east: 2, west: 2, north: 2}`)
			p.release(ctx, p.u, v3)
		})
		each("has one new pod", func(ctx context.Context, p *played) {
			shared.updated(ctx, p.u, 1)
			have(ctx, "east", p.ns, map[string]int{v2: 2, v3: 1})
			p.release(ctx, p.u, v2)
		})
		each("is back", func(ctx context.Context, p *played) { p.back(ctx) })
	})

	It("holds a Deployment whole, lets it go whole, and stops it where it is when it is held in mid-release", func(ctx context.Context) {
		u = shared.create(ctx, deploy.yaml("web", ns, v1, `{east: 1, west: 2, north: 0}`, "east:3", "west:2", "north:2"))
		shared.ready(ctx, u, 7)
		east := lookout(ctx, shared.at["east"], ns)
		west := lookout(ctx, shared.at["west"], ns)
		deploy.release(ctx, u, v2)
		shared.updated(ctx, u, 2)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			s := subsetOf(u, "east")
			g.Expect(s.State).To(Equal("Held"))
			g.Expect(s.Message).To(And(ContainSubstring("held whole"), ContainSubstring("kubectl patch")))
			g.Expect(u.Status.CurrentRevision).NotTo(Equal(u.Status.UpdatedRevision))
		})
		have(ctx, "north", ns, map[string]int{v2: 2}) // the last old pod goes after the last new one is ready

		// Replicas follow while it is held, on the completed template.
		shared.patch(ctx, u, `{"spec":{"replicas":8,"topology":{"subsets":[{"name":"east","cluster":"east","replicas":4},{"name":"west","cluster":"west","replicas":2},{"name":"north","cluster":"north","replicas":2}]}}}`)
		shared.ready(ctx, u, 8)
		have(ctx, "east", ns, map[string]int{v1: 4})
		Expect(east.of(v2)).To(BeZero())

		heads := count(ctx, shared.at["east"], ns)
		shared.setPartitions(ctx, u, `{east: 0, west: 2, north: 0}`)
		shared.updated(ctx, u, 6)
		have(ctx, "east", ns, map[string]int{v2: 4})
		soon(ctx, func(g Gomega) { g.Expect(heads.seen()).To(BeNumerically(">=", 8)) })
		Expect(heads.low()).To(BeNumerically(">=", 4), "its own maxUnavailable is 0")
		Expect(west.of(v2)).To(BeZero())
		shared.setPartitions(ctx, u, `{east: 0, west: 0, north: 0}`)
		shared.updated(ctx, u, 8)

		// Four pods, one after the other, take half a minute: the hold comes in time on a slow machine, too.
		slow := "app:slow-start-8s"
		shared.setPartitions(ctx, u, `{east: 0, west: 2, north: 2}`)
		deploy.release(ctx, u, slow)
		soon(ctx, func(g Gomega) { g.Expect(images(ctx, "east", ns)[slow]).To(BeNumerically(">=", 1)) })
		shared.setPartitions(ctx, u, `{east: 4, west: 2, north: 2}`)
		soon(ctx, func(g Gomega) {
			g.Expect(paused(ctx, "east", ns)).To(BeTrue())
			d := only(ctx, shared.at["east"], deployment, ns)
			g.Expect(at(d, "status", "observedGeneration")).To(Equal(d.GetGeneration()), "its controller has not seen it")
		})
		stopped := images(ctx, "east", ns)
		Expect(stopped[v2]).To(BeNumerically(">=", 1), "it was held too late for this test")
		Consistently(ctx, func(g Gomega) { g.Expect(images(ctx, "east", ns)).To(Equal(stopped)) }).
			WithTimeout(12 * time.Second).WithPolling(300 * time.Millisecond).Should(Succeed())
		shared.setPartitions(ctx, u, `{east: 0, west: 0, north: 0}`)
		deploy.release(ctx, u, v2)
		soon(ctx, func(g Gomega) {
			g.Expect(images(ctx, "east", ns)).To(Equal(map[string]int{v2: 4}))
			g.Expect(paused(ctx, "east", ns)).To(BeFalse())
		})
		shared.ready(ctx, u, 8)
	})

	It("opens no release with a template that API servers refuse, names the field and writes to no member", func(ctx context.Context) {
		u = shared.create(ctx, native.yaml("web", ns, v1, `{east: 0, west: 0}`, "east:2", "west:1"))
		shared.ready(ctx, u, 3)
		shared.quiet(ctx, ns, "east", "west")
		mark := map[string]lab.Mark{"east": shared.mark("east"), "west": shared.mark("west")}
		shared.patch(ctx, u, `{"spec":{"template":{"statefulSetTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app:v2","ports":[{"name":"Not_A_Port","containerPort":80}]}]}}}}}}}`)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			c := condition(u, appsv1alpha1.ConditionTemplateInvalid)
			g.Expect(c.Status).To(Equal(metav1.ConditionTrue))
			g.Expect(c.Message).To(ContainSubstring("spec.template.statefulSetTemplate.spec.template.spec.containers[0].ports[0].name"))
			g.Expect(u.Status.ObservedGeneration).To(Equal(u.Generation))
		})
		stays(ctx, func(g Gomega) {
			g.Expect(shared.hubWrites("east", mark["east"], ns)).To(BeEmpty())
			g.Expect(shared.hubWrites("west", mark["west"], ns)).To(BeEmpty())
		})
		have(ctx, "east", ns, map[string]int{v1: 2})
		// What runs goes on: it is scaled, on the template that it has.
		shared.patch(ctx, u, `{"spec":{"replicas":4,"topology":{"subsets":[{"name":"east","cluster":"east","replicas":3},{"name":"west","cluster":"west","replicas":1}]}}}`)
		soon(ctx, func(g Gomega) { g.Expect(images(ctx, "east", ns)).To(Equal(map[string]int{v1: 3})) })
		native.release(ctx, u, v2)
		shared.updated(ctx, u, 4)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(condition(u, appsv1alpha1.ConditionTemplateInvalid).Status).NotTo(Equal(metav1.ConditionTrue))
		})
	})

	It("creates nothing from a first template that API servers refuse", func(ctx context.Context) {
		mark := shared.mark("east")
		bad := deploy
		bad.spec = `minReadySeconds: 1`
		u = shared.create(ctx, bad.yaml("web", ns, "", `{}`, "east:1")) // no image
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			c := condition(u, appsv1alpha1.ConditionTemplateInvalid)
			g.Expect(c.Status).To(Equal(metav1.ConditionTrue))
			g.Expect(c.Message).To(ContainSubstring("spec.template.deploymentTemplate.spec.template.spec.containers[0].image"))
		})
		stays(ctx, func(g Gomega) { g.Expect(shared.hubWrites("east", mark, ns)).To(BeEmpty()) })
	})

	It("changes the kind make-before-break, and back", func(ctx context.Context) {
		u = shared.create(ctx, flatCloneSet.yaml("web", ns, v1, `{east: 0, west: 0}`, "east:3", "west:2"))
		shared.ready(ctx, u, 5)
		heads := map[string]*headcount{}
		for _, m := range []string{"east", "west"} {
			heads[m] = count(ctx, shared.at[m], ns)
		}
		whole := func(kind, gone string) {
			GinkgoHelper()
			soon(ctx, func(g Gomega) {
				for m, replicas := range map[string]int{"east": 3, "west": 2} {
					g.Expect(childrenIn(ctx, shared.at[m], gone, ns)).To(BeEmpty())
					g.Expect(childrenIn(ctx, shared.at[m], kind, ns)).To(HaveLen(1))
					g.Expect(pods(ctx, shared.at[m], ns)).To(HaveLen(replicas))
				}
			})
			shared.updated(ctx, u, 5)
			shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
				g.Expect(u.Status.CurrentRevision).To(Equal(u.Status.UpdatedRevision))
				g.Expect(subsetOf(u, "east").Kind).To(Equal(kind))
			})
		}
		// Held in part is held whole: the CloneSet stays as it is.
		shared.setPartitions(ctx, u, `{east: 1, west: 2}`)
		flatCloneSet.become(ctx, u, deploy, "app:slow-start-2s")
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, "east").State).To(Equal("Held"))
			g.Expect(subsetOf(u, "east").Message).To(ContainSubstring("held whole"))
		})
		stays(ctx, func(g Gomega) { g.Expect(childrenIn(ctx, shared.at["east"], deployment, ns)).To(BeEmpty()) })
		shared.setPartitions(ctx, u, `{east: 0, west: 0}`)
		whole(deployment, cloneSet)
		Expect(heads["east"].low()).To(BeNumerically(">=", 3))
		Expect(heads["west"].low()).To(BeNumerically(">=", 2))

		deploy.become(ctx, u, flatCloneSet, v2)
		whole(cloneSet, deployment)
		Expect(heads["east"].low()).To(BeNumerically(">=", 3))
		Expect(heads["west"].low()).To(BeNumerically(">=", 2))
		soon(ctx, func(g Gomega) { g.Expect(heads["east"].seen()).To(BeNumerically(">=", 9)) })
	})

	It("refuses a change of kind in which names would collide, before anything moves", func(ctx context.Context) {
		u = shared.create(ctx, native.yaml("web", ns, v1, `{east: 0}`, "east:2"))
		shared.ready(ctx, u, 2)
		p := played{template: native, ns: ns, u: u}
		p.look(ctx, "east")
		native.become(ctx, u, advanced, v2)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			c := condition(u, appsv1alpha1.ConditionRefused)
			g.Expect(c.Status).To(Equal(metav1.ConditionTrue))
			g.Expect(c.Message).To(And(ContainSubstring("names"), ContainSubstring("take the change back")))
		})
		stays(ctx, func(g Gomega) { p.unmoved(ctx, g, "east") })
		advanced.become(ctx, u, native, v2)
		shared.updated(ctx, u, 2)
	})

	It("refuses another value of a field that cannot change, before anything moves", func(ctx context.Context) {
		u = shared.create(ctx, native.yaml("web", ns, v1, `{east: 0}`, "east:1"))
		shared.ready(ctx, u, 1)
		p := played{template: native, ns: ns, u: u}
		p.look(ctx, "east")
		shared.patch(ctx, u, `{"spec":{"template":{"statefulSetTemplate":{"spec":{"podManagementPolicy":"OrderedReady"}}}}}`)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			c := condition(u, appsv1alpha1.ConditionRefused)
			g.Expect(c.Status).To(Equal(metav1.ConditionTrue))
			g.Expect(c.Message).To(ContainSubstring("spec.template.statefulSetTemplate.spec.podManagementPolicy"))
		})
		stays(ctx, func(g Gomega) { p.unmoved(ctx, g, "east") })
	})

	It("reports a stuck StatefulSet with the command that frees it, and deletes nothing itself", func(ctx context.Context) {
		pod := only(ctx, shared.at["west"], nativeSet, stuck.ns).GetName() + "-1"
		shared.status(ctx, stuck.u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, "west").Message).To(And(
				ContainSubstring("kubectl --context west"), ContainSubstring("delete pod "+pod), ContainSubstring(stuck.ns)))
		})
		Expect(podDeletes("west", stuck.mark, stuck.ns)).To(BeEmpty())
		Expect(shared.at["west"].Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: stuck.ns, Name: pod}})).To(Succeed())
		shared.updated(ctx, stuck.u, 2)
		have(ctx, "west", stuck.ns, map[string]int{v1: 2})
	})
})

// paused is true for a member's Deployment that is.
func paused(ctx context.Context, member, ns string) bool {
	GinkgoHelper()
	v, _ := at(only(ctx, shared.at[member], deployment, ns), "spec", "paused").(bool)
	return v
}

// podDeletes are the deletes of pods in a namespace of a member since a mark, whoever asked.
func podDeletes(member string, mark lab.Mark, ns string) []string {
	GinkgoHelper()
	events, err := shared.fleet.Member(member).Since(mark, lab.On("pods"), func(e lab.AuditEvent) bool {
		return strings.HasPrefix(e.Verb, "delete") && e.ObjectRef.Namespace == ns
	})
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for _, e := range events {
		out = append(out, e.ObjectRef.Name+" by "+e.User.Username)
	}
	return out
}

// played is a UnitedDeployment in the course of a test.
type played struct {
	template

	ns     string
	u      *appsv1alpha1.UnitedDeployment
	west   *sighting
	before map[string]map[string]identity
	// pods is the pod template of a child, as seen by look.
	pods any
	mark lab.Mark
}

// look remembers what a member has.
func (p *played) look(ctx context.Context, member string) {
	GinkgoHelper()
	p.before = map[string]map[string]identity{member: identities(pods(ctx, shared.at[member], p.ns))}
	p.pods = at(only(ctx, shared.at[member], p.kind, p.ns), "spec", "template")
}

// unmoved is true while the member has what look saw; that a hold is written to it is no move.
func (p *played) unmoved(ctx context.Context, g Gomega, member string) {
	g.Expect(at(only(ctx, shared.at[member], p.kind, p.ns), "spec", "template")).To(Equal(p.pods))
	g.Expect(identities(pods(ctx, shared.at[member], p.ns))).To(Equal(p.before[member]))
	for _, kind := range []string{cloneSet, advancedSet, nativeSet, deployment} {
		if kind != p.kind {
			g.Expect(childrenIn(ctx, shared.at[member], kind, p.ns)).To(BeEmpty())
		}
	}
}

func (p *played) inPart(ctx context.Context) {
	GinkgoHelper()
	shared.updated(ctx, p.u, 4)
	shared.status(ctx, p.u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
		g.Expect(u.Status.ReadyReplicas).To(BeEquivalentTo(7))
		g.Expect(u.Status.UpdateStatus.CurrentPartitions).To(Equal(map[string]int32{"east": 1, "west": 2, "north": 0}))
		g.Expect(u.Status.CurrentRevision).NotTo(Equal(u.Status.UpdatedRevision)) // N13
		for _, s := range u.Status.SubsetStatuses {
			g.Expect(s.Kind).To(Equal(p.kind))
		}
		g.Expect(subsetOf(u, "west").State).To(Equal("Held"))
		g.Expect(subsetOf(u, "north").State).To(Equal("Current"))
	})
	have(ctx, "east", p.ns, map[string]int{v1: 1, v2: 2})
	have(ctx, "north", p.ns, map[string]int{v2: 2})
	soon(ctx, func(g Gomega) {
		east, west := only(ctx, shared.at["east"], p.kind, p.ns), only(ctx, shared.at["west"], p.kind, p.ns)
		g.Expect(at(east, p.place...)).To(BeEquivalentTo(1))
		g.Expect(at(west, p.place...)).To(Equal(p.hold))
		g.Expect(at(east, "spec", "updateStrategy")).To(p.strategy)
	})
	Expect(p.west.of(v2)).To(BeZero())
}

func (p *played) finished(ctx context.Context) {
	GinkgoHelper()
	shared.updated(ctx, p.u, 7)
	shared.status(ctx, p.u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
		g.Expect(u.Status.CurrentRevision).To(Equal(u.Status.UpdatedRevision))
		g.Expect(condition(u, appsv1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
	})
	for name, c := range shared.at {
		now := identities(pods(ctx, c, p.ns))
		if p.inPlace {
			Expect(now).To(Equal(p.before[name]), name)
			continue
		}
		Expect(names(now)).To(Equal(names(p.before[name])), name)
	}
}

func (p *played) back(ctx context.Context) {
	GinkgoHelper()
	soon(ctx, func(g Gomega) { g.Expect(images(ctx, "east", p.ns)).To(Equal(map[string]int{v2: 3})) })
	shared.status(ctx, p.u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
		g.Expect(u.Status.ReadyReplicas).To(BeEquivalentTo(7))
		g.Expect(u.Status.CurrentRevision).To(Equal(u.Status.UpdatedRevision))
		g.Expect(condition(u, appsv1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
	})
	Expect(p.west.of(v3)).To(BeZero())
}

// names of pods.
func names(of map[string]identity) map[string]bool {
	out := map[string]bool{}
	for name := range of {
		out[name] = true
	}
	return out
}
