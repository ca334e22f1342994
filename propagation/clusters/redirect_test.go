package clusters

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// TestAMemberSendsNobodyElsewhere: a member that answers with a redirect is not followed: the hub's token, and the hub's place
// in the network, are not the member's to lend.
func TestAMemberSendsNobodyElsewhere(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	var token atomic.Value
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		reached.Add(1)
		token.Store(req.Header.Get("Authorization"))
	}))
	t.Cleanup(elsewhere.Close)
	a := newAPI(t, "uid-1")
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, elsewhere.URL+req.URL.Path, http.StatusTemporaryRedirect)
	})
	cfg := a.rest()
	cfg.BearerToken = "secret"
	conn, err := connect(cfg, &counter{member: "m", vec: requestsMetric(), dials: connectionsMetric(), byVerb: map[string]int64{}}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.drop()
	err = conn.ready(t.Context())
	if err == nil || reached.Load() != 0 {
		t.Errorf("%d requests went elsewhere, with %v; %v", reached.Load(), token.Load(), err)
	}
}
