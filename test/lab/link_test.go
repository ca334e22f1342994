//go:build lab

package lab

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func clientOf(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes.NewForConfigOrDie(cfg)
}

func listNodes(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	return err
}

func testLink(t *testing.T, c *Cluster) {
	path, err := c.KubeconfigFor("short-lived", []string{"system:masters"}, -time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := listNodes(t.Context(), clientOf(t, path)); !apierrors.IsUnauthorized(err) {
		t.Errorf("an expired credential got %v", err)
	}

	link, err := c.Link()
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	path, err = link.KubeconfigFor("far", []string{"system:masters"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	client := clientOf(t, path)
	if err := listNodes(t.Context(), client); err != nil {
		t.Errorf("through the link: %v", err)
	}
	link.Cut()
	if err := listNodes(t.Context(), client); err == nil {
		t.Error("an answer through a cut link")
	}
	link.Mend()
	link.Slow(300 * time.Millisecond)
	began := time.Now()
	if err := listNodes(t.Context(), client); err != nil {
		t.Errorf("through the slow link: %v", err)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("an answer after %s through a link with a delay of 300ms", took)
	}
}

func testBackup(t *testing.T, c *Cluster) {
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	create := func(name string) {
		t.Helper()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("before")
	backup, err := c.Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	create("after")
	if err := c.Restore(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	if _, err := maps.Get(t.Context(), "before", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := maps.Get(t.Context(), "after", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what came after the backup: %v", err)
	}
}
