package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// PoolLabel is on every node, with the value a or b: two node pools.
const PoolLabel = "lab.underway.dev/pool"

// NodeName is the name of the cluster's i-th node.
func (c *Cluster) NodeName(i int) string { return c.name + "-node-" + strconv.Itoa(i) }

// createNodes registers the simulated nodes as a kubelet registers itself.
func (c *Cluster) createNodes(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	if c.state.Nodes > 0 {
		if err := c.guardPods(ctx, client); err != nil {
			return err
		}
	}
	for i := range c.state.Nodes {
		_, err := client.CoreV1().Nodes().Create(ctx, c.node(i), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

func (c *Cluster) node(i int) *corev1.Node {
	name := c.NodeName(i)
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("256"),
		corev1.ResourceMemory:           resource.MustParse("1Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("2000"),
	}
	// 2046 addresses a node, for 2000 pods.
	cidr := fmt.Sprintf("10.%d.%d.0/21", 128+i/32%128, i%32*8)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				TypeLabel:                      SimulatedType,
				PoolLabel:                      pool(i),
				corev1.LabelHostname:           name,
				corev1.LabelOSStable:           "linux",
				corev1.LabelArchStable:         "amd64",
				corev1.LabelTopologyRegion:     c.name,
				corev1.LabelTopologyZone:       c.zone(i),
				corev1.LabelInstanceTypeStable: "simulated",
			},
		},
		Spec: corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr}},
		Status: corev1.NodeStatus{
			Capacity:    room,
			Allocatable: room,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.%d.%d.%d", 64+c.index%64, i/250%250, i%250+1)},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: "v1.37.2", OperatingSystem: "linux", Architecture: "amd64",
				ContainerRuntimeVersion: "sim://1", OSImage: "simulated", KernelVersion: "simulated",
			},
		},
	}
}

// pool and zone are those of the i-th node, simulated or real.
func pool(i int) string              { return []string{"a", "b"}[i%2] }
func (c *Cluster) zone(i int) string { return c.name + []string{"-a", "-b", "-c"}[i%3] }

// waitUsable waits until a pod can be created and scheduled: the nodes are ready
// and not tainted, and the default namespace has its service account.
func (c *Cluster) waitUsable(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		missing := c.missing(ctx, client)
		if missing == nil {
			return nil
		}
		if err := c.ended(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not fit for use: %w", c.name, missing)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// ended names a part or a kubelet that does not run, with the end of its log.
func (c *Cluster) ended() error {
	for _, part := range c.Parts() {
		if !c.Running(part) {
			return c.errEnded(part)
		}
	}
	for _, n := range c.real {
		if !n.KubeletRunning() {
			return n.errEnded(kubeletPart)
		}
	}
	return nil
}

// missing says what a pod would wait for.
func (c *Cluster) missing(ctx context.Context, client kubernetes.Interface) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	if want := c.state.Nodes + len(c.real); len(nodes.Items) < want {
		return fmt.Errorf("%d of %d nodes", len(nodes.Items), want)
	}
	for _, node := range nodes.Items {
		if len(node.Spec.Taints) > 0 {
			return fmt.Errorf("node %s has the taint %s", node.Name, node.Spec.Taints[0].Key)
		}
		if !nodeReady(node) {
			return errors.New("node " + node.Name + " is not ready")
		}
	}
	_, err = client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

func nodeReady(node corev1.Node) bool {
	for _, cond := range node.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return cond.Status == corev1.ConditionTrue
		}
	}
	return false
}
