//go:build lab

package kit

import (
	"context"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/config"
	agent "github.com/underway-dev/underway/member"
	"github.com/underway-dev/underway/test/lab"
)

// User is who the agents are: the account that config/member/rbac makes, with just its rights. The audit log counts
// requests by it.
const User = "system:serviceaccount:underway-system:" + agent.Name

// Cluster is one member with a client for the test itself.
type Cluster struct {
	*lab.Cluster
	client.WithWatch
	fleet  *lab.Fleet
	binary string
}

// BuildAgent builds the member's agent into dir and returns its path; see [lab.Product].
func BuildAgent(ctx context.Context, dir string) (string, error) {
	dir, err := lab.Product(ctx, dir, "underway-member")
	return filepath.Join(dir, "underway-member"), err
}

// Connect returns a member with a client for the test itself, and installs the agent's namespace and rights. The agents
// that StartAgent starts are the binary, in the fleet.
func Connect(ctx context.Context, fleet *lab.Fleet, of *lab.Cluster, binary string) (Cluster, error) {
	c := Cluster{Cluster: of, fleet: fleet, binary: binary}
	scheme := runtime.NewScheme()
	if err := agent.AddToScheme(scheme); err != nil {
		return c, err
	}
	rest := of.RESTConfig()
	rest.UserAgent = "test"
	rest.QPS = -1
	var err error
	if c.WithWatch, err = client.NewWithWatch(rest, client.Options{Scheme: scheme}); err != nil {
		return c, err
	}
	for _, read := range []func() ([]*unstructured.Unstructured, error){config.MemberNamespace, config.MemberRBAC} {
		objects, err := read()
		if err != nil {
			return c, err
		}
		for _, o := range objects {
			if err := c.Create(ctx, o); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// InstallCRD installs our CRDs, changed by edit, and waits until they are served.
func (c *Cluster) InstallCRD(ctx context.Context, edit func(*unstructured.Unstructured)) error {
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
		for _, crd := range crds {
			if !c.serves(ctx, crd) {
				return false, nil
			}
		}
		return true, nil
	})
}

// serves reports whether objects of a CRD can be listed.
func (c *Cluster) serves(ctx context.Context, crd *unstructured.Unstructured) bool {
	kind, _, err := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apps.kruise.io/v1alpha1")
	list.SetKind(kind + "List")
	return err == nil && c.List(ctx, list) == nil
}

// StartAgent starts an agent of its own user.
func (c *Cluster) StartAgent(name string, args ...string) (*lab.Process, error) {
	kubeconfig, err := c.KubeconfigFor(User, []string{"system:serviceaccounts", "system:authenticated"}, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	return c.fleet.Run(name, c.binary, append([]string{"--kubeconfig", kubeconfig, "--v", "2"}, args...), nil)
}
