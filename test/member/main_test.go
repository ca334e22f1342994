//go:build lab

// Package member tests the agent of a member cluster on real control planes with simulated nodes.
//
// Cluster steady has one agent that nothing disturbs; the tests on it run side by side, a namespace each. Cluster rough is
// for tests that kill agents, start two, or change the CRD; they run one after the other.
package member

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/config"
	agent "github.com/underway-dev/underway/member"
	"github.com/underway-dev/underway/test/lab"
)

// user is who the agents are: the account that config/member/rbac makes, with just its rights. The audit log counts
// requests by it.
const user = "system:serviceaccount:underway-system:" + agent.Name

// cluster is one member with a client for the test itself.
type cluster struct {
	*lab.Cluster
	client.WithWatch
}

var (
	fleet         *lab.Fleet
	binary        string
	steady, rough cluster
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "underway-member-test-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "underway-member")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "../../cmd/underway-member").CombinedOutput(); err != nil {
		return fail(fmt.Errorf("%w: %s", err, out))
	}
	fleet, err = lab.Start(ctx, lab.Options{MemberNames: []string{"steady", "rough"}, Nodes: 3, Audit: true, Log: os.Stderr})
	if err != nil {
		return fail(err)
	}
	defer func() { _ = fleet.Stop() }()
	for name, c := range map[string]*cluster{"steady": &steady, "rough": &rough} {
		if err := c.connect(ctx, fleet.Member(name)); err != nil {
			return fail(err)
		}
	}
	if err := steady.installCRD(ctx, nil); err != nil {
		return fail(err)
	}
	if _, err := steady.startAgent("agent-steady"); err != nil {
		return fail(err)
	}
	// Tests wait most of their time; the number of processors is no measure for them.
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		return fail(err)
	}
	code := m.Run()
	if code != 0 {
		keepLogs()
	}
	return code
}

// keepLogs prints the end of the agents' logs.
func keepLogs() {
	for _, p := range fleet.Processes() {
		out, _ := exec.Command("tail", "-n", "40", p.Log()).CombinedOutput()
		fmt.Fprintf(os.Stderr, "--- %s ---\n%s\n", p.Name(), out)
	}
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func (c *cluster) connect(ctx context.Context, of *lab.Cluster) error {
	scheme := runtime.NewScheme()
	if err := agent.AddToScheme(scheme); err != nil {
		return err
	}
	rest := of.RESTConfig()
	rest.UserAgent = "test"
	rest.QPS = -1
	cl, err := client.NewWithWatch(rest, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	c.Cluster, c.WithWatch = of, cl
	for _, read := range []func() ([]*unstructured.Unstructured, error){config.MemberNamespace, config.MemberRBAC} {
		objects, err := read()
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := cl.Create(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// installCRD installs our CRDs, changed by edit, and waits until they are served.
func (c *cluster) installCRD(ctx context.Context, edit func(*unstructured.Unstructured)) error {
	crds, err := config.MemberCRDs()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if edit != nil {
			edit(crd)
		}
		if err := c.Create(ctx, crd); err != nil {
			return err
		}
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("apps.kruise.io/v1alpha1")
		list.SetKind("CloneSetList")
		return c.List(ctx, list) == nil, nil
	})
}

// startAgent starts an agent of its own user.
func (c *cluster) startAgent(name string, args ...string) (*lab.Process, error) {
	kubeconfig, err := c.KubeconfigFor(user, []string{"system:serviceaccounts", "system:authenticated"}, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	return fleet.Run(name, binary, append([]string{"--kubeconfig", kubeconfig, "--v", "2"}, args...), nil)
}
