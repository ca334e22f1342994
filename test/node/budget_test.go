//go:build lab

package node

import (
	"testing"
	"time"

	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// requests are the agent's requests on pods of this namespace since a mark: writes that were accepted, by verb and
// resource, the conflicts and the reads.
func (p place) requests(since lab.Mark) (writes map[string]int, conflicts, reads int) {
	p.Helper()
	here := func(e lab.AuditEvent) bool { return e.ObjectRef.Namespace == p.NS }
	events, err := p.Since(since, lab.ByUser(kit.User), here, lab.On("pods", "pods/status", "pods/resize"))
	if err != nil {
		p.Fatal(err)
	}
	return kit.Tally(events)
}

// auditMark is the present end of the audit log.
func (p place) auditMark() lab.Mark {
	p.Helper()
	mark, err := p.Mark()
	if err != nil {
		p.Fatal(err)
	}
	return mark
}

// TestThreeWrites counts the agent's requests: three for a pod, none of them a read; one more with resources, and one more
// for each further batch of launch priorities. Real kubelets write the same pods all the time, so a write may meet a
// conflict and be decided anew; those are counted apart.
func TestThreeWrites(t *testing.T) {
	const pods = 4
	parallel(t)
	for _, tc := range []struct {
		name   string
		app    app
		change func(p place)
		want   map[string]int
	}{
		{
			name: "an image", app: app{},
			change: func(p place) { p.tag("v2") },
			want:   map[string]int{"patch pods": pods, "patch pods/status": 2 * pods},
		},
		{
			name: "an image and cpu", app: app{main: `resources: {requests: {cpu: 10m}}`},
			change: func(p place) {
				p.set(mainImage, lab.Image(lab.AppImage, "v2"), mainResources, cpu("20m"))
			},
			want: map[string]int{"patch pods": pods, "patch pods/status": 2 * pods, "patch pods/resize": pods},
		},
		{
			name: "labels", app: app{},
			change: func(p place) { p.set("/spec/template/metadata/labels/tier", "front") },
			want:   map[string]int{"patch pods": pods},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := onSteady(t)
			tc.app.replicas, tc.app.rollout = pods, "maxUnavailable: 2"
			p.create(tc.app)
			mark := p.auditMark()
			tc.change(p)
			p.Ready("web", pods, patience)
			time.Sleep(2 * time.Second)
			writes, conflicts, reads := p.requests(mark)
			t.Logf("%d pods: %v, %d conflicts, %d reads", pods, writes, conflicts, reads)
			for what, want := range tc.want {
				if writes[what] != want {
					t.Errorf("%s: %d, want %d", what, writes[what], want)
				}
			}
			if len(writes) != len(tc.want) || reads != 0 {
				t.Errorf("%v and %d reads, want %v and no read", writes, reads, tc.want)
			}
			if conflicts > pods {
				t.Errorf("%d conflicts", conflicts)
			}
		})
	}
}

// cpu are resources that ask for cpu only.
func cpu(amount string) map[string]any {
	return map[string]any{"requests": map[string]any{"cpu": amount}}
}
