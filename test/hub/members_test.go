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

// well is the member that nothing happens to, beside the one in trouble.
const well = "north"

// membersInTrouble: each part has a member in trouble, beside one that is well: the trouble has its condition, costs nothing
// elsewhere, and passes, or the condition says what a person has to do. Parts on one member run one after the other.
func (w *world) membersInTrouble() {
	type part struct {
		name string
		run  func(*world, string)
	}
	hub := w.startHub("hub", "--leader-elect=false")
	defer hub.End()
	w.isReady(members...)
	w.Run("at once", func(t *testing.T) {
		for member, parts := range map[string][]part{
			"east":  {{"B131 B133 N9 frozen", (*world).frozen}, {"slow", (*world).slow}},
			"west":  {{"CRDs removed", (*world).kindless}, {"expired", (*world).expired}},
			"south": {{"wiped and restored", (*world).wiped}, {"swapped", (*world).swapped}, {"strange", (*world).strange}},
		} {
			t.Run(member, func(t *testing.T) {
				t.Parallel()
				for _, p := range parts {
					t.Run(p.name, func(t *testing.T) {
						began := time.Now()
						p.run(w.in(t), member)
						t.Logf("took %s", time.Since(began).Round(time.Second))
					})
				}
			})
		}
	})
}

// beside is a UnitedDeployment in the well member and in one in trouble, both held.
func (w *world) beside(member string) *united {
	w.Helper()
	return w.united(fmt.Sprintf(`{%s: "100%%", %s: "100%%"}`, well, member), map[string]int{well: 3, member: 3})
}

// granted is the partitions that hold nothing.
func granted(member string) string { return fmt.Sprintf("{%s: 0, %s: 0}", well, member) }

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
	list := accepted(u.sent(well))
	if len(list) != 1 || list[0].replicas != 3 || list[0].image != v2 {
		u.Errorf("the well member got %v", list)
	}
	u.nothingDeleted(well)
}

// frozen accepts connections and never answers. Its pods fail meanwhile, which nobody can know: its numbers are kept, with
// their age, and count for nothing.
func (w *world) frozen(at string) {
	u := w.beside(at)
	w.ways[at].Freeze()
	// Nobody repairs the pods: the agent is away.
	agent := w.services["agent-"+at].Process()
	w.must(agent.Pause())
	for _, p := range w.pods(w.Context(), at, u.ns) {
		patch := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"containers":[{"name":"app","image":"app:crash"}]}}`))
		w.must(w.at[at].Patch(w.Context(), &p, patch))
	}
	began := time.Now()
	u.edit(v2, granted(at))
	u.reached(well, 3)
	w.Logf("the well member had its change after %s", time.Since(began).Round(100*time.Millisecond))
	w.conditioned(at, fleetv1alpha1.ConditionReachable, metav1.ConditionFalse)
	w.conditioned(at, fleetv1alpha1.ConditionReady, metav1.ConditionFalse, "Unreachable")
	u.stale(at, 0)
	w.Logf("its numbers were marked after %s", time.Since(began).Round(time.Second))
	obj := u.get(w.Context())
	for _, c := range obj.Status.Conditions {
		if c.Type == appsv1alpha1.ConditionStale && !strings.Contains(c.Message, at) {
			w.Errorf("%+v", c)
		}
	}
	u.unfinished()
	u.once()

	w.must(agent.Resume())
	w.must(w.ways[at].Mend())
	u.settled(v2)
	u.once()
	u.nothingDeleted(at)
	w.isReady(at)
}

// slow takes a second for every call.
func (w *world) slow(at string) {
	u := w.beside(at)
	w.ways[at].Disturb(lab.SlowCalls(time.Second))
	began := time.Now()
	u.edit(v2, granted(at))
	u.reached(well, 3)
	w.Logf("the well member had its change after %s", time.Since(began).Round(100*time.Millisecond))
	u.settled(v2)
	w.Logf("the slow one after %s", time.Since(began).Round(100*time.Millisecond))
	u.once()
	u.writtenOnce(at, 1)
	w.isReady(at) // slow is not unreachable
	w.ways[at].Disturb(nil)
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
func (w *world) expired(at string) {
	u := w.beside(at)
	path, err := w.ways[at].KubeconfigFor(hubUser, []string{"system:serviceaccounts", "system:authenticated"}, 20*time.Second)
	w.must(err)
	raw, err := os.ReadFile(path)
	w.must(err)
	w.credential(at, func([]byte) []byte { return raw })
	w.conditioned(at, fleetv1alpha1.ConditionReady, metav1.ConditionFalse, "kubectl underway join "+at, "--upgrade")
	u.edit(v2, granted(at))
	u.reached(well, 3)
	u.stale(at, 0)
	u.unfinished()
	u.untouched(at)

	admin, err := w.ways[at].KubeconfigFor("an-administrator", []string{"system:masters"}, time.Hour)
	w.must(err)
	w.kubectl("join", at, "--kubeconfig", admin, "--upgrade", "--all-namespaces", "--no-agent")
	w.isReady(at)
	u.settled(v2)
	u.once()
	u.nothingDeleted(at)
}

// kindless loses its CRDs and with them its children, while it is held: what comes back is the completed template, and what
// was never granted is seen by nobody.
func (w *world) kindless(at string) {
	u := w.beside(at)
	u.edit(v2, fmt.Sprintf(`{%s: 0, %s: "100%%"}`, well, at))
	u.reached(well, 3)
	seen := w.lookout(at, u.ns)
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "clonesets.apps.kruise.io"}}
	w.must(w.at[at].Delete(w.Context(), crd))
	w.eventually("the subset says so", func(ctx context.Context) string {
		s := subset(u.get(ctx), at)
		if strings.Contains(s.Message, "kubectl underway join "+at+" --upgrade") {
			return ""
		}
		return fmt.Sprintf("%+v", s)
	})
	w.Logf("while the CRD is away: %s", subset(u.get(w.Context()), at).Message)
	u.unfinished()
	admin, err := w.ways[at].KubeconfigFor("an-administrator", []string{"system:masters"}, time.Hour)
	w.must(err)
	w.kubectl("join", at, "--kubeconfig", admin, "--upgrade", "--all-namespaces", "--no-agent")
	w.eventually("it is back on the old template", func(ctx context.Context) string {
		var list appsv1alpha1.CloneSetList
		if err := w.at[at].List(ctx, &list, client.InNamespace(u.ns)); err != nil {
			return err.Error()
		}
		if len(list.Items) == 1 && list.Items[0].Status.ReadyReplicas == 3 && u.running(ctx, at, u.ns, v1) == 3 {
			return ""
		}
		return fmt.Sprintf("%d children, %s", len(list.Items), subset(u.get(ctx), at).Message)
	})
	if n := seen.of(v2); n > 0 {
		w.Errorf("%d pods of the held member ran what was never granted", n)
	}
	u.edit(v2, granted(at))
	u.settled(v2)
	if list := accepted(u.sent(well)); len(list) != 1 {
		w.Errorf("the well member got %v", list)
	}
	u.nothingDeleted(well)
}

// wiped loses its data, and gets a backup of before the release back.
func (w *world) wiped(at string) {
	u := w.beside(at)
	backup, err := w.lab.Member(at).Backup(w.Context())
	w.must(err)
	w.isReady(at)
	u.edit(v2, granted(at))
	u.settled(v2)
	u.once()

	w.must(w.lab.Member(at).Wipe(w.Context()))
	u.mark()
	w.conditioned(at, fleetv1alpha1.ConditionReady, metav1.ConditionFalse, "kubectl underway join "+at)
	u.stale(at, 3)
	if got := u.writes(at); len(got) > 0 {
		w.Errorf("an empty cluster got %v", got)
	}
	w.must(w.lab.Member(at).Restore(w.Context(), backup))
	w.isReady(at)
	u.settled(v2) // once more, over the old state
	u.untouched(well)
	u.nothingDeleted(well, at)
}

// swapped answers as another cluster of the fleet, by a mistake with the credential: nothing is written, and one cluster is
// never two members, whatever a person confirms.
func (w *world) swapped(at string) {
	u := w.beside(at)
	w.must(w.ways[well].Mend())
	path, err := w.ways[well].KubeconfigFor("also-well", []string{"system:masters"}, time.Hour)
	w.must(err)
	raw, err := os.ReadFile(path)
	w.must(err)
	own := w.credential(at, func([]byte) []byte { return raw })
	w.conditioned(at, fleetv1alpha1.ConditionIdentityChanged, metav1.ConditionTrue, "kubectl underway confirm cluster "+at)
	u.edit(v2, granted(at))
	u.reached(well, 3)
	u.stale(at, 0)
	w.kubectl("confirm", "cluster", at, "--yes")
	w.conditioned(at, fleetv1alpha1.ConditionReady, metav1.ConditionFalse, "IdentityTaken", well)
	time.Sleep(5 * time.Second)
	events, err := w.lab.Member(well).Since(u.marks[well], lab.Writes, lab.ByUser("also-well"), func(e lab.AuditEvent) bool {
		return !strings.HasPrefix(e.ObjectRef.Resource, "selfsubject")
	})
	w.must(err)
	for _, e := range events {
		w.Errorf("written with the other member's credential: %s %s %s/%s", e.Verb, e.Resource(), e.ObjectRef.Namespace, e.ObjectRef.Name)
	}
	u.once()
	u.untouched(at)

	w.credential(at, func([]byte) []byte { return own })
	w.conditioned(at, fleetv1alpha1.ConditionIdentityChanged, metav1.ConditionTrue, "kubectl underway confirm cluster "+at)
	w.kubectl("confirm", "cluster", at, "--yes")
	w.isReady(at)
	u.settled(v2)
	u.once()
	u.nothingDeleted(well, at)
}

// strange is another cluster under the member's address, with a certificate of its own: it gets no credential, and a person
// is told what the matter is.
func (w *world) strange(at string) {
	u := w.beside(at)
	link, err := w.lab.Member(at).Link()
	w.must(err)
	defer link.Close()
	own := w.credential(at, func(raw []byte) []byte {
		return bytes.ReplaceAll(raw, []byte(w.ways[at].Server()), []byte(link.Server()))
	})
	// It reconnects, or finds the other cluster at once: both say the same of it.
	w.isReady(at)
	link.Point(w.lab.Member(well))
	w.conditioned(at, fleetv1alpha1.ConditionReady, metav1.ConditionFalse, "certificate", "kubectl underway join "+at)
	u.edit(v2, granted(at))
	u.reached(well, 3)
	u.stale(at, 0)
	u.unfinished()
	u.untouched(at)
	link.Point(w.lab.Member(at))
	u.settled(v2)
	u.once()
	w.credential(at, func([]byte) []byte { return own })
}
