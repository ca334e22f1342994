package plan

import (
	"fmt"
	"strings"
	"unicode"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// polish finishes the entries of the subsets when all is decided: what pods suffer, what is left behind, since when each
// state lasts, and that all of them together fit into the object.
func (p *pass) polish() {
	for i, pl := range p.places {
		p.leftBehind(pl)
		p.failing(pl)
		if s := &p.status.SubsetStatuses[i]; s.Name == pl.name && s.Cluster == pl.cluster {
			*s = *pl.entry
			pl.entry = s
		}
	}
	limit := textLimit(len(p.status.SubsetStatuses))
	for i := range p.status.SubsetStatuses {
		e := &p.status.SubsetStatuses[i]
		if e.State == stateLeaving {
			e.Failing = nil
		}
		bound(e, limit)
		p.since(e)
	}
}

// leftBehind is a place whose MemberCluster does not exist: its numbers are nobody's any more, and what is left is named.
// Deleting a MemberCluster deletes no workload.
func (p *pass) leftBehind(pl *place) {
	if _, known := p.Members[pl.cluster]; known {
		return
	}
	e := pl.entry
	e.Replicas, e.ReadyReplicas, e.UpdatedReplicas, e.UpdatedReadyReplicas = 0, 0, 0, 0
	e.Report, e.Failing, e.Stale, e.HeardAt = nil, nil, false, nil
	if e.Workload == "" {
		return
	}
	e.Message = fmt.Sprintf("MemberCluster %s does not exist any more, and %s %s stays there as it is; take the subset out of spec.topology, or join the member again: kubectl underway join %s --kubeconfig FILE",
		pl.cluster, e.Kind, e.Workload, pl.cluster)
}

// behindMessage is what condition LeftBehind says.
func (p *pass) behindMessage() string {
	return p.where(func(pl *place) string {
		if _, known := p.Members[pl.cluster]; known || pl.entry.Workload == "" {
			return ""
		}
		return pl.entry.Message
	})
}

// since keeps the time at which the present state began. Waiting is a word for several things, so its message counts, too,
// without the numbers in it.
func (p *pass) since(e *appsv1alpha1.SubsetStatus) {
	if i, ok := p.entries[site{e.Name, e.Cluster}]; ok {
		was := &p.was.SubsetStatuses[i]
		same := was.State == e.State && (e.State != stateWaiting || numberless(was.Message) == numberless(e.Message))
		if same && was.Since != nil {
			e.Since = was.Since
			return
		}
	}
	e.Since = second(p.now)
}

func numberless(message string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, message)
}

// Bounds of the text in the status. The object, its spec and this status included, must fit into what etcd takes in one
// write (1.5 MiB by default): all texts of all subsets together stay below textBudget, and the counts of a subset, its
// conditions and its places in the maps beside take about 700 bytes where names are as long as they may be.
const (
	textBudget = 160 << 10
	// leastText holds the words of the commonest messages; mostText is for objects of few subsets.
	leastText, mostText = 128, 2048
	// roomy is from how much text on a subset has several problems with names of pods; below, the first one without names.
	roomy = 1024
)

// textLimit is how many bytes of text each of n subsets may have.
func textLimit(n int) int {
	return min(mostText, max(leastText, textBudget/max(n, 1)))
}

// bound cuts the texts of one entry to the limit: half of it for the message, which loses words in front of its command
// and not the command, and half for the problems of pods.
func bound(e *appsv1alpha1.SubsetStatus, limit int) {
	problems := 0
	if e.Report != nil {
		r := *e.Report
		r.Broken = nil // Failing has it
		r.Refused = boundProblems(r.Refused, limit)
		if limit < roomy {
			r.Refused = nil // the message has it
		}
		problems += sizeOf(r.Refused)
		e.Report = &r
	}
	e.Failing = boundProblems(e.Failing, limit)
	problems += sizeOf(e.Failing)
	e.Message = shorten(e.Message, limit-problems)
}

// Lean takes all texts off the subsets of a status that did not fit into its object all the same: states, numbers and the beginnings of conditions stay.
func Lean(s *appsv1alpha1.UnitedDeploymentStatus) {
	for i := range s.SubsetStatuses {
		e := &s.SubsetStatuses[i]
		e.Message, e.Failing, e.Report = "", nil, nil
	}
	for i := range s.Conditions {
		s.Conditions[i].Message = cut(s.Conditions[i].Message, leanMessage)
	}
}

// leanMessage is what is left of a condition's message in a lean status.
const leanMessage = 256

// boundProblems keeps as many problems, each with as many words and names of pods, as fit into a quarter of the limit.
func boundProblems(list []appsv1alpha1.PodProblem, limit int) []appsv1alpha1.PodProblem {
	var out []appsv1alpha1.PodProblem
	most, named, left := maxFailing, maxNamed, limit/4 //nolint:mnd // two such lists are half of the text
	if limit < roomy {
		most, named = 1, 0
	}
	for _, x := range list[:min(len(list), most)] {
		if len(out) > 0 && left < len(x.Reason)+len(x.Message) {
			break
		}
		x.Message = cut(x.Message, max(left-len(x.Reason), shortest))
		left -= len(x.Reason) + len(x.Message)
		var names []string
		for _, name := range x.Pods[:min(len(x.Pods), named)] {
			if left -= len(name); left < 0 {
				break
			}
			names = append(names, name)
		}
		x.Count = max(x.Count, int32(len(x.Pods))) //nolint:gosec // a list of at most ten
		x.Pods = names
		out = append(out, x)
	}
	return out
}

// shortest is the least that is left of a text.
const shortest = 48

func sizeOf(list []appsv1alpha1.PodProblem) int {
	n := 0
	for i := range list {
		n += len(list[i].Reason) + len(list[i].Message)
		for _, name := range list[i].Pods {
			n += len(name)
		}
	}
	return n
}

// shorten cuts a message in front of the command that ends it. A command that does not fit alone is left out whole: half a
// command is worse than none.
func shorten(message string, limit int) string {
	if len(message) <= limit {
		return message
	}
	words, command, found := strings.Cut(message, commandIn)
	if room := limit - len(commandIn) - len(command); found && room >= shortest {
		return cut(words, room) + commandIn + command
	}
	return cut(words, max(limit, shortest))
}

// cut shortens text to at most limit bytes, on a character's border.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, limit-len(ellipsis))], "") + ellipsis
}

const ellipsis = " ..."
