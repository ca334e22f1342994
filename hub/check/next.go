package check

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// How long an answer stands that may change by itself. What an API server says of fields stands as long as its version.
const (
	// retryFailed is for a question that did not come through.
	retryFailed = 10 * time.Second
	// retryRefused is for one that may not be asked, and for a policy's word: people change rules.
	retryRefused = time.Minute
	// retryAway is how often to look whether a member is back.
	retryAway = 2 * time.Second
)

// Key names one answer: a template on a version.
type Key struct {
	Hash, Version string
}

// Outcome is what became of a question.
type Outcome string

// Values of Outcome.
const (
	// OutcomeValid: the API server takes the template.
	OutcomeValid Outcome = "Valid"
	// OutcomeInvalid: it refuses fields of the template.
	OutcomeInvalid Outcome = "Invalid"
	// OutcomeDenied: a policy there refuses this template and takes others.
	OutcomeDenied Outcome = "Denied"
	// OutcomeRefused: it refuses the question: the hub may not ask, a quota, PodTemplates as such.
	OutcomeRefused Outcome = "Refused"
	// OutcomeFailed: no answer.
	OutcomeFailed Outcome = "Failed"
)

// Answer is what is known of a Key.
type Answer struct {
	Outcome Outcome
	// Member that was asked last.
	Member string
	// Text says why; empty for OutcomeValid.
	Text string
	// Dropped fields, for OutcomeValid.
	Dropped []string
	// At is when the answer came.
	At time.Time
	// Tried are the members that could not answer, since the last one that could or since the last time all had been
	// tried.
	Tried []string
}

// After is a given what was known before: members that could not answer add up, and one that may do so later outweighs
// one that refuses.
func (a Answer) After(before Answer) Answer {
	if !a.Outcome.open() {
		return a
	}
	a.Tried = append(slices.Clone(before.Tried), a.Member)
	if before.Outcome == OutcomeFailed {
		a.Outcome, a.Text = before.Outcome, before.Text
	}
	return a
}

// open is true for a question without an answer.
func (o Outcome) open() bool { return o == OutcomeRefused || o == OutcomeFailed }

// Known is what is remembered of an Ask.
type Known struct {
	// Since is when it was first asked.
	Since   time.Time
	Answers map[Key]Answer
	// Busy are the questions on their way.
	Busy map[Key]bool
}

// Probe is a question to put to a member.
type Probe struct {
	Key
	Member   string
	Template Template
	// Anew is true when what was tried before does not count any more.
	Anew bool
}

// Plan is what is to be asked, and what is known.
type Plan struct {
	// Probes in a stable order; those that are busy are not among them.
	Probes []Probe
	// Results by template, then by version.
	Results []Result
	// Keys of all questions that still matter.
	Keys map[Key]bool
	// LookAgainIn is set when a question is to be repeated by then.
	LookAgainIn time.Duration
}

// Next decides what to ask whom.
func Next(ask Ask, members map[string]Member, known Known, now time.Time) Plan {
	p := &pass{ask: ask, members: members, known: known, now: now, out: Plan{Keys: map[Key]bool{}}}
	for i := range ask.Templates {
		p.template(&ask.Templates[i])
	}
	return p.out
}

type pass struct {
	ask     Ask
	members map[string]Member
	known   Known
	now     time.Time
	out     Plan
}

func (p *pass) result(t *Template, version string) *Result {
	p.out.Results = append(p.out.Results, Result{
		Revision: p.ask.Revision, Version: version, Subset: t.Subset, Since: p.known.Since,
	})
	return &p.out.Results[len(p.out.Results)-1]
}

func (p *pass) template(t *Template) {
	if problem := problemOf(t); problem != "" {
		p.result(t, "").Invalid = problem
		return
	}
	if len(t.Members) == 0 {
		r := p.result(t, "")
		r.Unknown, r.Settled = true, true
		return
	}
	versions := p.versions(t)
	if len(versions) == 0 {
		r := p.result(t, "")
		r.Unknown, r.Why = true, "no member that it is for was heard from"
		p.lookAgain(retryAway)
		return
	}
	anyReady := slices.ContainsFunc(slices.Collect(maps.Values(versions)), func(ready []string) bool { return len(ready) > 0 })
	for _, version := range slices.SortedFunc(maps.Keys(versions), byNumber) {
		p.question(t, version, versions[version], anyReady)
	}
}

// versions are the members of the template that can be asked now, by version; one whose members are all away is there,
// empty.
func (p *pass) versions(t *Template) map[string][]string {
	out := map[string][]string{}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(t.Members))) {
		m := p.members[name]
		if m.Version == "" {
			continue
		}
		version := Minor(m.Version)
		ready := out[version]
		if m.Ready {
			ready = append(ready, name)
		}
		out[version] = ready
	}
	return out
}

func (p *pass) question(t *Template, version string, ready []string, anyReady bool) {
	key := Key{t.Hash, version}
	p.out.Keys[key] = true
	r := p.result(t, version)
	answer, answered := p.known.Answers[key]
	if answered {
		r.Member = answer.Member
	}
	switch {
	case answered && answer.Outcome == OutcomeValid:
		r.Dropped = answer.Dropped
		return
	case answered && answer.Outcome == OutcomeInvalid:
		r.Invalid = answer.Text
		return
	case answered && answer.Outcome == OutcomeDenied:
		r.Invalid = answer.Text
	case answered:
		r.Unknown, r.Why = true, answer.Text
		r.Settled = answer.Outcome == OutcomeRefused
	default:
		r.Unknown = true
	}
	if len(ready) == 0 {
		// Those that answer speak for the release; the members of this version are not written to meanwhile either.
		if r.Unknown {
			r.Why, r.Settled = "no member of that version answers", anyReady
			p.lookAgain(retryAway)
		}
		return
	}
	if !p.known.Busy[key] {
		p.askNext(t, key, answer, ready)
	}
}

// askNext puts the question to the next of the members that are ready, or later once more to all.
func (p *pass) askNext(t *Template, key Key, answer Answer, ready []string) {
	if answer.Outcome != OutcomeDenied {
		for _, name := range ready {
			if !slices.Contains(answer.Tried, name) {
				p.out.Probes = append(p.out.Probes, Probe{Key: key, Member: name, Template: *t})
				return
			}
		}
	}
	every := retryRefused
	if answer.Outcome == OutcomeFailed {
		every = retryFailed
	}
	if left := answer.At.Add(every).Sub(p.now); left > 0 {
		p.lookAgain(left)
		return
	}
	p.out.Probes = append(p.out.Probes, Probe{Key: key, Member: ready[0], Template: *t, Anew: true})
}

func (p *pass) lookAgain(in time.Duration) {
	if p.out.LookAgainIn == 0 || in < p.out.LookAgainIn {
		p.out.LookAgainIn = in
	}
}

// Minor is the minor version of a Kubernetes version, whatever a vendor adds to it: "1.33" for "v1.33.1-vnd.12". What
// cannot be read is its own version.
func Minor(version string) string {
	major, rest, ok := number(trimV(version))
	if !ok || rest == "" || rest[0] != '.' {
		return version
	}
	minor, _, ok := number(rest[1:])
	if !ok {
		return version
	}
	return major + "." + minor
}

func trimV(s string) string {
	if s != "" && s[0] == 'v' {
		return s[1:]
	}
	return s
}

// number splits leading digits off.
func number(s string) (digits, rest string, ok bool) {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return s[:n], s[n:], n > 0
}

// byNumber orders 1.9 before 1.10.
func byNumber(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
