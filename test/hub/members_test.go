//go:build lab

package hub

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

// TestMembers: each part has a member of its own in trouble, beside one that is well: the trouble has its condition, costs
// nothing elsewhere, and passes, or the condition says what a person has to do.
func TestMembers(t *testing.T) {
	w := newWorld(t, "well", "frozen", "slow", "expired", "kindless", "wiped", "swapped")
	w.startHub("hub", "--leader-elect=false")
	w.isReady("well", "frozen", "slow", "expired", "kindless", "wiped", "swapped")
	for name, part := range map[string]func(*world){
		"B131 B133 N9 frozen": (*world).frozen,
		"slow":                (*world).slow,
		"expired":             (*world).expired,
		"CRDs removed":        (*world).kindless,
		"wiped and restored":  (*world).wiped,
		"swapped, strange":    func(w *world) { w.swapped(); w.strange() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			part(w.in(t))
			t.Logf("took %s", time.Since(began).Round(time.Second))
		})
	}
}

// beside is a UnitedDeployment in the well member and in one in trouble, both held.
func (w *world) beside(member string) *united {
	w.Helper()
	return w.united(fmt.Sprintf(`{well: "100%%", %s: "100%%"}`, member), map[string]int{"well": 3, member: 3})
}

// granted is the partitions that hold nothing.
func granted(member string) string { return fmt.Sprintf("{well: 0, %s: 0}", member) }

// stale waits until the last known numbers of a member are marked so.
func (u *united) stale(member string, updated int) {
	u.Helper()
	u.eventually(member+" is stale", func(ctx context.Context) string {
		obj := u.get(ctx)
		s := subset(obj, member)
		if s.Stale && s.HeardAt != nil && s.Replicas == 3 && int(s.UpdatedReplicas) == updated && obj.Status.Replicas == 6 {
			return ""
		}
		return fmt.Sprintf("%+v", s)
	})
}

// unfinished fails when the release counts as ended.
func (u *united) unfinished() {
	u.Helper()
	obj := u.get(u.Context())
	if obj.Status.CurrentRevision == obj.Status.UpdatedRevision {
		u.Errorf("the release counts as ended: %+v", obj.Status)
	}
}

// once fails unless the well member got exactly the one change, with the replicas that it had.
func (u *united) once() {
	u.Helper()
	list := accepted(u.sent("well"))
	if len(list) != 1 || list[0].replicas != 3 || list[0].image != v2 {
		u.Errorf("the well member got %v", list)
	}
	u.nothingDeleted("well")
}

// frozen accepts connections and never answers. Its pods fail meanwhile, which nobody can know: its numbers are kept, with
// their age, and count for nothing.
func (w *world) frozen() {
	u := w.beside("frozen")
	w.ways["frozen"].Freeze()
	// Nobody repairs the pods: the agent is away.
	agent := w.services["agent-frozen"].Process()
	w.must(agent.Pause())
	for _, p := range w.pods(w.Context(), "frozen", u.ns) {
		patch := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"containers":[{"name":"app","image":"app:crash"}]}}`))
		w.must(w.at["frozen"].Patch(w.Context(), &p, patch))
	}
	began := time.Now()
	u.edit(v2, granted("frozen"))
	u.reached("well", 3)
	w.Logf("the well member had its change after %s", time.Since(began).Round(100*time.Millisecond))
	w.conditioned("frozen", fleetv1alpha1.ConditionReachable, metav1.ConditionFalse)
	w.conditioned("frozen", fleetv1alpha1.ConditionReady, metav1.ConditionFalse, "Unreachable")
	u.stale("frozen", 0)
	w.Logf("its numbers were marked after %s", time.Since(began).Round(time.Second))
	obj := u.get(w.Context())
	for _, c := range obj.Status.Conditions {
		if c.Type == appsv1alpha1.ConditionStale && !strings.Contains(c.Message, "frozen") {
			w.Errorf("%+v", c)
		}
	}
	u.unfinished()
	u.once()

	w.must(agent.Resume())
	w.must(w.ways["frozen"].Mend())
	u.settled(v2)
	u.once()
	u.nothingDeleted("frozen")
	w.isReady("frozen")
}

// slow takes a second for every call.
func (w *world) slow() {
	u := w.beside("slow")
	w.ways["slow"].Disturb(lab.SlowCalls(time.Second))
	began := time.Now()
	u.edit(v2, granted("slow"))
	u.reached("well", 3)
	w.Logf("the well member had its change after %s", time.Since(began).Round(100*time.Millisecond))
	u.settled(v2)
	w.Logf("the slow one after %s", time.Since(began).Round(100*time.Millisecond))
	u.once()
	u.writtenOnce("slow", 1)
	w.isReady("slow") // slow is not unreachable
	w.ways["slow"].Disturb(nil)
}

// credential edits what the hub has of a member, and returns what it had.
func (w *world) credential(member string, edit func([]byte) []byte) []byte {
	w.Helper()
	mc := &fleetv1alpha1.MemberCluster{}
	w.must(w.hub.Get(w.Context(), types.NamespacedName{Name: member}, mc))
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: appsv1alpha1.SystemNamespace, Name: mc.Spec.KubeconfigSecretRef.Name}
	w.must(w.hub.Get(w.Context(), key, secret))
	old := secret.Data["kubeconfig"]
	if len(old) == 0 {
		w.Fatalf("Secret %s has no kubeconfig", key)
	}
	secret.Data["kubeconfig"] = edit(old)
	w.must(w.hub.Update(w.Context(), secret))
	return old
}

// expired has a credential that ends in mid-release, and is renewed by the command that its condition names.
func (w *world) expired() {
	u := w.beside("expired")
	path, err := w.ways["expired"].KubeconfigFor(hubUser, []string{"system:serviceaccounts", "system:authenticated"}, 20*time.Second)
	w.must(err)
	raw, err := os.ReadFile(path)
	w.must(err)
	w.credential("expired", func([]byte) []byte { return raw })
	w.conditioned("expired", fleetv1alpha1.ConditionReady, metav1.ConditionFalse, "kubectl underway join expired", "--upgrade")
	u.edit(v2, granted("expired"))
	u.reached("well", 3)
	u.stale("expired", 0)
	u.unfinished()
	u.untouched("expired")

	admin, err := w.ways["expired"].KubeconfigFor("an-administrator", []string{"system:masters"}, time.Hour)
	w.must(err)
	w.kubectl("join", "expired", "--kubeconfig", admin, "--upgrade", "--all-namespaces", "--no-agent")
	w.isReady("expired")
	u.settled(v2)
	u.once()
	u.nothingDeleted("expired")
}

// kindless loses its CRDs and with them its children, while it is held: what comes back is the completed template, and what
// was never granted is seen by nobody.
func (w *world) kindless() {
	u := w.beside("kindless")
	u.edit(v2, `{well: 0, kindless: "100%"}`)
	u.reached("well", 3)
	seen := w.lookout("kindless", u.ns)
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "clonesets.apps.kruise.io"}}
	w.must(w.at["kindless"].Delete(w.Context(), crd))
	w.eventually("the subset says so", func(ctx context.Context) string {
		s := subset(u.get(ctx), "kindless")
		if strings.Contains(s.Message, "kubectl underway join kindless --upgrade") {
			return ""
		}
		return fmt.Sprintf("%+v", s)
	})
	w.Logf("while the CRD is away: %s", subset(u.get(w.Context()), "kindless").Message)
	u.unfinished()
	admin, err := w.ways["kindless"].KubeconfigFor("an-administrator", []string{"system:masters"}, time.Hour)
	w.must(err)
	w.kubectl("join", "kindless", "--kubeconfig", admin, "--upgrade", "--all-namespaces", "--no-agent")
	w.eventually("it is back on the old template", func(ctx context.Context) string {
		var list appsv1alpha1.CloneSetList
		if err := w.at["kindless"].List(ctx, &list, client.InNamespace(u.ns)); err != nil {
			return err.Error()
		}
		if len(list.Items) == 1 && list.Items[0].Status.ReadyReplicas == 3 && u.running(ctx, "kindless", u.ns, v1) == 3 {
			return ""
		}
		return fmt.Sprintf("%d children, %s", len(list.Items), subset(u.get(ctx), "kindless").Message)
	})
	if n := seen.of(v2); n > 0 {
		w.Errorf("%d pods of the held member ran what was never granted", n)
	}
	u.edit(v2, granted("kindless"))
	u.settled(v2)
	if list := accepted(u.sent("well")); len(list) != 1 {
		w.Errorf("the well member got %v", list)
	}
	u.nothingDeleted("well")
}

// wiped loses its data, and gets a backup of before the release back.
func (w *world) wiped() {
	u := w.beside("wiped")
	backup, err := w.lab.Member("wiped").Backup(w.Context())
	w.must(err)
	w.isReady("wiped")
	u.edit(v2, granted("wiped"))
	u.settled(v2)
	u.once()

	w.must(w.lab.Member("wiped").Wipe(w.Context()))
	u.mark()
	w.conditioned("wiped", fleetv1alpha1.ConditionReady, metav1.ConditionFalse, "kubectl underway join wiped")
	u.stale("wiped", 3)
	if got := u.writes("wiped"); len(got) > 0 {
		w.Errorf("an empty cluster got %v", got)
	}
	w.must(w.lab.Member("wiped").Restore(w.Context(), backup))
	w.isReady("wiped")
	u.settled(v2) // once more, over the old state
	u.untouched("well")
	u.nothingDeleted("well", "wiped")
}

// swapped answers as another cluster of the fleet, by a mistake with the credential: nothing is written, and one cluster is
// never two members, whatever a person confirms.
func (w *world) swapped() {
	u := w.beside("swapped")
	w.must(w.ways["well"].Mend())
	path, err := w.ways["well"].KubeconfigFor("also-well", []string{"system:masters"}, time.Hour)
	w.must(err)
	raw, err := os.ReadFile(path)
	w.must(err)
	own := w.credential("swapped", func([]byte) []byte { return raw })
	w.conditioned("swapped", fleetv1alpha1.ConditionIdentityChanged, metav1.ConditionTrue, "kubectl underway confirm cluster swapped")
	u.edit(v2, granted("swapped"))
	u.reached("well", 3)
	u.stale("swapped", 0)
	w.kubectl("confirm", "cluster", "swapped", "--yes")
	w.conditioned("swapped", fleetv1alpha1.ConditionReady, metav1.ConditionFalse, "IdentityTaken", "well")
	time.Sleep(5 * time.Second)
	events, err := w.lab.Member("well").Since(u.marks["well"], lab.Writes, lab.ByUser("also-well"), func(e lab.AuditEvent) bool {
		return !strings.HasPrefix(e.ObjectRef.Resource, "selfsubject")
	})
	w.must(err)
	for _, e := range events {
		w.Errorf("written with the other member's credential: %s %s %s/%s", e.Verb, e.Resource(), e.ObjectRef.Namespace, e.ObjectRef.Name)
	}
	u.once()
	u.untouched("swapped")

	w.credential("swapped", func([]byte) []byte { return own })
	w.conditioned("swapped", fleetv1alpha1.ConditionIdentityChanged, metav1.ConditionTrue, "kubectl underway confirm cluster swapped")
	w.kubectl("confirm", "cluster", "swapped", "--yes")
	w.isReady("swapped")
	u.settled(v2)
	u.once()
	u.nothingDeleted("well", "swapped")
}

// strange is another cluster under the member's address, with a certificate of its own: it gets no credential, and a person
// is told what the matter is.
func (w *world) strange() {
	u := w.beside("swapped")
	link, err := w.lab.Member("swapped").Link()
	w.must(err)
	defer link.Close()
	own := w.credential("swapped", func(raw []byte) []byte {
		return bytes.ReplaceAll(raw, []byte(w.ways["swapped"].Server()), []byte(link.Server()))
	})
	// It reconnects, or finds the other cluster at once: both say the same of it.
	w.isReady("swapped")
	link.Point(w.lab.Member("well"))
	w.conditioned("swapped", fleetv1alpha1.ConditionReady, metav1.ConditionFalse, "certificate", "kubectl underway join swapped")
	u.edit(v2, granted("swapped"))
	u.reached("well", 3)
	u.stale("swapped", 0)
	u.unfinished()
	u.untouched("swapped")
	link.Point(w.lab.Member("swapped"))
	u.settled(v2)
	u.once()
	w.credential("swapped", func([]byte) []byte { return own })
}
