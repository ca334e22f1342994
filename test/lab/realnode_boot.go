package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// boot starts a new node, without a pod, and waits until its kubelet answers.
func (n *RealNode) boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := n.tryBoot(ctx); err != nil {
		return fmt.Errorf("node %s: %w", n.name, err)
	}
	return nil
}

func (n *RealNode) tryBoot(ctx context.Context) error {
	if err := os.RemoveAll(n.dir); err != nil {
		return err
	}
	if err := makeCgroup(n.cgroup()); err != nil {
		return err
	}
	if err := n.writeBinaries(); err != nil {
		return err
	}
	if err := n.spawnInit(); err != nil {
		return err
	}
	if err := n.waitFor(ctx, initPart, func() error {
		_, err := os.Stat(filepath.Join(n.dir, "node", "ready"))
		return err
	}); err != nil {
		return err
	}
	if err := n.configure(); err != nil {
		return err
	}
	if err := n.startContainerd(ctx); err != nil {
		return err
	}
	if err := n.LoadImages(ctx); err != nil {
		return err
	}
	return n.StartKubelet(ctx)
}

// writeBinaries lays out /node/bin and /node/cni/bin. In the node the cache is at
// /node/cache.
func (n *RealNode) writeBinaries() error {
	links := map[string]string{"bin/kubelet": controlPlaneBinary, "cni/bin/ptp": "ptp", "cni/bin/host-local": "host-local"}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc"} {
		links["bin/"+name] = name
	}
	for link, name := range links {
		path := filepath.Join(n.dir, "node", link)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		built := n.cluster.fleet.bin[name]
		if err := os.Symlink(inNode(built), path); err != nil {
			return err
		}
	}
	return nil
}

// inNode is where a node sees a binary of the cache.
func inNode(binary string) string {
	return "/node/cache/" + filepath.Base(filepath.Dir(binary)) + "/" + filepath.Base(binary)
}

// configure writes the node's configuration; its subnet and snapshotter were
// found by its first process.
func (n *RealNode) configure() error {
	address, err := machineAddress()
	if err != nil {
		return err
	}
	if err := n.pickPort(address); err != nil {
		return err
	}
	serving, key, err := n.cluster.ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: n.name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{address},
		DNSNames:    []string{n.name},
		NotAfter:    time.Now().Add(validFor),
	})
	if err != nil {
		return err
	}
	node := filepath.Join(n.dir, "node")
	user := "system:node:" + n.name
	if _, err := n.cluster.writeKubeconfig(filepath.Join(node, "kubeconfig"), n.cluster.Server(), user,
		identity{groups: []string{"system:nodes"}, valid: validFor}); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(node, "cni", "conf"), 0o755); err != nil {
		return err
	}
	kubelet, err := n.kubeletConfig(address)
	if err != nil {
		return err
	}
	return writeFiles(node, map[string][]byte{
		"kubelet.crt":              serving,
		"kubelet.key":              key,
		"ca.crt":                   n.cluster.ca.pem,
		"kubelet.yaml":             kubelet,
		"containerd.toml":          containerdConfig(n.snapshotter()),
		"cni/conf/10-ptp.conflist": cniConfig(n.subnet()),
		"resolv.conf":              []byte("# Nobody is asked: pods of the lab know addresses.\n"),
	})
}

// found returns a line of what the node's first process found out.
func (n *RealNode) found(line int) string {
	data, _ := os.ReadFile(filepath.Join(n.dir, "node", "ready"))
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if line >= len(lines) {
		return ""
	}
	return lines[line]
}

func (n *RealNode) subnet() string      { return n.found(0) }
func (n *RealNode) snapshotter() string { return n.found(1) }

// machineAddress is an address of the machine for its nodes: kubelet takes
// anything but a loopback one.
func machineAddress() (net.IP, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(addresses, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() && !podNetwork().Contains(n.IP)
	})
	if i < 0 {
		return nil, errors.New("the machine has no IPv4 address but loopback, and a kubelet wants one (remedy: `ip link add lab type dummy && ip addr add 198.51.100.1/32 dev lab && ip link set lab up`)")
	}
	return addresses[i].(*net.IPNet).IP.To4(), nil
}

// podNetwork is what the nodes' subnets are taken from.
func podNetwork() *net.IPNet {
	return &net.IPNet{IP: net.IPv4(198, 18, 0, 0).To4(), Mask: net.CIDRMask(15, 32)}
}

// pickPort finds a port for the kubelet that is free on its address too.
func (n *RealNode) pickPort(address net.IP) error {
	free, err := freePorts(10, firstEphemeralPort())
	if err != nil {
		return err
	}
	for _, port := range free {
		l, err := net.Listen("tcp", net.JoinHostPort(address.String(), strconv.Itoa(port)))
		if err != nil {
			continue
		}
		n.mu.Lock()
		n.port = port
		n.mu.Unlock()
		return l.Close()
	}
	return fmt.Errorf("no free port on %s: %w", address, err)
}

func (n *RealNode) startContainerd(ctx context.Context) error {
	if err := n.spawn(containerdPart, "/node/bin/containerd", "--config", "/node/containerd.toml"); err != nil {
		return err
	}
	return n.waitFor(ctx, containerdPart, func() error {
		_, err := n.ctr(ctx, "plugins", "ls", "id==cri")
		return err
	})
}

// waitKubelet waits until the kubelet serves. It is asked with the cluster's
// authority, so that a stranger on the port is not taken for it.
func (n *RealNode) waitKubelet(ctx context.Context) error {
	if err := n.cluster.loadAuthority(); err != nil {
		return err
	}
	pki := n.cluster.path("pki")
	pair, err := tls.LoadX509KeyPair(filepath.Join(pki, kubeletClient+".crt"), filepath.Join(pki, kubeletClient+".key"))
	if err != nil {
		return err
	}
	address, err := machineAddress()
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(n.cluster.ca.pem)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	url := "https://" + net.JoinHostPort(address.String(), strconv.Itoa(n.snapshot().Port)) + "/healthz"
	return n.waitFor(ctx, kubeletPart, func() error {
		if !saysOK(ctx, client, url) {
			return errors.New("the kubelet is not healthy")
		}
		return nil
	})
}

// waitFor asks again until there is no error, the part has ended or ctx has.
func (n *RealNode) waitFor(ctx context.Context, part nodePart, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if p := n.process(part); p == nil || !p.Alive() {
			return n.errEnded(part)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s of %s: %w (%w); its log ends with\n%s", part, n.name, err, ctx.Err(), lastLines(n.log(part), 15))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// output runs a program that ends soon, and returns what it wrote to standard
// output; what it wrote to standard error is in the error.
func (f *Fleet) output(ctx context.Context, binary string, args []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.Env = append(os.Environ(), markVariable+"="+f.state.Mark)
	// The program has a child: they end together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(complaints.Bytes()))
	}
	return out.Bytes(), nil
}
