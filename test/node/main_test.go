//go:build lab

// Package node tests the agent on real kubelets: containers of containerd and runc, started and stopped by kubelet 1.37.
//
// The member has two real nodes. Nothing disturbs the first; tests on it run side by side, a namespace each. The second is
// for tests that stop and kill its kubelet, or fill it; they run one after the other.
//
// A machine that cannot run containers skips every test, and says why.
package node

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
	fleet  *lab.Fleet
	member kit.Cluster
	// noNodes says why this machine has no real nodes; empty when it has.
	noNodes string
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	flag.Parse()
	// Tests wait most of their time, and slots say how many of them may be at work.
	if err := flag.Set("test.parallel", "64"); err != nil {
		return fail(err)
	}
	if err := lab.CanRunContainers(ctx, "", os.Stderr); err != nil {
		noNodes = err.Error()
		fmt.Fprintf(os.Stderr, "SKIPPED real nodes: %v\n", err)
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "underway-node-test-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	binary, err := kit.BuildAgent(ctx, dir)
	if err != nil {
		return fail(err)
	}
	fleet, err = lab.Start(ctx, lab.Options{MemberNames: []string{"member"}, NoHub: true, RealNodes: 2, Audit: true, Log: os.Stderr})
	if err != nil {
		return fail(err)
	}
	defer func() { _ = fleet.Stop() }()
	if member, err = kit.Connect(ctx, fleet, fleet.Member("member"), binary); err != nil {
		return fail(err)
	}
	if err := member.InstallCRD(ctx, nil); err != nil {
		return fail(err)
	}
	// Without an election: an API server that answers late on a busy machine must not end the only agent.
	if _, err = member.StartAgent("agent", "--leader-elect=false"); err != nil {
		return fail(err)
	}
	code := m.Run()
	if code != 0 {
		keepLogs()
	}
	return code
}

// keepLogs prints the end of the agent's and the kubelets' logs.
func keepLogs() {
	var logs []string
	for _, p := range fleet.Processes() {
		logs = append(logs, p.Log())
	}
	for _, n := range member.RealNodes() {
		logs = append(logs, n.KubeletLog())
	}
	for _, log := range logs {
		out, _ := exec.Command("tail", "-n", "40", log).CombinedOutput()
		fmt.Fprintf(os.Stderr, "--- %s ---\n%s\n", log, out)
	}
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
