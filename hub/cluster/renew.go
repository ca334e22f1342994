package cluster

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"hash/fnv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/clusters"
)

const (
	// TokenLifetime is how long a token of the hub's account is asked for; a member may give a shorter one. It is renewed at
	// half of it, so a hub that was away for three days finds every credential still good.
	TokenLifetime = 7 * 24 * time.Hour
	// renewTimeout bounds one request for a token.
	renewTimeout = 10 * time.Second
	// renewBackoff is the wait after the first renewal that failed; it doubles.
	renewBackoff = time.Minute
	// certificateWarning is how long before its end a client certificate, which nobody renews, is spoken of.
	certificateWarning = 30 * 24 * time.Hour
)

// credential is what a member's credential says of itself. Zero times: it does not say.
type credential struct {
	kind            credentialKind
	issued, expires time.Time
	// renewable: it is a token of the account that join makes, and has an end.
	renewable bool
}

type credentialKind string

const (
	noCredential credentialKind = "nothing"
	aToken       credentialKind = "token"
	aCertificate credentialKind = "client certificate"
	aPassword    credentialKind = "password"
)

// credentialOf reads a configuration. Nothing is verified: the member does that; a token that lies about its end is at
// worst renewed at the wrong time.
func credentialOf(cfg *rest.Config) credential {
	switch {
	case cfg == nil:
		return credential{kind: noCredential}
	case cfg.BearerToken != "":
		return tokenOf(cfg.BearerToken)
	case len(cfg.CertData) > 0:
		return certificateOf(cfg.CertData)
	case cfg.Username != "":
		return credential{kind: aPassword}
	}
	return credential{kind: noCredential}
}

func tokenOf(token string) credential {
	out := credential{kind: aToken}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return out
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return out
	}
	var claims struct {
		Subject string  `json:"sub"`
		Issued  float64 `json:"iat"`
		Expires float64 `json:"exp"`
	}
	if json.Unmarshal(raw, &claims) != nil || claims.Expires <= 0 || claims.Expires > 1<<40 {
		return out
	}
	out.expires = time.Unix(int64(claims.Expires), 0).UTC()
	if claims.Issued > 0 && claims.Issued < claims.Expires {
		out.issued = time.Unix(int64(claims.Issued), 0).UTC()
	}
	ours := "system:serviceaccount:" + appsv1alpha1.SystemNamespace + ":" + clusters.Account
	out.renewable = claims.Subject == ours && !out.issued.IsZero()
	return out
}

func certificateOf(data []byte) credential {
	out := credential{kind: aCertificate}
	block, _ := pem.Decode(data)
	if block == nil {
		return out
	}
	if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
		out.issued, out.expires = cert.NotBefore.UTC(), cert.NotAfter.UTC()
	}
	return out
}

// attempts is what this process remembers of renewing one member's token, by its own clock.
type attempts struct {
	// renewed is when it last succeeded.
	renewed time.Time
	// failed is when it last failed, and failures how often since it succeeded.
	failed   time.Time
	failures int
	// why it failed, in words that do not change from try to try.
	why string
	// running: a request is under way.
	running bool
}

// renewalAt says when the token is to be renewed; false: never. It is at half of its life, give or take a tenth that
// depends on the member's name, so that a thousand members that joined together do not renew together. The times in the
// token are of the member's clock; should ours be far from it, our own last success still keeps a quarter of a life
// between two renewals.
func renewalAt(name string, c credential, a attempts) (time.Time, bool) {
	if !c.renewable {
		return time.Time{}, false
	}
	life := c.expires.Sub(c.issued)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name))
	share := int64(40 + hash.Sum32()%21) // percent
	at := c.issued.Add(life / 100 * time.Duration(share))
	if !a.renewed.IsZero() {
		at = later(at, a.renewed.Add(life/4))
	}
	if a.failures > 0 {
		at = later(at, a.failed.Add(backoffAfter(a.failures, life)))
	}
	return at, true
}

// backoffAfter doubles from a minute, and never waits longer than a sixteenth of a life or an hour.
func backoffAfter(failures int, life time.Duration) time.Duration {
	limit := min(time.Hour, max(life/16, time.Second))
	wait := min(renewBackoff, limit)
	for range failures - 1 {
		if wait *= 2; wait >= limit {
			return limit
		}
	}
	return wait
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
