package cluster

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/underway-dev/underway/hub/install"
)

// TestATokenThatIsPutBackIsSent: a Secret that goes back to the token with which the connection began (a GitOps tool, a
// restored backup) is what the connection sends from then on, and what replaces it later, too.
func TestATokenThatIsPutBackIsSent(t *testing.T) {
	t.Parallel()
	first, second, third := jwt(hubAccount, at(0), at(100)), jwt(hubAccount, at(65), at(165)), jwt(hubAccount, at(70), at(170))
	w := newWorld(t, first, interceptor.Funcs{})
	w.fleet.answer = func() (string, error) { return second, nil }
	w.pass(t)
	w.clock.SetTime(at(65))
	w.pass(t)
	w.pass(t)
	if got := w.fleet.sends(t); got != second {
		t.Fatalf("the connection sends %q, want the renewed token", got)
	}
	w.put(t, first)
	w.fleet.answer = func() (string, error) { return third, nil }
	w.clock.SetTime(at(70))
	w.pass(t)
	w.pass(t)
	w.pass(t)
	token, _ := w.stored(t)
	if got := w.fleet.sends(t); got != token {
		t.Errorf("the connection sends a token that ends at %s, the Secret's ends at %s", tokenOf(got).expires, tokenOf(token).expires)
	}
}

// put writes a token into the member's Secret, as another tool does.
func (w *world) put(t *testing.T, token string) {
	t.Helper()
	_, secret := w.stored(t)
	raw, err := install.Access{Server: "https://eu-1", CAData: certificate(t, at(0), at(1))}.Kubeconfig("eu-1", token)
	if err != nil {
		t.Fatal(err)
	}
	secret.Data["kubeconfig"] = raw
	if err := w.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

// TestAnOlderTokenIsRenewedInTime: where this hub has renewed nothing, a token that ends soon is no renewal undone, and is
// renewed at once.
func TestAnOlderTokenIsRenewedInTime(t *testing.T) {
	t.Parallel()
	next := jwt(hubAccount, at(10), at(110))
	w := newWorld(t, jwt(hubAccount, at(0), at(100)), interceptor.Funcs{})
	w.fleet.answer = func() (string, error) { return next, nil }
	w.pass(t)
	w.clock.SetTime(at(10))
	w.put(t, jwt(hubAccount, at(-89), at(11)))
	w.pass(t)
	if token, _ := w.stored(t); token != next {
		t.Errorf("the Secret's token ends at %s, and now it is %s", tokenOf(token).expires, at(10))
	}
}

// TestATokenThatIsSetBackEachTime: another tool that writes its old token whenever the hub has renewed it does not make the hub
// ask for one at that pace.
func TestATokenThatIsSetBackEachTime(t *testing.T) {
	t.Parallel()
	old := jwt(hubAccount, at(0), at(100))
	w := newWorld(t, old, interceptor.Funcs{})
	now := at(65)
	w.fleet.answer = func() (string, error) { return jwt(hubAccount, now, now.Add(at(100).Sub(at(0)))), nil }
	w.pass(t)
	for range 60 {
		now = now.Add(15 * time.Second)
		w.clock.SetTime(now)
		w.pass(t)
		w.pass(t)
		w.put(t, old)
	}
	if n, _ := w.fleet.counts(); n > 8 {
		t.Errorf("%d tokens were asked for in 15 minutes", n)
	}
}
