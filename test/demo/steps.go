package main

import "fmt"

// step is one move of the release.
type step struct {
	name string
	// granted is, per member, how many pods may run the new image once the step is made.
	granted map[string]int
}

// steps are the canary, the first member whole, and the rest.
func steps(members []string, replicas []int) []step {
	canary, first, rest := map[string]int{}, map[string]int{}, map[string]int{}
	for i, m := range members {
		canary[m], first[m], rest[m] = 0, 0, replicas[i]
	}
	canary[members[0]], first[members[0]] = canaryPods, replicas[0]
	all := []step{
		{name: fmt.Sprintf("canary: %d pods of %s", canaryPods, members[0]), granted: canary},
		{name: members[0] + " whole", granted: first},
	}
	if len(members) > 1 {
		all = append(all, step{name: "the rest", granted: rest})
	}
	return all
}

// nothing is the grant before the first step.
func nothing(members []string) map[string]int {
	none := map[string]int{}
	for _, m := range members {
		none[m] = 0
	}
	return none
}

func sum(grants map[string]int) int {
	total := 0
	for _, n := range grants {
		total += n
	}
	return total
}

// partitions are the numbers of pods that stay: replicas minus grant. A member that nothing was granted to is held whole
// by a percent, which no scaling can leak.
func partitions(members []string, replicas []int, granted map[string]int) map[string]any {
	out := map[string]any{}
	for i, m := range members {
		if granted[m] == 0 {
			out[m] = "100%"
			continue
		}
		out[m] = replicas[i] - granted[m]
	}
	return out
}
