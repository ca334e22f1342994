//go:build lab

package member

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/config"
	"github.com/underway-dev/underway/inplace"
	agent "github.com/underway-dev/underway/member"
	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// withCRD installs our CRDs, changed by edit, on the rough cluster, and takes those away that are there.
func (p place) withCRD(edit func(*unstructured.Unstructured)) {
	p.Helper()
	p.withoutCRD()
	if err := p.InstallCRD(p.Context(), edit); err != nil {
		p.Fatal(err)
	}
}

func (p place) withoutCRD() {
	p.Helper()
	crds, err := config.MemberCRDs()
	if err != nil {
		p.Fatal(err)
	}
	for _, crd := range crds {
		if err := client.IgnoreNotFound(p.Delete(p.Context(), crd)); err != nil {
			p.Fatal(err)
		}
	}
	for _, crd := range crds {
		p.Eventually(30*time.Second, func() string {
			if err := p.Cluster.Get(p.Context(), client.ObjectKeyFromObject(crd), crd); client.IgnoreNotFound(err) == nil && err != nil {
				return ""
			}
			return "the CRD is still there"
		})
	}
}

// TestCRDComesLater: an agent without its CRD waits for it, and goes on waiting after it was taken away.
func TestCRDComesLater(t *testing.T) {
	p := onRough(t)
	p.withoutCRD()
	a := p.Agent("agent-later", "--leader-elect=false")
	time.Sleep(3 * time.Second)
	for _, name := range []string{"first", "second"} {
		p.withCRD(nil)
		p.App(name, "app:v1", `replicas: 2`)
		p.Ready(name, 2, time.Minute)
		p.withoutCRD()
	}
	if !a.Alive() {
		t.Error("the agent ended")
	}
}

// TestKill9: the agent is killed in the middle of a release; its successor ends it, and no pod restarts twice.
func TestKill9(t *testing.T) {
	p := onRough(t)
	p.withCRD(nil)
	a := p.Agent("agent-killed")
	p.App("web", "app:v1", `
replicas: 20
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 5}`)
	p.Ready("web", 20, time.Minute)
	before, r := kit.Identities(p.Pods()), p.Record()
	// So slow that the agent is killed in the middle of it on a busy machine, too.
	const slow = "app:v2-slow-start-3s"
	p.Image("web", slow)
	p.Eventually(30*time.Second, func() string {
		if n := p.On(slow); n < 4 {
			return fmt.Sprintf("%d pods are patched", n)
		}
		return ""
	})
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	if n := p.On(slow); n == 20 {
		t.Fatal("the release was over before the agent was killed")
	}
	p.Agent("agent-successor")
	// The Lease of a killed holder has to expire first.
	p.Ready("web", 20, 2*time.Minute)
	p.InPlace(before, 1)
	if seen := r.Seen(); seen.Unready > 5 || len(seen.Problems) > 0 || seen.Created+seen.Deleted > 0 {
		t.Errorf("seen %+v", seen)
	}
}

// TestIdleB037: an idle agent writes nothing but its Lease, and neither does one that starts when nothing is due, although
// the API server adds to every pod what its template leaves out.
func TestIdleB037(t *testing.T) {
	p := onRough(t)
	p.withCRD(nil)
	first := p.Agent("agent-idle")
	p.App("web", "app:v1", `
replicas: 5
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 5}`)
	p.Ready("web", 5, time.Minute)
	p.Image("web", "app:v2")
	p.Ready("web", 5, time.Minute)
	notLeases := func(e lab.AuditEvent) bool { return e.Resource() != "leases" }
	p.Quiet(3*time.Second, notLeases)
	mark := p.mark()
	quiet := func(when string) {
		t.Helper()
		events, err := p.Since(mark, lab.ByUser(kit.User), lab.Writes, notLeases)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			t.Errorf("%s: %s %s %s/%s", when, e.Verb, e.Resource(), e.ObjectRef.Namespace, e.ObjectRef.Name)
		}
	}
	time.Sleep(12 * time.Second)
	quiet("idle")
	if err := first.Stop(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	p.Agent("agent-idle-2")
	time.Sleep(12 * time.Second)
	quiet("after a restart")
	// The second is at work all the same.
	p.Merge("web", `{spec: {replicas: 6}}`)
	p.Ready("web", 6, 30*time.Second)
}

// TestB035AndB071: the agent starts anew after an upgrade by which every read of the object shows a field more, with its
// default. Half of the pods are updated. No revision is made, none is renamed, and no pod is touched.
func TestB035AndB071(t *testing.T) {
	p := onRough(t)
	p.withCRD(nil)
	first := p.Agent("agent-before")
	p.App("web", "app:v1", "replicas: 4\nupdateStrategy: {type: InPlaceIfPossible, partition: 2, maxUnavailable: 2}")
	p.Ready("web", 4, time.Minute)
	p.Image("web", "app:v2")
	before := p.Ready("web", 2, time.Minute)
	revisions := kit.Text(p.revisions())
	if err := first.Stop(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	p.upgradeCRD()
	mark := p.mark()
	p.Agent("agent-after")
	p.Eventually(30*time.Second, func() string {
		if p.leads(mark) {
			return ""
		}
		return "the agent does not lead yet"
	})
	p.During(5*time.Second, func() string {
		// By what the agent asked, not by versions: a kubelet writes the same pods.
		if calls := p.calls(mark, "pods"); len(calls) > 0 {
			return fmt.Sprintf("pods were touched: %v", calls)
		}
		if now := kit.Text(p.revisions()); now != revisions {
			return "revisions " + now + ", were " + revisions
		}
		return ""
	})
	after := p.CloneSet("web")
	if a, b := before.Status, after.Status; a.UpdateRevision != b.UpdateRevision || a.CurrentRevision != b.CurrentRevision || kit.Text(a.CollisionCount) != kit.Text(b.CollisionCount) {
		t.Errorf("status %s, was %s", kit.Text(b), kit.Text(a))
	}
	if got, _, _ := unstructured.NestedInt64(p.raw("web").Object, "spec", "fieldOfTomorrow"); got != 7 {
		t.Errorf("the new field reads as %d, so the test shows nothing", got)
	}
	// It is at work all the same.
	p.Merge("web", `{spec: {updateStrategy: {partition: 0}}}`)
	p.Ready("web", 4, time.Minute)
}

// leads says whether an agent renewed the Lease since a mark.
func (p place) leads(since lab.Mark) bool {
	p.Helper()
	events, err := p.Since(since, lab.ByUser(kit.User), lab.Writes, lab.On("leases"))
	if err != nil {
		p.Fatal(err)
	}
	return len(events) > 0
}

// upgradeCRD adds a field with a default to every version of the CRD.
func (p place) upgradeCRD() {
	p.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName("clonesets.apps.kruise.io")
	if err := p.Cluster.Get(p.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
		p.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for i := range versions {
		field := map[string]any{"type": "integer", "default": int64(7)}
		if err := unstructured.SetNestedField(versions[i].(map[string]any), field,
			"schema", "openAPIV3Schema", "properties", "spec", "properties", "fieldOfTomorrow"); err != nil {
			p.Fatal(err)
		}
	}
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		p.Fatal(err)
	}
	if err := p.Update(p.Context(), crd); err != nil {
		p.Fatal(err)
	}
	p.Eventually(20*time.Second, func() string {
		if _, has, _ := unstructured.NestedInt64(p.raw("web").Object, "spec", "fieldOfTomorrow"); !has {
			return "the new schema is not served yet"
		}
		return ""
	})
}

// raw is a CloneSet as the API server shows it.
func (p place) raw(name string) *unstructured.Unstructured {
	p.Helper()
	u := p.unstructured("apps.kruise.io/v1alpha1", "CloneSet", name)
	if err := p.Cluster.Get(p.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		p.Fatal(err)
	}
	return u
}

// TestB141: two agents that both think they lead.
func TestB141(t *testing.T) {
	p := onRough(t)
	p.withCRD(nil)
	p.Agent("agent-a", "--leader-elect=false")
	p.Agent("agent-b", "--leader-elect=false")
	p.App("web", "app:v1", `
replicas: 10
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 3}`)
	p.Ready("web", 10, time.Minute)
	if n := len(p.Pods()); n != 10 {
		t.Fatalf("%d pods", n)
	}
	before, r := kit.Identities(p.Pods()), p.Record()
	for i, image := range []string{"app:v2", "app:v3"} {
		p.Image("web", image)
		cs := p.Ready("web", 10, time.Minute)
		p.InPlace(before, int32(i)+1)
		for name, pod := range p.Pods() {
			var state inplace.State
			if err := json.Unmarshal([]byte(pod.Annotations[appsv1alpha1.AnnotationInPlaceState]), &state); err != nil {
				t.Fatal(err)
			}
			if state.Revision != cs.Status.UpdateRevision {
				t.Errorf("%s has the state of %s", name, state.Revision)
			}
		}
	}
	p.Merge("web", `{spec: {replicas: 15}}`)
	p.Ready("web", 15, time.Minute)
	p.Merge("web", `{spec: {replicas: 5}}`)
	p.Ready("web", 5, time.Minute)
	p.During(3*time.Second, func() string { return is(len(p.Pods()), 5) })
	seen := r.Settled()
	if len(seen.Problems) > 0 || seen.Created != 5 || seen.Deleted != 10 {
		t.Errorf("created %d and deleted %d pods, want 5 and 10; problems %v", seen.Created, seen.Deleted, seen.Problems)
	}
	// Each kept the budget as it had seen it; both together may exceed it only by what one had not seen of the other.
	t.Logf("at most %d pods were unready at once", seen.Unready)
}

// TestPeerActive: while OpenKruise is alive the agent writes to no object of its kinds.
func TestPeerActive(t *testing.T) {
	p := onRough(t)
	p.withCRD(nil)
	p.Agent("agent-peer")
	p.App("web", "app:v1", `replicas: 2`)
	p.Ready("web", 2, time.Minute)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kruise-system"}}
	if err := p.Create(t.Context(), ns); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-manager"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("kruise-0"), RenewTime: &metav1.MicroTime{Time: time.Now()}, LeaseDurationSeconds: ptr.To[int32](600),
		},
	}
	if err := p.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	note := func() string {
		own := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: agent.Name}
		if err := p.Cluster.Get(t.Context(), key, own); err != nil {
			t.Fatal(err)
		}
		return own.Annotations[appsv1alpha1.AnnotationPeerActive]
	}
	p.Eventually(20*time.Second, func() string {
		if got := note(); got != "kruise-0" {
			return fmt.Sprintf("our Lease names %q", got)
		}
		return ""
	})
	mark := p.Marked()
	p.Merge("web", `{spec: {replicas: 4}}`)
	time.Sleep(5 * time.Second)
	events, err := p.Since(mark, lab.ByUser(kit.User), lab.Writes, func(e lab.AuditEvent) bool { return e.ObjectRef.Namespace == p.NS })
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 0 || len(p.Pods()) != 2 {
		t.Errorf("%d writes while a peer is alive, %d pods", len(events), len(p.Pods()))
	}
	if err := p.Delete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	p.Ready("web", 4, 30*time.Second)
	p.Eventually(20*time.Second, func() string { return note() })
}

// TestForeignCRD: through a CRD without our rules and fields (OpenKruise's), a partition that cannot be read moves no pod
// and is named on the object; status.underway is not there and not tried again and again.
func TestForeignCRD(t *testing.T) {
	p := onRough(t)
	p.withCRD(func(crd *unstructured.Unstructured) {
		crd.SetLabels(nil)
		dropRules(crd.Object)
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for i := range versions {
			unstructured.RemoveNestedField(versions[i].(map[string]any), "schema", "openAPIV3Schema", "properties", "status", "properties", "underway")
		}
		if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
			t.Fatal(err)
		}
	})
	p.Agent("agent-foreign", "--leader-elect=false")
	p.App("web", "app:v1", `
replicas: 3
updateStrategy: {type: InPlaceIfPossible}`)
	p.Ready("web", 3, time.Minute)
	for _, bad := range []string{`"abc"`, `"50"`, `-1`} {
		p.Merge("web", `{spec: {updateStrategy: {partition: `+bad+`}, template: {spec: {containers: [{name: main, image: "app:v2"}]}}}}`)
		p.Eventually(10*time.Second, func() string {
			c := p.Condition("web", appsv1alpha1.ConditionInvalid)
			if c == nil || c.ObservedGeneration != p.CloneSet("web").Generation || !strings.Contains(c.Message, "spec.updateStrategy.partition") {
				return "Invalid: " + kit.Text(c)
			}
			return ""
		})
		p.During(2*time.Second, func() string { return is(p.On("app:v1"), 3) })
	}
	for _, pod := range p.Pods() {
		if err := p.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		break
	}
	p.allOn(3, "app:v1", 30*time.Second)
	p.Quiet(5*time.Second, lab.On("clonesets/status")) // a status that does not change is not written
	p.Merge("web", `{spec: {updateStrategy: {partition: 0}}}`)
	p.Ready("web", 3, time.Minute)
}

// dropRules removes what admission checks beyond types.
func dropRules(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "x-kubernetes-validations")
		delete(v, "minimum")
		delete(v, "pattern")
		delete(v, "enum")
		for _, one := range v {
			dropRules(one)
		}
	case []any:
		for _, one := range v {
			dropRules(one)
		}
	}
}
