//go:build lab

package integration

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

func TestIntegration(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	suite.Timeout = 35 * time.Minute
	RunSpecs(t, "Integration", suite, reporter)
}

// shared is the fleet of the specs that disturb nobody; binaries is where the product was built. The suite runs in several
// processes at once (make test-lab): the first one starts the fleet, its hub and its agents, the others only look at it.
var (
	shared   *world
	binaries string
)

// place is what the first process tells the others.
type place struct{ Fleet, Binaries string }

var _ = SynchronizedBeforeSuite(func(ctx context.Context) []byte {
	binaries = buildProduct(ctx)
	shared = newWorld(ctx, binaries, "east", "west", "north")
	told, err := json.Marshal(place{Fleet: shared.fleet.Dir(), Binaries: binaries})
	Expect(err).NotTo(HaveOccurred())
	return told
}, func(told []byte) {
	if shared != nil {
		return
	}
	var at place
	Expect(json.Unmarshal(told, &at)).To(Succeed())
	binaries = at.Binaries
	shared = openWorld(at.Fleet, at.Binaries)
})

var _ = BeforeEach(func() {
	for _, w := range worlds {
		w.spaces = nil
	}
})

// What a person would look at first, of every fleet in which the spec that failed has a namespace.
var _ = JustAfterEach(func(ctx context.Context) {
	if !CurrentSpecReport().Failed() {
		return
	}
	for _, w := range worlds {
		w.tell(ctx)
	}
})

func leaseOf(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: appsv1alpha1.SystemNamespace, Name: name}}
}
