package clusters

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ErrRefused is wrapped by the errors of ParseKubeconfig that name a field which is not allowed.
var ErrRefused = errors.New("kubeconfig is refused")

// ParseKubeconfig rebuilds a configuration from the named fields of a kubeconfig's current context: server, CA data,
// client certificate and key data, token, user name and password, server name. Anything that runs a program, reads a
// file, goes through a proxy or impersonates is refused, and so are plain HTTP and skipping verification unless
// allowInsecure; the error wraps ErrRefused and names the fields.
func ParseKubeconfig(raw []byte, allowInsecure bool) (*rest.Config, error) {
	config, err := clientcmd.Load(raw)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	context, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return nil, fmt.Errorf("%w: current-context %q does not exist", ErrRefused, config.CurrentContext)
	}
	cluster, ok := config.Clusters[context.Cluster]
	if !ok {
		return nil, fmt.Errorf("%w: cluster %q does not exist", ErrRefused, context.Cluster)
	}
	user, ok := config.AuthInfos[context.AuthInfo]
	if !ok {
		return nil, fmt.Errorf("%w: user %q does not exist", ErrRefused, context.AuthInfo)
	}
	server, err := url.Parse(cluster.Server)
	if err != nil || server.Host == "" {
		return nil, fmt.Errorf("%w: clusters[].cluster.server %q is not a URL", ErrRefused, cluster.Server)
	}
	if bad := refusedFields(cluster, user, server, allowInsecure); len(bad) > 0 {
		return nil, fmt.Errorf("%w: %v must not be set", ErrRefused, bad)
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
		"clusters[].cluster.certificate-authority":                 c.CertificateAuthority != "",
		"clusters[].cluster.proxy-url":                             c.ProxyURL != "",
		"clusters[].cluster.server (user information)":             server.User != nil,
		"clusters[].cluster.server (scheme " + server.Scheme + ")": server.Scheme != "https" && (server.Scheme != "http" || !allowInsecure),
		"clusters[].cluster.insecure-skip-tls-verify":              c.InsecureSkipTLSVerify && !allowInsecure,
		"users[].user.exec":                                        u.Exec != nil,
		"users[].user.auth-provider":                               u.AuthProvider != nil,
		"users[].user.client-certificate":                          u.ClientCertificate != "",
		"users[].user.client-key":                                  u.ClientKey != "",
		"users[].user.tokenFile":                                   u.TokenFile != "",
		"users[].user.as":                                          u.Impersonate != "",
		"users[].user.as-uid":                                      u.ImpersonateUID != "",
		"users[].user.as-groups":                                   len(u.ImpersonateGroups) > 0,
		"users[].user.as-user-extra":                               len(u.ImpersonateUserExtra) > 0,
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
