package render

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// ErrIntent is wrapped by every error of ParseIntent.
var ErrIntent = errors.New("intent is not <term>/<owner UID>/<owner generation>/<grant epoch>")

// MaxIntent is the largest term, generation and epoch. No hub counts so far: what is beyond it was not written by one, and must
// not lead a hub to count on from there until its numbers turn over.
const MaxIntent = int64(1) << 53

// MaxLead is how far a term on a member may be ahead of the hub's own: a person confirms once for each. What is further ahead was
// not written by a hub, and concerns that object alone.
const MaxLead = int64(1) << 20

// Intent orders the writes of one owner to one child. A larger intent is a newer one.
type Intent struct {
	// Term counts the confirmations of a hub that had fallen behind.
	Term int64
	// OwnerUID is the UnitedDeployment's UID. Intents of different owners have no order.
	OwnerUID types.UID
	// Generation is the owner's metadata.generation.
	Generation int64
	// Epoch is the owner's status.release.epoch.
	Epoch int64
}

// ParseIntent reads an intent as String writes it, with numbers up to MaxIntent. Every error wraps ErrIntent.
func ParseIntent(s string) (Intent, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 4 || parts[1] == "" {
		return Intent{}, fmt.Errorf("reading %q: %w", s, ErrIntent)
	}
	out := Intent{OwnerUID: types.UID(parts[1])}
	for i, to := range map[int]*int64{0: &out.Term, 2: &out.Generation, 3: &out.Epoch} {
		n, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil || n < 0 || n > MaxIntent || strconv.FormatInt(n, 10) != parts[i] {
			return Intent{}, fmt.Errorf("reading %q: %w", s, ErrIntent)
		}
		*to = n
	}
	return out, nil
}

// Plausible is false for an intent whose term no hub can have reached, by the term of this one.
func (i Intent) Plausible(term int64) bool { return i.Term-term <= MaxLead }

// String is the text of annotation fleet.underway.dev/intent.
func (i Intent) String() string {
	return fmt.Sprintf("%d/%s/%d/%d", i.Term, i.OwnerUID, i.Generation, i.Epoch)
}

// Compare is negative when i is older than other, positive when it is newer, 0 when equal. The second result is false
// when the two belong to different owners and have no order.
func (i Intent) Compare(other Intent) (int, bool) {
	if i.OwnerUID != other.OwnerUID {
		return 0, false
	}
	return cmp.Or(
		cmp.Compare(i.Term, other.Term),
		cmp.Compare(i.Generation, other.Generation),
		cmp.Compare(i.Epoch, other.Epoch),
	), true
}
