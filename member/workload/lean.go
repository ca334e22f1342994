package workload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// Caches says what is kept of each object for these kinds. What is dropped here is never read.
//
// Of pods that others control a shrunk piece of metadata is kept: one that matches a selector and has no controller is to be
// adopted, and no label tells those apart. Claims are limited to those that carry the kind's label, as long as there is one
// kind and it has one; no selector says "one of several labels", or finds those that go by their names.
func Caches(scheme *runtime.Scheme, resources ...Resource) cache.Options {
	pods := cache.ByObject{Transform: leanPod(resources), UnsafeDisableDeepCopy: new(true)}
	claims := cache.ByObject{Transform: leanClaim(resources), UnsafeDisableDeepCopy: new(true)}
	if len(resources) == 1 && resources[0].PodLabel != "" {
		if r, err := labels.NewRequirement(resources[0].PodLabel, selection.Exists, nil); err == nil {
			claims.Label = labels.NewSelector().Add(*r)
		}
	}
	return cache.Options{
		Scheme:           scheme,
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                pods,
			Claim():                      claims,
			node():                       {Transform: leanNode, UnsafeDisableDeepCopy: new(true)},
			&discoveryv1.EndpointSlice{}: {Transform: leanSlice, UnsafeDisableDeepCopy: new(true)},
			&appsv1.ControllerRevision{}: {Transform: leanRevision(resources), UnsafeDisableDeepCopy: new(true)},
		},
	}
}

// owned reports whether the controller of meta is of one of the kinds, or may come to be.
func owned(meta metav1.Object, resources []Resource) bool {
	owner := metav1.GetControllerOfNoCopy(meta)
	return owner == nil || slices.ContainsFunc(resources, func(r Resource) bool {
		return owner.Kind == r.Kind && groupOf(owner.APIVersion) == r.Group
	})
}

func leanPod(resources []Resource) func(any) (any, error) {
	return func(obj any) (any, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return obj, nil
		}
		pod.ManagedFields = nil
		if !owned(pod, resources) {
			pod.Labels, pod.Annotations, pod.Finalizers, pod.GenerateName = nil, nil, nil, ""
			pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{}
			return pod, nil
		}
		pod.Spec = corev1.PodSpec{
			NodeName:       pod.Spec.NodeName,
			ReadinessGates: pod.Spec.ReadinessGates,
			Containers:     leanContainers(pod.Spec.Containers),
			InitContainers: leanContainers(pod.Spec.InitContainers),
		}
		pod.Status = corev1.PodStatus{
			ObservedGeneration:    pod.Status.ObservedGeneration,
			Phase:                 pod.Status.Phase,
			Reason:                pod.Status.Reason,
			QOSClass:              pod.Status.QOSClass,
			Conditions:            pod.Status.Conditions,
			ContainerStatuses:     leanStatuses(pod.Status.ContainerStatuses),
			InitContainerStatuses: leanStatuses(pod.Status.InitContainerStatuses),
		}
		return pod, nil
	}
}

// leanContainers keeps what an update in place can change, how a change of resources is made, and the launch order.
func leanContainers(all []corev1.Container) []corev1.Container {
	if len(all) == 0 {
		return nil
	}
	lean := make([]corev1.Container, len(all))
	for i := range all {
		c := &all[i]
		lean[i] = corev1.Container{
			Name: c.Name, Image: c.Image, RestartPolicy: c.RestartPolicy,
			Resources: corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits}, ResizePolicy: c.ResizePolicy,
		}
		for j := range c.Env {
			if c.Env[j].Name == appsv1alpha1.EnvContainerBarrier {
				lean[i].Env = []corev1.EnvVar{c.Env[j]}
			}
		}
	}
	return lean
}

// leanStatuses drops, in place, what says nothing about an update.
func leanStatuses(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	for i := range all {
		all[i].AllocatedResources, all[i].AllocatedResourcesStatus = nil, nil
		all[i].VolumeMounts, all[i].User = nil, nil
	}
	return all
}

// leanClaim keeps whose a claim is, of which template, and what resizing reads; of claims that others control their name.
func leanClaim(resources []Resource) func(any) (any, error) {
	return func(obj any) (any, error) {
		c, ok := obj.(*corev1.PersistentVolumeClaim)
		if !ok {
			return obj, nil
		}
		c.ManagedFields = nil
		if !owned(c, resources) {
			c.Labels, c.Annotations, c.Finalizers = nil, nil, nil
			c.Spec, c.Status = corev1.PersistentVolumeClaimSpec{}, corev1.PersistentVolumeClaimStatus{}
			return c, nil
		}
		hash, has := c.Annotations[appsv1alpha1.AnnotationClaimTemplate]
		c.Annotations = nil
		if has {
			c.Annotations = map[string]string{appsv1alpha1.AnnotationClaimTemplate: hash}
		}
		c.Spec = corev1.PersistentVolumeClaimSpec{
			Resources: corev1.VolumeResourceRequirements{Requests: c.Spec.Resources.Requests}, StorageClassName: c.Spec.StorageClassName,
		}
		c.Status = corev1.PersistentVolumeClaimStatus{
			Capacity: c.Status.Capacity, Conditions: c.Status.Conditions, AllocatedResourceStatuses: c.Status.AllocatedResourceStatuses,
		}
		return c, nil
	}
}

// leanSlice keeps which pods a slice names, and how.
func leanSlice(obj any) (any, error) {
	s, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return obj, nil
	}
	lean := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Name: s.Name, Namespace: s.Namespace, UID: s.UID, ResourceVersion: s.ResourceVersion,
	}}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if e.TargetRef == nil || e.TargetRef.Kind != "Pod" {
			continue
		}
		lean.Endpoints = append(lean.Endpoints, discoveryv1.Endpoint{
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: e.TargetRef.Name},
			Conditions: e.Conditions,
		})
	}
	return lean, nil
}

// leanRevision drops the content of revisions that are not of our kinds (StatefulSets and DaemonSets have them too).
func leanRevision(resources []Resource) func(any) (any, error) {
	return func(obj any) (any, error) {
		r, ok := obj.(*appsv1.ControllerRevision)
		if !ok {
			return obj, nil
		}
		r.ManagedFields = nil
		if !owned(r, resources) {
			r.Labels, r.Annotations, r.Data = nil, nil, runtime.RawExtension{}
		}
		return r, nil
	}
}
