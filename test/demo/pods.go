package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pod is what the demo remembers of a pod, as its member reports it.
type pod struct {
	member, name string
	uid          types.UID
	ip, node     string
	ready, going bool
	containers   map[string]container
}

// container is what runs, by the kubelet's report.
type container struct {
	// wanted is the image of the spec, image the one that runs.
	wanted, image, id string
	restarts          int32
	running           bool
}

// sight is all pods of the workload at one moment, by "<member>/<uid>".
type sight map[string]pod

// look reads the pods of every member.
func look(ctx context.Context, members []*member, fresh bool) (sight, error) {
	seen := sight{}
	for _, m := range members {
		list := &corev1.PodList{}
		opts := &client.ListOptions{Namespace: namespace, LabelSelector: labels.SelectorFromSet(labels.Set{"app": workload})}
		if !fresh {
			// From the API server's cache: a big fleet is looked at once a second.
			opts.Raw = cachedRead()
		}
		if err := m.client.List(ctx, list, opts); err != nil {
			return nil, fmt.Errorf("reading the pods of %s: %w", m.name, err)
		}
		for i := range list.Items {
			p := podOf(m.name, &list.Items[i])
			seen[m.name+"/"+string(p.uid)] = p
		}
	}
	return seen, nil
}

func podOf(member string, p *corev1.Pod) pod {
	out := pod{
		member: member, name: p.Name, uid: p.UID, ip: p.Status.PodIP, node: p.Spec.NodeName,
		going: p.DeletionTimestamp != nil, containers: map[string]container{},
	}
	for _, c := range p.Spec.Containers {
		out.containers[c.Name] = container{wanted: c.Image}
	}
	for _, s := range p.Status.ContainerStatuses {
		c := out.containers[s.Name]
		c.image, c.id, c.restarts, c.running = s.Image, s.ContainerID, s.RestartCount, s.State.Running != nil
		out.containers[s.Name] = c
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.ready = c.Status == corev1.ConditionTrue
		}
	}
	return out
}

// of are the pods of one member, by name.
func (s sight) of(member string) []pod {
	var pods []pod
	for p := range maps.Values(s) {
		if p.member == member {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b pod) int { return cmp.Compare(a.name, b.name) })
	return pods
}

// asked says whether somebody has changed, or is changing, the pod to image: by its spec, which no status can hide.
func (p pod) asked(image string) bool { return p.containers[changed].wanted == image }

// runs says whether the pod runs image and is ready.
func (p pod) runs(image string) bool {
	c := p.containers[changed]
	return c.wanted == image && c.image == image && c.running && p.ready && !p.going
}

// count is how many pods of a member are so.
func (s sight) count(member string, is func(pod) bool) int {
	n := 0
	for p := range maps.Values(s) {
		if p.member == member && is(p) {
			n++
		}
	}
	return n
}
