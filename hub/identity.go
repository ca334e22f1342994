package hub

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/render"
)

// The Secret with the nonce and the term, and the identity of the hub's own cluster. The namespace of the Secret is where the
// hub's account is, so that it exists; a hub that runs as somebody else may create it.
//
// +kubebuilder:rbac:groups="",namespace=underway-system,resources=secrets,verbs=get;create;update
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// Keys of the Secret underway-hub-id.
const (
	keyNonce = "nonce"
	keyTerm  = "term"
)

// identity is who this hub is and how often a person has confirmed it.
type identity struct {
	client client.Client
	id     string
	// cluster is the UID of the hub's own kube-system namespace.
	cluster string
	term    atomic.Int64
}

// loadIdentity reads the hub's id, and makes it on the first start.
func loadIdentity(ctx context.Context, c client.Client) (*identity, error) {
	system := &corev1.Namespace{}
	if err := c.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, system); err != nil {
		return nil, fmt.Errorf("reading the hub's own identity: %w", err)
	}
	secret, err := ensureSecret(ctx, c)
	if err != nil {
		return nil, err
	}
	nonce := string(secret.Data[keyNonce])
	if nonce == "" {
		return nil, errors.New("reading Secret underway-hub-id: it has no nonce; restore it, or delete it to become a new hub")
	}
	out := &identity{client: c, id: clusters.HubID(system.UID, nonce), cluster: string(system.UID)}
	term, err := termIn(secret)
	if err != nil {
		return nil, err
	}
	out.term.Store(term)
	return out, nil
}

func termIn(secret *corev1.Secret) (int64, error) {
	term, err := strconv.ParseInt(string(secret.Data[keyTerm]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the term in Secret underway-hub-id: %w", err)
	}
	return term, nil
}

// lead reads the term again when this process begins to lead: a person may have confirmed another one while it waited, and
// with the old term everything on members would look newer than this hub. Another nonce is another hub.
func (i *identity) lead(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := i.client.Get(ctx, secretName(), secret); err != nil {
		return fmt.Errorf("reading Secret underway-hub-id: %w", err)
	}
	if clusters.HubID(types.UID(i.cluster), string(secret.Data[keyNonce])) != i.id {
		return errors.New("the Secret underway-hub-id has another nonce than when this process began: it must be started again")
	}
	stored, err := termIn(secret)
	if err != nil {
		return err
	}
	i.term.Store(max(stored, i.term.Load()))
	return nil
}

func secretName() types.NamespacedName {
	return types.NamespacedName{Namespace: appsv1alpha1.SystemNamespace, Name: appsv1alpha1.SecretHubID}
}

// ensureSecret gets the Secret or creates it; of two that create it at once, one wins and both read that one.
func ensureSecret(ctx context.Context, c client.Client) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := c.Get(ctx, secretName(), secret)
	if err == nil || !apierrors.IsNotFound(err) {
		return secret, wrap("reading Secret underway-hub-id", err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: appsv1alpha1.SystemNamespace}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(ns), &corev1.Namespace{}); apierrors.IsNotFound(err) {
		if err := c.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("creating namespace %s: %w", ns.Name, err)
		}
	}
	raw := make([]byte, 16)
	if _, err := rand.Read(raw); err != nil {
		return nil, fmt.Errorf("making the hub's nonce: %w", err)
	}
	secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: appsv1alpha1.SecretHubID, Namespace: appsv1alpha1.SystemNamespace,
			// A copy of the hub that is restored from a backup must have another id; Velero obeys this label.
			Labels: map[string]string{
				appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf, "velero.io/exclude-from-backup": "true",
			},
		},
		Data: map[string][]byte{keyNonce: []byte(hex.EncodeToString(raw)), keyTerm: []byte("1")},
	}
	err = c.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = c.Get(ctx, secretName(), secret)
	}
	return secret, wrap("creating Secret underway-hub-id", err)
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Term is the present one.
func (i *identity) Term() int64 { return i.term.Load() }

// RaiseAbove stores a term above seen, above the stored one and above the present one, and uses it from then on. What was seen
// counts as far as a hub can have come (render.MaxLead): beyond that nothing is taken for newer.
func (i *identity) RaiseAbove(ctx context.Context, seen int64) error {
	secret := &corev1.Secret{}
	if err := i.client.Get(ctx, secretName(), secret); err != nil {
		return fmt.Errorf("reading Secret underway-hub-id: %w", err)
	}
	stored, err := termIn(secret)
	if err != nil {
		return err
	}
	top := max(stored, i.term.Load())
	top = max(min(seen, top+render.MaxLead), top)
	if top >= render.MaxIntent {
		return fmt.Errorf("the term in Secret underway-hub-id is %d, which no hub reaches: mend it", top)
	}
	next := top + 1
	secret.Data[keyTerm] = []byte(strconv.FormatInt(next, 10))
	if err := i.client.Update(ctx, secret); err != nil {
		return fmt.Errorf("writing Secret underway-hub-id: %w", err)
	}
	i.term.Store(next)
	return nil
}
