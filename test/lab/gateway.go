package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Gateway is a link that ends TLS in the middle and so knows requests: it delays or refuses those that it is told to. The
// API server sees the callers' own tokens, and client certificates in their names.
type Gateway struct {
	*Link
	server *http.Server

	mu         sync.Mutex
	disturb    func(*http.Request) Fault
	transports map[caller]*http.Transport
}

// Fault is what happens to a request.
type Fault struct {
	// Delay is how long it is kept before it is passed on, or answered with Status.
	Delay time.Duration
	// Status, unless 0, answers the request, which the API server then never sees.
	Status int
}

// caller is who sends a request with a client certificate; the zero one sends a token, or nothing.
type caller struct {
	backend      *Cluster
	user, groups string
	until        time.Time
}

// Gateway opens a gateway. It lives in this process and ends with it at the latest.
func (c *Cluster) Gateway() (*Gateway, error) {
	pair, err := tls.LoadX509KeyPair(c.path("pki", "apiserver.crt"), c.path("pki", "apiserver.key"))
	if err != nil {
		return nil, err
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	link, err := c.link(inner.Addr().String())
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	g := &Gateway{Link: link, transports: map[caller]*http.Transport{}}
	g.server = &http.Server{
		Handler:           g,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert},
		ErrorLog:          log.New(io.Discard, "", 0),
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = g.server.ServeTLS(inner, "", "") }()
	return g, nil
}

// Disturb asks f about every request from now on; nil disturbs none. It is called from many goroutines.
func (g *Gateway) Disturb(f func(*http.Request) Fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.disturb = f
}

// SlowLists delays each list by a random time of at most limit.
func SlowLists(limit time.Duration) func(*http.Request) Fault {
	return func(r *http.Request) Fault {
		if !IsList(r) {
			return Fault{}
		}
		return Fault{Delay: rand.N(limit)}
	}
}

// SlowCalls delays every call.
func SlowCalls(by time.Duration) func(*http.Request) Fault {
	return func(*http.Request) Fault { return Fault{Delay: by} }
}

// IsList says whether a request reads a collection: a list, or a watch that begins with one.
func IsList(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	q := r.URL.Query()
	if watch := q.Get("watch"); watch != "" && watch != "0" && watch != "false" && q.Get("sendInitialEvents") != "true" {
		return false
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default:
		return false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	return len(parts) == 1
}

// Close ends the gateway.
func (g *Gateway) Close() error {
	err := errors.Join(g.Link.Close(), g.server.Close())
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.transports {
		t.CloseIdleConnections()
	}
	return err
}

// ServeHTTP passes a request on.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	disturb := g.disturb
	g.mu.Unlock()
	if disturb != nil {
		f := disturb(r)
		if !sleep(r.Context(), f.Delay) {
			return
		}
		if f.Status != 0 {
			http.Error(w, "the lab refuses this request", f.Status)
			return
		}
	}
	transport, err := g.transport(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	target := &url.URL{Scheme: "https", Host: strings.TrimPrefix(g.to().Server(), "https://")}
	proxy := httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // a broken connection, not an answer of ours
		},
	}
	proxy.ServeHTTP(w, r)
}

// transport reaches the backend as the one who sent the request. A certificate keeps its end, so that one that has expired
// is refused by the API server.
func (g *Gateway) transport(r *http.Request) (*http.Transport, error) {
	who := caller{backend: g.to()}
	var groups []string
	if cert := g.trusted(r); cert != nil {
		who.user, groups, who.until = cert.Subject.CommonName, cert.Subject.Organization, cert.NotAfter
		who.groups = strings.Join(groups, ",")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if t, ok := g.transports[who]; ok {
		return t, nil
	}
	roots := x509.NewCertPool()
	roots.AddCert(who.backend.ca.cert)
	config := &tls.Config{RootCAs: roots}
	if who.user != "" {
		cert, key, err := who.backend.ca.client(who.user, groups, time.Until(who.until))
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	t := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	g.transports[who] = t
	return t, nil
}

// trusted is the client certificate of a request if the cluster's own authority has signed it, at whatever time it ends.
func (g *Gateway) trusted(r *http.Request) *x509.Certificate {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil
	}
	cert := r.TLS.PeerCertificates[0]
	roots := x509.NewCertPool()
	roots.AddCert(g.cluster.ca.cert)
	_, err := cert.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: cert.NotBefore.Add(time.Second), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil
	}
	return cert
}

// sleep is false when the caller was gone first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
