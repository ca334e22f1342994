package clusters_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

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
	if _, err := clusters.ParseKubeconfig([]byte("{{"), false); err == nil {
		t.Error("garbage is accepted")
	}
	if _, err := clusters.ParseKubeconfig([]byte(`{"apiVersion":"v1","kind":"Config"}`), false); !errors.Is(err, clusters.ErrRefused) {
		t.Errorf("no context: %v", err)
	}
}

func TestParseKubeconfigRebuilds(t *testing.T) {
	t.Parallel()
	cfg, err := clusters.ParseKubeconfig(kubeconfig(
		`,"certificate-authority-data":"Y2E=","tls-server-name":"sni"`,
		`"token":"t","client-certificate-data":"Y2VydA==","client-key-data":"a2V5","username":"n","password":"p"`), false)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://member:6443" || cfg.BearerToken != "t" || cfg.Username != "n" || cfg.Password != "p" ||
		string(cfg.CAData) != "ca" || string(cfg.CertData) != "cert" || string(cfg.KeyData) != "key" || cfg.ServerName != "sni" {
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
