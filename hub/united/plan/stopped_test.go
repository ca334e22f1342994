package plan

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/underway-dev/underway/propagation/render"
)

// TestAStoppedDeploymentStaysStopped whatever the template becomes below its hold.
func TestAStoppedDeploymentStaysStopped(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"deployment", "cloneSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, "deployment", map[string]string{"a": "0", "b": "0"})
			template(w.ud, "deployment", "web:2")
			for range 4 {
				for _, p := range w.pass() {
					w.deliver(p)
				}
			}
			w.child("a").agent()
			partitions(w.ud, map[string]string{"a": "3", "b": "3"})
			w.run()
			before := w.child("a").count(w.child("a").label)
			template(w.ud, kind, "web:3")
			w.run()
			c := w.childAt("a", "Deployment.apps")
			if n := c.count(c.label); !c.paused || n != before || n == 3 {
				t.Errorf("paused %v, %d pods on the template that was stopped at %d", c.paused, n, before)
			}
		})
	}
}

// TestAChangeOfKindWhereNothingIs needs no child of the old kind, which the member may not even know.
func TestAChangeOfKindWhereNothingIs(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, "cloneSet", map[string]string{"a": "0", "b": "0"})
	delete(w.members["b"].children, w.child("b").key())
	template(w.ud, "deployment", "web:2")
	for range 40 {
		o := w.observe()
		m := o.Members["b"]
		m.NotServed = []string{"CloneSet.apps.kruise.io", "StatefulSet.apps.kruise.io"}
		o.Members["b"] = m
		for _, p := range w.passOn(o) {
			w.deliver(p)
		}
		for _, m := range w.members {
			for _, c := range m.children {
				c.agent()
			}
		}
		w.now = w.now.Add(5 * time.Second)
	}
	if s := &w.ud.Status; s.CurrentRevision != s.UpdatedRevision {
		t.Errorf("not finished: %+v", w.entry("b"))
	}
}

// TestClaimsAreVolumesOfWhatIsAsked: the controller adds them, and a mount without its volume is refused.
func TestClaimsAreVolumesOfWhatIsAsked(t *testing.T) {
	t.Parallel()
	r := rendered{
		workload: render.Workload{Spec: []byte(`{"volumeClaimTemplates":[{"metadata":{"name":"data"}}]}`)},
		pod:      []byte(`{"spec":{"volumes":[{"name":"tmp","emptyDir":{}},{"name":"data","emptyDir":{}}]}}`),
	}
	var got, want any
	if err := json.Unmarshal(r.podWithClaims(), &got); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal([]byte(`{"spec":{"volumes":[{"name":"tmp","emptyDir":{}},{"name":"data","persistentVolumeClaim":{"claimName":"data"}}]}}`), &want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.workload.Spec = []byte(`{}`)
	if !bytes.Equal(r.podWithClaims(), r.pod) {
		t.Error("changed without claims")
	}
}
