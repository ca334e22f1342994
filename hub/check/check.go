package check

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Ask is what is to be known about one revision of a UnitedDeployment.
type Ask struct {
	// Owner is the UnitedDeployment; the templates are looked at in its namespace.
	Owner types.NamespacedName
	// Revision is the name of the ControllerRevision.
	Revision string
	// Templates are the distinct templates that the subsets render from it.
	Templates []Template
}

// Template is one rendered pod template.
type Template struct {
	// Hash tells templates apart: the subset revision.
	Hash string
	// Subset is the first subset that renders it, for messages.
	Subset string
	// Field is the template's field of spec.template, such as "cloneSetTemplate".
	Field string
	// Members that may get it; "" is the hub's own cluster. None: there is nobody to ask, and nobody is waited for.
	Members []string
	// Pod is the pod template as raw JSON, with the subset's overlay.
	Pod []byte
}

// Member is a cluster that can be asked.
type Member struct {
	// Ready is true while it answers; only then it is asked.
	Ready bool
	// Version is its Kubernetes version as it tells it ("v1.37.2"); empty: not known yet.
	Version string
}

// Result is what is known of one template on one version.
type Result struct {
	// Revision is the Ask's.
	Revision string
	// Version is the Kubernetes minor version, such as "1.37"; empty while no member's version is known.
	Version string
	// Subset is the template's; Member the one that answered, if one did.
	Subset, Member string
	// Invalid says which fields the API server refuses and why; empty: it refuses none, or it is not known.
	Invalid string
	// Unknown is true while there is no answer; Why says what is in the way, empty while the answer is on its way.
	Unknown bool
	Why     string
	// Settled is true for an Unknown that waiting does not change: the one to ask refuses the question.
	Settled bool
	// Since is when the template was first asked about.
	Since time.Time
	// Dropped are the fields of the template, as the user wrote them, that an API server of this version does not keep.
	Dropped []string
}

// HoldFor is how long a release waits for an answer that does not come.
const HoldFor = 30 * time.Second

// Verdict is what the results of a revision come to.
type Verdict struct {
	// Invalid are the refusals, sorted; not empty: the release must not open.
	Invalid []string
	// Wait is how long to wait for answers before the release opens without them; 0: do not wait.
	Wait time.Duration
	// Warnings are what a person should know of a template that is not refused: fields that a version drops, and what
	// could not be looked at.
	Warnings []string
}
