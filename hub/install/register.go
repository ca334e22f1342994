package install

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// Registration is a member as the hub knows it.
type Registration struct {
	// Name of the member, a DNS label.
	Name string
	// Kubeconfig is what Access.Kubeconfig built.
	Kubeconfig []byte
	// Identity is the UID of the member's kube-system namespace.
	Identity string
	// AllowedNamespaces selects the hub's Namespaces whose workloads reach the member. Nil: none; {}: all.
	AllowedNamespaces *metav1.LabelSelector
	// Insecure lets the hub skip the verification of the member's certificate.
	Insecure bool
}

// SecretName is the Secret with a member's kubeconfig, on the hub.
func SecretName(member string) string { return "member-" + member }

// StoredKubeconfig is the credential of a member that the hub has; nil when there is none.
func StoredKubeconfig(ctx context.Context, hub client.Client, name string) ([]byte, error) {
	secret := &corev1.Secret{}
	err := hub.Get(ctx, client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: SecretName(name)}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the stored credential of %s on the hub: %w", name, err)
	}
	return secret.Data["kubeconfig"], nil
}

// CheckIdentity refuses a name that stands for another cluster, and a cluster that has another name already.
func CheckIdentity(ctx context.Context, hub client.Client, name, identity string) error {
	members := &fleetv1alpha1.MemberClusterList{}
	if err := hub.List(ctx, members); err != nil {
		return fmt.Errorf("listing members on the hub: %w", err)
	}
	for i := range members.Items {
		m := &members.Items[i]
		known := m.Status.Identity
		switch {
		case known == "":
		case m.Name == name && known != identity:
			return fmt.Errorf("member %s is registered and stands for another cluster (kube-system UID %s, this one has %s): "+
				"use another name; if this cluster has replaced that one, `kubectl delete membercluster %s` first "+
				"(that deletes no workload)", name, known, identity, name)
		case m.Name != name && known == identity:
			return fmt.Errorf("this cluster is a member already, under the name %s: join it by that name", m.Name)
		}
	}
	return nil
}

// StoreCredential stores a member's kubeconfig on the hub, with annotations that say where it came from. A Secret of that
// name that is somebody else's is an error.
func StoreCredential(ctx context.Context, hub client.Client, member string, kubeconfig []byte, annotations map[string]string) error {
	a := &applier{where: HubWhere, client: hub}
	secret, err := credentialSecret(member, kubeconfig)
	if err != nil {
		return err
	}
	secret.SetAnnotations(annotations)
	action, err := a.apply(ctx, secret)
	if err == nil && action == Refused {
		err = fmt.Errorf("%s on the hub is somebody else's", nameOf(secret))
	}
	return err
}

func credentialSecret(member string, kubeconfig []byte) (*unstructured.Unstructured, error) {
	return toUnstructured(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: SecretName(member), Namespace: appsv1alpha1.SystemNamespace},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{"kubeconfig": kubeconfig},
	})
}

// Register stores the credential on the hub and the MemberCluster that refers to it.
func Register(ctx context.Context, hub client.Client, r Registration, opts Options) error {
	a := &applier{where: HubWhere, client: hub, opts: opts}
	secret, err := credentialSecret(r.Name, r.Kubeconfig)
	if err != nil {
		return err
	}
	member, err := toUnstructured(&fleetv1alpha1.MemberCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleetv1alpha1.GroupVersion.String(), Kind: "MemberCluster"},
		ObjectMeta: metav1.ObjectMeta{Name: r.Name},
		Spec: fleetv1alpha1.MemberClusterSpec{
			KubeconfigSecretRef:   &fleetv1alpha1.SecretReference{Name: SecretName(r.Name)},
			InsecureSkipTLSVerify: r.Insecure,
			AllowedNamespaces:     r.AllowedNamespaces,
		},
	})
	if err != nil {
		return err
	}
	action, err := a.apply(ctx, secret)
	if err == nil && action == Refused {
		err = fmt.Errorf("%s on the hub is somebody else's: use another name for the member", nameOf(secret))
	}
	if err != nil {
		return err
	}
	action, err = a.apply(ctx, member)
	if err == nil && action == Refused {
		err = fmt.Errorf("%s was not made by `kubectl underway join` (no label %s=%s): add the label to hand it over, or use another name",
			nameOf(member), appsv1alpha1.LabelPartOf, appsv1alpha1.PartOf)
	}
	return err
}
