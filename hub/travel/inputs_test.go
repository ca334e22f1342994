package travel

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
)

// sent is what a member gets first of an object of the hub: the object is read, prepared and decided about as ever.
func sent(t *testing.T, kind render.Kind, obj client.Object) map[string]any {
	t.Helper()
	s := newStage(t, obj)
	s.kinds = append(s.kinds, kind)
	s.restart()
	s.join("east", "eu", place{})
	s.pass(Key(kind.GVK.GroupKind(), obj.GetNamespace(), obj.GetName()))
	for _, i := range s.asked {
		if i.Want != changeset.WantApplied {
			continue
		}
		d := changeset.DecideShared(changeset.SharedInput{Desired: i.Object, HubID: "0123456789abcdef", Source: i.Source, Owners: []string{string(i.Intent.OwnerUID)}})
		if d.Op != changeset.OpCreate {
			t.Fatalf("%s: %s", d.Op, d.Message)
		}
		return d.Object.Object
	}
	return nil
}

func serviceKind() render.Kind {
	return render.Kind{GVK: corev1.SchemeGroupVersion.WithKind("Service"), Resource: "services"}
}

func meta(name string) metav1.ObjectMeta {
	out := webService().ObjectMeta
	out.Name = name
	return out
}

// TestWhatAServiceKeepsToItself: what a cluster allots stays there, what its author chose travels.
func TestWhatAServiceKeepsToItself(t *testing.T) {
	t.Parallel()
	class, both, single, yes := "lb.example/internal", corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack, true
	port := corev1.ServicePort{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 31000}
	for name, tc := range map[string]struct {
		spec corev1.ServiceSpec
		want map[string]any
	}{
		"NodePort": {
			corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ClusterIP: "10.0.0.7", ClusterIPs: []string{"10.0.0.7"}, IPFamilyPolicy: &single, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []corev1.ServicePort{port}},
			map[string]any{"type": "NodePort"},
		},
		"LoadBalancer": {
			corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.0.0.7", HealthCheckNodePort: 32000, LoadBalancerClass: &class, AllocateLoadBalancerNodePorts: &yes,
				ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, ExternalIPs: []string{"192.0.2.1"}, Ports: []corev1.ServicePort{port},
			},
			map[string]any{
				"type": "LoadBalancer", "loadBalancerClass": class, "allocateLoadBalancerNodePorts": true, "externalTrafficPolicy": "Local", "externalIPs": []any{"192.0.2.1"},
			},
		},
		"headless": {
			corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}, IPFamilyPolicy: &both, Ports: []corev1.ServicePort{port}},
			map[string]any{"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack"},
		},
		"ExternalName": {
			corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "db.example"},
			map[string]any{"type": "ExternalName", "externalName": "db.example"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := sent(t, serviceKind(), &corev1.Service{ObjectMeta: meta("web"), Spec: tc.spec, Status: corev1.ServiceStatus{
				LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.9"}}},
			}})
			if _, there := got["status"]; there {
				t.Errorf("its status travels: %v", got["status"])
			}
			spec, _ := got["spec"].(map[string]any)
			if len(tc.spec.Ports) > 0 {
				tc.want["ports"] = []any{map[string]any{"name": "http", "protocol": "TCP", "port": int64(80), "targetPort": int64(0)}}
			}
			if diff := cmp.Diff(tc.want, spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatMetadataTravel: labels and annotations of people; not what means something in its own cluster only.
func TestWhatMetadataTravel(t *testing.T) {
	t.Parallel()
	kind := render.Kind{GVK: networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), Resource: "networkpolicies"}
	m := meta("calm")
	m.GenerateName = "calm-"
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "parent", UID: "p"}}
	m.Finalizers = append(m.Finalizers, "example.org/mine")
	m.Labels["team"], m.Annotations["note"] = "bags", "kept"
	for _, name := range []string{appsv1alpha1.AnnotationConfirm, appsv1alpha1.AnnotationOrphaned, appsv1alpha1.AnnotationOwnerPrefix + "other", "kubectl.kubernetes.io/last-applied-configuration"} {
		m.Annotations[name] = "x"
	}
	got := sent(t, kind, &networkingv1.NetworkPolicy{ObjectMeta: m})
	want := map[string]any{
		"name": "calm", "namespace": "shop", "labels": map[string]any{"team": "bags", appsv1alpha1.LabelHub: "0123456789abcdef"},
		"annotations": map[string]any{"note": "kept", appsv1alpha1.AnnotationOwnerPrefix + "u": "", appsv1alpha1.AnnotationIntent: "KEPT"},
	}
	have, _ := got["metadata"].(map[string]any)
	annotations, _ := have["annotations"].(map[string]any)
	if annotations[appsv1alpha1.AnnotationIntent] == "" {
		t.Error("it has no intent")
	}
	annotations[appsv1alpha1.AnnotationIntent] = "KEPT"
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

// TestABigSecretTravels: 900 KiB are sent once, as they are, and nothing of a Secret's own is lost.
func TestABigSecretTravels(t *testing.T) {
	t.Parallel()
	kind := render.Kind{GVK: corev1.SchemeGroupVersion.WithKind("Secret"), Resource: "secrets"}
	yes := true
	got := sent(t, kind, &corev1.Secret{
		ObjectMeta: meta("big"), Type: corev1.SecretTypeOpaque, Immutable: &yes, Data: map[string][]byte{"k": []byte(strings.Repeat("x", 900<<10))},
	})
	data, _, _ := unstructured.NestedString(got, "data", "k")
	if len(data) != 900<<10/3*4 {
		t.Errorf("%d characters of data", len(data))
	}
	if fixed, _, _ := unstructured.NestedBool(got, "immutable"); !fixed {
		t.Error("it is immutable no more")
	}
}

// TestWhatNeverTravels: tokens and releases, by the same code that sends the rest; the hub is told to change nothing.
func TestWhatNeverTravels(t *testing.T) {
	t.Parallel()
	secrets := render.Kind{GVK: corev1.SchemeGroupVersion.WithKind("Secret"), Resource: "secrets"}
	maps := render.Kind{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps"}
	system := meta("web")
	system.Namespace = appsv1alpha1.SystemNamespace
	for name, tc := range map[string]struct {
		kind render.Kind
		obj  client.Object
	}{
		"a token":                 {secrets, &corev1.Secret{ObjectMeta: meta("t"), Type: corev1.SecretTypeServiceAccountToken}},
		"a kubeconfig":            {secrets, &corev1.Secret{ObjectMeta: meta("k"), Type: "cluster.x-k8s.io/secret"}},
		"a release of Helm":       {maps, &corev1.ConfigMap{ObjectMeta: meta("sh.helm.release.v1.web.v1")}},
		"the root CA":             {maps, &corev1.ConfigMap{ObjectMeta: meta("kube-root-ca.crt")}},
		"the hub's own namespace": {serviceKind(), &corev1.Service{ObjectMeta: system}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := sent(t, tc.kind, tc.obj); got != nil {
				t.Errorf("it travels: %v", got)
			}
		})
	}
}

// TestTwoOfOneName: objects of one name in two namespaces are two.
func TestTwoOfOneName(t *testing.T) {
	t.Parallel()
	other := webService()
	other.Namespace, other.UID = "office", "u2"
	s := newStage(t, webService(), other, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "office"}})
	s.join("east", "eu", place{})
	s.pass(webKey())
	s.pass(Key(schema.GroupKind{Kind: "Service"}, "office", "web"))
	var got []string
	for key, i := range s.asked {
		got = append(got, key.Namespace+"="+string(i.Intent.OwnerUID))
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"office=u2", "shop=u"}, got); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// TestWhatAMemberCannotTakeIsSaid: the words of an event, for what a member answers; others go on.
func TestWhatAMemberCannotTakeIsSaid(t *testing.T) {
	t.Parallel()
	immutable := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "settings", nil)
	immutable.ErrStatus.Message = "ConfigMap \"settings\" is invalid: data: Forbidden: field is immutable when `immutable` is set"
	for name, tc := range map[string]struct {
		outcome outbox.Outcome
		words   string
		barred  bool
	}{
		"a namespace that goes":   {outbox.Outcome{State: outbox.StateNamespaceTerminating, Message: "the namespace is being deleted on the member"}, "being deleted on the member", false},
		"a kind that is missing":  {outbox.Outcome{State: outbox.StateKindMissing, Message: "the member does not serve Ingress.networking.k8s.io"}, "does not serve", false},
		"an immutable ConfigMap":  {outbox.Outcome{State: outbox.StateRefused, Err: immutable, Message: immutable.Error()}, "a new name", false},
		"no right to the kind":    {outbox.Outcome{State: outbox.StateRefused, Err: apierrors.NewForbidden(schema.GroupResource{}, "web", errors.New("no")), Message: "forbidden"}, "forbidden", true},
		"one that is being taken": {outbox.Outcome{State: outbox.StateTerminating}, "it is being deleted on the member", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := deliveryOf(tc.outcome, "u")
			if got.Done || got.Gone || !strings.Contains(got.Message, tc.words) || got.Barred != tc.barred {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestAMemberWithoutTheKind: it is told of, and the others are served.
func TestAMemberWithoutTheKind(t *testing.T) {
	t.Parallel()
	s := newStage(t, webService())
	s.join("east", "eu", place{})
	s.join("old", "eu", place{refused: true})
	s.pass(webKey())
	s.wants("east=Applied", "old=Applied")
	m := s.r.memory[webKey()]
	if got := m.told.seen; !strings.Contains(got, "On 1 of 2 members; old: Refused") {
		t.Errorf("it says %q", got)
	}
}
