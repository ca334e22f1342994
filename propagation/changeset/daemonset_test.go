package changeset_test

import (
	"testing"

	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/render"
)

// TestADaemonSetOnAMember: a kind of the API server itself that travels by label is compared as one: a container that a webhook
// of the member puts beside ours, and what says nothing and was left out, are no drift after a restart; another image is.
func TestADaemonSetOnAMember(t *testing.T) {
	t.Parallel()
	const desired = `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"namespace":"shop","name":"log"},
		"spec":{"template":{"spec":{"hostNetwork":false,"containers":[{"name":"log","image":"log:1"}]}}}}`
	live := func(containers string) string {
		return `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"namespace":"shop","name":"log","uid":"x","resourceVersion":"7",
			"labels":{"fleet.underway.dev/hub":"0123456789abcdef"},"annotations":{"owner.fleet.underway.dev/u":"","fleet.underway.dev/intent":"1/u/5/0"},
			"managedFields":[{"manager":"underway-hub","operation":"Apply","fieldsV1":{"f:metadata":{"f:labels":{"f:fleet.underway.dev/hub":{}},
			"f:annotations":{"f:owner.fleet.underway.dev/u":{},"f:fleet.underway.dev/intent":{}}},
			"f:spec":{"f:template":{"f:spec":{"f:hostNetwork":{},"f:containers":{"k:{\"name\":\"log\"}":{".":{},"f:name":{},"f:image":{}}}}}}}}]},
			"spec":{"template":{"spec":{"containers":[` + containers + `]}}}}`
	}
	for name, tc := range map[string]struct {
		containers string
		want       changeset.Op
	}{
		"as we sent it, defaulted": {`{"name":"log","image":"log:1","imagePullPolicy":"Always"}`, changeset.OpNothing},
		"a sidecar beside":         {`{"name":"mesh","image":"mesh:1"},{"name":"log","image":"log:1"}`, changeset.OpNothing},
		"another image":            {`{"name":"log","image":"log:0"}`, changeset.OpApply},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := changeset.DecideShared(changeset.SharedInput{
				Desired: serviceOf(t, desired), Live: serviceOf(t, live(tc.containers)), HubID: "0123456789abcdef",
				Source: render.Intent{Term: 1, OwnerUID: "u", Generation: 9}, Owners: []string{"u"},
			})
			if got.Op != tc.want {
				t.Errorf("got %s (%s: %s), want %s", got.Op, got.Reason, got.Message, tc.want)
			}
		})
	}
}
