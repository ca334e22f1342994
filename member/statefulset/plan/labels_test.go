package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestRelabel: who is given labels of its identity, and which.
func TestRelabel(t *testing.T) {
	t.Parallel()
	whole := map[string]string{"statefulset.kubernetes.io/pod-name": "web-3", "apps.kubernetes.io/pod-index": "3", "app": "web"}
	for name, tc := range map[string]struct {
		pod string
		// labels are those that it has, wrote is how long ago it was given some; 0: never.
		labels map[string]string
		wrote  time.Duration
		change func(*corev1.Pod)
		want   map[string]string
	}{
		"it has them":              {pod: "web-3", labels: whole},
		"it lacks one":             {pod: "web-3", labels: map[string]string{"apps.kubernetes.io/pod-index": "3"}, want: map[string]string{"statefulset.kubernetes.io/pod-name": "web-3"}},
		"another's index":          {pod: "web-3", labels: map[string]string{"apps.kubernetes.io/pod-index": "4", "statefulset.kubernetes.io/pod-name": "web-3"}, want: map[string]string{"apps.kubernetes.io/pod-index": "3"}},
		"it was given them lately": {pod: "web-3", wrote: 59 * time.Second},
		"and a while ago": {
			pod: "web-3", wrote: time.Minute, want: map[string]string{"statefulset.kubernetes.io/pod-name": "web-3", "apps.kubernetes.io/pod-index": "3"},
		},
		"it goes":            {pod: "web-3", change: func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(at())) }},
		"it has failed":      {pod: "web-3", change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }},
		"it has succeeded":   {pod: "web-3", change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }},
		"another's name":     {pod: "other-3"},
		"not an ordinal":     {pod: "web-03"},
		"nothing but a name": {pod: "web"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: tc.pod, UID: "u", ResourceVersion: "7", Labels: tc.labels}}
			if tc.change != nil {
				tc.change(&p)
			}
			wrote := map[types.UID]time.Time{}
			if tc.wrote > 0 {
				wrote["u"] = at().Add(-tc.wrote)
			}
			var got map[string]string
			for _, x := range Relabel("web", []corev1.Pod{p}, wrote, at()) {
				if x.UID != "u" || x.ResourceVersion != "7" || x.Namespace != "ns" {
					t.Errorf("%+v", x.Ref)
				}
				got = map[string]string{}
				for key, value := range x.Metadata.Labels {
					got[key] = *value
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
