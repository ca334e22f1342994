// Package unjoin is `kubectl underway unjoin`: it takes a cluster out of the fleet. As in join, --kubeconfig is the
// member's, and the hub is $KUBECONFIG's current context or --hub-kubeconfig.
package unjoin
