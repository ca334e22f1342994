package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	travels "github.com/underway-dev/underway/propagation/content"
)

// Travel is what is known of the objects that travel along with a workload: those that its templates name.
type Travel struct {
	// On is false where the hub sends none; nothing is then waited for and what members have stays as it is.
	On bool
	// Kinds are those that the hub sends; the others are neither sent nor waited for.
	Kinds []string
	// Hub has every object that Named lists, by reference without Optional. One that is not in it was not read.
	Hub map[travels.Ref]HubObject
	// Marked are, by member, the objects that carry this owner's mark.
	Marked map[string]Marked
	// Deliveries say what became of what was posted.
	Deliveries map[Target]ContentDelivery
}

// HubObject is an object on the hub as last seen.
type HubObject struct {
	Found bool
	// Excluded says why it never travels; empty when it does.
	Excluded string
	UID      types.UID
	Version  string
	// Needs are what it names itself: the pull secrets of a ServiceAccount.
	Needs []travels.Ref
}

// Marked are an owner's objects on one member.
type Marked struct {
	// Known is false where the hub cannot list them; Settling while it has not listed them yet.
	Known, Settling bool
	Refs            []travels.Ref
}

// ContentDelivery is what became of one content.
type ContentDelivery struct {
	// Posted is the fingerprint of what was posted.
	Posted string
	// Ready is true when it is there; Gone when our mark is off.
	Ready, Gone bool
	// Problem is set where it does not go on by itself.
	Problem Problem
	Message string
	// HeldBy are other owners that keep it as it is.
	HeldBy []string
}

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

// Target of a content.
func (c *Content) Target() Target {
	return Target{Member: c.Member, Kind: c.Ref.Kind, Name: c.Ref.Name}
}

// Fingerprint is equal for contents that want the same.
func (c *Content) Fingerprint() string {
	return fmt.Sprintf("%s %s %s %v", c.Want, c.UID, c.Version, c.Hold)
}
