package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// own are the directories that the node does not share with the machine.
func own() []string { return []string{"run", "var", "tmp", "node"} }

// beInit builds the node's root, says so in the file ready (its lines are the
// node's subnet and snapshotter), and reaps until it is killed.
func beInit(dir string, binds []string) error {
	claim, subnet, err := claimSubnet()
	if err != nil {
		return err
	}
	defer claim.Close()
	root := filepath.Join(dir, "root")
	if err := buildRoot(dir, root, binds); err != nil {
		return err
	}
	if err := pivot(root); err != nil {
		return err
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	if err := writeFile("/node/ready", subnet+"\n"+snapshotter()+"\n"); err != nil {
		return err
	}
	for {
		reap()
		select {
		case <-children:
		case <-time.After(time.Second):
		}
	}
}

func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// writeFile writes a file in one step: who waits for it sees all of it.
func writeFile(path, text string) error {
	if err := os.WriteFile(path+".tmp", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

func buildRoot(dir, root string, binds []string) error {
	// What is mounted here must not show outside, and the other way round.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	// pivot_root wants a mount point.
	if err := bind(root, root); err != nil {
		return err
	}
	if err := shareTopLevel(root); err != nil {
		return err
	}
	for _, name := range own() {
		if err := bindOwn(filepath.Join(dir, name), filepath.Join(root, name)); err != nil {
			return err
		}
	}
	// Many machines have /var/run as a link to /run.
	if err := os.Symlink("/run", filepath.Join(dir, "var", "run")); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for _, b := range binds {
		source, target, ok := strings.Cut(b, ":")
		if !ok {
			return fmt.Errorf("%q is not SOURCE:TARGET", b)
		}
		target = filepath.Join(root, target)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := bind(source, target); err != nil {
			return err
		}
	}
	proc := filepath.Join(root, "proc")
	if err := os.MkdirAll(proc, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting proc: %w", err)
	}
	return nil
}

// shareTopLevel binds the machine's top-level directories into root, all but
// those that the node has of its own.
func shareTopLevel(root string) error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := "/"+e.Name(), filepath.Join(root, e.Name())
		switch {
		case e.Name() == "proc" || slices.Contains(own(), e.Name()):
		case e.Type()&os.ModeSymlink != 0:
			to, err := os.Readlink(source)
			if err != nil {
				return err
			}
			if err := os.Symlink(to, target); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
		case e.IsDir():
			if err := errors.Join(os.MkdirAll(target, 0o755), bind(source, target)); err != nil {
				return err
			}
		}
	}
	return nil
}

func bindOwn(source, target string) error {
	return errors.Join(os.MkdirAll(source, 0o755), os.MkdirAll(target, 0o755), bind(source, target))
}

func bind(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("binding %s to %s: %w", source, target, err)
	}
	return nil
}

// pivot makes root the root directory and lets go of the old one.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	// The old root lands on top of the new one, which needs no directory for it.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detaching the old root: %w", err)
	}
	return os.Chdir("/")
}

// snapshotter is containerd's for images here: overlayfs where the file system
// takes it. It does not lie on another overlay, as in a container; copies do.
func snapshotter() string {
	const dir = "/var/overlay-probe"
	defer os.RemoveAll(dir)
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return "native"
		}
	}
	options := "lowerdir=" + dir + "/lower,upperdir=" + dir + "/upper,workdir=" + dir + "/work"
	if err := unix.Mount("overlay", dir+"/merged", "overlay", 0, options); err != nil {
		return "native"
	}
	_ = unix.Unmount(dir+"/merged", unix.MNT_DETACH)
	return "overlayfs"
}

// claimSubnet picks a /24 for the node's pods that no interface of the machine
// and no other node uses. The claim is an abstract socket: two nodes that start
// together cannot both have it, and the kernel gives it back when this process
// ends. 198.18.0.0/15 is set aside for tests of network devices, so it is seldom
// anybody's real network.
func claimSubnet() (claim net.Listener, subnet string, err error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, "", err
	}
	for _, i := range rand.Perm(512) {
		candidate := &net.IPNet{IP: net.IPv4(198, byte(18+i/256), byte(i%256), 0).To4(), Mask: net.CIDRMask(24, 32)}
		if slices.ContainsFunc(addresses, func(a net.Addr) bool { return overlap(a, candidate) }) {
			continue
		}
		claim, err = net.Listen("unix", "@underway-lab/"+candidate.String())
		if err == nil {
			return claim, candidate.String(), nil
		}
	}
	return nil, "", fmt.Errorf("no subnet of 198.18.0.0/15 is free: %w", err)
}

// overlap says whether an address of an interface is in, or its network holds,
// the candidate. The default route is no overlap; a host route of a pod has the
// pod's gateway on its interface.
func overlap(address net.Addr, candidate *net.IPNet) bool {
	n, ok := address.(*net.IPNet)
	return ok && (candidate.Contains(n.IP) || n.Contains(candidate.IP))
}
