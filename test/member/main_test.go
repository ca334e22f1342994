//go:build lab

// Package member tests the agent of a member cluster on real control planes with simulated nodes.
//
// Cluster steady has one agent that nothing disturbs; the tests on it run side by side, a namespace each. Cluster rough is
// for tests that kill agents, start two, or change the CRD; they run one after the other.
package member

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

var (
	fleet         *lab.Fleet
	steady, rough kit.Cluster
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(context.Background(), 45*time.Minute) // what plays a provisioner ends with it
	defer cancel()
	dir, err := os.MkdirTemp("", "underway-member-test-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	binary, err := kit.BuildAgent(ctx, dir)
	if err != nil {
		return fail(err)
	}
	fleet, err = lab.Start(ctx, lab.Options{MemberNames: []string{"steady", "rough"}, NoHub: true, Nodes: 3, Audit: true, Log: os.Stderr})
	if err != nil {
		return fail(err)
	}
	defer func() { _ = fleet.Stop() }()
	for name, c := range map[string]*kit.Cluster{"steady": &steady, "rough": &rough} {
		if *c, err = kit.Connect(ctx, fleet, fleet.Member(name), binary); err != nil {
			return fail(err)
		}
	}
	if err := steady.InstallCRD(ctx, nil); err != nil {
		return fail(err)
	}
	if err := steady.Provision(ctx); err != nil {
		return fail(err)
	}
	// Without an election: an API server that answers late on a busy machine must not end the only agent.
	if _, err := steady.StartAgent("agent-steady", "--leader-elect=false"); err != nil {
		return fail(err)
	}
	// Tests wait most of their time; the number of processors is no measure for them.
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		return fail(err)
	}
	code := m.Run()
	if code != 0 {
		keepLogs()
	}
	return code
}

// keepLogs prints the end of the agents' logs.
func keepLogs() {
	for _, p := range fleet.Processes() {
		out, _ := exec.Command("tail", "-n", "40", p.Log()).CombinedOutput()
		fmt.Fprintf(os.Stderr, "--- %s ---\n%s\n", p.Name(), out)
	}
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
