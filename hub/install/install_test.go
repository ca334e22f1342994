package install_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/config"
	"github.com/underway-dev/underway/hub/install"
	"github.com/underway-dev/underway/propagation/clusters"
)

func TestAccessOf(t *testing.T) {
	ca := []byte("ca")
	for name, tc := range map[string]struct {
		cfg      rest.Config
		insecure bool
		want     install.Access
		says     string
	}{
		"what another client needs and no credential": {
			cfg: rest.Config{
				Host: "https://eu-1.example:6443", BearerToken: "admin", Username: "admin",
				TLSClientConfig: rest.TLSClientConfig{CAData: ca, ServerName: "kubernetes", CertData: []byte("c"), KeyData: []byte("k")},
			},
			want: install.Access{Server: "https://eu-1.example:6443", CAData: ca, ServerName: "kubernetes"},
		},
		"plain HTTP":           {cfg: rest.Config{Host: "http://eu-1.example"}, says: "https://"},
		"no scheme":            {cfg: rest.Config{Host: "eu-1.example:6443"}, says: "https://"},
		"insecure":             {cfg: rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, says: "--insecure-skip-tls-verify"},
		"insecure and allowed": {cfg: rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, insecure: true, want: install.Access{Server: "https://a", Insecure: true}},
		"a proxy": {
			cfg:  rest.Config{Host: "https://a", Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }},
			says: "proxy-url",
		},
		"a certificate-authority that is not there": {
			cfg:  rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CAFile: "/does/not/exist"}},
			says: "certificate-authority",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := install.AccessOf(&tc.cfg, tc.insecure)
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("it should say %q: %v", tc.says, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTheHubTakesTheKubeconfig: what is built passes the hub's own parser, and says the same.
func TestTheHubTakesTheKubeconfig(t *testing.T) {
	authority := authority(t)
	access := install.Access{Server: "https://eu-1.example:6443", CAData: authority, ServerName: "kubernetes"}
	raw, err := access.Kubeconfig("eu-1", "token")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clusters.ParseKubeconfig(raw, false)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != access.Server || cfg.BearerToken != "token" || !bytes.Equal(cfg.CAData, authority) || cfg.ServerName != "kubernetes" {
		t.Errorf("got %+v", cfg)
	}
	loaded, err := clientcmd.Load(raw)
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.Clusters) != 1 || len(loaded.AuthInfos) != 1 || loaded.CurrentContext != "eu-1" {
		t.Errorf("got %+v", loaded)
	}
}

func TestLoopback(t *testing.T) {
	for server, want := range map[string]bool{
		"https://127.0.0.1:6443": true, "https://localhost": true, "https://[::1]:6443": true,
		"https://10.0.0.1": false, "https://eu-1.example": false,
	} {
		if got := (install.Access{Server: server}).Loopback(); got != want {
			t.Errorf("%s: %v, want %v", server, got, want)
		}
	}
}

func TestTooOld(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.33.9": true, "v1.34.0": false, "v1.37.2": false, "v1.34.0-alpha.1+x": false, "v2.0.0": false, "who knows": false, "v0.0.0-master+$Format:%H$": false,
	} {
		if got := (install.Facts{Version: version}).TooOld(); got != want {
			t.Errorf("%s: %v, want %v", version, got, want)
		}
	}
}

// TestTheHubsRolesAreNarrow: no role that join gives the hub on a member reaches what it has no business with. What
// workloads name (Secrets among it) travels with them: the role that is bound where workloads go may write it, the one
// that every join binds everywhere reaches none of it.
func TestTheHubsRolesAreNarrow(t *testing.T) {
	objects, err := config.HubAccess()
	if err != nil {
		t.Fatal(err)
	}
	always := []string{"*", "pods/status", "nodes", "clusterroles", "roles", "rolebindings", "clusterrolebindings", "customresourcedefinitions"}
	roles := 0
	for _, u := range objects {
		if u.GetKind() != "ClusterRole" && u.GetKind() != "Role" {
			continue
		}
		roles++
		role := rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &role); err != nil {
			t.Fatal(err)
		}
		forbidden := always
		if u.GetName() != config.HubWorkloadsRole {
			forbidden = append(slices.Clone(always), "secrets", "configmaps", "serviceaccounts")
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "serviceaccounts/token") && !slices.Equal(rule.ResourceNames, []string{config.HubAccount}) {
				t.Errorf("%s %s may make tokens of other accounts: %v", u.GetKind(), u.GetName(), rule)
			}
			for _, bad := range forbidden {
				if slices.Contains(rule.Resources, bad) {
					t.Errorf("%s %s reaches %s", u.GetKind(), u.GetName(), bad)
				}
			}
			if slices.Contains(rule.Resources, "pods") && slices.ContainsFunc(rule.Verbs, func(v string) bool { return v != "get" && v != "list" }) {
				t.Errorf("%s %s does more with pods than read them: %v", u.GetKind(), u.GetName(), rule.Verbs)
			}
			if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Resources, "namespaces") && slices.Contains(rule.Verbs, "delete") {
				t.Errorf("%s %s may %v %v", u.GetKind(), u.GetName(), rule.Verbs, rule.Resources)
			}
		}
	}
	if roles < 3 {
		t.Errorf("only %d roles were looked at", roles)
	}
}

func TestCheckIdentity(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := fleetv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	known := func(name, identity string) client.Object {
		return &fleetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Status: fleetv1alpha1.MemberClusterStatus{Identity: identity},
		}
	}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(known("eu-1", "uid-1"), known("new", "")).Build()
	for name, tc := range map[string]struct{ member, identity, says string }{
		"the same again":            {member: "eu-1", identity: "uid-1"},
		"one that is not known":     {member: "us-1", identity: "uid-2"},
		"one not reached yet":       {member: "new", identity: "uid-3"},
		"a second name":             {member: "eu-2", identity: "uid-1", says: "under the name eu-1"},
		"another cluster, its name": {member: "eu-1", identity: "uid-2", says: "another cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			err := install.CheckIdentity(t.Context(), hub, tc.member, tc.identity)
			switch {
			case tc.says == "" && err != nil:
				t.Error(err)
			case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("it should say %q: %v", tc.says, err)
			}
		})
	}
}

// authority is a certificate, as a cluster's CA is.
func authority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
