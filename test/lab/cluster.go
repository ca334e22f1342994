package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Cluster is one control plane with its nodes.
type Cluster struct {
	fleet *Fleet
	name  string
	dir   string
	index int

	mu    sync.Mutex
	state clusterState
	ca    *authority
	parts map[Part]*Process
	// real are the real nodes; the slice does not change.
	real []*RealNode
}

// Name is the cluster's name in the fleet.
func (c *Cluster) Name() string { return c.name }

// Server is the URL of the API server.
func (c *Cluster) Server() string {
	return serverURL(c.apiServerPort())
}

func (c *Cluster) apiServerPort() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Ports.APIServer
}

func serverURL(port int) string { return "https://127.0.0.1:" + strconv.Itoa(port) }

// Dir holds the cluster's files: pki, kubeconfigs, logs, data.
func (c *Cluster) Dir() string { return c.dir }

// Kubeconfig is the path of an administrator's kubeconfig file (system:masters),
// with everything it needs inside.
func (c *Cluster) Kubeconfig() string { return c.kubeconfigPath(adminUser) }

// RESTConfig is a client configuration of an administrator, without a limit on
// the client's side.
func (c *Cluster) RESTConfig() *rest.Config {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		// boot wrote the file; only a fleet that is stopped lacks it.
		return &rest.Config{Host: c.Server()}
	}
	cfg.QPS = -1
	return cfg
}

// LogFile is the path of the log of one part.
func (c *Cluster) LogFile(part Part) string {
	return filepath.Join(c.dir, "logs", string(part)+".log")
}

// Running says whether a part's process is alive (a paused one is).
func (c *Cluster) Running(part Part) bool {
	p := c.process(part)
	return p != nil && p.Alive()
}

func (c *Cluster) process(part Part) *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parts[part]
}

func (c *Cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

func (c *Cluster) kubeconfigPath(user string) string { return c.path("kubeconfigs", user+".yaml") }

// adminUser names the administrator's kubeconfig.
const adminUser = "admin"

// users are the identities that a cluster comes with, by kubeconfig.
func users() map[string][]string {
	return map[string][]string{
		adminUser:                        {"system:masters"},
		"system:kube-controller-manager": nil,
		"system:kube-scheduler":          nil,
		kwokUser:                         {"system:masters"},
	}
}

// KubeconfigFor writes a kubeconfig for a user with a client certificate that is
// good for some time, and returns its path. What the user may do is for RBAC to
// say. A certificate that has expired answers 401, as a forgotten credential does.
func (c *Cluster) KubeconfigFor(user string, groups []string, valid time.Duration) (string, error) {
	return c.writeKubeconfig(c.kubeconfigPath(user), c.Server(), user, identity{groups: groups, valid: valid})
}

type identity struct {
	groups []string
	valid  time.Duration
}

func (c *Cluster) writeKubeconfig(path, server, user string, id identity) (string, error) {
	if err := c.loadAuthority(); err != nil {
		return "", err
	}
	cert, key, err := c.ca.client(user, id.groups, id.valid)
	if err != nil {
		return "", err
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[c.name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: c.ca.pem}
	cfg.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	cfg.Contexts[c.name] = &clientcmdapi.Context{Cluster: c.name, AuthInfo: user}
	cfg.CurrentContext = c.name
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		return "", fmt.Errorf("writing a kubeconfig of %s: %w", c.name, err)
	}
	return path, nil
}

// prepare writes the files that the parts are started with. Ports are chosen
// before: they are in the kubeconfigs.
func (c *Cluster) prepare() error {
	ca, err := ensurePKI(c.path("pki"), c.name)
	if err != nil {
		return fmt.Errorf("credentials of %s: %w", c.name, err)
	}
	c.ca = ca
	if err := os.MkdirAll(c.path("kubeconfigs"), 0o700); err != nil {
		return err
	}
	for user, groups := range users() {
		if _, err := c.KubeconfigFor(user, groups, validFor); err != nil {
			return err
		}
	}
	stages, err := stageConfig()
	if err != nil {
		return err
	}
	return writeFiles(c.dir, map[string][]byte{"stages.yaml": stages, "audit-policy.yaml": []byte(auditPolicy)})
}

// boot starts a new cluster and waits until it is fit for use. Ports are free
// when they are picked and may be taken a moment later by somebody else, so it
// tries again with others when a server could not bind.
func (c *Cluster) boot(ctx context.Context) error {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		p, err := pickPorts()
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.state.Ports = p
		c.mu.Unlock()
		if err := os.RemoveAll(c.path("logs")); err != nil {
			return err
		}
		if err := c.prepare(); err != nil {
			return err
		}
		err = c.start(ctx)
		if err == nil {
			err = c.settle(ctx)
		}
		if err == nil {
			return nil
		}
		taken := slices.ContainsFunc(c.Parts(), func(p Part) bool { return !c.Running(p) && bindFailed(c.LogFile(p)) })
		if !taken || attempt == attempts {
			return err
		}
		c.fleet.log.printf("%s: a port was taken in between, trying others", c.name)
		c.kill()
		if err := os.RemoveAll(c.path("etcd")); err != nil {
			return err
		}
	}
}

// settle creates what a new cluster needs and waits for it.
func (c *Cluster) settle(ctx context.Context) error {
	if err := c.createNodes(ctx); err != nil {
		return fmt.Errorf("nodes of %s: %w", c.name, err)
	}
	if err := inParallel(c.real, func(n *RealNode) error { return n.boot(ctx) }); err != nil {
		return err
	}
	return c.waitUsable(ctx)
}

// Wipe replaces the cluster by an empty one under the same address and
// credentials: another kube-system UID, resourceVersions from the beginning. Its
// real nodes are made anew, without a pod, under the old names.
func (c *Cluster) Wipe(ctx context.Context) error {
	c.kill()
	if err := os.RemoveAll(c.path("etcd")); err != nil {
		return err
	}
	if err := c.start(ctx); err != nil {
		return err
	}
	return c.settle(ctx)
}

// kill ends all parts and all real nodes at once.
func (c *Cluster) kill() {
	_ = inParallel(c.real, (*RealNode).kill)
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = inParallel(Parts(), func(part Part) error {
		if p := c.parts[part]; p != nil {
			return p.Kill()
		}
		return nil
	})
}

// snapshot is the cluster's part of the fleet's state.
func (c *Cluster) snapshot() clusterState {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state
	s.Parts = map[Part]*processState{}
	for part, p := range c.parts {
		s.Parts[part] = p.saved()
	}
	s.Real = nil
	for _, n := range c.real {
		s.Real = append(s.Real, n.snapshot())
	}
	return s
}

// errEnded reports a part that ended instead of serving, with the end of its log.
func (c *Cluster) errEnded(part Part) error {
	return errors.New(string(part) + " of " + c.name + " ended; its log ends with\n" + lastLines(c.LogFile(part), 15))
}
