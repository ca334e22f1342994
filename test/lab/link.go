package lab

import (
	"net"
	"strconv"
	"sync"
	"time"
)

// Link is a way to a cluster's API server that can be cut and slowed, for those
// who are given its kubeconfig; everybody else still reaches the server directly.
type Link struct {
	cluster  *Cluster
	listener net.Listener

	mu    sync.Mutex
	cut   bool
	delay time.Duration
	conns map[net.Conn]bool
}

// Link opens a link. It lives in this process and ends with it at the latest.
func (c *Cluster) Link() (*Link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	link := &Link{cluster: c, listener: l, conns: map[net.Conn]bool{}}
	go link.serve()
	return link, nil
}

// Server is the URL of the API server through the link.
func (l *Link) Server() string { return "https://" + l.listener.Addr().String() }

// KubeconfigFor is Cluster.KubeconfigFor through the link. Every link has files
// of its own.
func (l *Link) KubeconfigFor(user string, groups []string, valid time.Duration) (string, error) {
	port := strconv.Itoa(l.listener.Addr().(*net.TCPAddr).Port)
	path := l.cluster.kubeconfigPath("link-" + port + "-" + user)
	return l.cluster.writeKubeconfig(path, l.Server(), user, identity{groups: groups, valid: valid})
}

// Cut breaks all connections; new ones are accepted and broken at once.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns {
		_ = c.Close()
	}
}

// Mend lets new connections through again.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

// Slow delays each piece of data, in each direction, by half of the round trip
// that is given.
func (l *Link) Slow(roundTrip time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = roundTrip / 2
}

// Close ends the link.
func (l *Link) Close() error {
	err := l.listener.Close()
	l.Cut()
	return err
}

func (l *Link) serve() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		go l.connect(near)
	}
}

func (l *Link) connect(near net.Conn) {
	defer near.Close()
	l.cluster.mu.Lock()
	port := l.cluster.state.Ports.APIServer
	l.cluster.mu.Unlock()
	far, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return
	}
	defer far.Close()
	if !l.track(near, far) {
		return
	}
	defer l.forget(near, far)
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
			l.mu.Lock()
			delay := l.delay
			l.mu.Unlock()
			time.Sleep(delay)
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
