package lab

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseHierarchies(t *testing.T) {
	t.Parallel()
	mountinfo := `26 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:27 / /sys/fs/cgroup rw,relatime shared:4 - tmpfs memory rw,mode=755
31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:5 master:1 - cgroup group rw,cpu
40 30 0:37 / /sys/fs/cgroup/unified rw,relatime - cgroup2 group rw
41 30 0:37 / /sys/fs/cgroup/unified rw,relatime - cgroup2 group rw
broken
`
	want := []string{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/unified"}
	if got := parseHierarchies(mountinfo); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestReserved(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cpus int
		kib  string
		want map[string]string
	}{
		"the rest":              {cpus: 8, kib: "16777216", want: map[string]string{"cpu": "7000m", "memory": "15032385536"}},
		"a small machine":       {cpus: 1, kib: "1048576", want: map[string]string{}},
		"exactly what is given": {cpus: 1, kib: "2097152", want: map[string]string{}},
	} {
		got, err := reserved(strings.Repeat("processor\t: 0\nmodel name\t: x\n", tc.cpus), "MemTotal:       "+tc.kib+" kB\nMemFree:  1 kB\n")
		if err != nil || !maps.Equal(got, tc.want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, tc.want)
		}
	}
	if _, err := reserved("", "MemFree: 1 kB\n"); err == nil {
		t.Error("memory that cannot be read is no error")
	}
}

func TestRunningTask(t *testing.T) {
	t.Parallel()
	table := "TASK    PID     STATUS\nold     12      STOPPED\nnew     13      RUNNING\nother   14      RUNNING\n"
	for want, ids := range map[string][]string{"new": {"old", "new"}, "": {"old", "gone"}, "other": {"other"}} {
		if got := runningTask(table, ids); got != want {
			t.Errorf("of %v runs %q, want %q", ids, got, want)
		}
	}
}

// Two tags that are one image have one digest; all others differ, and every blob
// is what its name says.
func TestImages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, path := filepath.Join(dir, "app"), filepath.Join(dir, "images.tar")
	if err := os.WriteFile(program, []byte("the program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeImages(path, program); err != nil {
		t.Fatal(err)
	}
	files := untar(t, path)
	var index ociIndex
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, m := range index.Manifests {
		digests[m.Annotations[ociNameOfImport]] = m.Digest
		if len(blob(t, files, m.Digest)) != m.Size {
			t.Errorf("%v: another size", m)
		}
		var manifest ociManifest
		if err := json.Unmarshal(blob(t, files, m.Digest), &manifest); err != nil {
			t.Fatal(err)
		}
		blob(t, files, manifest.Config.Digest)
		if layer := blob(t, files, manifest.Layers[0].Digest); !bytes.Contains(layer, []byte("the program")) {
			t.Error("the layer does not hold the program")
		}
	}
	if len(digests) != len(images()) {
		t.Errorf("%d names for %d images", len(digests), len(images()))
	}
	if digests[Image(AppImage, "v2")] != digests[Image(AppImage, "v2-again")] {
		t.Error("v2 and v2-again are not one image")
	}
	if distinct := len(slices.Compact(slices.Sorted(maps.Values(digests)))); distinct != len(images())-1 {
		t.Errorf("%d digests for %d images of which two are one", distinct, len(images()))
	}
}

func blob(t *testing.T, files map[string][]byte, digest string) []byte {
	t.Helper()
	data, ok := files["blobs/sha256/"+strings.TrimPrefix(digest, "sha256:")]
	if !ok {
		t.Fatalf("no blob %s", digest)
	}
	l := layout{files: map[string][]byte{}}
	if got := l.blob("x", data).Digest; got != digest {
		t.Errorf("the blob %s has the digest %s", digest, got)
	}
	return data
}

func untar(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBuildFlags(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "go.mod"), []byte("module x\n\nrequire (\n\tk8s.io/kubernetes v1.37.2\n)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tgt := target{name: "a", module: ".", version: "k8s.io/kubernetes", variables: kubernetesVersion, tags: "x,y"}
	flags, err := tgt.buildFlags(source)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(flags, " ")
	for _, want := range []string{"gitVersion=v1.37.2", "gitMajor=1 ", "gitMinor=37 ", "-tags=x,y"} {
		if !strings.Contains(all+" ", want) {
			t.Errorf("%s: no %s", all, want)
		}
	}
	tgt.version = "k8s.io/other"
	if _, err := tgt.buildFlags(source); err == nil {
		t.Error("a version that is not required is no error")
	}
}

// A cluster of real nodes only has no KWOK, and one with both kinds has; without any node it has no scheduler either.
func TestPartsOfACluster(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		simulated, real int
		want            bool
	}{
		"both": {simulated: 1, real: 1, want: true}, "real": {real: 1}, "simulated": {simulated: 1, want: true}, "none": {},
	} {
		c := (&Fleet{}).addCluster("c", tc.simulated, tc.real)
		if got := slices.Contains(c.Parts(), KWOK); got != tc.want {
			t.Errorf("%s: KWOK is a part: %t", name, got)
		}
		if got := slices.Contains(c.Parts(), Scheduler); got != (tc.simulated+tc.real > 0) {
			t.Errorf("%s: the scheduler is a part: %t", name, got)
		}
	}
}
