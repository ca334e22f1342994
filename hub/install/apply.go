package install

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// applier applies objects to one cluster and reports each.
type applier struct {
	where  string
	client client.Client
	opts   Options
}

func (a *applier) report(action Action, object, note string) {
	if a.opts.Report != nil {
		a.opts.Report(Step{Where: a.where, Action: action, Object: object, Note: note})
	}
}

// apply makes one object as it should be and says what that took; it adds our label.
func (a *applier) apply(ctx context.Context, want *unstructured.Unstructured) (Action, error) {
	want = labelled(want)
	live, err := a.read(ctx, want)
	if err != nil {
		return "", err
	}
	action, note, err := a.change(ctx, want, live)
	if err != nil {
		return "", fmt.Errorf("applying %s on %s: %w", nameOf(want), a.where, err)
	}
	a.report(action, nameOf(want), note)
	return action, nil
}

func (a *applier) applyAll(ctx context.Context, list []*unstructured.Unstructured) error {
	var errs []error
	for _, obj := range list {
		_, err := a.apply(ctx, obj)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// read returns the live object, nil when there is none (nor, in a dry run, its kind yet).
func (a *applier) read(ctx context.Context, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(want.GroupVersionKind())
	err := a.client.Get(ctx, client.ObjectKeyFromObject(want), live)
	switch {
	case apierrors.IsNotFound(err), a.opts.DryRun && meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s on %s: %w", nameOf(want), a.where, err)
	}
	return live, nil
}

func (a *applier) change(ctx context.Context, want, live *unstructured.Unstructured) (Action, string, error) {
	if live == nil {
		if a.opts.DryRun {
			return Created, "", nil
		}
		return Created, "", a.send(ctx, want)
	}
	if live.GetLabels()[appsv1alpha1.LabelPartOf] != appsv1alpha1.PartOf {
		if want.GetKind() == "Namespace" {
			return Unchanged, "", nil
		}
		return Refused, foreign(want), nil
	}
	next := want.DeepCopy()
	if err := a.send(ctx, next, client.DryRunAll); err != nil {
		return "", "", err
	}
	switch {
	case same(next, live):
		return Unchanged, "", nil
	case upgradable(want) && !a.opts.Upgrade:
		return Kept, "it differs from this build's; --upgrade changes it", nil
	case a.opts.DryRun:
		return Updated, "", nil
	}
	return Updated, "", a.send(ctx, want)
}

// send applies obj and fills in what the server made of it.
func (a *applier) send(ctx context.Context, obj *unstructured.Unstructured, opts ...client.ApplyOption) error {
	opts = append(opts, client.FieldOwner(FieldManager), client.ForceOwnership)
	return a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), opts...)
}

// upgradable says of which kinds an older or newer version may be in use, so that only a person may change them.
func upgradable(u *unstructured.Unstructured) bool {
	return u.GetKind() == "CustomResourceDefinition" || u.GetKind() == "Deployment"
}

// foreign is what to do about an object of that name that is not ours.
func foreign(u *unstructured.Unstructured) string {
	if u.GetKind() != "CustomResourceDefinition" {
		return "it is there and lacks the label " + appsv1alpha1.LabelPartOf + "=" + appsv1alpha1.PartOf + ", so it is somebody else's"
	}
	return "it is there and not ours (OpenKruise's, most likely) and stays as it is; " +
		"while OpenKruise runs, the hub pushes and OpenKruise reconciles, and an agent of ours keeps off this kind"
}

func labelled(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[appsv1alpha1.LabelPartOf] = appsv1alpha1.PartOf
	u.SetLabels(labels)
	return u
}

// same compares all that a person could have written; status and bookkeeping do not count.
func same(a, b *unstructured.Unstructured) bool {
	return apiequality.Semantic.DeepEqual(written(a), written(b))
}

func written(u *unstructured.Unstructured) map[string]any {
	u = u.DeepCopy()
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	u.SetGeneration(0)
	unstructured.RemoveNestedField(u.Object, "status")
	return u.Object
}

// establish waits until the API server serves the CRDs.
func (a *applier) establish(ctx context.Context, crds []*unstructured.Unstructured) error {
	if a.opts.DryRun {
		return nil
	}
	for _, crd := range crds {
		until := pause{
			what: "CustomResourceDefinition/" + crd.GetName() + " is served", remedy: "see its conditions",
			every: 100 * time.Millisecond, limit: 30 * time.Second,
		}
		err := a.await(ctx, until, func(ctx context.Context) (bool, error) {
			live, err := a.read(ctx, crd)
			return live != nil && established(live), err
		})
		if err != nil {
			return fmt.Errorf("waiting until %s serves CustomResourceDefinition %s: %w", a.where, crd.GetName(), err)
		}
	}
	return nil
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
			return true
		}
	}
	return false
}
