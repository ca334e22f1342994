package member

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestNoResize: whether cpu and memory change in place is asked of the API server (upstream guesses it from the version,
// O173), and what cannot be read keeps the last answer.
func TestNoResize(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	served := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{}}
	s := &supervisor{live: fake.NewClientBuilder().WithScheme(scheme).Build(), served: served}
	probe := func(resources ...string) error {
		list := &metav1.APIResourceList{GroupVersion: "v1"}
		for _, name := range resources {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
		}
		served.Resources = []*metav1.APIResourceList{list}
		_, err := s.probe(t.Context(), time.Unix(1_800_000_000, 0))
		return err
	}
	if err := probe("pods", "pods/status"); err != nil || !strings.Contains(s.noResize(), "pods/resize") {
		t.Errorf("not served: %q, %v", s.noResize(), err)
	}
	served.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("down") })
	if err := probe("pods", "pods/resize"); err == nil || s.noResize() == "" {
		t.Errorf("unreadable: %q, %v", s.noResize(), err)
	}
	served.ReactionChain = nil
	if err := probe("pods", "pods/status", "pods/resize"); err != nil || s.noResize() != "" {
		t.Errorf("served: %q, %v", s.noResize(), err)
	}
}
