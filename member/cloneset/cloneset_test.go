package cloneset

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/member/workload"
)

// read reads YAML of a spec, with a selector and a template added.
func read(tb testing.TB, text string) (*appsv1alpha1.CloneSet, workload.Wanted) {
	tb.Helper()
	cs := &appsv1alpha1.CloneSet{}
	if err := yaml.Unmarshal([]byte(text), &cs.Spec); err != nil {
		tb.Fatal(err)
	}
	if cs.Spec.Selector == nil {
		cs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	}
	if cs.Spec.Template.Raw == nil {
		cs.Spec.Template = runtime.RawExtension{Raw: []byte(
			`{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"app:v1"}]}}`)}
	}
	return cs, Kind{}.Read(cs)
}

func TestRead(t *testing.T) {
	t.Parallel()
	type want struct {
		in   inplace.Intent
		held bool
	}
	cases := map[string]struct {
		spec string
		want want
	}{
		"nothing said": {
			spec: `{}`,
			want: want{in: inplace.Intent{Replicas: 1, MaxUnavailable: 1, Policy: inplace.PolicyReCreate}},
		},
		"flat": {
			spec: `{replicas: 10, updateStrategy: {type: InPlaceIfPossible, partition: "95%", maxUnavailable: 25%, paused: true, inPlaceUpdateStrategy: {gracePeriodSeconds: 3}}}`,
			want: want{held: true, in: inplace.Intent{
				Replicas: 10, Partition: 9, MaxUnavailable: 3, Policy: inplace.PolicyInPlaceIfPossible, Paused: true, GracePeriod: 3 * time.Second,
			}},
		},
		"nested": {
			spec: `{replicas: 10, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 4}}}`,
			want: want{held: true, in: inplace.Intent{Replicas: 10, Partition: 4, MaxUnavailable: 2, Policy: inplace.PolicyInPlaceOnly}},
		},
		"partitionRollback, hooks and scatter": {
			spec: `{lifecycle: {preDelete: {labelsHandler: {a: b}}}, updateStrategy: {type: InPlaceOnly, partitionRollback: true, scatterStrategy: [{key: a, value: b}]}}`,
			want: want{in: inplace.Intent{
				Replicas: 1, MaxUnavailable: 1, Policy: inplace.PolicyInPlaceOnly, PartitionRollback: true,
				Lifecycle: &appsv1alpha1.Lifecycle{PreDelete: &appsv1alpha1.LifecycleHook{LabelsHandler: map[string]string{"a": "b"}}},
				Scatter:   []appsv1alpha1.UpdateScatterTerm{{Key: "a", Value: "b"}},
			}},
		},
		"OnDelete": {
			spec: `{updateStrategy: {type: OnDelete}}`,
			want: want{in: inplace.Intent{Replicas: 1, MaxUnavailable: 1, Policy: inplace.PolicyReCreate, OnDelete: true}},
		},
		"a hold holds at no replicas too": {
			spec: `{replicas: 0, updateStrategy: {type: InPlaceOnly, partition: "1%"}}`,
			want: want{held: true, in: inplace.Intent{Policy: inplace.PolicyInPlaceOnly}},
		},
		"0% holds nothing": {
			spec: `{replicas: 0, updateStrategy: {type: InPlaceOnly, partition: "0%"}}`,
			want: want{in: inplace.Intent{Policy: inplace.PolicyInPlaceOnly}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, w := read(t, tc.spec)
			if diff := cmp.Diff(tc.want.in, w.Intent); diff != "" || w.Held != tc.want.held {
				t.Errorf("held %t, want %t; intent (-want +got):\n%s", w.Held, tc.want.held, diff)
			}
		})
	}
}

// TestPatchUndrained: only the word "true" allows it.
func TestPatchUndrained(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"true": true, "false": false, "": false, "True": false, "1": false} {
		cs, _ := read(t, `{updateStrategy: {type: InPlaceOnly}}`)
		cs.Annotations = map[string]string{appsv1alpha1.AnnotationPatchUndrained: value}
		if got := (Kind{}).Read(cs).Intent.PatchUndrained; got != want {
			t.Errorf("%q: %t, want %t", value, got, want)
		}
	}
	if cs, w := read(t, `{}`); w.Intent.PatchUndrained {
		t.Errorf("allowed without the annotation: %v", cs.Annotations)
	}
}

// TestUnreadableHolds: what came through a CRD without our rules moves nothing and names the field.
func TestUnreadableHolds(t *testing.T) {
	t.Parallel()
	for spec, field := range map[string]string{
		`{replicas: 5, updateStrategy: {type: InPlaceOnly, partition: "abc"}}`:                              "spec.updateStrategy.partition",
		`{replicas: 5, updateStrategy: {type: InPlaceOnly, partition: "50"}}`:                               "spec.updateStrategy.partition",
		`{replicas: 5, updateStrategy: {type: InPlaceOnly, partition: -1}}`:                                 "spec.updateStrategy.partition",
		`{replicas: 5, updateStrategy: {rollingUpdate: {partition: "x"}}}`:                                  "spec.updateStrategy.rollingUpdate.partition",
		`{replicas: 5, updateStrategy: {maxUnavailable: "5"}}`:                                              "spec.updateStrategy.maxUnavailable",
		`{replicas: 5, updateStrategy: {maxSurge: "5"}}`:                                                    "spec.updateStrategy.maxSurge",
		`{replicas: 5, scaleStrategy: {maxUnavailable: "x"}}`:                                               "spec.scaleStrategy.maxUnavailable",
		`{replicas: 5, updateStrategy: {priorityStrategy: {weightPriority: [{weight: 101}]}}}`:              "spec.updateStrategy.priorityStrategy.weightPriority[0].weight",
		`{replicas: 5, updateStrategy: {rollingUpdate: {priorityStrategy: {orderPriority: [{}]}}}}`:         "spec.updateStrategy.rollingUpdate.priorityStrategy.orderPriority[0].orderedKey",
		`{replicas: 5, updateStrategy: {type: Fast}}`:                                                       "spec.updateStrategy.type",
		`{replicas: 5, updateStrategy: {type: InPlaceOnly, rollingUpdate: {}}}`:                             "spec.updateStrategy",
		`{replicas: 5, selector: {matchLabels: {app: other}}}`:                                              "spec.selector",
		`{replicas: 5, template: {metadata: {labels: {app: web}}, spec: {containers: {name: not-a-list}}}}`: "spec.template",
		`{replicas: 5, selector: {matchExpressions: [{key: app, operator: Like, values: [web]}]}}`:          "spec.selector",
		`{replicas: 5, updateStrategy: {type: RollingUpdate, partition: 3, rollingUpdate: {partition: 3}}}`: "spec.updateStrategy.partition",
	} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			_, w := read(t, spec)
			if !strings.Contains(w.Intent.Invalid, field) {
				t.Errorf("invalid %q does not name %s", w.Intent.Invalid, field)
			}
			if w.Intent.Grant() != 0 || w.Intent.Replicas != 5 || !w.Held {
				t.Errorf("held %t, intent %+v", w.Held, w.Intent)
			}
		})
	}
}

// TestSelectorOfTheScaleSubresource: the text of the status selects the same pods; an autoscaler reads them by it.
func TestSelectorOfTheScaleSubresource(t *testing.T) {
	t.Parallel()
	cs, w := read(t, `{selector: {matchLabels: {app: web}, matchExpressions: [{key: tier, operator: In, values: [a, b]}, {key: odd, operator: DoesNotExist}]},
	  template: {metadata: {labels: {app: web, tier: a}}, spec: {containers: [{name: main, image: "app:v1"}]}}}`)
	parsed, err := labels.Parse(w.Selector)
	selector, selectorErr := Kind{}.Selector(cs)
	if err != nil || selectorErr != nil || w.Intent.Invalid != "" {
		t.Fatal(err, selectorErr, w.Intent.Invalid)
	}
	for _, set := range []labels.Set{
		{"app": "web", "tier": "a"}, {"app": "web", "tier": "b", "odd": ""}, {"app": "web"}, {"tier": "a"}, {"app": "web", "tier": "b"},
	} {
		if parsed.Matches(set) != selector.Matches(set) {
			t.Errorf("%v: %q selects %t, the spec %t", set, w.Selector, parsed.Matches(set), selector.Matches(set))
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	cs, _ := read(t, `{}`)
	r := workload.Report{
		ObservedGeneration: 2, UpdateRevision: "new", CurrentRevision: "old", Selector: "app=web", Extended: true,
		Summary: inplace.Summary{Replicas: 3, Ready: 2, Updated: 1, ExpectedUpdated: 3, InPlace: 1},
	}
	if !(Kind{}).Report(cs, r) || (Kind{}).Report(cs, r) {
		t.Error("changed once, and then not again")
	}
	if cs.Status.Underway.UpdatedInPlace != 1 || cs.Status.UpdatedReplicas != 1 || cs.Status.LabelSelector != "app=web" {
		t.Errorf("status %+v", cs.Status)
	}
	r.Extended = false
	if !(Kind{}).Report(cs, r) || cs.Status.Underway != nil {
		t.Error("status.underway is written to a CRD that drops it")
	}
	r.Summary.ExpectedUpdated = -1
	if (Kind{}).Report(cs, r); cs.Status.ExpectedUpdatedReplicas != 0 {
		t.Errorf("expected %d", cs.Status.ExpectedUpdatedReplicas)
	}
}
