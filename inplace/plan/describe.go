package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/imagediff"
)

func between(older, newer inplace.Revision) (inplace.Change, error) {
	return imagediff.Between(older.Template, newer.Template)
}

// spoken is how a revision is called in a sentence: by the image of its first container, which people recognise, or by
// its name.
func spoken(r inplace.Revision) string {
	var template struct {
		Spec struct {
			Containers []struct {
				Image string `json:"image"`
			} `json:"containers"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(r.Template, &template); err != nil || len(template.Spec.Containers) == 0 {
		return r.Name
	}
	return template.Spec.Containers[0].Image
}

// called is how the revisions of some pods are called together, and how the update revision is: by image where the
// images tell them apart, else by name.
func (r *round) called(members []*member) (older, newer string) {
	newer = spoken(r.in.Update)
	var names []string
	for _, m := range members {
		names = append(names, m.pod.Revision)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case len(names) > 1:
		return "older revisions", newer
	case len(names) == 0:
		return "the old revision", newer
	}
	known, ok := r.in.Find(names[0])
	if !ok {
		return names[0], newer
	}
	if older = spoken(known); older == newer {
		return known.Name, r.in.Update.Name
	}
	return older, newer
}

// pods is "1 pod" or "3 pods", with the verb that follows.
func pods(n int, singular, plural string) string {
	if n == 1 {
		return "1 pod " + singular
	}
	return fmt.Sprintf("%d pods %s", n, plural)
}
