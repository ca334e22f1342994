//go:build lab

package rbac

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// podSpec is a template's metadata and pods, in flow style.
const podSpec = `{metadata: {labels: {app: NAME}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: "app:v1", resources: {requests: {cpu: 100m}}}]}}`

// TestTheRolesAreTheLeast runs a hub and an agent by their accounts through what they are for, and compares what they were
// granted with what they used.
func TestTheRolesAreTheLeast(t *testing.T) {
	w := begin(t)
	w.memberIs(metav1.ConditionTrue)
	w.namespace(w.hub, shop)
	w.content()
	w.everyKind()
	w.release()
	w.scale()
	w.byHand()
	w.byLabel()
	w.away()

	uses := w.uses()
	var have []Grant
	for _, a := range []Account{Hub, HubOnMember, Agent} {
		grants, err := Granted(a)
		if err != nil {
			t.Fatal(err)
		}
		have = append(have, grants...)
	}
	for _, problem := range Judge(have, uses, rareOf(Hub, HubOnMember, Agent), probes()) {
		t.Error(problem)
	}
	t.Logf("%d grants, %d requests", len(have), len(uses))
	for _, line := range Shown(uses, rareOf(Hub, HubOnMember, Agent)) {
		t.Logf("rare, and used this time: %s", line)
	}
}

// content is what a template names.
func (w *world) content() {
	w.Helper()
	for _, obj := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "settings"}, Data: map[string]string{"a": "1"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "password"}, Data: map[string][]byte{"a": []byte("1")}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "runner"}},
	} {
		if err := w.hub.Create(w.Context(), obj); err != nil {
			w.Fatal(err)
		}
	}
}

// byLabel sends a Service to the member, changes it and takes it back.
func (w *world) byLabel() {
	w.Helper()
	meta := metav1.ObjectMeta{Namespace: shop, Name: "web", Labels: map[string]string{appsv1alpha1.LabelPropagate: "true"}}
	svc := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	if err := w.hub.Create(w.Context(), svc); err != nil {
		w.Fatal(err)
	}
	port := func(want int32) {
		w.Helper()
		w.eventually(fmt.Sprint("the Service is on the member, with port ", want), func(ctx context.Context) (bool, string) {
			got := &corev1.Service{}
			err := w.east.Get(ctx, client.ObjectKeyFromObject(svc), got)
			return err == nil && len(got.Spec.Ports) == 1 && got.Spec.Ports[0].Port == want, fmt.Sprint(err, got.Spec.Ports)
		})
	}
	port(80)
	w.patch(w.hub, svc, `spec: {ports: [{port: 81}]}`)
	port(81)
	if err := w.hub.Delete(w.Context(), svc); err != nil {
		w.Fatal(err)
	}
	w.eventually("the Service is gone here and there", func(ctx context.Context) (bool, string) {
		here, there := w.hub.Get(ctx, client.ObjectKeyFromObject(svc), svc), w.east.Get(ctx, client.ObjectKeyFromObject(svc), &corev1.Service{})
		return apierrors.IsNotFound(here) && apierrors.IsNotFound(there), fmt.Sprint(here, there)
	})
}

// everyKind makes one UnitedDeployment of each kind; the namespace does not exist on the member.
func (w *world) everyKind() {
	w.Helper()
	onEast, here := `{name: e, cluster: east, replicas: 2}`, `{name: here, replicas: 0}`
	w.united("web", `cloneSetTemplate: {metadata: {labels: {app: NAME}}, spec: {selector: {matchLabels: {app: NAME}},
      revisionHistoryLimit: 1, updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 2},
      template: {metadata: {labels: {app: NAME}}, spec: {terminationGracePeriodSeconds: 1, serviceAccountName: runner, containers: [{name: app, image: "app:v1",
        resources: {requests: {cpu: 100m}},
        envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: password}}]}]}}}}`, onEast+", "+here)
	w.united("db", `advancedStatefulSetTemplate: {metadata: {labels: {app: NAME}}, spec: {serviceName: NAME, selector: {matchLabels: {app: NAME}},
      podManagementPolicy: Parallel, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 2}},
      template: `+podSpec+`}}`, onEast+", "+here)
	w.united("old", `statefulSetTemplate: {metadata: {labels: {app: NAME}}, spec: {serviceName: NAME, selector: {matchLabels: {app: NAME}},
      podManagementPolicy: Parallel, template: `+podSpec+`}}`, onEast+", "+here)
	w.united("api", `deploymentTemplate: {metadata: {labels: {app: NAME}}, spec: {selector: {matchLabels: {app: NAME}}, template: `+podSpec+`}}`, onEast+", "+here)
	for _, name := range everything() {
		w.at(name, 2)
	}
}

func everything() []string { return []string{"web", "db", "old", "api"} }

// template is the field of a UnitedDeployment's template.
func template(name string) string {
	return map[string]string{
		"web": "cloneSetTemplate", "db": "advancedStatefulSetTemplate", "old": "statefulSetTemplate", "api": "deploymentTemplate",
	}[name]
}

// release moves every kind to new images, often enough that revisions are trimmed, and back to the one before, which numbers a
// revision anew; the last one resizes as well.
func (w *world) release() {
	w.Helper()
	for _, version := range []string{"v2", "v3", "v4", "v3", "v4"} {
		for _, name := range everything() {
			w.change(name, version, "100m")
		}
		for _, name := range everything() {
			w.at(name, 2)
		}
	}
	w.owned()
	w.change("web", "v4", "150m")
	w.change("db", "v4", "150m")
	w.at("web", 2)
	w.at("db", 2)
	w.patch(w.hub, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "settings"}}, `data: {a: "2"}`)
	w.eventually("content follows", func(ctx context.Context) (bool, string) {
		cm := &corev1.ConfigMap{}
		err := w.east.Get(ctx, client.ObjectKey{Namespace: shop, Name: "settings"}, cm)
		return err == nil && cm.Data["a"] == "2", fmt.Sprint(err, cm.Data)
	})
}

// owned looks at what the right to update finalizers is for: references that block their owner's deletion. The admission that
// asks for it is off in this API server, as by default, so no request shows it.
func (w *world) owned() {
	w.Helper()
	blocks := func(c client.Client, kind string) {
		w.Helper()
		list := &appsv1.ControllerRevisionList{}
		if err := c.List(w.Context(), list, client.InNamespace(shop)); err != nil {
			w.Fatal(err)
		}
		if !slices.ContainsFunc(list.Items, func(r appsv1.ControllerRevision) bool {
			owner := metav1.GetControllerOfNoCopy(&r)
			return owner != nil && owner.Kind == kind && strings.HasPrefix(owner.APIVersion, "apps.kruise.io/") &&
				owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion
		}) {
			w.Errorf("no revision blocks the deletion of its %s: the right to update its finalizers is one too many", kind)
		}
	}
	blocks(w.hub, "UnitedDeployment")
	blocks(w.east, "CloneSet")
	blocks(w.east, "StatefulSet")
}

func (w *world) change(name, version, cpu string) {
	w.Helper()
	extra := ""
	if name == "web" {
		extra = `, envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: password}}]`
	}
	w.patch(w.hub, w.get(name), fmt.Sprintf(`spec: {template: {%s: {spec: {template: {spec: {containers: [{name: app, image: "app:%s", resources: {requests: {cpu: %s}}%s}]}}}}}}`,
		template(name), version, cpu, extra))
}

// scale makes pods and takes pods away.
func (w *world) scale() {
	w.Helper()
	for _, replicas := range []int32{3, 1} {
		for _, name := range everything() {
			w.patch(w.hub, w.get(name), fmt.Sprintf(`spec: {topology: {subsets: [{name: e, cluster: east, replicas: %d}, {name: here, replicas: 0}]}}`, replicas))
		}
		for _, name := range everything() {
			w.at(name, replicas)
		}
	}
}

// byHand deletes a child and changes another one on the member: both are put back.
func (w *world) byHand() {
	w.Helper()
	for _, obj := range []client.Object{w.child("web"), w.child("api")} {
		if err := w.east.Delete(w.Context(), obj); err != nil {
			w.Fatal(err)
		}
	}
	db := w.child("db")
	w.patch(w.east, db, `spec: {template: {spec: {containers: [{name: app, image: "app:byhand"}]}}}`)
	w.eventually("drift is taken back", func(ctx context.Context) (bool, string) {
		set := &appsv1alpha1.StatefulSet{}
		err := w.east.Get(ctx, client.ObjectKeyFromObject(db), set)
		return err == nil && len(set.Spec.Template.Raw) != 0 && !strings.Contains(string(set.Spec.Template.Raw), "byhand"), fmt.Sprint(err)
	})
	for _, name := range everything() {
		w.at(name, 1)
	}
}

// child is the object of a UnitedDeployment on the member.
func (w *world) child(name string) client.Object {
	w.Helper()
	out := map[string]client.Object{
		"web": &appsv1alpha1.CloneSet{}, "db": &appsv1alpha1.StatefulSet{}, "old": &appsv1.StatefulSet{}, "api": &appsv1.Deployment{},
	}[name]
	for _, e := range w.get(name).Status.SubsetStatuses {
		if e.Cluster == east {
			out.SetNamespace(shop)
			out.SetName(e.Workload)
		}
	}
	return out
}

// away deletes everything: children, content and finalizers go.
func (w *world) away() {
	w.Helper()
	for _, name := range everything() {
		if err := w.hub.Delete(w.Context(), w.get(name)); err != nil {
			w.Fatal(err)
		}
	}
	w.eventually("every UnitedDeployment is gone", func(ctx context.Context) (bool, string) {
		list := &appsv1alpha1.UnitedDeploymentList{}
		err := w.hub.List(ctx, list)
		said := fmt.Sprint(err)
		for i := range list.Items {
			said += fmt.Sprintf("; %s %v", list.Items[i].Name, list.Items[i].Status.Conditions)
		}
		return err == nil && len(list.Items) == 0, said
	})
	for name, kind := range map[string]client.Object{"settings": &corev1.ConfigMap{}, "password": &corev1.Secret{}, "runner": &corev1.ServiceAccount{}} {
		w.eventually(name+" is gone from the member", func(ctx context.Context) (bool, string) {
			err := w.east.Get(ctx, client.ObjectKey{Namespace: shop, Name: name}, kind)
			return apierrors.IsNotFound(err), fmt.Sprint(err)
		})
	}
}
