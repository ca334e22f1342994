package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

func TestMemberships(t *testing.T) {
	t.Parallel()
	gone := metav1.NewTime(noon)
	pod := func(name string, edit ...func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
			"app": "web", appsv1alpha1.LabelCloneSetInstanceID: name, appsv1alpha1.LabelPodRevision: "old-" + name,
		}}}
		for _, f := range edit {
			f(&p)
		}
		return p
	}
	other := func(p *corev1.Pod) { p.Labels["app"] = "debug" }
	going := func(p *corev1.Pod) { p.DeletionTimestamp = &gone }
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	claim := func(name, id string) corev1.PersistentVolumeClaim {
		return corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), Labels: map[string]string{appsv1alpha1.LabelCloneSetInstanceID: id},
		}}
	}
	revision := func(name, app string) appsv1.ControllerRevision {
		return appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}}}
	}
	others := strangers{
		pods: []corev1.Pod{pod("a"), pod("b", other), pod("c", going), pod("d", failed), pod("e")},
		claims: []corev1.PersistentVolumeClaim{
			claim("data-web-a", "a"), claim("data-web-b", "b"), claim("kept", "a"), claim("data-web-z", "z"), claim("data-", ""),
		},
		revisions: []appsv1.ControllerRevision{revision("web-1", "web"), revision("web-2", "debug"), revision("old-a", "web"), revision("old-z", "web")},
	}
	copied := func(p *corev1.Pod) { p.Labels[appsv1alpha1.LabelCloneSetInstanceID] = "m" }
	ours := []corev1.Pod{pod("m"), pod("n", other), pod("o", other, going), pod("p", other), pod("q", other), pod("s", other, copied)}
	mine := family{name: "web", pods: ours, claims: []corev1.PersistentVolumeClaim{
		claim("data-web-m", "m"), claim("data-web-n", "n"), claim("data-web-o", "o"), claim("data-web-p", "p"), claim("data-web-q", "q"),
	}}
	got := memberships(labels.SelectorFromSet(labels.Set{"app": "web"}), mine, others, map[types.UID]string{"e": "denied", "p": "denied", "data-web-q": "denied"})
	names := map[string][]string{"join": podNames(got.join), "leave": podNames(got.leave)}
	for i := range got.claims {
		names["claims"] = append(names["claims"], got.claims[i].Name)
	}
	for i := range got.dropped {
		names["dropped"] = append(names["dropped"], got.dropped[i].Name)
	}
	for i := range got.revisions {
		names["revisions"] = append(names["revisions"], got.revisions[i].Name)
	}
	want := map[string][]string{"join": {"a"}, "leave": {"n", "s"}, "claims": {"data-web-a"}, "dropped": {"data-web-n"}, "revisions": {"web-1", "old-a"}}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
