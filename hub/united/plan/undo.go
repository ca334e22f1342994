package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace/revision"
)

// Undoing is how a spec goes back to a stored revision.
type Undoing struct {
	// To is the revision; Nothing is true when the spec is it already.
	To      Past
	Nothing bool
	// Patch is the JSON patch (RFC 6902) of the UnitedDeployment, which fails when its spec has changed since it was read.
	Patch []byte
	// Changes are what differs, one line each; Says is what will happen, one sentence each.
	Changes, Says []string
}

// overrideFields are the fields of a subset that belong to a revision.
func overrideFields() []string {
	return []string{"nodeSelectorTerm", "nodeSelector", "tolerations", "patch"}
}

// Known is what a spec had when a revision was last its own: the names of its subsets, and the TemplateKeys of its templates
// of subsets. Nil: not known, as of a revision that an older build wrote.
type Known struct{ Subsets, Templates []string }

// TemplateKeys are the keys of the selectors of an object's templates of subsets, in order, without those that cannot be read.
// A key is the same wherever its template stands.
func TemplateKeys(ud *appsv1alpha1.UnitedDeployment) []string {
	selectors, _ := readSelectors(ud.Spec.Topology.SubsetTemplates)
	keys := make([]string, len(selectors))
	for i := range selectors {
		keys[i] = selectors[i].key
	}
	return keys
}

// IsSpec is true when the stored data of a revision is what the spec of ud says now. What cannot be read is not.
func IsSpec(ud *appsv1alpha1.UnitedDeployment, data []byte) bool {
	selectors, invalid := readSelectors(ud.Spec.Topology.SubsetTemplates)
	now, err := json.Marshal(contentOf(&ud.Spec, selectors))
	if err != nil || len(invalid) > 0 {
		return false
	}
	stored, err := revision.Decode(data)
	return err == nil && revision.Equal(stored, now)
}

// Undo writes spec.template and the overrides of a stored revision back. raw is the UnitedDeployment as the API server
// answered it, and ud the same, typed. Number 0 means the one before: the completed revision while a release is under way,
// else the one with the next lower number. known is by the name of a revision; a subset, or a template of subsets, that is
// newer keeps its overrides.
func Undo(ud *appsv1alpha1.UnitedDeployment, raw []byte, stored []revision.Stored, number int64, known map[string]Known) (Undoing, error) {
	list := HistoryOf(ud, stored)
	to, err := pick(ud, list, number)
	if err != nil {
		return Undoing{}, err
	}
	out := Undoing{To: *to}
	if to.Unreadable != "" {
		return out, fmt.Errorf("revision %d (%s) cannot be read: %s", to.Number, to.Name, to.Unreadable)
	}
	var there struct {
		Spec struct {
			Template json.RawMessage `json:"template"`
			Topology struct {
				Subsets         []map[string]json.RawMessage `json:"subsets"`
				SubsetTemplates []map[string]json.RawMessage `json:"subsetTemplates"`
			} `json:"topology"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &there); err != nil {
		return out, fmt.Errorf("reading the UnitedDeployment: %w", err)
	}
	u := undoing{ud: ud, to: to, known: known[to.Name]}
	if err := u.gone(); err != nil {
		return out, err
	}
	if !revision.Equal(there.Spec.Template, to.Template) {
		u.op("replace", "/spec/template", to.Template)
		u.changes = append(u.changes, u.templateChanges(there.Spec.Template)...)
	}
	for i, s := range there.Spec.Topology.Subsets {
		name := ud.Spec.Topology.Subsets[i].Name
		wanted, has := to.Overrides[name]
		if !has && younger(u.known.Subsets, name) {
			u.keep("subset "+name, s)
			continue
		}
		u.overrides(fmt.Sprintf("/spec/topology/subsets/%d/", i), "subset "+name, s, wanted)
	}
	for i, s := range there.Spec.Topology.SubsetTemplates {
		u.selected(i, s)
	}
	out.Changes = u.changes
	if len(u.ops) == 0 {
		out.Nothing = true
		return out, nil
	}
	out.Says = slices.Concat(u.says, u.forecast())
	out.Patch, err = u.patch()
	return out, err
}

// pick finds the revision to go back to.
func pick(ud *appsv1alpha1.UnitedDeployment, list []Past, number int64) (*Past, error) {
	if ud.DeletionTimestamp != nil {
		return nil, fmt.Errorf("%s is being deleted", ud.Name)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no stored revision: has the hub seen it?", ud.Name)
	}
	if number != 0 {
		if at := slices.IndexFunc(list, func(x Past) bool { return x.Number == number }); at >= 0 {
			return &list[at], nil
		}
		numbers := make([]string, len(list))
		for i := range list {
			numbers[i] = fmt.Sprint(list[i].Number)
		}
		return nil, fmt.Errorf("--to-revision %d: there is no such revision, there are %s (older ones are trimmed, spec.revisionHistoryLimit)", number, strings.Join(numbers, ", "))
	}
	if ud.Status.ObservedGeneration != ud.Generation {
		return nil, fmt.Errorf("the hub has not seen the latest change of %s yet, so which revision is the one before is not known: say --to-revision", ud.Name)
	}
	if ud.Status.CurrentRevision != ud.Status.UpdatedRevision {
		if at := slices.IndexFunc(list, func(x Past) bool { return x.Completed }); at >= 0 {
			return &list[at], nil
		}
	}
	at := slices.IndexFunc(list, func(x Past) bool { return x.Spec })
	if at < 0 || at+1 >= len(list) {
		return nil, fmt.Errorf("%s has no revision before the present one", ud.Name)
	}
	return &list[at+1], nil
}

// undoing is one run of Undo.
type undoing struct {
	ud      *appsv1alpha1.UnitedDeployment
	to      *Past
	known   Known
	ops     []operation
	changes []string
	says    []string
	// kept is true when something newer than the revision overrides fields: the spec is then no stored revision.
	kept bool
}

// operation is one of RFC 6902.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

func (u *undoing) op(op, path string, value json.RawMessage) {
	u.ops = append(u.ops, operation{Op: op, Path: path, Value: value})
}

// younger is true for what the revision is known to be older than.
func younger(known []string, name string) bool { return known != nil && !slices.Contains(known, name) }

// keep leaves a subset, or a template of subsets, that is newer than the revision what it overrides.
func (u *undoing) keep(whose string, there map[string]json.RawMessage) {
	if slices.ContainsFunc(overrideFields(), func(field string) bool { return there[field] != nil }) {
		u.kept = true
		u.says = append(u.says, whose+" is newer than the revision and keeps what it overrides")
	}
}

// selected makes the fields of a template of subsets what the revision has for its selector, wherever it stood then. One
// whose selector cannot be read is in no revision.
func (u *undoing) selected(i int, there map[string]json.RawMessage) {
	read, _ := readSelectors(u.ud.Spec.Topology.SubsetTemplates[i : i+1])
	if len(read) == 0 {
		return
	}
	whose := fmt.Sprintf("template of subsets %d", i)
	wanted, has := u.to.Selected[read[0].key]
	if !has && younger(u.known.Templates, read[0].key) {
		u.keep(whose, there)
		return
	}
	u.overrides(fmt.Sprintf("/spec/topology/subsetTemplates/%d/", i), whose, there, wanted)
}

// gone refuses a revision that says something of subsets that the spec has not.
func (u *undoing) gone() error {
	present := presentOverrides(u.ud)
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(u.to.Overrides)) {
		if _, ok := present[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("revision %d has overrides for %s, which spec.topology.subsets has no more: put the subset back first, or apply the template by hand (kubectl underway history ud %s -n %s --revision %d)",
			u.to.Number, strings.Join(missing, ", "), u.ud.Name, u.ud.Namespace, u.to.Number)
	}
	selectors, _ := readSelectors(u.ud.Spec.Topology.SubsetTemplates)
	for key := range u.to.Selected {
		if !slices.ContainsFunc(selectors, func(s selector) bool { return s.key == key }) {
			return fmt.Errorf("revision %d has overrides for a template of subsets whose selector spec.topology.subsetTemplates has no more: put it back first, or apply the template by hand",
				u.to.Number)
		}
	}
	return nil
}

// overrides makes the fields of one subset what the revision has.
func (u *undoing) overrides(at, whose string, there, wanted map[string]json.RawMessage) {
	for _, field := range overrideFields() {
		was, has := there[field]
		value, wants := wanted[field]
		switch {
		case wants && (!has || !revision.Equal(wrap(was), wrap(value))):
			u.op("add", at+field, value)
			u.changes = append(u.changes, fmt.Sprintf("%s: %s as the revision has it", whose, field))
		case !wants && has:
			u.op("remove", at+field, nil)
			u.changes = append(u.changes, fmt.Sprintf("%s: %s goes", whose, field))
		}
	}
}

// wrap makes any value comparable as an object.
func wrap(raw json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"v":%s}`, raw)
}

// patch is the operations behind two tests: the object is the one that was read, and so is its spec. The status may have
// moved on: it does so every second in mid-release, when somebody most wants to go back.
func (u *undoing) patch() ([]byte, error) {
	uid, err := json.Marshal(u.ud.UID)
	if err != nil {
		return nil, fmt.Errorf("writing the UID: %w", err)
	}
	tests := []operation{
		{Op: "test", Path: "/metadata/uid", Value: uid},
		{Op: "test", Path: "/metadata/generation", Value: fmt.Appendf(nil, "%d", u.ud.Generation)},
	}
	raw, err := json.Marshal(append(tests, u.ops...))
	if err != nil {
		return nil, fmt.Errorf("writing the patch: %w", err)
	}
	return raw, nil
}

// templateChanges names the images that change, or that something else does.
func (u *undoing) templateChanges(there json.RawMessage) []string {
	now := Past{}
	if err := now.read(fmt.Appendf(nil, `{"template":%s}`, there)); err != nil {
		return []string{"spec.template as the revision has it"}
	}
	var out []string
	if now.Kind != u.to.Kind {
		out = append(out, fmt.Sprintf("kind: %s -> %s", now.Kind, u.to.Kind))
	}
	for _, to := range u.to.Images {
		at := slices.IndexFunc(now.Images, func(i Image) bool { return i.Container == to.Container })
		switch {
		case at < 0:
			out = append(out, fmt.Sprintf("container %s: comes back with image %s", to.Container, to.Image))
		case now.Images[at].Image != to.Image:
			out = append(out, fmt.Sprintf("container %s: image %s -> %s", to.Container, now.Images[at].Image, to.Image))
		}
	}
	for _, was := range now.Images {
		if !slices.ContainsFunc(u.to.Images, func(i Image) bool { return i.Container == was.Container }) {
			out = append(out, fmt.Sprintf("container %s: goes", was.Container))
		}
	}
	if len(out) == 0 {
		out = append(out, "spec.template: fields other than images")
	}
	return out
}

// forecast says what the hub will do.
func (u *undoing) forecast() []string {
	var out []string
	if u.to.Kind != "" && slices.ContainsFunc(u.ud.Status.SubsetStatuses, func(e appsv1alpha1.SubsetStatus) bool { return e.Kind != "" && e.Kind != u.to.Kind }) {
		out = append(out, fmt.Sprintf("where the child is of another kind, a %s is made beside it, and the old child goes when that is ready", u.to.Kind))
	}
	if u.kept {
		return append(out, "with what the newer ones override the spec is a revision of its own, so going there is a release: "+u.partitions())
	}
	if u.to.Completed {
		var moved []string
		for i := range u.ud.Status.SubsetStatuses {
			if e := &u.ud.Status.SubsetStatuses[i]; !slices.Contains(u.to.Subsets, e.Name) && e.Revision != "" {
				moved = append(moved, e.Name)
			}
		}
		back := "no subset holds another one"
		if len(moved) > 0 {
			back = fmt.Sprintf("%s go back at once, whatever the partitions say, bounded by the template's maxUnavailable", strings.Join(moved, ", "))
		}
		return append(out, "this is the completed revision, so going back to it is no release: "+back)
	}
	return append(out, "this is not the completed revision, so going to it is a release: "+u.partitions())
}

// partitions says in words what they let go.
func (u *undoing) partitions() string {
	strategy := &u.ud.Spec.UpdateStrategy
	if strategy.Type == appsv1alpha1.StagedUpdateType {
		return "its policy grants it"
	}
	manual := strategy.ManualUpdate
	if manual == nil {
		manual = &appsv1alpha1.ManualUpdate{}
	}
	p := &pass{Observation: Observation{United: u.ud}}
	var parts []string
	for i := range u.ud.Status.SubsetStatuses {
		name := u.ud.Status.SubsetStatuses[i].Name
		value, named := manual.Partitions[name]
		switch {
		case named && none(value):
			parts = append(parts, name+" moves at once")
		case named:
			parts = append(parts, fmt.Sprintf("%s keeps %s back", name, value.String()))
		case manual.Partition != nil:
			parts = append(parts, fmt.Sprintf("%s keeps its share of %s back", name, manual.Partition.String()))
		case manual.Unnamed == appsv1alpha1.UnnamedHold || (manual.Unnamed == "" && p.fleet()):
			parts = append(parts, name+" is held until partitions names it")
		default:
			parts = append(parts, name+" moves at once")
		}
	}
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("and %d more", len(parts)-most))
	}
	return strings.Join(parts, ", ")
}

// most is how many subsets are told one by one.
const most = 10
