//go:build lab

package kit

import (
	"fmt"
	"time"

	"github.com/underway-dev/underway/test/lab"
)

// still is how long the agent has to write nothing before its writes are counted.
const still = 2 * time.Second

// Here picks what is in the namespace.
func (p Place) Here(e lab.AuditEvent) bool { return e.ObjectRef.Namespace == p.NS }

// Quiet waits until the agent has written nothing that the filters pick for so long; without filters it is anything in the
// namespace.
func (p Place) Quiet(still time.Duration, picks ...lab.AuditFilter) {
	p.Helper()
	if len(picks) == 0 {
		picks = []lab.AuditFilter{p.Here}
	}
	mark, since := p.end(), time.Now()
	p.Eventually(0, func() string {
		events, err := p.Since(mark, append(picks, lab.ByUser(User), lab.Writes)...)
		if err != nil {
			p.Fatal(err)
		}
		if len(events) > 0 {
			mark, since = p.end(), time.Now()
			return fmt.Sprintf("still at work: %s %s %s", events[0].Verb, events[0].Resource(), events[0].ObjectRef.Name)
		}
		if time.Since(since) < still {
			return "quiet, but not for long"
		}
		return ""
	})
}

// Marked is the end of the audit log once the agent has come to an end of writing in the namespace: what is counted from here
// is what the test does next, and nothing of what it did before.
func (p Place) Marked() lab.Mark {
	p.Helper()
	p.Quiet(still)
	return p.end()
}

func (p Place) end() lab.Mark {
	p.Helper()
	mark, err := p.Mark()
	if err != nil {
		p.Fatal(err)
	}
	return mark
}

// Requests are what the agent asked of these resources of the namespace since a mark, once it has come to an end of writing
// there: writes that were accepted, by verb and resource, and how many met a conflict (a kubelet writes the same pods) and were
// decided anew, and how many were reads.
func (p Place) Requests(since lab.Mark, resources ...string) (writes map[string]int, conflicts, reads int) {
	p.Helper()
	p.Quiet(still)
	events, err := p.Since(since, lab.ByUser(User), p.Here, lab.On(resources...))
	if err != nil {
		p.Fatal(err)
	}
	return Tally(events)
}

// Tally counts requests: accepted writes by verb and resource, writes that met a conflict, and reads.
func Tally(events []lab.AuditEvent) (writes map[string]int, conflicts, reads int) {
	writes = map[string]int{}
	for _, e := range events {
		switch {
		case !e.Write():
			reads++
		case e.ResponseStatus.Code == 409:
			conflicts++
		default:
			writes[e.Verb+" "+e.Resource()]++
		}
	}
	return writes, conflicts, reads
}

// Known waits until the agent has heard of all that happened to pods so far. Pods come by one watch and in order, so when it
// says that a pod is ready that was made now, in a namespace of its own, it knows of every earlier change.
func (p Place) Known() {
	p.Helper()
	other := In(p.T, p.Cluster)
	other.App("known", "app:v1", "replicas: 1")
	other.Ready("known", 1, 0)
}
