package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

func cloneSetSpec(tb testing.TB, text string) *appsv1alpha1.CloneSetSpec {
	tb.Helper()
	spec := &appsv1alpha1.CloneSetSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), spec); err != nil {
		tb.Fatal(err)
	}
	return spec
}

func number(n int) *intstr.IntOrString {
	v := intstr.FromInt32(int32(n))
	return &v
}

func text(s string) *intstr.IntOrString {
	v := intstr.FromString(s)
	return &v
}

func TestRolloutReadsBothShapes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		strategy string
		want     appsv1alpha1.Rollout
		wantErr  string
	}{
		"nothing is v1alpha1's default": {"{}", appsv1alpha1.Rollout{Policy: appsv1alpha1.ReCreateUpdate}, ""},
		"flat": {
			`{type: InPlaceIfPossible, partition: "70%", maxUnavailable: 2, maxSurge: 1, paused: true, inPlaceUpdateStrategy: {gracePeriodSeconds: 15}}`,
			appsv1alpha1.Rollout{
				Policy: appsv1alpha1.InPlaceIfPossibleUpdate, Partition: text("70%"), MaxUnavailable: number(2), MaxSurge: number(1),
				Paused: true, GracePeriodSeconds: 15,
			},
			"",
		},
		"nested": {
			`{type: RollingUpdate, partitionRollback: true, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 3, maxUnavailable: "10%", paused: true, inPlaceUpdateStrategy: {gracePeriodSeconds: 5}}}`,
			appsv1alpha1.Rollout{
				Nested: true, Policy: appsv1alpha1.InPlaceOnlyUpdate, Partition: number(3), MaxUnavailable: text("10%"), Paused: true,
				GracePeriodSeconds: 5, PartitionRollback: true,
			},
			"",
		},
		"rollingUpdate shows the shape without a type": {
			`{rollingUpdate: {partition: 3}}`,
			appsv1alpha1.Rollout{Nested: true, Policy: appsv1alpha1.ReCreateUpdate, Partition: number(3)},
			"",
		},
		"type RollingUpdate alone": {
			`{type: RollingUpdate}`, appsv1alpha1.Rollout{Nested: true, Policy: appsv1alpha1.ReCreateUpdate}, "",
		},
		"OnDelete": {
			`{type: OnDelete}`, appsv1alpha1.Rollout{Nested: true, OnDelete: true, Policy: appsv1alpha1.ReCreateUpdate}, "",
		},
		"flat type beside rollingUpdate": {
			`{type: InPlaceIfPossible, rollingUpdate: {partition: 3}}`, appsv1alpha1.Rollout{}, "spec.updateStrategy: type InPlaceIfPossible",
		},
		"flat field beside the nested shape": {
			`{type: RollingUpdate, partition: 3}`, appsv1alpha1.Rollout{}, "spec.updateStrategy.partition",
		},
		"unknown type":   {`{type: Recreate}`, appsv1alpha1.Rollout{}, `spec.updateStrategy.type: "Recreate"`},
		"unknown policy": {`{rollingUpdate: {podUpdatePolicy: OnDelete}}`, appsv1alpha1.Rollout{}, "podUpdatePolicy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := cloneSetSpec(t, "updateStrategy: "+tc.strategy).Rollout()
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("got error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCloneSetNotActedOn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"what works is not named": {`
replicas: 3
minReadySeconds: 1
revisionHistoryLimit: 1
volumeClaimTemplates: [{metadata: {name: data}}]
scaleStrategy: {podsToDelete: [a], maxUnavailable: 1, disablePVCReuse: true, excludePreparingDelete: true}
progressDeadlineSeconds: 600
lifecycle: {preDelete: {labelsHandler: {a: b}}, inPlaceUpdate: {finalizersHandler: [a/b]}, preNormal: {labelsHandler: {a: b}}}
updateStrategy:
  type: InPlaceIfPossible
  partition: "10%"
  maxUnavailable: 1
  maxSurge: 1
  paused: true
  partitionRollback: true
  priorityStrategy: {orderPriority: [{orderedKey: a}]}
  scatterStrategy: [{key: a, value: b}]
  inPlaceUpdateStrategy: {gracePeriodSeconds: 1}`, nil},
		"OnDelete works": {`updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceOnly, maxSurge: "10%"}}`, nil},
		"a hook that waits for nothing": {
			`lifecycle: {preDelete: {markPodNotReady: true}, inPlaceUpdate: {markPodNotReady: true, labelsHandler: {a: b}}, preNormal: {markPodNotReady: true, labelsHandler: {a: b}}}`,
			[]string{"spec.lifecycle.preDelete.markPodNotReady", "spec.lifecycle.preNormal.markPodNotReady"},
		},
		"image pre-download": {`
updateStrategy:
  inPlaceUpdateStrategy: {imagePreDownloadParallelism: 1, imagePreDownloadTimeoutSeconds: 1, imagePreDownloadMinUpdatedReadyPods: 1}`, []string{
			"spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadParallelism",
			"spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds",
			"spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods",
		}},
		"the nested shape": {
			`updateStrategy: {rollingUpdate: {inPlaceUpdateStrategy: {imagePreDownloadParallelism: 1}}}`,
			[]string{"spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, cloneSetSpec(t, tc.spec).NotActedOn()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnitedDeploymentNotActedOn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"what works is not named": {`
template: {cloneSetTemplate: {spec: {updateStrategy: {maxSurge: 1}}}}
topology:
  scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 1}}
  subsets:
  - {name: a, cluster: a, minReplicas: 1, maxReplicas: 2, tolerations: [{operator: Exists}], patch: {a: b}, nodeSelectorTerm: {matchExpressions: []}}
updateStrategy: {type: Manual, manualUpdate: {partition: 1, partitions: {a: 1}, unnamed: Update}}
adopt: Any`, nil},
		"everything": {`
template: {statefulSetTemplate: {spec: {}}, advancedStatefulSetTemplate: {spec: {}}, deploymentTemplate: {spec: {}}}
topology:
  scheduleStrategy: {type: Adaptive}
  subsetTemplates: [{clusterSelector: {}}]
  subsets: [{name: a}, {name: b, nodeSelector: {nodeSelectorTerms: []}}]
updateStrategy: {type: Staged}`, []string{
			"spec.updateStrategy.type",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := &appsv1alpha1.UnitedDeploymentSpec{}
			if err := yaml.UnmarshalStrict([]byte(tc.spec), spec); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, spec.NotActedOn()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var deprecated []string
			if name == "everything" {
				deprecated = []string{"spec.topology.subsets[1].nodeSelector (nodeSelectorTerm)"}
			}
			if diff := cmp.Diff(deprecated, spec.Deprecated()); diff != "" {
				t.Errorf("deprecated (-want +got):\n%s", diff)
			}
		})
	}
}
