//go:build lab

package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// stateful creates a set named db of the lab's server, OrderedReady, with a claim per pod at /data on a volume of the node's
// own disk, and waits until its pods are ready. It is deleted with the test.
func (p place) stateful(replicas int) kit.Set {
	p.Helper()
	for i := range replicas {
		p.cluster(fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s-%[2]d}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: %[1]s, name: data-db-%[2]d}
  hostPath: {path: /node/volumes/%[1]s-%[2]d, type: DirectoryOrCreate}`, p.NS, i))
	}
	p.Make(fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: %d
  selector: {matchLabels: {app: db}}
  updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: "", accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
  template:
    metadata: {labels: {app: db}}
    spec:
      nodeSelector: {kubernetes.io/hostname: %s}
      terminationGracePeriodSeconds: 5
      containers:
      - {name: main, image: "%s", imagePullPolicy: Never, volumeMounts: [{name: data, mountPath: /data}],
         readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1, timeoutSeconds: 5}}`,
		replicas, p.node.Name(), lab.Image(lab.AppImage, "v1")))
	// Before its namespace, which takes pods first: they would be made anew.
	set := &appsv1alpha1.StatefulSet{}
	set.Namespace, set.Name = p.NS, "db"
	p.Cleanup(func() { _ = p.Delete(context.Background(), set) })
	s := p.Set("db")
	s.Ready(int32(replicas), patience)
	return s
}

// sandboxes are the ids of the pods' sandboxes.
func (p place) sandboxes() map[string]string {
	p.Helper()
	out := map[string]string{}
	for _, name := range p.names() {
		id, err := p.node.Sandbox(p.Context(), p.NS, name)
		if err != nil {
			p.Fatal(err)
		}
		out[name] = id
	}
	return out
}

// TestSetInPlace: a set of two with claims is moved in place by a real kubelet: the sandboxes, the addresses and what is in
// the volumes stay, and each container is replaced once, the highest ordinal first. Then a tag that does not exist breaks
// ordinal 1, which holds ordinal 0 up, and the next one brings it back with nobody's help (B075).
func TestSetInPlace(t *testing.T) {
	p := onSteady(t)
	s := p.stateful(2)
	p.mark()
	before, sandboxes, r := kit.Identities(p.Pods()), p.sandboxes(), p.Record()
	stays := func(restarts map[string]int32) {
		t.Helper()
		p.kept(before, restarts)
		p.marked()
		if diff := cmp.Diff(sandboxes, p.sandboxes()); diff != "" {
			t.Errorf("sandboxes changed (-before +after):\n%s", diff)
		}
	}
	s.Image(lab.Image(lab.AppImage, "v2"))
	s.Ready(2, patience)
	p.runs("main", lab.Image(lab.AppImage, "v2"))
	stays(map[string]int32{"main": 1})

	nowhere := lab.Image(lab.AppImage, "nosuchtag")
	s.Image(nowhere)
	p.until(patience, func(pods map[string]*corev1.Pod) string {
		pod := pods["db-1"]
		if c := statusOf(pod, "main"); imageOf(pod, "main") != nowhere || c.State.Waiting == nil {
			return "db-1 is not broken yet: " + kit.Text(c)
		}
		return ""
	})
	p.Eventually(patience, func() string {
		if u := s.Get().Status.Underway; u == nil || !strings.Contains(kit.Text(u.Broken), "db-1") {
			return "nothing says that db-1 is broken: " + kit.Text(u)
		}
		return ""
	})
	if pod := p.Pods()["db-0"]; !kit.PodReady(pod) || imageOf(pod, "main") != lab.Image(lab.AppImage, "v2") {
		t.Errorf("db-0 is touched while db-1 is broken: %s", kit.Text(pod.Status))
	}
	s.Image(lab.Image(lab.AppImage, "v3"))
	s.Ready(2, patience)
	p.runs("main", lab.Image(lab.AppImage, "v3"))
	stays(nil)
	// How often a kubelet counts db-1, which had a container without an image in between, is its own affair.
	if got := statusOf(p.Pods()["db-0"], "main").RestartCount; got != 2 {
		t.Errorf("db-0 restarted %d times, want 2", got)
	}
	seen := r.Seen()
	var order []int
	for _, name := range seen.Order {
		order = append(order, int(name[len(name)-1]-'0'))
	}
	if !slices.Equal(order, []int{1, 0, 1, 1, 0}) || seen.Held > 1 || seen.Created+seen.Deleted > 0 || len(seen.Problems) > 0 {
		t.Errorf("order %v; seen %+v", order, seen)
	}
}
