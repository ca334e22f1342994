// Package hubinit is `kubectl underway init`: it puts CRDs, namespace and account on the hub.
package hubinit
