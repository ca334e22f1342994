//go:build lab

package integration

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

func TestIntegration(t *testing.T) {
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	suite.Timeout = 35 * time.Minute
	RunSpecs(t, "Integration", suite, reporter)
}

// shared is the fleet of the tests that leave it as they found it; binaries is where the product was built.
var (
	shared   *world
	binaries string
)

var _ = BeforeSuite(func(ctx context.Context) {
	binaries = buildProduct(ctx)
	shared = newWorld(ctx, binaries, "east", "west", "north")
})

func leaseOf(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: appsv1alpha1.SystemNamespace, Name: name}}
}
