//go:build lab

package lab

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// traces look for what a fleet with real nodes leaves on the machine. Others may
// use it at the same time, so all but the files are told apart by the fleet's
// mark, directory and subnets.
type traces struct {
	dir, mark string
	subnets   []*net.IPNet
	// files are those in the usual places before the fleet was started.
	files map[string]bool
}

// usualFiles are in the places where kubelet, containerd and CNI plugins write
// when they are at home.
func usualFiles() map[string]bool {
	found := map[string]bool{}
	for _, dir := range []string{
		"/run/netns", "/run/containerd", "/var/lib/containerd", "/var/lib/cni", "/var/lib/kubelet", "/run/kubelet",
		"/var/log/pods", "/var/log/containers", "/etc/cni", "/opt/cni", "/run/runc", "/usr/libexec/kubernetes", "/node",
	} {
		_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				found[path] = true
			}
			return nil
		})
	}
	return found
}

// learn reads what names the fleet's things, while it runs.
func (s *traces) learn(t *testing.T) {
	t.Helper()
	state, err := readState(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	s.mark = state.Mark
	found, err := filepath.Glob(filepath.Join(s.dir, "clusters", "*", "real", "*", "node", "ready"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range found {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, subnet, err := net.ParseCIDR(strings.Fields(string(data))[0])
		if err != nil {
			t.Fatal(err)
		}
		s.subnets = append(s.subnets, subnet)
	}
}

// kinds of traces.
const (
	traceProcess, traceMount, traceLink, traceCgroup, traceFile = "process", "mount", "link", "cgroup", "file"
)

// find returns what there is now, by kind.
func (s *traces) find(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{traceProcess: s.processes(t)}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if point := strings.Fields(line)[4]; strings.HasPrefix(point, s.dir+"/") {
			found[traceMount] = append(found[traceMount], point)
		}
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		addresses, _ := i.Addrs()
		if slices.ContainsFunc(addresses, s.inSubnets) {
			found[traceLink] = append(found[traceLink], i.Name)
		}
	}
	points, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, point := range points {
		if dir := filepath.Join(point, cgroupName(s.mark)); isThere(dir) {
			found[traceCgroup] = append(found[traceCgroup], dir)
		}
	}
	for path := range usualFiles() {
		if !s.files[path] {
			found[traceFile] = append(found[traceFile], path)
		}
	}
	return found
}

// processes are those of the lab, by the mark in their environment, and those of
// containers, by their cgroup.
func (s *traces) processes(t *testing.T) []string {
	t.Helper()
	pids, err := marked(s.mark)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, pid := range pids {
		found = append(found, fmt.Sprint(pid))
	}
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(data), cgroupName(s.mark)) {
			found = append(found, filepath.Base(filepath.Dir(file))+" (a container)")
		}
	}
	return found
}

func (s *traces) inSubnets(a net.Addr) bool {
	n, ok := a.(*net.IPNet)
	return ok && slices.ContainsFunc(s.subnets, func(subnet *net.IPNet) bool { return subnet.Contains(n.IP) })
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// mustSee fails when the search is blind: a fleet with a pod has these.
func (s *traces) mustSee(t *testing.T, kinds ...string) {
	t.Helper()
	found := s.find(t)
	for _, kind := range kinds {
		if len(found[kind]) == 0 {
			t.Errorf("no %s of a fleet that runs is found: %v", kind, found)
		}
	}
}

// mustBeGone fails when something is left. Links go a moment after their network
// namespace.
func (s *traces) mustBeGone(t *testing.T) {
	t.Helper()
	await(t, "nothing is left", func() error {
		for kind, what := range s.find(t) {
			if len(what) > 0 {
				return fmt.Errorf("left: %s %v", kind, what)
			}
		}
		return nil
	})
}

// TestRealNodesOfAKilledOwner: when the owner of a fleet is killed the kernel ends
// everything of its nodes, and Down, as the next Start does it, removes the rest.
func TestRealNodesOfAKilledOwner(t *testing.T) {
	needContainers(t)
	left := traces{dir: t.TempDir(), files: usualFiles()}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+left.dir, helperVariable+"_REAL=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = Down(left.dir) })
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "done" {
		t.Fatalf("the owner says %q", lines.Text())
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(left.dir, "clusters", "member-1", "kubeconfigs", "admin.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(cfg)
	pod := memoryPod()
	if _, err := client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, client, pod.Name, nil, ready(corev1.ConditionTrue))
	left.learn(t)
	left.mustSee(t, traceProcess, traceLink, traceCgroup)

	kill9(t, cmd)
	await(t, "the kernel has ended the processes", func() error {
		if found := left.processes(t); len(found) > 0 {
			return fmt.Errorf("left: %v", found)
		}
		return nil
	})
	if err := Down(left.dir); err != nil {
		t.Fatal(err)
	}
	left.mustBeGone(t)
}

// memoryPod has a volume that the kubelet mounts.
func memoryPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "left", Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "main", Image: Image(AppImage, "v1"), ImagePullPolicy: corev1.PullNever,
				VolumeMounts: []corev1.VolumeMount{{Name: "memory", MountPath: "/memory"}},
			}},
			Volumes: []corev1.Volume{{Name: "memory", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
			}}},
		},
	}
}

// TestRealNodesOfAFailedStart: a start that is cut short while nodes come up
// leaves nothing.
func TestRealNodesOfAFailedStart(t *testing.T) {
	needContainers(t)
	left := traces{dir: t.TempDir(), files: usualFiles()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := Start(ctx, Options{Dir: left.dir, Members: 1, RealNodes: 1, Log: os.Stderr})
		failed <- err
	}()
	await(t, "containerd starts", func() error {
		// The socket is there a moment before anything asks it.
		found, err := filepath.Glob(filepath.Join(left.dir, "clusters", "member-1", "real", "*", "run", "containerd", "containerd.sock"))
		if err != nil || len(found) == 0 {
			return fmt.Errorf("no socket: %w", err)
		}
		return nil
	})
	left.learn(t)
	left.mustSee(t, traceProcess, traceCgroup)
	cancel()
	select {
	case err := <-failed:
		if err == nil {
			t.Fatal("a start that was cut short succeeds")
		}
	case <-time.After(time.Minute):
		t.Fatal("a start that was cut short does not end")
	}
	left.mustBeGone(t)
}
