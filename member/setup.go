package member

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace/recorder"
	"github.com/underway-dev/underway/member/cloneset"
	"github.com/underway-dev/underway/member/statefulset"
	"github.com/underway-dev/underway/member/workload"
)

// Name is the agent's name: of its binary, its user agent, its leader Lease and its events.
const Name = "underway-member"

// Options of the agent.
type Options struct {
	// Concurrency is how many objects of a kind are reconciled at once. Default 5.
	Concurrency int
	// PartitionRollback is what spec.updateStrategy.partitionRollback is where a CloneSet does not say. Default false.
	PartitionRollback bool
	// Clock is the agent's. Default the real one.
	Clock clock.WithTicker
	// LeaseName is the leader Lease on which the agent says who keeps it from a kind; empty: it says so in the log only.
	LeaseName string
}

// kind is one entry of the list.
type kind struct {
	workload.Kind

	resource workload.Resource
}

// kinds is the list of what the agent reconciles.
func kinds(o Options) []kind {
	return []kind{
		{cloneset.Kind{PartitionRollback: o.PartitionRollback}, cloneset.Resource()},
		{statefulset.Kind{}, statefulset.Resource()},
	}
}

// AddToScheme registers what the agent reads and writes.
func AddToScheme(s *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, discoveryv1.AddToScheme, coordinationv1.AddToScheme,
		eventsv1.AddToScheme, storagev1.AddToScheme, appsv1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			return fmt.Errorf("registering types: %w", err)
		}
	}
	return nil
}

// Setup adds the agent to a manager whose scheme has AddToScheme's types.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Concurrency <= 0 {
		o.Concurrency = 5
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	counters, err := workload.NewMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	active, err := newActive(metrics.Registry)
	if err != nil {
		return err
	}
	live, err := client.New(mgr.GetConfig(), client.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
	})
	if err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("building the discovery client: %w", err)
	}
	s := &supervisor{
		Options: o, mgr: mgr, live: live, served: served, counters: counters, active: active,
		events: recorder.Worded(mgr.GetEventRecorder(Name), corev1.EventTypeWarning), kinds: kinds(o),
	}
	if err := mgr.Add(s); err != nil {
		return fmt.Errorf("adding the agent to the manager: %w", err)
	}
	return nil
}
