package workload

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podview"
	"github.com/underway-dev/underway/inplace/podwriter"
)

// Options are what a Reconciler is made of.
type Options struct {
	Kind     Kind
	Resource Resource
	// Cache reads what Caches and Index set up.
	Cache client.Reader
	// PodsVersion is the resourceVersion up to which the cache of pods has come; empty when it cannot tell.
	PodsVersion func() string
	// Claims is the cache's watch of claims.
	Claims Feed
	// Nodes may be nil: then no labels of nodes are known.
	Nodes *Nodes
	// Live reads from the API server and writes to it.
	Live client.Client
	// Events may be nil: then none are written.
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Metrics may be nil.
	Metrics *Metrics
	// Extended is false where the CRD is not ours and would drop status.underway.
	Extended bool
	// NoResize says why cpu and memory cannot be changed in place in this cluster; empty: they can. Nil: they can.
	NoResize func() string
}

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles the objects of one kind.
type Reconciler struct {
	Options

	// named is the Kind, where it is Named; else nil.
	named  Named
	pods   *podwriter.Writer
	memory *podview.Memory
	ledger *ledger
	// classes are the storage classes as they were read last.
	classes atomic.Pointer[classes]
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	named, _ := o.Kind.(Named)
	return &Reconciler{Options: o, named: named, pods: podwriter.New(o.Live), memory: podview.NewMemory(), ledger: newLedger()}
}

// Reconcile is one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	seen, err := r.observe(ctx, req.NamespacedName)
	if err != nil || seen == nil {
		return ctrl.Result{}, err
	}
	if seen.wait > 0 {
		return ctrl.Result{RequeueAfter: seen.wait}, nil
	}
	if !seen.members.none() {
		changed, err := r.claim(ctx, seen)
		if err != nil {
			// Nothing else is done meanwhile, as others would take their places; the object says why.
			seen.unstored = seen.history.Create != nil
			_, reportErr := r.report(ctx, seen, r.decide(seen), failuresOf(err))
			return ctrl.Result{}, errors.Join(ignoreConflict(err), ignoreConflict(reportErr))
		}
		if changed {
			return ctrl.Result{RequeueAfter: lookAgain}, nil
		}
	}
	decision := r.decide(seen)
	acted, actErr := r.act(ctx, seen, decision)
	again, reportErr := r.conclude(ctx, seen, decision, failuresOf(actErr))
	r.tell(ctx, seen, decision, acted)
	refused, actErr := withoutRefusedClaims(actErr)
	if err := errors.Join(ignoreConflict(actErr), ignoreConflict(reportErr)); err != nil {
		return ctrl.Result{}, err
	}
	if refused {
		again = soonest(again, claimAgain)
	}
	if actErr != nil {
		// A conflict that nothing need bring to us: a quota's, or a revision's, which is not watched.
		again = soonest(again, lookAgain)
	}
	return ctrl.Result{RequeueAfter: soonest(decision.LookAgainIn, acted.again, again)}, nil
}

// conclude writes what is done with out of the spec, or else the status: the former makes another version of the object,
// which is looked at next.
func (r *Reconciler) conclude(ctx context.Context, seen *observation, d inplace.Decision, failed failures) (again time.Duration, err error) {
	names, err := r.strike(ctx, seen)
	if len(names.gone) > 0 {
		r.emit(seen, struckOut(names.gone))
		return 0, err
	}
	seen.struck = names
	again, reportErr := r.report(ctx, seen, d, failed)
	return again, errors.Join(err, reportErr)
}

// soonest is the smallest positive duration, 0 if there is none.
func soonest(all ...time.Duration) time.Duration {
	var least time.Duration
	for _, d := range all {
		if d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}

// ignoreConflict drops conflicts and keeps what was joined to them: a newer version exists, and is looked at next.
func ignoreConflict(err error) error {
	return errors.Join(slices.DeleteFunc(flatten(err), apierrors.IsConflict)...)
}

// claimAgain is when a change of a claim that the API server refused is tried again: nothing tells when a quota has room. The
// conditions show its words until then.
const claimAgain = 30 * time.Second

// withoutRefusedClaims takes the clear refusals of changes of claims out of an error.
func withoutRefusedClaims(err error) (refused bool, rest error) {
	all := flatten(err)
	kept := slices.DeleteFunc(all, func(e error) bool {
		claim := (*podwriter.ClaimError)(nil)
		return errors.As(e, &claim) && claim.Refused()
	})
	return len(kept) < len(all), errors.Join(kept...)
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range many.Unwrap() {
		all = append(all, flatten(e)...)
	}
	return all
}
