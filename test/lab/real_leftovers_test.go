//go:build lab

package lab

import (
	"bufio"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// inventory is what nodes could leave on a machine: processes, mounts, network
// links, cgroups, and files in the usual places.
type inventory map[string]bool

// takeInventory looks at what belongs to no fleet that runs, so that others may
// use the machine meanwhile: names hold a random mark, or are pods' links.
func takeInventory(t *testing.T) inventory {
	t.Helper()
	found := inventory{}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		found["link "+i.Name] = true
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		found["mount "+strings.Fields(line)[4]] = true
	}
	for _, dir := range []string{
		"/run/netns", "/run/containerd", "/var/lib/containerd", "/var/lib/cni", "/var/lib/kubelet",
		"/var/log/pods", "/var/log/containers", "/etc/cni", "/opt/cni", "/run/runc", "/usr/libexec/kubernetes",
	} {
		_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				found["file "+path] = true
			}
			return nil
		})
	}
	points, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, point := range points {
		names, err := filepath.Glob(filepath.Join(point, "underway-lab-*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			found["cgroup "+name] = true
		}
	}
	for _, pid := range processesOfNodes(t) {
		found["process "+pid] = true
	}
	return found
}

// processesOfNodes are the processes of real nodes and of their containers: the
// programs' names are known.
func processesOfNodes(t *testing.T) []string {
	t.Helper()
	var found []string
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range commands {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		words := strings.Split(string(data), "\x00")
		if slices.Contains([]string{"/app", "/node/bin/kubelet", "/node/bin/containerd", "/node/bin/containerd-shim-runc-v2"}, words[0]) || filepath.Base(words[0]) == nodeBinary {
			found = append(found, filepath.Base(filepath.Dir(file))+" "+strings.Join(words, " "))
		}
	}
	return found
}

// mustBeAll fails when there is more now than there was. Links go a moment after
// their network namespace.
func (i inventory) mustBeAll(t *testing.T) {
	t.Helper()
	await(t, "nothing is left", func() error {
		for what := range takeInventory(t) {
			if !i[what] {
				return fmt.Errorf("left: %s", what)
			}
		}
		return nil
	})
}

// TestRealNodesOfAKilledOwner: when the owner of a fleet is killed the kernel ends
// everything of its nodes, and the next fleet removes the rest.
func TestRealNodesOfAKilledOwner(t *testing.T) {
	needContainers(t)
	before := takeInventory(t)
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+dir, helperVariable+"_REAL=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = Down(dir) })
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "done" {
		t.Fatalf("the owner says %q", lines.Text())
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "clusters", "member-1", "kubeconfigs", "admin.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(cfg)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "left", Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: Image(AppImage, "v1"), ImagePullPolicy: corev1.PullNever}},
			Volumes: []corev1.Volume{{Name: "memory", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}},
		},
	}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "memory", MountPath: "/memory"}}
	if _, err := client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, client, pod.Name, nil, ready(corev1.ConditionTrue))
	if during := takeInventory(t); len(during) <= len(before)+5 {
		t.Fatalf("the inventory does not see a node: %d things, %d before", len(during), len(before))
	}

	kill9(t, cmd)
	known := map[string]bool{}
	for what := range before {
		known[what] = true
	}
	await(t, "the kernel has ended the processes", func() error {
		for _, p := range processesOfNodes(t) {
			if !known["process "+p] {
				return fmt.Errorf("left: %s", p)
			}
		}
		return nil
	})
	if err := Down(dir); err != nil {
		t.Fatal(err)
	}
	before.mustBeAll(t)
}
