package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/config"
)

// TokenSecret is the Secret on the member that holds the token of the hub's account.
const TokenSecret = "underway-hub-token"

// MemberOptions are for [Member].
type MemberOptions struct {
	Options

	// Name of the member.
	Name string
	// Namespaces the hub may write in; nil: all of them, and it may create them.
	Namespaces []string
	// AgentImage is the image of underway-member; empty: no Deployment, the agent runs elsewhere or OpenKruise does.
	AgentImage string
}

// Member installs on a member, as its administrator, all that the hub and the agent need there, and returns the token of
// the hub's account: empty in a dry run on a member that has none yet. CRDs of somebody else stay as they are.
func Member(ctx context.Context, member client.Client, opts MemberOptions) (token string, err error) {
	a := &applier{where: opts.Name, client: member, opts: opts.Options}
	crds, err := config.MemberCRDs()
	if err != nil {
		return "", err
	}
	if err := a.applyAll(ctx, crds); err != nil {
		return "", err
	}
	if err := a.establish(ctx, crds); err != nil {
		return "", err
	}
	if err := a.applyEach(ctx, config.MemberNamespace, config.MemberRBAC, config.HubAccess); err != nil {
		return "", err
	}
	if err := a.bind(ctx, opts.Namespaces); err != nil {
		return "", err
	}
	if opts.AgentImage != "" {
		if err := a.deploy(ctx, config.MemberManager, opts.AgentImage); err != nil {
			return "", err
		}
	}
	return a.token(ctx)
}

// bind lets the hub write in the namespaces (nil: in all), and takes back what an earlier join gave beyond that.
func (a *applier) bind(ctx context.Context, namespaces []string) error {
	errs := []error{a.unbind(ctx, namespaces)}
	if namespaces == nil {
		_, err := a.apply(ctx, binding("ClusterRoleBinding", ""))
		return errors.Join(append(errs, err)...)
	}
	for _, ns := range namespaces {
		err := a.client.Get(ctx, client.ObjectKey{Name: ns}, &corev1.Namespace{})
		switch {
		case apierrors.IsNotFound(err):
			a.report(Missing, "Namespace/"+ns,
				"with --namespaces the hub creates none there; create it, then join again with --upgrade")
		case err != nil:
			errs = append(errs, fmt.Errorf("reading namespace %s on %s: %w", ns, a.where, err))
		default:
			_, err := a.apply(ctx, binding("RoleBinding", ns))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (a *applier) unbind(ctx context.Context, namespaces []string) error {
	ours := client.MatchingLabels{appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf}
	var errs []error
	bindings := &rbacv1.RoleBindingList{}
	if err := a.client.List(ctx, bindings, ours); err != nil {
		return fmt.Errorf("listing RoleBindings on %s: %w", a.where, err)
	}
	for i := range bindings.Items {
		b := &bindings.Items[i]
		if b.Name == config.HubWorkloadsRole && !slices.Contains(namespaces, b.Namespace) {
			errs = append(errs, a.remove(ctx, b, "RoleBinding/"+b.Namespace+"/"+b.Name))
		}
	}
	if namespaces == nil {
		return errors.Join(errs...)
	}
	wide := &rbacv1.ClusterRoleBindingList{}
	if err := a.client.List(ctx, wide, ours); err != nil {
		return fmt.Errorf("listing ClusterRoleBindings on %s: %w", a.where, err)
	}
	for i := range wide.Items {
		if b := &wide.Items[i]; b.Name == config.HubWorkloadsRole {
			errs = append(errs, a.remove(ctx, b, "ClusterRoleBinding/"+b.Name))
		}
	}
	return errors.Join(errs...)
}

func (a *applier) remove(ctx context.Context, obj client.Object, name string) error {
	if !a.opts.DryRun {
		uid := obj.GetUID()
		err := a.client.Delete(ctx, obj, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing %s on %s: %w", name, a.where, err)
		}
	}
	a.report(Removed, name, "an earlier join let the hub write there, this one does not")
	return nil
}

// binding binds the hub's account to the workloads role, in one namespace or, in "", everywhere.
func binding(kind, namespace string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(),
		"kind":       kind,
		"roleRef":    map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": config.HubWorkloadsRole},
		"subjects": []any{map[string]any{
			"kind": rbacv1.ServiceAccountKind, "name": config.HubAccount, "namespace": appsv1alpha1.SystemNamespace,
		}},
	}}
	u.SetName(config.HubWorkloadsRole)
	u.SetNamespace(namespace)
	return u
}

// token makes the Secret that the member's token controller fills, and waits until it has.
func (a *applier) token(ctx context.Context) (string, error) {
	want, err := toUnstructured(&corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: TokenSecret, Namespace: appsv1alpha1.SystemNamespace,
			Annotations: map[string]string{corev1.ServiceAccountNameKey: config.HubAccount},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	})
	if err != nil {
		return "", err
	}
	action, err := a.apply(ctx, want)
	switch {
	case err != nil:
		return "", err
	case action == Refused:
		return "", fmt.Errorf("%s on %s is somebody else's: it must not hold the hub's token", nameOf(want), a.where)
	case action == Created && a.opts.DryRun:
		return "", nil
	}
	secret := &corev1.Secret{}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := a.client.Get(ctx, client.ObjectKeyFromObject(want), secret)
		return len(secret.Data[corev1.ServiceAccountTokenKey]) > 0, err
	})
	if err != nil {
		return "", fmt.Errorf("waiting for the token of the hub's account on %s (does its kube-controller-manager run?): %w", a.where, err)
	}
	return string(secret.Data[corev1.ServiceAccountTokenKey]), nil
}

func toUnstructured(obj any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("building a manifest: %w", err)
	}
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(u.Object, "status")
	return u, nil
}
