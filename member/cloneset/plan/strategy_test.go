package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

func spec(t *testing.T, text string) *appsv1alpha1.CloneSetSpec {
	t.Helper()
	out := &appsv1alpha1.CloneSetSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestReadStrategy(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		spec   string
		labels map[string]string
		want   Strategy
	}{
		"nothing said": {spec: `{}`, want: Strategy{MaxUnavailable: 1, ReuseClaims: true}},
		"flat: maxSurge up, maxUnavailable down": {
			spec: `{replicas: 5, updateStrategy: {maxSurge: 30%, maxUnavailable: 50%}}`,
			want: Strategy{MaxSurge: 2, MaxUnavailable: 2, ReuseClaims: true},
		},
		"without surge maxUnavailable up": {
			spec: `{replicas: 5, updateStrategy: {maxUnavailable: 50%}}`, want: Strategy{MaxUnavailable: 3, ReuseClaims: true},
		},
		"N7, nested: 0 and 1; claims are not used again": {
			spec: `{replicas: 5, updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}}`, want: Strategy{MaxSurge: 1},
		},
		"nested, and claims are used again": {
			spec: `{updateStrategy: {type: OnDelete}, scaleStrategy: {enablePVCReuse: true}}`,
			want: Strategy{MaxUnavailable: 1, ReuseClaims: true},
		},
		"flat, and they are not": {
			spec: `{scaleStrategy: {disablePVCReuse: true}}`, want: Strategy{MaxUnavailable: 1},
		},
		"trap 2: the word wins over the shape": {
			spec: `{scaleStrategy: {disablePVCReuse: false}, updateStrategy: {type: RollingUpdate}}`,
			want: Strategy{MaxUnavailable: 1, ReuseClaims: true},
		},
		"scale strategy": {
			spec: `{replicas: 5, scaleStrategy: {maxUnavailable: 30%, podsToDelete: [a, b], excludePreparingDelete: true}}`,
			want: Strategy{
				MaxUnavailable: 1, ReuseClaims: true, CreateMaxUnavailable: new(int32(2)), PodsToDelete: []string{"a", "b"}, ExcludePreparingDelete: true,
			},
		},
		"v1alpha1's label": {
			spec: `{}`, labels: map[string]string{"apps.kruise.io/cloneset-scaling-exclude-preparing-delete": "true"},
			want: Strategy{MaxUnavailable: 1, ReuseClaims: true, ExcludePreparingDelete: true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problem := ReadStrategy(spec(t, tc.spec), tc.labels)
			if diff := cmp.Diff(tc.want, got); diff != "" || problem != "" {
				t.Errorf("%s %s", problem, diff)
			}
		})
	}
	t.Run("the template's spread", func(t *testing.T) {
		t.Parallel()
		s := spec(t, `{}`)
		s.Template = runtime.RawExtension{Raw: []byte(`{"spec":{"topologySpreadConstraints":[{"topologyKey":"zone","maxSkew":1},{"topologyKey":"kubernetes.io/hostname"}]}}`)}
		got, _ := ReadStrategy(s, nil)
		if diff := cmp.Diff([]string{"zone", "kubernetes.io/hostname"}, got.Spread); diff != "" {
			t.Error(diff)
		}
	})
}

// TestB005: what cannot be read names the field, and what can is read all the same.
func TestB005(t *testing.T) {
	t.Parallel()
	for text, field := range map[string]string{
		`{updateStrategy: {maxSurge: "2"}, scaleStrategy: {disablePVCReuse: true}}`:                        "spec.updateStrategy.maxSurge: ",
		`{updateStrategy: {maxUnavailable: "5"}, scaleStrategy: {disablePVCReuse: true}}`:                  "spec.updateStrategy.maxUnavailable: ",
		`{updateStrategy: {rollingUpdate: {maxSurge: "x%"}}}`:                                              "spec.updateStrategy.rollingUpdate.maxSurge: ",
		`{scaleStrategy: {maxUnavailable: "5", disablePVCReuse: true}}`:                                    "spec.scaleStrategy.maxUnavailable: ",
		`{updateStrategy: {type: InPlaceOnly, rollingUpdate: {}}, scaleStrategy: {enablePVCReuse: false}}`: "reading the update strategy: ",
	} {
		got, problem := ReadStrategy(spec(t, text), nil)
		if !strings.HasPrefix(problem, field) || got.ReuseClaims {
			t.Errorf("%s: %q, reuse %t", text, problem, got.ReuseClaims)
		}
	}
}

// TestUnreadableClaimTemplates: no pod is created without its volumes.
func TestUnreadableClaimTemplates(t *testing.T) {
	t.Parallel()
	in := input("N", 3, 0, 1)
	in.ClaimsProblem = "spec.volumeClaimTemplates[0]: metadata.name: is missing"
	got := Scale(in)
	if told(got) != "Scale 2" || !strings.Contains(got.Holds[0].Because, in.ClaimsProblem) {
		t.Errorf("%s %v", told(got), got.Holds)
	}
}
