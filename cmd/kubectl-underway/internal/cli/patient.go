package cli

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// requestLimit is how long one request may take, answer and all, where --request-timeout says nothing shorter: a server that
// accepts and never answers would else hold a command for ever, without words.
const requestLimit = time.Minute

// patient bounds every request but watches.
type patient struct {
	next  http.RoundTripper
	limit time.Duration
}

// RoundTrip is of http.RoundTripper.
func (p *patient) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Query().Has("watch") {
		return p.next.RoundTrip(req)
	}
	ctx, cancel := context.WithTimeout(req.Context(), p.limit)
	resp, err := p.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &bounded{ReadCloser: resp.Body, end: sync.OnceFunc(cancel)}
	return resp, nil
}

// bounded is a body that ends with its request's time.
type bounded struct {
	io.ReadCloser
	end func()
}

// Close is of io.Closer.
func (b *bounded) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
