package clusters

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestAnAnswerWithoutEndIsNotKept: a member cannot fill the hub's memory: what one member says is bounded.
func TestAnAnswerWithoutEndIsNotKept(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	a := newAPI(t, "uid-1")
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		chunk := make([]byte, 64<<10)
		for range (32 << 20) / len(chunk) {
			n, err := w.Write(chunk)
			sent.Add(int64(n))
			if err != nil || req.Context().Err() != nil {
				return
			}
		}
	})
	conn, err := connect(a.rest(), &counter{member: "m", vec: requestsMetric(), dials: connectionsMetric(), byVerb: map[string]int64{}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.drop()
	err = conn.ready(marked(t.Context(), probing))
	if err == nil || sent.Load() > 16<<20 || !strings.Contains(words(err), "too large") {
		t.Errorf("%d MiB of an answer to /readyz were read: %v", sent.Load()>>20, err)
	}
}
