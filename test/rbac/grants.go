package rbac

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/underway-dev/underway/config"
)

// Account is one of ours.
type Account string

// Our accounts, and where they act.
const (
	// Hub is the hub in its own cluster.
	Hub Account = "hub"
	// HubOnMember is the hub in a member that was joined with --all-namespaces.
	HubOnMember Account = "hub-on-member"
	// ClusterAPI is the hub in its own cluster, where Cluster API's Clusters become members.
	ClusterAPI Account = "cluster-api"
	// Agent is the agent in its member.
	Agent Account = "agent"
)

// Accounts are all of them.
func Accounts() []Account { return []Account{Hub, HubOnMember, ClusterAPI, Agent} }

// Grant is one verb on one resource that an account has. It is also a key: two grants that say the same are equal.
type Grant struct {
	Account Account
	// Verb on Resource, which is "<resource>[/<subresource>][.<group>]", or a path where it begins with "/".
	Verb, Resource string
	// Namespace the grant is for; empty: all of them, and what has none.
	Namespace string
	// Names the grant is for, separated by commas; empty: all.
	Names string
}

func (g Grant) String() string {
	out := fmt.Sprintf("%s: %s %s", g.Account, g.Verb, g.Resource)
	if g.Names != "" {
		out += " named " + g.Names
	}
	if g.Namespace != "" {
		out += " in " + g.Namespace
	}
	return out
}

// covers is true when a use needs no more than the grant.
func (g Grant) covers(u Use) bool {
	return g.Account == u.Account && g.Verb == u.Verb && g.Resource == u.Resource &&
		(g.Namespace == "" || g.Namespace == u.Namespace) &&
		(g.Names == "" || slices.Contains(strings.Split(g.Names, ","), u.Name))
}

// within is true when everything that g allows is allowed by other as well.
func (g Grant) within(other Grant) bool {
	if g.Account != other.Account || g.Verb != other.Verb || g.Resource != other.Resource {
		return false
	}
	inNamespace := other.Namespace == "" || other.Namespace == g.Namespace
	return inNamespace && (other.Names == "" || other.Names == g.Names)
}

// Granted are the grants of an account, as our manifests give them, in order.
func Granted(account Account) ([]Grant, error) {
	read := map[Account]func() ([]*unstructured.Unstructured, error){
		Hub: config.HubRBAC, HubOnMember: config.HubAccess, ClusterAPI: config.HubClusterAPI, Agent: config.MemberRBAC,
	}[account]
	objects, err := read()
	if err != nil {
		return nil, fmt.Errorf("reading the roles of %s: %w", account, err)
	}
	var out []Grant
	for _, obj := range objects {
		if obj.GetKind() != "ClusterRole" && obj.GetKind() != "Role" {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, role); err != nil {
			return nil, fmt.Errorf("reading role %s: %w", obj.GetName(), err)
		}
		for _, rule := range role.Rules {
			out = append(out, expand(account, obj.GetNamespace(), rule)...)
		}
	}
	slices.SortFunc(out, compare)
	return out, nil
}

func compare(a, b Grant) int {
	return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Names, b.Names))
}

func expand(account Account, namespace string, rule rbacv1.PolicyRule) []Grant {
	var resources []string
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			resources = append(resources, inGroup(resource, group))
		}
	}
	names := strings.Join(slices.Sorted(slices.Values(rule.ResourceNames)), ",")
	var out []Grant
	for _, resource := range append(resources, rule.NonResourceURLs...) {
		for _, verb := range rule.Verbs {
			out = append(out, Grant{Account: account, Verb: verb, Resource: resource, Namespace: namespace, Names: names})
		}
	}
	return out
}

func inGroup(resource, group string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}
