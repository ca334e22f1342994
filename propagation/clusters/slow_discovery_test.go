package clusters

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestAMemberWhoseEveryCallIsInTimeBecomesReady: the limit of a look is one of each call, not of all that are asked one after
// the other: a far member with many kinds is slow, not broken.
func TestAMemberWhoseEveryCallIsInTimeBecomesReady(t *testing.T) {
	t.Parallel()
	every := quick()
	every.ProbeTimeout = time.Second
	a := newAPI(t, "east-uid")
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasPrefix(req.URL.Path, "/apis/") {
			time.Sleep(400 * time.Millisecond)
		}
		a.ServeHTTP(w, req)
	})
	f := startFleet(t, every)
	f.Ensure("east", Config{REST: a.rest(), Identity: "east-uid"})
	await(t, f, "east", "ready", ready)
}
