// Command lab starts a fleet of real control planes on this machine, and plays
// faults on it.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/underway-dev/underway/test/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

// app holds the flag that every command has.
type app struct{ dir string }

func command() *cobra.Command {
	a := &app{}
	root := &cobra.Command{
		Use:           "lab",
		Short:         "A fleet of real Kubernetes control planes on one machine, without Docker",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&a.dir, "dir", "", "where the fleet lives (default: out/lab of this repository)")
	root.AddCommand(a.up(), a.down(), a.status(), a.kubeconfig(), a.run(), a.kill(), a.build(), a.wipe(), a.kubelet())
	root.AddCommand(
		a.parts("stop", "End parts of a cluster; data and ports stay", func(_ context.Context, c *lab.Cluster, p []lab.Part) error { return c.Stop(p...) }),
		a.parts("start", "Start parts of a cluster that do not run", func(ctx context.Context, c *lab.Cluster, p []lab.Part) error { return c.Start(ctx, p...) }),
		a.parts("restart", "Stop and start parts of a cluster", func(ctx context.Context, c *lab.Cluster, p []lab.Part) error { return c.Restart(ctx, p...) }),
		a.parts("pause", "Freeze parts of a cluster: connections stay open, nobody answers", func(_ context.Context, c *lab.Cluster, p []lab.Part) error { return c.Pause(p...) }),
		a.parts("resume", "Let frozen parts of a cluster run on", func(_ context.Context, c *lab.Cluster, p []lab.Part) error { return c.Resume(p...) }),
	)
	return root
}

// directory is where the fleet lives: out/lab below the root of the repository.
func (a *app) directory() (string, error) {
	if a.dir != "" {
		return filepath.Abs(a.dir)
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "lab", "binaries", "go.mod")); err == nil {
			return filepath.Join(dir, "out", "lab"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside the repository; say --dir", wd)
		}
	}
}

func (a *app) open() (*lab.Fleet, error) {
	dir, err := a.directory()
	if err != nil {
		return nil, err
	}
	return lab.Open(dir, lab.Options{Log: os.Stderr})
}

func (a *app) cluster(name string) (*lab.Cluster, error) {
	f, err := a.open()
	if err != nil {
		return nil, err
	}
	return find(f, name)
}

func find(f *lab.Fleet, name string) (*lab.Cluster, error) {
	if c := f.Cluster(name); c != nil {
		return c, nil
	}
	names := []string{lab.HubName}
	for _, c := range f.Members() {
		names = append(names, c.Name())
	}
	return nil, fmt.Errorf("no cluster %q; there are %s", name, strings.Join(names, ", "))
}

func (a *app) up() *cobra.Command {
	opts := lab.Options{Log: os.Stderr, Detach: true}
	nodes := "3"
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a fleet and leave it running",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := a.directory()
			if err != nil {
				return err
			}
			opts.Dir = dir
			if err := setNodes(&opts, nodes); err != nil {
				return err
			}
			f, err := lab.Start(cmd.Context(), opts)
			if err != nil {
				return err
			}
			for _, c := range append([]*lab.Cluster{f.Hub()}, f.Members()...) {
				fmt.Printf("%-16s %s\n", c.Name(), c.Kubeconfig())
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&opts.Members, "members", 3, "how many members")
	cmd.Flags().StringVar(&nodes, "nodes", nodes, "simulated nodes per member, or \"real\" for real nodes instead")
	cmd.Flags().IntVar(&opts.RealNodes, "real-nodes", 0, "real nodes per member, beside the simulated ones; with --nodes real 1 if not given (root needed)")
	cmd.Flags().IntVar(&opts.HubNodes, "hub-nodes", 1, "simulated nodes of the hub")
	cmd.Flags().BoolVar(&opts.Audit, "audit", false, "write an audit log per cluster")
	return cmd
}

// setNodes reads the flag nodes: how many are simulated, or that all are real.
func setNodes(opts *lab.Options, nodes string) error {
	if nodes == nodesReal {
		opts.Nodes, opts.RealNodes = 0, max(1, opts.RealNodes)
		return nil
	}
	n, err := strconv.Atoi(nodes)
	if err != nil || n < 0 {
		return fmt.Errorf("--nodes %s: want a number, or real", nodes)
	}
	opts.Nodes = n
	return nil
}

func (a *app) down() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the fleet, whatever state it is in, and remove its data",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.directory()
			if err != nil {
				return err
			}
			return lab.Down(dir)
		},
	}
}

// The kinds of nodes, as flags name them.
const (
	nodesReal      = "real"
	nodesSimulated = "simulated"
)

func (a *app) build() *cobra.Command {
	var nodes string
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build the binaries that up would build first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch nodes {
			case nodesReal, nodesSimulated:
				return lab.Build(cmd.Context(), "", nodes == nodesReal, os.Stderr)
			case "":
				if err := lab.Build(cmd.Context(), "", false, os.Stderr); err != nil {
					return err
				}
				if err := lab.CanRunContainers(cmd.Context(), "", os.Stderr); err != nil {
					fmt.Fprintf(os.Stderr, "lab: SKIPPED real nodes: %v\n", err)
				}
				return nil
			default:
				return fmt.Errorf("--nodes %s: want real or simulated", nodes)
			}
		},
	}
	cmd.Flags().StringVar(&nodes, "nodes", "", "for real or simulated nodes (default: for real ones if a container runs here)")
	return cmd
}

func (a *app) status() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show clusters and processes",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			f, err := a.open()
			if err != nil {
				return err
			}
			for _, c := range append([]*lab.Cluster{f.Hub()}, f.Members()...) {
				fmt.Printf("%-16s %-26s %s\n", c.Name(), c.Server(), health(c))
				for _, n := range c.RealNodes() {
					state := "kubelet running"
					if !n.KubeletRunning() {
						state = "kubelet not running"
					}
					fmt.Printf("  %-24s %-16s %s\n", n.Name(), state, n.KubeletLog())
				}
			}
			for _, p := range f.Processes() {
				state := "ended"
				if p.Alive() {
					state = fmt.Sprintf("running (pid %d)", p.PID())
				}
				fmt.Printf("%-16s %-26s %s\n", p.Name(), state, p.Log())
			}
			return nil
		},
	}
}

func health(c *lab.Cluster) string {
	down := slices.DeleteFunc(c.Parts(), c.Running)
	if len(down) == 0 {
		return "running"
	}
	return fmt.Sprintf("not running: %v", down)
}

func (a *app) kubeconfig() *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig NAME",
		Short: "Print the path of an administrator's kubeconfig",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := a.cluster(args[0])
			if err != nil {
				return err
			}
			fmt.Println(c.Kubeconfig())
			return nil
		},
	}
}

func (a *app) run() *cobra.Command {
	return &cobra.Command{
		Use:   "run NAME -- BINARY [ARGS...]",
		Short: "Start a process of yours in the fleet",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := a.open()
			if err != nil {
				return err
			}
			p, err := f.Run(args[0], args[1], args[2:], nil)
			if err != nil {
				return err
			}
			fmt.Printf("%s: pid %d, log %s\n", p.Name(), p.PID(), p.Log())
			return nil
		},
	}
}

func (a *app) kill() *cobra.Command {
	return &cobra.Command{
		Use:   "end NAME",
		Short: "End a process that run started",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := a.open()
			if err != nil {
				return err
			}
			p := f.Process(args[0])
			if p == nil {
				return fmt.Errorf("no process %q", args[0])
			}
			return p.Stop(10 * time.Second)
		},
	}
}

func (a *app) wipe() *cobra.Command {
	return &cobra.Command{
		Use:   "wipe NAME",
		Short: "Replace a cluster by an empty one under the same address and credentials",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.cluster(args[0])
			if err != nil {
				return err
			}
			return c.Wipe(cmd.Context())
		},
	}
}

// kubelet acts on the kubelet of a real node.
func (a *app) kubelet() *cobra.Command {
	actions := map[string]func(context.Context, *lab.RealNode) error{
		"start":  func(ctx context.Context, n *lab.RealNode) error { return n.StartKubelet(ctx) },
		"stop":   func(_ context.Context, n *lab.RealNode) error { return n.StopKubelet() },
		"kill":   func(_ context.Context, n *lab.RealNode) error { return n.KillKubelet() },
		"pause":  func(_ context.Context, n *lab.RealNode) error { return n.PauseKubelet() },
		"resume": func(_ context.Context, n *lab.RealNode) error { return n.ResumeKubelet() },
	}
	names := slices.Sorted(maps.Keys(actions))
	return &cobra.Command{
		Use:   "kubelet " + strings.Join(names, "|") + " NODE",
		Short: "Act on the kubelet of a real node; its containers go on",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			act := actions[args[0]]
			if act == nil {
				return fmt.Errorf("no action %q; there are %s", args[0], strings.Join(names, ", "))
			}
			f, err := a.open()
			if err != nil {
				return err
			}
			for _, c := range f.Members() {
				if n := c.RealNode(args[1]); n != nil {
					return act(cmd.Context(), n)
				}
			}
			return fmt.Errorf("no real node %q", args[1])
		},
	}
}

func (a *app) parts(verb, short string, do func(context.Context, *lab.Cluster, []lab.Part) error) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME [PART...]",
		Short: short,
		Long:  fmt.Sprintf("%s. Parts: %v; none named: all of them.", short, lab.Parts()),
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.cluster(args[0])
			if err != nil {
				return err
			}
			var parts []lab.Part
			for _, name := range args[1:] {
				p, err := lab.ParsePart(name)
				if err != nil {
					return err
				}
				parts = append(parts, p)
			}
			return do(cmd.Context(), c, parts)
		},
	}
}
