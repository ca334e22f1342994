package revision

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/underway-dev/underway/inplace"
)

const (
	// maxOwner is how long an owner's name may be so that the revision's name is still a label value (63 characters).
	maxOwner = 63 - 1 - HashLength
	// ownerHash is how many characters stand for the rest of a longer one.
	ownerHash = 5
)

// Stored is one ControllerRevision as it is in the cluster.
type Stored struct {
	Name   string
	Number int64
	// Data is ControllerRevision.data, of ours or of OpenKruise.
	Data []byte
}

// History is what Plan decides on.
type History struct {
	// Owner is the name of the workload.
	Owner string
	// Template is the present template, raw.
	Template []byte
	// Existing are the workload's ControllerRevisions, from a read that is known to be complete: an empty list because a
	// cache is not filled yet would make new revisions (B071).
	Existing []Stored
	// Taken are names of ControllerRevisions that are not this workload's: a create answered AlreadyExists.
	Taken []string
	// InUse names the revisions that pods or the status (currentRevision) name. They are never trimmed.
	InUse []string
	// Limit is how many revisions that nobody uses are kept. Negative counts as 0.
	Limit int32
	// CollisionCount is the status'.
	CollisionCount int32
}

// Changes is what is to be written, and the revisions as they are then.
type Changes struct {
	// Update is the revision of the present template.
	Update inplace.Revision
	// Create is the revision to create, nil when the template has one already.
	Create *Stored
	// Renumber is an existing revision that gets a higher number because it is the newest again, nil if none.
	Renumber *Stored
	// Trim names revisions to delete, oldest first.
	Trim []string
	// CollisionCount is to be written to the status.
	CollisionCount int32
	// Revisions are all readable ones that stay, Update among them, oldest first.
	Revisions []inplace.Revision
	// Unreadable names revisions whose data cannot be read. Their pods cannot be changed in place.
	Unreadable []string
}

// Plan finds or makes the revision of the present template and says which old ones may go.
//
// A revision is recognised by content, not by name: one that OpenKruise made, or an older build of ours, is used again.
// A rollback uses the old revision with a higher number. A name taken by other content raises the collision count.
func Plan(h History) (Changes, error) {
	hash, err := Hash(h.Template)
	if err != nil {
		return Changes{}, fmt.Errorf("hashing the template: %w", err)
	}
	p := planning{History: h, taken: map[string]bool{}, changes: Changes{CollisionCount: h.CollisionCount}}
	p.read()
	if err := p.settle(hash); err != nil {
		return Changes{}, err
	}
	p.trim()
	return p.changes, nil
}

// planning is one run of Plan.
type planning struct {
	History
	taken   map[string]bool
	known   []inplace.Revision
	changes Changes
}

// read decodes what exists, oldest first.
func (p *planning) read() {
	for _, name := range p.Taken {
		p.taken[name] = true
	}
	existing := slices.Clone(p.Existing)
	slices.SortFunc(existing, func(a, b Stored) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range existing {
		p.taken[s.Name] = true
		template, err := Decode(s.Data)
		if err != nil {
			p.changes.Unreadable = append(p.changes.Unreadable, s.Name)
			continue
		}
		p.known = append(p.known, inplace.Revision{
			Name: s.Name, Hash: hashOfName(s.Name), Number: s.Number, Template: template,
		})
	}
}

// settle finds the present template among the known revisions, or makes a revision for it.
func (p *planning) settle(hash string) error {
	newest := int64(0)
	for _, s := range p.Existing {
		newest = max(newest, s.Number)
	}
	for i, found := range slices.Backward(p.known) {
		if !Equal(found.Template, p.Template) {
			continue
		}
		if found.Number < newest {
			found.Number = newest + 1
			p.changes.Renumber = &Stored{Name: found.Name, Number: found.Number}
			p.known = append(slices.Delete(p.known, i, i+1), found)
		}
		p.changes.Update = found
		return nil
	}
	return p.make(hash, newest+1)
}

func (p *planning) make(hash string, number int64) error {
	count := p.CollisionCount
	name := Name(p.Owner, withCollisions(hash, count))
	for p.taken[name] {
		count++
		name = Name(p.Owner, withCollisions(hash, count))
	}
	data, err := Encode(p.Template)
	if err != nil {
		return err
	}
	template, err := Decode(data)
	if err != nil {
		return err
	}
	p.changes.CollisionCount = count
	p.changes.Create = &Stored{Name: name, Number: number, Data: data}
	p.changes.Update = inplace.Revision{Name: name, Hash: hashOfName(name), Number: number, Template: template}
	p.known = append(p.known, p.changes.Update)
	return nil
}

// trim drops the oldest unused revisions beyond the limit; unreadable ones that nobody uses go like the others.
func (p *planning) trim() {
	used := map[string]bool{p.changes.Update.Name: true}
	for _, name := range p.InUse {
		used[name] = true
	}
	var unused []string
	for _, name := range slices.Concat(p.changes.Unreadable, names(p.known)) {
		if !used[name] {
			unused = append(unused, name)
		}
	}
	excess := max(len(unused)-int(max(p.Limit, 0)), 0)
	p.changes.Trim = unused[:excess:excess]
	p.changes.Revisions = slices.DeleteFunc(p.known, func(r inplace.Revision) bool {
		return slices.Contains(p.changes.Trim, r.Name)
	})
	p.changes.Unreadable = slices.DeleteFunc(p.changes.Unreadable, func(name string) bool {
		return slices.Contains(p.changes.Trim, name)
	})
}

func names(revisions []inplace.Revision) []string {
	out := make([]string, 0, len(revisions))
	for _, r := range revisions {
		out = append(out, r.Name)
	}
	return out
}

// Name is the name of a ControllerRevision. A long owner is cut, with a hash of the whole, so that the name is a label
// value and two owners that begin alike do not meet.
func Name(owner, hash string) string {
	if len(owner) > maxOwner {
		owner = strings.TrimRight(owner[:maxOwner-1-ownerHash], "-.") + "-" + Short(owner, ownerHash)
	}
	return owner + "-" + hash
}

// hashOfName is what follows the last hyphen: upstream's short hash as well as ours.
func hashOfName(name string) string {
	return name[strings.LastIndex(name, "-")+1:]
}

// envelope is upstream's ControllerRevision data: a strategic merge patch that replaces spec.template.
type envelope struct {
	Spec struct {
		Template json.RawMessage `json:"template"`
	} `json:"spec"`
}

// Encode wraps a raw template as upstream does, so that OpenKruise can read our history. The template is kept as it was
// written: to Kubernetes an empty selector and none are opposites, and pods are made from what is stored here.
func Encode(template []byte) ([]byte, error) {
	value, err := parse(template)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("the template is not an object")
	}
	object["$patch"] = "replace"
	return encode(map[string]any{"spec": map[string]any{"template": object}})
}

// Decode returns the template in a ControllerRevision's data, as it was written and without the patch directive.
func Decode(data []byte) ([]byte, error) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("reading the revision's data: %w", err)
	}
	if len(e.Spec.Template) == 0 {
		return nil, errors.New("the revision's data has no spec.template")
	}
	value, err := parse(e.Spec.Template)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("the revision's spec.template is not an object")
	}
	delete(object, "$patch")
	return encode(object)
}
