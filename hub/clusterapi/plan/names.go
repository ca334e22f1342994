package plan

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
)

const (
	// nameMax is the length of a DNS label.
	nameMax = 63
	hashLen = 5
)

// MemberName is the name of a Cluster's MemberCluster: "<namespace>-<name>", with "." replaced by "-". Where that is too
// long, was changed or belongs to another, it is cut and ends with "-" and 5 characters of the hash of "<namespace>/<name>".
func MemberName(namespace, name string, taken map[string]bool) string {
	plain := namespace + "-" + name
	label := strings.ReplaceAll(plain, ".", "-")
	if len(label) <= nameMax && label == plain && !taken[label] {
		return label
	}
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:hashLen]
	label = label[:min(len(label), nameMax-hashLen-1)]
	return strings.TrimRight(label, "-") + "-" + hash
}

// copied are the labels of a Cluster that its MemberCluster gets, but for those that somebody else put there.
func copied(o *Observation) map[string]string {
	out := map[string]string{}
	for key, value := range o.Cluster.Labels {
		_, there := o.Member.Labels[key]
		if travels(key, o.Options.LabelPrefixes) && (!there || o.OwnLabels[key]) {
			out[key] = value
		}
	}
	return out
}

// travels says whether a label is copied. What our own and Kubernetes' programs act on never is, except where a cluster is.
func travels(key string, prefixes []string) bool {
	domain, _, prefixed := strings.Cut(key, "/")
	switch {
	case prefixed && (within(domain, "underway.dev") || within(domain, "kruise.io") || domain == "app.kubernetes.io"):
		return false
	case len(prefixes) > 0:
		return slices.ContainsFunc(prefixes, func(p string) bool { return p != "" && strings.HasPrefix(key, p) })
	case prefixed && domain == "topology.kubernetes.io":
		return true
	case prefixed:
		return !within(domain, "kubernetes.io") && !within(domain, "k8s.io") && !within(domain, "x-k8s.io")
	}
	return true
}

func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}
