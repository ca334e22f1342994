package rbac

import "slices"

// rare are the grants that the scenario does not use, or not always.
func rare() []Rare {
	const owners = "an owner reference that blocks its owner's deletion (admission OwnerReferencesPermissionEnforcement)"
	return []Rare{
		{Grant{Hub, "get", "controllerrevisions.apps", "", ""}, "the name of a new revision is taken: whose is it", "TestRevisionsOfAnother", false},
		{Grant{Hub, "patch", "controllerrevisions.apps", "", ""}, "a revision that comes back is numbered anew, a revision is let go with --cascade=orphan", "leaves its children, marked, with --cascade=orphan", true},
		{Grant{Hub, "patch", "events.events.k8s.io", "", ""}, "an event that is repeated becomes a series", "TestTheRolesAreTheLeast", true},
		{Grant{Hub, "get", "memberclusters.fleet.underway.dev", "", ""}, "a delete asks whether the member is really gone", "TestStillWanted", true},
		{Grant{Hub, "patch", "memberclusters.fleet.underway.dev", "", ""}, "a used confirmation is taken off", "gets nothing, until a person confirms it", false},
		{Grant{Hub, "get", "persistentvolumeclaims", "", ""}, "a claim that a template names travels", "TestContent", false},
		{Grant{Hub, "list", "pods", "", ""}, "the pods of a child of the hub's own cluster that stands still", "TestPodsOfAStuckChild", true},
		{Grant{Hub, "list", "horizontalpodautoscalers.autoscaling", "", ""}, "a child of the hub's own cluster was scaled by an autoscaler", "TestAnAutoscalerThatIsGone", true},
		{Grant{Hub, "update", "secrets", "underway-system", ""}, "a confirmed hub raises its term, a token is renewed", "TestARenewedTokenIsStoredAndTheConnectionStays", false},
		{Grant{Hub, "update", "uniteddeployments/finalizers.apps.kruise.io", "", ""}, owners, "TestTheRolesAreTheLeast", false},
		{Grant{HubOnMember, "create", "persistentvolumeclaims", "", ""}, "a claim that a template names travels", "TestContent", false},
		{Grant{HubOnMember, "get", "persistentvolumeclaims", "", ""}, "a claim that a template names travels", "TestContent", false},
		{Grant{HubOnMember, "patch", "persistentvolumeclaims", "", ""}, "a claim that a template names travels", "TestContent", false},
		{Grant{HubOnMember, "update", "leases.coordination.k8s.io", "underway-system", ""}, "our Lease is renewed each 20 s", "TestLongCopiedHub", true},
		{Grant{HubOnMember, "get", "namespaces", "", ""}, "a write was refused for its namespace: is it there, is it going", "TestNamespaces", true},
		{Grant{HubOnMember, "list", "pods", "", ""}, "the pods of a child that stands still", "TestPodsOfAStuckChild", true},
		{Grant{HubOnMember, "list", "horizontalpodautoscalers.autoscaling", "", ""}, "a child was scaled by an autoscaler", "TestAnAutoscalerThatIsGone", true},
		{Grant{HubOnMember, "create", "podtemplates", "", ""}, "a template is tried; one member of each version is asked", "asks once per minor version, and tells which one refuses", true},
		{Grant{HubOnMember, "create", "serviceaccounts/token", "underway-system", "underway-hub"}, "a token is renewed at half of its life", "TestARenewedTokenIsStoredAndTheConnectionStays", false},
		{Grant{Agent, "get", "clonesets.apps.kruise.io", "", ""}, "the cache stays behind our own write", "TestCacheThatStaysBehind", true},
		{Grant{Agent, "patch", "clonesets.apps.kruise.io", "", ""}, "names that no pod has are taken out of podsToDelete", "TestPodsToDeleteOfAnApplier", false},
		{Grant{Agent, "update", "clonesets/finalizers.apps.kruise.io", "", ""}, owners, "TestTheRolesAreTheLeast", false},
		{Grant{Agent, "update", "statefulsets/finalizers.apps.kruise.io", "", ""}, owners, "TestTheRolesAreTheLeast", false},
		{Grant{Agent, "get", "statefulsets.apps.kruise.io", "", ""}, "the cache stays behind our own write", "TestCacheThatStaysBehind", true},
		{Grant{Agent, "get", "controllerrevisions.apps", "", ""}, "the name of a new revision is taken: whose is it", "TestARevisionNameInTheWayHoldsNothing", true},
		{Grant{Agent, "get", "pods", "", ""}, "a pod of that name exists: whose is it", "TestNameOfAnother", true},
		{Grant{Agent, "patch", "events.events.k8s.io", "", ""}, "an event that is repeated becomes a series", "TestTheRolesAreTheLeast", true},
		{Grant{Agent, "patch", "leases.coordination.k8s.io", "underway-system", ""}, "OpenKruise is alive, and our own Lease says so", "TestPeerActive", false},
		{Grant{Agent, "list", "nodes", "", ""}, "pods are ranked by the topology they are spread over", "TestNodes", false},
		{Grant{Agent, "watch", "nodes", "", ""}, "pods are ranked by the topology they are spread over", "TestNodes", false},
		{Grant{Agent, "create", "persistentvolumeclaims", "", ""}, "claims of a template", "TestRetention", false},
		{Grant{Agent, "delete", "persistentvolumeclaims", "", ""}, "claims go with their pods", "TestRetention", false},
		{Grant{Agent, "get", "persistentvolumeclaims", "", ""}, "a claim of that name exists: whose is it", "TestClaimNameOfAnother", false},
		{Grant{Agent, "patch", "persistentvolumeclaims", "", ""}, "a claim is resized, or gets the owner that takes it along", "TestB091Resize", false},
		{Grant{Agent, "list", "storageclasses.storage.k8s.io", "", ""}, "which claims can be resized", "TestB091Resize", false},
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
