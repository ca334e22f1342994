package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// listens tries for a while: a process that is being started by another test holds copies of our sockets until it execs.
func listens(port int) error {
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			return l.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

func TestFreePorts(t *testing.T) {
	t.Parallel()
	limit := firstEphemeralPort()
	ports, err := freePorts(20, limit)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ports)
	if len(slices.Compact(ports)) != 20 {
		t.Errorf("ports %v are not distinct", ports)
	}
	for _, p := range ports {
		if p >= limit && limit > 11240 {
			t.Errorf("port %d is in the range of outgoing connections", p)
		}
		if err := listens(p); err != nil {
			t.Errorf("port %d is not free: %v", p, err)
		}
	}
}

func TestCacheKey(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(source, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tgt := target{name: "a", module: ".", pkg: "./a"}
	key := func(goVersion string) string {
		t.Helper()
		k, err := cacheKey(source, tgt, goVersion)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	write("go.mod", "module x\n")
	write("go.sum", "")
	write("a/main.go", "package main")
	first := key("go1")
	write("b/main.go", "package main")
	if key("go1") != first {
		t.Error("another target's main changes the key")
	}
	if key("go2") == first {
		t.Error("another compiler has the same key")
	}
	write("a/main.go", "package main // changed")
	second := key("go1")
	if second == first {
		t.Error("another main has the same key")
	}
	write("go.mod", "module x\nrequire y v1\n")
	if key("go1") == second {
		t.Error("another version has the same key")
	}
}

// A build that waits for another process's build ends when its caller gives up.
func TestBuildLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	b := builder{log: newProgress(nil)}
	unlock, err := b.lock(t.Context(), path, target{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.lock(ctx, path, target{}); err == nil {
		t.Error("two held the lock")
	}
	unlock()
	again, err := b.lock(t.Context(), path, target{})
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestMemberNames(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opts Options
		want string
		fail bool
	}{
		"counted":    {opts: Options{Members: 2}, want: "member-1,member-2"},
		"named":      {opts: Options{Members: 5, MemberNames: []string{"eu", "us"}}, want: "eu,us"},
		"twice":      {opts: Options{MemberNames: []string{"eu", "eu"}}, fail: true},
		"the hub's":  {opts: Options{MemberNames: []string{"hub"}}, fail: true},
		"not a name": {opts: Options{MemberNames: []string{"../eu"}}, fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := memberNames(tc.opts)
			if (err != nil) != tc.fail || (!tc.fail && strings.Join(got, ",") != tc.want) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestPKI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, err := ensurePKI(dir, "c")
	if err != nil {
		t.Fatal(err)
	}
	again, err := ensurePKI(dir, "c")
	if err != nil {
		t.Fatal(err)
	}
	if !ca.cert.Equal(again.cert) {
		t.Error("the authority changes")
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"}); err != nil {
		t.Error(err)
	}
}

func TestReadAudit(t *testing.T) {
	t.Parallel()
	log := `{"stage":"ResponseComplete","verb":"patch","userAgent":"agent/1","objectRef":{"resource":"pods","subresource":"status","name":"a"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","verb":"get","userAgent":"agent/1","objectRef":{"resource":"pods"}}
{"stage":"ResponseStarted","verb":"watch","userAgent":"agent/1","objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"watch","userAgent":"agent/1","objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"patch","userAgent":"other/1","objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"pa`
	for name, tc := range map[string]struct {
		filters []AuditFilter
		want    int
	}{
		"a request is one event":  {want: 4},
		"filters are joined":      {filters: []AuditFilter{ByUserAgent("agent/"), Writes}, want: 1},
		"subresources are theirs": {filters: []AuditFilter{On("pods/status")}, want: 1},
	} {
		events, err := readAudit(strings.NewReader(log), tc.filters)
		if err != nil || len(events) != tc.want {
			t.Errorf("%s: %d events, %v", name, len(events), err)
		}
	}
}

func TestLastLinesNamesThePanic(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("start\npanic: why\n"+strings.Repeat("trace\n", 20)), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := lastLines(path, 2); got != "panic: why"+strings.Repeat("\ntrace", 2) {
		t.Errorf("got %q", got)
	}
}

func TestMarkedFindsOnlyTheMark(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, err := startProcess(command{name: "p", path: "sleep", args: []string{"600"}, env: []string{markVariable + "=MARK-OF-THIS-TEST"}, log: filepath.Join(dir, "p.log")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Signal(syscall.SIGKILL) }()
	eventually(t, func() bool {
		pids, err := marked("MARK-OF-THIS-TEST")
		return err == nil && slices.Equal(pids, []int{p.PID()})
	})
	if pids, err := marked("MARK-OF"); err != nil || len(pids) != 0 {
		t.Errorf("part of a mark matches %v, %v", pids, err)
	}
}

func TestIsList(t *testing.T) {
	for target, want := range map[string]bool{
		"/api/v1/pods":                                                              true,
		"/api/v1/namespaces":                                                        true,
		"/api/v1/namespaces/web":                                                    false,
		"/api/v1/namespaces/web/pods":                                               true,
		"/api/v1/namespaces/web/pods/one":                                           false,
		"/apis/apps.kruise.io/v1alpha1/clonesets?labelSelector=a":                   true,
		"/apis/apps.kruise.io/v1alpha1/namespaces/web/clonesets/one":                false,
		"/apis/apps.kruise.io/v1alpha1/clonesets?watch=true":                        false,
		"/apis/apps.kruise.io/v1alpha1/clonesets?watch=true&sendInitialEvents=true": true,
		"/apis/apps.kruise.io/v1alpha1":                                             false,
		"/apis/apps.kruise.io":                                                      false,
		"/api/v1":                                                                   false,
		"/readyz":                                                                   false,
	} {
		if got := IsList(httptest.NewRequest(http.MethodGet, target, nil)); got != want {
			t.Errorf("GET %s: list is %t", target, got)
		}
	}
	if IsList(httptest.NewRequest(http.MethodPost, "/api/v1/pods", nil)) {
		t.Error("a POST is a list")
	}
}
