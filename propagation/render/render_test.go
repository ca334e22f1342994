package render_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

const flatSpec = `{
	"replicas": 99,
	"selector": {"matchLabels": {"app": "ignored"}},
	"updateStrategy": {"type": "InPlaceIfPossible", "partition": 7, "maxUnavailable": 1},
	"template": {
		"metadata": {"labels": {"app": "web"}},
		"spec": {"containers": [{"name": "web", "image": "web:1", "fieldOfTomorrow": {"a": [1, 2]}}], "alsoNew": true}
	}
}`

func input(spec string) render.Input {
	return render.Input{
		Owner:     types.NamespacedName{Namespace: "shop", Name: "web"},
		Subset:    "eu-1",
		HubID:     "0123456789abcdef",
		Intent:    render.Intent{Term: 1, OwnerUID: "uid-1", Generation: 4, Epoch: 2},
		Workload:  render.Workload{Kind: render.CloneSet(), Spec: []byte(spec)},
		Revision:  "5d8f",
		Selector:  &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Replicas:  new(int32(3)),
		Partition: render.Partition{Hold: true},
	}
}

func mustChild(t *testing.T, in render.Input) *unstructured.Unstructured {
	t.Helper()
	obj, err := render.Child(in)
	if err != nil {
		t.Fatalf("rendering: %v", err)
	}
	return obj
}

func at(t *testing.T, obj map[string]any, path ...string) any {
	t.Helper()
	v, found, err := unstructured.NestedFieldNoCopy(obj, path...)
	if err != nil {
		t.Fatalf("reading %v: %v", path, err)
	}
	if !found {
		return nil
	}
	return v
}

func TestChildCarriesStampsAndKeepsUnknownFields(t *testing.T) {
	t.Parallel()
	in := input(flatSpec)
	in.Workload.Metadata = []byte(`{"labels": {"team": "a"}, "annotations": {"note": "b"}, "name": "not used"}`)
	in.Overlay.Patch = []byte(`{"metadata":{"labels":{"arch":"arm"}}}`)
	got := mustChild(t, in)
	want := map[string]any{
		"apiVersion": "apps.kruise.io/v1alpha1",
		"kind":       "CloneSet",
		"metadata": map[string]any{
			"name":      render.ChildName("web", "eu-1"),
			"namespace": "shop",
			"labels": map[string]any{
				"team":                       "a",
				"apps.kruise.io/subset-name": "eu-1",
				"apps.kruise.io/controller-revision-hash": "5d8f",
				"fleet.underway.dev/hub":                  "0123456789abcdef",
			},
			"annotations": map[string]any{
				"note":                        "b",
				"fleet.underway.dev/owner":    "shop/web",
				"fleet.underway.dev/intent":   "1/uid-1/4/2",
				"apps.kruise.io/subset-patch": `{"metadata":{"labels":{"arch":"arm"}}}`,
			},
		},
		"spec": map[string]any{
			"replicas": int64(3),
			"selector": map[string]any{"matchLabels": map[string]any{"app": "web", "apps.kruise.io/subset-name": "eu-1"}},
			"updateStrategy": map[string]any{
				"type": "InPlaceIfPossible", "partition": "100%", "paused": false, "maxUnavailable": int64(1),
			},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{
					"app": "web", "arch": "arm",
					"apps.kruise.io/subset-name":              "eu-1",
					"apps.kruise.io/controller-revision-hash": "5d8f",
				}},
				"spec": map[string]any{
					"alsoNew": true,
					"containers": []any{map[string]any{
						"name": "web", "image": "web:1", "fieldOfTomorrow": map[string]any{"a": []any{int64(1), int64(2)}},
					}},
				},
			},
		},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("child (-want +got):\n%s", diff)
	}
}

func TestChildPlacesPartitionByShape(t *testing.T) {
	t.Parallel()
	const pod = `"template":{"metadata":{},"spec":{}}`
	cases := map[string]struct {
		strategy  string
		partition render.Partition
		paused    bool
		want      map[string]any
		wantErr   string
	}{
		"no strategy is the flat shape": {
			strategy: `{}`, partition: render.Partition{Value: intstr.FromInt32(2)},
			want: map[string]any{"partition": int64(2), "paused": false},
		},
		"flat shape keeps the template's own pause": {
			strategy: `{"type":"InPlaceOnly","paused":true}`, partition: render.Partition{Value: intstr.FromString("40%")},
			want: map[string]any{"type": "InPlaceOnly", "partition": "40%", "paused": true},
		},
		"nested shape": {
			strategy: `{"rollingUpdate":{"podUpdatePolicy":"InPlaceOnly"}}`, partition: render.Partition{Hold: true}, paused: true,
			want: map[string]any{"rollingUpdate": map[string]any{"podUpdatePolicy": "InPlaceOnly", "partition": "100%", "paused": true}},
		},
		"OnDelete shows the nested shape": {
			strategy: `{"type":"OnDelete"}`, partition: render.Partition{Value: intstr.FromInt32(0)},
			want: map[string]any{"type": "OnDelete", "rollingUpdate": map[string]any{"partition": int64(0), "paused": false}},
		},
		"both shapes are refused":             {strategy: `{"rollingUpdate":{},"maxUnavailable":1}`, wantErr: "both shapes"},
		"flat type with nested is refused":    {strategy: `{"type":"ReCreate","rollingUpdate":{}}`, wantErr: "both shapes"},
		"nested type with flat is refused":    {strategy: `{"type":"RollingUpdate","partition":1}`, wantErr: "both shapes"},
		"an unknown type is refused":          {strategy: `{"type":"Sideways"}`, wantErr: "not known"},
		"a strategy that is text is refused":  {strategy: `"InPlaceOnly"`, wantErr: "updateStrategy is text"},
		"a pause that is a number is refused": {strategy: `{"paused":1}`, wantErr: "paused is a number"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(fmt.Sprintf(`{"updateStrategy":%s,%s}`, tc.strategy, pod))
			in.Partition, in.Paused = tc.partition, tc.paused
			obj, err := render.Child(in)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("got error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, at(t, obj.Object, "spec", "updateStrategy")); diff != "" {
				t.Errorf("updateStrategy (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChildNamesNoReplicasWhenSomebodyElseScales(t *testing.T) {
	t.Parallel()
	in := input(flatSpec)
	in.Replicas = nil
	if _, named := mustChild(t, in).Object["spec"].(map[string]any)["replicas"]; named {
		t.Error("spec.replicas is named, though somebody else scales the child")
	}
}

// TestA06NodeSelectorIsAlternatives: of the old field's terms one must hold, beside one of the template's.
func TestA06NodeSelectorIsAlternatives(t *testing.T) {
	t.Parallel()
	zone := func(z string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{z}},
		}}
	}
	two := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{zone("a"), {}, zone("b")}}
	a, b := `{"key":"zone","operator":"In","values":["a"]}`, `{"key":"zone","operator":"In","values":["b"]}`
	const own = `{"key":"own","operator":"Exists"}`
	for name, tc := range map[string]struct{ template, want string }{
		"alone":                      {`[]`, `[{"matchExpressions":[` + a + `]},{"matchExpressions":[` + b + `]}]`},
		"beside the template's term": {`[{"matchExpressions":[` + own + `]}]`, `[{"matchExpressions":[` + own + `,` + a + `]},{"matchExpressions":[` + own + `,` + b + `]}]`},
		"nothing stays nothing":      {`[{}]`, `[{}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(`{"template":{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":` + tc.template + `}}}}}}`)
			in.Overlay.NodeSelector = two
			var want any
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			got := at(t, mustChild(t, in).Object, "spec", "template", "spec", "affinity", "nodeAffinity",
				"requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("terms (-want +got):\n%s", diff)
			}
		})
	}
}

// TestB163 is the subset's node selector term: AND within each of the template's terms, OR between them.
func TestB163(t *testing.T) {
	t.Parallel()
	field := &corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}},
	}}
	fieldJSON := `{"key":"metadata.name","operator":"In","values":["n1"]}`
	two := `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
		{"matchExpressions":[{"key":"a","operator":"Exists"}]},
		{"matchExpressions":[{"key":"b","operator":"Exists"}],"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n9"]}]}]}}}`
	cases := map[string]struct {
		affinity string
		term     *corev1.NodeSelectorTerm
		want     string
	}{
		"the field expression is in both of the template's terms": {
			affinity: two, term: field,
			want: `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
				{"matchExpressions":[{"key":"a","operator":"Exists"}],"matchFields":[` + fieldJSON + `]},
				{"matchExpressions":[{"key":"b","operator":"Exists"}],"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n9"]},` + fieldJSON + `]}]}}}`,
		},
		"without a term the template's are unchanged": {affinity: two, want: two},
		"an empty term is no term":                    {affinity: two, term: &corev1.NodeSelectorTerm{}, want: two},
		"no affinity and no term: no affinity":        {affinity: `null`, want: `null`},
		"no affinity gets one term": {
			affinity: `null`, term: field,
			want: `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[` + fieldJSON + `]}]}}}`,
		},
		"preferred terms and pod affinity stay": {
			affinity: `{"podAntiAffinity":{"x":1},"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1}]}}`, term: field,
			want: `{"podAntiAffinity":{"x":1},"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1}],
				"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[` + fieldJSON + `]}]}}}`,
		},
		"a term that matches nothing goes on matching nothing": {
			affinity: `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{}]}}}`, term: field,
			want: `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{}]}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(`{"template":{"spec":{"affinity":` + tc.affinity + `}}}`)
			in.Overlay.NodeSelectorTerm = tc.term
			var want any
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			var got any
			raw, err := json.Marshal(at(t, mustChild(t, in).Object, "spec", "template", "spec", "affinity"))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOverlayPatch(t *testing.T) {
	t.Parallel()
	const spec = `{"template":{"spec":{"containers":[
		{"name":"web","image":"web:1","args":["a"],"novel":{"x":1}},{"name":"log","image":"log:1"}],"unknownMap":{"keep":1}}}}`
	cases := map[string]struct{ patch, want, wantErr string }{
		"a container is merged by name": {
			patch: `{"spec":{"containers":[{"name":"web","image":"web:arm"}]}}`,
			want:  `{"spec":{"containers":[{"name":"web","image":"web:arm","args":["a"],"novel":{"x":1}},{"name":"log","image":"log:1"}],"unknownMap":{"keep":1}}}`,
		},
		"a field is added": {
			patch: `{"spec":{"priorityClassName":"high"}}`,
			want:  `{"spec":{"priorityClassName":"high","containers":[{"name":"web","image":"web:1","args":["a"],"novel":{"x":1}},{"name":"log","image":"log:1"}],"unknownMap":{"keep":1}}}`,
		},
		"a field of tomorrow is merged as JSON, inside and outside lists": {
			patch: `{"spec":{"unknownMap":{"add":2},"containers":[{"name":"web","novel":{"y":2}}]}}`,
			want:  `{"spec":{"containers":[{"name":"web","image":"web:1","args":["a"],"novel":{"x":1,"y":2}},{"name":"log","image":"log:1"}],"unknownMap":{"keep":1,"add":2}}}`,
		},
		"null deletes": {
			patch: `{"spec":{"containers":[{"name":"web","args":null}]}}`,
			want:  `{"spec":{"containers":[{"name":"web","image":"web:1","novel":{"x":1}},{"name":"log","image":"log:1"}],"unknownMap":{"keep":1}}}`,
		},
		"a list item without its key is refused": {patch: `{"spec":{"containers":[{"image":"x"}]}}`, wantErr: "merge key"},
		"text is refused":                        {patch: `"not an object"`, wantErr: "is text, want an object"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := render.Overlaid(render.Workload{Kind: render.CloneSet(), Spec: []byte(spec)}, render.Overlay{Patch: []byte(tc.patch)})
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("got error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var want any
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(at(t, out, "spec", "template"))
			if err != nil {
				t.Fatal(err)
			}
			var got any
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("template (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOverlaidHasNoStamps(t *testing.T) {
	t.Parallel()
	out, err := render.Overlaid(render.Workload{Kind: render.CloneSet(), Spec: []byte(flatSpec)}, render.Overlay{
		Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{}
	if err := json.Unmarshal([]byte(flatSpec), &want); err != nil {
		t.Fatal(err)
	}
	want["template"].(map[string]any)["spec"].(map[string]any)["tolerations"] = []any{map[string]any{"key": "gpu", "operator": "Exists"}}
	raw, _ := json.Marshal(map[string]any{"spec": want})
	got, _ := json.Marshal(out)
	if diff := cmp.Diff(string(raw), string(got)); diff != "" {
		t.Errorf("overlaid (-want +got):\n%s", diff)
	}
}

func TestChildRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		edit func(*render.Input)
		want string
	}{
		"a template that is no object":     {func(in *render.Input) { in.Workload.Spec = []byte(`[]`) }, "cloneSetTemplate.spec: is a list"},
		"a pod template that is no object": {func(in *render.Input) { in.Workload.Spec = []byte(`{"template":3}`) }, "template is a number"},
		"a label that is no text": {func(in *render.Input) {
			in.Workload.Spec = []byte(`{"template":{"metadata":{"labels":{"a":1}}}}`)
		}, `labels["a"] is a number`},
		"our own annotation in the template": {func(in *render.Input) {
			in.Workload.Metadata = []byte(`{"annotations":{"fleet.underway.dev/intent":"9/x/9/9"}}`)
		}, "which the hub writes itself"},
		"no hub id": {func(in *render.Input) { in.HubID = "" }, "hub id"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(flatSpec)
			tc.edit(&in)
			if _, err := render.Child(in); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestChildDropsNulls(t *testing.T) {
	t.Parallel()
	obj := mustChild(t, input(`{"template":{"spec":{"a":null,"l":[{"b":null,"c":1}]}}}`))
	want := map[string]any{"l": []any{map[string]any{"c": int64(1)}}}
	if diff := cmp.Diff(want, at(t, obj.Object, "spec", "template", "spec")); diff != "" {
		t.Errorf("pod spec (-want +got):\n%s", diff)
	}
}

// TestB121 is names beyond 63 characters: they stay legal and do not collide.
func TestB121(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 57)
	a, b := render.ChildName(long+"-one", "eu"), render.ChildName(long+"-two", "eu")
	if a == b {
		t.Errorf("names with the same first 60 characters collide: %s", a)
	}
	if got, want := render.ChildName("web", "eu-1"), "web-eu-1-"; !strings.HasPrefix(got, want) || len(got) != len(want)+5 {
		t.Errorf("got %q, want %q and 5 characters", got, want)
	}
	if render.ChildName("a-b", "c") == render.ChildName("a", "b-c") {
		t.Error("a-b/c and a/b-c collide")
	}
	rapid.Check(t, func(t *rapid.T) {
		ud := rapid.StringMatching(`[a-z]([a-z0-9.-]{0,250}[a-z0-9])?`).Draw(t, "ud")
		if len(validation.IsDNS1123Subdomain(ud)) > 0 {
			t.Skip("not a name")
		}
		subset := rapid.StringMatching(`[a-z]([a-z0-9-]{0,60}[a-z0-9])?`).Draw(t, "subset")
		name := render.ChildName(ud, subset)
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 || len(name) > 52 {
			t.Fatalf("ChildName(%q, %q) = %q: %v", ud, subset, name, errs)
		}
	})
}

func TestIntent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) render.Intent {
			return render.Intent{
				Term: rapid.Int64Range(0, 3).Draw(t, label+"term"), OwnerUID: "u",
				Generation: rapid.Int64Range(0, 3).Draw(t, label+"generation"), Epoch: rapid.Int64Range(0, 3).Draw(t, label+"epoch"),
			}
		}
		a, b := draw("a"), draw("b")
		if back, err := render.ParseIntent(a.String()); err != nil || back != a {
			t.Fatalf("%v reads back as %v, %v", a, back, err)
		}
		x, ok := a.Compare(b)
		y, ok2 := b.Compare(a)
		if !ok || !ok2 || x != -y || (x == 0) != (a == b) {
			t.Fatalf("%v against %v: %d and %d", a, b, x, y)
		}
		want := a.Term*100+a.Generation*10+a.Epoch > b.Term*100+b.Generation*10+b.Epoch
		if (x > 0) != want {
			t.Fatalf("%v against %v: %d", a, b, x)
		}
	})
	if _, ok := (render.Intent{OwnerUID: "a", Term: 9}).Compare(render.Intent{OwnerUID: "b"}); ok {
		t.Error("intents of two owners have an order")
	}
	for _, bad := range []string{"", "1/u/2", "1/u/2/3/4", "-1/u/2/3", "1//2/3", "x/u/2/3", "01/u/2/3", "1/u/2/3 ", "1/u/2/+3", "99999999999999999999/u/1/1", "9223372036854775807/u/1/1", "1/u/9007199254740993/1", "1/u/1/9007199254740993"} {
		if got, err := render.ParseIntent(bad); !errors.Is(err, render.ErrIntent) {
			t.Errorf("ParseIntent(%q) = %v, %v", bad, got, err)
		}
	}
}

// TestPercentPartition holds that a percent lets at most the granted pods go at the replicas it was made for, and at most
// the granted share, or one pod, at any other.
func TestPercentPartition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.Int32Range(0, 2000).Draw(t, "replicas")
		grant := rapid.Int32Range(0, replicas).Draw(t, "grant")
		p := render.PercentPartition(grant, replicas)
		if got := moved(p, replicas); got > grant {
			t.Fatalf("grant %d of %d: %v moves %d", grant, replicas, p, got)
		}
		later := rapid.Int32Range(1, 5000).Draw(t, "later")
		if got := moved(p, later); grant < replicas && float64(got) > max(1, float64(grant)/float64(replicas)*float64(later)) {
			t.Fatalf("grant %d of %d, later %d: %v moves %d", grant, replicas, later, p, got)
		}
		if grant == 0 && !p.Hold {
			t.Fatalf("grant 0 of %d is %v", replicas, p)
		}
	})
	if got := render.PercentPartition(3, 10); got.Value.StrVal != "70%" {
		t.Errorf("3 of 10 is %v", got)
	}
}

// moved is what a CloneSet lets go: a percent rounded up, at most replicas-1 below 100%.
func moved(p render.Partition, replicas int32) int32 {
	if p.Hold {
		return 0
	}
	if p.Value.Type == intstr.Int {
		return replicas - min(p.Value.IntVal, replicas)
	}
	old, err := intstr.GetScaledValueFromIntOrPercent(&p.Value, int(replicas), true)
	if err != nil {
		return replicas
	}
	return replicas - min(int32(old), replicas-1)
}

func TestWorkloadOf(t *testing.T) {
	t.Parallel()
	w := &appsv1alpha1.WorkloadTemplate{Spec: runtime.RawExtension{Raw: []byte(`{}`)}}
	for want, tmpl := range map[render.Kind]appsv1alpha1.SubsetTemplate{
		render.CloneSet():            {CloneSetTemplate: w},
		render.AdvancedStatefulSet(): {AdvancedStatefulSetTemplate: w},
		render.StatefulSet():         {StatefulSetTemplate: w},
		render.Deployment():          {DeploymentTemplate: w},
	} {
		if got, err := render.WorkloadOf(tmpl); err != nil || got.Kind != want {
			t.Errorf("%s: %v, %v", want.Template, got, err)
		}
	}
	if _, err := render.WorkloadOf(appsv1alpha1.SubsetTemplate{}); err == nil {
		t.Error("no template is accepted")
	}
	if _, err := render.WorkloadOf(appsv1alpha1.SubsetTemplate{CloneSetTemplate: w, DeploymentTemplate: w}); err == nil {
		t.Error("two templates are accepted")
	}
}
