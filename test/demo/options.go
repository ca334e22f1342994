package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// canaryPods move first.
const canaryPods = 2

// options are the flags; their defaults come from the environment, so that `make demo PODS=600` works.
type options struct {
	pods, members int
	keep          bool
	// requests: count what hub and agents ask of API servers.
	requests bool
	// patience is how long one step may take.
	patience time.Duration
	root     string
}

func readOptions(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	pods, err := number("PODS", 24)
	if err != nil {
		return o, err
	}
	members, err := number("MEMBERS", 3)
	if err != nil {
		return o, err
	}
	fs.IntVar(&o.pods, "pods", pods, "pods over all members ($PODS)")
	fs.IntVar(&o.members, "members", members, "member clusters ($MEMBERS)")
	fs.BoolVar(&o.keep, "keep", set("KEEP"), "leave the fleet up ($KEEP)")
	fs.BoolVar(&o.requests, "requests", set("REQUESTS"), "count the requests of hub and agents, by audit logs ($REQUESTS)")
	fs.DurationVar(&o.patience, "patience", 0, "how long one step may take before it is an error (default: 5 minutes, and more for many members and pods)")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.members < 1 || o.members > 20:
		return o, fmt.Errorf("MEMBERS=%d: from 1 to 20", o.members)
	case o.pods < o.members*(canaryPods+1):
		return o, fmt.Errorf("PODS=%d: at least %d for %d members, so that a canary of %d is a part of the first", o.pods, o.members*(canaryPods+1), o.members, canaryPods)
	case o.pods > 3000:
		return o, fmt.Errorf("PODS=%d: at most 3000", o.pods)
	}
	if o.patience == 0 {
		// All of them share the processors of this machine.
		o.patience = 5*time.Minute + time.Duration(o.members-3)*30*time.Second + time.Duration(o.pods)*500*time.Millisecond
	}
	o.root, err = repository()
	return o, err
}

// set says whether a variable is set to anything but no.
func set(variable string) bool {
	return !slices.Contains([]string{"", "0", "false"}, os.Getenv(variable))
}

func number(variable string, fallback int) (int, error) {
	text := os.Getenv(variable)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s=%q is not a number", variable, text)
	}
	return n, nil
}

// repository is the folder of go.mod, from the working directory upwards.
func repository() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "demo", "app.yaml")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside the repository", wd)
		}
	}
}

// memberNames are eu-1, us-1, ap-1, eu-2 ...
func memberNames(n int) []string {
	regions := []string{"eu", "us", "ap"}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", regions[i%len(regions)], i/len(regions)+1)
	}
	return names
}

// share divides the pods over the members; the first ones take what is left over.
func share(pods, members int) []int {
	out := make([]int, members)
	for i := range out {
		out[i] = pods / members
		if i < pods%members {
			out[i]++
		}
	}
	return out
}
