package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// CacheVariable overrides where the built binaries are kept.
const CacheVariable = "UNDERWAY_LAB_CACHE"

// binaries are the paths of what the lab starts, by name.
type binaries map[string]string

// The binaries that the lab starts itself.
const (
	controlPlaneBinary = "controlplane"
	etcdBinary         = "etcd"
	kwokBinary         = "kwok"
	nodeBinary         = "node"
	appBinary          = "app"
)

// target is one binary that is built from test/lab/binaries.
type target struct {
	name string
	// what and first are for the progress line: what it is, and how long it takes
	// from an empty build cache on two cores.
	what, first string
	// module is the folder of the target's module below test/lab/binaries, and
	// pkg what to build there.
	module, pkg string
	// version is the required module whose version the binary tells, and variables
	// what the linker sets for it; empty: none.
	version   string
	variables func(version string) []string
	// tags are build tags, and cgo is CGO_ENABLED; empty: as the environment says.
	tags, cgo string
}

// simulatedTargets are the binaries of every fleet.
func simulatedTargets() []target {
	return []target{
		{name: controlPlaneBinary, what: "kube-apiserver, kube-controller-manager, kube-scheduler, kubelet", first: "6 minutes", module: ".", pkg: "./controlplane", version: "k8s.io/kubernetes", variables: kubernetesVersion},
		{name: etcdBinary, what: "etcd", first: "30 seconds", module: ".", pkg: "./etcd"},
		{name: kwokBinary, what: "kwok", first: "2 minutes", module: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok"},
	}
}

// realTargets are the binaries that real nodes need besides.
func realTargets() []target {
	const (
		containerd = "github.com/containerd/containerd/v2"
		plugins    = "github.com/containernetworking/plugins/plugins/"
		// Snapshotters that need a C library or tools, and are not used.
		tags = "no_btrfs,no_aufs,no_devmapper,no_zfs"
	)
	version := func(v string) []string { return []string{containerd + "/version.Version=" + v} }
	return []target{
		{name: "containerd", what: "containerd", first: "2 minutes", module: "containerd", pkg: containerd + "/cmd/containerd", tags: tags, version: containerd, variables: version, cgo: "0"},
		{name: "containerd-shim-runc-v2", what: "containerd's shim", first: "10 seconds", module: "containerd", pkg: containerd + "/cmd/containerd-shim-runc-v2", tags: tags, version: containerd, variables: version, cgo: "0"},
		{name: "ctr", what: "ctr", first: "10 seconds", module: "containerd", pkg: containerd + "/cmd/ctr", tags: tags, version: containerd, variables: version, cgo: "0"},
		{name: "runc", what: "runc", first: "20 seconds", module: "runc", pkg: "github.com/opencontainers/runc", tags: "seccomp", cgo: "1"},
		{name: "host-local", what: "the CNI plugin host-local", first: "5 seconds", module: "cni", pkg: plugins + "ipam/host-local", cgo: "0"},
		{name: "ptp", what: "the CNI plugin ptp", first: "5 seconds", module: "cni", pkg: plugins + "main/ptp", cgo: "0"},
		{name: nodeBinary, what: "the node's first process", first: "5 seconds", module: ".", pkg: "./node", cgo: "0"},
		{name: appBinary, what: "the program of the test images", first: "10 seconds", module: ".", pkg: "./app", cgo: "0"},
	}
}

// targets are what a fleet with or without real nodes is made of.
func targets(realNodes bool) []target {
	if realNodes {
		return slices.Concat(simulatedTargets(), realTargets())
	}
	return simulatedTargets()
}

// Build builds the binaries that are not in the cache yet, those of real nodes
// too when realNodes is set. Start does it too; this is for those who want it
// done beforehand.
func Build(ctx context.Context, source string, realNodes bool, log io.Writer) error {
	_, err := ensureBinaries(ctx, source, realNodes, newProgress(log))
	return err
}

func ensureBinaries(ctx context.Context, source string, realNodes bool, log *progress) (binaries, error) {
	paths, source, err := binaryPaths(source, realNodes)
	if err != nil {
		return nil, err
	}
	all := targets(realNodes)
	for i, t := range all {
		if _, err := os.Stat(paths[t.name]); err == nil {
			continue
		}
		b := builder{source: source, out: paths[t.name], log: log, count: fmt.Sprintf("%d of %d", i+1, len(all))}
		if err := b.build(ctx, t); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// binaryPaths returns where each target's binary is, or will be, in the cache.
func binaryPaths(source string, realNodes bool) (paths binaries, src string, err error) {
	if source == "" {
		if source, err = findSource(); err != nil {
			return nil, "", err
		}
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, "", err
	}
	goVersion, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		return nil, "", fmt.Errorf("asking go for its version: %w", err)
	}
	paths = binaries{}
	for _, t := range targets(realNodes) {
		key, err := cacheKey(source, t, string(goVersion))
		if err != nil {
			return nil, "", err
		}
		paths[t.name] = filepath.Join(cache, t.name+"-"+key, t.name)
	}
	return paths, source, nil
}

// findSource looks for test/lab/binaries from the working directory upwards:
// tests run in their package's folder, the command anywhere in the tree.
func findSource() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		source := filepath.Join(dir, "test", "lab", "binaries")
		if _, err := os.Stat(filepath.Join(source, "go.mod")); err == nil {
			return source, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no test/lab/binaries in %s or above it", wd)
		}
	}
}

func cacheDir() (string, error) {
	if dir := os.Getenv(CacheVariable); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder (set %s): %w", CacheVariable, err)
	}
	return filepath.Join(dir, "underway-lab"), nil
}

// buildFlags are go build's. The version is stamped in by the linker, as a
// release does; without it every part calls itself v0.0.0-master, and whoever
// asks a cluster for its version is misled.
func (t target) buildFlags(source string) ([]string, error) {
	link := []string{"-s -w"}
	if t.version != "" {
		version, err := t.requiredVersion(source)
		if err != nil {
			return nil, err
		}
		for _, variable := range t.variables(version) {
			link = append(link, "-X "+variable)
		}
	}
	flags := []string{"-ldflags=" + strings.Join(link, " "), "-trimpath"}
	if t.tags != "" {
		flags = append(flags, "-tags="+t.tags)
	}
	return flags, nil
}

// requiredVersion is the version of a module that the target's go.mod requires.
func (t target) requiredVersion(source string) (string, error) {
	data, err := os.ReadFile(filepath.Join(source, t.module, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("the version of %s: %w", t.name, err)
	}
	found := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(t.version) + ` (v\d+\.\d+\.\S+)`).FindStringSubmatch(string(data))
	if found == nil {
		return "", fmt.Errorf("the go.mod of %s does not require %s", t.name, t.version)
	}
	return found[1], nil
}

// kubernetesVersion is what the parts of Kubernetes tell of themselves.
func kubernetesVersion(version string) []string {
	const pkg = "k8s.io/component-base/version."
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return []string{pkg + "gitVersion=" + version, pkg + "gitMajor=" + numbers[0], pkg + "gitMinor=" + numbers[1]}
}

// cacheKey changes with everything that changes the binary: the versions the
// module pins, its main, the compiler and how it is called.
func cacheKey(source string, t target, goVersion string) (string, error) {
	module := filepath.Join(source, t.module)
	files := []string{filepath.Join(module, "go.mod"), filepath.Join(module, "go.sum")}
	if strings.HasPrefix(t.pkg, "./") {
		mains, err := filepath.Glob(filepath.Join(module, t.pkg, "*.go"))
		if err != nil {
			return "", err
		}
		slices.Sort(mains)
		files = append(files, mains...)
	}
	flags, err := t.buildFlags(source)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n", strings.TrimSpace(goVersion), t.pkg, flags)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("cache key of %s: %w", t.name, err)
		}
		fmt.Fprintf(h, "%s %d\n", filepath.Base(file), len(data))
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// builder builds one target into the cache.
type builder struct {
	source string
	out    string
	count  string
	log    *progress
}

// build builds under a lock, so that two processes that start together build
// once, and into a folder that gets its name when all is done, so that a build
// that was cut short is never taken for a finished one. The kernel drops the
// lock of a process that dies.
func (b builder) build(ctx context.Context, t target) error {
	final := filepath.Dir(b.out)
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return err
	}
	unlock, err := b.lock(ctx, final+".lock", t)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(b.out); err == nil {
		return nil
	}
	tmp := final + ".tmp"
	if err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(tmp, 0o755)); err != nil {
		return err
	}
	if err := b.compile(ctx, t, filepath.Join(tmp, t.name)); err != nil {
		return err
	}
	return os.Rename(tmp, final)
}

func (b builder) compile(ctx context.Context, t target, out string) error {
	flags, err := t.buildFlags(b.source)
	if err != nil {
		return err
	}
	args := append([]string{"build", "-C", filepath.Join(b.source, t.module)}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", out, t.pkg)...)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if t.cgo != "" {
		cmd.Env = append(cmd.Env, "CGO_ENABLED="+t.cgo)
	}
	// go starts compilers: they end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

	what := fmt.Sprintf("building %s (%s; about %s the first time)", t.what, b.count, t.first)
	b.log.printf("%s", what)
	began := time.Now()
	stop := b.log.every(20*time.Second, what)
	output, err := cmd.CombinedOutput()
	stop()
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", t.what, err, output)
	}
	b.log.printf("built %s in %ds", t.what, int(time.Since(began).Seconds()))
	return nil
}

func (b builder) lock(ctx context.Context, path string, t target) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	stop := b.log.every(20*time.Second, "waiting for another process that builds "+t.what)
	defer stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
