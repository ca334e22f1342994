package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

func statefulSpec(t *testing.T, text string) *StatefulSetSpec {
	t.Helper()
	spec := &StatefulSetSpec{}
	if err := yaml.Unmarshal([]byte(text), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestStatefulSetRollout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec string
		want StatefulSetRollout
		err  bool
	}{
		"nothing said":               {spec: `{}`, want: StatefulSetRollout{Policy: ReCreateUpdate}},
		"OnDelete":                   {spec: `{updateStrategy: {type: OnDelete}}`, want: StatefulSetRollout{Policy: ReCreateUpdate, OnDelete: true}},
		"OnDelete and a block":       {spec: `{updateStrategy: {type: OnDelete, rollingUpdate: {}}}`, err: true},
		"a word that is none":        {spec: `{updateStrategy: {rollingUpdate: {podUpdatePolicy: Fast}}}`, err: true},
		"CloneSet's flat type":       {spec: `{updateStrategy: {type: InPlaceIfPossible}}`, err: true},
		"a retention that is none":   {spec: `{persistentVolumeClaimRetentionPolicy: {whenScaled: Keep}}`, err: true},
		"unordered without priority": {spec: `{updateStrategy: {rollingUpdate: {unorderedUpdate: {}}}}`, want: StatefulSetRollout{Policy: ReCreateUpdate, Unordered: true}},
		"all": {
			spec: `{updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 7, maxUnavailable: 40%, podUpdatePolicy: InPlaceOnly, paused: true,
  minReadySeconds: 5, inPlaceUpdateStrategy: {gracePeriodSeconds: 9}, unorderedUpdate: {priorityStrategy: {orderPriority: [{orderedKey: a}]}}}}}`,
			want: StatefulSetRollout{
				Policy: InPlaceOnlyUpdate, Partition: 7, MaxUnavailable: new(intstr.FromString("40%")), Paused: true, Unordered: true,
				Priority:           &UpdatePriorityStrategy{OrderPriority: []UpdatePriorityOrderTerm{{OrderedKey: "a"}}},
				GracePeriodSeconds: 9, MinReadySeconds: 5,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := statefulSpec(t, tc.spec).Rollout()
			if (err != nil) != tc.err {
				t.Fatalf("error %v, want one %t", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadOrdinals(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]OrdinalRange{
		"3-5": {3, 5}, "4": {4, 4}, "0-2147483647": {0, 2147483647}, "007-8": {7, 8},
	} {
		if got, err := ReadOrdinals(intstr.FromString(text)); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-", "5-3", "1-2-3", "a", "-1", "2147483648", "+3", " 3", "00000000001"} {
		if got, err := ReadOrdinals(intstr.FromString(text)); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
	if got, err := ReadOrdinals(intstr.FromInt32(9)); err != nil || got != (OrdinalRange{9, 9}) {
		t.Errorf("9: %v, %v", got, err)
	}
	if got, err := ReadOrdinals(intstr.FromInt32(-9)); err == nil {
		t.Errorf("-9 was read as %v", got)
	}
}

func TestStatefulSetNotActedOn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`{}`:                                   nil,
		`{scaleStrategy: {maxUnavailable: 2}}`: {"spec.scaleStrategy.maxUnavailable"},
		`{podManagementPolicy: Parallel, scaleStrategy: {maxUnavailable: 2}}`: nil,
		`{updateStrategy: {rollingUpdate: {inPlaceUpdateStrategy: {imagePreDownloadParallelism: 3}}}}`: {
			"spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism",
		},
	} {
		if diff := cmp.Diff(want, statefulSpec(t, text).NotActedOn()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
