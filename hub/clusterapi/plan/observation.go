package plan

import (
	"time"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// Observation is what one pass saw.
type Observation struct {
	// Namespace and Name of the Cluster.
	Namespace, Name string
	// Cluster is nil when there is none as far as can be read.
	Cluster *Cluster
	// ProvenGone is true when a fresh read found no Cluster while Cluster API's CRD is served and is not being deleted.
	ProvenGone bool
	// KindGoing is true when Cluster API's CRD is gone or being deleted: what happens to Clusters then is nobody's wish.
	KindGoing bool
	// Member is the MemberCluster that refers to the Cluster, nil when there is none.
	Member *fleetv1alpha1.MemberCluster
	// OwnLabels are the keys of Member's labels that were copied from the Cluster.
	OwnLabels map[string]bool
	// Taken are the names of all MemberClusters.
	Taken map[string]bool
	// Install is what is known of the hub's account there.
	Install Install
	// Options chosen at install.
	Options Options
}

// Cluster is what matters of a Cluster.
type Cluster struct {
	UID    string
	Labels map[string]string
	// Selected: it carries the label chosen at install.
	Selected bool
	// Paused, Deleting and Initialized are of spec.paused, the deletionTimestamp and the control plane.
	Paused, Deleting, Initialized bool
	Upgrade                       Upgrade
}

// Options chosen at install.
type Options struct {
	// LabelPrefixes of the labels that are copied; empty: all but those of Kubernetes and Cluster API themselves.
	LabelPrefixes []string
	// Version of this hub; Reinstall makes the hub's account anew where another version made it.
	Version   string
	Reinstall bool
}

// Install is what is known of the hub's account on the member.
type Install struct {
	// Source is a digest of the address and the authority in Cluster API's kubeconfig; empty: it was not read now.
	Source string
	// Unusable says why Cluster API's kubeconfig cannot be used.
	Unusable string
	// Stored is true when the hub has a credential, From the Source it was made from, For the UID of the Cluster, By the
	// version that made it.
	Stored        bool
	From, For, By string
	// Refused: the member refuses the stored credential.
	Refused bool
	// Running: the account is being made right now. Failures counts the tries that failed, the last one at Failed for Why.
	Running  bool
	Failures int
	Failed   time.Time
	Why      string
	// Done is when this process last made it; zero: it has not.
	Done time.Time
}

// Decision is what is to be done.
type Decision struct {
	// Create is the name of the MemberCluster to make; empty: none.
	Create string
	// Labels are those that the hub is to own on the MemberCluster; nil: they stay as they are.
	Labels map[string]string
	// Install makes the hub's account on the member, and says why.
	Install string
	// Remove forgets the member: its MemberCluster and its credential. No workload is touched.
	Remove bool
	// Status to write; nil: as it is.
	Status *fleetv1alpha1.MemberClusterStatus
	// LookAgain is when time alone may change the decision; 0: never.
	LookAgain time.Duration
}
