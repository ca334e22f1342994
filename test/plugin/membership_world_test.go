//go:build lab

package plugin

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/install"
	"github.com/underway-dev/underway/test/lab"
)

// shop is where the workloads are, on the hub and on the members.
const shop = "shop"

// living is a fleet in which pods run: a hub, and the members eu and us, with a node each.
type living struct {
	*testing.T

	fleet       *lab.Fleet
	hub, eu, us client.Client
}

func newLiving(t *testing.T) *living {
	t.Helper()
	fleet, err := lab.Start(t.Context(), lab.Options{MemberNames: []string{"eu", "us"}, Nodes: 1, HubNodes: 1, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fleet.Stop() })
	return &living{T: t, fleet: fleet, hub: admin(t, fleet.Hub()), eu: admin(t, fleet.Member("eu")), us: admin(t, fleet.Member("us"))}
}

// in is the same fleet for a part of the test.
func (l *living) in(t *testing.T) *living {
	out := *l
	out.T = t
	return &out
}

func (l *living) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *living) kubectl(args ...string) result {
	l.Helper()
	return underwayIn(l.T, l.fleet.Hub(), "", args...)
}

func (l *living) config(member string) string { return l.fleet.Member(member).Kubeconfig() }

// startHub starts the hub with the rights of the account that init made.
func (l *living) startHub() {
	l.Helper()
	kubeconfig, err := l.fleet.Hub().KubeconfigFor("system:serviceaccount:"+appsv1alpha1.SystemNamespace+":underway-hub",
		[]string{"system:serviceaccounts", "system:authenticated"}, 24*time.Hour)
	l.must(err)
	_, err = l.fleet.Run("hub", shared.binary("underway-hub"),
		append([]string{"--kubeconfig", kubeconfig, "--v", "2", "--cluster-api-selector", "fleet=production"}, patientLease()...), nil)
	l.must(err)
}

// patientLease keeps a program from ending when a busy machine's API server is late: nothing starts it again.
func patientLease() []string {
	return []string{"--leader-elect-lease-duration=40s", "--leader-elect-renew-deadline=30s"}
}

// eventually waits until check says nothing.
func (l *living) eventually(what string, check func() string) {
	l.Helper()
	last, end := "", time.Now().Add(patience)
	for time.Now().Before(end) {
		if last = check(); last == "" {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	if hub := l.fleet.Process("hub"); hub != nil {
		raw, _ := os.ReadFile(hub.Log())
		lines := strings.Split(string(raw), "\n")
		l.Logf("--- hub\n%s", strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
	l.Fatalf("%s: %s", what, last)
}

// conditioned waits for a condition of a MemberCluster.
func (l *living) conditioned(member, kind string, status metav1.ConditionStatus, reasons ...string) {
	l.Helper()
	l.eventually(fmt.Sprintf("%s of %s is %s %v", kind, member, status, reasons), func() string {
		mc := &fleetv1alpha1.MemberCluster{}
		if err := l.hub.Get(l.Context(), client.ObjectKey{Name: member}, mc); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(mc.Status.Conditions, kind)
		if c == nil || c.Status != status || (len(reasons) > 0 && !slices.Contains(reasons, c.Reason)) {
			return fmt.Sprintf("%+v", mc.Status.Conditions)
		}
		return ""
	})
}

// credential is the kubeconfig of a member that the hub has, and its Secret.
func (l *living) credential(member string) (*corev1.Secret, string) {
	l.Helper()
	secret := &corev1.Secret{}
	l.must(l.hub.Get(l.Context(), client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: install.SecretName(member)}, secret))
	file, err := clientcmd.Load(secret.Data["kubeconfig"])
	l.must(err)
	return secret, file.AuthInfos[file.Contexts[file.CurrentContext].AuthInfo].Token
}

// store puts another token into the kubeconfig that the hub has.
func (l *living) store(member, token string) {
	l.Helper()
	secret, _ := l.credential(member)
	file, err := clientcmd.Load(secret.Data["kubeconfig"])
	l.must(err)
	file.AuthInfos[file.Contexts[file.CurrentContext].AuthInfo].Token = token
	secret.Data["kubeconfig"], err = clientcmd.Write(*file)
	l.must(err)
	l.must(l.hub.Update(l.Context(), secret))
}

// claims of a token.
func (l *living) claims(token string) map[string]any {
	l.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		l.Fatalf("a token of %d parts", len(parts))
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	l.must(err)
	out := map[string]any{}
	l.must(json.Unmarshal(raw, &out))
	return out
}

// life of a token; 0: it has no end.
func (l *living) life(token string) time.Duration {
	l.Helper()
	c := l.claims(token)
	expires, ok := c["exp"].(float64)
	if !ok {
		return 0
	}
	return time.Unix(int64(expires), 0).Sub(time.Unix(int64(c["iat"].(float64)), 0))
}

// aged is the token as its API server would have made it earlier, signed with that server's key, with so much of it left.
func (l *living) aged(cluster *lab.Cluster, token string, left time.Duration) string {
	l.Helper()
	claims := l.claims(token)
	life := claims["exp"].(float64) - claims["iat"].(float64)
	end := time.Now().Add(left).Unix()
	claims["exp"], claims["iat"], claims["nbf"] = end, end-int64(life), end-int64(life)
	raw, err := json.Marshal(claims)
	l.must(err)
	signed := strings.Split(token, ".")[0] + "." + base64.RawURLEncoding.EncodeToString(raw)
	file, err := os.ReadFile(filepath.Join(cluster.Dir(), "pki", "sa.key"))
	l.must(err)
	block, _ := pem.Decode(file)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	l.must(err)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, parsed.(*ecdsa.PrivateKey), sum[:])
	l.must(err)
	return signed + "." + base64.RawURLEncoding.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// united makes a UnitedDeployment of 2 replicas in each subset, given as YAML; kind is a field of spec.template.
func (l *living) united(name, kind, subsets string) {
	l.Helper()
	ud := l.template(name, kind)
	l.must(yaml.UnmarshalStrict([]byte("["+subsets+"]"), &ud.Spec.Topology.Subsets))
	l.must(l.hub.Create(l.Context(), ud))
}

// template is a UnitedDeployment without subsets.
func (l *living) template(name, kind string) *appsv1alpha1.UnitedDeployment {
	l.Helper()
	ud := &appsv1alpha1.UnitedDeployment{}
	l.must(yaml.UnmarshalStrict(fmt.Appendf(nil, `
apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    %[3]s:
      metadata: {labels: {app: %[1]s}}
      spec:
        selector: {matchLabels: {app: %[1]s}}
        template:
          metadata: {labels: {app: %[1]s}}
          spec:
            terminationGracePeriodSeconds: 1
            containers: [{name: app, image: "app:v1", envFrom: [{configMapRef: {name: settings}}]}]
`, name, shop, kind), ud))
	return ud
}

// pods are the UIDs of an app's pods that are not going, once there are n of them and they run.
func (l *living) pods(c client.Client, app string, n int) []string {
	l.Helper()
	var out []string
	l.eventually(fmt.Sprintf("%d pods of %s run", n, app), func() string {
		list := &corev1.PodList{}
		if err := c.List(l.Context(), list, client.InNamespace(shop), client.MatchingLabels{"app": app}); err != nil {
			return err.Error()
		}
		out = nil
		for i := range list.Items {
			if p := &list.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				out = append(out, string(p.UID))
			}
		}
		if len(out) != n {
			return fmt.Sprintf("%d run", len(out))
		}
		return ""
	})
	slices.Sort(out)
	return out
}

// orphans waits until the Deployments and CloneSets of an app are there, marked, and nobody's.
func (l *living) orphans(c client.Client, list client.ObjectList, app string) {
	l.Helper()
	l.eventually(fmt.Sprintf("%T of %s are let go", list, app), func() string {
		if err := c.List(l.Context(), list, client.InNamespace(shop), client.MatchingLabels{"app": app}); err != nil {
			return err.Error()
		}
		items, err := meta.ExtractList(list)
		l.must(err)
		for _, item := range items {
			o, err := meta.Accessor(item)
			l.must(err)
			if _, marked := o.GetAnnotations()[appsv1alpha1.AnnotationOrphaned]; !marked || len(o.GetOwnerReferences()) > 0 || o.GetDeletionTimestamp() != nil {
				return fmt.Sprintf("%s: annotations %v, owners %v, deleted %v", o.GetName(), o.GetAnnotations(), o.GetOwnerReferences(), o.GetDeletionTimestamp())
			}
		}
		if len(items) == 0 {
			return "there is none"
		}
		return ""
	})
}

// leftOnlyCRDs waits until nothing of ours is left on a cluster but the namespace and these CRDs.
func (l *living) leftOnlyCRDs(c client.Client, crds ...string) {
	l.Helper()
	l.eventually("nothing of ours is left", func() string { return l.left(c, crds) })
}

// left names what of ours is left on a cluster beside the namespace and these CRDs, or is not.
func (l *living) left(c client.Client, crds []string) string {
	l.Helper()
	var got []string
	for name := range versions(l.T, c) {
		got = append(got, strings.ReplaceAll(name, "//", "/"))
	}
	slices.Sort(got)
	want := []string{"Namespace/" + appsv1alpha1.SystemNamespace}
	for _, crd := range crds {
		want = append(want, "CustomResourceDefinition/"+crd)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Sprintf("with our label are\n%v\nwant\n%v", got, want)
	}
	// What has not our label but is made by us in our namespace.
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &corev1.ConfigMapList{}, &appsv1.DeploymentList{}, &corev1.ServiceAccountList{}, &coordinationv1.LeaseList{}} {
		l.must(c.List(l.Context(), list, client.InNamespace(appsv1alpha1.SystemNamespace)))
		items, err := meta.ExtractList(list)
		l.must(err)
		for _, item := range items {
			o, err := meta.Accessor(item)
			l.must(err)
			if name := o.GetName(); name != "kube-root-ca.crt" && name != "default" && name != "underway-member" {
				return fmt.Sprintf("in %s is %T %s", appsv1alpha1.SystemNamespace, item, name)
			}
		}
	}
	return ""
}
