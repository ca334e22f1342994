//go:build lab

package member

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
)

// kruiseState is what OpenKruise reads of the state annotation: its own fields.
type kruiseState struct {
	LastContainerStatuses map[string]struct {
		ImageID string `json:"imageID"`
	} `json:"lastContainerStatuses"`
	UpdateEnvFromMetadata    bool                       `json:"updateEnvFromMetadata"`
	UpdateResources          bool                       `json:"updateResources"`
	NextContainerImages      map[string]string          `json:"nextContainerImages"`
	NextContainerRefMetadata map[string]json.RawMessage `json:"nextContainerRefMetadata"`
	NextContainerResources   map[string]json.RawMessage `json:"nextContainerResources"`
}

// kruiseMisses is OpenKruise's check of a pod's update, without its node agent and with resources switched on: what it
// lacks to be complete, empty when it is. Written from the description of its rules; nothing of ours is used.
func kruiseMisses(pod *corev1.Pod) string {
	if _, parked := pod.Annotations["apps.kruise.io/inplace-update-grace"]; parked {
		return "it is parked"
	}
	text, has := pod.Annotations["apps.kruise.io/inplace-update-state"]
	if !has {
		return ""
	}
	var state kruiseState
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		return err.Error()
	}
	if len(state.NextContainerImages)+len(state.NextContainerRefMetadata)+len(state.NextContainerResources) > 0 {
		return "further containers are to be patched"
	}
	if state.UpdateEnvFromMetadata {
		return "environment from metadata, which its node agent would have to prove"
	}
	statuses := map[string]corev1.ContainerStatus{}
	for _, s := range pod.Status.ContainerStatuses {
		statuses[s.Name] = s
	}
	for _, c := range pod.Spec.Containers {
		s, known := statuses[c.Name]
		if !state.UpdateResources {
			break
		}
		if !known || s.Resources == nil || !equality.Semantic.DeepEqual(*s.Resources, c.Resources) {
			return "the resources of " + c.Name
		}
	}
	images := map[string]string{}
	for _, c := range pod.Spec.Containers {
		images[c.Name] = c.Image
		if !strings.Contains(c.Image, ":") {
			images[c.Name] += ":latest"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(state.LastContainerStatuses)) {
		s, known := statuses[name]
		if !known {
			return name + " is not in status.containerStatuses"
		}
		if s.ImageID == state.LastContainerStatuses[name].ImageID && s.Image != images[name] {
			return fmt.Sprintf("%s still has the imageID that was recorded, and %s for %s", name, s.Image, images[name])
		}
	}
	return ""
}

// TestKruiseMisses: the check can fail.
func TestKruiseMisses(t *testing.T) {
	t.Parallel()
	pod := func(state string) *corev1.Pod {
		p := single("a")
		p.Annotations = map[string]string{"apps.kruise.io/inplace-update-state": state}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "app:v0", ImageID: "one"}}
		return p
	}
	for state, want := range map[string]string{
		`{"revision":"r","lastContainerStatuses":{"main":{"imageID":"zero"}}}`:                              "",
		`{"revision":"r","lastContainerStatuses":{"main":{"imageID":"one"}}}`:                               "main still",
		`{"revision":"r","lastContainerStatuses":{"log":{"imageID":"zero"}}}`:                               "log is not",
		`{"revision":"r","lastContainerStatuses":{},"updateResources":true}`:                                "the resources of main",
		`{"revision":"r","lastContainerStatuses":{},"nextContainerImages":{"main":"app:v2"}}`:               "further",
		`{"revision":"r","lastContainerStatuses":{},"nextContainerResources":{"main":{"requests":{}}}}`:     "further",
		`{"revision":"r","lastContainerStatuses":{"main":{"imageID":"zero"}},"updateEnvFromMetadata":true}`: "environment",
	} {
		if got := kruiseMisses(pod(state)); got == "" != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
}

// TestOursIsReadableToOpenKruise: when we call an update complete, so does OpenKruise by its own rules, whatever changed.
// With two tags of one digest its rules never do (N4), and there we differ on purpose.
func TestOursIsReadableToOpenKruise(t *testing.T) {
	t.Parallel()
	const (
		sidecars  = `{initContainers: [{name: prep, image: "prep:%[1]d"}, {name: log, image: "log:%[1]d", restartPolicy: Always}], containers: [{name: main, image: "app:%[1]d"}]}`
		resources = `{containers: [{name: main, image: "app:v1", resources: {requests: {cpu: %[1]d00m}}}, {name: side, image: "side:v1", resources: {requests: {cpu: 50m}}}]}`
		both      = `{containers: [{name: main, image: "app:%[1]d", resources: {requests: {cpu: %[1]d00m}}}]}`
		env       = `{containers: [{name: main, image: "app:%[1]d", env: [{name: A, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['a']"}}}]}]}`
	)
	for name, tc := range map[string]struct {
		from, to, metadata string
		differs            bool
	}{
		"an image":                 {from: `{containers: [{name: main, image: "app:1"}]}`, to: `{containers: [{name: main, image: "app:2"}]}`},
		"no tag":                   {from: `{containers: [{name: main, image: "app:1"}]}`, to: `{containers: [{name: main, image: "app"}]}`},
		"a sidecar and the app":    {from: fmt.Sprintf(sidecars, 1), to: fmt.Sprintf(sidecars, 2)},
		"a sidecar alone":          {from: `{initContainers: [{name: log, image: "log:1", restartPolicy: Always}], containers: [{name: main, image: "app:1"}]}`, to: `{initContainers: [{name: log, image: "log:2", restartPolicy: Always}], containers: [{name: main, image: "app:1"}]}`},
		"cpu":                      {from: fmt.Sprintf(resources, 1), to: fmt.Sprintf(resources, 2)},
		"cpu and an image":         {from: fmt.Sprintf(both, 1), to: fmt.Sprintf(both, 2)},
		"launch order":             {from: ordered("main:1", "side:1"), to: ordered("main:2", "side:2")},
		"an annotation":            {from: `{containers: [{name: main, image: "app:1"}]}`, to: `{containers: [{name: main, image: "app:1"}]}`, metadata: "{annotations: {a: b}}"},
		"environment and an image": {from: fmt.Sprintf(env, 1), to: fmt.Sprintf(env, 2), metadata: "{annotations: {a: b}}"},
		"two tags of one digest":   {from: `{containers: [{name: main, image: "repo/same-digest:1"}]}`, to: `{containers: [{name: main, image: "repo/same-digest:2"}]}`, differs: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := kit.In(t, steady)
			before := web(p, 2, tc.from, "{type: InPlaceOnly, maxUnavailable: 2}")
			metadata := tc.metadata
			if metadata == "" {
				metadata = "{}"
			}
			p.Merge("web", fmt.Sprintf("{spec: {template: {metadata: %s, spec: %s}}}", metadata, tc.to))
			p.Ready("web", 2, time.Minute)
			if now := kit.Identities(p.Pods()); kit.Text(now) != kit.Text(before) {
				t.Errorf("pods %v, were %v", now, before)
			}
			for name, pod := range p.Pods() {
				misses := kruiseMisses(pod)
				if (misses != "") != tc.differs || pod.Annotations[appsv1alpha1.AnnotationInPlaceState] == "" {
					t.Errorf("%s: OpenKruise says %q of %s", name, misses, pod.Annotations[appsv1alpha1.AnnotationInPlaceState])
				}
			}
		})
	}
}

// TestTakeover: OpenKruise is gone in the middle of a release. What it left on the pods is carried on from where it is:
// parked for a grace period that is over, between two batches, patched and not back in service, untouched.
func TestTakeover(t *testing.T) {
	p := onRough(t)
	p.withCRD(nil)
	before := func() map[string]kit.Identity {
		a := p.Agent("agent-before", "--leader-elect=false")
		ids := web(p.Place, 5, ordered("main:1", "side:1"), "{type: InPlaceIfPossible, maxUnavailable: 3, paused: true}")
		template(p.Place, ordered("main:2", "side:2"))
		p.observed("web")
		if err := a.Stop(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		return ids
	}()
	to := p.CloneSet("web").Status.UpdateRevision
	if to == p.CloneSet("web").Status.CurrentRevision {
		t.Fatal("no release is under way")
	}
	names := slices.Sorted(maps.Keys(before))
	ago := func(seconds int) string {
		return time.Now().Add(-time.Duration(seconds) * time.Second).UTC().Format(time.RFC3339)
	}
	ids := func(name string) (main, side string) {
		pod := p.Pods()[name]
		return status(pod, "main").ImageID, status(pod, "side").ImageID
	}
	parked, between, patched := names[0], names[1], names[2]
	p.leave(parked, to, nil, map[string]string{
		"apps.kruise.io/inplace-update-state": fmt.Sprintf(`{"revision":%q,"updateTimestamp":%q,"lastContainerStatuses":{}}`, to, ago(10)),
		"apps.kruise.io/inplace-update-grace": fmt.Sprintf(`{"revision":%q,"containerImages":{"main":"main:2","side":"side:2"},"metaDataPatch":{"metadata":{"labels":{"tier":"front"}}},"graceSeconds":5}`, to),
	})
	main, _ := ids(between)
	p.leave(between, to, map[string]string{"main": "main:2"}, map[string]string{
		"apps.kruise.io/inplace-update-state": fmt.Sprintf(`{"revision":%q,"updateTimestamp":%q,"lastContainerStatuses":{"main":{"imageID":%q}},"updateImages":true,`+
			`"nextContainerImages":{"side":"side:2"},"preCheckBeforeNext":{"containersRequiredReady":["main"]},"containerBatchesRecord":[{"timestamp":%q,"containers":["main"]}]}`, to, ago(5), main, ago(5)),
	})
	main, side := ids(patched)
	p.leave(patched, to, map[string]string{"main": "main:2", "side": "side:2"}, map[string]string{
		"apps.kruise.io/inplace-update-state": fmt.Sprintf(`{"revision":%q,"updateTimestamp":%q,"lastContainerStatuses":{"main":{"imageID":%q},"side":{"imageID":%q}},"updateImages":true}`, to, ago(5), main, side),
	})
	p.Eventually(20*time.Second, func() string {
		for _, name := range []string{between, patched} {
			if s := status(p.Pods()[name], "main"); s.Image != "main:2" || !s.Ready {
				return name + " is not where OpenKruise would have left it"
			}
		}
		return ""
	})
	r := p.Record()
	p.Merge("web", `{spec: {updateStrategy: {paused: false}}}`)
	p.Agent("agent-after", "--leader-elect=false")
	cs := p.Ready("web", 5, 2*time.Minute)
	p.InPlace(before, 2)
	for name, pod := range p.Pods() {
		for _, c := range []string{"main", "side"} {
			if s := status(pod, c); s.Image != c+":2" || s.RestartCount != 1 {
				t.Errorf("%s: %s", name, kit.Text(s))
			}
		}
		if _, has := pod.Annotations["apps.kruise.io/inplace-update-grace"]; has {
			t.Errorf("%s is still parked", name)
		}
		if misses := kruiseMisses(pod); misses != "" {
			t.Errorf("%s: OpenKruise would miss %s", name, misses)
		}
	}
	if tier := p.Pods()[parked].Labels["tier"]; tier != "front" {
		t.Errorf("the label that was parked is %q", tier)
	}
	if seen := r.Seen(); seen.FewestReady < 2 || len(seen.Problems) > 0 || seen.Created+seen.Deleted > 0 {
		t.Errorf("seen %+v", seen)
	}
	if u := cs.Status.Underway; u.UpdatedInPlace != 5 {
		t.Errorf("underway %s", kit.Text(u))
	}
}

// leave writes on a pod what OpenKruise writes in the course of an update: gate False, then labels, annotations and
// images in one.
func (p place) leave(name, revision string, images, annotations map[string]string) {
	p.Helper()
	pod := p.Pods()[name]
	gate := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"False","reason":"StartInPlaceUpdate","lastTransitionTime":%q}]}}`,
		appsv1alpha1.ConditionInPlaceUpdateReady, time.Now().UTC().Format(time.RFC3339))
	if err := p.Status().Patch(p.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(gate))); err != nil {
		p.Fatal(err)
	}
	p.Eventually(10*time.Second, func() string {
		if pod = p.Pods()[name]; kit.PodReady(pod) {
			return name + " is Ready"
		}
		return ""
	})
	base := pod.DeepCopy()
	pod.Labels[appsv1alpha1.LabelPodRevision] = revision
	for key, value := range annotations {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[key] = value
	}
	for i := range pod.Spec.Containers {
		if image, ok := images[pod.Spec.Containers[i].Name]; ok {
			pod.Spec.Containers[i].Image = image
		}
	}
	if err := p.Patch(p.Context(), pod, client.MergeFrom(base)); err != nil {
		p.Fatal(err)
	}
}
