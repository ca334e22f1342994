package lab

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func (n *RealNode) kubeletArgs() []string {
	labels := map[string]string{
		TypeLabel:                      RealType,
		PoolLabel:                      pool(n.index),
		corev1.LabelTopologyRegion:     n.cluster.name,
		corev1.LabelTopologyZone:       n.cluster.zone(n.index),
		corev1.LabelInstanceTypeStable: RealType,
	}
	var pairs []string
	for k, v := range labels {
		pairs = append(pairs, k+"="+v)
	}
	address, err := machineAddress()
	if err != nil {
		// The kubelet will say the same, and configure has.
		address = net.IPv4zero
	}
	return []string{
		"/node/bin/kubelet",
		"--config=/node/kubelet.yaml",
		"--kubeconfig=/node/kubeconfig",
		"--cert-dir=/node/pki",
		"--hostname-override=" + n.name,
		"--node-ip=" + address.String(),
		"--node-labels=" + strings.Join(pairs, ","),
		"--v=2",
	}
}

// kubeletConfig is a kubelet's as it comes, but for what a node without systemd,
// without a name server and with others on the same machine needs. JSON is YAML.
func (n *RealNode) kubeletConfig(address net.IP) ([]byte, error) {
	reserved, err := reservedOfMachine()
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"address":                  address.String(),
		"port":                     n.snapshot().Port,
		"readOnlyPort":             0,
		"healthzPort":              0,
		"tlsCertFile":              "/node/kubelet.crt",
		"tlsPrivateKeyFile":        "/node/kubelet.key",
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"failCgroupV1":             false,
		"cgroupDriver":             "cgroupfs",
		// Without its own cgroups per QoS the first resize crashes the kubelet.
		"cgroupsPerQOS":          true,
		"cgroupRoot":             "/" + n.cgroup(),
		"enforceNodeAllocatable": []string{},
		"failSwapOn":             false,
		// Only who has a certificate of this cluster may run commands here.
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": false},
			"x509":      map[string]any{"clientCAFile": "/node/ca.crt"},
		},
		"authorization":  map[string]any{"mode": "AlwaysAllow"},
		"systemReserved": reserved,
		"maxPods":        RealPods,
		// The machine's disk and memory are not the node's to judge.
		"evictionHard":                map[string]string{},
		"imageGCHighThresholdPercent": 100,
		"makeIPTablesUtilChains":      false,
		// The usual one is in /usr, which is the machine's.
		"volumePluginDir": "/node/volume-plugins",
		"clusterDNS":      []string{"10.0.0.10"},
		"clusterDomain":   "cluster.local",
		"resolvConf":      "/node/resolv.conf",
	}, "", "  ")
}

// reservedOfMachine is what a node keeps from its pods, so that RealCPU and
// RealMemory are left.
func reservedOfMachine() (map[string]string, error) {
	cpus, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return nil, err
	}
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	return reserved(string(cpus), string(memory))
}

func reserved(cpuinfo, meminfo string) (map[string]string, error) {
	total := regexp.MustCompile(`(?m)^MemTotal:\s+(\d+) kB$`).FindStringSubmatch(meminfo)
	if total == nil {
		return nil, fmt.Errorf("no MemTotal in /proc/meminfo")
	}
	kib, err := strconv.ParseInt(total[1], 10, 64)
	if err != nil {
		return nil, err
	}
	keep := map[string]string{}
	cpus := int64(len(regexp.MustCompile(`(?m)^processor\s*:`).FindAllString(cpuinfo, -1)))
	wantCPU, wantMemory := resource.MustParse(RealCPU), resource.MustParse(RealMemory)
	if spare := cpus*1000 - wantCPU.MilliValue(); spare > 0 {
		keep["cpu"] = strconv.FormatInt(spare, 10) + "m"
	}
	if spare := kib*1024 - wantMemory.Value(); spare > 0 {
		keep["memory"] = strconv.FormatInt(spare, 10)
	}
	return keep, nil
}

func containerdConfig(snapshotter string) []byte {
	return fmt.Appendf(nil, `version = 3
[plugins."io.containerd.cri.v1.images"]
  snapshotter = %q
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = %q
[plugins."io.containerd.cri.v1.runtime"]
  enable_selinux = false
  # Without it every sandbox fails on a machine that is a container itself.
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    use_internal_loopback = true
    bin_dirs = ["/node/cni/bin"]
    conf_dir = "/node/cni/conf"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
      BinaryName = "/node/bin/runc"
`, snapshotter, pauseImage)
}

func cniConfig(subnet string) []byte {
	return fmt.Appendf(nil, `{"cniVersion":"1.0.0","name":"lab","plugins":[{"type":"ptp","ipMasq":false,
"ipam":{"type":"host-local","ranges":[[{"subnet":%q}]],"routes":[{"dst":"0.0.0.0/0"}]}}]}
`, subnet)
}
