package screen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Style is how text is drawn.
type Style struct {
	// Width cuts lines to the terminal's; 0 is no limit.
	Width int
	// Color marks states.
	Color bool
	// Wide adds columns, and shows the hub's messages whole.
	Wide bool
	// NoHeaders leaves the line of column names out.
	NoHeaders bool
}

// why is a hub's message as drawn: whole in the wide form only.
func (s Style) why(message string) string {
	if s.Wide {
		return message
	}
	return withoutCommand(message)
}

const (
	gap   = "   "
	label = 8
)

// Render draws the tree, each line ended by a line break.
func (t Tree) Render(style Style) string {
	var out strings.Builder
	line := func(s string) { out.WriteString(fit(s, style.Width) + "\n") }

	line(t.headline())
	line(pad("PODS", label) + gap + t.counts())
	if t.Frozen != nil {
		line(pad("FROZEN", label) + gap + t.Frozen.String())
	}
	for i, why := range t.Why {
		line(pad(first(i, "WHY"), label) + gap + fmt.Sprintf("%s: %s (%s)", why.Type, style.why(why.Message), why.Since))
	}
	for _, row := range t.table(style) {
		out.WriteString(row + "\n")
	}
	if t.Next != "" {
		// A command that is cut cannot be copied.
		out.WriteString(pad("NEXT", label) + gap + t.Next + "\n")
	}
	return out.String()
}

func first(i int, word string) string {
	if i == 0 {
		return word
	}
	return ""
}

func (t Tree) headline() string {
	rev := "rev " + t.To
	if t.From != t.To {
		rev = "rev " + t.From + " -> " + t.To
	}
	return strings.Join([]string{t.Namespace + "/" + t.Name, rev, string(t.State), t.Age}, gap)
}

func (t Tree) counts() string {
	counts := fmt.Sprintf("%d of %d, %d ready", t.Replicas, t.Desired, t.Ready)
	if t.From != t.To {
		counts += fmt.Sprintf(", %d granted", t.Granted)
	}
	counts += fmt.Sprintf(", %d updated, %d in place", t.Updated, t.InPlace)
	if t.Recreated > 0 {
		counts += fmt.Sprintf(", %d recreated", t.Recreated)
	}
	return counts
}

// table lays the rows out in columns; only the last one (why) is cut to the width.
func (t Tree) table(style Style) []string {
	header := []string{"SUBSET", "MEMBER"}
	kinds := t.severalKinds()
	if kinds {
		header = append(header, "KIND")
	}
	header = append(header, "GRANTED", "UPDATED", "READY", "IN PLACE")
	if style.Wide {
		header = append(header, "RECREATED", "PARTITION", "WORKLOAD", "REPORT")
	}
	header = append(header, "STATE", "SINCE", "WHY")
	var cells [][]string
	if !style.NoHeaders {
		cells = append(cells, header)
	}
	for i, r := range t.Rows {
		row := r.cells(i == len(t.Rows)-1, style)
		if kinds {
			row = slices.Insert(row, 2, dash(r.Kind))
		}
		cells = append(cells, row)
	}
	return columns(cells, style)
}

// severalKinds is true while the subsets' children are not all of one kind: their kind is being changed.
func (t Tree) severalKinds() bool {
	return slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Kind != t.Rows[0].Kind })
}

func (r Row) cells(last bool, style Style) []string {
	branch := "├─ "
	if last {
		branch = "└─ "
	}
	cells := []string{
		branch + r.Subset, r.Member,
		r.granted(), number(r.Updated), fmt.Sprintf("%d/%d", r.Ready, r.Desired), r.InPlace,
	}
	if style.Wide {
		cells = append(cells, number(r.Recreated), number(r.Partition), dash(r.Workload), r.report())
	}
	return append(cells, r.State, r.Since, style.why(r.Why))
}

// report is how old the member's numbers are: "live" while it is heard.
func (r Row) report() string {
	if r.Heard != "" {
		return r.Heard + " old"
	}
	return "live"
}

// fromEnd is where the state stands in a row, counted from its end: since and why follow.
const fromEnd = 3

// granted is "2/8"; "-" where pods run the revision already and no grant was needed, as on the first install.
func (r Row) granted() string {
	if r.Granted < r.Updated {
		return "-"
	}
	return fmt.Sprintf("%d/%d", r.Granted, r.Desired)
}

func number(n int32) string { return strconv.Itoa(int(n)) }

func columns(cells [][]string, style Style) []string {
	var widths []int
	for _, row := range cells {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	lines := make([]string, 0, len(cells))
	for _, row := range cells {
		var b strings.Builder
		for i, c := range row[:len(row)-1] {
			b.WriteString(pad(c, widths[i]) + gap)
		}
		line := strings.TrimRight(fit(b.String()+row[len(row)-1], style.Width), " ")
		lines = append(lines, paint(line, row[len(row)-fromEnd], style))
	}
	return lines
}

// paint colours the state's word in a line: green when done, yellow while it waits or moves, red when it needs a look.
func paint(line, state string, style Style) string {
	code := colourOf(state)
	at := strings.LastIndex(line, gap+state)
	if !style.Color || code == "" || at < 0 {
		return line
	}
	at += len(gap)
	return line[:at] + "\x1b[" + code + "m" + state + "\x1b[0m" + line[at+len(state):]
}

func colourOf(state string) string {
	switch state {
	case "Current", "Ready":
		return "32"
	case "Updating", "Returning", "Starting", "Scaling", "Creating", "Held", "Waiting", "Leaving", "Pending":
		return "33"
	case "Stale", "Conflict", "Refused", "NotAllowed", "NamespaceMissing", "NotServed", "Stuck", "Blocked", "Broken":
		return "31"
	default:
		return ""
	}
}
