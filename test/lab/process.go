package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Process is one process of the fleet: a child of this one, or, in a fleet that
// was opened later, one that its creator left running.
type Process struct {
	name  string
	log   string
	pid   int
	start uint64
	// group is set when signals go to the process's group: it is a parent that
	// stays for a child in another PID namespace.
	group bool

	// done is closed when a child has ended; nil for a process that is not ours
	// to wait for.
	done chan struct{}
	err  error
}

// command is what startProcess starts.
type command struct {
	name string
	path string
	// arg0 replaces the name the process sees itself under.
	arg0   string
	args   []string
	env    []string
	log    string
	detach bool
	// namespaces are the CLONE_NEW* flags of the namespaces that it begins in.
	namespaces uintptr
	group      bool
}

// startProcess starts a process whose output goes to a log file. Unless it is
// detached the kernel kills it when this process ends.
//
// That signal is sent when the *thread* that started the child ends, not the
// process, and Go ends threads as it likes. So a goroutine of its own starts the
// child, and stays locked to its thread until the child has ended.
func startProcess(c command) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(c.log), 0o755); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.path, c.args...)
	if c.arg0 != "" {
		cmd.Args[0] = c.arg0
	}
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: c.namespaces}
	if c.detach {
		cmd.SysProcAttr.Setsid = true
	} else {
		// A group of its own: a Ctrl-C in the terminal is for the caller, who
		// then ends the fleet in order.
		cmd.SysProcAttr.Setpgid = true
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}

	p := &Process{name: c.name, log: c.log, group: c.group, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = out.Close()
		if err != nil {
			started <- fmt.Errorf("starting %s: %w", c.name, err)
			return
		}
		p.pid = cmd.Process.Pid
		p.start, _ = startTime(p.pid)
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Name is the name the process was started under.
func (p *Process) Name() string { return p.name }

// PID is the process id.
func (p *Process) PID() int { return p.pid }

// Log is the path of the file its output goes to.
func (p *Process) Log() string { return p.log }

// Alive says whether the process has not ended. A paused one is alive.
func (p *Process) Alive() bool {
	if p.done == nil {
		return running(p.pid, p.start)
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait waits for the end of the process and returns how it ended. The end of a
// process that somebody else started is seen, but not how.
func (p *Process) Wait() error {
	if p.done != nil {
		<-p.done
		return p.err
	}
	for running(p.pid, p.start) {
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// Kill ends the process at once (SIGKILL) and waits for its end.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	_ = p.Wait()
	return p.waitGroup()
}

// waitGroup waits for the end of the group, whose leader has ended: its child may
// still be dying, and who starts its successor must not meet it.
func (p *Process) waitGroup() error {
	if !p.group {
		return nil
	}
	for range 500 {
		if err := syscall.Kill(-p.pid, 0); errors.Is(err, syscall.ESRCH) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("%s: its process group %d does not end", p.name, p.pid)
}

// Stop asks the process to end (SIGTERM), and kills it after the grace.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	// A paused process would sleep over the request.
	if err := p.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = p.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return p.waitGroup()
	case <-time.After(grace):
		return p.Kill()
	}
}

// Pause stops the process from running (SIGSTOP): its connections stay open and
// nobody answers.
func (p *Process) Pause() error { return p.Signal(syscall.SIGSTOP) }

// Resume lets a paused process run on.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Signal sends a signal. A process that has ended is no error.
func (p *Process) Signal(s syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	to := p.pid
	if p.group {
		to = -p.pid
	}
	if err := syscall.Kill(to, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("sending %s to %s (pid %d): %w", s, p.name, p.pid, err)
	}
	return nil
}
