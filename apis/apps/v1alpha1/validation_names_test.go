package v1alpha1

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

// TestNamesByHand holds the functions against the expressions that the CRD has.
func TestNamesByHand(t *testing.T) {
	t.Parallel()
	const (
		name   = `[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?`
		domain = `[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/`
	)
	key, finalizer := regexp.MustCompile("^("+domain+")?"+name+"$"), regexp.MustCompile("^"+domain+name+"$")
	value := regexp.MustCompile("^(" + name + ")?$")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[-a-cA0_. /ä]{0,8}/?[-a-cA0_.]{0,70}`).Draw(t, "text")
		if isKey(text) != key.MatchString(text) || isFinalizer(text) != finalizer.MatchString(text) || isValue(text) != value.MatchString(text) {
			t.Fatalf("%q: key %t, finalizer %t, value %t", text, isKey(text), isFinalizer(text), isValue(text))
		}
	})
}
