//go:build lab

package lab

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
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
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
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
	brief := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	if err := listNodes(brief(), client); err == nil {
		t.Error("an answer through a cut link")
	}
	mend := func() {
		t.Helper()
		if err := link.Mend(); err != nil {
			t.Fatal(err)
		}
	}
	mend()
	if err := link.Refuse(); err != nil {
		t.Fatal(err)
	}
	if err := listNodes(t.Context(), client); !utilnet.IsConnectionRefused(err) {
		t.Errorf("a link that refuses: %v", err)
	}
	mend()
	if err := listNodes(t.Context(), client); err != nil {
		t.Errorf("through the mended link: %v", err)
	}
	link.Freeze()
	for _, c := range []kubernetes.Interface{client, clientOf(t, path)} { // over the old connection, and over a new one
		if err := listNodes(brief(), c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a frozen link: %v", err)
		}
	}
	mend()
	link.Slow(300 * time.Millisecond)
	began := time.Now()
	if err := listNodes(t.Context(), client); err != nil {
		t.Errorf("through the slow link: %v", err)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("an answer after %s through a link with a delay of 300ms", took)
	}
}

func testPoint(t *testing.T, c, other *Cluster) {
	link, err := c.Link()
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	path, err := link.KubeconfigFor("far", []string{"system:masters"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	client := clientOf(t, path)
	if err := listNodes(t.Context(), client); err != nil {
		t.Error(err)
	}
	link.Point(other)
	var unknown x509.UnknownAuthorityError
	if err := listNodes(t.Context(), client); !errors.As(err, &unknown) {
		t.Errorf("another cluster under the same address: %v", err)
	}
	link.Point(c)
	if err := listNodes(t.Context(), client); err != nil {
		t.Errorf("led back: %v", err)
	}
}

func testGateway(t *testing.T, c, other *Cluster) {
	g, err := c.Gateway()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	path, err := g.KubeconfigFor("through", []string{"system:masters"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	mark, err := c.Mark()
	if err != nil {
		t.Fatal(err)
	}
	client := clientOf(t, path)
	if err := listNodes(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	events, err := c.Since(mark, ByUser("through"), On("nodes"))
	if err != nil || len(events) != 1 || events[0].Verb != "list" {
		t.Errorf("the API server saw %+v (%v)", events, err)
	}
	expired, err := g.KubeconfigFor("late", []string{"system:masters"}, -time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := listNodes(t.Context(), clientOf(t, expired)); !apierrors.IsUnauthorized(err) {
		t.Errorf("an expired credential got %v", err)
	}

	const delay = 3 * time.Second
	g.Disturb(func(r *http.Request) Fault {
		switch {
		case r.URL.Path == "/version":
			return Fault{Status: http.StatusServiceUnavailable}
		case IsList(r):
			return Fault{Delay: delay}
		}
		return Fault{}
	})
	began := time.Now()
	if err := listNodes(t.Context(), client); err != nil || time.Since(began) < delay {
		t.Errorf("a delayed list took %s: %v", time.Since(began), err)
	}
	if _, err := client.Discovery().ServerVersion(); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a refused request: %v", err)
	}
	// A watch is no list: it begins long before a list would.
	const long = 2 * time.Minute
	g.Disturb(func(r *http.Request) Fault {
		if IsList(r) {
			return Fault{Delay: long}
		}
		return Fault{}
	})
	began = time.Now()
	watch, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if first := <-watch.ResultChan(); first.Object == nil || time.Since(began) > long {
		t.Errorf("a watch began with %+v after %s", first, time.Since(began))
	}

	g.Disturb(nil)
	g.Point(other)
	mark, err = other.Mark()
	if err != nil {
		t.Fatal(err)
	}
	if err := listNodes(t.Context(), client); err != nil {
		t.Errorf("a gateway to another cluster, which knows the same names: %v", err)
	}
	if events, err = other.Since(mark, ByUser("through")); err != nil || len(events) == 0 {
		t.Errorf("the other cluster saw %v (%v)", events, err)
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
