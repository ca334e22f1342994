package cluster

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/underway-dev/underway/propagation/clusters"
)

// TestAStrangeCertificateNeedsAPerson: a server that shows another authority's certificate answers, and goes on doing so
// until somebody changes the credential.
func TestAStrangeCertificateNeedsAPerson(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]struct {
		untrusted       bool
		reason, message string
	}{
		"no answer in time":                               {false, "Unreachable", "does not answer"},
		"x509: certificate signed by unknown authority":   {true, "CertificateNotTrusted", "kubectl underway join eu-1 --kubeconfig FILE --upgrade"},
		"its certificate has expired or is not yet valid": {true, "CertificateNotTrusted", "has expired"},
		// A member's own words, other ones at each try, must not be a write at each try.
		"no certificate today, 17": {false, "Unreachable", "does not answer"},
	} {
		o := ready(named("eu-1", "uid-1"))
		o.view.State, o.view.Block, o.view.Reachable, o.view.Message = clusters.StateDegraded, clusters.BlockUnreachable, false, words
		o.view.Untrusted = want.untrusted
		d := next(o, at(0))
		for _, kind := range []string{"Ready", "Reachable"} {
			c := conditionOf(t, d, kind)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != want.reason || !strings.Contains(c.Message, want.message) {
				t.Errorf("%s: %s is %+v", words, kind, c)
			}
		}
	}
}
