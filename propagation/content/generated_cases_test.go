package content_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/underway-dev/underway/propagation/content"
)

// TestB123: what one cluster's API server and controllers generated is not sent to another, in any kind that has such
// fields; a change of one label on the hub changes that label in what is sent and nothing else.
func TestB123(t *testing.T) {
	t.Parallel()
	const generated = `"uid":"u1","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z","generation":3`
	for name, tc := range map[string]struct{ in, want string }{
		"a Job without a selector": {
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"n",` + generated + `,"labels":{"app":"x","batch.kubernetes.io/controller-uid":"u1","controller-uid":"u1"},
				"annotations":{"batch.kubernetes.io/job-tracking":"","note":"y"}},
				"spec":{"completions":1,"selector":{"matchLabels":{"batch.kubernetes.io/controller-uid":"u1"}},"template":{"metadata":{"labels":{
				"app":"x","controller-uid":"u1","job-name":"j","batch.kubernetes.io/controller-uid":"u1","batch.kubernetes.io/job-name":"j"}},"spec":{"restartPolicy":"Never"}}},
				"status":{"succeeded":1}}`,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"n","labels":{"app":"x"},"annotations":{"note":"y"}},
				"spec":{"completions":1,"template":{"metadata":{"labels":{"app":"x"}},"spec":{"restartPolicy":"Never"}}}}`,
		},
		"a Job with labels of the server's only": {
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"n",` + generated + `,"labels":{"job-name":"j"}},
				"spec":{"selector":{"matchLabels":{"controller-uid":"u1"}},"template":{"metadata":{"creationTimestamp":null,"labels":{"controller-uid":"u1"}},"spec":{}}}}`,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"n"},"spec":{"template":{"metadata":{"creationTimestamp":null},"spec":{}}}}`,
		},
		"a Job with a selector of its author": {
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"n",` + generated + `},
				"spec":{"manualSelector":true,"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x","job-name":"mine"}},"spec":{}}}}`,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"n"},
				"spec":{"manualSelector":true,"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x","job-name":"mine"}},"spec":{}}}}`,
		},
		"a Service": {
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s","namespace":"n",` + generated + `},"spec":{"clusterIP":"10.0.0.7","clusterIPs":["10.0.0.7"],"ports":[{"port":80,"nodePort":30001}]},"status":{"loadBalancer":{}}}`,
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s","namespace":"n"},"spec":{"ports":[{"port":80}]}}`,
		},
		"a claim": {
			`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c","namespace":"n",` + generated + `,"annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":"pv-1","storageClassName":"fast"},"status":{"phase":"Bound"}}`,
			`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c","namespace":"n"},"spec":{"storageClassName":"fast"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := parse(t, tc.in)
			untouched := in.DeepCopy()
			got, why := content.Prepare(in)
			if why != "" {
				t.Fatal(why)
			}
			if diff := cmp.Diff(parse(t, tc.want).Object, got.Object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(untouched.Object, in.Object); diff != "" {
				t.Errorf("the hub's object was changed:\n%s", diff)
			}
			labels := in.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			labels["team"] = "blue"
			in.SetLabels(labels)
			next, _ := content.Prepare(in)
			wanted := got.GetLabels()
			if wanted == nil {
				wanted = map[string]string{}
			}
			wanted["team"] = "blue"
			got.SetLabels(wanted)
			if diff := cmp.Diff(got.Object, next.Object); diff != "" {
				t.Errorf("one label (-want +got):\n%s", diff)
			}
		})
	}
}
