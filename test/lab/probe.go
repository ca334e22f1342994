package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CanRunContainers says whether this machine can have real nodes: nil, or an
// error that names what is missing and the remedy. It builds the binaries when
// they are missing, and runs a container as a node would: with runc, inside a
// node's namespaces, in a cgroup of its own. That takes half a second.
func CanRunContainers(ctx context.Context, source string, log io.Writer) error {
	if runtime.GOOS != "linux" {
		return errors.New("containers need Linux")
	}
	if os.Geteuid() != 0 {
		return errors.New("containers need root (remedy: run as root)")
	}
	if _, err := machineAddress(); err != nil {
		return err
	}
	bin, err := ensureRealBinaries(ctx, source, newProgress(log))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := runContainer(ctx, bin); err != nil {
		return fmt.Errorf("this machine runs no containers: %w", err)
	}
	return nil
}

// ensureRealBinaries asks for what runc is built with before it builds: a
// compiler's complaint would hide the remedy.
func ensureRealBinaries(ctx context.Context, source string, log *progress) (binaries, error) {
	paths, _, err := binaryPaths(source, true)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(paths["runc"]); err != nil {
		if err := canBuildRunc(ctx); err != nil {
			return nil, err
		}
	}
	return ensureBinaries(ctx, source, true, log)
}

func canBuildRunc(ctx context.Context) error {
	const remedy = "(remedy: apt-get install gcc libc6-dev pkg-config libseccomp-dev)"
	for _, tool := range []string{"gcc", "pkg-config"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("building runc needs %s %s", tool, remedy)
		}
	}
	if err := exec.CommandContext(ctx, "pkg-config", "--exists", "libseccomp").Run(); err != nil {
		return fmt.Errorf("building runc needs libseccomp %s", remedy)
	}
	return nil
}

// runContainer runs the test program in a container and reads its answer.
func runContainer(ctx context.Context, bin binaries) (err error) {
	dir, err := newTempDir()
	if err != nil {
		return err
	}
	// A fleet of one process and no cluster: what a crash of ours leaves is found
	// and removed as a fleet's is.
	f := &Fleet{dir: dir, temp: true, bin: bin, state: newState(Options{})}
	if err := f.save(); err != nil {
		return err
	}
	cgroup := cgroupName(f.state.Mark) + "/probe"
	defer func() { err = errors.Join(err, f.Stop()) }()
	if err := makeCgroup(cgroup); err != nil {
		return err
	}
	cache := filepath.Dir(filepath.Dir(bin[nodeBinary]))
	first, err := f.spawn(command{
		name: "probe", path: bin[nodeBinary], args: []string{"init", dir, cache + ":/node/cache"},
		log: filepath.Join(dir, "logs", "probe.log"), namespaces: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
	})
	if err != nil {
		return fmt.Errorf("namespaces of a node (remedy: a machine or a privileged container): %w", err)
	}
	defer func() { err = errors.Join(first.Kill(), err) }()
	if err := waitForFile(ctx, first, filepath.Join(dir, "node", "ready")); err != nil {
		return err
	}
	if err := writeBundle(filepath.Join(dir, "node", "bundle"), bin[appBinary], cgroup); err != nil {
		return err
	}
	out, err := f.output(ctx, bin[nodeBinary], []string{"enter", strconv.Itoa(first.PID()), inNode(bin["runc"]), "run", "--bundle", "/node/bundle", "probe"})
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(string(out)); got != "alive" {
		return fmt.Errorf("a container answered %q", got)
	}
	return nil
}

func waitForFile(ctx context.Context, p *Process, path string) error {
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		if !p.Alive() {
			return fmt.Errorf("namespaces of a node (remedy: a machine or a privileged container): %s", lastLines(p.Log(), 5))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// writeBundle writes an OCI bundle (runtime specification 1.0) that prints one
// word, with the namespaces and limits that a pod's container has.
func writeBundle(dir, program, cgroup string) error {
	root := filepath.Join(dir, "rootfs")
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o755); err != nil {
		return err
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "app"), binary, 0o755); err != nil {
		return err
	}
	type object = map[string]any
	var namespaces []object
	for _, kind := range []string{"pid", "network", "ipc", "uts", "mount"} {
		namespaces = append(namespaces, object{"type": kind})
	}
	config, err := json.Marshal(object{
		"ociVersion": "1.0.2",
		"process":    object{"args": []string{"/app", "env", "ANSWER"}, "env": []string{"ANSWER=alive"}, "cwd": "/", "user": object{"uid": 0, "gid": 0}},
		"root":       object{"path": "rootfs"},
		"mounts":     []object{{"destination": "/proc", "type": "proc", "source": "proc"}},
		"linux": object{
			"cgroupsPath": "/" + cgroup + "/container",
			"namespaces":  namespaces,
			"resources": object{
				"cpu":     object{"shares": 102, "quota": 50000, "period": 100000},
				"memory":  object{"limit": 64 << 20},
				"devices": []object{{"allow": false, "access": "rwm"}},
			},
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644)
}
