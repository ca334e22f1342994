package clusters_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/underway-dev/underway/propagation/clusters"
)

func kubeconfig(cluster, user string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],
		"clusters":[{"name":"k","cluster":{"server":"https://member:6443"%s}},{"name":"other","cluster":{"certificate-authority":"/not/used"}}],
		"users":[{"name":"u","user":{%s}},{"name":"other","user":{"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"not-used","interactiveMode":"Never"}}}]}`,
		cluster, user)
}

// TestParseKubeconfigRefuses has one hostile file per field.
func TestParseKubeconfigRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ cluster, user, want string }{
		"a program":             {"", `"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"sh","interactiveMode":"Never"}`, "users[].user.exec"},
		"an auth provider":      {"", `"auth-provider":{"name":"gcp"}`, "users[].user.auth-provider"},
		"a token file":          {"", `"tokenFile":"/etc/shadow"`, "users[].user.tokenFile"},
		"a certificate file":    {"", `"client-certificate":"/etc/x"`, "users[].user.client-certificate"},
		"a key file":            {"", `"client-key":"/etc/x"`, "users[].user.client-key"},
		"impersonation":         {"", `"as":"system:admin"`, "users[].user.as"},
		"impersonated groups":   {"", `"as":"x","as-groups":["system:masters"]`, "users[].user.as-groups"},
		"a CA file":             {`,"certificate-authority":"/etc/x"`, "", "clusters[].cluster.certificate-authority"},
		"a proxy":               {`,"proxy-url":"http://evil"`, "", "clusters[].cluster.proxy-url"},
		"no verification":       {`,"insecure-skip-tls-verify":true`, "", "clusters[].cluster.insecure-skip-tls-verify"},
		"a password in the URL": {`,"server":"https://a:b@member"`, "", "user information"},
		"plain HTTP":            {`,"server":"http://member"`, "", "scheme http"},
		"a file URL":            {`,"server":"file://x/y"`, "", "scheme file"},
		"no server":             {`,"server":""`, "", "server"},
		"a query":               {`,"server":"https://member/?x=y"`, "", "query or fragment"},
		"impersonated UID":      {"", `"as":"x","as-uid":"1"`, "users[].user.as-uid"},
		"impersonated extra":    {"", `"as":"x","as-user-extra":{"a":["b"]}`, "users[].user.as-user-extra"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := kubeconfig(tc.cluster, tc.user)
			if strings.Contains(tc.cluster, `"server"`) {
				raw = []byte(strings.Replace(string(raw), `"server":"https://member:6443",`, "", 1))
			}
			_, err := clusters.ParseKubeconfig(raw, false)
			if !errors.Is(err, clusters.ErrRefused) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it to name %s", err, tc.want)
			}
		})
	}
}

// TestParseKubeconfigRefusesFiles has files that are no kubeconfig at all, or one whose names lead nowhere. No error quotes
// the file: it could be a credential, or bytes that no status can hold.
func TestParseKubeconfigRefusesFiles(t *testing.T) {
	t.Parallel()
	secret := "eyJhbGciOiJSUzI1NiJ9.payload.signature"
	whole := func(current, rest string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":%q%s}`, current, rest)
	}
	contexts := `,"contexts":[{"name":"a","context":{"cluster":"k","user":"u"}},{"name":"b","context":{"cluster":"gone","user":"u"}},
		{"name":"c","context":{"cluster":"k","user":"gone"}}],"clusters":[{"name":"k","cluster":{"server":"https://m"}}],"users":[{"name":"u","user":{}}]`
	for name, tc := range map[string]struct {
		raw  []byte
		want string
	}{
		"empty":                       {nil, "current-context is not set"},
		"a token instead of a file":   {[]byte(secret), "not YAML or JSON"},
		"binary":                      {[]byte("\x7fELF\x00\x01\xff\xfe"), "not YAML or JSON"},
		"broken":                      {[]byte("{{"), "not YAML or JSON"},
		"a wrong type":                {[]byte(`{"apiVersion":"v1","kind":"Config","users":"` + secret + `"}`), "not YAML or JSON"},
		"another kind":                {[]byte(`{"apiVersion":"v1","kind":"Secret","data":{"token":"` + secret + `"}}`), "not YAML or JSON"},
		"too large":                   {[]byte(strings.Repeat("# padding\n", clusters.MaxKubeconfig/10+1)), "more than 262144"},
		"no current context":          {whole("", contexts), "current-context is not set"},
		"a context that is not there": {whole("z", contexts), `current-context "z" does not exist`},
		"a cluster that is not there": {whole("b", contexts), `contexts[].context.cluster "gone" does not exist`},
		"a user that is not there":    {whole("c", contexts), `contexts[].context.user "gone" does not exist`},
		"a name without end":          {whole(strings.Repeat("n", 100_000), contexts), "does not exist"},
		"a bomb of aliases":           {[]byte("a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n"), "not YAML or JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := clusters.ParseKubeconfig(tc.raw, true)
			if !errors.Is(err, clusters.ErrRefused) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want it to say %s", err, tc.want)
			}
			if len(err.Error()) > 300 || strings.Contains(err.Error(), "payload") || !utf8.ValidString(err.Error()) {
				t.Errorf("it quotes the file: %s", err)
			}
		})
	}
	if cfg, err := clusters.ParseKubeconfig(whole("a", contexts), false); err != nil || cfg.Host != "https://m" {
		t.Errorf("of several contexts the current one is taken: %v", err)
	}
}

// TestPlainHTTPIsAlwaysRefused: a MemberCluster may allow an unverified certificate, never a token in clear text.
func TestPlainHTTPIsAlwaysRefused(t *testing.T) {
	t.Parallel()
	raw := []byte(strings.Replace(string(kubeconfig("", `"token":"t"`)), "https://member", "http://member", 1))
	if _, err := clusters.ParseKubeconfig(raw, true); !errors.Is(err, clusters.ErrRefused) || !strings.Contains(err.Error(), "scheme http") {
		t.Errorf("got %v", err)
	}
}

func TestParseKubeconfigRebuilds(t *testing.T) {
	t.Parallel()
	cert, key := pair(t)
	cfg, err := clusters.ParseKubeconfig(kubeconfig(
		fmt.Sprintf(`,"certificate-authority-data":%q,"tls-server-name":"sni"`, encoded(cert)),
		fmt.Sprintf(`"token":"t","client-certificate-data":%q,"client-key-data":%q,"username":"n","password":"p"`, encoded(cert), encoded(key))), false)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://member:6443" || cfg.BearerToken != "t" || cfg.Username != "n" || cfg.Password != "p" ||
		!bytes.Equal(cfg.CAData, cert) || !bytes.Equal(cfg.CertData, cert) || !bytes.Equal(cfg.KeyData, key) || cfg.ServerName != "sni" {
		t.Errorf("rebuilt %+v", cfg)
	}
	if cfg.ExecProvider != nil || cfg.AuthProvider != nil || cfg.Proxy != nil || cfg.BearerTokenFile != "" || cfg.CAFile != "" || cfg.Insecure {
		t.Errorf("more than the named fields: %+v", cfg)
	}
	insecure, err := clusters.ParseKubeconfig(kubeconfig(`,"insecure-skip-tls-verify":true,"certificate-authority-data":""`, `"token":"t"`), true)
	if err != nil || !insecure.Insecure || len(insecure.CAData) != 0 {
		t.Errorf("allowed to skip verification: %+v, %v", insecure, err)
	}
}

// TestParseKubeconfigRefusesWhatIsNoCertificate: a member must not be said to refuse a credential that it was never shown.
func TestParseKubeconfigRefusesWhatIsNoCertificate(t *testing.T) {
	t.Parallel()
	cert, key := pair(t)
	_, other := pair(t)
	client := func(cert, key []byte) string {
		return fmt.Sprintf(`"client-certificate-data":%q,"client-key-data":%q`, encoded(cert), encoded(key))
	}
	garbage := []byte("garbage-7")
	for name, tc := range map[string]struct{ cluster, user, want string }{
		"no authority":       {fmt.Sprintf(`,"certificate-authority-data":%q`, encoded(garbage)), `"token":"t"`, "certificate-authority-data"},
		"no certificate":     {"", client(garbage, key), "client-certificate-data"},
		"no key":             {"", client(cert, garbage), "client-key-data"},
		"another's key":      {"", client(cert, other), "client-key-data"},
		"a key alone":        {"", fmt.Sprintf(`"client-key-data":%q`, encoded(key)), "client-certificate-data"},
		"a lone certificate": {"", fmt.Sprintf(`"client-certificate-data":%q`, encoded(cert)), "client-key-data"},
	} {
		_, err := clusters.ParseKubeconfig(kubeconfig(tc.cluster, tc.user), false)
		if !errors.Is(err, clusters.ErrRefused) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), string(garbage)) {
			t.Errorf("%s: got %v, want it to name %s", name, err, tc.want)
		}
	}
}

func encoded(raw []byte) string { return base64.StdEncoding.EncodeToString(raw) }

// pair is a certificate and its key.
func pair(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func TestHubID(t *testing.T) {
	t.Parallel()
	a, b, c := clusters.HubID("u", "n"), clusters.HubID("u", "m"), clusters.HubID("v", "n")
	if len(a) != 16 || strings.Trim(a, "0123456789abcdef") != "" {
		t.Errorf("%q is not 16 hex digits", a)
	}
	if a == b || a == c {
		t.Errorf("ids collide: %s %s %s", a, b, c)
	}
	if a != clusters.HubID("u", "n") {
		t.Error("the id is not stable")
	}
}
