package order_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/order"
)

func names(pods []inplace.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func pod(name string, phase inplace.Phase, ready bool) inplace.Pod {
	return inplace.Pod{Ref: inplace.Ref{Name: name}, Phase: phase, Ready: ready, Available: ready, Node: "n"}
}

func TestDefaultMovesFirstWhoIsMissedLeast(t *testing.T) {
	t.Parallel()
	pending, running := inplace.PhasePending, inplace.PhaseRunning
	cases := map[string]struct {
		pods []inplace.Pod
		want []string
	}{
		"O135: pending before running, not ready before ready": {
			// Pods 0, 1, 3 and 4 of upstream's table; the wanted order is 1, 0, 4, 3.
			pods: []inplace.Pod{pod("0", pending, true), pod("1", pending, false), pod("3", running, true), pod("4", running, false)},
			want: []string{"1", "0", "4", "3"},
		},
		"a pod without a node first": {
			pods: []inplace.Pod{pod("a", pending, false), {Ref: inplace.Ref{Name: "b"}, Phase: pending}},
			want: []string{"b", "a"},
		},
		"the younger before the older, then the name": {
			pods: []inplace.Pod{
				{Ref: inplace.Ref{Name: "c"}, Created: time.Unix(5, 0)},
				{Ref: inplace.Ref{Name: "b"}, Created: time.Unix(5, 0)},
				{Ref: inplace.Ref{Name: "a"}, Created: time.Unix(1, 0)},
				{Ref: inplace.Ref{Name: "d"}, Created: time.Unix(9, 0)},
			},
			want: []string{"d", "b", "c", "a"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slices.SortFunc(tc.pods, order.Default)
			if diff := cmp.Diff(tc.want, names(tc.pods)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOrdinalAndNode(t *testing.T) {
	t.Parallel()
	pods := []inplace.Pod{
		{Ref: inplace.Ref{Name: "web-2"}, Node: "b"}, {Ref: inplace.Ref{Name: "web-10"}, Node: "c"}, {Ref: inplace.Ref{Name: "web-x"}, Node: "a"},
	}
	slices.SortFunc(pods, order.OrdinalDescending)
	if diff := cmp.Diff([]string{"web-10", "web-2", "web-x"}, names(pods)); diff != "" {
		t.Error(diff)
	}
	slices.SortFunc(pods, order.ByNode)
	if diff := cmp.Diff([]string{"web-x", "web-2", "web-10"}, names(pods)); diff != "" {
		t.Error(diff)
	}
}
