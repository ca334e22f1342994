package plan

import (
	"k8s.io/apimachinery/pkg/types"

	travels "github.com/underway-dev/underway/propagation/content"
)

// Content is what is wanted of one ConfigMap, Secret, ServiceAccount or claim on one member.
type Content struct {
	Member string
	Ref    travels.Ref
	Want   ContentWant
	// UID and Version are those of the hub's object, for ContentApplied.
	UID     types.UID
	Version string
	// Hold keeps what the member has: a release has not come to a subset there yet. What is missing is made all the same.
	Hold bool
}

// ContentWant is what is wanted of an object that travels along.
type ContentWant string

// Values of ContentWant.
const (
	// ContentApplied: it is there as on the hub, with our mark.
	ContentApplied ContentWant = "Applied"
	// ContentPresent: it is to be there; whose it is does not matter and it is not touched.
	ContentPresent ContentWant = "Present"
	// ContentReleased: our mark is taken off; the object goes when it was the last one.
	ContentReleased ContentWant = "Released"
	// ContentLetGo: our mark is taken off and the object stays.
	ContentLetGo ContentWant = "LetGo"
)
