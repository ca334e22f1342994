//go:build lab

package member

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
)

const withData = `
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  updateStrategy: {type: InPlaceIfPossible}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "app:v1", volumeMounts: [{name: data, mountPath: /data}]}]}`

// TestOrphansAreAdopted: `kubectl delete --cascade=orphan`, and the same manifest again: the pods go on, in their claims, and
// are updated in place. A pod that somebody made by hand belongs to it, too; one whose label is changed is let go.
func TestOrphansAreAdopted(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.Make(withData)
	p.Ready("web", 3, time.Minute)
	before := kit.Identities(p.Pods())
	if err := p.Delete(p.Context(), p.CloneSet("web"), client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	// The garbage collector looks for new kinds every 30 s.
	p.Eventually(90*time.Second, func() string {
		err := p.Get(p.Context(), client.ObjectKey{Namespace: p.NS, Name: "web"}, &appsv1alpha1.CloneSet{})
		if !apierrors.IsNotFound(err) {
			return fmt.Sprintf("not gone: %v", err)
		}
		return ""
	})
	p.Make(withData)
	p.Ready("web", 3, time.Minute)
	uid := p.CloneSet("web").UID
	if now := kit.Identities(p.Pods()); kit.Text(now) != kit.Text(before) {
		t.Errorf("pods %v, were %v", now, before)
	}
	if strangers := p.notOf(uid); strangers != "" {
		t.Error(strangers)
	}
	p.Image("web", "app:v2")
	p.Ready("web", 3, time.Minute)
	p.InPlace(before, 1)

	t.Run("a pod by hand", func(*testing.T) {
		p.Make(`{apiVersion: v1, kind: Pod, metadata: {name: hand, labels: {app: web}}, spec: {containers: [{name: main, image: "app:v2"}]}}`)
		p.Eventually(30*time.Second, func() string {
			if n := len(p.Pods()); n != 3 {
				return fmt.Sprintf("%d pods", n)
			}
			return is(int(p.CloneSet("web").Status.UpdatedReadyReplicas), 3)
		})
	})
	t.Run("a pod that does not match any more", func(*testing.T) {
		var name string
		for name = range p.Pods() {
			break
		}
		p.Edit(name, `{metadata: {labels: {app: debug}}}`)
		p.Eventually(30*time.Second, func() string {
			pod := p.Pods()[name]
			if pod == nil || metav1.GetControllerOf(pod) != nil {
				return kit.Text(pod)
			}
			if n := len(p.Pods()); n != 4 {
				return fmt.Sprintf("%d pods, want three and the one that was let go", n)
			}
			return is(int(p.CloneSet("web").Status.UpdatedReadyReplicas), 3)
		})
	})
}

// notOf names a pod, a claim or a revision of the namespace that the object does not control.
func (p place) notOf(uid types.UID) string {
	p.Helper()
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	var revisions appsv1.ControllerRevisionList
	for _, list := range []client.ObjectList{&pods, &claims, &revisions} {
		if err := p.List(p.Context(), list, client.InNamespace(p.NS)); err != nil {
			p.Fatal(err)
		}
	}
	var all []metav1.Object
	for i := range pods.Items {
		all = append(all, &pods.Items[i])
	}
	for i := range claims.Items {
		all = append(all, &claims.Items[i])
	}
	for i := range revisions.Items {
		all = append(all, &revisions.Items[i])
	}
	for _, it := range all {
		if owner := metav1.GetControllerOf(it); owner == nil || owner.UID != uid {
			return it.GetName() + " is not the workload's"
		}
	}
	if len(claims.Items) != len(pods.Items) || len(revisions.Items) != 1 {
		return fmt.Sprintf("%d pods, %d claims, %d revisions", len(pods.Items), len(claims.Items), len(revisions.Items))
	}
	return ""
}
