//go:build lab

package member

import (
	"sync"
	"testing"

	"github.com/underway-dev/underway/test/kit"
)

// place is one namespace of one cluster.
type place struct{ kit.Place }

// turn is held by the test whose turn it is on the rough cluster.
var turn sync.Mutex

// onRough waits for the cluster whose agents are started and killed by tests.
func onRough(t *testing.T) place {
	t.Helper()
	t.Parallel()
	turn.Lock()
	t.Cleanup(turn.Unlock)
	return in(t, rough)
}

// in makes a namespace for a test.
func in(t *testing.T, c kit.Cluster) place {
	t.Helper()
	return place{kit.In(t, c)}
}
