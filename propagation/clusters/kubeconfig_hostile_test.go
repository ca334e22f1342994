package clusters_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/underway-dev/underway/propagation/clusters"
)

// inYAML is a kubeconfig as a person has it, with what is put in the place of the server and behind the token.
func inYAML(server, cluster, user string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- {name: c, context: {cluster: k, user: u}}\n" +
		"clusters:\n- name: k\n  cluster:\n    server: " + server + "\n" + cluster +
		"users:\n- name: u\n  user:\n    token: hush-hush\n" + user
}

const plainServer = "https://member:6443"

// TestParseKubeconfigOddFiles: files as editors, other systems and attackers write them. Each is read as it is meant, or
// refused with the field's name; no error quotes a credential.
func TestParseKubeconfigOddFiles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		raw string
		// refused is what the error says; empty: it is read, and the host is host (plainServer where that is empty).
		refused, host string
	}{
		"a byte order mark":           {raw: "\ufeff" + inYAML(plainServer, "", "")},
		"UTF-16":                      {raw: "\xff\xfea\x00p\x00i\x00", refused: "not YAML or JSON"},
		"CRLF":                        {raw: strings.ReplaceAll(inYAML(plainServer, "", ""), "\n", "\r\n")},
		"two MB":                      {raw: inYAML(plainServer, "", "") + strings.Repeat("# padding\n", 200_000), refused: "bytes, more than 262144"},
		"a host in another script":    {raw: inYAML("https://m\u00fcnchen.example:6443", "", ""), refused: "clusters[].cluster.server"},
		"a host with a look-alike":    {raw: inYAML("https://m\u0435mber:6443", "", ""), refused: "clusters[].cluster.server"},
		"a host in punycode":          {raw: inYAML("https://xn--mnchen-3ya.example:6443", "", ""), host: "https://xn--mnchen-3ya.example:6443"},
		"a password in the URL":       {raw: inYAML("https://root:hush-hush@member:6443", "", ""), refused: "clusters[].cluster.server (user information)"},
		"a user in the URL":           {raw: inYAML("https://root@member:6443", "", ""), refused: "clusters[].cluster.server (user information)"},
		"an empty host with a port":   {raw: inYAML("https://:6443", "", ""), refused: "clusters[].cluster.server"},
		"a port that is none":         {raw: inYAML("https://member:99999", "", ""), refused: "clusters[].cluster.server"},
		"a line break in the server":  {raw: inYAML(`"https://member:6443\r\nX-Evil: 1"`, "", ""), refused: "clusters[].cluster.server"},
		"an IPv6 server":              {raw: inYAML(`"https://[fd00::1]:6443"`, "", ""), host: "https://[fd00::1]:6443"},
		"a server with a path":        {raw: inYAML("https://proxy:6443/clusters/a", "", ""), host: "https://proxy:6443/clusters/a"},
		"a proxy with a password":     {raw: inYAML(plainServer, "    proxy-url: http://x:hush-hush@evil:3128\n", ""), refused: "clusters[].cluster.proxy-url"},
		"a SOCKS proxy":               {raw: inYAML(plainServer, "    proxy-url: socks5://evil\n", ""), refused: "clusters[].cluster.proxy-url"},
		"an authority of no bytes":    {raw: inYAML(plainServer, "    certificate-authority-data: \"\"\n", "")},
		"an authority of white space": {raw: inYAML(plainServer, "    certificate-authority-data: IAo=\n", ""), refused: "certificate-authority-data holds no certificate"},
		"two clusters of one name":    {raw: strings.Replace(inYAML(plainServer, "", ""), "users:\n", "- name: k\n  cluster: {server: \"https://evil:6443\"}\nusers:\n", 1), refused: `clusters[].name "k" is there twice`},
		"two users of one name":       {raw: inYAML(plainServer, "", "") + "- name: u\n  user: {token: another}\n", refused: `users[].name "u" is there twice`},
		"two contexts of one name":    {raw: strings.Replace(inYAML(plainServer, "", ""), "clusters:\n", "- {name: c, context: {cluster: k, user: other}}\nclusters:\n", 1), refused: `contexts[].name "c" is there twice`},
		"two documents":               {raw: inYAML(plainServer, "", "") + "---\n" + inYAML("https://evil:6443", "", ""), refused: "more than one document"},
		"a document mark at its top":  {raw: "---\n" + inYAML(plainServer, "", "")},
		"a key that is there twice":   {raw: inYAML(plainServer, "", "") + "    token: another\n", refused: "not YAML or JSON"},
		"a token with a line break":   {raw: strings.Replace(inYAML(plainServer, "", ""), "token: hush-hush", `token: "hush-hush\nX-Evil: 1"`, 1), refused: "users[].user.token"},
		"an authority as a data URI":  {raw: inYAML(plainServer, "    certificate-authority: data:application/x-pem-file;base64,aGk=\n", ""), refused: "clusters[].cluster.certificate-authority"},
		"a key as a data URI":         {raw: inYAML(plainServer, "", "    client-key: data:,hush-hush\n"), refused: "users[].user.client-key"},
		"a token file beside a token": {raw: inYAML(plainServer, "", "    tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token\n"), refused: "users[].user.tokenFile"},
		"a server as a data URI":      {raw: inYAML("data:text/plain,hush-hush", "", ""), refused: "clusters[].cluster.server"},
		"a server name of its own":    {raw: inYAML(plainServer, "    tls-server-name: kubernetes.default\n", "")},
		"groups without a name":       {raw: inYAML(plainServer, "", "    as-groups: [\"system:masters\"]\n"), refused: "users[].user.as-groups"},
		"an anchor and its alias":     {raw: inYAML("&s "+plainServer, "", "") + "preferences: {x: *s}\n"},
		"a merge key with a program":  {raw: inYAML(plainServer, "", "    <<: {exec: {apiVersion: client.authentication.k8s.io/v1, command: hush-hush, interactiveMode: Never}}\n"), refused: "users[].user.exec"},
		"a proxy of another scheme":   {raw: inYAML(plainServer, "    proxy-url: file:///hush-hush\n", ""), refused: "clusters[].cluster.proxy-url"},
		"a server name with a break":  {raw: inYAML(plainServer, "    tls-server-name: \"a\\nb\"\n", ""), refused: "clusters[].cluster.tls-server-name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := clusters.ParseKubeconfig([]byte(tc.raw), false)
			if tc.refused == "" {
				if tc.host == "" {
					tc.host = plainServer
				}
				if err != nil || cfg.Host != tc.host || cfg.BearerToken != "hush-hush" {
					t.Errorf("got %v", err)
				}
				return
			}
			if !errors.Is(err, clusters.ErrRefused) || !strings.Contains(err.Error(), tc.refused) {
				t.Fatalf("got %v, want it to say %s", err, tc.refused)
			}
			if strings.Contains(err.Error(), "hush") || !utf8.ValidString(err.Error()) || len(err.Error()) > 300 {
				t.Errorf("it quotes the file: %s", err)
			}
		})
	}
}

// TestParseKubeconfigExpiredCertificate: a client certificate that has ended is a credential that the member refuses, and is
// said by CredentialsValid with its end; the file itself is well-formed.
func TestParseKubeconfigExpiredCertificate(t *testing.T) {
	t.Parallel()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ended := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: ended.AddDate(-1, 0, 0), NotAfter: ended}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	cfg, err := clusters.ParseKubeconfig(kubeconfig("", fmt.Sprintf(`"client-certificate-data":%q,"client-key-data":%q`, encoded(cert), encoded(key))), false)
	if err != nil || !bytes.Equal(cfg.CertData, cert) {
		t.Fatalf("got %v", err)
	}
}
