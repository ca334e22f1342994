package rbac

import "slices"

// rare are the grants that the scenario does not use, or that depends on timing: its own, the machine's, or another's.
func rare() []Rare {
	const owners = "an owner reference that blocks its owner's deletion (admission OwnerReferencesPermissionEnforcement)"
	return []Rare{
		{Grant{Hub, "get", "controllerrevisions.apps", "", ""}, "the name of a new revision is taken: whose is it", "TestRevisionsOfAnother"},
		{Grant{Hub, "patch", "controllerrevisions.apps", "", ""}, "a revision that comes back is numbered anew, a revision is let go with --cascade=orphan", "leaves its children, marked, with --cascade=orphan"},
		{Grant{Hub, "patch", "events.events.k8s.io", "", ""}, "an event that is repeated becomes a series", "TestTheRolesAreTheLeast"},
		{Grant{Hub, "get", "memberclusters.fleet.underway.dev", "", ""}, "a delete asks whether the member is really gone", "TestStillWanted"},
		{Grant{Hub, "patch", "memberclusters.fleet.underway.dev", "", ""}, "a used confirmation is taken off", "sends nothing to another cluster under a member's name, until a person confirms it"},
		{Grant{Hub, "get", "persistentvolumeclaims", "", ""}, "a claim that a template names travels", "TestContent"},
		{Grant{Hub, "list", "pods", "", ""}, "the pods of a child of the hub's own cluster that stands still", "TestPodsOfAStuckChild"},
		{Grant{Hub, "list", "horizontalpodautoscalers.autoscaling", "", ""}, "a child of the hub's own cluster was scaled by an autoscaler", "TestAnAutoscalerThatIsGone"},
		{Grant{Hub, "update", "secrets", "underway-system", ""}, "a confirmed hub raises its term, a token is renewed", "TestARenewedTokenIsStoredAndTheConnectionStays"},
		{Grant{Hub, "update", "uniteddeployments/finalizers.apps.kruise.io", "", ""}, owners, "TestTheRolesAreTheLeast"},
		{Grant{HubOnMember, "create", "persistentvolumeclaims", "", ""}, "a claim that a template names travels", "TestContent"},
		{Grant{HubOnMember, "get", "persistentvolumeclaims", "", ""}, "a claim that a template names travels", "TestContent"},
		{Grant{HubOnMember, "patch", "persistentvolumeclaims", "", ""}, "a claim that a template names travels", "TestContent"},
		{Grant{HubOnMember, "update", "leases.coordination.k8s.io", "underway-system", ""}, "our Lease is renewed each 20 s", "TestLongCopiedHub"},
		{Grant{HubOnMember, "get", "namespaces", "", ""}, "a write was refused for its namespace: is it there, is it going", "TestNamespaces"},
		{Grant{HubOnMember, "list", "pods", "", ""}, "the pods of a child that stands still", "TestPodsOfAStuckChild"},
		{Grant{HubOnMember, "list", "horizontalpodautoscalers.autoscaling", "", ""}, "a child was scaled by an autoscaler", "TestAnAutoscalerThatIsGone"},
		{Grant{HubOnMember, "create", "podtemplates", "", ""}, "a template is tried; one member of each version is asked", "asks once per minor version, and tells which one refuses"},
		{Grant{HubOnMember, "create", "serviceaccounts/token", "underway-system", "underway-hub"}, "a token is renewed at half of its life", "TestARenewedTokenIsStoredAndTheConnectionStays"},
		{Grant{Agent, "get", "clonesets.apps.kruise.io", "", ""}, "the cache stays behind our own write", "TestCacheThatStaysBehind"},
		{Grant{Agent, "patch", "clonesets.apps.kruise.io", "", ""}, "names that no pod has are taken out of podsToDelete", "TestPodsToDeleteOfAnApplier"},
		{Grant{Agent, "update", "clonesets/finalizers.apps.kruise.io", "", ""}, owners, "TestTheRolesAreTheLeast"},
		{Grant{Agent, "update", "statefulsets/finalizers.apps.kruise.io", "", ""}, owners, "TestTheRolesAreTheLeast"},
		{Grant{Agent, "get", "statefulsets.apps.kruise.io", "", ""}, "the cache stays behind our own write", "TestCacheThatStaysBehind"},
		{Grant{Agent, "get", "controllerrevisions.apps", "", ""}, "the name of a new revision is taken: whose is it", "TestARevisionNameInTheWayHoldsNothing"},
		{Grant{Agent, "get", "pods", "", ""}, "a pod of that name exists: whose is it", "TestNameOfAnother"},
		{Grant{Agent, "patch", "events.events.k8s.io", "", ""}, "an event that is repeated becomes a series", "TestTheRolesAreTheLeast"},
		{Grant{Agent, "patch", "leases.coordination.k8s.io", "underway-system", ""}, "OpenKruise is alive, and our own Lease says so", "TestPeerActive"},
		{Grant{Agent, "list", "nodes", "", ""}, "pods are ranked by the topology they are spread over", "TestNodes"},
		{Grant{Agent, "watch", "nodes", "", ""}, "pods are ranked by the topology they are spread over", "TestNodes"},
		{Grant{Agent, "create", "persistentvolumeclaims", "", ""}, "claims of a template", "TestRetention"},
		{Grant{Agent, "delete", "persistentvolumeclaims", "", ""}, "claims go with their pods", "TestRetention"},
		{Grant{Agent, "get", "persistentvolumeclaims", "", ""}, "a claim of that name exists: whose is it", "TestClaimNameOfAnother"},
		{Grant{Agent, "patch", "persistentvolumeclaims", "", ""}, "a claim is resized, or gets the owner that takes it along", "TestB091Resize"},
		{Grant{Agent, "list", "storageclasses.storage.k8s.io", "", ""}, "which claims can be resized", "TestB091Resize"},
	}
}

// rareOf are those of some accounts.
func rareOf(accounts ...Account) []Rare {
	return slices.DeleteFunc(rare(), func(r Rare) bool { return !slices.Contains(accounts, r.Account) })
}

// probes are refusals that are expected.
func probes() []Grant { return nil }

// apart are grants that another one of the account holds as well, and that stay: each with the reason.
func apart() map[string]string {
	const reason = "the Role is what the hub needs for itself, the ClusterRole what content that travels needs: whoever takes " +
		"that away takes the latter only"
	return map[string]string{
		"granted twice: cluster-api: get secrets in underway-system, and cluster-api: get secrets": "it writes its own Secrets in " +
			"the install namespace, and reads Cluster API's wherever they are: one marker for each",
		"granted twice: hub: get configmaps in underway-system, and hub: get configmaps": reason,
		"granted twice: hub: get secrets in underway-system, and hub: get secrets":       reason,
		"granted twice: hub: list secrets in underway-system, and hub: list secrets":     reason,
		"granted twice: hub: watch secrets in underway-system, and hub: watch secrets":   reason,
	}
}
