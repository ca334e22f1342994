package lab

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// fleetState is what a later process must know of a fleet: to use it, and to end
// what a crashed creator left.
type fleetState struct {
	// Mark is in the environment of every process of the fleet.
	Mark string `json:"mark"`
	// Owner is the process that started the fleet; a fleet that is not detached
	// ends with it.
	Owner    processState `json:"owner"`
	Detached bool         `json:"detached"`
	// Up is false until every cluster was ready once.
	Up        bool           `json:"up"`
	Audit     bool           `json:"audit"`
	Nodes     int            `json:"nodes"`
	RealNodes int            `json:"realNodes,omitempty"`
	Source    string         `json:"source"`
	Clusters  []clusterState `json:"clusters"`
	Processes []processState `json:"processes,omitempty"`
}

type clusterState struct {
	Name  string                 `json:"name"`
	Nodes int                    `json:"nodes"`
	Ports ports                  `json:"ports"`
	Parts map[Part]*processState `json:"parts,omitempty"`
	Real  []nodeState            `json:"real,omitempty"`
}

type processState struct {
	Name  string `json:"name,omitempty"`
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Log   string `json:"log,omitempty"`
	Group bool   `json:"group,omitempty"`
}

// nodeState is what is kept of a real node.
type nodeState struct {
	Port  int                        `json:"port"`
	Parts map[nodePart]*processState `json:"parts,omitempty"`
}

func statePath(dir string) string { return filepath.Join(dir, "fleet.json") }

func newState(opts Options) fleetState {
	pid := os.Getpid()
	start, _ := startTime(pid)
	return fleetState{
		Mark:      rand.Text(),
		Owner:     processState{PID: pid, Start: start},
		Detached:  opts.Detach,
		Audit:     opts.Audit,
		Nodes:     opts.Nodes,
		RealNodes: opts.RealNodes,
		Source:    opts.Source,
	}
}

// save writes the state in one step: a reader sees the old or the new one. That of a fleet that is not detached is its
// owner's to write: who opened it knows a part of it.
func (f *Fleet) save() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.state.Detached && f.state.Owner.PID != os.Getpid() {
		return nil
	}
	f.state.Clusters = f.state.Clusters[:0]
	for _, c := range f.clusters {
		f.state.Clusters = append(f.state.Clusters, c.snapshot())
	}
	f.state.Processes = f.state.Processes[:0]
	for _, p := range f.processes {
		f.state.Processes = append(f.state.Processes, *p.saved())
	}
	data, err := json.MarshalIndent(f.state, "", "  ")
	if err != nil {
		return err
	}
	tmp := statePath(f.dir) + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return fmt.Errorf("writing the state of the fleet: %w", err)
	}
	return os.Rename(tmp, statePath(f.dir))
}

func (p *Process) saved() *processState {
	return &processState{Name: p.name, PID: p.pid, Start: p.start, Log: p.log, Group: p.group}
}

func (s *processState) process() *Process {
	return &Process{name: s.Name, pid: s.PID, start: s.Start, log: s.Log, group: s.Group}
}

func readState(dir string) (*fleetState, error) {
	data, err := os.ReadFile(statePath(dir))
	if err != nil {
		return nil, err
	}
	var s fleetState
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("reading %s: %w", statePath(dir), err)
	}
	return &s, nil
}

// Open returns the fleet that lives in dir: a detached one, or one whose owner
// shares it with other processes while it lives. These look at it, and run
// processes of their own in it; its clusters are its owner's to stop and start.
func Open(dir string, opts Options) (*Fleet, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s, err := readState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no fleet in %s", dir)
	}
	if err != nil {
		return nil, err
	}
	if !s.Up {
		return nil, fmt.Errorf("the fleet in %s did not come up", dir)
	}
	opts.Dir, opts.Detach, opts.Audit, opts.Nodes, opts.Source = dir, s.Detached, s.Audit, s.Nodes, s.Source
	opts.RealNodes = s.RealNodes
	f := &Fleet{dir: dir, opts: opts, state: *s, log: newProgress(opts.Log)}
	f.bin, _, err = binaryPaths(opts.Source, opts.RealNodes > 0)
	if err != nil {
		return nil, err
	}
	for _, saved := range s.Clusters {
		c := f.addCluster(saved.Name, saved.Nodes, len(saved.Real))
		c.state.Ports = saved.Ports
		for i, n := range saved.Real {
			c.real[i].restore(n)
		}
		for part, p := range saved.Parts {
			c.parts[part] = p.process()
		}
	}
	for _, p := range s.Processes {
		f.processes = append(f.processes, p.process())
	}
	return f, nil
}

// refuseRunning returns an error when a fleet runs in dir.
func refuseRunning(dir string) error {
	s, err := readState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	owned := running(s.Owner.PID, s.Owner.Start)
	if owned {
		return fmt.Errorf("process %d runs a fleet in %s", s.Owner.PID, dir)
	}
	if !s.Detached || !s.Up {
		return nil
	}
	pids, err := marked(s.Mark)
	if err != nil {
		return err
	}
	if len(pids) > 0 {
		return fmt.Errorf("a fleet runs in %s already", dir)
	}
	return nil
}

// Down ends what runs of the fleet in dir, whatever state its creator left it
// in, and removes its files. No fleet there is no error.
func Down(dir string) error {
	s, err := readState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var left []*Process
	for _, c := range s.Clusters {
		// A node's first process takes all others of the node with it.
		for _, n := range c.Real {
			for _, p := range n.Parts {
				left = append(left, p.process())
			}
		}
		for _, p := range c.Parts {
			left = append(left, p.process())
		}
	}
	for _, p := range s.Processes {
		left = append(left, p.process())
	}
	if err := inParallel(left, (*Process).Kill); err != nil {
		return err
	}
	if err := killMarked(s.Mark); err != nil {
		return err
	}
	if err := removeCgroups(cgroupName(s.Mark)); err != nil {
		return err
	}
	// The state goes last: a Down that was cut short can be done again.
	for _, sub := range []string{"clusters", "logs"} {
		if err := os.RemoveAll(filepath.Join(dir, sub)); err != nil {
			return err
		}
	}
	return os.Remove(statePath(dir))
}

const tempPrefix = "underway-lab-"

// newTempDir makes a directory whose name tells whose it is.
func newTempDir() (string, error) {
	pid := os.Getpid()
	start, err := startTime(pid)
	if err != nil {
		return "", err
	}
	return os.MkdirTemp("", fmt.Sprintf("%s%d-%d-*", tempPrefix, pid, start))
}

// removeAbandoned removes the temporary directories in root whose owners are
// gone, and ends what may still run of them.
func removeAbandoned(root string) error {
	dirs, err := filepath.Glob(filepath.Join(root, tempPrefix+"*"))
	if err != nil {
		return err
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool {
		parts := strings.Split(strings.TrimPrefix(filepath.Base(dir), tempPrefix), "-")
		if len(parts) != 3 {
			return true
		}
		pid, err1 := strconv.Atoi(parts[0])
		start, err2 := strconv.ParseUint(parts[1], 10, 64)
		return err1 != nil || err2 != nil || running(pid, start)
	})
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, Down(dir), os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}
