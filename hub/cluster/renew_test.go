package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/propagation/clusters"
)

const hubAccount = "system:serviceaccount:underway-system:underway-hub"

// jwt is a token as an API server makes it; nobody here checks a signature.
func jwt(subject string, issued, expires time.Time) string {
	payload := fmt.Sprintf(`{"sub":%q,"iat":%d`, subject, issued.Unix())
	if !expires.IsZero() {
		payload += fmt.Sprintf(`,"exp":%d`, expires.Unix())
	}
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload+"}")) + ".c2ln"
}

func certificate(t *testing.T, from, to time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestWhatACredentialSaysOfItself(t *testing.T) {
	t.Parallel()
	from, to := at(0), at(0).Add(24*time.Hour)
	for name, tc := range map[string]struct {
		cfg  rest.Config
		want credential
	}{
		"the hub's own token":               {rest.Config{BearerToken: jwt(hubAccount, from, to)}, credential{aToken, from, to, true}},
		"a token without end":               {rest.Config{BearerToken: jwt(hubAccount, from, time.Time{})}, credential{kind: aToken}},
		"a token of another account":        {rest.Config{BearerToken: jwt("system:serviceaccount:a:b", from, to)}, credential{aToken, from, to, false}},
		"a token that ends before it began": {rest.Config{BearerToken: jwt(hubAccount, to, from)}, credential{kind: aToken, expires: from}},
		"a token that is no JWT":            {rest.Config{BearerToken: "abc"}, credential{kind: aToken}},
		"a token of garbage":                {rest.Config{BearerToken: "a.!!!.c"}, credential{kind: aToken}},
		"an end beyond all time":            {rest.Config{BearerToken: "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"x","exp":1e300}`)) + ".c"}, credential{kind: aToken}},
		"a client certificate":              {rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: certificate(t, from, to)}}, credential{kind: aCertificate, issued: from, expires: to}},
		"a certificate of garbage":          {rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("x")}}, credential{kind: aCertificate}},
		"a password":                        {rest.Config{Username: "u", Password: "p"}, credential{kind: aPassword}},
		"nothing":                           {rest.Config{}, credential{kind: noCredential}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := credentialOf(&tc.cfg); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestATokenIsRenewedAtHalfOfItsLife(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	c := credential{kind: aToken, issued: at(0), expires: at(0).Add(10 * day), renewable: true}
	for name, tc := range map[string]struct {
		c        credential
		a        attempts
		from, to time.Time
		never    bool
	}{
		"a new one":                    {c: c, from: at(0).Add(4 * day), to: at(0).Add(6 * day)},
		"one that the hub renewed":     {c: c, a: attempts{renewed: at(0)}, from: at(0).Add(4 * day), to: at(0).Add(6 * day)},
		"the member's clock is behind": {c: c, a: attempts{renewed: at(0).Add(20 * day)}, from: at(0).Add(20*day + 10*day/4), to: at(0).Add(20*day + 10*day/4)},
		"after one failure":            {c: c, a: attempts{failed: at(0).Add(7 * day), failures: 1}, from: at(1).Add(7 * day), to: at(1).Add(7 * day)},
		"after three":                  {c: c, a: attempts{failed: at(0).Add(7 * day), failures: 3}, from: at(4).Add(7 * day), to: at(4).Add(7 * day)},
		"after a hundred":              {c: c, a: attempts{failed: at(0).Add(7 * day), failures: 100}, from: at(60).Add(7 * day), to: at(60).Add(7 * day)},
		"of another account":           {c: credential{kind: aToken, issued: c.issued, expires: c.expires}, never: true},
		"without end":                  {c: credential{kind: aToken}, never: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := renewalAt("eu-1", tc.c, tc.a)
			if ok == tc.never || got.Before(tc.from) || got.After(tc.to) {
				t.Errorf("renewed at %s (%v), want between %s and %s", got, ok, tc.from, tc.to)
			}
		})
	}
	spread := map[time.Time]bool{}
	for i := range 100 {
		got, _ := renewalAt(fmt.Sprintf("member-%d", i), c, attempts{})
		spread[got] = true
	}
	if len(spread) < 10 {
		t.Errorf("a hundred members renew at %d moments", len(spread))
	}
}

// TestClocksThatDisagreeRenewInTime: whatever the member's clock is ahead or behind, a token is renewed before it ends by
// the member's clock unless the clocks are further apart than a third of its life, and never more often than four times a
// life.
func TestClocksThatDisagreeRenewInTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		life := time.Duration(rapid.IntRange(600, 700_000).Draw(t, "life")) * time.Second
		skew := time.Duration(rapid.Int64Range(-int64(life*3), int64(life*3)).Draw(t, "skew"))
		name := rapid.StringMatching("[a-z]{1,8}").Draw(t, "name")
		now := at(0)
		token := credential{kind: aToken, issued: now.Add(skew), expires: now.Add(skew + life), renewable: true}
		memory, renewals := attempts{}, 0
		end := now.Add(10 * life)
		for now.Before(end) {
			due, _ := renewalAt(name, token, memory)
			if now.Before(due) {
				now = due
			}
			if skew.Abs() < life/3 && now.Add(skew).After(token.expires) {
				t.Fatalf("renewed at %s of the member's clock, it ended at %s", now.Add(skew), token.expires)
			}
			token.issued, token.expires = now.Add(skew), now.Add(skew+life)
			memory = attempts{renewed: now}
			renewals++
		}
		if renewals > 42 {
			t.Fatalf("%d renewals in ten lives", renewals)
		}
	})
}

func TestCredentialsValid(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	token := func(issued, expires time.Time) credential {
		return credential{kind: aToken, issued: issued, expires: expires, renewable: true}
	}
	now := at(30)
	good := token(now.Add(-day), now.Add(6*day))
	join := "kubectl underway join eu-1 --kubeconfig FILE --upgrade"
	for name, tc := range map[string]struct {
		edit   func(*observation)
		status metav1.ConditionStatus
		reason string
		says   string
	}{
		"bounded": {func(o *observation) { o.credential = good }, "True", "Bounded", "the hub renews it before"},
		"renewed": {func(o *observation) { o.credential, o.renewedByHub = good, true }, "True", "Renewed", stamp(good.expires)},
		"cannot be renewed": {func(o *observation) {
			o.credential, o.attempts = good, attempts{failures: 2, why: "the request failed"}
		}, "True", "Expiring", join},
		"without end": {func(o *observation) { o.credential = credential{kind: aToken} }, "True", "Permanent", join},
		"a password":  {func(o *observation) { o.credential = credential{kind: aPassword} }, "True", "Permanent", "does not say when it ends"},
		"a fresh certificate": {func(o *observation) {
			o.credential = credential{kind: aCertificate, issued: now, expires: now.Add(300 * day)}
		}, "True", "Bounded", "cannot renew"},
		"an old certificate": {func(o *observation) {
			o.credential = credential{kind: aCertificate, issued: now.Add(-300 * day), expires: now.Add(20 * day)}
		}, "True", "Expiring", join},
		"refused by the member": {func(o *observation) {
			o.credential, o.view.State, o.view.Block, o.view.Reachable = good, clusters.StateBlocked, clusters.BlockUnauthorized, false
		}, "False", "Unauthorized", join},
		"expired": {func(o *observation) {
			o.credential = token(now.Add(-8*day), now.Add(-day))
			o.view.State, o.view.Block, o.view.Reachable = clusters.StateBlocked, clusters.BlockUnauthorized, false
		}, "False", "Expired", join},
		"expired by our clock and accepted": {func(o *observation) { o.credential = token(now.Add(-8*day), now.Add(-day)) }, "True", "Bounded", ""},
		"expired and unreachable": {func(o *observation) {
			o.credential = token(now.Add(-8*day), now.Add(-day))
			o.view.Block, o.view.Reachable, o.view.State = clusters.BlockUnreachable, false, clusters.StateDegraded
		}, "Unknown", "Expired", join},
		"never tried": {func(o *observation) { o.credential, o.connected = good, false }, "Unknown", "NotTried", ""},
		"a field":     {func(o *observation) { o.config, o.connected, o.refused = nil, false, "users[].user.exec" }, "False", "FieldNotAllowed", "users[].user.exec"},
		"no Secret":   {func(o *observation) { o.config, o.connected, o.missing = nil, false, "Secret x does not exist" }, "False", "NoCredential", "Secret x"},
		"cluster API's": {func(o *observation) {
			o.member.Spec.ClusterRef = &fleetv1alpha1.ClusterReference{Namespace: "a", Name: "b"}
			o.credential = credential{kind: aToken}
		}, "True", "Permanent", "condition ClusterFollowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := ready(named("eu-1", "uid-1"))
			tc.edit(&o)
			d := next(o, now)
			c := conditionOf(t, d, "CredentialsValid")
			if c == nil || c.Status != tc.status || c.Reason != tc.reason || !strings.Contains(c.Message, tc.says) {
				t.Fatalf("got %+v", c)
			}
			// Said once: a minute later there is nothing new to write.
			o.member = after(o.member, d)
			if again := next(o, now.Add(time.Minute)); again.write {
				t.Errorf("it is written again: %+v", conditionOf(t, again, "CredentialsValid"))
			}
		})
	}
}

func TestAnUnreachableMemberKeepsItsCredential(t *testing.T) {
	t.Parallel()
	mc := named("eu-1", "uid-1")
	o := ready(mc)
	o.credential = credential{kind: aToken, issued: at(0), expires: at(0).Add(time.Hour), renewable: true}
	o.member = after(mc, next(o, at(1)))
	o.view.Block, o.view.Reachable, o.view.State = clusters.BlockUnreachable, false, clusters.StateDegraded
	d := next(o, at(2))
	if c := conditionOf(t, d, "CredentialsValid"); c.Status != "True" {
		t.Errorf("%+v", c)
	}
	if next(o, at(50)).renew {
		t.Error("a member that does not answer is asked for a token")
	}
}

func TestWhenTheHubRenews(t *testing.T) {
	t.Parallel()
	o := ready(named("eu-1", "uid-1"))
	o.credential = credential{kind: aToken, issued: at(0), expires: at(100), renewable: true}
	due, _ := renewalAt("eu-1", o.credential, attempts{})
	if d := next(o, at(10)); d.renew || d.lookAgain != due.Sub(at(10)) {
		t.Errorf("early: %+v", d)
	}
	if d := next(o, at(65)); !d.renew || d.lookAgain != renewTimeout {
		t.Errorf("due: %+v", d)
	}
	o.attempts.running = true
	if d := next(o, at(65)); d.renew || d.lookAgain != renewTimeout {
		t.Errorf("under way: %+v", d)
	}
	o.attempts = attempts{}
	o.credential.renewable = false
	if d := next(o, at(65)); d.renew || d.lookAgain != at(100).Sub(at(65)) {
		t.Errorf("not ours to renew: %+v", d)
	}
}

func TestAgentReady(t *testing.T) {
	t.Parallel()
	kind := func(name string, by clusters.Reconciler, served bool) clusters.KindView {
		group := "apps.kruise.io"
		if by == clusters.ReconcilerKubernetes {
			group = "apps"
		}
		return clusters.KindView{GVK: schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}, Reconciler: by, Served: served, Synced: served}
	}
	native := kind("Deployment", clusters.ReconcilerKubernetes, true)
	for name, tc := range map[string]struct {
		kinds  []clusters.KindView
		status metav1.ConditionStatus
		reason string
		says   string
	}{
		"our agent":            {[]clusters.KindView{native, kind("CloneSet", clusters.ReconcilerUnderway, true)}, "True", "Underway", ""},
		"OpenKruise":           {[]clusters.KindView{kind("CloneSet", clusters.ReconcilerOpenKruise, true)}, "True", "OpenKruise", ""},
		"nobody":               {[]clusters.KindView{native, kind("CloneSet", clusters.ReconcilerNobody, true), kind("StatefulSet", clusters.ReconcilerNobody, true)}, "False", "Nobody", "CloneSet.apps.kruise.io, StatefulSet.apps.kruise.io"},
		"cannot be seen":       {[]clusters.KindView{kind("CloneSet", clusters.ReconcilerUnknown, true)}, "Unknown", "Unknown", "CloneSet"},
		"no kinds":             {[]clusters.KindView{native, kind("CloneSet", clusters.ReconcilerNobody, false)}, "False", "NotServed", "--upgrade"},
		"one kind is not ours": {[]clusters.KindView{kind("CloneSet", clusters.ReconcilerOpenKruise, true), kind("StatefulSet", clusters.ReconcilerUnderway, true)}, "True", "Both", "StatefulSet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := ready(named("eu-1", "uid-1"))
			o.view.Kinds = tc.kinds
			d := next(o, at(0))
			c := conditionOf(t, d, "AgentReady")
			if c.Status != tc.status || c.Reason != tc.reason || !strings.Contains(c.Message, tc.says) {
				t.Errorf("got %+v", c)
			}
			o.member = after(o.member, d)
			o.view.State, o.view.Kinds = clusters.StateDegraded, nil
			if kept := conditionOf(t, next(o, at(1)), "AgentReady"); kept.Reason != tc.reason {
				t.Errorf("what was known is forgotten: %+v", kept)
			}
		})
	}
}
