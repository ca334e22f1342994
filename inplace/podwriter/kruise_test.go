package podwriter_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podwriter"
)

// TestReturnFreesKruisePodReady: in the same request as our own gate, and nothing of the other conditions is lost.
func TestReturnFreesKruisePodReady(t *testing.T) {
	t.Parallel()
	n := &counting{}
	p := pod("a")
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: appsv1alpha1.ConditionKruisePodReady, Status: "False", Message: `[{"userAgent":"Lifecycle","key":"preUpdateHook"}]`,
	})
	c := n.client(t, p)
	_, err := podwriter.New(c).Do(t.Context(), inplace.Decision{Patches: []inplace.Patch{{
		Ref: ref(get(t, c, "a")), Kind: inplace.PatchReturn, Kruise: &inplace.KruiseReady{Ready: true},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[corev1.PodConditionType]string{}
	for _, c := range get(t, c, "a").Status.Conditions {
		got[c.Type] = string(c.Status) + c.Message
	}
	if len(got) != 3 || got["Ready"] != "True" || got[appsv1alpha1.ConditionInPlaceUpdateReady] != "True" || got[appsv1alpha1.ConditionKruisePodReady] != "True" {
		t.Errorf("%v", got)
	}
	if n.calls["patch/status"] != 1 || n.calls["patch"] != 0 {
		t.Errorf("%v", n.calls)
	}
}
