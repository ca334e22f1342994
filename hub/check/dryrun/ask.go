package dryrun

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/check"
)

const (
	// objectName is fixed, so that refusals read alike each time; nothing of that name is ever created.
	objectName = "underway-template-check"
	// patience is how long one request may take.
	patience = 10 * time.Second
)

// question is one probe on its way.
type question struct {
	members   Members
	namespace string
	probe     check.Probe
}

// ask asks in the owner's namespace, whose rules are those that count. Where the member has no such namespace yet, none
// is created for a question: "default" is everywhere, and a hub that may create namespaces there may ask in it. A hub
// that was given single namespaces is refused before the namespace is missed, and asks nowhere else.
func (q question) ask(ctx context.Context) check.Answer {
	var pod map[string]any
	if err := utiljson.Unmarshal(q.probe.Template.Pod, &pod); err != nil {
		return check.Answer{Outcome: check.OutcomeInvalid, Text: check.Path(q.probe.Template.Field, "") + ": " + err.Error()}
	}
	client, err := q.members.Client(q.probe.Member)
	if err != nil {
		return check.Answer{Outcome: check.OutcomeFailed, Text: "the member is not ready"}
	}
	answer, missing := q.in(ctx, client, q.namespace, pod)
	if missing && q.namespace != metav1.NamespaceDefault {
		answer, _ = q.in(ctx, client, metav1.NamespaceDefault, pod)
	}
	return answer
}

// in asks in one namespace; missing is true when there is none of that name.
func (q question) in(ctx context.Context, client dynamic.Interface, namespace string, pod map[string]any) (answer check.Answer, missing bool) {
	field := q.probe.Template.Field
	made, err := create(ctx, client, namespace, pod)
	if err == nil {
		got, _, _ := unstructured.NestedMap(made.Object, "template")
		return check.Answer{Outcome: check.OutcomeValid, Dropped: check.Dropped(pod, got, field)}, false
	}
	reading := readingOf(err, field)
	if reading.Unclear {
		if _, err := create(ctx, client, namespace, bland()); err != nil {
			reading.Outcome = check.OutcomeRefused
			if readingOf(err, field).Outcome == check.OutcomeFailed {
				reading.Outcome = check.OutcomeFailed
			}
		}
	}
	return check.Answer{Outcome: reading.Outcome, Text: reading.Text}, reading.NoNamespace
}

// readingOf reads an error of a client; one that is no API server's answer is none.
func readingOf(err error, field string) check.Reading {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return check.Reading{Outcome: check.OutcomeFailed, Text: "the API server does not answer the question"}
	}
	return check.Read(status.Status(), field)
}

// create asks. Fields that the API server does not know are not refused: an older member drops them, which is said.
func create(ctx context.Context, client dynamic.Interface, namespace string, pod map[string]any) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PodTemplate",
		"metadata": map[string]any{"name": objectName, "namespace": namespace},
		"template": pod,
	}}
	return client.Resource(corev1.SchemeGroupVersion.WithResource("podtemplates")).Namespace(namespace).Create(ctx, obj,
		metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationIgnore,
			FieldManager: appsv1alpha1.FieldManagerHub,
		})
}

// bland is a pod template that nothing but a rule against PodTemplates refuses.
func bland() map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "check", "image": "check"}}}}
}
