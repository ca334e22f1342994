package clusters

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

const (
	userAgent   = "underway-hub"
	dialTimeout = 5 * time.Second
	keepAlive   = 30 * time.Second
	idleTimeout = 90 * time.Second
	// A connection on which nothing is read for pingAfter is asked, and closed when that is not answered in pingTimeout:
	// so long can a watch hang on a member that vanished without a word.
	pingAfter   = 15 * time.Second
	pingTimeout = 15 * time.Second
)

// connection is the clients to one member. It has a transport of its own: client-go's cache of transports never lets
// one go.
type connection struct {
	dynamic dynamic.Interface
	leases  coordinationv1client.LeasesGetter
	plain   rest.Interface
	gate    *gate
	// drop closes every connection: what waits for an answer fails at once.
	drop func()
}

// connect builds the clients; nothing is sent. limit bounds each request.
func connect(cfg *rest.Config, count *counter, limit time.Duration) (*connection, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	cfg.UserAgent = userAgent
	transport, drop, err := transportFor(cfg, count)
	if err != nil {
		return nil, err
	}
	out := &connection{drop: drop, gate: &gate{next: transport, limit: limit}}
	httpClient := &http.Client{
		Transport: out.gate,
		// A member lends neither the hub's token nor its place in the network: a redirect is an answer like any other, and no good one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if out.dynamic, err = dynamic.NewForConfigAndClient(cfg, httpClient); err != nil {
		return nil, fmt.Errorf("building the dynamic client: %w", err)
	}
	if out.leases, err = coordinationv1client.NewForConfigAndClient(cfg, httpClient); err != nil {
		return nil, fmt.Errorf("building the client of Leases: %w", err)
	}
	plain := rest.CopyConfig(cfg)
	plain.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	plain.GroupVersion = nil
	if out.plain, err = rest.UnversionedRESTClientForConfigAndClient(plain, httpClient); err != nil {
		return nil, fmt.Errorf("building the plain client: %w", err)
	}
	return out, nil
}

func transportFor(cfg *rest.Config, count *counter) (http.RoundTripper, func(), error) {
	tlsConfig, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("reading certificates: %w", err)
	}
	dial := (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext
	dialer := connrotation.NewDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		count.dialed()
		return dial(ctx, network, address)
	})
	transport := &http.Transport{
		TLSClientConfig:     tlsConfig,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout:     idleTimeout,
		MaxIdleConnsPerHost: 4,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		// Without a proxy: neither a kubeconfig nor our environment may send a member's traffic elsewhere.
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
	}
	wrapped, err := rest.HTTPWrappersForConfig(cfg, transport)
	if err != nil {
		return nil, nil, fmt.Errorf("reading credentials: %w", err)
	}
	return count.wrap(wrapped), func() {
		dialer.CloseAll()
		transport.CloseIdleConnections()
	}, nil
}

// ready asks /readyz.
func (c *connection) ready(ctx context.Context) error {
	if err := c.plain.Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return fmt.Errorf("asking /readyz: %w", err)
	}
	return nil
}
