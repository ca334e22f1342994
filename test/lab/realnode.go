package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// TypeLabel is on every node: [RealType] or [SimulatedType]. A pod that is meant
// for one kind selects it by nodeSelector; in a member with one kind of nodes it
// need not.
const TypeLabel = "type"

// The values of [TypeLabel].
const (
	RealType      = "real"
	SimulatedType = "kwok"
)

// What pods may request on a real node, whatever the machine has (if it has that
// much): the node reserves the rest. [RealPods] bounds their number.
const (
	RealCPU    = "1"
	RealMemory = "2Gi"
	RealPods   = 100
)

// nodePart is one of the processes of a real node that the lab starts.
type nodePart string

const (
	initPart       nodePart = "init"
	containerdPart nodePart = "containerd"
	kubeletPart    nodePart = "kubelet"
)

// RealNode is one real node of a member: a kubelet, a containerd and the
// containers they run. They have a PID namespace and a root directory of their
// own (the machine's, with /run, /var and /tmp of the node's), and the machine's
// network: pods are reachable from here by their addresses.
type RealNode struct {
	cluster *Cluster
	index   int
	name    string
	dir     string

	mu    sync.Mutex
	port  int
	parts map[nodePart]*Process
}

func newRealNode(c *Cluster, i int) *RealNode {
	name := c.name + "-real-" + strconv.Itoa(i)
	return &RealNode{cluster: c, index: i, name: name, dir: c.path("real", name), parts: map[nodePart]*Process{}}
}

// RealNodes are the cluster's real nodes, in the order of their names.
func (c *Cluster) RealNodes() []*RealNode { return append([]*RealNode(nil), c.real...) }

// RealNode returns the real node of that name, nil when there is none.
func (c *Cluster) RealNode(name string) *RealNode {
	for _, n := range c.real {
		if n.name == name {
			return n
		}
	}
	return nil
}

// Name is the node's name in the cluster: <cluster>-real-<n>, n from 0.
func (n *RealNode) Name() string { return n.name }

// KubeletRunning says whether the kubelet is alive (a paused one is).
func (n *RealNode) KubeletRunning() bool {
	p := n.process(kubeletPart)
	return p != nil && p.Alive()
}

// StartKubelet starts the kubelet when it does not run, and waits until it
// answers. Its containers went on while it was away.
func (n *RealNode) StartKubelet(ctx context.Context) error {
	if n.KubeletRunning() {
		return nil
	}
	if err := n.spawn(kubeletPart, n.kubeletArgs()...); err != nil {
		return err
	}
	return n.waitKubelet(ctx)
}

// StopKubelet ends the kubelet in good order (SIGTERM) and waits for its end.
// Containers go on.
func (n *RealNode) StopKubelet() error {
	return n.do(kubeletPart, func(p *Process) error { return p.Stop(10 * time.Second) })
}

// KillKubelet ends the kubelet at once (SIGKILL). Containers go on.
func (n *RealNode) KillKubelet() error { return n.do(kubeletPart, (*Process).Kill) }

// PauseKubelet stops the kubelet from running (SIGSTOP).
func (n *RealNode) PauseKubelet() error { return n.do(kubeletPart, (*Process).Pause) }

// ResumeKubelet lets a paused kubelet run on.
func (n *RealNode) ResumeKubelet() error { return n.do(kubeletPart, (*Process).Resume) }

// RestartContainerd ends containerd at once and starts it again. Containers go
// on.
func (n *RealNode) RestartContainerd(ctx context.Context) error {
	if err := n.do(containerdPart, (*Process).Kill); err != nil {
		return err
	}
	return n.startContainerd(ctx)
}

// KubeletLog is the path of the kubelet's log.
func (n *RealNode) KubeletLog() string { return n.log(kubeletPart) }

// ContainerdLog is the path of containerd's log.
func (n *RealNode) ContainerdLog() string { return n.log(containerdPart) }

// Exec runs a command in the running container of a pod and returns its standard
// output; when it fails, its standard error is in the error. It asks containerd, so it works while the
// kubelet or the API server is away. The lab's images hold no shell; their
// program has commands of its own, see [Image].
func (n *RealNode) Exec(ctx context.Context, namespace, pod, container string, command ...string) ([]byte, error) {
	id, err := n.running(ctx, namespace, pod, "io.kubernetes.container.name", container)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, fmt.Errorf("container %s of pod %s/%s does not run on %s", container, namespace, pod, n.name)
	}
	exec := "lab-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	return n.ctr(ctx, append([]string{"tasks", "exec", "--exec-id", exec, id}, command...)...)
}

// Sandbox is the id of the sandbox of a pod that runs: it holds the pod's network and
// stays while containers are replaced in it.
func (n *RealNode) Sandbox(ctx context.Context, namespace, pod string) (string, error) {
	id, err := n.running(ctx, namespace, pod, "io.cri-containerd.kind", "sandbox")
	if err == nil && id == "" {
		err = fmt.Errorf("pod %s/%s has no sandbox that runs on %s", namespace, pod, n.name)
	}
	return id, err
}

// running is the id of the pod's running container that has a label, empty when none has.
func (n *RealNode) running(ctx context.Context, namespace, pod, label, value string) (string, error) {
	filter := fmt.Sprintf("labels.%q==%s,labels.%q==%s,labels.%q==%s",
		"io.kubernetes.pod.namespace", namespace, "io.kubernetes.pod.name", pod, label, value)
	known, err := n.ctr(ctx, "containers", "ls", "-q", filter)
	if err != nil {
		return "", err
	}
	tasks, err := n.ctr(ctx, "tasks", "ls")
	if err != nil {
		return "", err
	}
	return runningTask(string(tasks), strings.Fields(string(known))), nil
}

// runningTask picks the container whose task runs, from the table that ctr prints.
func runningTask(table string, ids []string) string {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "RUNNING" {
			continue
		}
		for _, id := range ids {
			if id == fields[0] {
				return id
			}
		}
	}
	return ""
}

// LoadImages puts the lab's images on the node. It has them from its start; this
// brings back what RemoveImages took.
func (n *RealNode) LoadImages(ctx context.Context) error {
	archive := filepath.Join(n.dir, "node", "images.tar")
	if err := writeImages(archive, n.cluster.fleet.bin[appBinary]); err != nil {
		return err
	}
	defer os.Remove(archive)
	_, err := n.ctr(ctx, "images", "import", "--local", "--snapshotter", n.snapshotter(), "/node/images.tar")
	return err
}

// RemoveImages takes images off the node, so that a new container with one of
// them, of imagePullPolicy Never, waits with ErrImageNeverPull.
func (n *RealNode) RemoveImages(ctx context.Context, images ...string) error {
	_, err := n.ctr(ctx, append([]string{"images", "rm", "--sync"}, images...)...)
	return err
}

// ctr asks the node's containerd, in the namespace that the kubelet uses.
func (n *RealNode) ctr(ctx context.Context, args ...string) ([]byte, error) {
	p := n.process(initPart)
	if p == nil || !p.Alive() {
		return nil, fmt.Errorf("node %s does not run", n.name)
	}
	argv := append([]string{"enter", strconv.Itoa(p.PID()), "/node/bin/ctr", "-n", "k8s.io"}, args...)
	return n.cluster.fleet.output(ctx, n.cluster.fleet.bin[nodeBinary], argv)
}

func (n *RealNode) process(part nodePart) *Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.parts[part]
}

func (n *RealNode) do(part nodePart, act func(*Process) error) error {
	if p := n.process(part); p != nil {
		return act(p)
	}
	return nil
}

func (n *RealNode) log(part nodePart) string {
	return n.cluster.path("logs", n.name+"-"+string(part)+".log")
}

func (n *RealNode) errEnded(part nodePart) error {
	return fmt.Errorf("%s of %s ended; its log ends with\n%s", part, n.name, lastLines(n.log(part), 15))
}

// kill ends the node. Its first process dies, and with it, by the kernel, every
// other one of the node, before Kill returns; the rest only waits for the helpers
// that stood for them outside.
func (n *RealNode) kill() error {
	var errs []error
	for _, part := range []nodePart{initPart, kubeletPart, containerdPart} {
		errs = append(errs, n.do(part, (*Process).Kill))
	}
	n.mu.Lock()
	clear(n.parts)
	n.mu.Unlock()
	return errors.Join(append(errs, removeCgroups(n.cgroup()))...)
}

func (n *RealNode) snapshot() nodeState {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := nodeState{Port: n.port, Parts: map[nodePart]*processState{}}
	for part, p := range n.parts {
		s.Parts[part] = p.saved()
	}
	return s
}

func (n *RealNode) restore(s nodeState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.port = s.Port
	for part, p := range s.Parts {
		n.parts[part] = p.process()
	}
}

// spawn starts a program inside the node.
func (n *RealNode) spawn(part nodePart, argv ...string) error {
	first := n.process(initPart)
	if first == nil {
		return fmt.Errorf("node %s does not run", n.name)
	}
	return n.keep(part, command{
		path:  n.cluster.fleet.bin[nodeBinary],
		args:  append([]string{"enter", strconv.Itoa(first.PID())}, argv...),
		env:   []string{"PATH=/node/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		group: true,
	})
}

// spawnInit starts the node's first process, in namespaces that begin with it.
func (n *RealNode) spawnInit() error {
	bin := n.cluster.fleet.bin[nodeBinary]
	cache := filepath.Dir(filepath.Dir(bin))
	return n.keep(initPart, command{
		path:       bin,
		args:       []string{"init", n.dir, cache + ":/node/cache"},
		namespaces: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
	})
}

func (n *RealNode) keep(part nodePart, cmd command) error {
	cmd.name, cmd.log = n.name+"/"+string(part), n.log(part)
	p, err := n.cluster.fleet.spawn(cmd)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.parts[part] = p
	n.mu.Unlock()
	return n.cluster.fleet.save()
}
