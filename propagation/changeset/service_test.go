package changeset_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/render"
)

func serviceOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAServiceOnAMember: what a member allots to a Service, and ports that others add beside ours, are no drift; a port of
// ours that is gone, or another target, is.
func TestAServiceOnAMember(t *testing.T) {
	t.Parallel()
	const desired = `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"shop","name":"web"},
		"spec":{"type":"NodePort","selector":{"app":"web"},"ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":80}]}}`
	const managed = `[{"manager":"underway-hub","operation":"Apply","fieldsV1":{"f:metadata":{"f:labels":{"f:fleet.underway.dev/hub":{}},
		"f:annotations":{"f:owner.fleet.underway.dev/u":{},"f:fleet.underway.dev/intent":{}}},
		"f:spec":{"f:type":{},"f:selector":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{},"f:targetPort":{}}}}}}]`
	live := func(ports string) string {
		return `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"shop","name":"web","uid":"x","resourceVersion":"7",
			"labels":{"fleet.underway.dev/hub":"0123456789abcdef"},"annotations":{"owner.fleet.underway.dev/u":"","fleet.underway.dev/intent":"1/u/5/0"},
			"managedFields":` + managed + `},
			"spec":{"type":"NodePort","selector":{"app":"web"},"clusterIP":"10.1.2.3","clusterIPs":["10.1.2.3"],"ports":` + ports + `}}`
	}
	cases := map[string]struct {
		ports string
		want  changeset.Op
	}{
		"as we sent it, with a node port": {`[{"name":"http","port":80,"protocol":"TCP","targetPort":80,"nodePort":30001}]`, changeset.OpNothing},
		"somebody's port beside":          {`[{"name":"own","port":9,"protocol":"TCP","targetPort":9},{"name":"http","port":80,"protocol":"TCP","targetPort":80}]`, changeset.OpNothing},
		"another target":                  {`[{"name":"http","port":80,"protocol":"TCP","targetPort":81}]`, changeset.OpApply},
		"our port is gone":                {`[{"name":"http","port":81,"protocol":"TCP","targetPort":80}]`, changeset.OpApply},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := changeset.DecideShared(changeset.SharedInput{
				Desired: serviceOf(t, desired), Live: serviceOf(t, live(tc.ports)), HubID: "0123456789abcdef",
				Source: render.Intent{Term: 1, OwnerUID: "u", Generation: 9}, Owners: []string{"u"},
			})
			if got.Op != tc.want {
				t.Errorf("got %s (%s: %s), want %s", got.Op, got.Reason, got.Message, tc.want)
			}
		})
	}
}
