//go:build lab

package kit

import (
	"context"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// storageClass is the default one of a cluster with Provision.
const storageClass = "lab"

// RigidClass is a storage class of a cluster with Provision that does not let its volumes grow; the default one does.
const RigidClass = "rigid"

// Provision stands in for a storage provisioner until ctx ends: a default storage class and one that does not let volumes
// grow, and for every claim a volume of its own that it binds to. Nobody makes volumes larger; that is for the tests.
func (c *Cluster) Provision(ctx context.Context) error {
	for _, name := range []string{storageClass, RigidClass} {
		class := &unstructured.Unstructured{Object: map[string]any{
			"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "Immediate", "allowVolumeExpansion": name == storageClass,
		}}
		class.SetAPIVersion("storage.k8s.io/v1")
		class.SetKind("StorageClass")
		class.SetName(name)
		class.SetAnnotations(map[string]string{"storageclass.kubernetes.io/is-default-class": strconv.FormatBool(name == storageClass)})
		if err := c.Create(ctx, class); err != nil {
			return err
		}
	}
	go func() {
		for ctx.Err() == nil {
			// A watch ends now and then, and with it what was missed is found in the next list.
			c.provision(ctx)
			time.Sleep(200 * time.Millisecond)
		}
	}()
	return nil
}

func (c *Cluster) provision(ctx context.Context) {
	var list corev1.PersistentVolumeClaimList
	if c.List(ctx, &list) != nil {
		return
	}
	w, err := c.Watch(ctx, &corev1.PersistentVolumeClaimList{}, &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
	})
	if err != nil {
		return
	}
	defer w.Stop()
	for i := range list.Items {
		_ = c.Create(ctx, volume(&list.Items[i]))
	}
	for e := range w.ResultChan() {
		claim, ok := e.Object.(*corev1.PersistentVolumeClaim)
		switch {
		case !ok:
		case e.Type == watch.Added:
			_ = c.Create(ctx, volume(claim))
		case e.Type == watch.Deleted:
			_ = c.Delete(ctx, volume(claim))
		}
	}
}

func volume(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			StorageClassName: ptr.Deref(claim.Spec.StorageClassName, storageClass),
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
		},
	}
}

// Claims are those of the namespace that are not being deleted, by name.
func (p Place) Claims() map[string]*corev1.PersistentVolumeClaim {
	p.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := p.List(p.Context(), &list, client.InNamespace(p.NS)); err != nil {
		p.Fatal(err)
	}
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			claims[list.Items[i].Name] = &list.Items[i]
		}
	}
	return claims
}
