package lab

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// helperVariable makes the test binary play the owner of a fleet.
const helperVariable = "UNDERWAY_LAB_TEST_HELPER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperVariable); dir != "" {
		if os.Getenv(helperVariable+"_REAL") != "" {
			ownRealNode(dir)
		}
		ownProcesses(dir, os.Getenv(helperVariable+"_DETACH") != "")
	}
	os.Exit(m.Run())
}

// ownProcesses starts two children, says which, and waits to be killed.
func ownProcesses(dir string, detach bool) {
	f, err := newFleet(Options{Dir: dir, Detach: detach})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	for _, name := range []string{"one", "two"} {
		p, err := f.Run(name, "sleep", []string{"600"}, nil)
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(p.PID())
	}
	fmt.Println("done")
	select {}
}

// ownRealNode starts a member with a real node, says so, and waits to be killed.
func ownRealNode(dir string) {
	_, err := Start(context.Background(), Options{Dir: dir, Members: 1, RealNodes: 1, Log: os.Stderr})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("done")
	select {}
}

// startOwner runs the helper until its children run, and returns their pids.
func startOwner(t *testing.T, dir string, env ...string) (*exec.Cmd, []int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), helperVariable+"="+dir), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var pids []int
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "done" {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(lines.Text())
		}
		pids = append(pids, pid)
	}
	return cmd, pids
}

func alive(pid int) bool {
	start, err := startTime(pid)
	return err == nil && running(pid, start)
}

func kill9(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

func TestChildrenDieWithTheirOwner(t *testing.T) {
	t.Parallel()
	cmd, pids := startOwner(t, t.TempDir())
	if len(pids) != 2 || !alive(pids[0]) || !alive(pids[1]) {
		t.Fatalf("children %v do not run", pids)
	}
	kill9(t, cmd)
	eventually(t, func() bool { return !alive(pids[0]) && !alive(pids[1]) })
}

// A detached fleet outlives its owner, and Down ends what the state file names
// and what only the mark tells.
func TestDownEndsWhatAKilledOwnerLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, pids := startOwner(t, dir, helperVariable+"_DETACH=1")
	kill9(t, cmd)
	if len(pids) != 2 || !alive(pids[0]) || !alive(pids[1]) {
		t.Fatalf("children %v of a detached fleet ended with it", pids)
	}
	// As if the owner had died before it wrote the second child down.
	s, err := readState(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := &Fleet{dir: dir, state: *s, processes: []*Process{s.Processes[0].process()}}
	if err := f.save(); err != nil {
		t.Fatal(err)
	}
	bystander := exec.Command("sleep", "600")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()

	if err := Down(dir); err != nil {
		t.Fatal(err)
	}
	if alive(pids[0]) || alive(pids[1]) {
		t.Error("children run after Down")
	}
	if !alive(bystander.Process.Pid) {
		t.Error("Down killed a stranger")
	}
	if err := Down(dir); err != nil {
		t.Errorf("a second Down: %v", err)
	}
}

// A pid that is in use again is somebody else's.
func TestDownSparesAReusedPID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stranger := exec.Command("sleep", "600")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	start, err := startTime(stranger.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	f := &Fleet{dir: dir, state: newState(Options{Detach: true})}
	f.processes = []*Process{{name: "old", pid: stranger.Process.Pid, start: start - 1}}
	if err := f.save(); err != nil {
		t.Fatal(err)
	}
	if err := Down(dir); err != nil {
		t.Fatal(err)
	}
	if !alive(stranger.Process.Pid) {
		t.Error("Down killed the process that has the pid now")
	}
}

func TestNewFleetRefusesARunningOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, _ := startOwner(t, dir)
	if _, err := newFleet(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("a second fleet in the directory: %v", err)
	}
	kill9(t, cmd)
	if _, err := newFleet(Options{Dir: dir}); err != nil {
		t.Errorf("a fleet where a killed one was: %v", err)
	}
}

func TestRemoveAbandoned(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	start, err := startTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(root, fmt.Sprintf("%s%d-%d-1", tempPrefix, os.Getpid(), start))
	gone := filepath.Join(root, fmt.Sprintf("%s%d-%d-1", tempPrefix, os.Getpid(), start-1))
	other := filepath.Join(root, tempPrefix+"notes")
	for _, dir := range []string{mine, gone, other} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeAbandoned(root); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{mine: true, gone: false, other: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s exists: %v, want %v", filepath.Base(dir), err == nil, want)
		}
	}
}

func TestProcess(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "logs", "p.log")
	p, err := startProcess(command{name: "p", path: "sh", args: []string{"-c", "echo $GREETING; exec sleep 600"}, env: []string{"GREETING=hello"}, log: log})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		data, _ := os.ReadFile(p.Log())
		return string(data) == "hello\n"
	})
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		fields, err := procStat(p.PID())
		return err == nil && fields[0] == "T"
	})
	if !p.Alive() {
		t.Error("a paused process counts as ended")
	}
	if err := p.Stop(5 * time.Second); err != nil || p.Alive() {
		t.Errorf("stopping a paused process: %v, alive %v", err, p.Alive())
	}
	if err := p.Kill(); err != nil {
		t.Errorf("killing an ended process: %v", err)
	}
	if _, err := startProcess(command{name: "none", path: "/does/not/exist", log: log}); err == nil {
		t.Error("a binary that is not there was started")
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for range 6000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("not within a minute")
}
