package check

import (
	"fmt"
	"maps"
	"slices"
)

// maxDropped bounds how many dropped fields are named.
const maxDropped = 8

// Dropped are the fields of a pod template that were sent and are not in what the API server made of it: fields that its
// version does not know, or has switched off. Fields that are empty do not count: they say nothing. field is the
// Template's.
func Dropped(sent, got map[string]any, field string) []string {
	var paths []string
	missing(sent, got, "", &paths)
	var out []string
	for i, p := range paths {
		if i == maxDropped {
			out = append(out, fmt.Sprintf("and %d more", len(paths)-i))
			break
		}
		out = append(out, Path(field, p))
	}
	return out
}

func missing(sent, got any, at string, out *[]string) {
	switch s := sent.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(s)) {
			path := name
			if at != "" {
				path = at + "." + name
			}
			value, there := g[name]
			if there {
				missing(s[name], value, path, out)
			} else if !empty(s[name]) {
				*out = append(*out, path)
			}
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(s) {
			return // somebody's admission added to the list: positions tell nothing
		}
		for i := range s {
			missing(s[i], g[i], fmt.Sprintf("%s[%d]", at, i), out)
		}
	}
}

// empty is true for a value that an API server may leave out.
func empty(v any) bool {
	switch x := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, inner := range x {
			if !empty(inner) {
				return false
			}
		}
		return true
	case []any:
		return len(x) == 0
	case string:
		return x == ""
	case bool:
		return !x
	case int64:
		return x == 0
	case float64:
		return x == 0
	default:
		return false
	}
}
