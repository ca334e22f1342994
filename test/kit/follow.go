//go:build lab

package kit

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Follow lists the pods of a namespace and then hands every change to see, in order, until ctx ends. A busy API server ends
// watches early; the next one begins where the last one ended. failed is told when a change can have been missed.
func (c *Cluster) Follow(ctx context.Context, namespace string, see func(watch.Event), failed func(error)) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	from := list.ResourceVersion
	go func() {
		for ctx.Err() == nil {
			version, err := c.followFrom(ctx, namespace, from, see)
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				failed(fmt.Errorf("following the pods of %s: %w", namespace, err))
				return
			}
			from = version
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return list.Items, nil
}

// followFrom hands on what one watch sees, and returns up to which version.
func (c *Cluster) followFrom(ctx context.Context, namespace, from string, see func(watch.Event)) (string, error) {
	w, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace), &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: from},
	})
	if err != nil {
		return from, err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			return from, apierrors.FromObject(e.Object)
		}
		from = pod.ResourceVersion
		see(e)
	}
	return from, nil
}
