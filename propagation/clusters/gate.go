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

// errLarge is the end of an answer that is too large to be kept.
var errLarge = errors.New("the answer is too large")

// What is read of one answer at most, in bytes: nothing that a member says may fill the hub's memory. A probe is answered by a few
// words, a request by an object or a list of some. Watches last, and have no limit but where they are refused.
const (
	probeSize   = 1 << 20
	requestSize = 64 << 20
	listSize    = 1 << 30
)

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
		resp, err := g.next.RoundTrip(req)
		if err == nil {
			resp.Body = &answer{ReadCloser: resp.Body, ctx: req.Context().Err, end: func() {}, left: sizeOf(req, resp)}
		}
		return resp, err
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
	resp.Body = &answer{ReadCloser: resp.Body, ctx: func() error { return context.Cause(ctx) }, end: sync.OnceFunc(end), left: sizeOf(req, resp)}
	return resp, nil
}

// sizeOf is how much of an answer is read; negative: all.
func sizeOf(req *http.Request, resp *http.Response) int64 {
	switch watching := verb(req) == "watch"; {
	case watching && resp.StatusCode == http.StatusOK:
		return -1
	case watching, hasMark(req.Context(), probing):
		return probeSize
	case hasMark(req.Context(), patient):
		return listSize
	}
	return requestSize
}

// answer is a body that is given up with its request, and when it is too large.
type answer struct {
	io.ReadCloser
	ctx func() error
	end func()
	// left is how many more bytes are read; negative: any number.
	left int64
}

// Read is of io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	if a.left == 0 {
		return 0, errLarge
	}
	if a.left > 0 && int64(len(p)) > a.left {
		p = p[:a.left]
	}
	n, err := a.ReadCloser.Read(p)
	if a.left > 0 {
		a.left -= int64(n)
	}
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
