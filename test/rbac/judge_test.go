package rbac

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/underway-dev/underway/test/lab"
)

func granted() []Grant {
	return []Grant{
		{Account: Agent, Verb: "get", Resource: "pods"},
		{Account: Agent, Verb: "patch", Resource: "pods/status"},
		{Account: Agent, Verb: "update", Resource: "leases.coordination.k8s.io", Namespace: "underway-system"},
		{Account: Agent, Verb: "get", Resource: "/readyz"},
	}
}

func uses() []Use {
	return []Use{
		{Account: Agent, Verb: "get", Resource: "pods", Namespace: "shop", Name: "a"},
		{Account: Agent, Verb: "patch", Resource: "pods/status", Namespace: "shop", Name: "a"},
		{Account: Agent, Verb: "update", Resource: "leases.coordination.k8s.io", Namespace: "underway-system", Name: "l"},
		{Account: Agent, Verb: "get", Resource: "/readyz"},
		{Account: Agent, Verb: "create", Resource: "selfsubjectaccessreviews.authorization.k8s.io"}, // everybody may
	}
}

// TestTheLeastPasses and each single change to it fails: a verb too many, a verb missing, an entry out of date.
func TestTheLeastPasses(t *testing.T) {
	t.Parallel()
	if got := Judge(granted(), uses(), nil, nil); len(got) > 0 {
		t.Fatalf("the least does not pass: %v", got)
	}
	for i, g := range granted() {
		extra := g
		extra.Verb = "deletecollection"
		if got := Judge(append(granted(), extra), uses(), nil, nil); !one(got, "too many") {
			t.Errorf("%s is one too many: %v", extra, got)
		}
		without := slices.Delete(granted(), i, i+1)
		if got := Judge(without, refuse(uses(), without), nil, nil); !one(got, "missing") {
			t.Errorf("without %s: %v", g, got)
		}
		if got := Judge(without, refuse(uses(), without), nil, []Grant{g}); len(got) > 0 {
			t.Errorf("a probe that may be refused counts: %v", got)
		}
		if got := Judge(granted(), uses(), []Rare{{Grant: g}}, nil); len(got) > 0 {
			t.Errorf("%s is rare, and used this time: %v", g, got)
		}
		if got := Shown(uses(), []Rare{{Grant: g}, {Grant: extra}}); !slices.Equal(got, []string{g.String()}) {
			t.Errorf("%s is rare, and used this time: shown are %v", g, got)
		}
		if got := Judge(granted(), uses(), []Rare{{Grant: extra}}, nil); !one(got, "not granted") {
			t.Errorf("%s is rare and not granted: %v", extra, got)
		}
		if got := Judge(append(granted(), extra), uses(), []Rare{{Grant: extra}}, nil); len(got) > 0 {
			t.Errorf("%s is rare: %v", extra, got)
		}
	}
}

// refuse is what the API server answers with these grants.
func refuse(list []Use, granted []Grant) []Use {
	out := make([]Use, len(list))
	for i, u := range list {
		out[i] = u
		out[i].Refused = !strings.HasPrefix(u.Resource, "selfsubject")
		for _, g := range granted {
			if g.covers(u) {
				out[i].Refused = false
			}
		}
	}
	return out
}

func one(problems []string, word string) bool {
	return len(problems) == 1 && strings.Contains(problems[0], word)
}

// TestAGrantForOneNamespaceOrNameIsNotUsedElsewhere: a Role that is wider than its use is one verb too many as well.
func TestAGrantForOneNamespaceOrNameIsNotUsedElsewhere(t *testing.T) {
	t.Parallel()
	use := Use{Account: Hub, Verb: "get", Resource: "leases.coordination.k8s.io", Namespace: "kruise-system", Name: "kruise-manager"}
	for _, tc := range []struct {
		grant Grant
		want  bool
	}{
		{Grant{Account: Hub, Verb: "get", Resource: "leases.coordination.k8s.io", Names: "kruise-manager,underway-member"}, true},
		{Grant{Account: Hub, Verb: "get", Resource: "leases.coordination.k8s.io", Names: "underway-member"}, false},
		{Grant{Account: Hub, Verb: "get", Resource: "leases.coordination.k8s.io", Namespace: "underway-system"}, false},
		{Grant{Account: HubOnMember, Verb: "get", Resource: "leases.coordination.k8s.io"}, false},
		{Grant{Account: Hub, Verb: "get", Resource: "leases"}, false},
	} {
		if got := tc.grant.covers(use); got != tc.want {
			t.Errorf("%s covers %s: %t", tc.grant, use, got)
		}
	}
}

// TestUsesOfAnAuditEvent: subresources, paths and refusals as the API server writes them.
func TestUsesOfAnAuditEvent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		event string
		want  []Use
	}{
		"a subresource": {
			`{"verb":"patch","objectRef":{"resource":"pods","subresource":"status","namespace":"shop","name":"a"},"responseStatus":{"code":200}}`,
			[]Use{{Account: Agent, Verb: "patch", Resource: "pods/status", Namespace: "shop", Name: "a"}},
		},
		"a path": {
			`{"verb":"get","requestURI":"/readyz?verbose","responseStatus":{"code":200}}`,
			[]Use{{Account: Agent, Verb: "get", Resource: "/readyz"}},
		},
		"refused for want of a right": {
			`{"verb":"list","objectRef":{"resource":"clonesets","apiGroup":"apps.kruise.io"},"responseStatus":{"code":403},"annotations":{"authorization.k8s.io/decision":"forbid"}}`,
			[]Use{{Account: Agent, Verb: "list", Resource: "clonesets.apps.kruise.io", Refused: true}},
		},
		"refused by admission": {
			`{"verb":"create","objectRef":{"resource":"pods","namespace":"shop"},"responseStatus":{"code":403},"annotations":{"authorization.k8s.io/decision":"allow"}}`,
			[]Use{{Account: Agent, Verb: "create", Resource: "pods", Namespace: "shop"}},
		},
		"an apply that created": {
			`{"verb":"patch","objectRef":{"resource":"configmaps","namespace":"shop","name":"a"},"responseStatus":{"code":201}}`,
			[]Use{
				{Account: Agent, Verb: "patch", Resource: "configmaps", Namespace: "shop", Name: "a"},
				{Account: Agent, Verb: "create", Resource: "configmaps", Namespace: "shop", Name: "a"},
			},
		},
		"a watch that begins with the list": {
			`{"verb":"watch","requestURI":"/api/v1/pods?sendInitialEvents=true&watch=true","objectRef":{"resource":"pods"},"responseStatus":{"code":200}}`,
			[]Use{{Account: Agent, Verb: "watch", Resource: "pods"}, {Account: Agent, Verb: "list", Resource: "pods"}},
		},
		"a namespace is in none": {
			`{"verb":"get","objectRef":{"resource":"namespaces","namespace":"shop","name":"shop"},"responseStatus":{"code":200}}`,
			[]Use{{Account: Agent, Verb: "get", Resource: "namespaces", Name: "shop"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var e lab.AuditEvent
			if err := json.Unmarshal([]byte(tc.event), &e); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, UsesOf(Agent, e)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
