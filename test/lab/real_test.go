//go:build lab

package lab

import (
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// realFleet starts a fleet of one member, or skips, loudly, on a machine that
// cannot run containers.
func realFleet(t *testing.T, opts Options) *Fleet {
	t.Helper()
	if err := CanRunContainers(t.Context(), "", os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED real nodes: %v\n", err)
		t.Skipf("SKIPPED real nodes: %v", err)
	}
	opts.Log = os.Stderr
	began := time.Now()
	fleet, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("up after %.1fs", time.Since(began).Seconds())
	return fleet
}

func realPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, Labels: map[string]string{"app": "real"}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{TypeLabel: RealType},
			Containers:   []corev1.Container{{Name: "main", Image: Image(AppImage, "v1"), ImagePullPolicy: corev1.PullNever}},
		},
	}
}

func TestRealNodes(t *testing.T) {
	fleet := realFleet(t, Options{Members: 1, Nodes: 1, RealNodes: 2})
	defer fleet.Stop()
	m := fleet.Member("member-1")
	client := kubernetes.NewForConfigOrDie(m.RESTConfig())
	pod, err := client.CoreV1().Pods("default").Create(t.Context(), realPod("a"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	awaitPod(t, client, pod.Name, nil, ready(corev1.ConditionTrue))
}
