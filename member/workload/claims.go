package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/claims"
	"github.com/underway-dev/underway/inplace/podwriter"
)

// Feed says how far a watch has come.
type Feed struct {
	// Synced reports whether the watch has shown all that exists once.
	Synced func() bool
	// Version is the resourceVersion up to which it has come; empty when it cannot tell.
	Version func() string
}

// synced is Synced; a watch that nobody told us of has shown nothing.
func (f Feed) synced() bool {
	return f.Synced != nil && f.Synced()
}

// Claim returns an empty claim, of the kind that is read and cached. Little of it is kept (leanClaim).
func Claim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{}
}

// readClaims lists the claims that the object controls, like readPods. A watch of claims that has not begun (or may not)
// holds up nobody who asks for none; for others they are read from the API server meanwhile.
func (r *Reconciler) readClaims(ctx context.Context, seen *observation, _ []corev1.Pod) error {
	await := &seen.book.claims
	if !r.Claims.synced() {
		if !seen.wanted.Claims {
			return nil
		}
		return r.readClaimsLive(ctx, seen)
	}
	if r.named != nil && !seen.wanted.Claims {
		// None of them is written to.
		return nil
	}
	version, list := r.Claims.Version(), &corev1.PersistentVolumeClaimList{}
	which := []client.ListOption{client.InNamespace(seen.obj.GetNamespace())}
	if r.named == nil {
		which = append(which, client.MatchingFields{indexController: string(seen.obj.GetUID())})
	}
	if err := r.Cache.List(ctx, list, which...); err != nil {
		return fmt.Errorf("listing the claims: %w", err)
	}
	r.keepClaims(seen, list.Items)
	if await.caughtUp(version, seen.activeClaims()) {
		return nil
	}
	if seen.wait = max(seen.book.patienceLeft(await, seen.now), 0); seen.wait > 0 {
		return nil
	}
	return r.readClaimsLive(ctx, seen)
}

func (r *Reconciler) readClaimsLive(ctx context.Context, seen *observation) error {
	list := &corev1.PersistentVolumeClaimList{}
	which := []client.ListOption{client.InNamespace(seen.obj.GetNamespace())}
	if r.Resource.PodLabel != "" {
		which = append(which, client.HasLabels{r.Resource.PodLabel})
	}
	if err := r.Live.List(ctx, list, which...); err != nil {
		return fmt.Errorf("listing the claims live: %w", err)
	}
	seen.book.claims.settle(list.ResourceVersion)
	r.keepClaims(seen, list.Items)
	return nil
}

// keepClaims keeps the object's own; of a Named kind those whose names it uses.
func (r *Reconciler) keepClaims(s *observation, all []corev1.PersistentVolumeClaim) {
	if r.named != nil {
		s.volumes = only(all, func(c corev1.PersistentVolumeClaim) bool { return r.named.Uses(s.obj, c.Name) })
		return
	}
	s.claims, s.claimObjects = make([]inplace.Claim, 0, len(all)), make([]corev1.PersistentVolumeClaim, 0, len(all))
	for i := range all {
		if c := claims.From(&all[i]); c.Owner == s.obj.GetUID() {
			s.claims, s.claimObjects = append(s.claims, c), append(s.claimObjects, all[i])
		}
	}
}

func (s *observation) activeClaims() map[types.UID]bool {
	uids := make(map[types.UID]bool, len(s.claims))
	for i := range s.claims {
		if !s.claims[i].Terminating {
			uids[s.claims[i].UID] = true
		}
	}
	return uids
}

// lookAtClaims reads the claims whose names were in the way of a pod's, as lookAtNames does with pods.
func (r *Reconciler) lookAtClaims(ctx context.Context, seen *observation, names []types.NamespacedName) (met bool, err error) {
	var errs []error
	for _, name := range names {
		claim := Claim()
		switch err := r.Live.Get(ctx, name, claim); {
		case apierrors.IsNotFound(err):
			met = true
		case err != nil:
			errs = append(errs, fmt.Errorf("reading claim %s, whose name was taken: %w", name.Name, err))
		case r.named != nil, ours(claim, seen.obj) && claim.Labels[r.Resource.PodLabel] != "":
			// A Named kind uses it, or says why it cannot, when the view shows it.
			seen.book.claims.wrote([]podwriter.Written{{ResourceVersion: claim.ResourceVersion}})
			seen.book.since = r.Clock.Now()
			met = true
		default:
			seen.book.take(name.Name, r.Clock.Now())
			met = true
		}
	}
	return met, errors.Join(errs...)
}

// refused takes the creates that the API server refuses out of an error and remembers them: the plan says how long to wait
// for the next try, and the hold that it makes of them is told.
func (s *observation) refused(err error, created int) error {
	if created > 0 {
		s.book.refused = nil
	}
	var rest []error
	first := ""
	for _, e := range flatten(err) {
		create := (*podwriter.CreateError)(nil)
		if errors.As(e, &create) {
			if message, ok := create.Refused(); ok {
				if first == "" || message < first {
					first = message
				}
				continue
			}
		}
		rest = append(rest, e)
	}
	if first != "" {
		s.book.refuse(first, s.obj.GetGeneration(), s.now)
	}
	return errors.Join(rest...)
}

// refusal is a create that the API server refused, for one generation of the object: another may be accepted.
type refusal struct {
	Refusal

	generation int64
}

func (b *book) refuse(message string, generation int64, now time.Time) {
	times := 1
	if b.refused != nil && b.refused.generation == generation {
		times += b.refused.Times
	}
	b.refused = &refusal{Refusal{Message: message, Times: times, Last: now}, generation}
}

// refusedFor is what was refused of this generation; nil when nothing was.
func (b *book) refusedFor(generation int64) *Refusal {
	if b.refused == nil || b.refused.generation != generation {
		return nil
	}
	return &b.refused.Refusal
}

// roomMade lets the next create be tried at once: a pod is gone, so a quota may have room.
func (b *book) roomMade() {
	if b.refused != nil {
		b.refused.Last = time.Time{}
	}
}
