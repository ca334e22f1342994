package install

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/underway-dev/underway/config"
)

// Access is how the hub reaches a member: no credential in it.
type Access struct {
	// Server is the URL of the API server.
	Server string
	// CAData verifies it; empty: the system's roots do, unless Insecure.
	CAData []byte
	// ServerName is the name in its certificate where that is not the host of Server.
	ServerName string
	// Insecure skips the verification.
	Insecure bool
}

// AccessOf takes from an administrator's client config what the hub needs to reach the same server. What the hub would
// not accept (a proxy, no verification unless allowed, a server address that only means something here) is an error
// that names it.
func AccessOf(cfg *rest.Config, allowInsecure bool) (Access, error) {
	access := Access{Server: cfg.Host, CAData: cfg.CAData, ServerName: cfg.ServerName, Insecure: cfg.Insecure}
	u, err := url.Parse(cfg.Host)
	switch {
	case err != nil:
		return Access{}, fmt.Errorf("server %q: %w", cfg.Host, err)
	case u.Scheme != "https" || u.Host == "":
		return Access{}, fmt.Errorf("server %q: the hub wants an https:// address", cfg.Host)
	case cfg.Proxy != nil:
		return Access{}, errors.New("proxy-url: the hub goes to members without a proxy; give --kubeconfig a direct address")
	case cfg.Insecure && !allowInsecure:
		return Access{}, errors.New("insecure-skip-tls-verify: the hub would send its token to whoever answers; " +
			"give the kubeconfig a certificate-authority, or allow it with --insecure-skip-tls-verify")
	}
	if len(access.CAData) == 0 && cfg.CAFile != "" {
		if access.CAData, err = os.ReadFile(cfg.CAFile); err != nil {
			return Access{}, fmt.Errorf("certificate-authority: %w", err)
		}
	}
	return access, nil
}

// Loopback says whether the server's address means this machine to everybody.
func (a Access) Loopback() bool {
	u, err := url.Parse(a.Server)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback())
}

// Kubeconfig builds one of named fields only: server, CA data, TLS server name, token.
func (a Access) Kubeconfig(name, token string) ([]byte, error) {
	cluster := clientcmdapi.NewCluster()
	cluster.Server = a.Server
	cluster.CertificateAuthorityData = a.CAData
	cluster.TLSServerName = a.ServerName
	cluster.InsecureSkipTLSVerify = a.Insecure
	user := clientcmdapi.NewAuthInfo()
	user.Token = token
	link := clientcmdapi.NewContext()
	link.Cluster, link.AuthInfo = name, config.HubAccount

	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = cluster
	cfg.AuthInfos[config.HubAccount] = user
	cfg.Contexts[name] = link
	cfg.CurrentContext = name
	raw, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, fmt.Errorf("writing the hub's kubeconfig: %w", err)
	}
	return raw, nil
}
