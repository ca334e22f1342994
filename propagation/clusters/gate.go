package clusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// errSlow is the end of a request that a member did not answer in time.
var errSlow = errors.New("no answer in time")

// errDown is the end of a request to a member that does not answer: it is not sent.
var errDown = fmt.Errorf("%w: it does not answer", ErrNotReady)

// gate bounds the requests to one member. While the member is down nothing is sent but probes, so that nobody waits for it.
// A request that is sent is given up when it has no answer, body and all, after limit. Watches must be answered in that time
// as well, and then last; the connection's pings look after them. Requests marked patient have no limit but their caller's.
type gate struct {
	next  http.RoundTripper
	limit time.Duration
	down  atomic.Bool
}

// mark says how a request passes the gate.
type mark int

const (
	// probing requests pass while the member is down.
	probing mark = iota + 1
	// patient requests may take as long as their caller lets them.
	patient
)

func marked(ctx context.Context, m mark) context.Context { return context.WithValue(ctx, m, true) }

func hasMark(ctx context.Context, m mark) bool { return ctx.Value(m) != nil }

// RoundTrip is of http.RoundTripper.
func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	if g.down.Load() && !hasMark(req.Context(), probing) {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, errDown
	}
	if hasMark(req.Context(), patient) {
		return g.next.RoundTrip(req)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(g.limit, func() { cancel(errSlow) })
	end := func() {
		timer.Stop()
		cancel(nil)
	}
	resp, err := g.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errSlow) {
			err = errSlow
		}
		end()
		return nil, err
	}
	if verb(req) == "watch" {
		timer.Stop()
	}
	resp.Body = &answer{ReadCloser: resp.Body, ctx: func() error { return context.Cause(ctx) }, end: sync.OnceFunc(end)}
	return resp, nil
}

// answer is a body that is given up with its request.
type answer struct {
	io.ReadCloser
	ctx func() error
	end func()
}

// Read is of io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(a.ctx(), errSlow) {
		err = errSlow
	}
	return n, err //nolint:wrapcheck // io.EOF must stay itself
}

// Close is of io.Closer.
func (a *answer) Close() error {
	defer a.end()
	return a.ReadCloser.Close() //nolint:wrapcheck // a body's own error
}
