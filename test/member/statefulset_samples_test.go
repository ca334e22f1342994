//go:build lab

package member

import (
	"slices"
	"testing"
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
)

// TestM007 is parallel, in place, with a reserved ordinal and a partition that is a number of pods.
func TestM007(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.manifest("M007")
	s := p.Set("store")
	p.numbered(time.Minute, 0, 2, 3, 4, 5)
	s.Ready(5, time.Minute)
	before, r := kit.Identities(p.Pods()), p.Record()
	s.Image("store:10")
	s.Ready(3, time.Minute)
	p.During(2*time.Second, func() string { return is(p.On("store:10"), 3) })
	order := func() []string { return r.Seen().Order }
	// Two go at once, so which of the first two is patched first is chance.
	if got := order(); len(got) != 3 || !slices.Contains(got[:2], "store-5") || !slices.Contains(got[:2], "store-4") || got[2] != "store-3" {
		t.Errorf("order %v, want 5 and 4, then 3", got)
	}
	s.Merge(`{spec: {updateStrategy: {rollingUpdate: {partition: 0}}}}`)
	s.Ready(5, time.Minute)
	p.InPlace(before, 1)
	seen := r.Seen()
	if len(seen.Order) != 5 || seen.Unready > 2 || len(seen.Problems) > 0 || seen.Created+seen.Deleted > 0 {
		t.Errorf("seen %+v", seen)
	}
	s.Merge(`{spec: {reserveOrdinals: []}}`)
	p.numbered(time.Minute, 0, 1, 2, 3, 4)
	s.Ready(5, time.Minute)
	if p.image("store-1") != "store:10" {
		t.Errorf("store-1 runs %s", p.image("store-1"))
	}
}

// TestM009 is unordered with priorities, paused at first, without a readiness gate in the template.
func TestM009(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.manifest("M009")
	s := p.Set("replica-db")
	s.Ready(4, time.Minute)
	before, r := kit.Identities(p.Pods()), p.Record()
	s.Image("db:15.2")
	p.Eventually(20*time.Second, func() string {
		if c := s.Condition(appsv1alpha1.ConditionReady); c == nil || c.Reason != "Paused" {
			return "Ready: " + kit.Text(c)
		}
		return ""
	})
	p.During(2*time.Second, func() string { return is(p.On("db:15.1"), 4) })
	p.Edit("replica-db-2", `{metadata: {labels: {role: leader}}}`)
	p.Known()
	s.Merge(`{spec: {updateStrategy: {rollingUpdate: {paused: false}}}}`)
	s.Ready(4, time.Minute)
	p.InPlace(before, 1)
	seen := r.Seen()
	if said := differs(seen.Order, []string{"replica-db-3", "replica-db-1", "replica-db-0", "replica-db-2"}); said != "" || seen.Unready > 1 || len(seen.Problems) > 0 {
		t.Errorf("order: %s; seen %+v", said, seen)
	}
	for name, pod := range p.Pods() {
		want := "follower"
		if name == "replica-db-2" {
			want = "leader"
		}
		if pod.Labels["role"] != want {
			t.Errorf("%s has the role %q, want %s", name, pod.Labels["role"], want)
		}
	}
}

// TestA04 is v1alpha1 with weights, two at a time, as an article shows it.
func TestA04(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.manifest("A04")
	s := p.Set("sample")
	s.Ready(3, time.Minute)
	p.Edit("sample-0", `{metadata: {labels: {test-key: foo}}}`)
	p.Edit("sample-1", `{metadata: {labels: {test-key: bar}}}`)
	p.Known()
	before, r := kit.Identities(p.Pods()), p.Record()
	s.Image("nginx:mainline")
	s.Ready(3, time.Minute)
	p.InPlace(before, 1)
	seen := r.Seen()
	if got := seen.Order; len(got) != 3 || got[2] != "sample-2" || seen.Unready > 2 || len(seen.Problems) > 0 {
		t.Errorf("seen %+v, want sample-0 and sample-1 together, then sample-2", seen)
	}
}
