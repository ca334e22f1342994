package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/config"
)

// TokenSecret is the Secret on a member in which older versions kept a token of the hub's account without end.
const TokenSecret = "underway-hub-token"

// MemberOptions are for [Member].
type MemberOptions struct {
	Options

	// Name of the member.
	Name string
	// HubID of the hub that joins: what an earlier join gave is not taken back while another hub's Lease is there, because the
	// account is shared. Empty: other hubs are not looked for.
	HubID string
	// Namespaces the hub may write in; nil: all of them, and it may create them.
	Namespaces []string
	// AgentImage is the image of underway-member; empty: no Deployment, the agent runs elsewhere or OpenKruise does.
	AgentImage string
	// Token of the hub's account that is known to work; it is kept, and no new one made.
	Token string
	// TokenLifetime is how long the new token lasts, at least 10 minutes; the member may give a shorter one. Default 7 days.
	TokenLifetime time.Duration
}

// defaultTokenLifetime is renewed by the hub at its half.
const defaultTokenLifetime = 7 * 24 * time.Hour

// Member installs on a member, as its administrator, all that the hub and the agent need there, and returns the token of
// the hub's account: empty in a dry run. CRDs of somebody else stay as they are.
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
	var others []string
	if opts.HubID != "" {
		if others, err = a.leases(ctx, opts.HubID); err != nil {
			return "", err
		}
	}
	if err := a.bind(ctx, opts.Namespaces, others); err != nil {
		return "", err
	}
	if opts.AgentImage != "" {
		if err := a.deploy(ctx, config.MemberManager, opts.AgentImage); err != nil {
			return "", err
		}
	}
	if opts.Token != "" {
		return opts.Token, nil
	}
	if opts.TokenLifetime == 0 {
		opts.TokenLifetime = defaultTokenLifetime
	}
	return a.token(ctx, opts.TokenLifetime)
}

// bind lets the hub write in the namespaces (nil: in all), and then takes back what an earlier join gave beyond that, unless
// others, the Leases of other hubs, show that it is needed. In this order the hub is never without rights.
func (a *applier) bind(ctx context.Context, namespaces, others []string) error {
	if err := a.give(ctx, namespaces); err != nil {
		return err
	}
	return a.unbind(ctx, namespaces, others)
}

func (a *applier) give(ctx context.Context, namespaces []string) error {
	if namespaces == nil {
		_, err := a.apply(ctx, binding("ClusterRoleBinding", ""))
		return err
	}
	var errs []error
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

func (a *applier) unbind(ctx context.Context, namespaces, others []string) error {
	drop := func(obj client.Object, name string) error {
		if len(others) == 0 {
			return a.remove(ctx, obj, name, narrower)
		}
		a.report(Warning, name, narrower+"; it stays, because another hub uses this member too (Lease "+strings.Join(others, ", ")+
			") and the account is shared: delete that Lease if the hub is gone, and join again")
		return nil
	}
	ours := client.MatchingLabels{appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf}
	var errs []error
	bindings := &rbacv1.RoleBindingList{}
	if err := a.client.List(ctx, bindings, ours); err != nil {
		return fmt.Errorf("listing RoleBindings on %s: %w", a.where, err)
	}
	for i := range bindings.Items {
		b := &bindings.Items[i]
		if b.Name == config.HubWorkloadsRole && !slices.Contains(namespaces, b.Namespace) {
			errs = append(errs, drop(b, "RoleBinding/"+b.Namespace+"/"+b.Name))
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
			errs = append(errs, drop(b, "ClusterRoleBinding/"+b.Name))
		}
	}
	return errors.Join(errs...)
}

const narrower = "an earlier join let the hub write there, this one does not"

// remove deletes the object that was read, and no other of its name.
func (a *applier) remove(ctx context.Context, obj client.Object, name, note string) error {
	if !a.opts.DryRun {
		uid := obj.GetUID()
		err := a.client.Delete(ctx, obj, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing %s on %s: %w", name, a.where, err)
		}
	}
	a.report(Removed, name, note)
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

// token asks the member for a token of the hub's account.
func (a *applier) token(ctx context.Context, lifetime time.Duration) (string, error) {
	if a.opts.DryRun {
		return "", nil
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: config.HubAccount, Namespace: appsv1alpha1.SystemNamespace}}
	seconds := int64(lifetime.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := a.client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("asking %s for a token of the hub's account: %w", a.where, err)
	}
	a.report(Created, "token of ServiceAccount/"+appsv1alpha1.SystemNamespace+"/"+config.HubAccount,
		"it ends at "+request.Status.ExpirationTimestamp.UTC().Format(time.RFC3339)+"; the hub renews it before")
	return request.Status.Token, nil
}

// DropOldToken removes the Secret with a token without end that older versions made. It must be called after the hub has
// a credential that does not come from it.
func DropOldToken(ctx context.Context, member client.Client, where string, opts Options) error {
	a := &applier{where: where, client: member, opts: opts}
	secret := &corev1.Secret{}
	err := member.Get(ctx, client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: TokenSecret}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the old token on %s: %w", where, err)
	case secret.Labels[appsv1alpha1.LabelPartOf] != appsv1alpha1.PartOf:
		return nil
	}
	return a.remove(ctx, secret, "Secret/"+appsv1alpha1.SystemNamespace+"/"+TokenSecret, "its token had no end; the hub has one now that it renews")
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
