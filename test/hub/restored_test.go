//go:build lab

package hub

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// term is the hub's, as it is stored.
func (w *world) term() string {
	w.Helper()
	secret := &corev1.Secret{}
	w.must(w.hub.Get(w.Context(), types.NamespacedName{Namespace: appsv1alpha1.SystemNamespace, Name: appsv1alpha1.SecretHubID}, secret))
	return string(secret.Data["term"])
}

// restored: a hub restored from a backup would push last week's image to every cluster. It writes nothing until a
// person confirms it, also after a restart; then it goes on, with a higher term.
func (w *world) restored() {
	hub := w.startHub("hub", "--leader-elect=false")
	u := w.united("{east: 0}", map[string]int{"east": 4})

	backup, err := w.lab.Hub().Backup(w.Context())
	w.must(err)
	u.edit(v2, "{east: 0}")
	u.settled(v2)

	hub.End()
	w.must(w.lab.Hub().Restore(w.Context(), backup))
	u.mark()
	hub = w.startHub("hub", "--leader-elect=false")
	defer hub.End()
	w.conditioned("east", fleetv1alpha1.ConditionHubBehind, metav1.ConditionTrue, "kubectl underway confirm hub")
	u.edit("app:v1-hotfix", "{east: 0}")
	w.must(hub.Process().Kill())
	w.eventually("UnitedDeployment says so after a restart", func(ctx context.Context) string {
		s := u.get(ctx).Status.SubsetStatuses
		if len(s) == 1 && strings.Contains(s[0].Message, "kubectl underway confirm hub") {
			return ""
		}
		return fmt.Sprintf("%+v", s)
	})
	if got := u.writes("east"); len(got) > 0 {
		w.Errorf("a hub that is behind wrote %v", got)
	}
	if got := u.running(w.Context(), "east", u.ns, v2); got != 4 {
		w.Errorf("%d pods run %s", got, v2)
	}

	w.kubectl("confirm", "hub", "--yes")
	u.settled("app:v1-hotfix")
	w.conditioned("east", fleetv1alpha1.ConditionHubBehind, "absent")
	if got := w.term(); got != "2" {
		w.Errorf("term is %s", got)
	}
}
