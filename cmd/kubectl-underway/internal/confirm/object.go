package confirm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/hub/screen"
	travelplan "github.com/underway-dev/underway/hub/travel/plan"
)

// split reads KIND/NAME, or KIND NAME.
func split(args []string) (kind, name string, ok bool) {
	if len(args) == 1 {
		kind, name, ok = strings.Cut(args[0], "/")
		return kind, name, ok && kind != "" && name != "" && !strings.Contains(name, "/")
	}
	return args[0], args[1], len(args) == 2 && !strings.Contains(args[0]+args[1], "/")
}

// object accepts what waits on an object that travels by its label.
func (o *confirmer) object(ctx context.Context, kind, name string) error {
	ns := cli.Namespace(o.flags)
	return o.run(ctx, kind+"/"+name+" in namespace "+ns, func(ctx context.Context, c client.Client) ([]pending, error) {
		gvk, err := o.kindFor(c, kind)
		if err != nil {
			return nil, err
		}
		switch gvk.GroupKind() {
		case cli.UnitedKind().GroupKind():
			return ofUnited(ctx, c, client.ObjectKey{Namespace: ns, Name: name})
		case fleetv1alpha1.GroupVersion.WithKind("MemberCluster").GroupKind():
			return ofMember(ctx, c, name)
		}
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(gvk)
		if err := c.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, obj); err != nil {
			return nil, err
		}
		obj.SetGroupVersionKind(gvk)
		if obj.Labels[appsv1alpha1.LabelPropagate] != "true" {
			return nil, nil
		}
		found, ok, err := lastWord(ctx, c, obj)
		if err != nil || !ok || obj.Annotations[appsv1alpha1.AnnotationConfirm] == found.Value {
			return nil, err
		}
		return []pending{{object: obj, name: gvk.Kind + " " + ns + "/" + name, confirmation: found}}, nil
	})
}

// kindFor finds a kind as kubectl does: by kind, resource, or short name, with or without version and group.
func (o *confirmer) kindFor(c client.Client, arg string) (schema.GroupVersionKind, error) {
	gvk, err := lookFor(c.RESTMapper(), arg)
	if !meta.IsNoMatchError(err) {
		return gvk, err
	}
	shortcuts, failed := o.flags.ToRESTMapper()
	if failed != nil {
		return gvk, err
	}
	return lookFor(shortcuts, arg)
}

func lookFor(mapper meta.RESTMapper, arg string) (schema.GroupVersionKind, error) {
	full, group := schema.ParseResourceArg(strings.ToLower(arg))
	if full != nil {
		if gvk, err := mapper.KindFor(*full); err == nil {
			return gvk, nil
		}
	}
	return mapper.KindFor(group.WithVersion(""))
}

// lastWord finds the confirmation in the hub's last event about where an object's copies stand. The hub writes nothing about
// that to the object.
func lastWord(ctx context.Context, c client.Client, obj *metav1.PartialObjectMetadata) (screen.Confirmation, bool, error) {
	list := &corev1.EventList{}
	if err := c.List(ctx, list, client.InNamespace(obj.Namespace), client.MatchingFields{"involvedObject.uid": string(obj.UID)}); err != nil {
		return screen.Confirmation{}, false, fmt.Errorf("listing its events: %w", err)
	}
	tells := []string{travelplan.ReasonPropagated, travelplan.ReasonWaits, travelplan.ReasonRefused, travelplan.ReasonRemoved}
	items := slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		return !slices.Contains(tells, e.Reason) || e.InvolvedObject.UID != obj.UID ||
			(e.ReportingController != appsv1alpha1.FieldManagerHub && e.Source.Component != appsv1alpha1.FieldManagerHub)
	})
	if len(items) == 0 {
		return screen.Confirmation{}, false, nil
	}
	last := slices.MaxFunc(items, func(a, b corev1.Event) int { return seen(&a).Compare(seen(&b)) })
	value, ok := travelplan.HeldValue(last.Message)
	return screen.Confirmation{Value: value, Condition: travelplan.ConfirmRemoval, Message: screen.Clean(last.Message)}, ok, nil
}

// seen is when an event was told last.
func seen(e *corev1.Event) time.Time {
	out := e.CreationTimestamp.Time
	for _, t := range []time.Time{e.EventTime.Time, e.LastTimestamp.Time} {
		if t.After(out) {
			out = t
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(out) {
		out = e.Series.LastObservedTime.Time
	}
	return out
}
