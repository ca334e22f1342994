package root_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace/revision"
)

func raw(image string) runtime.RawExtension {
	return runtime.RawExtension{Raw: []byte(`{"template":{"spec":{"initContainers":[{"name":"setup","image":"init:v1"}],"containers":[{"name":"web","image":"` + image + `"}]}}}`)}
}

// released is an object in the middle of its second release, with both revisions.
func released(t *testing.T) []client.Object {
	t.Helper()
	ud := &appsv1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "ud-uid", Generation: 2}}
	ud.Spec.Template.CloneSetTemplate = &appsv1alpha1.WorkloadTemplate{Spec: raw("app:v2")}
	ud.Spec.Topology.Subsets = []appsv1alpha1.Subset{{Name: "eu"}, {Name: "us"}}
	ud.Status = appsv1alpha1.UnitedDeploymentStatus{
		ObservedGeneration: 2, CurrentRevision: "web-aaaaaaaaaa", UpdatedRevision: "web-bbbbbbbbbb",
		SubsetStatuses: []appsv1alpha1.SubsetStatus{{Name: "eu", Revision: subsetRevision(t, "app:v2")}, {Name: "us", Revision: subsetRevision(t, "app:v1")}},
	}
	objects := []client.Object{ud}
	for i, image := range []string{"app:v1", "app:v2"} {
		content, err := json.Marshal(map[string]any{"template": appsv1alpha1.SubsetTemplate{CloneSetTemplate: &appsv1alpha1.WorkloadTemplate{Spec: raw(image)}}})
		if err != nil {
			t.Fatal(err)
		}
		data, err := revision.Encode(content)
		if err != nil {
			t.Fatal(err)
		}
		c := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: []string{"web-aaaaaaaaaa", "web-bbbbbbbbbb"}[i], Labels: map[string]string{appsv1alpha1.LabelOwnerUID: "ud-uid"},
				CreationTimestamp: metav1.Date(2026, 11, 29, 14, 3*i, 0, 0, time.UTC),
				Annotations:       map[string]string{appsv1alpha1.AnnotationSubsets: "eu,us", appsv1alpha1.AnnotationChangeCause: "ticket " + image},
			},
			Revision: int64(i + 1), Data: runtime.RawExtension{Raw: data},
		}
		objects = append(objects, c)
	}
	return objects
}

// subsetRevision is the hash of a subset without overrides.
func subsetRevision(t *testing.T, image string) string {
	t.Helper()
	hash, err := revision.Hash([]byte(`{"spec":` + string(raw(image).Raw) + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func TestHistoryListsWhoRunsWhat(t *testing.T) {
	w := newWorld(t, "", released(t)...)
	if code := w.run(t, "history", "ud", "web", "-n", "shop"); code != 0 {
		t.Fatal(w.errOut)
	}
	want := "" +
		"NUMBER   REVISION   MARK        AGE   SUBSETS   IMAGES                          CAUSE\n" +
		"2        bbbbbbbb   spec        7m    eu        setup=init:v1, web=app:v2       ticket app:v2\n" +
		"1        aaaaaaaa   completed   10m   us        setup=init:v1, web=app:v1       ticket app:v1\n"
	if got := squeeze(w.out.String()); got != squeeze(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	w.out.Reset()
	if code := w.run(t, "history", "ud", "web", "-n", "shop", "--revision", "1"); code != 0 || !strings.Contains(w.out.String(), "image: app:v1") {
		t.Errorf("exit %d: %s%s", code, w.out, w.errOut)
	}
	w.out.Reset()
	if code := w.run(t, "history", "ud", "web", "-n", "shop", "--revision", "2", "-o", "json"); code != 0 || !strings.Contains(w.out.String(), `"kind": "ControllerRevision"`) {
		t.Errorf("exit %d: %s%s", code, w.out, w.errOut)
	}
	if code := w.run(t, "history", "ud", "web", "-n", "shop", "--revision", "7"); code != 1 || !strings.Contains(w.errOut.String(), "no such revision") {
		t.Errorf("exit %d: %s", code, w.errOut)
	}
}

// squeeze makes runs of spaces one.
func squeeze(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func TestUndoWritesTheSpecThatWasRead(t *testing.T) {
	image := func(w *world) string {
		ud := &appsv1alpha1.UnitedDeployment{}
		if err := w.hub.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, ud); err != nil {
			t.Fatal(err)
		}
		return string(ud.Spec.Template.CloneSetTemplate.Spec.Raw)
	}
	w := newWorld(t, "", released(t)...)
	if code := w.run(t, "undo", "ud", "web", "-n", "shop", "--dry-run"); code != 0 || !strings.Contains(w.out.String(), "would go back to revision 1") || !strings.Contains(image(w), "app:v2") {
		t.Errorf("exit %d: %s%s", code, w.out, w.errOut)
	}
	w.out.Reset()
	if code := w.run(t, "undo", "ud", "web", "-n", "shop"); code != 0 || !strings.Contains(image(w), "app:v1") {
		t.Errorf("exit %d: %s%s", code, w.out, w.errOut)
	}
	for _, want := range []string{"went back to revision 1 (aaaaaaaa)", "container web: image app:v2 -> app:v1", "no release: eu go back at once"} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, w.out)
		}
	}
	w.out.Reset()
	if code := w.run(t, "undo", "ud", "web", "-n", "shop", "--to-revision", "1"); code != 0 || !strings.Contains(w.out.String(), "already; nothing was written") {
		t.Errorf("exit %d: %s%s", code, w.out, w.errOut)
	}
	if code := w.run(t, "undo", "ud", "web", "-n", "shop", "--to-revision", "5"); code != 1 || !strings.Contains(w.errOut.String(), "there are 2, 1") {
		t.Errorf("exit %d: %s", code, w.errOut)
	}
}

func TestExplainSaysWhatMovesIt(t *testing.T) {
	ud := held()
	ud.Status.SubsetStatuses = []appsv1alpha1.SubsetStatus{{Name: "eu", Cluster: "eu-1", State: "Held", Message: "0 of 8 updated", DesiredReplicas: 8, Replicas: 8}}
	w := newWorld(t, "", ud)
	if code := w.run(t, "why", "ud", "web", "-n", "default"); code != 0 {
		t.Fatal(w.errOut)
	}
	for _, want := range []string{"eu on eu-1 is Held", "moves with  kubectl -n default patch ud web", "RemovalHeld"} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, w.out)
		}
	}
}
