// Package join is `kubectl underway join`: it makes a cluster a member of the fleet.
//
// Two clusters are talked to. --kubeconfig and --context are the member's, with an administrator's rights, used once and
// stored nowhere; the hub is $KUBECONFIG's current context, or --hub-kubeconfig and --hub-context.
package join
