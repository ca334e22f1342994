package lab

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// onlyTheEnding is the name of the policy below.
const onlyTheEnding = "lab-simulated-nodes-end-only-what-was-deleted"

// guardPods lets the simulated nodes end only those pods that somebody has deleted. A kubelet ends a pod by its UID; KWOK does
// so by name alone, without a grace period, and once more for a version of the pod that it had still queued (one delete in
// three, by its log). Where the name has been given to another pod by then, which is the rule for a StatefulSet, that one
// would be gone at once, for no reason that a test could see.
func (c *Cluster) guardPods(ctx context.Context, client kubernetes.Interface) error {
	meta := metav1.ObjectMeta{Name: onlyTheEnding}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: meta,
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{corev1.GroupName}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				},
			}}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "by-simulated-nodes", Expression: `request.userInfo.username == "` + kwokUser + `"`}},
			Validations: []admissionv1.Validation{{
				Expression: "has(oldObject.metadata.deletionTimestamp)",
				Message:    "nobody has deleted this pod: the simulated node means the one before it",
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: meta,
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: onlyTheEnding, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	api := client.AdmissionregistrationV1()
	if _, err := api.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err := api.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
