package revision

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// HashLength is the length of a revision hash: 50 bits, so that a thousand revisions collide once in two billion tries;
// a collision is found by comparing content and then counted (History.CollisionCount).
const HashLength = 10

// Hash is the content hash of one raw JSON value: HashLength characters of lower-case base32.
func Hash(raw []byte) (string, error) {
	return HashOf(map[string][]byte{"": raw})
}

// HashOf is the content hash of several named raw JSON values, such as a template and the overrides of each subset.
// A part that is empty after canonicalisation counts as absent; a part's name counts.
func HashOf(parts map[string][]byte) (string, error) {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		canonical, err := Canonical(parts[name])
		if err != nil {
			return "", err
		}
		if string(canonical) == "{}" {
			continue
		}
		writePart(h, []byte(name))
		writePart(h, canonical)
	}
	return text(h)[:HashLength], nil
}

// Short is the first n characters (at most 52) of the lower-case base32 of the sha256 of s: the derived part of names.
func Short(s string, n int) string {
	h := sha256.New()
	h.Write([]byte(s))
	return text(h)[:n]
}

// withCollisions is the hash after count collisions; equal to hash for none.
func withCollisions(hash string, count int32) string {
	if count == 0 {
		return hash
	}
	return Short(hash+"/"+strconv.Itoa(int(count)), HashLength)
}

func text(h hash.Hash) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)))
}

// writePart writes the length first, so that no two lists of parts run together into the same bytes.
func writePart(h hash.Hash, part []byte) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(part)))
	h.Write(length[:])
	h.Write(part)
}
