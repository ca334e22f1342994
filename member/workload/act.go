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
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/plan"
	"github.com/underway-dev/underway/inplace/podwriter"
)

// lookAgain is how soon a pass follows one that met a name in use: nothing else would bring it.
const lookAgain = time.Second

// burst bounds the creates, the deletes and the patches of one pass: with thousands of pods the status is written in
// between, and no pass comes near its deadline. What is left over is decided anew by the pass that our own writes bring.
const burst = 250

// bounded is the part of a decision that one pass carries out.
func bounded(d inplace.Decision) inplace.Decision {
	d.Creates = d.Creates[:min(len(d.Creates), burst)]
	d.Deletes = d.Deletes[:min(len(d.Deletes), burst)]
	d.Patches = d.Patches[:min(len(d.Patches), burst)]
	d.ClaimDeletes = d.ClaimDeletes[:min(len(d.ClaimDeletes), burst)]
	return d
}

// acted is what act did.
type acted struct {
	podwriter.Result
	// ok is true when everything that was decided was done.
	ok    bool
	again time.Duration
}

// decide asks who should exist, then who moves.
func (r *Reconciler) decide(seen *observation) inplace.Decision {
	in := seen.wanted.Intent
	in.Where = klog.KObj(seen.obj).String()
	lost, lostBy := seen.book.lostAs(in.Update.Name)
	scaled := r.Kind.Scale(Crowd{
		Object: seen.obj, Intent: in, Pods: seen.pods, Owner: r.ownerReference(seen.obj), Namespace: seen.obj.GetNamespace(),
		Taken: seen.book.taken, Others: seen.others, Stays: seen.stays(), Lost: lost, LostBy: lostBy, Claims: seen.claims, Nodes: seen.nodes,
		Volumes: seen.volumes, Expandable: seen.expandable,
		Refused: seen.book.refusedFor(seen.obj.GetGeneration()), Now: seen.now,
	})
	in, seen.volumesSeen = scaled.Intent, scaled.Volumes
	seen.wanted.Intent = in
	decision := bounded(plan.Next(in, seen.pods, seen.now))
	seen.order(decision.Patches)
	decision.LookAgainIn = soonest(decision.LookAgainIn, in.Population.LookAgainIn)
	return decision
}

// order tells each patch where the containers stand in its pod.
func (s *observation) order(patches []inplace.Patch) {
	if len(patches) == 0 {
		return
	}
	at := make(map[types.UID]int, len(s.pods))
	for i := range s.pods {
		at[s.pods[i].UID] = i
	}
	for i := range patches {
		n, ok := at[patches[i].UID]
		if !ok {
			continue
		}
		for j := range s.pods[n].Containers {
			patches[i].Order = append(patches[i].Order, s.pods[n].Containers[j].Name)
		}
	}
}

// act writes the revision, then pods, then tidies the history. A revision that cannot be written keeps the pods as they
// are: they would name something that does not exist.
func (r *Reconciler) act(ctx context.Context, seen *observation, decision inplace.Decision) (acted, error) {
	if err := r.storeRevision(ctx, seen); err != nil {
		return acted{}, err
	}
	a, err := r.writePods(ctx, seen, decision)
	return a, errors.Join(err, r.tidyHistory(ctx, seen))
}

func (r *Reconciler) writePods(ctx context.Context, seen *observation, decision inplace.Decision) (acted, error) {
	if decision.Quiet() {
		return acted{ok: true}, nil
	}
	logger := ctrl.LoggerFrom(ctx)
	logger.V(2).Info("Writing pods", "creates", len(decision.Creates), "deletes", len(decision.Deletes),
		"patches", len(decision.Patches), "reason", decision.Because())
	result, err := r.pods.Do(ctx, decision)
	seen.book.wrote(result, r.Clock.Now())
	seen.book.replaced(result.Created)
	r.Metrics.count(r.Resource.Kind, result)
	a := acted{Result: result, ok: err == nil}
	before := seen.book.refused
	if err = seen.refused(err, result.Created); seen.book.refused != before && seen.book.refused != nil {
		logger.Info("A create was refused", "reason", seen.book.refused.Message, "times", seen.book.refused.Times)
		// The pass that tells of it.
		a.again = lookAgain
	}
	for _, refusal := range result.Refused {
		logger.V(2).Info("A resize was refused", "pod", refusal.Patch.Name, "reason", refusal.Message, "final", refusal.Final)
		r.memory.Refuse(refusal.Patch, refusal.Message, refusal.Final, r.Clock.Now())
		// Nothing in the pod shows it: no watch would bring the pass that decides on it.
		a.again = lookAgain
	}
	if result.AlreadyExists > 0 {
		met, lookErr := r.lookAtNames(ctx, seen, decision.Creates, result.Written)
		err = errors.Join(err, lookErr)
		if met {
			a.again = lookAgain
		}
	}
	if len(result.ClaimsTaken) > 0 {
		met, lookErr := r.lookAtClaims(ctx, seen, result.ClaimsTaken)
		err = errors.Join(err, lookErr)
		if met {
			a.again = lookAgain
		}
	}
	if result.Created+result.Deleted > 0 {
		logger.Info("Changed the number of pods", "created", result.Created, "deleted", result.Deleted)
	}
	return a, err
}

// lookAtNames reads the pods whose names were in the way. One of ours means that the cache is behind: it is awaited.
// Any other makes the name taken: the next pass derives another one. Nothing is guessed.
func (r *Reconciler) lookAtNames(
	ctx context.Context, seen *observation, creates []inplace.Create, written []podwriter.Written,
) (met bool, err error) {
	done := make(map[string]bool, len(written))
	for _, w := range written {
		done[w.Name] = true
	}
	var errs []error
	for _, c := range creates {
		name := c.Object.GetName()
		if done[name] {
			continue
		}
		var pod corev1.Pod
		switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(c.Object), &pod); {
		case apierrors.IsNotFound(err):
			met = true
		case err != nil:
			errs = append(errs, fmt.Errorf("reading pod %s, whose name was taken: %w", name, err))
		case ours(&pod, seen.obj):
			seen.book.wrote(podwriter.Result{Written: []podwriter.Written{{ResourceVersion: pod.ResourceVersion}}}, r.Clock.Now())
			met = true
		default:
			seen.book.take(name, r.Clock.Now())
			met = true
		}
	}
	return met, errors.Join(errs...)
}

// ours reports whether obj controls it.
func ours(it metav1.Object, obj client.Object) bool {
	owner := metav1.GetControllerOfNoCopy(it)
	return owner != nil && owner.UID == obj.GetUID()
}
