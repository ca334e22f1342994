package lab

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// Link is a way to a cluster's API server that can be cut, frozen, slowed and led to another cluster, for those who are
// given its kubeconfig; everybody else still reaches the server directly. It passes bytes on: TLS is between the two
// ends. [Cluster.Gateway] is one that knows requests.
type Link struct {
	cluster *Cluster
	address string
	// inner is where a gateway listens; empty: the API server itself is reached.
	inner string

	mu       sync.Mutex
	listener net.Listener
	backend  *Cluster
	cut      bool
	frozen   chan struct{} // closed when it thaws; nil while nothing is frozen
	delay    time.Duration
	conns    map[net.Conn]bool
}

// Link opens a link. It lives in this process and ends with it at the latest.
func (c *Cluster) Link() (*Link, error) { return c.link("") }

func (c *Cluster) link(inner string) (*Link, error) {
	// Refuse gives the port up for a while: below the kernel's range nothing takes it by accident.
	ports, err := freePorts(1, firstEphemeralPort())
	if err != nil {
		return nil, err
	}
	l := &Link{
		cluster: c, backend: c, inner: inner, conns: map[net.Conn]bool{},
		address: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])),
	}
	if err := l.listen(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Link) listen() error {
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		return fmt.Errorf("opening a link to %s: %w", l.cluster.name, err)
	}
	l.mu.Lock()
	l.listener = listener
	l.mu.Unlock()
	go l.serve(listener)
	return nil
}

// Server is the URL of the API server through the link.
func (l *Link) Server() string { return "https://" + l.address }

// KubeconfigFor is Cluster.KubeconfigFor through the link. Every link has files
// of its own.
func (l *Link) KubeconfigFor(user string, groups []string, valid time.Duration) (string, error) {
	_, port, err := net.SplitHostPort(l.address)
	if err != nil {
		return "", err
	}
	path := l.cluster.kubeconfigPath("link-" + port + "-" + user)
	return l.cluster.writeKubeconfig(path, l.Server(), user, identity{groups: groups, valid: valid})
}

// Cut breaks all connections; new ones are accepted and broken at once.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	l.breakAll()
}

// Refuse breaks all connections; new ones are refused, as by a machine on which nothing listens.
func (l *Link) Refuse() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breakAll()
	if l.listener == nil {
		return nil
	}
	listener := l.listener
	l.listener = nil
	return listener.Close()
}

// Freeze holds everything back, in both directions: connections stay, new ones are accepted, and nothing answers, as
// with a machine that hangs. What was sent meanwhile arrives when Mend lets it through. Cut, Refuse and Point end it.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen == nil {
		l.frozen = make(chan struct{})
	}
}

// Mend undoes Cut, Refuse and Freeze.
func (l *Link) Mend() error {
	l.mu.Lock()
	l.cut = false
	l.thaw()
	closed := l.listener == nil
	l.mu.Unlock()
	if closed {
		return l.listen()
	}
	return nil
}

// Slow delays each piece of data, in each direction, by half of the round trip that is given. A new connection takes
// several round trips; Gateway.Disturb delays calls.
func (l *Link) Slow(roundTrip time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = roundTrip / 2
}

// Point leads the link to another cluster from now on and breaks all connections: another cluster under the same
// address, with a certificate of its own unless the link is a gateway's.
func (l *Link) Point(to *Cluster) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backend = to
	l.breakAll()
}

// Close ends the link.
func (l *Link) Close() error {
	err := l.Refuse()
	l.Cut()
	return err
}

// breakAll and thaw are called with the lock held.
func (l *Link) breakAll() {
	for c := range l.conns {
		_ = c.Close()
	}
	l.thaw()
}

func (l *Link) thaw() {
	if l.frozen != nil {
		close(l.frozen)
		l.frozen = nil
	}
}

// to is the cluster that the link leads to.
func (l *Link) to() *Cluster {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backend
}

func (l *Link) farAddress() string {
	if l.inner != "" {
		return l.inner
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(l.to().apiServerPort()))
}

func (l *Link) serve(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		go l.connect(near)
	}
}

func (l *Link) connect(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", l.farAddress())
	if err != nil {
		return
	}
	defer far.Close()
	defer l.forget(near, far)
	if !l.track(near, far) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.pump(far, near) })
	wg.Go(func() { l.pump(near, far) })
	wg.Wait()
}

// track remembers the connections, so that Cut breaks them; false when the link
// is cut.
func (l *Link) track(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		l.conns[c] = true
	}
	return !l.cut
}

func (l *Link) forget(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		delete(l.conns, c)
	}
}

// pump copies until either side ends, and then ends both.
func (l *Link) pump(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			l.hold()
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hold waits as long as the link is slow or frozen.
func (l *Link) hold() {
	l.mu.Lock()
	delay, frozen := l.delay, l.frozen
	l.mu.Unlock()
	time.Sleep(delay)
	if frozen != nil {
		<-frozen
	}
}
