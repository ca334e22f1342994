package inplace

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Claim is what was seen of one PersistentVolumeClaim. Its metadata is enough for it.
type Claim struct {
	Ref

	// ID is the label apps.kruise.io/cloneset-instance-id: the id of the pod it belongs to.
	ID string
	// Template is the hash of the claim template it was made from; empty where that is not known (OpenKruise made it).
	Template string
	// Owner is the UID of its controller, empty without one.
	Owner types.UID
	// Terminating: it is being deleted; a pod that still uses it holds it.
	Terminating bool
	// Created is by the API server's clock.
	Created time.Time
}
