//go:build lab

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// starts are the pods of a member by their UIDs, with how often their containers were started: what is left alone keeps both.
func starts(ctx context.Context, member, ns string) map[types.UID]int32 {
	GinkgoHelper()
	out := map[types.UID]int32{}
	list := pods(ctx, shared.at[member], ns)
	for i := range list {
		out[list[i].UID] = -1
		for _, c := range list[i].Status.ContainerStatuses {
			out[list[i].UID] = c.RestartCount
		}
	}
	return out
}

// differ is how many pods of a member are others, or were started again, since before.
func differ(before, now map[types.UID]int32) int {
	n := 0
	for uid, count := range before {
		if at, has := now[uid]; !has || at != count {
			n++
		}
	}
	return n
}

// line is the row of a table that holds all of these words, in their order.
func line(words ...string) OmegaMatcher {
	pattern := "(?m)^.*"
	for _, w := range words {
		pattern += regexp.QuoteMeta(w) + ".*"
	}
	return MatchRegexp(pattern + "$")
}

// because sets the cause of the next change.
func (w *world) because(ctx context.Context, u *appsv1alpha1.UnitedDeployment, cause string) {
	GinkgoHelper()
	w.patch(ctx, u, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, appsv1alpha1.AnnotationChangeCause, cause))
}

// runNext applies the patch of the first command that `explain` names, as somebody who types it.
func (w *world) runNext(ctx context.Context, u *appsv1alpha1.UnitedDeployment) {
	GinkgoHelper()
	var next []string
	soon(ctx, func(g Gomega) {
		text := w.kubectl(ctx, "explain", "ud", u.Name, "-n", u.Namespace)
		next = regexp.MustCompile(`(?m)moves with +kubectl patch ud (\S+) -n (\S+) --type merge -p '(.*)'$`).FindStringSubmatch(text)
		g.Expect(next).NotTo(BeNil(), text)
	})
	Expect(next[1:3]).To(Equal([]string{u.Name, u.Namespace}))
	w.patch(ctx, u, next[3])
}

// revisions are the names of an object's stored revisions.
func (w *world) revisions(ctx context.Context, g Gomega, u *appsv1alpha1.UnitedDeployment) []string {
	var list appsv1.ControllerRevisionList
	g.Expect(w.hub.List(ctx, &list, client.InNamespace(u.Namespace), client.MatchingLabels{appsv1alpha1.LabelOwnerUID: string(u.UID)})).To(Succeed())
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

var _ = Describe("The history of a UnitedDeployment", func() {
	It("is listed, is gone back to in mid-release, in place and by nobody else's restart, and is trimmed around what is in use", func(ctx context.Context) {
		w, ns := shared, shared.namespace(ctx)
		u := w.create(ctx, united{name: "past", ns: ns, image: v1, subsets: []string{"east:3", "west:3"}, partitions: "{east: 0, west: 0}"}.yaml())
		ud := []string{"ud", "past", "-n", ns}
		verb := func(name string, more ...string) string {
			GinkgoHelper()
			return w.kubectl(ctx, append(append([]string{name}, ud...), more...)...)
		}
		w.ready(ctx, u, 6)
		w.because(ctx, u, "ticket 2")
		w.setImage(ctx, u, v2)
		w.updated(ctx, u, 6)
		w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(u.Status.CurrentRevision).To(Equal(u.Status.UpdatedRevision))
		})
		second := refresh(ctx, u).Status.CurrentRevision

		By("releasing to one pod, as explain says it")
		w.because(ctx, u, "ticket 3")
		w.setPartitions(ctx, u, `{east: "100%", west: "100%"}`)
		w.setImage(ctx, u, v3)
		w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(u.Status.ObservedGeneration).To(Equal(u.Generation))
			g.Expect(u.Status.UpdatedRevision).NotTo(Equal(second))
			g.Expect(subsetOf(u, "east").State).To(Equal("Held"))
		})
		text := verb("explain", "--subset", "east")
		Expect(text).To(ContainSubstring("east on east is Held"))
		Expect(text).NotTo(ContainSubstring("west on west"))
		before := map[string]map[types.UID]int32{"east": starts(ctx, "east", ns), "west": starts(ctx, "west", ns)}
		seen := lookout(ctx, w.at["east"], ns)
		w.setPartitions(ctx, u, `{east: 2, west: "100%"}`)
		w.updated(ctx, u, 1)
		have(ctx, "east", ns, map[string]int{v2: 2, v3: 1})
		third := refresh(ctx, u).Status.UpdatedRevision

		listed := verb("history")
		Expect(listed).To(line("3", "spec", "east", "app="+v3, "ticket 3"))
		Expect(listed).To(line("2", "completed", "west", "app="+v2, "ticket 2"))
		Expect(listed).To(line("1", "-", "app="+v1))
		Expect(verb("history", "--revision", "1")).To(ContainSubstring("image: " + v1))

		By("seeing first, then going back to the completed one: no release, and one pod moves")
		Expect(verb("undo", "--dry-run")).To(And(ContainSubstring("would go back to revision 2"), ContainSubstring(v3+" -> "+v2), ContainSubstring("no release")))
		Expect(refresh(ctx, u).Status.UpdatedRevision).To(Equal(third))
		Expect(verb("undo")).To(ContainSubstring("went back to revision 2"))
		w.updated(ctx, u, 6)
		w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(u.Status.UpdatedRevision).To(Equal(second))
			g.Expect(u.Status.CurrentRevision).To(Equal(second))
			g.Expect(*u.Spec.UpdateStrategy.ManualUpdate).To(HaveField("Partitions", HaveLen(2)), "an undo leaves the partitions")
		})
		have(ctx, "east", ns, map[string]int{v2: 3})
		Expect(differ(before["east"], starts(ctx, "east", ns))).To(Equal(1), "the pod that had moved, in place")
		Expect(starts(ctx, "east", ns)).To(HaveLen(3))
		Expect(starts(ctx, "west", ns)).To(Equal(before["west"]))
		Expect(seen.of(v3)).To(Equal(1))
		Expect(seen.of(v1)).To(BeZero())

		By("going to an older one from the middle of another release: it is a release, and partitions hold it")
		w.setPartitions(ctx, u, `{east: "100%", west: "100%"}`)
		w.setImage(ctx, u, "app:v4")
		w.setPartitions(ctx, u, `{east: 2, west: "100%"}`)
		w.updated(ctx, u, 1)
		Expect(verb("undo", "--to-revision", "1")).To(And(ContainSubstring("went back to revision 1"), ContainSubstring("is a release"), ContainSubstring("west keeps 100% back")))
		w.updated(ctx, u, 1)
		w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(u.Status.CurrentRevision).To(Equal(second))
			g.Expect(u.Status.Release.Grants["east"]).To(BeEquivalentTo(1))
			g.Expect(u.Status.Release.Grants["west"]).To(BeZero())
		})
		Expect(images(ctx, "east", ns)).To(HaveKeyWithValue(v1, 1))
		Expect(seen.of(v1)).To(Equal(1), "never more than was granted")
		Expect(starts(ctx, "west", ns)).To(Equal(before["west"]))

		By("trimming all but what is in use")
		w.patch(ctx, u, `{"spec":{"revisionHistoryLimit":0}}`)
		soon(ctx, func(g Gomega) {
			first := refresh(ctx, u).Status.UpdatedRevision
			kept := w.revisions(ctx, g, u)
			g.Expect(kept).To(ContainElements(first, second))
			g.Expect(kept).NotTo(ContainElement(third))
		})

		By("letting it go on by the command that explain names")
		w.runNext(ctx, u)
		w.updated(ctx, u, 3)
		w.setPartitions(ctx, u, `{east: 0, west: 0}`)
		w.updated(ctx, u, 6)
		have(ctx, "west", ns, map[string]int{v1: 3})
		soon(ctx, func(g Gomega) {
			now := refresh(ctx, u).Status
			g.Expect(now.CurrentRevision).To(Equal(now.UpdatedRevision))
			g.Expect(w.revisions(ctx, g, u)).To(Equal([]string{now.CurrentRevision}))
		})
		Expect(verb("history")).To(line("spec, completed", "east, west", "app="+v1))
	})

	It("brings back what templates of subsets override, by their selectors", func(ctx context.Context) {
		w, ns := shared, shared.namespace(ctx)
		w.label(ctx, "east", ns, true)
		DeferCleanup(func(ctx context.Context) { w.label(ctx, "east", ns, false) })
		u := parse(fiveLines(ns, 2))
		mirror := func(image string) string {
			return fmt.Sprintf(`{"clusterSelector":{"matchLabels":{%q:"x"}},"patch":{"spec":{"containers":[{"name":"app","image":%q}]}}}`, tier(ns), image)
		}
		templates := func(list ...string) string {
			out := ""
			for i, one := range list {
				if i > 0 {
					out += ","
				}
				out += one
			}
			return `{"spec":{"topology":{"subsetTemplates":[` + out + `]}}}`
		}
		Expect(json.Unmarshal([]byte(templates(mirror("mirror.test/app:1"))), u)).To(Succeed())
		Expect(w.hub.Create(ctx, u)).To(Succeed())
		w.ready(ctx, u, 2)
		have(ctx, "east", ns, map[string]int{"mirror.test/app:1": 2})

		const other = `{"clusterSelector":{"matchLabels":{"test.underway.dev/nobody":"x"}}}`
		w.patch(ctx, u, templates(other, mirror("mirror.test/app:2")))
		w.updated(ctx, u, 2)
		have(ctx, "east", ns, map[string]int{"mirror.test/app:2": 2})
		was := identities(pods(ctx, w.at["east"], ns))

		said := w.kubectl(ctx, "undo", "ud", "fleet", "-n", ns, "--to-revision", "1")
		Expect(said).To(And(ContainSubstring("template of subsets 1: patch as the revision has it"), Not(ContainSubstring("template of subsets 0"))))
		have(ctx, "east", ns, map[string]int{"mirror.test/app:1": 2})
		w.updated(ctx, u, 2)
		Expect(identities(pods(ctx, w.at["east"], ns))).To(Equal(was), "in place")
		list := refresh(ctx, u).Spec.Topology.SubsetTemplates
		Expect(list).To(HaveLen(2))
		Expect(list[0].Patch).To(BeNil())
		Expect(string(list[1].Patch.Raw)).To(ContainSubstring("mirror.test/app:1"))

		By("refusing a revision whose selector is gone")
		w.patch(ctx, u, templates(other))
		out, err := w.tryKubectl(ctx, "undo", "ud", "fleet", "-n", ns, "--to-revision", "2")
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("whose selector"))
	})
})
