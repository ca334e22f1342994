package revision_test

import (
	"strings"
	"testing"

	"github.com/underway-dev/underway/inplace/revision"
)

// TestEmptySelectorsSurvive: to Kubernetes {} selects everything and an absent selector nothing, and pods are made from
// what is stored.
func TestEmptySelectorsSurvive(t *testing.T) {
	t.Parallel()
	template := []byte(`{"spec":{"topologySpreadConstraints":[{"labelSelector":{},"topologyKey":"zone"}],"volumes":[{"emptyDir":{},"name":"v"}]}}`)
	changes, err := revision.Plan(revision.History{Owner: "web", Template: template})
	if err != nil {
		t.Fatal(err)
	}
	for where, got := range map[string][]byte{"created": changes.Update.Template, "stored": changes.Create.Data} {
		if !strings.Contains(string(got), `"labelSelector":{}`) || !strings.Contains(string(got), `"emptyDir":{}`) {
			t.Errorf("%s: %s has lost an empty map", where, got)
		}
	}
	again, err := revision.Plan(revision.History{Owner: "web", Template: template, Existing: []revision.Stored{*changes.Create}})
	if err != nil || again.Create != nil || !strings.Contains(string(again.Update.Template), `"labelSelector":{}`) {
		t.Errorf("read back: create %v, template %s, error %v", again.Create, again.Update.Template, err)
	}
}
