//go:build lab

package long

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

// patience is how long something that must happen may take on a busy machine.
const patience = 10 * time.Minute

// hubWorld is a hub with its members, run as programs.
type hubWorld struct {
	*testing.T

	fleet   *lab.Fleet
	bin     string
	hub     client.Client
	metrics string
	program *lab.Process
	// way is how the hub reaches the first member.
	way *lab.Gateway
}

// onlyWhenAsked skips what takes minutes.
func onlyWhenAsked(t *testing.T) {
	t.Helper()
	if os.Getenv("LONG") == "" {
		t.Skip("takes minutes: LONG=1, or make test-long")
	}
}

func beginHub(t *testing.T, nodes int, members ...string) *hubWorld {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", bin+string(filepath.Separator), "./cmd/...")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	fleet, err := lab.Start(t.Context(), lab.Options{MemberNames: members, Nodes: nodes, Audit: true, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fleet.Stop() })
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, appsv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cfg := fleet.Hub().RESTConfig()
	cfg.UserAgent = "test"
	w := &hubWorld{T: t, fleet: fleet, bin: bin}
	if w.hub, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	w.kubectl("init")
	if w.way, err = fleet.Member(members[0]).Gateway(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.way.Close() })
	return w
}

// join makes members of clusters of the fleet, the first of them through its gateway, and waits until every member
// is ready.
func (w *hubWorld) join(members ...string) {
	w.Helper()
	for _, m := range members {
		cluster := w.fleet.Member(m)
		kubeconfig := cluster.Kubeconfig()
		if cluster == w.fleet.Members()[0] {
			var err error
			if kubeconfig, err = w.way.KubeconfigFor("joiner", []string{"system:masters"}, time.Hour); err != nil {
				w.Fatal(err)
			}
		}
		w.kubectl("join", m, "--kubeconfig", kubeconfig, "--all-namespaces", "--no-agent")
		if _, err := w.fleet.Run("agent-"+m, filepath.Join(w.bin, "underway-member"), append([]string{"--kubeconfig", cluster.Kubeconfig()}, patient()...), nil); err != nil {
			w.Fatal(err)
		}
	}
	w.eventually("all are ready", func(ctx context.Context) (bool, string) {
		got, n := w.said(ctx), 0
		for _, count := range got {
			n += count
		}
		return n >= len(members) && got["Connected"] == n, fmt.Sprint(got)
	})
}

func (w *hubWorld) kubectl(args ...string) {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), filepath.Join(w.bin, "kubectl-underway"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.fleet.Hub().Kubeconfig())
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("kubectl underway %v: %v\n%s", args, err, out)
	}
}

// start starts the hub by its own account, with its metrics.
func (w *hubWorld) start() {
	w.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	w.metrics = l.Addr().String()
	_ = l.Close()
	kubeconfig, err := w.fleet.Hub().KubeconfigFor(hubUser, []string{"system:serviceaccounts", "system:authenticated"}, 24*time.Hour)
	if err != nil {
		w.Fatal(err)
	}
	w.program, err = w.fleet.Run("hub", filepath.Join(w.bin, "underway-hub"),
		[]string{"--kubeconfig", kubeconfig, alone, "--metrics-bind-address", w.metrics}, nil)
	if err != nil {
		w.Fatal(err)
	}
}

// alone keeps a program that has no stand-in from ending when twenty control planes leave it no time to renew its Lease.
const alone = "--leader-elect=false"

// patient has an agent hold a Lease, by which the hub knows that somebody reconciles its kinds, with time to renew it.
func patient() []string {
	return []string{"--leader-elect-lease-duration=2m", "--leader-elect-renew-deadline=90s"}
}

const hubUser = "system:serviceaccount:underway-system:underway-hub"

// scrape sums the hub's metrics by name; filter picks lines.
func (w *hubWorld) scrape(filter string) map[string]float64 {
	w.Helper()
	out := map[string]float64{}
	req, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "http://"+w.metrics+"/metrics", nil)
	if err != nil {
		w.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	pick := regexp.MustCompile(filter)
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") || !pick.MatchString(line) {
			continue
		}
		name, _, _ := strings.Cut(line[:at], "{")
		if n, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			out[name] += n
		}
	}
	return out
}

func (w *hubWorld) eventually(what string, ok func(ctx context.Context) (bool, string)) time.Duration {
	w.Helper()
	begun, said := time.Now(), ""
	err := wait.PollUntilContextTimeout(w.Context(), 500*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		done, now := ok(ctx)
		said = now
		return done, nil
	})
	if err != nil {
		raw, _ := os.ReadFile(w.program.Log())
		lines := strings.Split(string(raw), "\n")
		w.Fatalf("never: %s; last: %s\nhub:\n%s", what, said, strings.Join(lines[max(0, len(lines)-30):], "\n"))
	}
	return time.Since(begun)
}

// dead makes MemberClusters that nobody answers for: half at a closed port, half at one that accepts and is silent.
func (w *hubWorld) dead(count int) {
	w.Helper()
	hole, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts; nobody ever answers
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = hole.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	_ = closed.Close()
	ca, err := clientcmd.LoadFromFile(w.fleet.Hub().Kubeconfig())
	if err != nil {
		w.Fatal(err)
	}
	var authority []byte
	for _, c := range ca.Clusters {
		authority = c.CertificateAuthorityData
	}
	next := make(chan int)
	var makers sync.WaitGroup
	for range 8 {
		makers.Go(func() {
			for i := range next {
				address := closed.Addr().String()
				if i%2 == 0 {
					address = hole.Addr().String()
				}
				w.register(fmt.Sprintf("dead-%03d", i), "https://"+address, authority)
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	makers.Wait()
}

func (w *hubWorld) register(name, server string, authority []byte) {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	cfg.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: strings.Repeat("t", 900)}
	cfg.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	cfg.CurrentContext = "x"
	raw, err := clientcmd.Write(*cfg)
	if err != nil {
		w.Error(err)
		return
	}
	for _, obj := range []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: appsv1alpha1.SystemNamespace, Name: "member-" + name},
			Data:       map[string][]byte{"kubeconfig": raw},
		},
		&fleetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "far"}},
			Spec: fleetv1alpha1.MemberClusterSpec{
				KubeconfigSecretRef: &fleetv1alpha1.SecretReference{Name: "member-" + name}, AllowedNamespaces: &metav1.LabelSelector{},
			},
		},
	} {
		if err := w.hub.Create(w.Context(), obj); err != nil {
			w.Error(err)
		}
	}
}

// said counts the members by the reason of their condition Ready.
func (w *hubWorld) said(ctx context.Context) map[string]int {
	list := &fleetv1alpha1.MemberClusterList{}
	out := map[string]int{}
	if err := w.hub.List(ctx, list); err != nil {
		out[err.Error()]++
		return out
	}
	for i := range list.Items {
		reason := "none"
		if c := meta.FindStatusCondition(list.Items[i].Status.Conditions, fleetv1alpha1.ConditionReady); c != nil {
			reason = c.Reason
		}
		out[reason]++
	}
	return out
}

// deploy makes a UnitedDeployment with a subset of n pods on each member.
func (w *hubWorld) deploy(n int, members ...string) *appsv1alpha1.UnitedDeployment {
	w.Helper()
	if err := w.hub.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
		w.Fatal(err)
	}
	subsets := make([]string, len(members))
	for i, m := range members {
		subsets[i] = fmt.Sprintf("{name: %s, cluster: %s, replicas: %d}", m, m, n)
	}
	ud := &appsv1alpha1.UnitedDeployment{}
	err := yaml.Unmarshal([]byte(`
apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: web}}
      spec:
        selector: {matchLabels: {app: web}}
        updateStrategy: {type: InPlaceIfPossible, maxUnavailable: "100%"}
        template:
          metadata: {labels: {app: web}}
          spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: "app:v1"}]}
  topology: {subsets: [`+strings.Join(subsets, ", ")+`]}
  updateStrategy: {type: Manual, manualUpdate: {partition: 0}}
`), ud)
	if err != nil {
		w.Fatal(err)
	}
	if err := w.hub.Create(w.Context(), ud); err != nil {
		w.Fatal(err)
	}
	return ud
}

// updated waits until so many pods of each of the members run the present template and are ready.
func (w *hubWorld) updated(ud *appsv1alpha1.UnitedDeployment, n int32, members ...string) time.Duration {
	w.Helper()
	return w.eventually("every pod is updated and ready", func(ctx context.Context) (bool, string) {
		got := &appsv1alpha1.UnitedDeployment{}
		if err := w.hub.Get(ctx, client.ObjectKeyFromObject(ud), got); err != nil {
			return false, err.Error()
		}
		done, said := got.Status.ObservedGeneration == got.Generation, ""
		for _, e := range got.Status.SubsetStatuses {
			if slices.Contains(members, e.Cluster) && (e.UpdatedReadyReplicas != n || e.Replicas != n) {
				done, said = false, fmt.Sprintf("%s: %d of %d: %s %s", e.Name, e.UpdatedReadyReplicas, n, e.State, e.Message)
			}
		}
		return done, said
	})
}

func (w *hubWorld) image(ud *appsv1alpha1.UnitedDeployment, image string) {
	w.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"app","image":%q}]}}}}}}}`, image)
	if err := w.hub.Patch(w.Context(), ud, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		w.Fatal(err)
	}
}

// resident is the hub's memory as the kernel counts it, in MiB.
func (w *hubWorld) resident() float64 {
	w.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.program.PID()))
	if err != nil {
		w.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if kb, has := strings.CutPrefix(line, "VmRSS:"); has {
			n, _ := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			return n / 1024
		}
	}
	return 0
}
