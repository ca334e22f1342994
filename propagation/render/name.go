package render

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

const (
	nameCut  = 46
	nameHash = 5
)

// ChildName is the name of the child of a subset: the first 46 characters of "<ud>-<subset>" without trailing "-" and
// ".", "-", and 5 characters of the hash of "<ud>/<subset>". A second create of the same child collides.
// It is at most 52 characters, so that the pods' own suffixes still fit.
func ChildName(ud, subset string) string {
	head := ud + "-" + subset
	if len(head) > nameCut {
		head = head[:nameCut]
	}
	return strings.TrimRight(head, "-.") + "-" + shortHash(ud+"/"+subset)
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:nameHash]))[:nameHash]
}
