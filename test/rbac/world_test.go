//go:build lab

package rbac

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
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/config"
	"github.com/underway-dev/underway/test/lab"
)

const (
	// patience is how long something that must happen may take on a busy machine.
	patience = 5 * time.Minute
	east     = "east"
	shop     = "shop"
	account  = "system:serviceaccount:underway-system:"
)

// world is a hub and a member whose programs run by their accounts.
type world struct {
	*testing.T

	fleet *lab.Fleet
	bin   string
	hub   client.Client
	east  client.Client
}

func begin(t *testing.T) *world {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	bin, err := lab.Product(t.Context(), t.TempDir(), "underway-hub", "underway-member", "kubectl-underway")
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := lab.Start(t.Context(), lab.Options{MemberNames: []string{east}, Nodes: 2, Audit: true, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fleet.Stop() })
	w := &world{T: t, fleet: fleet, bin: bin, hub: clientOf(t, fleet.Hub()), east: clientOf(t, fleet.Member(east))}
	t.Cleanup(w.tell)
	w.kubectl("init")
	w.kubectl("join", east, "--kubeconfig", fleet.Member(east).Kubeconfig(), "--all-namespaces", "--no-agent")
	objects, err := config.MemberRBAC()
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		if err := w.east.Create(t.Context(), obj); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	w.playAgent()
	w.run("underway-hub", fleet.Hub())
	w.run("underway-member", fleet.Member(east))
	return w
}

// playAgent keeps the Lease of an agent in the hub's own cluster: the hub makes nothing of a kind that nobody reconciles there.
func (w *world) playAgent() {
	w.Helper()
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: appsv1alpha1.SystemNamespace, Name: "underway-member"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("played"), RenewTime: &now},
	}
	if err := w.hub.Create(w.Context(), lease); err != nil {
		w.Fatal(err)
	}
	go wait.UntilWithContext(w.Context(), func(ctx context.Context) {
		now := metav1.NowMicro()
		lease.Spec.RenewTime = &now
		_ = w.hub.Update(ctx, lease) // the next one comes in time
	}, 10*time.Second)
}

func clientOf(t *testing.T, c *lab.Cluster) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, appsv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cfg := c.RESTConfig()
	cfg.UserAgent = "test"
	out, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// run starts a program by the account of its name, which has just what our manifests give it.
func (w *world) run(name string, in *lab.Cluster) {
	w.Helper()
	kubeconfig, err := in.KubeconfigFor(account+name, []string{"system:serviceaccounts", "system:authenticated"}, 24*time.Hour)
	if err != nil {
		w.Fatal(err)
	}
	args := []string{"--kubeconfig", kubeconfig, "--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--v", "2"}
	// Started again when it ends: it does when it loses its leader Lease to a busy machine.
	s, err := w.fleet.Serve(name, filepath.Join(w.bin, name), args, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(s.End)
}

func (w *world) kubectl(args ...string) {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), filepath.Join(w.bin, "kubectl-underway"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.fleet.Hub().Kubeconfig())
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("kubectl underway %v: %v\n%s", args, err, out)
	}
}

// tell prints what the programs said last, when the test failed.
func (w *world) tell() {
	if !w.Failed() {
		return
	}
	for _, p := range w.fleet.Processes() {
		raw, _ := os.ReadFile(p.Log())
		lines := strings.Split(string(raw), "\n")
		w.Logf("--- %s\n%s", p.Name(), strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
}

func (w *world) eventually(what string, ok func(ctx context.Context) (bool, string)) {
	w.Helper()
	said := ""
	err := wait.PollUntilContextTimeout(w.Context(), 200*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		done, now := ok(ctx)
		said = now
		return done, nil
	})
	if err != nil {
		w.Fatalf("never: %s; last: %s", what, said)
	}
}

func (w *world) namespace(c client.Client, name string) {
	w.Helper()
	err := c.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		w.Fatal(err)
	}
}

// united makes a UnitedDeployment from the YAML of its template, with a subset on the member.
func (w *world) united(name, template, subsets string) {
	w.Helper()
	text := fmt.Sprintf(`
apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: %[1]s, namespace: shop}
spec:
  revisionHistoryLimit: 1
  selector: {matchLabels: {app: %[1]s}}
  template:
    %[2]s
  topology: {subsets: [%[3]s]}
  updateStrategy: {type: Manual, manualUpdate: {partition: 0}}
`, name, strings.ReplaceAll(strings.TrimSpace(template), "NAME", name), subsets)
	ud := &appsv1alpha1.UnitedDeployment{}
	if err := yaml.Unmarshal([]byte(text), ud); err != nil {
		w.Fatal(err, text)
	}
	if err := w.hub.Create(w.Context(), ud); err != nil {
		w.Fatal(err)
	}
}

func (w *world) get(name string) *appsv1alpha1.UnitedDeployment {
	w.Helper()
	ud := &appsv1alpha1.UnitedDeployment{}
	if err := w.hub.Get(w.Context(), types.NamespacedName{Namespace: shop, Name: name}, ud); err != nil {
		w.Fatal(err)
	}
	return ud
}

// patch is a person's merge patch.
func (w *world) patch(c client.Client, obj client.Object, patch string) {
	w.Helper()
	raw, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		w.Fatal(err)
	}
	if err := c.Patch(w.Context(), obj, client.RawPatch(types.MergePatchType, raw)); err != nil {
		w.Fatal(err)
	}
}

// at waits until the subsets on the member have so many pods, all updated and ready, for the present spec.
func (w *world) at(name string, pods int32) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s has %d pods, updated and ready", name, pods), func(context.Context) (bool, string) {
		ud := w.get(name)
		done := ud.Status.ObservedGeneration == ud.Generation
		said := fmt.Sprintf("generation %d of %d", ud.Status.ObservedGeneration, ud.Generation)
		for _, e := range ud.Status.SubsetStatuses {
			if e.Cluster == east {
				done = done && e.Replicas == pods && e.UpdatedReadyReplicas == pods
				said += fmt.Sprintf("; %s %s: %d replicas, %d updated and ready: %s", e.Name, e.State, e.Replicas, e.UpdatedReadyReplicas, e.Message)
			}
		}
		return done, said
	})
}

func (w *world) memberIs(status metav1.ConditionStatus) {
	w.Helper()
	w.eventually("member Ready "+string(status), func(ctx context.Context) (bool, string) {
		mc := &fleetv1alpha1.MemberCluster{}
		err := w.hub.Get(ctx, types.NamespacedName{Name: east}, mc)
		c := meta.FindStatusCondition(mc.Status.Conditions, fleetv1alpha1.ConditionReady)
		return err == nil && c != nil && c.Status == status, fmt.Sprintf("%v %+v", err, c)
	})
}

// uses are the requests of our accounts so far.
func (w *world) uses() []Use {
	w.Helper()
	var out []Use
	for _, who := range []struct {
		account Account
		at      *lab.Cluster
		user    string
	}{
		{Hub, w.fleet.Hub(), "underway-hub"},
		{HubOnMember, w.fleet.Member(east), "underway-hub"},
		{Agent, w.fleet.Member(east), "underway-member"},
	} {
		events, err := who.at.AuditEvents(lab.ByUser(account + who.user))
		if err != nil {
			w.Fatal(err)
		}
		for _, e := range events {
			out = append(out, UsesOf(who.account, e)...)
		}
	}
	return out
}
