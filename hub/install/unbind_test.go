package install

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/config"
)

// TestANarrowJoinLeavesWhatAnotherHubNeeds: two hubs share the account, so that a join with --namespaces takes the wide binding
// back only where no other hub has a Lease.
func TestANarrowJoinLeavesWhatAnotherHubNeeds(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		others []string
		stays  bool
		says   string
	}{
		"alone":            {nil, false, "removed"},
		"with another hub": {[]string{"underway-hub-ffffffffffffffff"}, true, "another hub uses this member too (Lease underway-hub-ffffffffffffffff)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours := map[string]string{appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf}
			wide := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: config.HubWorkloadsRole, Labels: ours}}
			cart := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "cart", Name: config.HubWorkloadsRole, Labels: ours}}
			var said strings.Builder
			a := &applier{
				where: "eu-1", client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(wide, cart).Build(),
				opts: Options{Report: func(s Step) { said.WriteString(s.String() + "\n") }},
			}
			if err := a.unbind(t.Context(), []string{"shop"}, tc.others); err != nil {
				t.Fatal(err)
			}
			for _, obj := range []client.Object{wide, cart} {
				if there := a.client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj) == nil; there != tc.stays {
					t.Errorf("%T is there: %v, want %v", obj, there, tc.stays)
				}
			}
			if n := strings.Count(said.String(), tc.says); n != 2 {
				t.Errorf("it does not say %q of both:\n%s", tc.says, &said)
			}
		})
	}
}
