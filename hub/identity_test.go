package hub

import (
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/underway-dev/underway/propagation/render"
)

func twoProcesses(t *testing.T) (client.Client, *identity, *identity) {
	t.Helper()
	c := fake.NewClientBuilder().WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "hub-uid"}}).Build()
	first, err := loadIdentity(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	second, err := loadIdentity(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if first.id != second.id || first.Term() != second.Term() {
		t.Fatalf("one hub has two identities: %s %d, %s %d", first.id, first.Term(), second.id, second.Term())
	}
	return c, first, second
}

// TestAHubThatWaitedTakesTheTermThatWasConfirmed: with its old one all that members carry would look newer than it.
func TestAHubThatWaitedTakesTheTermThatWasConfirmed(t *testing.T) {
	t.Parallel()
	_, leader, standby := twoProcesses(t)
	if err := leader.RaiseAbove(t.Context(), 7); err != nil || leader.Term() != 8 {
		t.Fatalf("term %d, %v", leader.Term(), err)
	}
	if err := standby.lead(t.Context()); err != nil || standby.Term() != 8 {
		t.Errorf("the next leader has term %d (%v), want 8", standby.Term(), err)
	}
}

// TestATermIsNeverStoredLower: what another process has stored counts, whatever this one remembers.
func TestATermIsNeverStoredLower(t *testing.T) {
	t.Parallel()
	c, one, other := twoProcesses(t)
	if err := one.RaiseAbove(t.Context(), 99); err != nil {
		t.Fatal(err)
	}
	if err := other.RaiseAbove(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), secretName(), secret); err != nil {
		t.Fatal(err)
	}
	if got := string(secret.Data[keyTerm]); got != "101" || other.Term() != 101 {
		t.Errorf("stored %s, in force %d, want 101", got, other.Term())
	}
}

// TestALieOnAMemberRaisesTheTermALittle: one annotation must neither turn the hub's numbers over nor bring them to their end.
func TestALieOnAMemberRaisesTheTermALittle(t *testing.T) {
	t.Parallel()
	c, one, _ := twoProcesses(t)
	want := int64(1)
	for _, seen := range []int64{render.MaxIntent, math.MaxInt64 - 1, math.MaxInt64} {
		want += render.MaxLead + 1
		if err := one.RaiseAbove(t.Context(), seen); err != nil || one.Term() != want {
			t.Errorf("%d: the term is %d (%v), want %d", seen, one.Term(), err, want)
		}
	}
	again, err := loadIdentity(t.Context(), c)
	if err != nil || again.Term() != want {
		t.Errorf("stored is %d (%v), want %d", again.Term(), err, want)
	}
}

// TestAnotherNonceIsAnotherHub.
func TestAnotherNonceIsAnotherHub(t *testing.T) {
	t.Parallel()
	c, _, standby := twoProcesses(t)
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), secretName(), secret); err != nil {
		t.Fatal(err)
	}
	secret.Data[keyNonce] = []byte("another")
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if err := standby.lead(t.Context()); err == nil || !strings.Contains(err.Error(), "started again") {
		t.Errorf("got %v", err)
	}
}
