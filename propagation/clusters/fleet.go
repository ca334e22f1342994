package clusters

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/underway-dev/underway/propagation/render"
)

// Local is the name of the hub's own cluster among the members.
const Local = ""

// State of a connection.
type State string

// Values of State.
const (
	StateConnecting State = "Connecting"
	StateSyncing    State = "Syncing"
	StateReady      State = "Ready"
	// StateDegraded: it was ready and does not answer now; the cache is kept.
	StateDegraded State = "Degraded"
	// StateBlocked: another cluster answers, or the credential is refused; nothing is read or written.
	StateBlocked State = "Blocked"
	StateGone    State = "Gone"
)

// Block says why a member is Blocked or not ready.
type Block string

// Values of Block.
const (
	// BlockIdentityUnstored: first contact was made; the caller must store SeenIdentity and call Ensure with it.
	BlockIdentityUnstored Block = "IdentityUnstored"
	// BlockIdentityChanged: another cluster answers.
	BlockIdentityChanged Block = "IdentityChanged"
	// BlockIdentityTaken: the cluster is already known under the name in View.Message.
	BlockIdentityTaken Block = "IdentityTaken"
	// BlockUnauthorized: the member refuses the credential.
	BlockUnauthorized Block = "Unauthorized"
	// BlockUnreachable: it does not answer.
	BlockUnreachable Block = "Unreachable"
)

// Config is how to reach a member. Ensure starts the connection anew when it changes.
type Config struct {
	// REST is the result of ParseKubeconfig.
	REST *rest.Config
	// Identity is the stored UID of the member's kube-system namespace; empty before the first contact is stored.
	Identity string
}

// Intervals of a fleet; zero values are the defaults.
type Intervals struct {
	// Probe is the time between two looks at /readyz and the identity (10 s), ProbeTimeout the limit of one (5 s).
	Probe, ProbeTimeout time.Duration
	// Request is the limit of any other request, answer and all (15 s); a watch must begin in it, a list of children may take
	// Sync.
	Request time.Duration
	// Sync is how long the first list of a kind's children may take (2 min): a watch that has not begun by then is thrown
	// away and begun anew, and so is the whole connection while no kind is read.
	Sync time.Duration
	// Discovery is the time between two looks at the served kinds and their reconcilers (30 s).
	Discovery time.Duration
	// Lease is the time between two renewals of our Lease (20 s), LeaseExpiry the age at which another's is taken over
	// (60 s).
	Lease, LeaseExpiry time.Duration
	// BackoffMin and BackoffMax bound the wait between two attempts to connect (1 s, 5 min), with jitter.
	BackoffMin, BackoffMax time.Duration
}

// Options of a fleet.
type Options struct {
	// HubID is 16 hex digits, see HubID.
	HubID string
	// LocalIdentity is the UID of the hub's own kube-system namespace: no member may be that cluster, whose children would
	// then be seen, and deleted, under two names. Empty: not checked.
	LocalIdentity string
	// Holder is this process in the Leases, unique per process.
	Holder string
	// Local reaches the hub's own cluster.
	Local *rest.Config
	// Kinds that can be asked for; those that Use, Child or Children name are watched. Default render.Kinds.
	Kinds []render.Kind
	// Clock, default the real one.
	Clock clock.WithTicker
	// Leading is a quorum read of our own leader Lease on the hub: nil is always true.
	Leading func(ctx context.Context) (bool, error)
	// Registerer gets the request counters; nil for none.
	Registerer prometheus.Registerer
	Intervals  Intervals
}

// Reconciler is who reconciles a kind on a member.
type Reconciler string

// Values of Reconciler.
const (
	ReconcilerUnderway   Reconciler = "Underway"
	ReconcilerOpenKruise Reconciler = "OpenKruise"
	ReconcilerKubernetes Reconciler = "Kubernetes"
	ReconcilerNobody     Reconciler = "Nobody"
	ReconcilerUnknown    Reconciler = "Unknown"
)

// KindView is one workload kind of a member.
type KindView struct {
	GVK schema.GroupVersionKind
	// Served says whether the member has the kind, Synced whether the cache holds its children.
	Served, Synced bool
	// Message says why the children of a kind in use are not read yet, once anything went wrong; it does not change from try
	// to try.
	Message string
	// Refused says why the hub may not read the kind there, as after a join by a version that did not know it; empty when it
	// may. Such a kind is not synced and holds up no other.
	Refused    string
	Reconciler Reconciler
	// Version of the reconciler, where it is Underway and says so on its Lease (label app.kubernetes.io/version).
	Version string
}

// View is a member as last seen.
type View struct {
	Name  string
	State State
	// Block and Message say why it is not Ready.
	Block   Block
	Message string
	// Untrusted is true, with BlockUnreachable, where what answers has a certificate that is not trusted.
	Untrusted bool
	// Synced is true once every served kind in use that the hub may read was in the cache; it stays true when another kind
	// comes into use. KindView.Synced tells of one.
	Synced bool
	// Reachable is true while the probe is answered; LastHeard is the last answer.
	Reachable bool
	LastHeard time.Time
	// Server is the address, Version the member's Kubernetes version.
	Server, Version string
	// Identity is the stored one, SeenIdentity the one that answers.
	Identity, SeenIdentity string
	// Memory counts the times that everything known of the member was dropped (a restored etcd, a new configuration).
	Memory int64
	Kinds  []KindView
	// TwoHubs is true when another hub with our id writes to the member; OtherHolder names it.
	TwoHubs     bool
	OtherHolder string
}

// Event says that something of a member changed.
type Event struct {
	Member string
	// Owner is the UnitedDeployment whose child changed; zero: the member's own state changed, which concerns every
	// owner with a child there and the MemberCluster.
	Owner types.NamespacedName
	// GVK and Object name the child; zero for a change of state.
	GVK    schema.GroupVersionKind
	Object types.NamespacedName
}
