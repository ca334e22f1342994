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

// join makes members of clusters of the fleet, the first of them through its gateway, and waits until all that there are
// are ready.
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
		if _, err := w.fleet.Run("agent-"+m, filepath.Join(w.bin, "underway-member"), []string{"--kubeconfig", cluster.Kubeconfig(), alone}, nil); err != nil {
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

// TestAThousandMembersNearlyAllDead: a hub with 1,000 MemberClusters of which all but two are unreachable does its work on
// the two, and when nothing happens it writes nothing. The figures are printed.
func TestAThousandMembersNearlyAllDead(t *testing.T) {
	onlyWhenAsked(t)
	count := 998
	if text := os.Getenv("DEAD"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	w := beginHub(t, 2, "one", "two")
	w.start()
	w.join("one", "two")
	before := w.weigh()

	w.dead(count)
	took := w.eventually("every dead one is said to be unreachable", func(ctx context.Context) (bool, string) {
		got := w.said(ctx)
		return got["Unreachable"] == count && got["Connected"] == 2, fmt.Sprint(got)
	})
	t.Logf("%d dead members are known to be so after %s", count, took.Round(time.Second))

	ud := w.deploy(3, "one", "two", "dead-000", "dead-001")
	t.Logf("a new UnitedDeployment is on the living ones after %s", w.updated(ud, 3, "one", "two").Round(time.Second))
	w.image(ud, "app:v2")
	t.Logf("a release has reached the living ones after %s", w.updated(ud, 3, "one", "two").Round(time.Second))

	w.quiet(30 * time.Second)
	mark, err := w.fleet.Hub().Mark()
	if err != nil {
		t.Fatal(err)
	}
	from := w.weigh()
	const minutes = 2
	time.Sleep(minutes * time.Minute)
	to := w.weigh()
	events, err := w.fleet.Hub().Since(mark, lab.ByUser(hubUser))
	if err != nil {
		t.Fatal(err)
	}
	writes, kinds := 0, map[string]int{}
	for _, e := range events {
		kinds[e.Verb+" "+e.Resource()]++
		if e.Write() && e.Resource() != "leases" {
			writes++
			t.Errorf("an idle hub wrote: %s %s %s", e.Verb, e.Resource(), e.ObjectRef.Name)
		}
	}
	t.Logf("figures for %d dead of %d members:", count, count+2)
	w.perMember(before, to, count)
	dials := (to.dials - from.dials) / minutes / float64(count)
	t.Logf("  connections tried to the dead: %.2f per member and minute", dials)
	t.Logf("  CPU: %.1f %% of one processor", (to.cpu-from.cpu)/(minutes*60)*100)
	t.Logf("  requests to the hub's API server: %.1f per minute, %v in %d minutes; writes but Leases: %d", float64(len(events))/minutes, kinds, minutes, writes)
	if per := (to.goroutines - before.goroutines) / float64(count); per > 6 {
		t.Errorf("%.1f goroutines per dead member, the limit is 6", per)
	}
	if dials > 1.5 {
		t.Errorf("%.2f tries per dead member and minute, the limit is 1.5: they do not back off", dials)
	}
}

// weight is what the hub's process takes.
type weight struct {
	// heap is what lives (half of the size at which the collector runs next), resident what the kernel counts; in MiB.
	heap, resident, goroutines float64
	// dials are the connections tried to dead members, cpu the seconds spent.
	dials, cpu float64
}

func (w *hubWorld) weigh() weight {
	w.Helper()
	got := w.scrape(`^(go_memstats_next_gc_bytes|go_goroutines|process_cpu_seconds_total|underway_hub_member_connections_total.*dead)`)
	return weight{
		heap: got["go_memstats_next_gc_bytes"] / 2 / (1 << 20), resident: w.resident(), goroutines: got["go_goroutines"],
		dials: got["underway_hub_member_connections_total"], cpu: got["process_cpu_seconds_total"],
	}
}

// perMember prints what so many more members cost, and holds the budget: 2 MiB per idle member (design.md 9).
func (w *hubWorld) perMember(before, after weight, members int) {
	w.Helper()
	n := float64(members)
	heap := (after.heap - before.heap) / n
	w.Logf("  live heap: %.1f MiB, %.1f before, %.0f KiB per member", after.heap, before.heap, heap*1024)
	w.Logf("  resident: %.1f MiB, %.1f before, %.0f KiB per member", after.resident, before.resident, (after.resident-before.resident)/n*1024)
	w.Logf("  goroutines: %.0f, %.0f before, %.1f per member", after.goroutines, before.goroutines, (after.goroutines-before.goroutines)/n)
	if heap > 2 {
		w.Errorf("%.2f MiB of heap per member, the budget is 2", heap)
	}
}

// quiet waits until the hub has written nothing to its own API server for so long, Leases apart.
func (w *hubWorld) quiet(span time.Duration) {
	w.Helper()
	w.eventually("the hub has nothing left to write", func(context.Context) (bool, string) {
		mark, err := w.fleet.Hub().Mark()
		if err != nil {
			return false, err.Error()
		}
		time.Sleep(span)
		events, err := w.fleet.Hub().Since(mark, lab.Writes, lab.ByUser(hubUser), func(e lab.AuditEvent) bool { return e.Resource() != "leases" })
		if err != nil {
			return false, err.Error()
		}
		return len(events) == 0, fmt.Sprintf("%d writes in %s", len(events), span)
	})
}

// TestTwentyMembers: one template change reaches twenty real control planes by one write each; then the first of them takes
// five seconds for each call, and the next change reaches the other nineteen as before, and the slow one once it is well.
// MEMBERS=n for fewer. The figures are printed.
func TestTwentyMembers(t *testing.T) {
	onlyWhenAsked(t)
	count := 20
	if text := os.Getenv("MEMBERS"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("m-%02d", i)
	}
	w := beginHub(t, 1, names...)
	w.start()
	w.join(names[0])
	w.quiet(15 * time.Second)
	one := w.weigh()
	w.join(names[1:]...)
	w.quiet(30 * time.Second)
	t.Logf("figures for %d idle members, beyond those for one:", count)
	w.perMember(one, w.weigh(), count-1)

	ud := w.deploy(2, names...)
	t.Logf("%d members have their first pods after %s", count, w.updated(ud, 2, names...).Round(time.Second))
	w.quiet(15 * time.Second)
	before := w.change(ud, "app:v2", names, names)
	t.Logf("figures for %d members with a workload of two pods each:", count)
	w.perMember(one, w.weigh(), count-1)

	others := names[1:]
	w.way.Disturb(lab.SlowCalls(5 * time.Second))
	beside := w.change(ud, "app:v3", others, names)
	t.Logf("beside a member that takes 5 s for each call: %.2f times the requests per member, %.2f times the time to the last of %d",
		beside.requests/before.requests, beside.took.Seconds()/before.took.Seconds(), count-1)
	w.way.Disturb(nil)
	well := w.updated(ud, 2, names...)
	t.Logf("the slow one had it %s after it was well again", well.Round(100*time.Millisecond))
	// The hub sent to the slow one and did not wait for it: its API server got the write when all others had theirs.
	first := w.writes(beside.marks, names[0])
	if len(first) == 0 {
		t.Fatalf("no write to %s is seen", names[0])
	}
	ahead := 0
	for _, m := range others {
		if list := w.writes(beside.marks, m); len(list) == 1 && list[0].Received.Before(first[0].Received) {
			ahead++
		}
	}
	if t.Logf("%d of %d members had the change before the slow one", ahead, len(others)); ahead != len(others) {
		t.Errorf("%d of %d members had to wait for the slow one", len(others)-ahead, len(others))
	}
}

// change is what a change of the template cost.
type change struct {
	marks map[string]lab.Mark
	// took is the time to the last member, requests all that one member got from the hub meanwhile.
	took     time.Duration
	requests float64
}

// change changes the image and waits for members, each of which must have got one write for it; of all the places in the
// audit log are noted.
func (w *hubWorld) change(ud *appsv1alpha1.UnitedDeployment, image string, members, all []string) change {
	w.Helper()
	out := change{marks: map[string]lab.Mark{}}
	for _, m := range all {
		mark, err := w.fleet.Member(m).Mark()
		if err != nil {
			w.Fatal(err)
		}
		out.marks[m] = mark
	}
	w.image(ud, image)
	out.took = w.updated(ud, 2, members...)
	kinds := map[string]int{}
	for _, m := range members {
		if writes := w.writes(out.marks, m); len(writes) != 1 {
			w.Errorf("%s got %d writes for one change, want 1", m, len(writes))
		}
		events, err := w.fleet.Member(m).Since(out.marks[m], lab.ByUser(hubUser))
		if err != nil {
			w.Fatal(err)
		}
		for _, e := range events {
			kinds[e.Verb+" "+e.Resource()]++
		}
		out.requests += float64(len(events)) / float64(len(members))
	}
	w.Logf("%s: one write to each of %d members, the last of them ready after %s; %.1f requests per member in all, %v",
		image, len(members), out.took.Round(100*time.Millisecond), out.requests, kinds)
	return out
}

// writes are the hub's to a member since a mark, Leases apart.
func (w *hubWorld) writes(marks map[string]lab.Mark, member string) []lab.AuditEvent {
	w.Helper()
	events, err := w.fleet.Member(member).Since(marks[member], lab.Writes, lab.ByUser(hubUser), func(e lab.AuditEvent) bool {
		return e.Resource() != "leases" && !strings.HasPrefix(e.ObjectRef.Resource, "selfsubject")
	})
	if err != nil {
		w.Fatal(err)
	}
	return events
}
