//go:build lab

package plugin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/install"
	"github.com/underway-dev/underway/propagation/clusters"
)

// asHub is a client with the credential that join stored on the hub.
func asHub(t *testing.T, member string) client.Client {
	t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: install.SecretName(member)}
	if err := admin(t, shared.lab(t).Hub()).Get(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	cfg, err := clusters.ParseKubeconfig(secret.Data["kubeconfig"], false)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func memberCluster(t *testing.T, name string) *fleetv1alpha1.MemberCluster {
	t.Helper()
	m := &fleetv1alpha1.MemberCluster{}
	if err := admin(t, shared.lab(t).Hub()).Get(t.Context(), client.ObjectKey{Name: name}, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestJoin walks from an empty hub to members; its parts build on each other.
func TestJoin(t *testing.T) {
	eu, us := shared.lab(t).Member("eu-1"), shared.lab(t).Member("us-1")
	t.Run("a cluster that is no hub yet is named as the problem", func(t *testing.T) {
		underway(t, "get", "clusters").fails(t, "kubectl underway init")
	})
	t.Run("a dry run of init writes nothing", func(t *testing.T) {
		underway(t, "init", "--dry-run").ok(t).says(t, "created", "nothing was written")
		if got := versions(t, admin(t, shared.lab(t).Hub())); len(got) > 0 {
			t.Errorf("it wrote %v", got)
		}
	})
	t.Run("init twice changes nothing the second time", func(t *testing.T) {
		underway(t, "init").ok(t).says(t, "CustomResourceDefinition/memberclusters.fleet.underway.dev", "Namespace/underway-system")
		before := versions(t, admin(t, shared.lab(t).Hub()))
		if again := underway(t, "init").ok(t).stdout; strings.Contains(again, "created") || strings.Contains(again, "updated") {
			t.Errorf("the second time it wrote:\n%s", again)
		}
		if diff := cmp.Diff(before, versions(t, admin(t, shared.lab(t).Hub()))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("no members yet is no error", func(t *testing.T) {
		if r := underway(t, "get", "clusters").ok(t); r.stdout != "" || !strings.Contains(r.stderr, "no members") {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("what is not said is asked for, by flag and remedy", func(t *testing.T) {
		underway(t, "join", "eu-1").fails(t, "--kubeconfig is required", "--hub-kubeconfig")
		underway(t, "join", "eu-1", "--kubeconfig", eu.Kubeconfig(), "--no-agent").fails(t, "--namespaces a,b or --all-namespaces")
		underway(t, "join", "eu-1", "--kubeconfig", eu.Kubeconfig(), "--all-namespaces").fails(t, "--agent-image", "--no-agent")
		underway(t, "join", "EU_1", "--kubeconfig", eu.Kubeconfig(), "--all-namespaces", "--no-agent").fails(t, "DNS label")
		underway(t, "join", "eu-1", "--kubeconfig", "/does/not/exist", "--all-namespaces", "--no-agent").fails(t, "the member", "/does/not/exist")
	})
	t.Run("join with all namespaces", func(t *testing.T) {
		underway(t, "join", "eu-1", "--kubeconfig", eu.Kubeconfig(), "--all-namespaces", "--no-agent").ok(t).
			says(t, "the hub's account: it reaches the member", "kubectl underway get clusters eu-1")
		if got := memberCluster(t, "eu-1").Spec.AllowedNamespaces; got == nil || len(got.MatchExpressions)+len(got.MatchLabels) > 0 {
			t.Errorf("allowedNamespaces %v, want {}", got)
		}
	})
	t.Run("join twice changes nothing the second time", func(t *testing.T) {
		hub, member := versions(t, admin(t, shared.lab(t).Hub())), versions(t, admin(t, eu))
		underway(t, "join", "eu-1", "--kubeconfig", eu.Kubeconfig(), "--all-namespaces", "--no-agent").ok(t)
		if diff := cmp.Diff(hub, versions(t, admin(t, shared.lab(t).Hub()))); diff != "" {
			t.Errorf("on the hub:\n%s", diff)
		}
		if diff := cmp.Diff(member, versions(t, admin(t, eu))); diff != "" {
			t.Errorf("on the member:\n%s", diff)
		}
	})
	t.Run("join with two namespaces, one of which is missing", func(t *testing.T) {
		namespace(t, admin(t, us), "shop")
		underway(t, "join", "us-1", "--kubeconfig", us.Kubeconfig(), "--namespaces", "shop,cart", "--no-agent").ok(t).
			says(t, "missing", "Namespace/cart", "--upgrade")
		want := []string{"shop", "cart"}
		if diff := cmp.Diff(want, memberCluster(t, "us-1").Spec.AllowedNamespaces.MatchExpressions[0].Values); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("get clusters", func(t *testing.T) {
		underway(t, "get", "clusters").ok(t).says(t, "NAME", "eu-1", "us-1")
		if got, want := underway(t, "get", "clusters", "-o", "name").ok(t).stdout, "membercluster.fleet.underway.dev/eu-1\nmembercluster.fleet.underway.dev/us-1\n"; got != want {
			t.Errorf("names %q, want %q", got, want)
		}
		m := fleetv1alpha1.MemberCluster{}
		if err := json.Unmarshal([]byte(underway(t, "get", "clusters", "eu-1", "-o", "json").ok(t).stdout), &m); err != nil || m.Name != "eu-1" {
			t.Errorf("json: %v, %q", err, m.Name)
		}
		underway(t, "get", "clusters", "-o", "yaml").ok(t).says(t, "kind: MemberCluster")
		underway(t, "get", "clusters", "-o", "wide").ok(t).says(t, "IDENTITY", "SERVER")
		underway(t, "get", "clusters", "-o", "picture").fails(t, "--output", "wide")
		underway(t, "get", "clusters", "nobody").fails(t, "nobody")
	})
	t.Run("least privilege", testLeastPrivilege)
	t.Run("a narrower join takes rights back", testNarrower)
	t.Run("a cluster has one name and a name one cluster", testIdentity)
}

func testLeastPrivilege(t *testing.T) {
	everywhere, somewhere := asHub(t, "eu-1"), asHub(t, "us-1")
	for _, tc := range []struct {
		verb, resource, ns string
		eu, us             bool
	}{
		// Secrets that templates name travel to where the hub may write, and to nowhere else.
		{"get", "secrets", "kube-system", true, false},
		{"list", "secrets", "shop", true, true},
		{"get", "secrets", appsv1alpha1.SystemNamespace, true, false},
		{"update", "secrets", "shop", false, false},
		{"delete", "persistentvolumeclaims", "shop", false, false},
		{"delete", "pods", "shop", false, false},
		{"patch", "pods", "shop", false, false},
		{"create", "pods", "shop", false, false},
		{"delete", "namespaces", "", false, false},
		{"patch", "nodes", "", false, false},
		{"escalate", "rbac.authorization.k8s.io/clusterroles", "", false, false},
		{"create", "rbac.authorization.k8s.io/rolebindings", "shop", false, false},
		{"patch", "apiextensions.k8s.io/customresourcedefinitions", "", false, false},
		{"patch", "apps.kruise.io/clonesets", "shop", true, true},
		{"delete", "apps.kruise.io/clonesets", "shop", true, true},
		{"patch", "apps.kruise.io/clonesets", "default", true, false},
		{"delete", "apps.kruise.io/clonesets", "kube-system", true, false},
		{"list", "apps.kruise.io/clonesets", "", true, true},
		{"create", "namespaces", "", true, false},
		{"create", "coordination.k8s.io/leases", appsv1alpha1.SystemNamespace, true, true},
		{"create", "coordination.k8s.io/leases", "kube-system", false, false},
	} {
		may(t, everywhere, tc.verb, tc.resource, tc.ns, tc.eu)
		may(t, somewhere, tc.verb, tc.resource, tc.ns, tc.us)
	}
	// And not by review alone.
	err := somewhere.List(t.Context(), &corev1.SecretList{}, client.InNamespace("kube-system"))
	if !apierrors.IsForbidden(err) {
		t.Errorf("listing Secrets of kube-system: %v, want Forbidden", err)
	}
	err = everywhere.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	if !apierrors.IsForbidden(err) {
		t.Errorf("deleting a namespace: %v, want Forbidden", err)
	}
	identity, err := install.Identity(t.Context(), admin(t, shared.lab(t).Member("us-1")))
	if err != nil {
		t.Fatal(err)
	}
	if err := install.Prove(t.Context(), somewhere, identity); err != nil {
		t.Errorf("reading the identity: %v", err)
	}
	if err := install.Prove(t.Context(), everywhere, identity); err == nil {
		t.Error("a credential of another cluster passes for this one's")
	}
	list := &corev1.NamespaceList{}
	if err := somewhere.List(t.Context(), list, client.MatchingFields{"metadata.name": "kube-system"}); err != nil || len(list.Items) != 1 {
		t.Errorf("listing kube-system alone, as the hub does: %v, %d items", err, len(list.Items))
	}
}

func testNarrower(t *testing.T) {
	us := shared.lab(t).Member("us-1")
	namespace(t, admin(t, us), "cart")
	underway(t, "join", "us-1", "--kubeconfig", us.Kubeconfig(), "--namespaces", "cart", "--no-agent").ok(t).
		says(t, "removed", "RoleBinding/shop/underway-hub-workloads")
	c := asHub(t, "us-1")
	may(t, c, "patch", "apps.kruise.io/clonesets", "shop", false)
	may(t, c, "patch", "apps.kruise.io/clonesets", "cart", true)
	underway(t, "join", "us-1", "--kubeconfig", us.Kubeconfig(), "--all-namespaces", "--no-agent", "--allow-namespaces", "team=shop").ok(t)
	may(t, c, "create", "namespaces", "", true)
	if got := memberCluster(t, "us-1").Spec.AllowedNamespaces.MatchLabels["team"]; got != "shop" {
		t.Errorf("allowedNamespaces team=%q, want shop", got)
	}
	underway(t, "join", "us-1", "--kubeconfig", us.Kubeconfig(), "--namespaces", "cart", "--no-agent").ok(t).says(t, "removed", "ClusterRoleBinding")
	may(t, c, "create", "namespaces", "", false)
	may(t, c, "patch", "apps.kruise.io/clonesets", "default", false)
	foreign := &rbacv1.RoleBindingList{}
	if err := admin(t, us).List(t.Context(), foreign, client.InNamespace("kube-system")); err != nil || len(foreign.Items) == 0 {
		t.Errorf("bindings of others are gone: %v", err)
	}
}

func testIdentity(t *testing.T) {
	hub := admin(t, shared.lab(t).Hub())
	m := memberCluster(t, "eu-1")
	identity, err := install.Identity(t.Context(), admin(t, shared.lab(t).Member("eu-1")))
	if err != nil {
		t.Fatal(err)
	}
	m.Status.Identity = identity
	if err := hub.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	eu, us := shared.lab(t).Member("eu-1").Kubeconfig(), shared.lab(t).Member("us-1").Kubeconfig()
	underway(t, "join", "eu-2", "--kubeconfig", eu, "--all-namespaces", "--no-agent").fails(t, "already", "eu-1")
	underway(t, "join", "eu-1", "--kubeconfig", us, "--all-namespaces", "--no-agent").fails(t, "another cluster", identity)
}

// TestOthersCRDs: what lacks our label is never written.
func TestOthersCRDs(t *testing.T) {
	kruise := shared.lab(t).Member("kruise")
	c := admin(t, kruise)
	underway(t, "init").ok(t)
	before := map[string]string{}
	for _, plural := range []string{"clonesets", "uniteddeployments"} {
		crd := foreignCRD(plural)
		if err := c.Create(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
	}
	for _, plural := range []string{"clonesets", "uniteddeployments"} {
		before[plural] = waitEstablished(t, c, plural)
	}
	underway(t, "join", "kruise", "--kubeconfig", kruise.Kubeconfig(), "--all-namespaces", "--no-agent", "--upgrade").ok(t).
		says(t, "refused", "clonesets.apps.kruise.io", "OpenKruise reconciles")
	underwayIn(t, kruise, "", "init", "--upgrade").fails(t, "uniteddeployments.apps.kruise.io", "not ours")
	for plural, was := range before {
		if diff := cmp.Diff(was, waitEstablished(t, c, plural)); diff != "" {
			t.Errorf("%s was written (-before +after):\n%s", plural, diff)
		}
	}
}

func foreignCRD(plural string) *apiextensionsv1.CustomResourceDefinition {
	kind := map[string]string{"clonesets": "CloneSet", "uniteddeployments": "UnitedDeployment"}[plural]
	yes := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".apps.kruise.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "apps.kruise.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes},
				},
			}},
		},
	}
}

// waitEstablished waits until a CRD is served, and returns what is wanted of it.
func waitEstablished(t *testing.T, c client.Client, plural string) string {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	soon(t, plural+" is established", func() string {
		if err := c.Get(t.Context(), client.ObjectKey{Name: plural + ".apps.kruise.io"}, crd); err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		}) {
			return fmt.Sprintf("%+v", crd.Status.Conditions)
		}
		return ""
	})
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		t.Fatal(err)
	}
	return wanted(t, &unstructured.Unstructured{Object: object})
}

// TestDryRun: nothing is written, on neither side.
func TestDryRun(t *testing.T) {
	underway(t, "init").ok(t)
	dry := shared.lab(t).Member("dry")
	underway(t, "join", "dry", "--kubeconfig", dry.Kubeconfig(), "--all-namespaces", "--no-agent", "--dry-run").ok(t).
		says(t, "created", "nothing was written")
	if got := versions(t, admin(t, dry)); len(got) > 0 {
		t.Errorf("it wrote on the member: %v", got)
	}
	err := admin(t, shared.lab(t).Hub()).Get(t.Context(), client.ObjectKey{Name: "dry"}, &fleetv1alpha1.MemberCluster{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("it registered the member: %v", err)
	}
}

// TestAnOlderCRDIsKeptUntilUpgrade on the member "dry".
func TestAnOlderCRDIsKeptUntilUpgrade(t *testing.T) {
	underway(t, "init").ok(t)
	dry := shared.lab(t).Member("dry")
	c := admin(t, dry)
	underway(t, "join", "dry", "--kubeconfig", dry.Kubeconfig(), "--all-namespaces", "--agent-image", "registry.example/underway-member:v1").ok(t)
	name := client.ObjectKey{Name: "clonesets.apps.kruise.io"}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	soon(t, "an older CRD is put there", func() string { // the API server writes its status meanwhile
		if err := c.Get(t.Context(), name, crd); err != nil {
			return err.Error()
		}
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].AdditionalPrinterColumns = nil
		}
		crd.ManagedFields = nil
		if err := c.Update(t.Context(), crd); err != nil {
			return err.Error()
		}
		return ""
	})
	join := []string{"join", "dry", "--kubeconfig", dry.Kubeconfig(), "--all-namespaces", "--agent-image", "registry.example/underway-member:v2"}
	underway(t, join...).ok(t).says(t, "kept", "CustomResourceDefinition/clonesets.apps.kruise.io", "Deployment/underway-system/underway-member", "--upgrade")
	underway(t, append(join, "--upgrade")...).ok(t).says(t, "updated")
	if err := c.Get(t.Context(), name, crd); err != nil || len(crd.Spec.Versions[0].AdditionalPrinterColumns) == 0 {
		t.Errorf("the CRD is not upgraded: %v", err)
	}
	underway(t, join...).ok(t).says(t, "unchanged")
}
