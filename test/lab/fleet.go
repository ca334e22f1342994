package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
)

// HubName is the name of the hub's cluster.
const HubName = "hub"

// Options describe a fleet.
type Options struct {
	// Dir holds everything of the fleet. Empty: a temporary directory, removed
	// by Stop.
	Dir string
	// Members is how many members there are; ignored when MemberNames is set.
	Members int
	// MemberNames are the members' names, which must be DNS labels.
	MemberNames []string
	// Nodes is how many simulated nodes each member has.
	Nodes int
	// HubNodes is how many simulated nodes the hub has.
	HubNodes int
	// NoHub leaves the hub's cluster out; Hub returns nil then.
	NoHub bool
	// RealNodes is how many real nodes (kubelet, containerd, runc) each member
	// has, beside its simulated ones. It takes root; ask CanRunContainers first.
	RealNodes int
	// Audit writes an audit log per cluster.
	Audit bool
	// Log is told what happens; nil for silence.
	Log io.Writer
	// Source is the directory of the module test/lab/binaries. Empty: found
	// from the working directory upwards.
	Source string
	// Detach leaves the processes running when the caller ends.
	Detach bool
}

// Fleet is a hub and its members.
type Fleet struct {
	dir  string
	temp bool
	opts Options
	bin  binaries
	log  *progress

	mu        sync.Mutex
	state     fleetState
	clusters  []*Cluster
	processes []*Process
}

// bootsAtOnce is how many clusters boot at the same time at least, and two for
// each processor: twenty at once on two processors starve each other until the
// time of each to answer is over. Four, the usual lab, boot together everywhere.
const bootsAtOnce = 4

// Start builds what is missing, starts the hub and its members in parallel, and
// returns when every API server answers and every node is ready. When it fails,
// nothing of it is left running.
func Start(ctx context.Context, opts Options) (*Fleet, error) {
	names, err := memberNames(opts)
	if err != nil {
		return nil, err
	}
	log := newProgress(opts.Log)
	if opts.RealNodes > 0 {
		if err := CanRunContainers(ctx, opts.Source, opts.Log); err != nil {
			return nil, err
		}
	}
	bin, err := ensureBinaries(ctx, opts.Source, opts.RealNodes > 0, log)
	if err != nil {
		return nil, err
	}
	if err := removeAbandoned(os.TempDir()); err != nil {
		log.printf("leftovers of earlier fleets: %v", err)
	}
	f, err := newFleet(opts)
	if err != nil {
		return nil, err
	}
	f.bin, f.log = bin, log

	began := time.Now()
	log.printf("starting %d members in %s", len(names), f.dir)
	if !opts.NoHub {
		f.addCluster(HubName, opts.HubNodes, 0)
	}
	for _, name := range names {
		f.addCluster(name, opts.Nodes, opts.RealNodes)
	}
	turn := make(chan struct{}, max(bootsAtOnce, 2*runtime.NumCPU()))
	boot := func(c *Cluster) error {
		turn <- struct{}{}
		defer func() { <-turn }()
		return c.boot(ctx)
	}
	if err := inParallel(f.clusters, boot); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	f.mu.Lock()
	f.state.Up = true
	f.mu.Unlock()
	if err := f.save(); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	log.printf("%d clusters are up after %.1fs", len(f.clusters), time.Since(began).Seconds())
	return f, nil
}

func memberNames(opts Options) ([]string, error) {
	names := slices.Clone(opts.MemberNames)
	if len(names) == 0 {
		for i := range opts.Members {
			names = append(names, "member-"+strconv.Itoa(i+1))
		}
	}
	seen := map[string]bool{HubName: true}
	for _, n := range names {
		if seen[n] {
			return nil, fmt.Errorf("two clusters of the name %q", n)
		}
		if !isDNSLabel(n) {
			return nil, fmt.Errorf("cluster name %q is not a DNS label", n)
		}
		seen[n] = true
	}
	return names, nil
}

func isDNSLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !slices.ContainsFunc([]byte(s), func(b byte) bool {
		return b != '-' && (b < '0' || b > '9') && (b < 'a' || b > 'z')
	})
}

// newFleet claims the directory and ends what an earlier, crashed fleet left in
// it. A directory whose fleet still runs is refused.
func newFleet(opts Options) (*Fleet, error) {
	f := &Fleet{dir: opts.Dir, opts: opts, temp: opts.Dir == ""}
	if f.temp {
		dir, err := newTempDir()
		if err != nil {
			return nil, err
		}
		f.dir = dir
	}
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return nil, err
	}
	f.dir = dir
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return nil, err
	}
	if err := refuseRunning(f.dir); err != nil {
		return nil, err
	}
	if err := Down(f.dir); err != nil {
		return nil, err
	}
	f.state = newState(opts)
	err = f.save()
	return f, err
}

func (f *Fleet) addCluster(name string, nodes, realNodes int) *Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &Cluster{
		fleet: f,
		name:  name,
		dir:   filepath.Join(f.dir, "clusters", name),
		index: len(f.clusters),
		state: clusterState{Name: name, Nodes: nodes},
		parts: map[Part]*Process{},
	}
	for i := range realNodes {
		c.real = append(c.real, newRealNode(c, i))
	}
	f.clusters = append(f.clusters, c)
	return c
}

// Dir is where the fleet keeps its files.
func (f *Fleet) Dir() string { return f.dir }

// Hub returns the hub's cluster, nil when there is none.
func (f *Fleet) Hub() *Cluster { return f.Cluster(HubName) }

// Member returns the member of that name, nil when there is none.
func (f *Fleet) Member(name string) *Cluster {
	if name == HubName {
		return nil
	}
	return f.Cluster(name)
}

// Cluster returns the hub or a member by name, nil when there is none.
func (f *Fleet) Cluster(name string) *Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.clusters {
		if c.name == name {
			return c
		}
	}
	return nil
}

// Members returns the members in the order they were added.
func (f *Fleet) Members() []*Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.clusters), func(c *Cluster) bool { return c.name == HubName })
}

// AddMember starts one more member, with nodes as the others have.
func (f *Fleet) AddMember(ctx context.Context, name string) (*Cluster, error) {
	if !isDNSLabel(name) {
		return nil, fmt.Errorf("cluster name %q is not a DNS label", name)
	}
	if f.Cluster(name) != nil {
		return nil, fmt.Errorf("two clusters of the name %q", name)
	}
	c := f.addCluster(name, f.opts.Nodes, f.opts.RealNodes)
	if err := c.boot(ctx); err != nil {
		c.kill()
		f.mu.Lock()
		f.clusters = slices.DeleteFunc(f.clusters, func(o *Cluster) bool { return o == c })
		f.mu.Unlock()
		return nil, errors.Join(err, f.save())
	}
	return c, f.save()
}

// Run starts a process of the caller's in the fleet: it ends with the fleet at
// the latest. env is added to the environment of this process. Output goes to a
// log file. A name may be used again when its process has ended; the log goes on.
func (f *Fleet) Run(name, binary string, args, env []string) (*Process, error) {
	f.mu.Lock()
	for _, p := range f.processes {
		if p.name == name && p.Alive() {
			f.mu.Unlock()
			return nil, fmt.Errorf("process %q is running already", name)
		}
	}
	f.mu.Unlock()
	p, err := f.spawn(command{
		name: name, path: binary, args: args, env: env,
		log: filepath.Join(f.dir, "logs", name+".log"),
	})
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.processes = append(slices.DeleteFunc(f.processes, func(o *Process) bool { return o.name == name }), p)
	f.mu.Unlock()
	return p, f.save()
}

// Process returns the process that Run started under that name, nil when there
// is none.
func (f *Fleet) Process(name string) *Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.processes {
		if p.name == name {
			return p
		}
	}
	return nil
}

// Processes returns what Run started, also what has ended since.
func (f *Fleet) Processes() []*Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.processes)
}

// Stop ends every process of the fleet and removes a temporary directory. The
// clusters are killed: nothing reads their data again. The caller's processes
// get five seconds to end by themselves.
func (f *Fleet) Stop() error {
	err := inParallel(f.Processes(), func(p *Process) error { return p.Stop(5 * time.Second) })
	f.mu.Lock()
	clusters := slices.Clone(f.clusters)
	f.mu.Unlock()
	for _, c := range clusters {
		c.kill()
	}
	// Children of the caller's processes may still run: they carry the mark.
	err = errors.Join(err, killMarked(f.state.Mark), removeCgroups(cgroupName(f.state.Mark)))
	if f.temp {
		return errors.Join(err, os.RemoveAll(f.dir))
	}
	return errors.Join(err, os.Remove(statePath(f.dir)))
}

// spawn starts a process that carries the fleet's mark.
func (f *Fleet) spawn(c command) (*Process, error) {
	c.detach = f.opts.Detach
	c.env = append(slices.Clone(c.env), markVariable+"="+f.state.Mark)
	return startProcess(c)
}

// inParallel runs fn for each item at once and joins the errors.
func inParallel[T any](items []T, fn func(T) error) error {
	errs := make([]error, len(items))
	var wg sync.WaitGroup
	for i, item := range items {
		wg.Go(func() { errs[i] = fn(item) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
