package screen

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Changes are the lines for what differs between two looks at one UnitedDeployment, for outputs that are no terminal:
// one per subset that changed, and one for the whole when its numbers did, which ends with the command that moves it on.
// A nil before yields all of them.
//
//	14:02:10 ud=shop/web subset=eu member=eu-1 state=Held granted=2/8 updated=2 ready=8 inPlace=2 why="6 pods stay"
//	14:02:10 ud=shop/web state=Held rev=9c1e2 granted=2/24 updated=2 ready=24 inPlace=2 recreated=0 why=Held next: kubectl ...
func Changes(before *Tree, t Tree, at time.Time) []string {
	stamp := at.Format(time.TimeOnly)
	old := map[string]Row{}
	if before != nil {
		for _, r := range before.Rows {
			old[r.Subset] = r.ageless()
		}
	}
	var out []string
	name := t.Namespace + "/" + t.Name
	for _, r := range t.Rows {
		if was, known := old[r.Subset]; known && was == r.ageless() {
			continue
		}
		out = append(out, fmt.Sprintf("%s ud=%s %s", stamp, name, r.line()))
	}
	if before == nil || before.summary() != t.summary() {
		out = append(out, fmt.Sprintf("%s ud=%s %s", stamp, name, t.summary()))
	}
	return out
}

// ageless is the row without what only time changes.
func (r Row) ageless() Row {
	r.Since = ""
	if r.Heard != "" {
		r.Why = strings.TrimPrefix(r.Why, "numbers are "+r.Heard+" old")
		r.Heard = "stale"
	}
	return r
}

func (r Row) line() string {
	text := fmt.Sprintf("subset=%s member=%s state=%s granted=%s updated=%d ready=%d inPlace=%s",
		r.Subset, r.Member, r.State, r.granted(), r.Updated, r.Ready, r.InPlace)
	if why := withoutCommand(r.Why); why != "" {
		text += " why=" + strconv.Quote(why)
	}
	return text
}

func (t Tree) summary() string {
	text := fmt.Sprintf("state=%s rev=%s granted=%d/%d updated=%d ready=%d inPlace=%d recreated=%d",
		t.State, t.To, t.Granted, t.Desired, t.Updated, t.Ready, t.InPlace, t.Recreated)
	if t.Frozen != nil {
		text += " frozen=" + strconv.Quote(t.Frozen.Who)
	}
	var kinds []string
	for _, why := range t.Why {
		kinds = append(kinds, strings.ReplaceAll(why.Type, " ", "-"))
	}
	if len(kinds) > 0 {
		text += " why=" + strings.Join(kinds, ",")
	}
	if t.Next != "" {
		text += " next: " + t.Next
	}
	return text
}
