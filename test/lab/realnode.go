package lab

import (
	"context"
	"errors"
	"io"
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

var errNotYet = errors.New("real nodes are being built")

// RealNode is one real node of a member: a kubelet, a containerd and the
// containers they run, in namespaces of their own.
type RealNode struct {
	cluster *Cluster
	name    string
}

// RealNodes are the cluster's real nodes, in the order of their names.
func (c *Cluster) RealNodes() []*RealNode { return nil }

// RealNode returns the real node of that name, nil when there is none.
func (c *Cluster) RealNode(_ string) *RealNode { return nil }

// Name is the node's name in the cluster: <cluster>-real-<n>, n from 0.
func (n *RealNode) Name() string { return n.name }

// KubeletRunning says whether the kubelet is alive (a paused one is).
func (n *RealNode) KubeletRunning() bool { return false }

// StartKubelet starts the kubelet when it does not run, and waits until it
// answers. Its containers went on while it was away.
func (n *RealNode) StartKubelet(_ context.Context) error { return errNotYet }

// StopKubelet ends the kubelet in good order (SIGTERM) and waits for its end.
// Containers go on.
func (n *RealNode) StopKubelet() error { return errNotYet }

// KillKubelet ends the kubelet at once (SIGKILL). Containers go on.
func (n *RealNode) KillKubelet() error { return errNotYet }

// PauseKubelet stops the kubelet from running (SIGSTOP).
func (n *RealNode) PauseKubelet() error { return errNotYet }

// ResumeKubelet lets a paused kubelet run on.
func (n *RealNode) ResumeKubelet() error { return errNotYet }

// RestartContainerd ends containerd at once and starts it again. Containers go
// on.
func (n *RealNode) RestartContainerd(_ context.Context) error { return errNotYet }

// Exec runs a command in the running container of a pod and returns what it
// printed (standard output and error). It asks containerd, so it works while the
// kubelet or the API server is away. The lab's images hold no shell; their
// programs have the commands "cat FILE" and "write FILE TEXT", see [Image].
func (n *RealNode) Exec(_ context.Context, _, _, _ string, _ ...string) ([]byte, error) {
	return nil, errNotYet
}

// LoadImages puts images of the lab (names as [Image] returns them; none named:
// all) on the node. Every node starts with all of them.
func (n *RealNode) LoadImages(_ context.Context, _ ...string) error { return errNotYet }

// RemoveImages takes images off the node, so that a container of imagePullPolicy
// Never waits with ErrImageNeverPull.
func (n *RealNode) RemoveImages(_ context.Context, _ ...string) error { return errNotYet }

// KubeletLog is the path of the kubelet's log.
func (n *RealNode) KubeletLog() string { return "" }

// CanRunContainers says whether this machine can have real nodes: nil, or an
// error that names what is missing and the remedy. It builds the binaries, and
// runs a container. The answer is found once per process.
func CanRunContainers(_ context.Context, _ string, _ io.Writer) error { return errNotYet }
