package clusters

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ErrRefused is wrapped by the errors of ParseKubeconfig that name a field which is not allowed.
var ErrRefused = errors.New("kubeconfig is refused")

// MaxKubeconfig is the size in bytes beyond which a kubeconfig is refused unread: it holds one certificate authority and
// one credential, not a list of clusters.
const MaxKubeconfig = 256 << 10

// notConfig is said of what cannot be parsed.
const notConfig = "it is not YAML or JSON of kind Config"

// ParseKubeconfig rebuilds a configuration from the named fields of a kubeconfig's current context: server, CA data,
// client certificate and key data, token, user name and password, server name. Anything that runs a program, reads a
// file, goes through a proxy or impersonates is refused, and so are plain HTTP, always, and skipping verification unless
// allowInsecure. Every error wraps ErrRefused, names the fields and quotes nothing that could be a credential.
func ParseKubeconfig(raw []byte, allowInsecure bool) (*rest.Config, error) {
	if len(raw) > MaxKubeconfig {
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d", ErrRefused, len(raw), MaxKubeconfig)
	}
	if bad := ambiguous(raw); bad != "" {
		return nil, fmt.Errorf("%w: %s", ErrRefused, bad)
	}
	config, err := clientcmd.Load(raw)
	if err != nil {
		// The parser's own words quote the text, which may be a credential or bytes that no status can hold.
		return nil, fmt.Errorf("%w: %s", ErrRefused, notConfig)
	}
	context, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return nil, fmt.Errorf("%w: current-context %s", ErrRefused, missing(config.CurrentContext))
	}
	cluster, ok := config.Clusters[context.Cluster]
	if !ok {
		return nil, fmt.Errorf("%w: contexts[].context.cluster %s", ErrRefused, missing(context.Cluster))
	}
	user, ok := config.AuthInfos[context.AuthInfo]
	if !ok {
		return nil, fmt.Errorf("%w: contexts[].context.user %s", ErrRefused, missing(context.AuthInfo))
	}
	server, err := url.Parse(cluster.Server)
	if err != nil || server.Host == "" {
		return nil, fmt.Errorf("%w: clusters[].cluster.server is not the URL of a server", ErrRefused)
	}
	if bad := refusedFields(cluster, user, server, allowInsecure); len(bad) > 0 {
		return nil, fmt.Errorf("%w: %v must not be set", ErrRefused, bad)
	}
	if bad := cmp.Or(oddFields(cluster, user, server), unreadableFields(cluster, user)); bad != "" {
		return nil, fmt.Errorf("%w: %s", ErrRefused, bad)
	}
	out := &rest.Config{
		Host:        cluster.Server,
		Username:    user.Username,
		Password:    user.Password,
		BearerToken: user.Token,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: cluster.TLSServerName,
			Insecure:   cluster.InsecureSkipTLSVerify,
			CertData:   user.ClientCertificateData,
			KeyData:    user.ClientKeyData,
		},
	}
	if !out.Insecure {
		out.CAData = cluster.CertificateAuthorityData
	}
	return out, nil
}

// refusedFields names what is set and not allowed.
func refusedFields(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo, server *url.URL, allowInsecure bool) []string {
	set := map[string]bool{
		"clusters[].cluster.certificate-authority":                        c.CertificateAuthority != "",
		"clusters[].cluster.proxy-url":                                    c.ProxyURL != "",
		"clusters[].cluster.server (user information)":                    server.User != nil,
		"clusters[].cluster.server (scheme " + short(server.Scheme) + ")": server.Scheme != "https",
		"clusters[].cluster.server (query or fragment)":                   server.RawQuery != "" || server.Fragment != "",
		"clusters[].cluster.insecure-skip-tls-verify":                     c.InsecureSkipTLSVerify && !allowInsecure,
		"users[].user.exec":                                               u.Exec != nil,
		"users[].user.auth-provider":                                      u.AuthProvider != nil,
		"users[].user.client-certificate":                                 u.ClientCertificate != "",
		"users[].user.client-key":                                         u.ClientKey != "",
		"users[].user.tokenFile":                                          u.TokenFile != "",
		"users[].user.as":                                                 u.Impersonate != "",
		"users[].user.as-uid":                                             u.ImpersonateUID != "",
		"users[].user.as-groups":                                          len(u.ImpersonateGroups) > 0,
		"users[].user.as-user-extra":                                      len(u.ImpersonateUserExtra) > 0,
	}
	var out []string
	for field, bad := range set {
		if bad {
			out = append(out, field)
		}
	}
	slices.Sort(out)
	return out
}

// unreadableFields says which certificate or key is none: the member would never be asked, and must not be blamed.
func unreadableFields(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) string {
	ca := c.CertificateAuthorityData
	if len(ca) > 0 && !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return "clusters[].cluster.certificate-authority-data holds no certificate in PEM"
	}
	if len(u.ClientCertificateData) == 0 && len(u.ClientKeyData) == 0 {
		return ""
	}
	if _, err := tls.X509KeyPair(u.ClientCertificateData, u.ClientKeyData); err != nil {
		return "users[].user.client-certificate-data and client-key-data are no pair of a certificate and its key in PEM"
	}
	return ""
}

// missing says which name does not exist, or that none is given.
func missing(name string) string {
	if name == "" {
		return "is not set"
	}
	return fmt.Sprintf("%q does not exist", short(name))
}

// short keeps a stranger's text from filling a status.
func short(text string) string {
	const enough = 64
	if len(text) <= enough {
		return text
	}
	return strings.ToValidUTF8(text[:enough], "") + "..."
}
