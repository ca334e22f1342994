package cluster

import (
	"testing"

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
	_, secret := w.stored(t)
	raw, err := install.Access{Server: "https://eu-1", CAData: certificate(t, at(0), at(1))}.Kubeconfig("eu-1", first)
	if err != nil {
		t.Fatal(err)
	}
	secret.Data["kubeconfig"] = raw
	if err := w.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
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
