//go:build lab

package plugin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/install"
)

// TestMembership brings members in and takes them out, with pods on them: by join and by Cluster API, by unjoin, by the
// deletion of a Cluster, and by uninstall. Its parts build on each other.
func TestMembership(t *testing.T) {
	l := newLiving(t)
	for _, part := range []struct {
		name string
		run  func(*living)
	}{
		{"join makes a token that ends and replaces one that does not", (*living).joins},
		{"the hub renews a token before it ends", (*living).renews},
		{"a Cluster of Cluster API becomes a member", (*living).followsCluster},
		{"a Cluster is paused, upgraded, and its kubeconfig rotated", (*living).upgradesCluster},
		{"a Cluster that goes takes its member and no workload", (*living).losesCluster},
		{"unjoin takes all back and no workload", (*living).unjoins},
		{"unjoin --drain empties a member first", (*living).drains},
		{"uninstall takes all back and no workload", (*living).uninstalls},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(l.in(t)) }) {
			return
		}
	}
}

func (l *living) joins() {
	l.kubectl("init", "--cluster-api-selector", "fleet=production").ok(l.T).says(l.T, "ClusterRole/underway-hub-cluster-api")
	namespace(l.T, l.hub, shop)
	l.must(l.hub.Create(l.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "settings"}, Data: map[string]string{"A": "1"}}))
	join := []string{"join", "eu", "--kubeconfig", l.config("eu"), "--all-namespaces", "--no-agent"}
	l.kubectl(append(join, "--token-lifetime", "1h")...).ok(l.T)
	_, token := l.credential("eu")
	if got := l.life(token); got != time.Hour {
		l.Errorf("the token lasts %s, want 1h", got)
	}
	l.noTokenSecret()

	l.permanent(token)
	l.kubectl(join...).ok(l.T)
	if _, now := l.credential("eu"); l.life(now) != 0 {
		l.Error("join without --upgrade replaced a token that works")
	}
	l.kubectl(append(join, "--upgrade")...).ok(l.T).says(l.T, "removed", "Secret/underway-system/"+install.TokenSecret)
	_, token = l.credential("eu")
	if got := l.life(token); got != 7*24*time.Hour {
		l.Errorf("the token lasts %s, want 7 days", got)
	}
	l.noTokenSecret()
}

func (l *living) noTokenSecret() {
	l.Helper()
	list := &corev1.SecretList{}
	l.must(l.eu.List(l.Context(), list))
	for i := range list.Items {
		if list.Items[i].Type == corev1.SecretTypeServiceAccountToken {
			l.Errorf("there is a token without end on the member: %s", list.Items[i].Name)
		}
	}
}

// permanent makes what older versions made: a token without end in a Secret on the member, and the hub has it.
func (l *living) permanent(bounded string) {
	l.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: appsv1alpha1.SystemNamespace, Name: install.TokenSecret,
			Labels:      map[string]string{appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf},
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "underway-hub"},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	l.must(l.eu.Create(l.Context(), secret))
	l.eventually("the member fills the Secret", func() string {
		if err := l.eu.Get(l.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			return err.Error()
		}
		if len(secret.Data["token"]) == 0 {
			return "no token"
		}
		return ""
	})
	if string(secret.Data["token"]) == bounded {
		l.Fatal("the two tokens are one")
	}
	l.store("eu", string(secret.Data["token"]))
}

func (l *living) renews() {
	_, err := l.fleet.Run("agent-eu", shared.binary("underway-member"), append([]string{"--kubeconfig", l.config("eu")}, patientLease()...), nil)
	l.must(err)
	l.startHub()
	l.conditioned("eu", fleetv1alpha1.ConditionReady, metav1.ConditionTrue)
	l.conditioned("eu", fleetv1alpha1.ConditionCredentialsValid, metav1.ConditionTrue, "Bounded")

	_, first := l.credential("eu")
	const left = 45 * time.Second // a busy hub has its time, too
	old := l.aged(l.fleet.Member("eu"), first, left)
	end := time.Now().Add(left)
	l.store("eu", old)
	l.eventually("the hub has another token", func() string {
		if _, now := l.credential("eu"); now == old {
			return "the old one"
		}
		return ""
	})
	if late := time.Until(end); late < 0 {
		l.Errorf("it renewed the token %s after its end", -late)
	}
	secret, renewed := l.credential("eu")
	if got := l.life(renewed); got != 7*24*time.Hour {
		l.Errorf("the renewed token lasts %s, want 7 days", got)
	}
	if secret.Labels[appsv1alpha1.LabelPartOf] != appsv1alpha1.PartOf {
		l.Errorf("the Secret lost its label: %v", secret.Labels)
	}
	l.conditioned("eu", fleetv1alpha1.ConditionCredentialsValid, metav1.ConditionTrue, "Renewed")
	// The connection goes on beyond the end of the token that it began with (plus the skew that the API server allows).
	l.united("cart", "cloneSetTemplate", "{name: eu, cluster: eu}")
	l.pods(l.eu, "cart", 1)
	time.Sleep(time.Until(end.Add(15 * time.Second)))
	l.edit("cart", func(ud *appsv1alpha1.UnitedDeployment) { ud.Spec.Replicas = new(int32); *ud.Spec.Replicas = 2 })
	l.pods(l.eu, "cart", 2)
	l.conditioned("eu", fleetv1alpha1.ConditionCredentialsValid, metav1.ConditionTrue, "Renewed")
}

func (l *living) edit(name string, edit func(*appsv1alpha1.UnitedDeployment)) {
	l.Helper()
	ud := &appsv1alpha1.UnitedDeployment{}
	l.must(l.hub.Get(l.Context(), client.ObjectKey{Namespace: shop, Name: name}, ud))
	base := client.MergeFrom(ud.DeepCopy())
	edit(ud)
	l.must(l.hub.Patch(l.Context(), ud, base))
}

// fleets is the namespace of the Clusters.
const fleets = "fleets"

func (l *living) followsCluster() {
	l.clusterCRD()
	namespace(l.T, l.hub, fleets)
	raw, err := os.ReadFile(l.config("us"))
	l.must(err)
	file, err := clientcmd.Load(raw)
	l.must(err)
	raw, err = clientcmd.Write(*file)
	l.must(err)
	l.must(l.hub.Create(l.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleets, Name: "us-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "us"}},
		Type:       "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": raw},
	}))
	for _, name := range []string{"us", "unlabelled"} {
		cluster := &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: fleets, Name: name, Labels: map[string]string{"continent": "america"}, Finalizers: []string{"test/holds"}},
			Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "us.example", Port: 6443}},
		}
		if name == "us" {
			cluster.Labels["fleet"] = "production"
		}
		l.must(l.hub.Create(l.Context(), cluster))
		yes := true
		cluster.Status.Initialization.ControlPlaneInitialized = &yes
		l.must(l.hub.Status().Update(l.Context(), cluster))
	}
	const member = fleets + "-us"
	l.conditioned(member, fleetv1alpha1.ConditionReady, metav1.ConditionTrue)
	l.conditioned(member, fleetv1alpha1.ConditionClusterFollowed, metav1.ConditionTrue)
	l.conditioned(member, fleetv1alpha1.ConditionCredentialsValid, metav1.ConditionTrue, "Bounded")
	l.eventually("the labels are copied", func() string {
		mc := &fleetv1alpha1.MemberCluster{}
		if err := l.hub.Get(l.Context(), client.ObjectKey{Name: member}, mc); err != nil || mc.Labels["continent"] != "america" {
			return fmt.Sprint(mc.Labels, err)
		}
		return ""
	})
	list := &fleetv1alpha1.MemberClusterList{}
	l.must(l.hub.List(l.Context(), list))
	if len(list.Items) != 2 {
		l.Errorf("%d members, want eu and %s", len(list.Items), member)
	}
	if _, token := l.credential(member); l.claims(token)["sub"] != "system:serviceaccount:underway-system:underway-hub" {
		l.Errorf("the hub uses the token of %v", l.claims(token)["sub"])
	}
	l.kubectl("unjoin", member, "--kubeconfig", l.config("us")).fails(l.T, "take the label off the Cluster")
}

// clusterCRD makes Cluster API's CRD, from the module that the product is built against.
func (l *living) clusterCRD() {
	l.Helper()
	cmd := exec.CommandContext(l.Context(), "go", "list", "-m", "-f", "{{.Version}}", "sigs.k8s.io/cluster-api/api")
	out, err := cmd.Output()
	l.must(err)
	version := strings.TrimSpace(string(out))
	cmd = exec.CommandContext(l.Context(), "go", "mod", "download", "-json", "sigs.k8s.io/cluster-api@"+version)
	out, err = cmd.Output()
	l.must(err)
	var module struct{ Dir string }
	l.must(yaml.Unmarshal(out, &module))
	raw, err := os.ReadFile(filepath.Join(module.Dir, "core", "config", "crd", "bases", "cluster.x-k8s.io_clusters.yaml"))
	l.must(err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	l.must(yaml.Unmarshal(raw, crd))
	l.must(l.hub.Create(l.Context(), crd))
	l.eventually("Clusters are served", func() string {
		if err := l.hub.List(l.Context(), &clusterv1.ClusterList{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (l *living) losesCluster() {
	const member = fleets + "-us"
	l.united("web", "deploymentTemplate", "{name: eu, cluster: eu, replicas: 2}, {name: us, cluster: "+member+", replicas: 2}, {name: home, replicas: 1}")
	eu, us, home := l.pods(l.eu, "web", 2), l.pods(l.us, "web", 2), l.pods(l.hub, "web", 1)

	cluster := &clusterv1.Cluster{}
	l.must(l.hub.Get(l.Context(), client.ObjectKey{Namespace: fleets, Name: "us"}, cluster))
	l.must(l.hub.Delete(l.Context(), cluster))
	l.conditioned(member, fleetv1alpha1.ConditionClusterFollowed, metav1.ConditionFalse, fleetv1alpha1.ReasonClusterDeleting)
	l.must(l.hub.Get(l.Context(), client.ObjectKeyFromObject(cluster), cluster))
	base := client.MergeFrom(cluster.DeepCopy())
	cluster.Finalizers = nil
	l.must(l.hub.Patch(l.Context(), cluster, base))
	l.eventually("the member is forgotten", func() string {
		for key, obj := range map[client.ObjectKey]client.Object{
			{Name: member}: &fleetv1alpha1.MemberCluster{},
			{Namespace: appsv1alpha1.SystemNamespace, Name: install.SecretName(member)}: &corev1.Secret{},
		} {
			if err := l.hub.Get(l.Context(), key, obj); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%s: %v", key, err)
			}
		}
		return ""
	})
	time.Sleep(3 * time.Second) // the hub has had its time to do what it must not
	l.same("eu", eu, l.pods(l.eu, "web", 2))
	l.same("us", us, l.pods(l.us, "web", 2))
	l.same("the hub", home, l.pods(l.hub, "web", 1))
}

func (l *living) same(where string, before, after []string) {
	l.Helper()
	if !slices.Equal(before, after) {
		l.Errorf("the pods on %s were %v and are %v", where, before, after)
	}
}

func (l *living) unjoins() {
	// What a Cluster that is gone left behind, of a member that the hub does not know any more.
	l.kubectl("unjoin", fleets+"-us", "--kubeconfig", l.config("us")).ok(l.T)
	l.leftOnlyCRDs(l.us, "clonesets.apps.kruise.io", "statefulsets.apps.kruise.io")
	l.orphans(l.us, &appsv1.DeploymentList{}, "web")
	l.pods(l.us, "web", 2)

	l.kubectl("join", "us", "--kubeconfig", l.config("us"), "--all-namespaces", "--no-agent").ok(l.T)
	l.conditioned("us", fleetv1alpha1.ConditionReady, metav1.ConditionTrue)
	l.united("api", "deploymentTemplate", "{name: us, cluster: us, replicas: 2}")
	pods := l.pods(l.us, "api", 2)
	_, token := l.credential("us")

	unjoin := []string{"unjoin", "us", "--kubeconfig", l.config("us")}
	l.kubectl(unjoin...).fails(l.T, shop+"/api", "--orphan")
	l.kubectl("unjoin", "us", "--kubeconfig", l.config("eu"), "--orphan").fails(l.T, "is not member us")
	hub, member := versions(l.T, l.hub), versions(l.T, l.us)
	l.kubectl(append(unjoin, "--orphan", "--dry-run")...).ok(l.T).says(l.T, "nothing was written")
	if diff := cmp.Diff(hub, versions(l.T, l.hub)) + cmp.Diff(member, versions(l.T, l.us)); diff != "" {
		l.Errorf("a dry run wrote:\n%s", diff)
	}
	l.kubectl(append(unjoin, "--orphan")...).ok(l.T)
	l.leftOnlyCRDs(l.us, "clonesets.apps.kruise.io", "statefulsets.apps.kruise.io")
	l.orphans(l.us, &appsv1.DeploymentList{}, "api")
	l.must(l.us.Get(l.Context(), client.ObjectKey{Namespace: shop, Name: "settings"}, &corev1.ConfigMap{}))
	l.same("us", pods, l.pods(l.us, "api", 2))
	if err := l.hub.Get(l.Context(), client.ObjectKey{Name: "us"}, &fleetv1alpha1.MemberCluster{}); !apierrors.IsNotFound(err) {
		l.Errorf("the hub knows it still: %v", err)
	}
	l.refused(token)
	l.kubectl(append(unjoin, "--orphan")...).ok(l.T) // once more
}

// refused checks that us takes a token no more. For some seconds an API server remembers that it knew it; what it could do
// with it is gone at once.
func (l *living) refused(token string) {
	l.Helper()
	cfg := l.fleet.Member("us").RESTConfig()
	cfg.BearerToken, cfg.CertData, cfg.KeyData, cfg.CertFile, cfg.KeyFile = token, nil, nil, "", ""
	began := time.Now()
	l.eventually("the old token is refused", func() string {
		c, err := client.New(cfg, client.Options{Scheme: scheme(l.T), Mapper: l.us.RESTMapper()})
		l.must(err)
		err = c.List(l.Context(), &corev1.NamespaceList{}, client.MatchingFields{"metadata.name": "kube-system"})
		switch {
		case apierrors.IsUnauthorized(err):
			return ""
		case !apierrors.IsForbidden(err):
			l.Errorf("with the old token: %v", err)
		}
		return fmt.Sprint(err)
	})
	l.Logf("the old token was refused after %s", time.Since(began).Round(time.Second))
}

func (l *living) uninstalls() {
	cart, web, home := l.pods(l.eu, "cart", 2), l.pods(l.eu, "web", 2), l.pods(l.hub, "web", 1)
	uninstall := []string{"uninstall", "--member", "eu=" + l.config("eu")}
	hub, member := versions(l.T, l.hub), versions(l.T, l.eu)
	l.kubectl("uninstall", "--orphan", "--yes").fails(l.T, "no kubeconfig for eu")
	if mc := (&fleetv1alpha1.MemberCluster{}); l.hub.Get(l.Context(), client.ObjectKey{Name: "eu"}, mc) != nil || mc.Status.AgentVersion == "" {
		l.Errorf("the agent's version on eu is not known: %+v", mc.Status)
	}
	l.kubectl("uninstall", "--orphan", "--yes", "--member", "eu="+l.config("us")).fails(l.T, "another cluster")
	l.kubectl(append(uninstall, "--yes")...).fails(l.T, shop+"/web", "--orphan")
	l.kubectl(append(uninstall, "--orphan")...).fails(l.T, "not confirmed")
	l.kubectl(append(uninstall, "--orphan", "--dry-run")...).ok(l.T).says(l.T, "nothing was written", "UnitedDeployment/shop/web")
	if diff := cmp.Diff(hub, versions(l.T, l.hub)) + cmp.Diff(member, versions(l.T, l.eu)); diff != "" {
		l.Errorf("what refused or was dry wrote:\n%s", diff)
	}

	done := make(chan result, 1)
	go func() { done <- l.kubectl(append(uninstall, "--orphan", "--yes")...) }()
	select {
	case r := <-done:
		l.Fatalf("it did not wait for the hub to stop:\n%s", r.all())
	case <-time.After(8 * time.Second):
	}
	uds := &appsv1alpha1.UnitedDeploymentList{}
	l.must(l.hub.List(l.Context(), uds))
	for i := range uds.Items {
		if uds.Items[i].DeletionTimestamp != nil {
			l.Errorf("%s was deleted while the hub ran", uds.Items[i].Name)
		}
	}
	if len(uds.Items) != 3 {
		l.Errorf("%d UnitedDeployments, want 3", len(uds.Items))
	}
	l.must(l.fleet.Process("hub").Stop(10 * time.Second))
	(<-done).ok(l.T)

	l.leftOnlyCRDs(l.hub)
	l.leftOnlyCRDs(l.eu, "clonesets.apps.kruise.io")
	l.orphans(l.eu, &appsv1alpha1.CloneSetList{}, "cart")
	l.orphans(l.eu, &appsv1.DeploymentList{}, "web")
	l.orphans(l.hub, &appsv1.DeploymentList{}, "web")
	revisions := &appsv1.ControllerRevisionList{}
	l.must(l.hub.List(l.Context(), revisions))
	if len(revisions.Items) > 0 {
		l.Errorf("%d ControllerRevisions are left on the hub", len(revisions.Items))
	}
	time.Sleep(5 * time.Second) // for the garbage collectors
	l.same("eu", cart, l.pods(l.eu, "cart", 2))
	l.same("eu", web, l.pods(l.eu, "web", 2))
	l.same("the hub", home, l.pods(l.hub, "web", 1))
	for _, c := range []client.Client{l.hub, l.eu} {
		l.must(c.Get(l.Context(), client.ObjectKey{Namespace: shop, Name: "settings"}, &corev1.ConfigMap{}))
	}
	// Others' CRDs and objects stay.
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	l.must(l.hub.Get(l.Context(), client.ObjectKey{Namespace: fleets, Name: "unlabelled"}, u))
	l.kubectl(append(uninstall, "--orphan", "--yes")...).ok(l.T) // once more
}
