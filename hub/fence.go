package hub

import (
	"context"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// The freeze and our own leader Lease; leader election itself writes the Lease.
//
// +kubebuilder:rbac:groups="",namespace=underway-system,resources=configmaps,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=underway-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=kruise-manager,verbs=get

// fence answers, by fresh reads, whether a plan is still our business.
type fence struct {
	live   client.Reader
	lease  string
	holder string
	term   func() int64
}

// Leading reads our leader Lease; without leader election this process is alone.
func (f *fence) Leading(ctx context.Context) (bool, error) {
	if f.lease == "" {
		return true, nil
	}
	lease := &coordinationv1.Lease{}
	err := f.live.Get(ctx, types.NamespacedName{Namespace: appsv1alpha1.SystemNamespace, Name: f.lease}, lease)
	if err != nil {
		return false, fmt.Errorf("reading the leader Lease: %w", err)
	}
	return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == f.holder, nil
}

// CurrentIntent is what the owner wants by now.
func (f *fence) CurrentIntent(ctx context.Context, owner types.NamespacedName, uid types.UID) (render.Intent, bool, error) {
	ud := &appsv1alpha1.UnitedDeployment{}
	err := f.live.Get(ctx, owner, ud)
	if apierrors.IsNotFound(err) {
		return render.Intent{}, false, nil
	}
	if err != nil {
		return render.Intent{}, false, fmt.Errorf("reading the owner: %w", err)
	}
	if ud.UID != uid {
		return render.Intent{}, false, nil
	}
	out := render.Intent{Term: f.term(), OwnerUID: ud.UID, Generation: ud.Generation}
	if r := ud.Status.Release; r != nil {
		out.Epoch = r.Epoch
	}
	return out, true, nil
}

// Frozen is the freeze's message; empty when there is none.
func (f *fence) Frozen(ctx context.Context) (string, error) {
	cm := &corev1.ConfigMap{}
	err := f.live.Get(ctx, types.NamespacedName{Namespace: appsv1alpha1.SystemNamespace, Name: appsv1alpha1.ConfigMapFreeze}, cm)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the freeze: %w", err)
	}
	parts := []string{"frozen"}
	for key, value := range cm.Data {
		parts = append(parts, key+" "+value)
	}
	slices.Sort(parts[1:])
	return strings.Join(parts, ", "), nil
}
