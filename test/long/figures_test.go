//go:build lab

package long

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

// weight is what the hub's process takes.
type weight struct {
	// heap is what lives (half of the size at which the collector runs next), resident what the kernel counts; in MiB.
	heap, resident, goroutines float64
	// dials are the connections tried to dead members, cpu the seconds spent.
	dials, cpu float64
}

func (w *hubWorld) weigh() weight {
	w.Helper()
	got := w.scrape(`^(go_memstats_next_gc_bytes|go_goroutines|process_cpu_seconds_total|underway_hub_member_connections_total.*dead)`)
	return weight{
		heap: got["go_memstats_next_gc_bytes"] / 2 / (1 << 20), resident: w.resident(), goroutines: got["go_goroutines"],
		dials: got["underway_hub_member_connections_total"], cpu: got["process_cpu_seconds_total"],
	}
}

// perMember prints what so many more members cost, and holds the budget: 2 MiB per idle member (design.md 9).
func (w *hubWorld) perMember(before, after weight, members int) {
	w.Helper()
	n := float64(members)
	heap := (after.heap - before.heap) / n
	w.Logf("  live heap: %.1f MiB, %.1f before, %.0f KiB per member", after.heap, before.heap, heap*1024)
	w.Logf("  resident: %.1f MiB, %.1f before, %.0f KiB per member", after.resident, before.resident, (after.resident-before.resident)/n*1024)
	w.Logf("  goroutines: %.0f, %.0f before, %.1f per member", after.goroutines, before.goroutines, (after.goroutines-before.goroutines)/n)
	if heap > 2 {
		w.Errorf("%.2f MiB of heap per member, the budget is 2", heap)
	}
}

// quiet waits until the hub has written nothing to its own API server for so long, Leases apart.
func (w *hubWorld) quiet(span time.Duration) {
	w.Helper()
	w.eventually("the hub has nothing left to write", func(context.Context) (bool, string) {
		mark, err := w.fleet.Hub().Mark()
		if err != nil {
			return false, err.Error()
		}
		time.Sleep(span)
		events, err := w.fleet.Hub().Since(mark, lab.Writes, lab.ByUser(hubUser), func(e lab.AuditEvent) bool { return e.Resource() != "leases" })
		if err != nil {
			return false, err.Error()
		}
		return len(events) == 0, fmt.Sprintf("%d writes in %s", len(events), span)
	})
}

// stored prints what etcd of the hub keeps of a UnitedDeployment, and holds the budget: 600 bytes per workload and member
// (design.md 9).
func (w *hubWorld) stored(ud *appsv1alpha1.UnitedDeployment) {
	w.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(appsv1alpha1.GroupVersion.WithKind("UnitedDeployment"))
	if err := w.hub.Get(w.Context(), client.ObjectKeyFromObject(ud), obj); err != nil {
		w.Fatal(err)
	}
	size := func(v any) int {
		raw, err := json.Marshal(v)
		if err != nil {
			w.Fatal(err)
		}
		return len(raw)
	}
	entries, _, _ := unstructured.NestedSlice(obj.Object, "status", "subsetStatuses")
	if len(entries) == 0 {
		w.Fatal("the status has no subset")
	}
	w.Logf("  etcd of the hub: %d bytes in all: spec %d, status %d, managedFields %d", size(obj.Object), size(obj.Object["spec"]),
		size(obj.Object["status"]), size(obj.GetManagedFields()))
	per := size(entries) / len(entries)
	one, _ := json.Marshal(entries[0])
	w.Logf("  of these, %d bytes per member: %s", per, one)
	if per > 600 {
		w.Errorf("%d bytes per workload and member, the budget is 600", per)
	}
}

// change is what a change of the template cost.
type change struct {
	marks map[string]lab.Mark
	// took is the time to the last member, requests all that one member got from the hub meanwhile.
	took     time.Duration
	requests float64
}

// change changes the image and waits for members, each of which must have got one write for it; of all the places in the
// audit log are noted.
func (w *hubWorld) change(ud *appsv1alpha1.UnitedDeployment, image string, members, all []string) change {
	w.Helper()
	out := change{marks: map[string]lab.Mark{}}
	for _, m := range all {
		mark, err := w.fleet.Member(m).Mark()
		if err != nil {
			w.Fatal(err)
		}
		out.marks[m] = mark
	}
	w.image(ud, image)
	out.took = w.updated(ud, 2, members...)
	kinds := map[string]int{}
	for _, m := range members {
		if writes := w.writes(out.marks, m); len(writes) != 1 {
			w.Errorf("%s got %d writes for one change, want 1", m, len(writes))
		}
		events, err := w.fleet.Member(m).Since(out.marks[m], lab.ByUser(hubUser))
		if err != nil {
			w.Fatal(err)
		}
		for _, e := range events {
			kinds[e.Verb+" "+e.Resource()]++
		}
		out.requests += float64(len(events)) / float64(len(members))
	}
	w.Logf("%s: one write to each of %d members, the last of them ready after %s; %.1f requests per member in all, %v",
		image, len(members), out.took.Round(100*time.Millisecond), out.requests, kinds)
	return out
}

// writes are the hub's to a member since a mark, Leases apart.
func (w *hubWorld) writes(marks map[string]lab.Mark, member string) []lab.AuditEvent {
	w.Helper()
	events, err := w.fleet.Member(member).Since(marks[member], lab.Writes, lab.ByUser(hubUser), func(e lab.AuditEvent) bool {
		return e.Resource() != "leases" && !strings.HasPrefix(e.ObjectRef.Resource, "selfsubject")
	})
	if err != nil {
		w.Fatal(err)
	}
	return events
}
