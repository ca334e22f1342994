//go:build lab

package long

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/underway-dev/underway/test/lab"
)

// TestAThousandMembersNearlyAllDead: a hub with 1,000 MemberClusters of which all but two are unreachable does its work on
// the two, and when nothing happens it writes nothing. The figures are printed.
func TestAThousandMembersNearlyAllDead(t *testing.T) {
	onlyWhenAsked(t)
	count := 998
	if text := os.Getenv("DEAD"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	w := beginHub(t, 2, "one", "two")
	w.start()
	w.join("one", "two")
	before := w.weigh()

	w.dead(count)
	took := w.eventually("every dead one is said to be unreachable", func(ctx context.Context) (bool, string) {
		got := w.said(ctx)
		return got["Unreachable"] == count && got["Connected"] == 2, fmt.Sprint(got)
	})
	t.Logf("%d dead members are known to be so after %s", count, took.Round(time.Second))

	ud := w.deploy(3, "one", "two", "dead-000", "dead-001")
	t.Logf("a new UnitedDeployment is on the living ones after %s", w.updated(ud, 3, "one", "two").Round(time.Second))
	w.image(ud, "app:v2")
	t.Logf("a release has reached the living ones after %s", w.updated(ud, 3, "one", "two").Round(time.Second))

	w.quiet(30 * time.Second)
	mark, err := w.fleet.Hub().Mark()
	if err != nil {
		t.Fatal(err)
	}
	from := w.weigh()
	const minutes = 2
	time.Sleep(minutes * time.Minute)
	to := w.weigh()
	events, err := w.fleet.Hub().Since(mark, lab.ByUser(hubUser))
	if err != nil {
		t.Fatal(err)
	}
	writes, kinds := 0, map[string]int{}
	for _, e := range events {
		kinds[e.Verb+" "+e.Resource()]++
		if e.Write() && e.Resource() != "leases" {
			writes++
			t.Errorf("an idle hub wrote: %s %s %s", e.Verb, e.Resource(), e.ObjectRef.Name)
		}
	}
	t.Logf("figures for %d dead of %d members:", count, count+2)
	w.perMember(before, to, count)
	dials := (to.dials - from.dials) / minutes / float64(count)
	t.Logf("  connections tried to the dead: %.2f per member and minute", dials)
	t.Logf("  CPU: %.1f %% of one processor", (to.cpu-from.cpu)/(minutes*60)*100)
	t.Logf("  requests to the hub's API server: %.1f per minute, %v in %d minutes; writes but Leases: %d", float64(len(events))/minutes, kinds, minutes, writes)
	if per := (to.goroutines - before.goroutines) / float64(count); per > 6 {
		t.Errorf("%.1f goroutines per dead member, the limit is 6", per)
	}
	if dials > 1.5 {
		t.Errorf("%.2f tries per dead member and minute, the limit is 1.5: they do not back off", dials)
	}
}

// TestTwentyMembers: one template change reaches twenty real control planes by one write each; then the first of them takes
// five seconds for each call, and the next change reaches the other nineteen as before, and the slow one once it is well.
// MEMBERS=n for fewer. The figures are printed.
func TestTwentyMembers(t *testing.T) {
	onlyWhenAsked(t)
	count := 20
	if text := os.Getenv("MEMBERS"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("m-%02d", i)
	}
	w := beginHub(t, 1, names...)
	w.start()
	w.join(names[0])
	w.quiet(15 * time.Second)
	one := w.weigh()
	w.join(names[1:]...)
	w.quiet(30 * time.Second)
	t.Logf("figures for %d idle members, beyond those for one:", count)
	w.perMember(one, w.weigh(), count-1)

	ud := w.deploy(2, names...)
	t.Logf("%d members have their first pods after %s", count, w.updated(ud, 2, names...).Round(time.Second))
	w.quiet(15 * time.Second)
	before := w.change(ud, "app:v2", names, names)
	t.Logf("figures for %d members with a workload of two pods each:", count)
	w.perMember(one, w.weigh(), count-1)
	w.stored(ud)

	others := names[1:]
	w.way.Disturb(lab.SlowCalls(5 * time.Second))
	beside := w.change(ud, "app:v3", others, names)
	t.Logf("beside a member that takes 5 s for each call: %.2f times the requests per member, %.2f times the time to the last of %d",
		beside.requests/before.requests, beside.took.Seconds()/before.took.Seconds(), count-1)
	w.way.Disturb(nil)
	well := w.updated(ud, 2, names...)
	t.Logf("the slow one had it %s after it was well again", well.Round(100*time.Millisecond))
	// The hub sent to the slow one and did not wait for it: its API server got the write when all others had theirs.
	first := w.writes(beside.marks, names[0])
	if len(first) == 0 {
		t.Fatalf("no write to %s is seen", names[0])
	}
	ahead := 0
	for _, m := range others {
		if list := w.writes(beside.marks, m); len(list) == 1 && list[0].Received.Before(first[0].Received) {
			ahead++
		}
	}
	if t.Logf("%d of %d members had the change before the slow one", ahead, len(others)); ahead != len(others) {
		t.Errorf("%d of %d members had to wait for the slow one", len(others)-ahead, len(others))
	}
}
