//go:build lab

package hub

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

const (
	memberName = "east"
	namespace  = "default"
	object     = `
apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: web, namespace: default}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    cloneSetTemplate:
      spec:
        template:
          metadata: {labels: {app: web}}
          spec:
            terminationGracePeriodSeconds: 1
            containers: [{name: app, image: "app:v1"}]
        updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 4}
  topology: {subsets: [{name: a, cluster: east}]}
  updateStrategy: {manualUpdate: {partitions: {a: 0}}}
`
)

// world is a hub and one member with the product on them.
type world struct {
	*testing.T

	fleet     *lab.Fleet
	bin       string
	hub, east client.Client
	process   *lab.Process
	runs      int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	w := &world{T: t, bin: t.TempDir()}
	w.command("go", "build", "-C", "../..", "-o", w.bin+string(filepath.Separator), "./cmd/underway-hub", "./cmd/underway-member", "./cmd/kubectl-underway")
	fleet, err := lab.Start(t.Context(), lab.Options{MemberNames: []string{memberName}, Nodes: 1, HubNodes: 1, Audit: true, Log: os.Stderr})
	w.must(err)
	t.Cleanup(func() { w.must(fleet.Stop()) })
	w.fleet = fleet
	w.hub, w.east = w.client(fleet.Hub()), w.client(fleet.Member(memberName))
	w.kubectl("init")
	w.startHub()
	w.kubectl("join", memberName, "--kubeconfig", fleet.Member(memberName).Kubeconfig(), "--all-namespaces", "--no-agent")
	_, err = fleet.Run("agent", filepath.Join(w.bin, "underway-member"), []string{"--kubeconfig", fleet.Member(memberName).Kubeconfig()}, nil)
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) client(c *lab.Cluster) client.Client {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, appsv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme} {
		w.must(add(s))
	}
	out, err := client.New(c.RESTConfig(), client.Options{Scheme: s})
	w.must(err)
	return out
}

func (w *world) command(name string, args ...string) string {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), name, args...)
	if w.fleet != nil {
		cmd.Env = append(os.Environ(), "KUBECONFIG="+w.fleet.Hub().Kubeconfig())
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (w *world) kubectl(args ...string) string {
	w.Helper()
	return w.command(filepath.Join(w.bin, "kubectl-underway"), args...)
}

func (w *world) startHub() {
	w.Helper()
	w.runs++
	p, err := w.fleet.Run(fmt.Sprintf("underway-hub-%d", w.runs), filepath.Join(w.bin, "underway-hub"),
		[]string{"--kubeconfig", w.fleet.Hub().Kubeconfig(), "--leader-elect=false"}, nil)
	w.must(err)
	w.process = p
}

// eventually waits until check says nothing.
func (w *world) eventually(what string, check func(ctx context.Context) string) {
	w.Helper()
	last := ""
	for range 600 {
		if last = check(w.Context()); last == "" {
			return
		}
		select {
		case <-w.Context().Done():
			w.Fatal(w.Context().Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
	raw, _ := os.ReadFile(w.process.Log())
	lines := strings.Split(string(raw), "\n")
	w.Fatalf("%s: %s\n%s", what, last, strings.Join(lines[max(0, len(lines)-40):], "\n"))
}

func (w *world) get(ctx context.Context) *appsv1alpha1.UnitedDeployment {
	ud := &appsv1alpha1.UnitedDeployment{}
	if err := w.hub.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "web"}, ud); err != nil {
		return ud
	}
	return ud
}

func (w *world) updated() {
	w.Helper()
	w.eventually("all pods updated", func(ctx context.Context) string {
		ud := w.get(ctx)
		s := &ud.Status
		if s.ObservedGeneration == ud.Generation && ud.Generation > 0 && s.UpdatedReadyReplicas == 4 && s.CurrentRevision == s.UpdatedRevision {
			return ""
		}
		return fmt.Sprintf("%+v", *s)
	})
}

func (w *world) image(image string) {
	w.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"app","image":%q}]}}}}}}}`, image)
	w.must(w.hub.Patch(w.Context(), w.get(w.Context()), client.RawPatch(types.MergePatchType, []byte(patch))))
}

func (w *world) images(ctx context.Context) map[string]int {
	var pods corev1.PodList
	w.must(w.east.List(ctx, &pods, client.InNamespace(namespace)))
	out := map[string]int{}
	for i := range pods.Items {
		out[pods.Items[i].Spec.Containers[0].Image]++
	}
	return out
}

func (w *world) member(ctx context.Context, condition string) *metav1.Condition {
	mc := &fleetv1alpha1.MemberCluster{}
	if err := w.hub.Get(ctx, types.NamespacedName{Name: memberName}, mc); err != nil {
		return nil
	}
	return meta.FindStatusCondition(mc.Status.Conditions, condition)
}

// writes are the hub's requests that change something on the member, Leases apart.
func (w *world) writes(mark lab.Mark) []string {
	w.Helper()
	events, err := w.fleet.Member(memberName).Since(mark)
	w.must(err)
	var out []string
	for _, e := range events {
		if strings.HasPrefix(e.UserAgent, "underway-hub") && e.ObjectRef.Resource != "leases" && e.Write() {
			out = append(out, e.Verb+" "+e.ObjectRef.Resource+" "+e.ObjectRef.Name)
		}
	}
	return out
}

// TestRestoredHub: a hub restored from a backup would push last week's image to every cluster. It writes nothing until a
// person confirms it, also after a restart; then it goes on, with a higher term.
func TestRestoredHub(t *testing.T) {
	w := newWorld(t)
	ud := &unstructured.Unstructured{}
	w.must(yaml.Unmarshal([]byte(object), &ud.Object))
	w.must(w.hub.Create(t.Context(), ud))
	w.updated()

	backup, err := w.fleet.Hub().Backup(t.Context())
	w.must(err)
	w.image("app:v2")
	w.updated()
	if got := w.images(t.Context()); got["app:v2"] != 4 {
		t.Fatalf("pods run %v", got)
	}

	w.must(w.process.Kill())
	w.must(w.fleet.Hub().Restore(t.Context(), backup))
	mark, err := w.fleet.Member(memberName).Mark()
	w.must(err)
	w.startHub()
	behind := func(ctx context.Context) string {
		c := w.member(ctx, fleetv1alpha1.ConditionHubBehind)
		if c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	}
	w.eventually("HubBehind", behind)
	w.image("app:v1-hotfix")
	w.must(w.process.Kill())
	w.startHub()
	w.eventually("UnitedDeployment says so after a restart", func(ctx context.Context) string {
		s := w.get(ctx).Status.SubsetStatuses
		if len(s) == 1 && strings.Contains(s[0].Message, "kubectl underway confirm hub") {
			return ""
		}
		return fmt.Sprintf("%+v", s)
	})
	if got := w.writes(mark); len(got) > 0 {
		t.Errorf("a hub that is behind wrote %v", got)
	}
	if got := w.images(t.Context()); got["app:v2"] != 4 {
		t.Errorf("pods run %v", got)
	}

	w.kubectl("confirm", "hub", "--yes")
	w.updated()
	if got := w.images(t.Context()); got["app:v1-hotfix"] != 4 {
		t.Errorf("after the confirmation pods run %v", got)
	}
	if c := w.member(t.Context(), fleetv1alpha1.ConditionHubBehind); c != nil {
		t.Errorf("still %+v", c)
	}
	secret := &corev1.Secret{}
	err = w.hub.Get(t.Context(), types.NamespacedName{Namespace: appsv1alpha1.SystemNamespace, Name: appsv1alpha1.SecretHubID}, secret)
	if apierrors.IsNotFound(err) || string(secret.Data["term"]) != "2" {
		t.Errorf("term is %s, %v", secret.Data["term"], err)
	}
}
