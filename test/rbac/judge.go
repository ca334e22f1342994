package rbac

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/underway-dev/underway/test/lab"
)

// Use is one request of an account, as its API server answered it.
type Use struct {
	Account   Account
	Verb      string
	Resource  string
	Namespace string
	Name      string
	// Refused is true when the account lacked the right.
	Refused bool
}

func (u Use) String() string {
	return fmt.Sprintf("%s: %s %s %s/%s", u.Account, u.Verb, u.Resource, u.Namespace, u.Name)
}

// UsesOf reads an audit event of an account. Some requests need two rights, of which the log shows one: an apply that created
// its object needed create as well; and a watch that begins with the list needs list wherever the server does not stream lists.
func UsesOf(account Account, e lab.AuditEvent) []Use {
	first := useOf(account, e)
	out := []Use{first}
	second := first
	switch {
	case first.Refused:
	case e.Verb == "patch" && e.ResponseStatus.Code == http.StatusCreated:
		second.Verb = "create"
		out = append(out, second)
	case e.Verb == "watch" && strings.Contains(e.RequestURI, "sendInitialEvents=true"):
		second.Verb = "list"
		out = append(out, second)
	}
	return out
}

func useOf(account Account, e lab.AuditEvent) Use {
	resource := inGroup(e.Resource(), e.ObjectRef.APIGroup)
	if e.ObjectRef.Resource == "" {
		resource, _, _ = strings.Cut(e.RequestURI, "?")
	}
	namespace := e.ObjectRef.Namespace
	if e.ObjectRef.Resource == "namespaces" {
		namespace = "" // a namespace is in none; its own name is not where it is
	}
	return Use{
		Account: account, Verb: e.Verb, Resource: resource, Namespace: namespace, Name: e.ObjectRef.Name,
		// Admission refuses with this code, too; it is a right that lacks only when the authorizer decided so.
		Refused: e.ResponseStatus.Code == http.StatusForbidden && e.Annotations["authorization.k8s.io/decision"] == "forbid",
	}
}

// Rare is a grant that the scenario need not use.
type Rare struct {
	Grant
	// Path is what uses it, Test the test that proves that path: the name of a Go test, or the text of an It.
	Path, Test string
}

// Judge compares what is granted with what was used, and returns what is wrong in order: nothing when the roles are the
// least. probes are refusals that are expected.
func Judge(granted []Grant, uses []Use, rare []Rare, probes []Grant) []string {
	var problems []string
	for _, g := range granted {
		named := slices.ContainsFunc(rare, func(r Rare) bool { return r.Grant == g })
		if !named && !used(uses, g) {
			problems = append(problems, "one verb too many, or a path that nothing goes: "+g.String())
		}
	}
	for _, r := range rare {
		if !slices.Contains(granted, r.Grant) {
			problems = append(problems, "the table of rare verbs names what is not granted: "+r.Grant.String())
		}
	}
	for _, u := range uses {
		expected := slices.ContainsFunc(probes, func(g Grant) bool { return g.covers(u) })
		if line := "one verb is missing, it was refused: " + u.String(); u.Refused && !expected && !slices.Contains(problems, line) {
			problems = append(problems, line)
		}
	}
	return problems
}

// used is true when an account made use of a grant.
func used(uses []Use, g Grant) bool {
	return slices.ContainsFunc(uses, func(u Use) bool { return !u.Refused && g.covers(u) })
}

// Shown are the entries of rare that the scenario used this time. That is no problem: a verb that hangs on timing is used now
// and not then. One that is shown every time does not belong there.
func Shown(uses []Use, rare []Rare) []string {
	var out []string
	for _, r := range rare {
		if used(uses, r.Grant) {
			out = append(out, r.Grant.String())
		}
	}
	return out
}

// Doubled are the grants that another grant of the same account holds already.
func Doubled(granted []Grant) []string {
	var problems []string
	for i, g := range granted {
		for j, other := range granted {
			if i != j && g.within(other) && (g != other || i < j) {
				problems = append(problems, fmt.Sprintf("granted twice: %s, and %s", g, other))
			}
		}
	}
	return problems
}
