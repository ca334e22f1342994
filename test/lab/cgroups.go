package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// cgroupName is the cgroup of a fleet, below which its nodes have theirs. It is
// all that can be left of a node when its processes are gone, and it is found by
// the fleet's mark.
func cgroupName(mark string) string {
	if mark == "" {
		return ""
	}
	return "underway-lab-" + strings.ToLower(mark)
}

func (n *RealNode) cgroup() string { return cgroupName(n.cluster.fleet.state.Mark) + "/" + n.name }

// hierarchies are the mount points of all cgroup hierarchies, version 1 and 2.
func hierarchies() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseHierarchies(string(data)), nil
}

// parseHierarchies reads mountinfo: the mount point is the fifth field, and the
// type follows a lone dash.
func parseHierarchies(mountinfo string) []string {
	var points []string
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if ok && len(fields) >= 5 && len(rest) > 0 && (rest[0] == "cgroup" || rest[0] == "cgroup2") {
			points = append(points, fields[4])
		}
	}
	// One hierarchy may be mounted twice.
	slices.Sort(points)
	return slices.Compact(points)
}

// makeCgroup makes a cgroup in every hierarchy.
func makeCgroup(name string) error {
	points, err := hierarchies()
	if err != nil {
		return err
	}
	if len(points) == 0 {
		return errors.New("no cgroup hierarchy is mounted")
	}
	for _, point := range points {
		dir := point
		for step := range strings.SplitSeq(name, "/") {
			parent := dir
			dir = filepath.Join(dir, step)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("a cgroup for a node: %w", err)
			}
			if err := inheritCpuset(parent, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// inheritCpuset gives a cgroup of version 1 its parent's processors and memory
// nodes: it begins with none, and takes no process then.
func inheritCpuset(parent, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) || (err == nil && len(bytes.TrimSpace(own)) > 0) {
			continue
		}
		if err != nil {
			return err
		}
		value, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil {
			return err
		}
		// In version 2 empty means the parent's, and so it may stay.
		if len(bytes.TrimSpace(value)) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
			return fmt.Errorf("processors of a node's cgroup: %w", err)
		}
	}
	return nil
}

// removeCgroups removes a cgroup and all below it from every hierarchy. Its
// processes are gone, or going.
func removeCgroups(name string) error {
	if name == "" {
		return nil
	}
	points, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, point := range points {
		errs = append(errs, removeCgroup(filepath.Join(point, name)))
	}
	return errors.Join(errs...)
}

func removeCgroup(dir string) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := removeTree(dir)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		// The kernel lets go of a cgroup a moment after its last process.
		time.Sleep(20 * time.Millisecond)
	}
}

// removeTree removes directories, deepest first. The files of a cgroup are not
// there to be removed.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the cgroup %s: %w", dir, err)
	}
	return nil
}
