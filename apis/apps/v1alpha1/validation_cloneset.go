package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
)

// maxKey is the longest label key or finalizer: a domain of 253, a slash, a name of 63.
const maxKey = 317

// Bounds of lists, the CRD's.
const (
	maxClaims = 32
	maxTerms  = 32
	maxHooks  = 16
)

// Names that Kubernetes accepts on pods. The rules of the CRD say the same, the key of a hook's label apart: there only the
// characters are judged, because a rule over a whole map must be cheap. Written by hand: an agent judges every object at
// every pass, and compiling an expression each time cost a third of it.

// isKey reports whether text is a label key: a name, after a domain and a slash or without.
func isKey(text string) bool {
	domain, name, prefixed := strings.Cut(text, "/")
	if !prefixed {
		return isName(text)
	}
	return len(text) <= maxKey && isDomain(domain) && isName(name)
}

// isFinalizer reports whether text is a finalizer that a pod can have: a domain, a slash and a name.
func isFinalizer(text string) bool {
	return strings.Contains(text, "/") && isKey(text)
}

// isValue reports whether text is a label value.
func isValue(text string) bool {
	return text == "" || isName(text)
}

// isName: up to 63 letters, digits, dashes, underscores and dots, a letter or digit at both ends.
func isName(text string) bool {
	const most = 63
	return len(text) <= most && bounded(text, func(c byte) bool { return isLower(c) || c >= 'A' && c <= 'Z' }, "-_.")
}

// isDomain: lower-case labels of letters, digits and inner dashes, with dots between them.
func isDomain(text string) bool {
	for label := range strings.SplitSeq(text, ".") {
		if !bounded(label, isLower, "-") {
			return false
		}
	}
	return true
}

func isLower(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
}

// bounded reports whether text begins and ends with a character at which it may, and has beside those only inner ones.
func bounded(text string, at func(byte) bool, inner string) bool {
	for i := range len(text) {
		ends := i == 0 || i == len(text)-1
		if !at(text[i]) && (ends || strings.IndexByte(inner, text[i]) < 0) {
			return false
		}
	}
	return text != ""
}

// operators checks the operators of a selector, which nothing but Kubernetes' parser looks at otherwise.
func (p *problems) operators(path string, s *metav1.LabelSelector) {
	known := []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
	}
	for i := range s.MatchExpressions {
		if op := s.MatchExpressions[i].Operator; !slices.Contains(known, op) {
			p.add(fmt.Sprintf("%s.matchExpressions[%d].operator", path, i),
				fmt.Sprintf("%q is not known; write In, NotIn, Exists or DoesNotExist", op))
		}
	}
}

// claims checks what the rules see of the claim templates; the rest is read by whoever creates claims.
func (p *problems) claims(path string, templates []RawObject) {
	if len(templates) > maxClaims {
		p.add(path, fmt.Sprintf("%d claim templates are more than %d; keep fewer", len(templates), maxClaims))
	}
	seen := map[string]bool{}
	for i := range templates {
		at := fmt.Sprintf("%s[%d]", path, i)
		var claim struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Spec map[string]any `json:"spec"`
		}
		if err := json.UnmarshalCaseSensitivePreserveInts(templates[i].Raw, &claim); err != nil {
			p.add(at, fmt.Sprintf("cannot be read as a claim: %v", err))
			continue
		}
		name := claim.Metadata.Name
		if !isLabel(name) {
			p.add(at+".metadata.name", fmt.Sprintf("%q is no DNS label, the name of the volume that the containers mount; "+
				"write one such as data", name))
		}
		if claim.Spec == nil {
			p.add(at+".spec", "is missing; write accessModes and resources.requests.storage")
		}
		if seen[name] && name != "" {
			p.add(path, fmt.Sprintf("two claim templates are named %q; give each its own metadata.name", name))
		}
		seen[name] = true
	}
}

// ordering checks which pods are to go first.
func (p *problems) ordering(at string, r *CloneSetRollout) {
	priority := r.PriorityStrategy
	if priority == nil {
		priority = &UpdatePriorityStrategy{}
	}
	if len(priority.WeightPriority) > maxTerms || len(priority.OrderPriority) > maxTerms || len(r.ScatterStrategy) > maxTerms {
		p.add(at, fmt.Sprintf("more than %d terms of priorityStrategy or scatterStrategy; keep fewer", maxTerms))
	}
	for i := range priority.WeightPriority {
		term, path := &priority.WeightPriority[i], fmt.Sprintf("%s.priorityStrategy.weightPriority[%d]", at, i)
		if term.Weight < 0 || term.Weight > 100 {
			p.add(path+".weight", fmt.Sprintf("%d is not between 0 and 100; correct it", term.Weight))
		}
		p.operators(path+".matchSelector", &term.MatchSelector)
	}
	for i := range priority.OrderPriority {
		p.key(fmt.Sprintf("%s.priorityStrategy.orderPriority[%d].orderedKey", at, i), priority.OrderPriority[i].OrderedKey)
	}
	for i := range r.ScatterStrategy {
		term, path := &r.ScatterStrategy[i], fmt.Sprintf("%s.scatterStrategy[%d]", at, i)
		p.key(path+".key", term.Key)
		if !isValue(term.Value) {
			p.add(path+".value", fmt.Sprintf("%q is no label value; correct it", term.Value))
		}
		if slices.Contains(r.ScatterStrategy[:i], *term) {
			p.add(at+".scatterStrategy", fmt.Sprintf("names %s=%s twice; keep it once", term.Key, term.Value))
		}
	}
}

func (p *problems) key(path, key string) {
	if !isKey(key) {
		p.add(path, fmt.Sprintf("%q is no label key; write one such as example.com/zone", key))
	}
}

// lifecycle checks the hooks: a label or finalizer that no pod can have would hold nothing, or hold for ever.
func (p *problems) lifecycle(path string, l *Lifecycle) {
	if l == nil {
		return
	}
	p.hook(path+".preDelete", l.PreDelete)
	p.hook(path+".inPlaceUpdate", l.InPlaceUpdate)
	p.hook(path+".preNormal", l.PreNormal)
}

func (p *problems) hook(path string, h *LifecycleHook) {
	if h == nil {
		return
	}
	if len(h.LabelsHandler) > maxHooks || len(h.FinalizersHandler) > maxTerms {
		p.add(path, fmt.Sprintf("more than %d labels or %d finalizers; keep fewer", maxHooks, maxTerms))
	}
	keys := make([]string, 0, len(h.LabelsHandler))
	for key := range h.LabelsHandler {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		p.key(path+".labelsHandler", key)
		if value := h.LabelsHandler[key]; !isValue(value) {
			p.add(path+".labelsHandler."+key, fmt.Sprintf("%q is no label value; correct it", value))
		}
	}
	for i, finalizer := range h.FinalizersHandler {
		if !isFinalizer(finalizer) {
			p.add(fmt.Sprintf("%s.finalizersHandler[%d]", path, i), fmt.Sprintf("%q is no finalizer that a pod can have; "+
				"write it as domain/name, such as example.com/unregister", finalizer))
		}
	}
	if duplicate := repeated(h.FinalizersHandler); duplicate != "" {
		p.add(path+".finalizersHandler", fmt.Sprintf("names %q twice; keep it once", duplicate))
	}
}

func repeated(list []string) string {
	for i, one := range list {
		if slices.Contains(list[:i], one) {
			return one
		}
	}
	return ""
}
