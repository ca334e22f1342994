package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/render"
)

// DrainOptions are for [Drain].
type DrainOptions struct {
	Options

	// Name of the member.
	Name string
	// Timeout is how long it may take to empty the member; 0: as long as the context lasts.
	Timeout time.Duration
	// Every is how often is looked. Default 2 s.
	Every time.Duration
}

// Drain empties a member: it marks the MemberCluster (spec.drain), which makes the hub move what it may, the others first,
// and waits until UnitedDeployments have nothing there any more. Every change of what is waited for is reported. The mark
// stays when it is stopped or runs out of time: the hub goes on, and so does Drain when it is called again. A member that the
// hub does not know is empty.
func Drain(ctx context.Context, hub, member client.Client, o DrainOptions) error {
	a := &applier{where: o.Name, client: hub, opts: o.Options}
	mc := &fleetv1alpha1.MemberCluster{}
	if err := hub.Get(ctx, client.ObjectKey{Name: o.Name}, mc); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("reading MemberCluster %s: %w", o.Name, err)
	}
	if err := isMember(ctx, member, mc); err != nil {
		return err
	}
	id, err := HubID(ctx, hub)
	if err != nil {
		return err
	}
	watched := &pulse{}
	look := func(ctx context.Context) ([]string, error) {
		s, err := lookForRest(ctx, hub, member, o.Name, firstOf(id, mc.Status.HubID))
		if err != nil {
			return nil, err
		}
		seen, err := readSign(ctx, hub, s.member)
		if err != nil {
			return nil, err
		}
		s.noHub = watched.gone(seen, a.opts.now())
		return s.rest(), nil
	}
	if o.DryRun {
		rest, err := look(ctx)
		for _, line := range rest {
			a.report(Waiting, line, "")
		}
		return err
	}
	if err := a.askToEmpty(ctx, mc); err != nil {
		return err
	}
	return a.waitEmpty(ctx, look, o)
}

// askToEmpty asks the hub to empty the member.
func (a *applier) askToEmpty(ctx context.Context, mc *fleetv1alpha1.MemberCluster) error {
	name := "MemberCluster/" + mc.Name
	if mc.Spec.Drain {
		a.report(Unchanged, name, "it is being drained already")
		return nil
	}
	base := client.MergeFrom(mc.DeepCopy())
	mc.Spec.Drain = true
	if err := a.client.Patch(ctx, mc, base, client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("marking MemberCluster %s: %w", mc.Name, err)
	}
	a.report(Updated, name, "spec.drain is true: the hub makes nothing new there, and moves what it may once the others have taken over")
	return nil
}

// waitEmpty looks until nothing is left, and says each change.
func (a *applier) waitEmpty(ctx context.Context, look func(context.Context) ([]string, error), o DrainOptions) error {
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	if o.Every == 0 {
		o.Every = 2 * time.Second
	}
	var w emptying
	err := wait.PollUntilContextCancel(ctx, o.Every, true, func(ctx context.Context) (bool, error) {
		return w.look(a, func() ([]string, error) { return look(ctx) }), nil
	})
	if err == nil {
		a.report(Checked, "member "+o.Name, "no UnitedDeployment has anything there")
		return nil
	}
	what := strings.Join(w.last, "\n  ")
	if w.problem != nil {
		what = w.problem.Error()
	}
	why := "it was stopped"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		why = fmt.Sprintf("%s (--timeout) are over", o.Timeout)
	}
	return fmt.Errorf("%s and member %s is not empty:\n  %s\nit stays marked and the hub goes on: do this again to wait on, or use the member again with\n  %s",
		why, o.Name, what, UseAgain(o.Name))
}

// emptying is what was seen at the last look, and why there was none.
type emptying struct {
	talk

	last    []string
	problem error
}

// look says what is new, and every now and then that it goes on; true when nothing is left. A hub or a member that does not answer
// for a moment ends nothing.
func (w *emptying) look(a *applier, read func() ([]string, error)) bool {
	lasted, due := w.due(a.opts.now())
	rest, err := read()
	if w.problem = err; err != nil {
		if due {
			a.report(Waiting, "an answer", fmt.Sprintf("for %s: %v", lasted, err))
		}
		return false
	}
	for _, line := range rest {
		if !slices.Contains(w.last, line) {
			a.report(Waiting, line, "")
		}
	}
	w.last = rest
	if due && len(rest) > 0 {
		a.report(Waiting, fmt.Sprintf("still for %d of these", len(rest)), fmt.Sprintf("for %s; the last: %s", lasted, rest[len(rest)-1]))
	}
	return len(rest) == 0
}

// UseAgain is the command that takes the mark of a drain back.
func UseAgain(member string) string {
	return fmt.Sprintf(`kubectl patch membercluster %s --type merge -p '{"spec":{"drain":false}}'`, member)
}

// lookForRest reads what rest decides by.
func lookForRest(ctx context.Context, hub, member client.Client, name, hubID string) (*staying, error) {
	mc := &fleetv1alpha1.MemberCluster{}
	if err := hub.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
		return nil, fmt.Errorf("reading MemberCluster %s: %w", name, err)
	}
	uds := &appsv1alpha1.UnitedDeploymentList{}
	if err := hub.List(ctx, uds); err != nil {
		return nil, fmt.Errorf("listing UnitedDeployments: %w", err)
	}
	s := &staying{member: mc, uds: uds.Items}
	for _, k := range append(render.Kinds(), content.Kinds()...) {
		list, err := listHubs(ctx, member, k.GVK, hubID)
		if err != nil {
			return nil, fmt.Errorf("listing %s on %s: %w", k.Resource, name, err)
		}
		s.objects = append(s.objects, list...)
	}
	freeze := &corev1.ConfigMap{}
	err := hub.Get(ctx, client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: appsv1alpha1.ConfigMapFreeze}, freeze)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("looking for a freeze: %w", err)
	}
	s.frozen = err == nil
	return s, nil
}

// staying is what was seen of a member that is being emptied.
type staying struct {
	member *fleetv1alpha1.MemberCluster
	uds    []appsv1alpha1.UnitedDeployment
	// objects are what carries this hub's label on the member.
	objects []unstructured.Unstructured
	// frozen is true while nothing is written to members.
	frozen bool
	// noHub says why no hub seems to run; empty while one may.
	noHub string
}

// rest says what is still there or wanted there, one line each, and what a person has to do about it; empty: the member is.
func (s *staying) rest() []string {
	var out []string
	known := map[string]bool{}
	for i := range s.uds {
		ud := &s.uds[i]
		known[string(ud.UID)] = true
		out = append(out, s.of(ud)...)
	}
	for i := range s.objects {
		if line := s.object(&s.objects[i], known); line != "" {
			out = append(out, line)
		}
	}
	unseen := s.member.Spec.Drain && s.member.Status.ObservedGeneration < s.member.Generation
	if len(out) == 0 && unseen && s.noHub == "" {
		// A hub that has not seen the mark may be about to make something there; one that does not run is not.
		return []string{"the hub has not seen the mark of the MemberCluster yet, and could still make something there"}
	}
	if len(out) == 0 {
		return nil
	}
	if s.noHub != "" {
		return append(out, s.noHub)
	}
	if unseen {
		out = append(out, "the hub has not seen the mark of the MemberCluster yet")
	}
	if s.frozen {
		out = append(out, "writes to members are frozen: kubectl underway unfreeze --all")
	}
	if c := meta.FindStatusCondition(s.member.Status.Conditions, fleetv1alpha1.ConditionReady); c == nil || c.Status != "True" {
		why := "the hub has not reached it yet"
		if c != nil {
			why = c.Reason + ": " + c.Message
		}
		out = append(out, "the member is not ready, so nothing moves: "+why)
	}
	return out
}

// of is what one UnitedDeployment has or wants on the member.
func (s *staying) of(ud *appsv1alpha1.UnitedDeployment) []string {
	name := ud.Namespace + "/" + ud.Name
	var out []string
	listed := map[string]bool{}
	for i := range ud.Spec.Topology.Subsets {
		sub := &ud.Spec.Topology.Subsets[i]
		if sub.Cluster != s.member.Name {
			continue
		}
		listed[sub.Name] = true
		out = append(out, fmt.Sprintf("UnitedDeployment %s names the member in subset %s: take that subset out of spec.topology.subsets (kubectl edit ud %s -n %s); its child goes when the others have taken over",
			name, sub.Name, ud.Name, ud.Namespace))
	}
	for i := range ud.Status.SubsetStatuses {
		e := &ud.Status.SubsetStatuses[i]
		if e.Cluster != s.member.Name || listed[e.Name] {
			continue
		}
		line := fmt.Sprintf("UnitedDeployment %s has subset %s there", name, e.Name)
		if e.Message != "" {
			line += ": " + e.Message
		}
		out = append(out, line)
	}
	return out
}

// object is a workload of this hub, or content of a UnitedDeployment that there is, which nobody has let go.
func (s *staying) object(u *unstructured.Unstructured, known map[string]bool) string {
	if _, left := u.GetAnnotations()[appsv1alpha1.AnnotationOrphaned]; left {
		return ""
	}
	if isWorkload(u.GroupVersionKind().GroupKind()) {
		return nameOf(u) + " is there, of UnitedDeployment " + u.GetAnnotations()[appsv1alpha1.AnnotationOwner]
	}
	if slices.ContainsFunc(content.Marks(u.GetAnnotations()), func(uid string) bool { return known[uid] }) {
		return nameOf(u) + " is there, which travelled with a UnitedDeployment"
	}
	return ""
}
