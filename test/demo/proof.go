package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// proof is what pods before and after say, counted pod by pod.
type proof struct {
	Pods                    int `json:"pods"`
	UpdatedInPlace          int `json:"updatedInPlace"`
	Recreated               int `json:"recreated"`
	PodsWithSameUID         int `json:"podsWithSameUID"`
	PodsWithSameIP          int `json:"podsWithSameIP"`
	PodsOnSameNode          int `json:"podsOnSameNode"`
	ContainersRestartedOnce int `json:"containersRestartedOnce"`
	// OtherContainersRestarted counts restarts of containers whose image did not change.
	OtherContainersRestarted int `json:"otherContainersRestarted"`
}

// compare counts how the pods of before got to after, and names every pod that did not get there as it should: still
// there (UID), same IP, same node, running the image, the changed container restarted once and the others not.
func compare(before, after sight, image string) (proof, error) {
	out := proof{Pods: len(after)}
	var wrong []error
	for _, key := range slices.Sorted(maps.Keys(before)) {
		was := before[key]
		now, there := after[key]
		if !there {
			wrong = append(wrong, fmt.Errorf("pod %s/%s (UID %s) is gone: it was replaced", was.member, was.name, was.uid))
			continue
		}
		out.PodsWithSameUID++
		wrong = append(wrong, out.add(was, now, image))
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if _, there := before[key]; !there {
			out.Recreated++
			wrong = append(wrong, fmt.Errorf("pod %s/%s (UID %s) is new", after[key].member, after[key].name, after[key].uid))
		}
	}
	return out, errors.Join(wrong...)
}

// add compares one pod that is still there.
func (p *proof) add(was, now pod, image string) error {
	var wrong []error
	is := func(ok bool, count *int, what string, args ...any) {
		if ok {
			*count++
		} else {
			wrong = append(wrong, fmt.Errorf("pod %s/%s: "+what, append([]any{now.member, now.name}, args...)...))
		}
	}
	old, c := was.containers[changed], now.containers[changed]
	is(was.ip == now.ip && now.ip != "", &p.PodsWithSameIP, "its IP was %s and is %s", was.ip, now.ip)
	is(was.node == now.node && now.node != "", &p.PodsOnSameNode, "its node was %s and is %s", was.node, now.node)
	is(c.restarts == old.restarts+1, &p.ContainersRestartedOnce, "container %s restarted %d times, want once", changed, c.restarts-old.restarts)
	is(now.runs(image) && c.id != old.id && c.id != "", &p.UpdatedInPlace, "container %s runs %s as %s (was %s), ready %v; want %s, new and ready",
		changed, c.image, c.id, old.id, now.ready, image)
	for name, c := range now.containers {
		if old := was.containers[name]; name != changed && (c.restarts != old.restarts || c.id != old.id) {
			p.OtherContainersRestarted++
			wrong = append(wrong, fmt.Errorf("pod %s/%s: container %s restarted, and its image did not change", now.member, now.name, name))
		}
	}
	return errors.Join(wrong...)
}

// exactly checks a step: in each member as many pods as granted changed, and those properly; the others are as before.
func exactly(before, now sight, image string, granted map[string]int) error {
	if len(before) != len(now) {
		return fmt.Errorf("there are %d pods, and there were %d", len(now), len(before))
	}
	moved, stayed := sight{}, sight{}
	for key, p := range now {
		if p.asked(image) {
			moved[key] = p
		} else {
			stayed[key] = p
		}
	}
	var wrong []error
	for _, member := range slices.Sorted(maps.Keys(granted)) {
		if n := len(moved.of(member)); n != granted[member] {
			wrong = append(wrong, fmt.Errorf("in %s %d pods changed, and %d were granted", member, n, granted[member]))
		}
	}
	_, err := compare(only(before, moved), moved, image)
	return errors.Join(append(wrong, err, untouched(before, stayed))...)
}

// only are the pods of all whose keys are in some.
func only(all, some sight) sight {
	out := sight{}
	for key := range some {
		if p, there := all[key]; there {
			out[key] = p
		}
	}
	return out
}

// untouched checks that pods are as they were, container by container.
func untouched(before, now sight) error {
	var wrong []error
	for _, key := range slices.Sorted(maps.Keys(now)) {
		p := now[key]
		was, there := before[key]
		switch {
		case !there:
			wrong = append(wrong, fmt.Errorf("pod %s/%s (UID %s) is new", p.member, p.name, p.uid))
		case was.ip != p.ip || was.node != p.node || !maps.Equal(was.containers, p.containers):
			wrong = append(wrong, fmt.Errorf("pod %s/%s changed, and was not granted", p.member, p.name))
		}
	}
	return errors.Join(wrong...)
}

// within checks, in the middle of a step, that no more pods of any member are on their way than were granted.
func within(now sight, granted map[string]int) error {
	var wrong []error
	for _, member := range slices.Sorted(maps.Keys(granted)) {
		if n := now.count(member, func(p pod) bool { return p.asked(newImage) }); n > granted[member] {
			wrong = append(wrong, fmt.Errorf("in %s %d pods have %s, and %d were granted", member, n, newImage, granted[member]))
		}
	}
	return errors.Join(wrong...)
}
