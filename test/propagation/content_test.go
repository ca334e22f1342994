//go:build lab

package propagation

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
	"github.com/underway-dev/underway/test/lab"
)

// contents are one object of each kind that templates name, as a hub reads them, at a version.
func contents(ns string, version int64) map[string]string {
	meta := fmt.Sprintf(`"metadata": {"name": "it", "namespace": %q, "uid": "hub-uid", "resourceVersion": "%d", "labels": {"team": "a"},
		"annotations": {"note": "kept", "kubectl.kubernetes.io/last-applied-configuration": "{}"}, "ownerReferences": [{"uid": "x"}]}`, ns, version)
	return map[string]string{
		content.KindConfigMap:      `{"apiVersion": "v1", "kind": "ConfigMap", ` + meta + fmt.Sprintf(`, "data": {"version": "%d", "other": "x"}}`, version),
		content.KindSecret:         `{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", ` + meta + fmt.Sprintf(`, "data": {"k": %q}}`, base64.StdEncoding.EncodeToString(fmt.Append(nil, version))),
		content.KindServiceAccount: `{"apiVersion": "v1", "kind": "ServiceAccount", ` + meta + `, "imagePullSecrets": [{"name": "pull"}], "secrets": [{"name": "token"}]}`,
		content.KindClaim: `{"apiVersion": "v1", "kind": "PersistentVolumeClaim", ` + meta + `, "spec": {"accessModes": ["ReadWriteOnce"],
			"storageClassName": "none", "volumeMode": "Filesystem", "volumeName": "pv-of-the-hub", "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Bound"}}`,
	}
}

// contentItems want all of it on alpha for an owner.
func contentItems(t *testing.T, ns, owner string, version int64) map[string]outbox.Item {
	t.Helper()
	out := map[string]outbox.Item{}
	for kind, raw := range contents(ns, version) {
		obj := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(raw), &obj.Object); err != nil {
			t.Fatal(err)
		}
		prepared, why := content.Prepare(obj)
		if why != "" {
			t.Fatal(why)
		}
		k, _ := content.KindNamed(kind)
		out[kind] = outbox.Item{
			Member: "alpha", Want: changeset.WantApplied, Shared: true, Kind: k, Object: prepared, EnsureNamespace: true,
			Owner: types.NamespacedName{Namespace: ns, Name: owner}, Intent: render.Intent{Term: 1, OwnerUID: types.UID(owner)},
			Source:      render.Intent{Term: 1, OwnerUID: "hub-uid", Generation: version},
			Gone:        func(context.Context, []string) ([]string, error) { return nil, nil },
			StillWanted: func(context.Context) (bool, error) { return true, nil },
		}
	}
	return out
}

// post posts all and waits until each is done, marked for exactly these.
func (h *hub) post(t *testing.T, items map[string]outbox.Item, marked ...string) {
	t.Helper()
	for _, i := range items {
		h.box.Post(i)
	}
	for kind, i := range items {
		eventually(t, kind+" is there", func() (bool, string) {
			got, _ := h.box.Outcome(i.Key())
			return got.State == outbox.StateDone && slices.Equal(got.Marked, marked), fmt.Sprintf("%+v", got)
		})
	}
}

func contentRequests(t *testing.T, ns string, since lab.Mark, filters ...lab.AuditFilter) []string {
	t.Helper()
	out := requests(t, "alpha", ns, since, append(filters, lab.Writes)...)
	slices.Sort(out)
	return out
}

// TestContent has the four kinds come, change, drift and go on a real API server, with two owners and a restart.
func TestContent(t *testing.T) {
	t.Parallel()
	const ns = "content"
	h := startHub(t, "5500000000000c01", "one")
	h.join(t, "alpha")
	admin := kube(t, "alpha").CoreV1()
	h.post(t, contentItems(t, ns, "a", 1), "a")

	secret, err := admin.Secrets(ns).Get(t.Context(), "it", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"note": "kept", appsv1alpha1.AnnotationOwnerPrefix + "a": "", appsv1alpha1.AnnotationIntent: "1/hub-uid/1/0"}
	if diff := cmp.Diff(want, secret.Annotations); diff != "" || secret.Labels["team"] != "a" || len(secret.OwnerReferences) > 0 {
		t.Errorf("Secret %v (-want +got):\n%s", secret.ObjectMeta, diff)
	}
	claim, err := admin.PersistentVolumeClaims(ns).Get(t.Context(), "it", metav1.GetOptions{})
	if err != nil || claim.Spec.VolumeName != "" {
		t.Errorf("claim of volume %q: %v", claim.Spec.VolumeName, err)
	}
	account, err := admin.ServiceAccounts(ns).Get(t.Context(), "it", metav1.GetOptions{})
	if err != nil || len(account.Secrets) > 0 || len(account.ImagePullSecrets) != 1 {
		t.Errorf("account %v: %v", account, err)
	}

	// A restart writes nothing.
	h.stop()
	since := mark(t, "alpha")
	h = startHub(t, "5500000000000c01", "two")
	view := config2("alpha", identityOf(t, "alpha"))
	h.members.Ensure("alpha", view)
	h.post(t, contentItems(t, ns, "a", 1), "a")
	time.Sleep(time.Second)
	if got := contentRequests(t, ns, since); len(got) > 0 {
		t.Errorf("a restart wrote %v", got)
	}

	// A change is one request each; a claim that exists is left alone.
	since = mark(t, "alpha")
	h.post(t, contentItems(t, ns, "a", 2), "a")
	eventually(t, "both are sent", func() (bool, string) {
		got := contentRequests(t, ns, since)
		return len(got) >= 2, fmt.Sprint(got)
	})
	time.Sleep(time.Second)
	if diff := cmp.Diff([]string{"patch configmaps 200", "patch secrets 200"}, contentRequests(t, ns, since)); diff != "" {
		t.Errorf("requests of a change (-want +got):\n%s", diff)
	}
}

// TestContentDrift: fields of ours are taken back at once, with who wrote them; what others added stays; what somebody
// deleted comes back.
func TestContentDrift(t *testing.T) {
	t.Parallel()
	const ns = "content-drift"
	h := startHub(t, "5500000000000c02", "one")
	h.join(t, "alpha")
	admin := kube(t, "alpha").CoreV1().ConfigMaps(ns)
	items := contentItems(t, ns, "a", 1)
	h.post(t, items, "a")
	patch := []byte(`{"data": {"version": "hacked", "theirs": "x"}}`)
	if _, err := admin.Patch(t.Context(), "it", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "taken back", func() (bool, string) {
		cm, err := admin.Get(t.Context(), "it", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return cm.Data["version"] == "1" && cm.Data["theirs"] == "x", fmt.Sprint(cm.Data)
	})
	eventually(t, "who edited it is named", func() (bool, string) { // the outcome may be that of the first apply for a moment
		got, _ := h.box.Outcome(items[content.KindConfigMap].Key())
		return cmp.Equal([]outbox.Taken{{Field: "data.version", Manager: "somebody"}}, got.TookBack), fmt.Sprintf("%+v", got)
	})
	if err := admin.Delete(t.Context(), "it", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "made again", func() (bool, string) {
		cm, err := admin.Get(t.Context(), "it", metav1.GetOptions{})
		return err == nil && cm.Data["version"] == "1", fmt.Sprint(err)
	})
}

// TestContentOfTwoOwners: one holds, one leaves, the last one goes. Claims stay, let go.
func TestContentOfTwoOwners(t *testing.T) {
	t.Parallel()
	const ns = "content-owners"
	h := startHub(t, "5500000000000c03", "one")
	h.join(t, "alpha")
	admin := kube(t, "alpha").CoreV1()
	h.post(t, contentItems(t, ns, "a", 1), "a")
	holds := contentItems(t, ns, "b", 2)
	for kind, i := range holds {
		i.Hold = true
		holds[kind] = i
	}
	h.post(t, holds, "a", "b")
	cm, err := admin.ConfigMaps(ns).Get(t.Context(), "it", metav1.GetOptions{})
	if err != nil || cm.Data["version"] != "1" || cm.Annotations["note"] != "kept" {
		t.Fatalf("held content is %v: %v", cm, err)
	}
	h.post(t, contentItems(t, ns, "a", 2), "a", "b")
	eventually(t, "who holds it is named", func() (bool, string) {
		got, _ := h.box.Outcome(holds[content.KindConfigMap].Key())
		return got.State == outbox.StateDone && slices.Equal(got.HeldBy, []string{ns + "/b"}), fmt.Sprintf("%+v", got)
	})
	// Both are marked already, so that is no proof that this was carried out.
	h.post(t, contentItems(t, ns, "b", 2), "a", "b")
	eventually(t, "the content is released", func() (bool, string) {
		cm, err := admin.ConfigMaps(ns).Get(t.Context(), "it", metav1.GetOptions{})
		return err == nil && cm.Data["version"] == "2", fmt.Sprint(cm, err)
	})

	leave := func(owner string, marked ...string) {
		items := contentItems(t, ns, owner, 2)
		for kind, i := range items {
			i.Want = changeset.WantDeleted
			items[kind] = i
		}
		h.post(t, items, marked...)
		for _, i := range items {
			h.box.WithdrawShare(i.Key(), types.UID(owner))
		}
	}
	leave("a", "b")
	leave("b")
	for kind, err := range map[string]error{
		"ConfigMap": second(admin.ConfigMaps(ns).Get(t.Context(), "it", metav1.GetOptions{})),
		"Secret":    second(admin.Secrets(ns).Get(t.Context(), "it", metav1.GetOptions{})),
		"account":   second(admin.ServiceAccounts(ns).Get(t.Context(), "it", metav1.GetOptions{})),
	} {
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s is still there: %v", kind, err)
		}
	}
	claim, err := admin.PersistentVolumeClaims(ns).Get(t.Context(), "it", metav1.GetOptions{})
	if err != nil || claim.Annotations[appsv1alpha1.AnnotationOrphaned] == "" || len(content.Marks(claim.Annotations)) > 0 {
		t.Errorf("the claim is %v: %v", claim, err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestForeignContent: an object of that name that is not ours stays; with adopt Any it is taken over.
func TestForeignContent(t *testing.T) {
	t.Parallel()
	const ns = "content-foreign"
	h := startHub(t, "5500000000000c04", "one")
	h.join(t, "alpha")
	makeNamespace(t, "alpha", ns)
	admin := kube(t, "alpha").CoreV1().ConfigMaps(ns)
	theirs, err := admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "it"}, Data: map[string]string{"version": "theirs", "more": "x"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i := contentItems(t, ns, "a", 1)[content.KindConfigMap]
	h.box.Post(i)
	got := h.settle(t, i, outbox.StateConflict)
	if !strings.Contains(got.Message, "data.version") {
		t.Errorf("the message does not say what would change: %q", got.Message)
	}
	if now, err := admin.Get(t.Context(), "it", metav1.GetOptions{}); err != nil || now.ResourceVersion != theirs.ResourceVersion {
		t.Fatalf("it was written: %v %v", now, err)
	}
	i.Adopt = appsv1alpha1.AdoptAny
	h.post(t, map[string]outbox.Item{"": i}, "a")
	now, err := admin.Get(t.Context(), "it", metav1.GetOptions{})
	if err != nil || now.UID != theirs.UID || now.Data["version"] != "1" || now.Data["more"] != "x" {
		t.Errorf("adopted: %v %v", now, err)
	}
}

func identityOf(t *testing.T, member string) string {
	t.Helper()
	ns, err := kube(t, member).CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(ns.UID)
}
