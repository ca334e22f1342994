package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

// Whom the audit logs name when requests are counted.
const (
	agentUser = "underway-demo-agent"
	hubUser   = "underway-demo-hub"
	// hubAbroad is the hub in a member, by the account that the join made for it.
	hubAbroad = "system:serviceaccount:" + appsv1alpha1.SystemNamespace + ":underway-hub"
)

// requestReport is what hub and agents asked of API servers from the change of the image to its proof, by verb and resource.
// Renewals of Leases are not in it: they go by time and not by pods.
type requestReport struct {
	// Agents are the requests to the members by their agents, HubToMembers those of the hub, HubToHub those to its own API server.
	Agents       map[string]int `json:"agents"`
	HubToMembers map[string]int `json:"hubToMembers"`
	HubToHub     map[string]int `json:"hubToHub"`
	// PerPod are all requests of the agents, divided by the pods.
	PerPod float64 `json:"agentsPerPod"`
	// StatusBytes are what etcd of the hub keeps of the workload for each member, as JSON.
	StatusBytes int `json:"statusBytesPerMember"`
}

// kubeconfigOf is the one of a process of ours: with a name of its own when its requests are to be counted.
func (d *demo) kubeconfigOf(c *lab.Cluster, user string) (string, error) {
	if !d.opts.requests {
		return c.Kubeconfig(), nil
	}
	return c.KubeconfigFor(user, []string{"system:masters"}, 24*time.Hour)
}

// mark notes where the audit logs end before the release.
func (d *demo) mark() error {
	if !d.opts.requests {
		return nil
	}
	d.marks = map[string]lab.Mark{}
	for _, c := range append(d.fleet.Members(), d.fleet.Hub()) {
		var err error
		if d.marks[c.Name()], err = c.Mark(); err != nil {
			return err
		}
	}
	return nil
}

// count reads the requests since the mark.
func (d *demo) count(ctx context.Context) error {
	if !d.opts.requests {
		return nil
	}
	out := &requestReport{Agents: map[string]int{}, HubToMembers: map[string]int{}, HubToHub: map[string]int{}}
	add := func(c *lab.Cluster, user string, to map[string]int) error {
		events, err := c.Since(d.marks[c.Name()], lab.ByUser(user))
		for _, e := range events {
			if e.ObjectRef.Resource != "leases" {
				to[strings.TrimSpace(e.Verb+" "+e.Resource())]++
			}
		}
		return err
	}
	for _, c := range d.fleet.Members() {
		if err := cmp.Or(add(c, agentUser, out.Agents), add(c, hubAbroad, out.HubToMembers)); err != nil {
			return err
		}
	}
	if err := add(d.fleet.Hub(), hubUser, out.HubToHub); err != nil {
		return err
	}
	out.PerPod = float64(sum(out.Agents)) / float64(d.opts.pods)
	ud := &appsv1alpha1.UnitedDeployment{}
	if err := d.hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: workload}, ud); err != nil {
		return err
	}
	raw, err := json.Marshal(ud.Status.SubsetStatuses)
	out.StatusBytes = len(raw) / len(d.members)
	d.report.Requests = out
	return err
}

// lines are the report for people, the most frequent requests first.
func (r *requestReport) lines() []string {
	list := func(counts map[string]int) string {
		keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
			return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
		})
		words := make([]string, len(keys))
		for i, k := range keys {
			words[i] = fmt.Sprintf("%d %s", counts[k], k)
		}
		return strings.Join(words, ", ")
	}
	return []string{
		fmt.Sprintf("agents to their members: %d, %.2f per pod: %s", sum(r.Agents), r.PerPod, list(r.Agents)),
		fmt.Sprintf("hub to members: %d: %s", sum(r.HubToMembers), list(r.HubToMembers)),
		fmt.Sprintf("hub to its own API server: %d: %s", sum(r.HubToHub), list(r.HubToHub)),
		fmt.Sprintf("status of the workload: %d bytes per member", r.StatusBytes),
	}
}
