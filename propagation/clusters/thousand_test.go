package clusters

import (
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/underway-dev/underway/propagation/render"
)

// TestAThousandMembersOfWhichMostAreDead: 495 refuse, 495 accept and never answer, 10 live. The live ones are read as if they
// were alone, and what a dead one costs is bounded: goroutines, memory, and tries that grow apart.
func TestAThousandMembersOfWhichMostAreDead(t *testing.T) {
	const dead, live = 990, 10
	hole, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts; nobody ever answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hole.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()

	f := startFleet(t, Intervals{ProbeTimeout: 2 * time.Second})
	set := render.CloneSet()
	f.Use(set.GVK.GroupKind().String())
	await(t, f, Local, "the hub itself", ready)
	heap, goroutines := measure()
	for i := range dead {
		address := hole.Addr().String()
		if i%2 == 0 {
			address = closed.Addr().String()
		}
		f.Ensure(fmt.Sprintf("dead-%d", i), Config{
			REST:     &rest.Config{Host: "https://" + address, TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
			Identity: fmt.Sprintf("dead-%d", i),
		})
	}
	for i := range live {
		uid := fmt.Sprintf("live-%d", i)
		f.Ensure(uid, Config{REST: newAPI(t, uid).rest(), Identity: uid})
	}
	for i := range live {
		await(t, f, fmt.Sprintf("live-%d", i), "ready", func(v View) bool { return ready(v) && kindIn(v, set).Synced })
	}
	for i := range dead {
		await(t, f, fmt.Sprintf("dead-%d", i), "known to be dead", func(v View) bool { return v.Block == BlockUnreachable })
	}
	time.Sleep(time.Second)
	heapNow, goroutinesNow := measure()
	perMember := float64(heapNow-heap) / (dead + live) / 1024
	threads := float64(goroutinesNow-goroutines) / (dead + live)
	tries := func() (n int64) {
		for i := range dead {
			n += f.Requests(fmt.Sprintf("dead-%d", i))["get"]
		}
		return n
	}
	first := tries()
	time.Sleep(5 * time.Second)
	second := tries()
	t.Logf("per member: %.0f KiB of heap, %.1f goroutines; tries so far %.1f, in five more seconds %.1f",
		perMember, threads, float64(first)/dead, float64(second-first)/dead)
	if perMember > 150 {
		t.Errorf("a member takes %.0f KiB, the limit is 150", perMember)
	}
	if threads > 5 {
		t.Errorf("a member takes %.1f goroutines, the limit is 5", threads)
	}
	if second-first > 4*dead {
		t.Errorf("%d tries of %d dead members in five seconds: they do not back off", second-first, dead)
	}
	for i := range live {
		if v, _ := f.View(fmt.Sprintf("live-%d", i)); !ready(v) {
			t.Errorf("a live one is %s", v.State)
		}
	}
}

func measure() (heap int64, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), runtime.NumGoroutine()
}
