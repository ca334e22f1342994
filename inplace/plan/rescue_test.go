package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/plan"
)

// TestBrokenPodsComeHome: a pod that is broken on a revision which is neither the current nor the update revision (the template
// went back under a partition, or the next one came) goes to the current one, without a place in the grant and without budget.
// Healthy ones stay as the partition holds them, drained ones come back into service.
func TestBrokenPodsComeHome(t *testing.T) {
	t.Parallel()
	reverted := func(in *inplace.Intent) { in.Update = in.Current }
	next := func(in *inplace.Intent) {
		in.Update, in.Revisions = app(3), append(in.Revisions, app(3))
	}
	only := func(in *inplace.Intent) { in.Policy = inplace.PolicyInPlaceOnly }
	cases := map[string]struct {
		change []func(*inplace.Intent)
		// partition of 5, pods as those of pods; x and u are on the revision in between.
		partition int32
		pods      string
		writes    []string
	}{
		"the template went back, held by the partition": {change: []func(*inplace.Intent){reverted}, partition: 4, pods: "xOOOO", writes: []string{"Drain x0"}},
		"two of them, the budget is one":                {change: []func(*inplace.Intent){reverted}, partition: 4, pods: "xxOOO", writes: []string{"Drain x0", "Drain x1"}},
		"a healthy one stays as the partition says":     {change: []func(*inplace.Intent){reverted}, partition: 4, pods: "NOOOO"},
		"patched a moment ago: it may come up":          {change: []func(*inplace.Intent){reverted}, partition: 4, pods: "uOOOO"},
		"in place only":                                 {change: []func(*inplace.Intent){reverted, only}, partition: 4, pods: "xOOOO", writes: []string{"Drain x0"}},
		"recreated":                                     {change: []func(*inplace.Intent){reverted, func(in *inplace.Intent) { in.Policy = inplace.PolicyReCreate }}, partition: 4, pods: "xOOOO", writes: []string{"Delete x0"}},
		"paused: nothing moves":                         {change: []func(*inplace.Intent){reverted, func(in *inplace.Intent) { in.Paused = true }}, partition: 4, pods: "xOOOO"},
		"the next template holds all":                   {change: []func(*inplace.Intent){next}, partition: 5, pods: "xOOOO", writes: []string{"Drain x0"}},
		"the next template has a place: there it goes":  {change: []func(*inplace.Intent){next}, partition: 4, pods: "xOOOO", writes: []string{"Drain x0"}},
		"the current revision is not kept": {
			change: []func(*inplace.Intent){next, func(in *inplace.Intent) { in.Current.Template = nil }}, partition: 5, pods: "xOOOO",
		},
		"broken on the current one: as the partition says": {change: []func(*inplace.Intent){next}, partition: 5, pods: "nOOOO"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := intent(5, tc.partition, 1)
			for _, change := range tc.change {
				change(&in)
			}
			d := plan.Next(in, unready(pods(tc.pods)), now)
			if diff := cmp.Diff(tc.writes, writes(d)); diff != "" {
				t.Errorf("writes differ (-want +got):\n%s\nholds %v", diff, holds(d))
			}
			for _, p := range d.Patches {
				home := in.Current.Name
				if strings.HasPrefix(name, "the next template has a place") {
					home = in.Update.Name
				}
				if p.Kind == inplace.PatchUpdate && p.To != home {
					t.Errorf("%s goes to %s", p.Name, p.To)
				}
			}
			for _, e := range d.Events {
				if e.Reason == "UpdateStarted" && !strings.HasPrefix(name, "the next template has a place") {
					t.Errorf("a release is said to begin: %s", e.Message)
				}
			}
		})
	}
}

// unready makes those pods that are down have been so for a minute.
func unready(all []inplace.Pod) []inplace.Pod {
	for i := range all {
		if all[i].Down {
			all[i].Seen.UnreadySince = now.Add(-time.Minute)
		}
	}
	return all
}

// TestBrokenPodsComeHomeOnceOnTheirWay: what was begun is seen through: a pod that is out of service by us goes on when its image
// cannot be pulled, or its containers are not ready for long, and comes back when they are.
func TestBrokenPodsComeHomeOnceOnTheirWay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*inplace.Pod)
		write  string
	}{
		"drained, and broken": {func(p *inplace.Pod) { p.Seen.UnreadySince = now.Add(-time.Minute) }, "Update x0"},
		"cannot be pulled":    {func(p *inplace.Pod) { p.Containers[0].Waiting = "ImagePullBackOff" }, "Update x0"},
		"drained, and well":   {func(*inplace.Pod) {}, "Return x0"},
		"not ready just now":  {func(p *inplace.Pod) { p.Seen.UnreadySince = now.Add(-time.Second) }, "Return x0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := intent(3, 3, 1)
			in.Update = in.Current
			all := pods("xOO")
			all[0].Gate = inplace.GateFalse
			tc.change(&all[0])
			if got := writes(plan.Next(in, all, now)); !slices.Equal(got, []string{tc.write}) {
				t.Errorf("%v, want %s", got, tc.write)
			}
		})
	}
}

// TestBrokenPodsComeHomeByPosition: in order as well, also one that is below the partition.
func TestBrokenPodsComeHomeByPosition(t *testing.T) {
	t.Parallel()
	in := intent(3, 2, 1)
	in.Update = in.Current
	all := unready(pods("Oxx"))
	in.Outside = []string{all[0].Name, all[1].Name}
	got := writes(plan.Next(in, all, now))
	if !slices.Equal(got, []string{"Drain x1", "Drain x2"}) {
		t.Errorf("%v", got)
	}
}
