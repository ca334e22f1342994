package render_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/underway-dev/underway/propagation/render"
)

const podOfWeb = `"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}`

func kindInput(k render.Kind, more string) render.Input {
	in := input("{" + podOfWeb + more + "}")
	in.Workload.Kind = k
	return in
}

func TestPlacesByKind(t *testing.T) {
	t.Parallel()
	number := func(n int32) render.Partition { return render.Partition{Value: intstr.FromInt32(n)} }
	percent := func(p string) render.Partition { return render.Partition{Value: intstr.FromString(p)} }
	hold := render.Partition{Hold: true}
	sts, advanced := render.StatefulSet(), render.AdvancedStatefulSet()
	for name, tc := range map[string]struct {
		kind      render.Kind
		more      string
		partition render.Partition
		paused    bool
		replicas  *int32
		want      map[string]any
	}{
		"native hold":          {kind: sts, partition: hold, want: map[string]any{"partition": int64(math.MaxInt32)}},
		"native number":        {kind: sts, partition: number(2), want: map[string]any{"partition": int64(2)}},
		"native start":         {kind: sts, more: `, "ordinals": {"start": 7}`, partition: number(2), want: map[string]any{"partition": int64(9)}},
		"native start whole":   {kind: sts, more: `, "ordinals": {"start": 7}`, partition: number(0), want: map[string]any{"partition": int64(0)}},
		"native start hold":    {kind: sts, more: `, "ordinals": {"start": 7}`, partition: hold, want: map[string]any{"partition": int64(math.MaxInt32)}},
		"native paused":        {kind: sts, partition: number(0), paused: true, want: map[string]any{"partition": int64(math.MaxInt32)}},
		"native percent":       {kind: sts, partition: percent("70%"), replicas: new(int32(5)), want: map[string]any{"partition": int64(4)}},
		"native percent, live": {kind: sts, partition: percent("70%"), want: map[string]any{"partition": int64(3)}},
		"native keeps its own": {
			kind: sts, more: `, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2, "partition": 9}}`,
			partition: number(1), want: map[string]any{"maxUnavailable": int64(2), "partition": int64(1)},
		},
		"native OnDelete":   {kind: sts, more: `, "updateStrategy": {"type": "OnDelete"}`, partition: number(1), want: nil},
		"advanced hold":     {kind: advanced, partition: hold, want: map[string]any{"partition": int64(math.MaxInt32), "paused": false}},
		"advanced OnDelete": {kind: advanced, more: `, "updateStrategy": {"type": "OnDelete"}`, partition: hold, paused: true, want: nil},
		"advanced is a count": {
			kind: advanced, more: `, "ordinals": {"start": 7}, "reserveOrdinals": [8, "10-11"]`, partition: number(2),
			want: map[string]any{"partition": int64(2), "paused": false},
		},
		"advanced paused by its template": {
			kind: advanced, more: `, "updateStrategy": {"rollingUpdate": {"paused": true, "podUpdatePolicy": "InPlaceIfPossible"}}`,
			partition: number(0), want: map[string]any{"partition": int64(0), "paused": true, "podUpdatePolicy": "InPlaceIfPossible"},
		},
		"advanced paused by the hub": {kind: advanced, partition: number(1), paused: true, want: map[string]any{"partition": int64(1), "paused": true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := kindInput(tc.kind, tc.more)
			in.Partition, in.Paused = tc.partition, tc.paused
			if tc.replicas != nil {
				in.Replicas = tc.replicas
			}
			got := at(t, mustChild(t, in).Object, "spec", "updateStrategy", "rollingUpdate")
			if tc.want == nil && got == nil {
				return
			}
			if diff := cmp.Diff(any(tc.want), got); diff != "" {
				t.Errorf("rollingUpdate (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPercentOfUnknownReplicasHolds(t *testing.T) {
	t.Parallel()
	in := kindInput(render.StatefulSet(), "")
	in.Replicas, in.Partition = nil, render.Partition{Value: intstr.FromString("50%")}
	if got := at(t, mustChild(t, in).Object, "spec", "updateStrategy", "rollingUpdate", "partition"); got != int64(math.MaxInt32) {
		t.Errorf("the partition is %v", got)
	}
}

func TestPercentBecomesNumberRoundedTowardsOld(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.Int32Range(1, math.MaxInt32).Draw(t, "replicas")
		grant := rapid.Int32Range(0, replicas).Draw(t, "grant")
		in := kindInput(rapid.SampledFrom([]render.Kind{render.StatefulSet(), render.AdvancedStatefulSet()}).Draw(t, "kind"), "")
		in.Replicas, in.Partition = &replicas, render.PercentPartition(grant, replicas)
		obj, err := render.Child(in)
		if err != nil {
			t.Fatal(err)
		}
		old := obj.Object["spec"].(map[string]any)["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any)["partition"].(int64)
		if int64(replicas)-min(old, int64(replicas)) > int64(grant) {
			t.Fatalf("partition %d of %d lets more than %d go", old, replicas, grant)
		}
		if grant == replicas && old != 0 {
			t.Fatalf("a whole grant keeps %d", old)
		}
	})
}

func TestPlaceDeployment(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		more      string
		partition render.Partition
		paused    bool
		want      any
		wantErr   string
	}{
		"released":                 {want: false},
		"held with the old one":    {partition: render.Partition{Hold: true}, want: false},
		"held in mid-release":      {partition: render.Partition{Hold: true}, paused: true, want: true},
		"paused by its template":   {more: `, "paused": true`, want: true},
		"a part of it":             {partition: render.Partition{Value: intstr.FromInt32(1)}, wantErr: "cannot be held in part"},
		"a percent of it":          {partition: render.Partition{Value: intstr.FromString("50%")}, wantErr: "cannot be held in part"},
		"a paused that is no bool": {more: `, "paused": "yes"`, wantErr: "paused is text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := kindInput(render.Deployment(), tc.more)
			in.Partition, in.Paused = tc.partition, tc.paused
			obj, err := render.Child(in)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := at(t, obj.Object, "spec", "paused"); got != tc.want {
				t.Errorf("paused is %v, want %v", got, tc.want)
			}
			if got := at(t, obj.Object, "spec", "strategy"); got != nil {
				t.Errorf("strategy was written: %v", got)
			}
		})
	}
}

func TestPlacesRefuseWhatTheyCannotRead(t *testing.T) {
	t.Parallel()
	for _, k := range []render.Kind{render.StatefulSet(), render.AdvancedStatefulSet()} {
		value := func(v intstr.IntOrString) render.Partition { return render.Partition{Value: v} }
		for _, tc := range []struct {
			more string
			p    render.Partition
		}{
			{`, "updateStrategy": {"type": "Rolling"}`, render.Partition{}},
			{`, "updateStrategy": {"rollingUpdate": "x"}`, render.Partition{}},
			{`, "replicas": 3`, value(intstr.FromInt32(-1))},
			{`, "serviceName": "a"`, value(intstr.FromString("half"))},
			{`, "serviceName": "b"`, value(intstr.FromString("101%"))},
		} {
			more, p := tc.more, tc.p
			in := kindInput(k, more)
			in.Partition = p
			if obj, err := render.Child(in); err == nil {
				t.Errorf("%s %s %v: accepted as %v", k.Template, more, p, obj.Object["spec"])
			}
		}
	}
}

// The whole embedded spec reaches the member: every field, those this build does not know too.
func TestB163EmbeddedSpecTravelsWhole(t *testing.T) {
	t.Parallel()
	more := `, "minReadySeconds": 7, "progressDeadlineSeconds": 30, "revisionHistoryLimit": 3, "serviceName": "web",
		"podManagementPolicy": "Parallel", "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"},
		"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}],
		"fieldOfTomorrow": {"list": [1, {"deep": true}]}, "strategy": {"rollingUpdate": {"maxSurge": "10%"}},
		"lifecycle": {"inPlaceUpdate": {"finalizersHandler": ["a/b"]}}`
	for _, k := range render.Kinds() {
		in := kindInput(k, more)
		overlaid, err := render.Overlaid(in.Workload, in.Overlay)
		if err != nil {
			t.Fatal(err)
		}
		child := mustChild(t, in)
		for field, want := range overlaid["spec"].(map[string]any) {
			if field == "template" {
				continue
			}
			if diff := cmp.Diff(want, at(t, child.Object, "spec", field)); diff != "" {
				t.Errorf("%s.%s (-want +got):\n%s", k.Template, field, diff)
			}
		}
	}
}

func TestKindsTable(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"CloneSet.apps.kruise.io":    "cloneSetTemplate Partition agent Random",
		"StatefulSet.apps.kruise.io": "advancedStatefulSetTemplate Partition agent Ordinal",
		"StatefulSet.apps":           "statefulSetTemplate Partition typed Ordinal",
		"Deployment.apps":            "deploymentTemplate Whole typed Random",
	}
	got := map[string]string{}
	for _, k := range render.Kinds() {
		words := map[bool]string{true: "agent", false: "typed"}
		if k.NeedsAgent == k.TypedLists {
			t.Errorf("%s: an agent's kind has typed lists, or a built-in one has none", k.Template)
		}
		got[k.GVK.GroupKind().String()] = fmt.Sprint(k.Template, " ", k.Hold, " ", words[k.NeedsAgent], " ", render.PodNames(k))
		if found, ok := render.KindOf(k.GVK); !ok || found != k {
			t.Errorf("KindOf(%v) is %v", k.GVK, found)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

func TestImmutable(t *testing.T) {
	t.Parallel()
	claim := func(size, more string) string {
		return fmt.Sprintf(`{"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": %q}}%s}}]}`, size, more)
	}
	sts := render.StatefulSet()
	for name, tc := range map[string]struct {
		kind     render.Kind
		was, now string
		want     []string
	}{
		"nothing":           {sts, `{"serviceName": "a"}`, `{"serviceName": "a", "minReadySeconds": 3}`, nil},
		"defaults written":  {sts, `{}`, `{"serviceName": "", "podManagementPolicy": "OrderedReady", "volumeClaimTemplates": []}`, nil},
		"service":           {sts, `{"serviceName": "a"}`, `{}`, []string{"spec.serviceName"}},
		"policy":            {sts, `{}`, `{"podManagementPolicy": "Parallel"}`, []string{"spec.podManagementPolicy"}},
		"claim":             {sts, claim("1Gi", ""), claim("2Gi", ""), []string{"spec.volumeClaimTemplates"}},
		"claim, other word": {sts, claim("1Gi", ""), claim("1024Mi", `, "volumeMode": "Filesystem"`), nil},
		"claim gone":        {sts, claim("1Gi", ""), `{}`, []string{"spec.volumeClaimTemplates"}},
		"selector":          {sts, `{"selector": {"matchLabels": {"a": "b"}}}`, `{}`, nil},
		"advanced claim":    {render.AdvancedStatefulSet(), claim("1Gi", ""), claim("2Gi", ""), nil},
		"advanced service":  {render.AdvancedStatefulSet(), `{"serviceName": "a"}`, `{"serviceName": "b"}`, []string{"spec.serviceName"}},
		"deployment":        {render.Deployment(), `{"strategy": {"type": "Recreate"}}`, `{}`, nil},
		"cloneset":          {render.CloneSet(), claim("1Gi", ""), claim("2Gi", ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes, err := render.Immutable(
				render.Workload{Kind: tc.kind, Spec: []byte(tc.was)}, render.Workload{Kind: tc.kind, Spec: []byte(tc.now)})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range changes {
				if c.Remedy == "" {
					t.Errorf("%s has no remedy", c.Field)
				}
				got = append(got, c.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
	if got, err := render.Immutable(
		render.Workload{Kind: sts, Spec: []byte(`{"serviceName": "a"}`)},
		render.Workload{Kind: render.AdvancedStatefulSet(), Spec: []byte(`{}`)}); err != nil || len(got) > 0 {
		t.Errorf("another kind: %v, %v", got, err)
	}
}

func TestHasClaims(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]bool{
		`{}`: false, `{"volumeClaimTemplates": []}`: false, `{"volumeClaimTemplates": [{}]}`: true,
		`{"volumeClaimTemplates": "x"}`: true, `no JSON`: true,
	} {
		if got := render.HasClaims(render.Workload{Kind: render.StatefulSet(), Spec: []byte(spec)}); got != want {
			t.Errorf("%s: %v", spec, got)
		}
	}
}
