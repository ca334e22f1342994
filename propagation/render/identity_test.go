package render_test

import (
	"strings"
	"testing"

	"github.com/underway-dev/underway/propagation/render"
)

// A patch changes what runs in a subset, never whose pods they are.
func TestHostilePatchesAreRefusedByName(t *testing.T) {
	t.Parallel()
	for patch, want := range map[string]string{
		`{"metadata": {"labels": {"app": "other"}}}`:                                  "the patch of subset eu-1 changes the pods' label app",
		`{"metadata": {"labels": {"app": null}}}`:                                     "the patch of subset eu-1 changes the pods' label app",
		`{"metadata": {"labels": null}}`:                                              "the patch of subset eu-1 changes the pods' label app",
		`{"$patch": "replace", "spec": {"containers": []}}`:                           "the patch of subset eu-1 changes the pods' label app",
		`{"metadata": {"labels": {"apps.kruise.io/subset-name": "x"}}}`:               `metadata.labels["apps.kruise.io/subset-name"]`,
		`{"metadata": {"labels": {"apps.kruise.io/controller-revision-hash": null}}}`: `metadata.labels["apps.kruise.io/controller-revision-hash"]`,
		`{"metadata": {"labels": {"pod-template-hash": "1"}}}`:                        `metadata.labels["pod-template-hash"]`,
		`{"metadata": {"labels": "x"}}`:                                               "labels is text",
		`{"metadata": {"namespace": "other"}}`:                                        "writes metadata.namespace",
		`{"metadata": {"name": "other"}}`:                                             "writes metadata.name",
		`{"metadata": {"ownerReferences": [{"uid": "x"}]}}`:                           "writes metadata.ownerReferences",
		`{"metadata": {"annotations": {"fleet.underway.dev/owner": "a/b"}}}`:          `metadata.annotations["fleet.underway.dev/owner"]`,
		`{"metadata": {"annotations": {"owner.fleet.underway.dev/u": ""}}}`:           `metadata.annotations["owner.fleet.underway.dev/u"]`,
		`{"metadata": {"labels": {"fleet.underway.dev/hub": "x"}}}`:                   `metadata.labels["fleet.underway.dev/hub"]`,
		`{"kind": "Secret"}`:                                                          "writes kind",
		`{"status": {"phase": "Running"}}`:                                            "writes status",
		`{"spec": null}`:                                                              "the patch of subset eu-1 leaves no containers",
		`{"spec": {"containers": null}}`:                                              "the patch of subset eu-1 leaves no containers",
		`{"spec": {"containers": [{"$patch": "replace"}]}}`:                           "the patch of subset eu-1 leaves no containers",
		`{"metadata": {"annotations": {"note": "a"}}}`:                                "",
		`{"metadata": {"labels": {"zone": "a"}}}`:                                     "",
		`{"spec": {"priorityClassName": "high"}}`:                                     "",
	} {
		for _, k := range render.Kinds() {
			in := kindInput(k, "")
			in.Overlay.Patch = []byte(patch)
			_, err := render.Child(in)
			switch {
			case want == "" && err != nil:
				t.Errorf("%s: %s: %v", k.Template, patch, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s: %s: error %v, want %q", k.Template, patch, err, want)
			}
		}
	}
}
