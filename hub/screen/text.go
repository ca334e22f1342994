package screen

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Unknown is drawn where a member does not say.
const Unknown = "?"

// Clean removes what a terminal would obey: control characters (line breaks become spaces) and the characters that
// change the direction of text.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == utf8.RuneError:
			return -1
		default:
			return r
		}
	}, s)
}

// Age is the time since t in kubectl's words, "-" when t is not set. A time in the future (another clock) is "0s".
func Age(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	return duration.HumanDuration(max(now.Sub(t.Time), 0))
}

// ShortRevision is the hash at the end of a revision's name, at most 8 characters; "-" when there is none.
func ShortRevision(name string) string {
	if name == "" {
		return "-"
	}
	short := Clean(name[strings.LastIndexByte(name, '-')+1:])
	return short[:min(len(short), 8)]
}

// fit cuts s to width runes, the last one an ellipsis; 0 is no limit.
func fit(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:max(width-1, 0)]) + "…"
}

// pad fills s up to width with spaces.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0))
}

// Since is the time from t to now in kubectl's words.
func Since(t, now time.Time) string { return duration.HumanDuration(max(now.Sub(t), 0)) }

// withoutCommand drops the command at the end of a hub's message: NEXT shows the one that is next, whole, and in the
// middle of a table it could not be copied.
func withoutCommand(why string) string {
	before, _, _ := strings.Cut(why, ": kubectl ")
	return strings.TrimSuffix(before, "; go on with")
}
