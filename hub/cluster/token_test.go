package cluster

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/install"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
)

// fakeFleet has one member that is ready, and makes tokens.
type fakeFleet struct {
	mu       sync.Mutex
	config   clusters.Config
	ensured  int
	requests int
	answer   func() (string, error)
}

func (f *fakeFleet) Ensure(_ string, cfg clusters.Config) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.config.REST == nil || f.config.REST.BearerToken != cfg.REST.BearerToken {
		f.ensured++ // as the real one: another token is another connection
		f.config = cfg
	}
}

func (f *fakeFleet) Remove(string) {}

func (f *fakeFleet) View(name string) (clusters.View, bool) {
	v := ready(named(name, "uid-1")).view
	return v, true
}

func (f *fakeFleet) RequestToken(context.Context, string, time.Duration) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	return f.answer()
}

func (f *fakeFleet) MaxTerm() int64 { return 0 }
func (f *fakeFleet) ClearTwoHubs()  {}

func (f *fakeFleet) counts() (requests, connections int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests, f.ensured
}

// sends is the Authorization header that the member's connection would send now.
func (f *fakeFleet) sends(t *testing.T) string {
	t.Helper()
	f.mu.Lock()
	cfg := f.config.REST
	f.mu.Unlock()
	got := ""
	rt, err := rest.HTTPWrappersForConfig(cfg, roundTripper(func(r *http.Request) (*http.Response, error) {
		got = r.Header.Get("Authorization")
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://member", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return strings.TrimPrefix(got, "Bearer ")
}

type fakeOutbox struct{}

func (fakeOutbox) Stop(outbox.StopReason)       {}
func (fakeOutbox) Stopped() []outbox.StopReason { return nil }
func (fakeOutbox) Resume(string)                {}
func (fakeOutbox) WithdrawMember(string)        {}

// world is one hub with one member whose token is the one given.
type world struct {
	*Reconciler
	client client.Client
	fleet  *fakeFleet
	clock  *testclock.FakePassiveClock
}

func newWorld(t *testing.T, token string, funcs interceptor.Funcs) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, fleetv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := install.Access{Server: "https://eu-1", CAData: certificate(t, at(0), at(1))}.Kubeconfig("eu-1", token)
	if err != nil {
		t.Fatal(err)
	}
	mc := named("eu-1", "uid-1")
	mc.Spec.KubeconfigSecretRef = &fleetv1alpha1.SecretReference{Name: "member-eu-1"}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "underway-system", Name: "member-eu-1", Labels: map[string]string{"theirs": "stays"}},
		Data:       map[string][]byte{"kubeconfig": raw, "more": []byte("stays")},
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(mc, secret).WithStatusSubresource(mc).WithInterceptorFuncs(funcs).Build()
	w := &world{client: c, fleet: &fakeFleet{}, clock: testclock.NewFakePassiveClock(at(0))}
	w.Reconciler = New(Options{
		Client: c, Fleet: w.fleet, Outbox: fakeOutbox{}, HubID: "0123456789abcdef", Clock: w.clock,
		Concerned: func(context.Context, string) []reconcile.Request { return nil }, Wake: func(...reconcile.Request) {},
	})
	return w
}

// pass reconciles once and waits for what it began.
func (w *world) pass(t *testing.T) {
	t.Helper()
	if _, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "eu-1"}}); err != nil {
		t.Fatal(err)
	}
	for w.tokens.attempts("eu-1").running {
		time.Sleep(time.Millisecond)
	}
}

func (w *world) stored(t *testing.T) (token string, secret *corev1.Secret) {
	t.Helper()
	secret = &corev1.Secret{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "underway-system", Name: "member-eu-1"}, secret); err != nil {
		t.Fatal(err)
	}
	cfg, err := clusters.ParseKubeconfig(secret.Data["kubeconfig"], false)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.BearerToken, secret
}

func (w *world) valid(t *testing.T) *metav1.Condition {
	t.Helper()
	mc := &fleetv1alpha1.MemberCluster{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "eu-1"}, mc); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(mc.Status.Conditions, fleetv1alpha1.ConditionCredentialsValid)
}

func TestARenewedTokenIsStoredAndTheConnectionStays(t *testing.T) {
	t.Parallel()
	old, fresh := jwt(hubAccount, at(0), at(100)), jwt(hubAccount, at(65), at(165))
	w := newWorld(t, old, interceptor.Funcs{})
	w.fleet.answer = func() (string, error) { return fresh, nil }
	w.pass(t)
	if requests, _ := w.fleet.counts(); requests != 0 {
		t.Fatalf("%d requests for a token that is new", requests)
	}
	w.clock.SetTime(at(65))
	w.pass(t)
	token, secret := w.stored(t)
	if token != fresh || string(secret.Data["more"]) != "stays" || secret.Labels["theirs"] != "stays" {
		t.Fatalf("the Secret has token %q and %v", token, secret.Labels)
	}
	w.pass(t)
	w.pass(t)
	requests, connections := w.fleet.counts()
	if requests != 1 || connections != 1 {
		t.Errorf("%d requests and %d connections, want one of each", requests, connections)
	}
	if got := w.fleet.sends(t); got != fresh {
		t.Errorf("the connection sends %q, want the renewed token", got)
	}
	if c := w.valid(t); c.Reason != "Renewed" {
		t.Errorf("%+v", c)
	}
	// A person's new credential is another connection.
	raw, err := install.Access{Server: "https://eu-1", CAData: certificate(t, at(0), at(1))}.Kubeconfig("eu-1", jwt(hubAccount, at(66), at(200)))
	if err != nil {
		t.Fatal(err)
	}
	secret.Data["kubeconfig"] = raw
	if err := w.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.pass(t)
	if _, connections := w.fleet.counts(); connections != 2 {
		t.Errorf("%d connections after a join, want 2", connections)
	}
}

func TestARenewalThatFailsIsSaidAndTriedLater(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "underway-hub", errors.New("no"))
	for name, tc := range map[string]struct {
		answer func() (string, error)
		says   string
	}{
		"forbidden":        {func() (string, error) { return "", forbidden }, "joined by an older version"},
		"an error":         {func() (string, error) { return "", errors.New("dial tcp 10.0.0.1:41234: refused") }, "the request failed"},
		"a shorter token":  {func() (string, error) { return jwt(hubAccount, at(65), at(99)), nil }, "the request failed"},
		"somebody's token": {func() (string, error) { return jwt("system:serviceaccount:kube-system:x", at(65), at(900)), nil }, "the request failed"},
		"something else":   {func() (string, error) { return "hello", nil }, "the request failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := jwt(hubAccount, at(0), at(100))
			w := newWorld(t, old, interceptor.Funcs{})
			w.fleet.answer = tc.answer
			w.clock.SetTime(at(65))
			w.pass(t)
			w.pass(t)
			if requests, _ := w.fleet.counts(); requests != 1 {
				t.Errorf("%d requests at once, want one and then a wait", requests)
			}
			if token, _ := w.stored(t); token != old {
				t.Error("the stored token was replaced")
			}
			if c := w.valid(t); c.Reason != "Expiring" || !strings.Contains(c.Message, tc.says) || !strings.Contains(c.Message, "--upgrade") {
				t.Errorf("%+v", c)
			}
			w.clock.SetTime(at(67))
			w.pass(t)
			if requests, _ := w.fleet.counts(); requests != 2 {
				t.Errorf("%d requests after the wait, want 2", requests)
			}
		})
	}
}

// TestAJoinDuringARenewalWins: the credential that a person stored meanwhile is not overwritten.
func TestAJoinDuringARenewalWins(t *testing.T) {
	t.Parallel()
	joined := jwt(hubAccount, at(64), at(500))
	raced := false
	w := newWorld(t, jwt(hubAccount, at(0), at(100)), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			if !raced {
				raced = true
				secret := &corev1.Secret{}
				if err := c.Get(ctx, client.ObjectKeyFromObject(obj), secret); err != nil {
					return err
				}
				raw, err := install.Access{Server: "https://eu-1"}.Kubeconfig("eu-1", joined)
				if err != nil {
					return err
				}
				secret.Data["kubeconfig"] = raw
				if err := c.Update(ctx, secret); err != nil {
					return err
				}
			}
			return c.Update(ctx, obj, opts...)
		},
	})
	w.fleet.answer = func() (string, error) { return jwt(hubAccount, at(65), at(165)), nil }
	w.clock.SetTime(at(65))
	w.pass(t)
	if token, _ := w.stored(t); token != joined {
		t.Fatalf("the join's token was replaced by %q", token)
	}
	w.pass(t)
	if got := w.fleet.sends(t); got != joined {
		t.Errorf("the connection sends %q, want the join's token", got)
	}
}
