package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/check"
)

// checked is false while a release with a new template may not open: members' API servers have not said yet what they
// think of it, or refuse it. What was posted stays posted. The completed template needs no look, nor does one whose
// release is open.
func (p *pass) checked() bool {
	back := p.target == p.was.CurrentRevision
	open := p.was.Release != nil && p.was.Release.Revision == p.target
	if !p.Checker || back || open {
		return true
	}
	ask := p.ask()
	verdict := check.Judge(p.target, p.Checks, p.now)
	switch {
	case len(verdict.Invalid) > 0 && p.was.CurrentRevision == "":
		p.withhold()
		p.out.Ask = ask
		p.status.ObservedGeneration = p.United.Generation
		p.clear(appsv1alpha1.ConditionInvalid)
		p.spoilt = verdict.Invalid
		p.templateInvalid()
		p.sayFields()
		return false
	case len(verdict.Invalid) > 0:
		// What runs goes on: it is scaled, and what is lost of it comes back.
		p.spoilt = verdict.Invalid
		p.out.Ask, p.out.Create, p.out.Renumber, p.out.Trim = ask, nil, nil, nil
		p.status.CollisionCount = p.was.CollisionCount
		return true
	case p.patience(verdict) > 0:
		p.withhold()
		p.out.Ask = ask
		p.lookAgain(p.patience(verdict))
		return false
	}
	for _, w := range verdict.Warnings {
		p.out.Happened = append(p.out.Happened, Event{Warning: true, Reason: "TemplateWarning", Message: w})
	}
	return true
}

// patience is how much longer an answer is waited for. Without any result the time counts from the edit.
func (p *pass) patience(v check.Verdict) time.Duration {
	if slices.ContainsFunc(p.Checks, func(r check.Result) bool { return r.Revision == p.target }) {
		return v.Wait
	}
	return max(0, p.GenerationSeenAt.Add(check.HoldFor).Sub(p.now))
}

// withhold leaves everything as it is.
func (p *pass) withhold() {
	p.out.Keep, p.out.Pushes = true, nil
	p.out.Create, p.out.Renumber, p.out.Trim = nil, nil, nil
	p.status.CollisionCount = p.was.CollisionCount
}

// templateInvalid says so, or takes it back.
func (p *pass) templateInvalid() {
	if len(p.spoilt) == 0 {
		p.clear(appsv1alpha1.ConditionTemplateInvalid)
		return
	}
	message := "nothing of this template is sent until it is corrected: " + strings.Join(p.spoilt, "; ")
	p.set(appsv1alpha1.ConditionTemplateInvalid, "RefusedByAPIServer", message)
	p.setFalse(appsv1alpha1.ConditionReady, "TemplateInvalid", p.spoilt[0])
}

// carryOn grants, below a refused template, what the release before it was granted and the spec still grants. A child that
// does not carry that release is held.
func (p *pass) carryOn(pl *place) {
	was, c := p.was.Release, pl.serving()
	if was == nil || c == nil || pl.held || !p.carries(pl, c, was.Revision) {
		pl.hold("the template is refused")
		return
	}
	switch had := was.Grants[pl.name]; {
	case had >= p.was.SubsetReplicas[pl.name]: // whole
	case had >= pl.replicas: // what is left when it was scaled below its grant is not all that it had
		pl.hold("the release before was granted no more")
	default:
		pl.grantOld(pl.replicas-min(had, pl.grant), "the release before was granted no more")
	}
}

// carriedOn is the release before the refused template: what it grants follows the replicas, and nothing else of it changes.
func (p *pass) carriedOn() *appsv1alpha1.ReleaseStatus {
	was := p.was.Release
	if was == nil {
		return nil
	}
	out := was.DeepCopy()
	for _, pl := range p.places {
		had := out.Grants[pl.name]
		below := pl.held && had > 0 && had >= pl.replicas // it never looks whole again
		if (below || !pl.held) && had != pl.grant {
			out.Grants[pl.name] = pl.grant
			out.Epoch = was.Epoch + 1
		}
	}
	return out
}

// carries is true when a child holds what the place is, or was, given of a revision.
func (p *pass) carries(pl *place, c *Child, name string) bool {
	_, ok := p.book.of([]string{name}, pl.name, held{c.Report.SubsetRevision, c.Report.Kind}, pl.present)
	return ok
}

// ask names the distinct templates of the target, with the members that would get them. A member that takes no workloads
// of the namespace is not shown them either.
func (p *pass) ask() *check.Ask {
	out := &check.Ask{Owner: p.owner(), Revision: p.target}
	at := map[string]int{}
	for _, pl := range p.places {
		i, ok := at[pl.target.revision]
		if !ok {
			i = len(out.Templates)
			at[pl.target.revision] = i
			out.Templates = append(out.Templates, check.Template{
				Hash: pl.target.revision, Subset: pl.name, Field: p.workload.Kind.Template, Pod: pl.target.podWithClaims(),
			})
		}
		member, known := p.Members[pl.cluster]
		if t := &out.Templates[i]; known && member.NotAllowed == "" && !slices.Contains(t.Members, pl.cluster) {
			t.Members = append(t.Members, pl.cluster)
		}
	}
	return out
}

// podWithClaims is the pod template as the workload's controller makes pods of it: with a volume for each claim template,
// in place of one of its name. Without them an API server refuses the mounts. What cannot be read is left as it is.
func (r rendered) podWithClaims() []byte {
	var spec struct {
		VolumeClaimTemplates []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		} `json:"volumeClaimTemplates"`
	}
	var pod map[string]any
	if json.Unmarshal(r.workload.Spec, &spec) != nil || len(spec.VolumeClaimTemplates) == 0 || json.Unmarshal(r.pod, &pod) != nil {
		return r.pod
	}
	podSpec, ok := pod["spec"].(map[string]any)
	if !ok {
		return r.pod
	}
	volumes, _ := podSpec["volumes"].([]any)
	for _, claim := range spec.VolumeClaimTemplates {
		name := claim.Metadata.Name
		volumes = slices.DeleteFunc(volumes, func(v any) bool {
			volume, _ := v.(map[string]any)
			return volume["name"] == name
		})
		volumes = append(volumes, map[string]any{"name": name, "persistentVolumeClaim": map[string]any{"claimName": name}})
	}
	podSpec["volumes"] = volumes
	raw, err := json.Marshal(pod)
	if err != nil {
		return r.pod
	}
	return raw
}
