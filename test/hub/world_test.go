//go:build lab

package hub

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

// patience bounds every wait; nothing is measured by it.
const patience = 6 * time.Minute

// hubUser is the account that join makes for the hub on a member.
const hubUser = "system:serviceaccount:" + appsv1alpha1.SystemNamespace + ":underway-hub"

// members are those of TestHub.
var members = []string{well, "east", "west", "south"}

// TestHub takes one fleet, whose start costs more than most parts, through all that happens to a hub and to members; its parts
// run one after the other, each with a hub of its own.
func TestHub(t *testing.T) {
	w := newWorld(t, members...)
	for _, part := range []struct {
		name string
		run  func(*world)
	}{
		{"members in trouble", (*world).membersInTrouble},
		{"B139", func(w *world) {
			w.storm(storm{kills: 4, lists: 10 * time.Second, life: 12 * time.Second, after: time.Second})
		}},
		{"B141", func(w *world) { w.leaders(leaders{pause: 8 * time.Second, flags: shortLease}) }},
		{"restored from a backup", (*world).restored},
	} {
		t.Run(part.name, func(t *testing.T) {
			began := time.Now()
			part.run(w.in(t))
			t.Logf("took %s", time.Since(began).Round(time.Second))
		})
	}
}

// fleet is a hub and members with the product on them. Members are reached through a gateway each, and so is the hub's own
// API server by the hub's process; the test and the agents go straight to the servers.
type fleet struct {
	lab    *lab.Fleet
	hub    client.WithWatch
	hubWay *lab.Gateway
	hubCfg string
	at     map[string]client.WithWatch
	ways   map[string]*lab.Gateway

	mu       sync.Mutex
	runs     int
	services map[string]*lab.Service
}

// world is a fleet as one test uses it.
type world struct {
	*testing.T
	*fleet
}

// newWorld starts a fleet and installs the product with the real plugin; no hub runs yet.
func newWorld(t *testing.T, members ...string) *world {
	t.Helper()
	w := &world{T: t, fleet: &fleet{at: map[string]client.WithWatch{}, ways: map[string]*lab.Gateway{}, services: map[string]*lab.Service{}}}
	began := time.Now()
	var err error
	w.lab, err = lab.Start(t.Context(), lab.Options{MemberNames: members, Nodes: 1, HubNodes: 1, Audit: true, Log: os.Stderr})
	w.must(err)
	t.Cleanup(func() {
		for _, s := range w.services {
			s.End()
		}
		if err := w.lab.Stop(); err != nil {
			t.Error(err)
		}
	})
	w.hub = w.client(w.lab.Hub())
	w.hubWay, w.hubCfg = w.gateway(w.lab.Hub())
	w.kubectl("init")
	for _, m := range members {
		cluster := w.lab.Member(m)
		w.at[m] = w.client(cluster)
		way, config := w.gateway(cluster)
		w.ways[m] = way
		w.kubectl("join", m, "--kubeconfig", config, "--all-namespaces", "--no-agent")
		w.serve("agent-"+m, "underway-member", "--kubeconfig", cluster.Kubeconfig())
	}
	w.Logf("a hub and %d members with the product on them are up after %s", len(members), time.Since(began).Round(time.Second))
	return w
}

// in is the same world for a part of the test.
func (w *world) in(t *testing.T) *world { return &world{T: t, fleet: w.fleet} }

// gateway opens one, and returns an administrator's kubeconfig through it.
func (w *world) gateway(c *lab.Cluster) (*lab.Gateway, string) {
	w.Helper()
	way, err := c.Gateway()
	w.must(err)
	w.Cleanup(func() { _ = way.Close() })
	path, err := way.KubeconfigFor("through-the-gateway", []string{"system:masters"}, 24*time.Hour)
	w.must(err)
	return way, path
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) client(c *lab.Cluster) client.WithWatch {
	w.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, appsv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		w.must(add(s))
	}
	out, err := client.NewWithWatch(c.RESTConfig(), client.Options{Scheme: s})
	w.must(err)
	return out
}

// kubectl runs the plugin against the hub, kubectlAt against another cluster.
func (w *world) kubectl(args ...string) string {
	w.Helper()
	return w.kubectlAt(w.lab.Hub(), args...)
}

func (w *world) kubectlAt(c *lab.Cluster, args ...string) string {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), filepath.Join(binaries, "kubectl-underway"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("kubectl underway %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// serve runs a program of ours under a name, and starts it again when it ends.
func (w *world) serve(name, binary string, args ...string) *lab.Service {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs++
	s, err := w.lab.Serve(fmt.Sprintf("%s-%d", name, w.runs), filepath.Join(binaries, binary), args, nil)
	w.must(err)
	w.services[name] = s
	return s
}

// shortLease makes a change of the leader a matter of seconds.
var shortLease = []string{"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms"}

// startHub starts a hub, or one more.
func (w *world) startHub(name string, args ...string) *lab.Service {
	w.Helper()
	return w.serve(name, "underway-hub", append([]string{"--kubeconfig", w.hubCfg, "--v", "2"}, args...)...)
}

// eventually waits until check says nothing.
func (w *world) eventually(what string, check func(ctx context.Context) string) {
	w.Helper()
	last, end := "", time.Now().Add(patience)
	for time.Now().Before(end) {
		if last = check(w.Context()); last == "" {
			return
		}
		select {
		case <-w.Context().Done():
			w.Fatal(w.Context().Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, s := range w.services {
		if strings.HasPrefix(name, "hub") {
			raw, _ := os.ReadFile(s.Process().Log())
			lines := strings.Split(string(raw), "\n")
			w.Logf("--- %s\n%s", s.Process().Name(), strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
	}
	w.Fatalf("%s: %s", what, last)
}

// condition is a condition of a MemberCluster.
func (w *world) condition(ctx context.Context, member, kind string) metav1.Condition {
	mc := &fleetv1alpha1.MemberCluster{}
	if err := w.hub.Get(ctx, types.NamespacedName{Name: member}, mc); err != nil {
		return metav1.Condition{Type: kind, Status: "unreadable", Message: err.Error()}
	}
	if c := meta.FindStatusCondition(mc.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind, Status: "absent"}
}

// conditioned waits for a condition of a MemberCluster and returns it.
func (w *world) conditioned(member, kind string, status metav1.ConditionStatus, words ...string) {
	w.Helper()
	began := time.Now()
	w.eventually(fmt.Sprintf("%s of %s is %s", kind, member, status), func(ctx context.Context) string {
		c := w.condition(ctx, member, kind)
		if c.Status != status {
			return fmt.Sprintf("%+v", c)
		}
		for _, word := range words {
			if !strings.Contains(c.Reason+": "+c.Message, word) {
				return fmt.Sprintf("%q is not in %s: %s", word, c.Reason, c.Message)
			}
		}
		return ""
	})
	c := w.condition(w.Context(), member, kind)
	w.Logf("%s: %s=%s after %s: %s: %s", member, kind, status, time.Since(began).Round(time.Second), c.Reason, c.Message)
}

// isReady waits until members are ready.
func (w *world) isReady(members ...string) {
	w.Helper()
	for _, m := range members {
		w.conditioned(m, fleetv1alpha1.ConditionReady, metav1.ConditionTrue)
	}
}

// pods lists a namespace of a member.
func (w *world) pods(ctx context.Context, member, ns string) []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	if err := w.at[member].List(ctx, &list, client.InNamespace(ns)); err != nil {
		w.Logf("pods of %s: %v", member, err)
	}
	return list.Items
}

func (w *world) running(ctx context.Context, member, ns, image string) int {
	n := 0
	for _, p := range w.pods(ctx, member, ns) {
		if p.DeletionTimestamp == nil && p.Spec.Containers[0].Image == image {
			n++
		}
	}
	return n
}
