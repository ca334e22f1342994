//go:build lab

package plugin

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

// world is the built product, and the fleet of the tests of one command: a hub and four members without nodes, where no
// pod runs. It starts when it is first asked for.
type world struct {
	binaries string

	once  sync.Once
	fleet *lab.Fleet
	err   error
}

var shared *world

func (w *world) lab(t *testing.T) *lab.Fleet {
	t.Helper()
	w.once.Do(func() {
		w.fleet, w.err = lab.Start(context.Background(), lab.Options{MemberNames: []string{"eu-1", "us-1", "kruise", "dry"}, Log: os.Stderr})
	})
	if w.err != nil {
		t.Fatal(w.err)
	}
	return w.fleet
}

func (w *world) binary(name string) string { return filepath.Join(w.binaries, name) }

// TestMain builds the product.
func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "underway-plugin-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binaries, err := lab.Product(context.Background(), dir, "underway-hub", "underway-member", "kubectl-underway")
	if err != nil {
		return 0, err
	}
	shared = &world{binaries: binaries}
	defer func() {
		if shared.fleet != nil {
			_ = shared.fleet.Stop()
		}
	}()
	return m.Run(), nil
}

// result is what a call of the plugin did.
type result struct {
	stdout, stderr string
	code           int
}

func (r result) all() string { return r.stdout + r.stderr }

// underway runs the plugin with the hub's kubeconfig in KUBECONFIG.
func underway(t *testing.T, args ...string) result {
	t.Helper()
	return underwayIn(t, shared.lab(t).Hub(), "", args...)
}

func underwayIn(t *testing.T, hub *lab.Cluster, stdin string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), shared.binary("kubectl-underway"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+hub.Kubeconfig())
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	r := result{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
	t.Logf("kubectl underway %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	return r
}

// ok fails the test unless the call succeeded.
func (r result) ok(t *testing.T) result {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("exit %d:\n%s", r.code, r.all())
	}
	return r
}

// fails the test unless the call failed and said all of this.
func (r result) fails(t *testing.T, says ...string) {
	t.Helper()
	if r.code != 1 {
		t.Errorf("exit %d, want 1", r.code)
	}
	r.says(t, says...)
}

func (r result) says(t *testing.T, says ...string) {
	t.Helper()
	for _, want := range says {
		if !strings.Contains(r.all(), want) {
			t.Errorf("it does not say %q:\n%s", want, r.all())
		}
	}
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, appsv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme, clusterv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// admin is an administrator's client.
func admin(t *testing.T, c *lab.Cluster) client.Client {
	t.Helper()
	cl, err := client.New(c.RESTConfig(), client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// patience bounds every wait; nothing is measured by it.
const patience = 5 * time.Minute

// soon waits until check says nothing.
func soon(t *testing.T, what string, check func() string) {
	t.Helper()
	last := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if last = check(); last == "" {
			return
		}
	}
	t.Fatalf("%s: %s", what, last)
}

// versions are all that anybody wants of everything with our label. Not resourceVersions: controllers of Kubernetes and a hub
// that runs write what they see into status when they see it.
func versions(t *testing.T, c client.Client) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		{Version: "v1", Kind: "Namespace"},
		{Version: "v1", Kind: "ServiceAccount"},
		{Version: "v1", Kind: "Secret"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
		{Group: "fleet.underway.dev", Version: "v1alpha1", Kind: "MemberCluster"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := c.List(t.Context(), list, client.MatchingLabels{appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf})
		if err != nil && gvk.Kind != "MemberCluster" {
			t.Fatal(err)
		}
		for i := range list.Items {
			u := &list.Items[i]
			out[u.GetKind()+"/"+u.GetNamespace()+"/"+u.GetName()] = wanted(t, u)
		}
	}
	return out
}

// wanted is an object without what is only seen of it.
func wanted(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	u = u.DeepCopy()
	delete(u.Object, "status")
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	raw, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func namespace(t *testing.T, c client.Client, name string) {
	t.Helper()
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
}

// may checks what the API server says of whether the account of the credential may do this. It hears of roles and bindings in
// its own time, so another answer is asked for again.
func may(t *testing.T, c client.Client, verb, resource, ns string, want bool) {
	t.Helper()
	soon(t, fmt.Sprintf("may it %s %s in %q: want %t", verb, resource, ns, want), func() string {
		if got := allowed(t, c, verb, resource, ns); got != want {
			return fmt.Sprint(got)
		}
		return ""
	})
}

func allowed(t *testing.T, c client.Client, verb, resource, ns string) bool {
	t.Helper()
	group, name, _ := strings.Cut(resource, "/")
	if name == "" {
		group, name = "", group
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: name, Namespace: ns},
	}}
	if err := c.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
