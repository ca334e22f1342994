package root_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// joined is a hub with an id and the members eu-1, which is in tier web, and us-1.
func joined() []client.Object {
	ours := map[string]string{appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf}
	system := func(name string, data map[string][]byte) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: appsv1alpha1.SystemNamespace, Name: name, Labels: ours}, Data: data}
	}
	member := func(name string, labels map[string]string) client.Object {
		return &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "mc", Labels: labels}}
	}
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "hub-uid"}},
		system(appsv1alpha1.SecretHubID, map[string][]byte{"nonce": []byte("n"), "term": []byte("1")}), system("member-eu-1", nil), system("member-us-1", nil),
		member("eu-1", map[string]string{"tier": "web"}), member("us-1", nil),
		held(), &appsv1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", Labels: map[string]string{"team": "shop"}}},
	}
}

// TestFlagsDoWhatTheySay: what each prints, and what it leaves out.
func TestFlagsDoWhatTheySay(t *testing.T) {
	for name, tc := range map[string]struct {
		args       string
		says, lack []string
	}{
		"clusters":                  {"get clusters", []string{"NAME", "eu-1", "us-1"}, nil},
		"clusters by label":         {"get clusters -l tier=web", []string{"eu-1"}, []string{"us-1"}},
		"clusters by name":          {"get clusters us-1", []string{"us-1"}, []string{"eu-1"}},
		"clusters without the line": {"get clusters --no-headers", []string{"eu-1"}, []string{"NAME"}},
		"clusters as names":         {"get clusters -o name", []string{"membercluster.fleet.underway.dev/eu-1"}, []string{"NAME"}},
		"clusters as YAML":          {"get clusters -o yaml", []string{"kind: MemberCluster", "tier: web"}, []string{"NAME "}},
		"of one namespace":          {"get ud -n shop", []string{"cart"}, []string{"web"}},
		"of all namespaces":         {"get ud -A", []string{"NAMESPACE", "cart", "web"}, nil},
		"by label":                  {"get ud -A -l team=shop", []string{"cart"}, []string{"web"}},
		"the plugin alone":          {"version --client", []string{"client"}, []string{"hub"}},
		"a lost member":             {"unjoin eu-1 --force --dry-run", []string{"kubectl underway unjoin eu-1", "nothing was written"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "", joined()...)
			if code := w.run(t, strings.Fields(tc.args)...); code != 0 {
				t.Fatalf("exit %d: %s", code, w.errOut)
			}
			all := w.out.String() + w.errOut.String()
			for _, want := range tc.says {
				if !strings.Contains(all, want) {
					t.Errorf("it does not say %q:\n%s", want, all)
				}
			}
			for _, not := range tc.lack {
				if strings.Contains(all, not) {
					t.Errorf("it says %q:\n%s", not, all)
				}
			}
		})
	}
}

// TestForceTakesOutOnTheHubOnly: the member is forgotten, the other one stays, and a file beside --force is refused.
func TestForceTakesOutOnTheHubOnly(t *testing.T) {
	w := newWorld(t, "", joined()...)
	if code := w.run(t, "unjoin", "eu-1", "--force", "--kubeconfig", "eu-1.yaml"); code != 1 || !strings.Contains(w.errOut.String(), "either --kubeconfig FILE") {
		t.Errorf("exit %d: %s", code, w.errOut)
	}
	for _, name := range []string{"eu-1", "us-1"} {
		if err := w.hub.Get(t.Context(), client.ObjectKey{Name: name}, &fleetv1alpha1.MemberCluster{}); err != nil {
			t.Fatal(err)
		}
	}
	if code := w.run(t, "unjoin", "eu-1", "--force"); code != 0 {
		t.Fatalf("exit %d: %s", code, w.errOut)
	}
	if err := w.hub.Get(t.Context(), client.ObjectKey{Name: "eu-1"}, &fleetv1alpha1.MemberCluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("eu-1 is there still: %v", err)
	}
	if err := w.hub.Get(t.Context(), client.ObjectKey{Name: "us-1"}, &fleetv1alpha1.MemberCluster{}); err != nil {
		t.Errorf("us-1: %v", err)
	}
}
