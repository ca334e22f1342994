//go:build lab

// Package propagation tests how a hub reaches its members, on real control planes: server-side apply as the API server
// answers it, identity, the cache, the outbox. No agent runs: the objects are what is looked at.
//
// Every test has a hub of its own (its own hub id, so its own children and Leases) in a namespace of its own. Members
// alpha and beta are reached by the least-privilege account that `join` makes; gamma and delta by an administrator,
// whose credential outlives a wipe.
package propagation

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/config"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/push"
	"github.com/underway-dev/underway/propagation/render"
	"github.com/underway-dev/underway/test/lab"
)

// patience is how long something that must happen may take on a busy machine.
const patience = 5 * time.Minute

var (
	fleet *lab.Fleet
	// access is how the hubs reach each member.
	access = map[string]*rest.Config{}
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute)
	defer cancel()
	var err error
	fleet, err = lab.Start(ctx, lab.Options{MemberNames: []string{"alpha", "beta", "gamma", "delta"}, Audit: true, Log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = fleet.Stop() }()
	for _, member := range fleet.Members() {
		if access[member.Name()], err = prepare(ctx, member); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// prepare installs what join installs, and returns the configuration of its account.
func prepare(ctx context.Context, member *lab.Cluster) (*rest.Config, error) {
	admin := member.RESTConfig()
	c, err := client.New(admin, client.Options{})
	if err != nil {
		return nil, err
	}
	for _, read := range []func() ([]*unstructured.Unstructured, error){config.MemberNamespace, config.MemberCRDs, config.HubAccess} {
		objects, err := read()
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			if err := c.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
				return nil, fmt.Errorf("%s: creating %s %s: %w", member.Name(), obj.GetKind(), obj.GetName(), err)
			}
		}
	}
	err = c.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: config.HubWorkloadsRole},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: config.HubWorkloadsRole},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: config.HubAccount, Namespace: appsv1alpha1.SystemNamespace}},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	if member.Name() == "gamma" || member.Name() == "delta" {
		return admin, nil
	}
	kube, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return nil, err
	}
	token, err := kube.CoreV1().ServiceAccounts(appsv1alpha1.SystemNamespace).CreateToken(ctx, config.HubAccount,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	out := rest.AnonymousClientConfig(admin)
	out.BearerToken = token.Status.Token
	return out, nil
}

// hub is a fleet of connections and an outbox, with the answers of a hub's own cluster played by the test.
type hub struct {
	id      string
	members *clusters.Fleet
	box     *outbox.Outbox
	fence   *fence
	stop    func()
}

// fence answers what a real one reads on the hub.
type fence struct {
	mu      sync.Mutex
	frozen  string
	leading bool
	intent  render.Intent
}

func (f *fence) Leading(context.Context) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leading, nil
}

func (f *fence) CurrentIntent(context.Context, types.NamespacedName, types.UID) (render.Intent, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.intent, f.intent.OwnerUID != "", nil
}

func (f *fence) Frozen(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.frozen, nil
}

func (f *fence) set(edit func(*fence)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit(f)
}

// startHub runs a hub; holder makes two processes of one hub differ.
func startHub(t *testing.T, id, holder string) *hub {
	t.Helper()
	members, err := clusters.NewFleet(clusters.Options{
		HubID: id, Holder: holder, Local: fleet.Hub().RESTConfig(), Kinds: append(render.Kinds(), content.Kinds()...),
		Intervals: clusters.Intervals{
			Probe: time.Second, ProbeTimeout: 4 * time.Second, Discovery: 2 * time.Second,
			Lease: time.Second, LeaseExpiry: 5 * time.Second, BackoffMin: 300 * time.Millisecond, BackoffMax: 2 * time.Second,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{id: id, members: members, fence: &fence{leading: true}}
	h.box = outbox.New(outbox.Options{
		HubID: id, Members: members, Pusher: push.New(members, id), Fence: h.fence, Recheck: 300 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = members.Start(ctx) })
	running.Go(func() { _ = h.box.Start(ctx) })
	h.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(h.stop)
	return h
}

// join connects a member, storing its identity as the hub's reconciler does, and waits until it is ready.
func (h *hub) join(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		h.members.Ensure(name, clusters.Config{REST: access[name]})
		seen := h.await(t, name, "first contact", func(v clusters.View) bool { return v.SeenIdentity != "" })
		if v, _ := h.members.View(name); v.Block != clusters.BlockIdentityUnstored {
			t.Fatalf("first contact with %s: %+v", name, v)
		}
		h.members.Ensure(name, clusters.Config{REST: access[name], Identity: seen.SeenIdentity})
	}
	for _, name := range names {
		h.await(t, name, "ready", func(v clusters.View) bool { return v.State == clusters.StateReady })
	}
}

func (h *hub) await(t *testing.T, name, what string, ok func(clusters.View) bool) clusters.View {
	t.Helper()
	var v clusters.View
	eventually(t, fmt.Sprintf("%s is %s", name, what), func() (bool, string) {
		v, _ = h.members.View(name)
		return ok(v), fmt.Sprintf("%+v", v)
	})
	return v
}

// settle waits for a state of an item.
func (h *hub) settle(t *testing.T, i outbox.Item, want outbox.State) outbox.Outcome {
	t.Helper()
	var got outbox.Outcome
	eventually(t, string(want), func() (bool, string) {
		got, _ = h.box.Outcome(i.Key())
		return got.State == want, fmt.Sprintf("%s %s %s: %q %v", got.State, got.Op, got.Reason, got.Message, got.Err)
	})
	carries(i, got)
	return got
}

// carried has, by UID, the subset revision of the last plan that a child got: what a planner has seen of it.
var carried sync.Map

func carries(i outbox.Item, got outbox.Outcome) {
	if got.State == outbox.StateDone && i.Want == changeset.WantApplied {
		carried.Store(got.UID, i.Object.GetLabels()[appsv1alpha1.LabelSubsetRevision])
	}
}

func carriedBy(uid types.UID) string {
	revision, _ := carried.Load(uid)
	said, _ := revision.(string)
	return said
}

// apply posts an item and waits until it is carried out.
func (h *hub) apply(t *testing.T, i outbox.Item) outbox.Outcome {
	t.Helper()
	h.box.Post(i)
	return h.done(t, i)
}

// done waits until just this plan is carried out: Done may be the outcome of the one before.
func (h *hub) done(t *testing.T, i outbox.Item) outbox.Outcome {
	t.Helper()
	var got outbox.Outcome
	eventually(t, "the plan is carried out", func() (bool, string) {
		got, _ = h.box.Outcome(i.Key())
		return got.State == outbox.StateDone && got.Intent == i.Intent, fmt.Sprintf("%s %s %s: %q %v", got.State, got.Op, got.Reason, got.Message, got.Err)
	})
	carries(i, got)
	return got
}

func eventually(t *testing.T, what string, ok func() (bool, string)) {
	t.Helper()
	said := ""
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		done, now := ok()
		said = now
		return done, nil
	})
	if err != nil {
		t.Fatalf("never: %s; last: %s", what, said)
	}
}

// plan is what a test wants of one child.
type plan struct {
	image      string
	generation int64
	replicas   *int32
	partition  render.Partition
	judged     types.UID
	adopt      appsv1alpha1.AdoptPolicy
	ensure     bool
	ownerUID   types.UID
	extra      string
}

func (h *hub) item(t *testing.T, member, namespace string, p plan) outbox.Item {
	t.Helper()
	if p.ownerUID == "" {
		p.ownerUID = types.UID("owner-" + namespace)
	}
	owner := types.NamespacedName{Namespace: namespace, Name: "web"}
	in := render.Intent{Term: 1, OwnerUID: p.ownerUID, Generation: p.generation}
	obj, err := render.Child(render.Input{
		Owner: owner, Subset: member, HubID: h.id, Intent: in, Revision: "r-" + strings.NewReplacer(":", "-").Replace(p.image),
		Workload: render.Workload{Kind: render.CloneSet(), Spec: fmt.Appendf(nil, `{
			"updateStrategy": {"type": "InPlaceIfPossible", "maxUnavailable": "50%%"},
			"template": {"metadata": {"labels": {"app": "web"}}, "spec": {
				"volumes": [{"name": "v", "emptyDir": {}}], "securityContext": {}, "fieldOfTomorrow": {"list": [{"a": 1}], "empty": {}},
				"containers": [{"name": "web", "image": %q, "env": [], "resources": {"requests": {"cpu": "1000m"}}}]
			}}%s}`, p.image, p.extra)},
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Replicas: p.replicas, Partition: p.partition,
	})
	if err != nil {
		t.Fatal(err)
	}
	return outbox.Item{
		Member: member, Want: changeset.WantApplied, Object: obj, Owner: owner, Intent: in,
		Adopt: p.adopt, Judged: p.judged, Carried: carriedBy(p.judged), EnsureNamespace: p.ensure,
	}
}

func some(image string, generation int64) plan {
	return plan{image: image, generation: generation, replicas: new(int32(3)), partition: render.Partition{Value: intstr.FromInt32(0)}, ensure: true}
}

// by is the same plan for an object that was seen.
func (p plan) by(uid types.UID) plan { p.judged = uid; return p }

// cloneSets is an administrator's view of a member's namespace.
func cloneSets(t *testing.T, member, namespace string) dynamic.ResourceInterface {
	t.Helper()
	c, err := dynamic.NewForConfig(fleet.Cluster(member).RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return c.Resource(render.CloneSet().GVR()).Namespace(namespace)
}

func kube(t *testing.T, member string) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(fleet.Cluster(member).RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func makeNamespace(t *testing.T, member, name string) {
	t.Helper()
	_, err := kube(t, member).CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

func read(t *testing.T, member string, i outbox.Item) *unstructured.Unstructured {
	t.Helper()
	obj, err := cloneSets(t, member, i.Object.GetNamespace()).Get(t.Context(), i.Object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func image(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	if obj == nil {
		return ""
	}
	list, _, err := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
	if err != nil || len(list) != 1 {
		t.Fatalf("containers: %v, %v", list, err)
	}
	return list[0].(map[string]any)["image"].(string)
}

// mark is the present end of a member's audit log.
func mark(t *testing.T, member string) lab.Mark {
	t.Helper()
	m, err := fleet.Cluster(member).Mark()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// requests are the hubs' requests on workloads of a namespace since a mark, as "<verb> <user agent's answer>".
func requests(t *testing.T, member, namespace string, since lab.Mark, filters ...lab.AuditFilter) []string {
	t.Helper()
	filters = append(filters, lab.ByUserAgent("underway-hub"), func(e lab.AuditEvent) bool {
		return namespace == "" || e.ObjectRef.Namespace == namespace
	})
	events, err := fleet.Cluster(member).Since(since, filters...)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = fmt.Sprintf("%s %s %d", e.Verb, e.Resource(), e.ResponseStatus.Code)
	}
	return out
}
