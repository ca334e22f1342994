package screen

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Canvas redraws a block of text in place on a terminal. The zero value has drawn nothing.
type Canvas struct {
	// lines is how many lines of the terminal the last drawing took.
	lines int
}

// Draw returns what to write so that text takes the place of what was drawn last. What does not fit on a terminal of
// that many rows is cut, because a terminal cannot redraw what has scrolled away. 0 is no limit.
func (c *Canvas) Draw(text string, width, rows int) string {
	text = crop(text, rows)
	var out strings.Builder
	if c.lines > 0 {
		fmt.Fprintf(&out, "\x1b[%dA\r\x1b[J", c.lines)
	}
	out.WriteString(text)
	c.lines = Height(text, width)
	return out.String()
}

func crop(text string, rows int) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	if rows <= 2 || len(lines) < rows {
		return text
	}
	keep := rows - 2
	return strings.Join(lines[:keep], "") + fmt.Sprintf("… %d more lines\n", len(lines)-keep)
}

// Height is how many lines of a terminal of that width the text takes; escape sequences take no room.
func Height(text string, width int) int {
	total := 0
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		n := utf8.RuneCountInString(uncoloured(line))
		if width > 0 && n > width {
			total += (n + width - 1) / width
		} else {
			total++
		}
	}
	return total
}

func uncoloured(s string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "\x1b[")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		_, s, _ = strings.Cut(rest, "m")
	}
}
