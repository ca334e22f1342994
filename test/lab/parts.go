package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Part is one process of a cluster.
type Part string

// The parts of a cluster.
const (
	Etcd              Part = "etcd"
	APIServer         Part = "kube-apiserver"
	ControllerManager Part = "kube-controller-manager"
	Scheduler         Part = "kube-scheduler"
	KWOK              Part = "kwok"
)

// kwokUser is who the simulated nodes are at the API server.
const kwokUser = "system:kwok"

// Parts are all parts, in the order of starting; stopping goes the other way.
func Parts() []Part { return []Part{Etcd, APIServer, ControllerManager, Scheduler, KWOK} }

// Parts are the parts of this cluster: all, but KWOK only where there are
// simulated nodes and the scheduler only where there are any. Real nodes are no
// parts; see [Cluster.RealNodes].
func (c *Cluster) Parts() []Part {
	return slices.DeleteFunc(Parts(), func(p Part) bool {
		switch p {
		case KWOK:
			return c.state.Nodes == 0
		case Scheduler:
			return c.state.Nodes == 0 && len(c.real) == 0
		case Etcd, APIServer, ControllerManager:
		}
		return false
	})
}

// ParsePart returns the part of that name.
func ParsePart(name string) (Part, error) {
	if p := Part(name); slices.Contains(Parts(), p) {
		return p, nil
	}
	return "", fmt.Errorf("no part %q; there are %v", name, Parts())
}

// inOrder sorts parts by the order of starting; none named means all.
func (c *Cluster) inOrder(parts []Part) []Part {
	if len(parts) == 0 {
		return c.Parts()
	}
	return slices.DeleteFunc(c.Parts(), func(p Part) bool { return !slices.Contains(parts, p) })
}

// Start starts the parts that do not run (none named: all) and waits until the
// API server answers, when it is among them. Ports and data are the old ones.
func (c *Cluster) Start(ctx context.Context, parts ...Part) error {
	return c.start(ctx, parts...)
}

func (c *Cluster) start(ctx context.Context, parts ...Part) error {
	if err := c.loadAuthority(); err != nil {
		return err
	}
	for _, part := range c.inOrder(parts) {
		if c.Running(part) {
			continue
		}
		p, err := c.fleet.spawn(c.command(part))
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.parts[part] = p
		c.mu.Unlock()
		if err := c.fleet.save(); err != nil {
			return err
		}
		if part == APIServer {
			if err := c.waitReady(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadAuthority reads the authority of a cluster of a fleet that was opened.
func (c *Cluster) loadAuthority() error {
	if c.ca != nil {
		return nil
	}
	ca, err := loadAuthority(c.path("pki"))
	c.ca = ca
	return err
}

// Stop ends the parts (none named: all) in good order and waits for their end.
func (c *Cluster) Stop(parts ...Part) error {
	ordered := c.inOrder(parts)
	slices.Reverse(ordered)
	for _, part := range ordered {
		if p := c.process(part); p != nil {
			if err := p.Stop(10 * time.Second); err != nil {
				return err
			}
		}
	}
	return c.fleet.save()
}

// Kill ends the parts (none named: all) without a warning, as a power failure does.
func (c *Cluster) Kill(parts ...Part) error {
	return c.each(parts, (*Process).Kill)
}

// Pause stops the parts (none named: all) from running (SIGSTOP): connections
// stay open and nobody answers, as with a machine that hangs.
func (c *Cluster) Pause(parts ...Part) error {
	return c.each(parts, (*Process).Pause)
}

// Resume lets paused parts run on.
func (c *Cluster) Resume(parts ...Part) error {
	return c.each(parts, (*Process).Resume)
}

// Restart stops and starts the parts (none named: all).
func (c *Cluster) Restart(ctx context.Context, parts ...Part) error {
	if err := c.Stop(parts...); err != nil {
		return err
	}
	return c.Start(ctx, parts...)
}

func (c *Cluster) each(parts []Part, do func(*Process) error) error {
	var errs []error
	for _, part := range c.inOrder(parts) {
		if p := c.process(part); p != nil {
			errs = append(errs, do(p))
		}
	}
	return errors.Join(errs...)
}

func (c *Cluster) command(part Part) command {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd := command{name: c.name + "/" + string(part), log: c.LogFile(part)}
	switch part {
	case Etcd:
		cmd.path, cmd.args = c.fleet.bin[etcdBinary], c.etcdArgs()
	case APIServer:
		cmd.path, cmd.args = c.fleet.bin[controlPlaneBinary], c.apiServerArgs()
	case ControllerManager:
		cmd.path, cmd.args = c.fleet.bin[controlPlaneBinary], c.controllerManagerArgs()
	case Scheduler:
		cmd.path, cmd.args = c.fleet.bin[controlPlaneBinary], c.schedulerArgs()
	case KWOK:
		cmd.path, cmd.args = c.fleet.bin[kwokBinary], c.kwokArgs()
	}
	// The control plane is one binary; the name picks the part.
	cmd.arg0 = string(part)
	cmd.env = frugal()
	return cmd
}

// frugal is the environment of the parts. Half of what a lab costs is API servers
// and etcd, and a sixth of that was collecting garbage: they may have four times
// what they use, as long as that is not much memory.
func frugal() []string { return []string{"GOGC=400", "GOMEMLIMIT=1536MiB"} }

func (c *Cluster) etcdArgs() []string {
	client := "http://127.0.0.1:" + strconv.Itoa(c.state.Ports.Etcd)
	peer := "http://127.0.0.1:" + strconv.Itoa(c.state.Ports.EtcdPeer)
	return []string{
		"--name=default",
		"--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--unsafe-no-fsync",
		// Nobody else votes; ten beats a second only cost.
		"--heartbeat-interval=500",
		"--election-timeout=5000",
		"--log-level=warn",
	}
}

func (c *Cluster) apiServerArgs() []string {
	args := []string{
		"--etcd-servers=http://127.0.0.1:" + strconv.Itoa(c.state.Ports.Etcd),
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(c.state.Ports.APIServer),
		// A loopback address is refused here. This one (of TEST-NET-1) stands in
		// the endpoints of the service kubernetes, which no simulated pod calls.
		"--advertise-address=192.0.2.1",
		"--cert-dir=" + c.path("pki"),
		"--tls-cert-file=" + c.path("pki", "apiserver.crt"),
		"--tls-private-key-file=" + c.path("pki", "apiserver.key"),
		"--client-ca-file=" + c.path("pki", "ca.crt"),
		"--service-account-key-file=" + c.path("pki", "sa.pub"),
		"--service-account-signing-key-file=" + c.path("pki", "sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--authorization-mode=Node,RBAC",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--allow-privileged=true",
		// For exec and logs of pods on real nodes, whose names nobody resolves.
		"--kubelet-client-certificate=" + c.path("pki", kubeletClient+".crt"),
		"--kubelet-client-key=" + c.path("pki", kubeletClient+".key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--event-ttl=1h",
	}
	if c.fleet.opts.Audit {
		args = append(args,
			"--audit-policy-file="+c.path("audit-policy.yaml"),
			"--audit-log-path="+c.AuditLog(),
			// Megabytes; a rotated log would cut a count in two.
			"--audit-log-maxsize=100000",
		)
	}
	return args
}

func (c *Cluster) controllerManagerArgs() []string {
	return []string{
		"--kubeconfig=" + c.kubeconfigPath("system:kube-controller-manager"),
		"--service-account-private-key-file=" + c.path("pki", "sa.key"),
		"--root-ca-file=" + c.path("pki", "ca.crt"),
		"--cluster-signing-cert-file=" + c.path("pki", "ca.crt"),
		"--cluster-signing-key-file=" + c.path("pki", "ca.key"),
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(c.state.Ports.ControllerManager),
		"--cert-dir=" + c.path("pki", "kube-controller-manager"),
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
}

func (c *Cluster) schedulerArgs() []string {
	return []string{
		"--kubeconfig=" + c.kubeconfigPath("system:kube-scheduler"),
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(c.state.Ports.Scheduler),
		"--cert-dir=" + c.path("pki", "kube-scheduler"),
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
}

func (c *Cluster) kwokArgs() []string {
	return []string{
		"--kubeconfig=" + c.kubeconfigPath(kwokUser),
		"--manage-nodes-with-label-selector=type=kwok",
		// Without leases the not-ready taint that admission puts on a new node is
		// never taken off.
		"--node-lease-duration-seconds=40",
		"--config=" + c.path("stages.yaml"),
	}
}

// waitReady waits until the API server says it is ready. It is asked with this
// cluster's authority, so that a stranger on the port is not taken for it.
func (c *Cluster) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.ca.pem)
	certPEM, keyPEM, err := c.ca.client("lab", []string{"system:masters"}, time.Hour)
	if err != nil {
		return err
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return err
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	url := c.Server() + "/readyz"
	for {
		if saysOK(ctx, client, url) {
			return nil
		}
		for _, part := range []Part{Etcd, APIServer} {
			if !c.Running(part) {
				return c.errEnded(part)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("API server of %s is not ready: %w; its log ends with\n%s", c.name, ctx.Err(), lastLines(c.LogFile(APIServer), 15))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func saysOK(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// lastLines is the end of a log, for error messages.
func lastLines(file string, n int) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(bytes.TrimSpace(data)), "\n")
	last := max(0, len(lines)-n)
	// A panic is named above a trace that may be longer than that.
	why := slices.DeleteFunc(slices.Clone(lines[:last]), func(l string) bool { return !strings.HasPrefix(l, "panic:") })
	return strings.Join(append(why, lines[last:]...), "\n")
}
