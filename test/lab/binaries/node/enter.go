package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter runs a program in the namespaces of the init process and returns its
// exit code. A process cannot move itself to another PID namespace, only its
// children, so this one stays as the program's parent. The two share a process
// group: who signals the group reaches both, and this one leaves all that can be
// handled to the program. (A parent-death signal would not do: the parent is
// outside of the program's PID namespace, which Go takes for dead.)
func enter(pid string, argv []string) (code int, err error) {
	mounts, err := os.Open("/proc/" + pid + "/ns/mnt")
	if err != nil {
		return 0, err
	}
	defer mounts.Close()
	// Opened before the mounts change: then /proc is another.
	pids, err := os.Open("/proc/" + pid + "/ns/pid")
	if err != nil {
		return 0, err
	}
	defer pids.Close()
	// Threads share root and working directory, and such a thread cannot change
	// its mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return 0, fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS); err != nil {
		return 0, fmt.Errorf("entering the mounts of process %s: %w", pid, err)
	}
	if err := unix.Setns(int(pids.Fd()), unix.CLONE_NEWPID); err != nil {
		return 0, fmt.Errorf("entering the processes of process %s: %w", pid, err)
	}
	handled := make(chan os.Signal, 8)
	signal.Notify(handled, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	return 0, err
}
