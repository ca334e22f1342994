package main

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// before is a fleet of two members with three pods each, all on the old image.
func before() sight {
	s := sight{}
	for _, m := range []string{"eu-1", "us-1"} {
		for i := range 3 {
			uid := fmt.Sprintf("%s-uid-%d", m, i)
			s[m+"/"+uid] = pod{
				member: m, name: fmt.Sprintf("web-%d", i), uid: types.UID(uid), ip: "10.0.0." + uid, node: m + "-node-0", ready: true,
				containers: map[string]container{
					changed:  {wanted: oldImage, image: oldImage, id: "old-" + uid, running: true},
					"helper": {wanted: "helper:v1", image: "helper:v1", id: "helper-" + uid, running: true},
				},
			}
		}
	}
	return s
}

// moved is before with the given pods updated in place.
func moved(keys ...string) sight {
	s := before()
	for _, key := range keys {
		p := s[key]
		p.containers = maps.Clone(p.containers)
		c := p.containers[changed]
		p.containers[changed] = container{wanted: newImage, image: newImage, id: "new-" + c.id, restarts: c.restarts + 1, running: true}
		s[key] = p
	}
	return s
}

func all() sight {
	var keys []string
	for key := range before() {
		keys = append(keys, key)
	}
	return moved(keys...)
}

// edit changes one pod, its map of containers being a copy.
func edit(s sight, key string, change func(*pod)) sight {
	p := s[key]
	p.containers = maps.Clone(p.containers)
	change(&p)
	s[key] = p
	return s
}

func (p *pod) set(name string, change func(*container)) {
	c := p.containers[name]
	change(&c)
	p.containers[name] = c
}

const first = "eu-1/eu-1-uid-0"

func TestCompareProvesARelease(t *testing.T) {
	got, err := compare(before(), all(), newImage)
	if err != nil {
		t.Fatal(err)
	}
	if got != proven(6) {
		t.Errorf("got %+v, want %+v", got, proven(6))
	}
}

func TestCompareNamesWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		after sight
		says  string
		count func(proof) int
		want  int
	}{
		"a pod that was replaced": {
			after: func() sight {
				s := all()
				p := s[first]
				delete(s, first)
				p.uid = "another"
				s["eu-1/another"] = p
				return s
			}(),
			says: "is gone: it was replaced", count: func(p proof) int { return p.Recreated }, want: 1,
		},
		"another IP": {
			after: edit(all(), first, func(p *pod) { p.ip = "10.9.9.9" }),
			says:  "its IP was", count: func(p proof) int { return p.PodsWithSameIP }, want: 5,
		},
		"two restarts": {
			after: edit(all(), first, func(p *pod) { p.set(changed, func(c *container) { c.restarts = 2 }) }),
			says:  "restarted 2 times", count: func(p proof) int { return p.ContainersRestartedOnce }, want: 5,
		},
		"the wrong container restarted": {
			after: edit(all(), first, func(p *pod) { p.set("helper", func(c *container) { c.restarts, c.id = 1, "new" }) }),
			says:  "container helper restarted", count: func(p proof) int { return p.OtherContainersRestarted }, want: 1,
		},
		"the spec says so and the old container still runs": {
			after: edit(all(), first, func(p *pod) {
				p.set(changed, func(c *container) { c.id, c.image, c.restarts = "old-eu-1-uid-0", oldImage, 0 })
			}),
			says: "want app:v2, new and ready", count: func(p proof) int { return p.UpdatedInPlace }, want: 5,
		},
		"a pod that is not ready": {
			after: edit(all(), first, func(p *pod) { p.ready = false }),
			says:  "ready false", count: func(p proof) int { return p.UpdatedInPlace }, want: 5,
		},
		"a pod that moved to another node": {
			after: edit(all(), first, func(p *pod) { p.node = "elsewhere" }),
			says:  "its node was", count: func(p proof) int { return p.PodsOnSameNode }, want: 5,
		},
		"nothing moved": {after: before(), says: "restarted 0 times", count: func(p proof) int { return p.UpdatedInPlace }, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := compare(before(), tc.after, newImage)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("it should say %q: %v", tc.says, err)
			}
			if n := tc.count(got); n != tc.want {
				t.Errorf("counted %d, want %d: %+v", n, tc.want, got)
			}
		})
	}
}

func TestExactly(t *testing.T) {
	granted := map[string]int{"eu-1": 2, "us-1": 0}
	two := []string{first, "eu-1/eu-1-uid-1"}
	for name, tc := range map[string]struct {
		now  sight
		says string
	}{
		"the granted ones moved": {now: moved(two...)},
		"one too few":            {now: moved(first), says: "in eu-1 1 pods changed, and 2 were granted"},
		"one too many":           {now: moved(append(two, "eu-1/eu-1-uid-2")...), says: "in eu-1 3 pods changed"},
		"one elsewhere":          {now: moved(append(two, "us-1/us-1-uid-0")...), says: "in us-1 1 pods changed, and 0 were granted"},
		"one that stayed restarted": {
			now:  edit(moved(two...), "us-1/us-1-uid-0", func(p *pod) { p.set(changed, func(c *container) { c.restarts, c.id = 1, "x" }) }),
			says: "pod us-1/web-0 changed, and was not granted",
		},
		"a pod is missing": {now: func() sight { s := moved(two...); delete(s, "us-1/us-1-uid-0"); return s }(), says: "there are 5 pods"},
	} {
		t.Run(name, func(t *testing.T) {
			err := exactly(before(), tc.now, newImage, granted)
			switch {
			case tc.says == "" && err != nil:
				t.Error(err)
			case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("it should say %q: %v", tc.says, err)
			}
		})
	}
}

func TestWithinCountsPodsThatWereOnlyAsked(t *testing.T) {
	asked := edit(before(), first, func(p *pod) { p.set(changed, func(c *container) { c.wanted = newImage }); p.ready = false })
	if err := within(asked, nothing([]string{"eu-1", "us-1"})); err == nil {
		t.Error("a pod was asked to move that was not granted")
	}
	if err := within(asked, map[string]int{"eu-1": 1, "us-1": 0}); err != nil {
		t.Error(err)
	}
}

func TestSteps(t *testing.T) {
	names, counts := memberNames(4), share(26, 4)
	if diff := cmp.Diff([]int{7, 7, 6, 6}, counts); diff != "" {
		t.Error(diff)
	}
	all := steps(names, counts)
	var totals []int
	for _, s := range all {
		totals = append(totals, sum(s.granted))
	}
	if diff := cmp.Diff([]int{2, 7, 26}, totals); diff != "" {
		t.Error(diff)
	}
	want := map[string]any{"eu-1": 5, "us-1": "100%", "ap-1": "100%", "eu-2": "100%"}
	if diff := cmp.Diff(want, partitions(names, counts, all[0].granted)); diff != "" {
		t.Error(diff)
	}
}

// TestTheFileIsWhatIsApplied: with 24 pods and 3 members a reader of app.yaml sees exactly what the demo applies.
func TestTheFileIsWhatIsApplied(t *testing.T) {
	d := newDemo(options{pods: 24, members: 3}, &bytes.Buffer{})
	got, err := d.app(oldImage)
	if err != nil {
		t.Fatal(err)
	}
	file := map[string]any{}
	if err := yaml.Unmarshal(appYAML, &file); err != nil {
		t.Fatal(err)
	}
	text := func(content map[string]any) string {
		raw, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if diff := cmp.Diff(text(file), text(got.Object)); diff != "" {
		t.Error(diff)
	}
	changedApp, err := d.app(newImage)
	if err != nil {
		t.Fatal(err)
	}
	containers, _, err := unstructured.NestedSlice(changedApp.Object, "spec", "template", "cloneSetTemplate", "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 2 {
		t.Fatalf("containers %v, %v", containers, err)
	}
	if image := containers[0].(map[string]any)["image"]; image != newImage {
		t.Errorf("image %v, want %s", image, newImage)
	}
	if image := containers[1].(map[string]any)["image"]; image != "helper:v1" {
		t.Errorf("the helper's image is %v", image)
	}
}

func TestOptions(t *testing.T) {
	t.Setenv("PODS", "600")
	t.Setenv("KEEP", "1")
	t.Setenv("REQUESTS", "false")
	o, err := readOptions(nil)
	if err != nil || o.pods != 600 || o.members != 3 || !o.keep || o.requests || o.patience != 10*time.Minute {
		t.Errorf("got %+v, %v", o, err)
	}
	if o, err = readOptions([]string{"-members", "20", "-pods", "2000", "-requests"}); err != nil || !o.requests || o.patience < 25*time.Minute {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-pods", "8"}, {"-pods", "4000"}, {"-members", "0"}} {
		if _, err := readOptions(bad); err == nil {
			t.Errorf("%v should be refused", bad)
		}
	}
	t.Setenv("PODS", "many")
	if _, err := readOptions(nil); err == nil {
		t.Error("PODS=many should be refused")
	}
}

func TestRequestsAreSaidMostFirst(t *testing.T) {
	t.Parallel()
	r := &requestReport{Agents: map[string]int{"get pods": 1, "patch pods": 30, "create events": 9}, PerPod: 1.6, StatusBytes: 480, HubToHub: map[string]int{"watch namespaces": 2}}
	want := []string{
		"agents to their members: 40, 1.60 per pod: 30 patch pods, 9 create events, 1 get pods",
		"hub to members: 0: ",
		"hub to its own API server: 2: 2 watch namespaces",
		"status of the workload: 480 bytes per member",
	}
	if diff := cmp.Diff(want, r.lines()); diff != "" {
		t.Error(diff)
	}
}
