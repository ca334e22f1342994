package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Claim returns an empty handle of a claim's metadata, which is all that is read and cached of claims.
func Claim() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	return m
}

func claimList() *metav1.PartialObjectMetadataList {
	l := &metav1.PartialObjectMetadataList{}
	l.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaimList"))
	return l
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
	version, list := r.Claims.Version(), claimList()
	byController := client.MatchingFields{indexController: string(seen.obj.GetUID())}
	if err := r.Cache.List(ctx, list, client.InNamespace(seen.obj.GetNamespace()), byController); err != nil {
		return fmt.Errorf("listing the claims: %w", err)
	}
	seen.keepClaims(list.Items)
	if await.caughtUp(version, seen.activeClaims()) {
		return nil
	}
	if seen.wait = max(seen.book.patienceLeft(await, seen.now), 0); seen.wait > 0 {
		return nil
	}
	return r.readClaimsLive(ctx, seen)
}

func (r *Reconciler) readClaimsLive(ctx context.Context, seen *observation) error {
	list := claimList()
	err := r.Live.List(ctx, list, client.InNamespace(seen.obj.GetNamespace()), client.HasLabels{r.Resource.PodLabel})
	if err != nil {
		return fmt.Errorf("listing the claims live: %w", err)
	}
	seen.book.claims.settle(list.ResourceVersion)
	seen.keepClaims(list.Items)
	return nil
}

// keepClaims keeps the object's own.
func (s *observation) keepClaims(all []metav1.PartialObjectMetadata) {
	s.claims, s.claimObjects = make([]inplace.Claim, 0, len(all)), make([]metav1.PartialObjectMetadata, 0, len(all))
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
		case ours(claim, seen.obj) && claim.Labels[r.Resource.PodLabel] != "":
			seen.book.claims.wrote([]podwriter.Written{{ResourceVersion: claim.ResourceVersion}})
			seen.book.since = r.Clock.Now()
			met = true
		default:
			seen.book.taken[name.Name] = true
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
