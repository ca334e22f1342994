package lab

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress writes what happens to the caller's writer, one line at a time.
type progress struct {
	mu  sync.Mutex
	out io.Writer
}

func newProgress(out io.Writer) *progress {
	if out == nil {
		out = io.Discard
	}
	return &progress{out: out}
}

func (p *progress) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "lab: "+format+"\n", args...)
}

// every says that something is still going on, until the returned function is
// called.
func (p *progress) every(interval time.Duration, what string) (stop func()) {
	began := time.Now()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p.printf("%s ... %ds", what, int(time.Since(began).Seconds()))
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}
