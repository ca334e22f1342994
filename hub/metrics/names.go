package metrics

import "github.com/prometheus/client_golang/prometheus"

// descriptions of everything that is collected.
type descriptions struct {
	memberReady, memberState, reportAge, credentialExpiry *prometheus.Desc
	depth, items, writes, refusals, stopped               *prometheus.Desc
	united, subset                                        numbers
	unitedReady, unitedStale, subsetStale, left           *prometheus.Desc
}

// numbers are the counts that a UnitedDeployment and each of its subsets have.
type numbers struct {
	desired, replicas, granted, updated, unavailable *prometheus.Desc
}

func describe() descriptions {
	member := []string{"member"}
	united := []string{"namespace", "uniteddeployment"}
	subset := []string{"namespace", "uniteddeployment", "subset", "member"}
	return descriptions{
		memberReady: desc("member_ready", "1 while the hub pushes to and hears from the member, else 0.", member),
		memberState: desc("member_state", "1 for the present state of the connection to the member.", []string{"member", "state"}),
		reportAge:   desc("member_report_age_seconds", "Seconds since the member last answered; absent while it never has.", member),
		credentialExpiry: desc("member_credential_expiry_timestamp_seconds",
			"Unix time at which the credential of the member ends; absent where it does not say.", member),
		depth: desc("outbox_depth", "Objects of the member that are not as they are wanted, whatever they wait for; member is empty for the hub's own cluster.", member),
		items: desc("outbox_items", "Objects of all members, by the state they are in.", []string{"state"}),
		writes: desc("outbox_writes_total", "Writes that the member accepted since the hub started, by operation.",
			[]string{"member", "operation"}),
		refusals: desc("outbox_refusals_total", "Times that an object of the member came into a state in which it is not taken, by state.",
			[]string{"member", "reason"}),
		stopped: desc("writes_stopped", "1 while all writes to all members are stopped for the reason, until a person confirms.",
			[]string{"reason"}),
		united:      numbersOf("uniteddeployment", "all subsets of the UnitedDeployment", united),
		subset:      numbersOf("subset", "the subset", subset),
		unitedReady: desc("uniteddeployment_ready", "1 while condition Ready of the UnitedDeployment is True, else 0; absent while it has none.", united),
		unitedStale: desc("uniteddeployment_stale_subsets", "Subsets of the UnitedDeployment whose numbers are old, because their member is not heard from.", united),
		subsetStale: desc("subset_stale", "1 while the numbers of the subset are old, because its member is not heard from, else 0.", subset),
		left:        desc("subsets_left_out", "Subsets without series of their own, because there are more than the limit.", nil),
	}
}

func numbersOf(of, what string, labels []string) numbers {
	return numbers{
		desired:     desc(of+"_desired_replicas", "Replicas allotted to "+what+".", labels),
		replicas:    desc(of+"_replicas", "Pods of "+what+", as last heard.", labels),
		granted:     desc(of+"_granted_replicas", "Pods of "+what+" that may be on the new revision.", labels),
		updated:     desc(of+"_updated_replicas", "Pods of "+what+" that are proven to run the new revision.", labels),
		unavailable: desc(of+"_unavailable_replicas", "Replicas allotted to "+what+" that are not ready.", labels),
	}
}

func desc(name, help string, labels []string) *prometheus.Desc {
	return prometheus.NewDesc("underway_hub_"+name, help, labels, nil)
}

// each calls fn for every description.
func (d descriptions) each(fn func(*prometheus.Desc)) {
	for _, one := range []*prometheus.Desc{
		d.memberReady, d.memberState, d.reportAge, d.credentialExpiry, d.depth, d.items, d.writes, d.refusals, d.stopped,
		d.unitedReady, d.unitedStale, d.subsetStale, d.left,
	} {
		fn(one)
	}
	for _, n := range []numbers{d.united, d.subset} {
		for _, one := range []*prometheus.Desc{n.desired, n.replicas, n.granted, n.updated, n.unavailable} {
			fn(one)
		}
	}
}
