//go:build lab

package integration

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// trap is a server that nobody may call.
type trap struct {
	address string
	calls   atomic.Int32
}

func newTrap() *trap {
	GinkgoHelper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(l.Close)
	t := &trap{address: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.calls.Add(1)
			_ = c.Close()
		}
	}()
	return t
}

// hostileKubeconfig is one whose server is the trap; cluster and user are more fields, as JSON.
func hostileKubeconfig(server, cluster, user string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],
		"clusters":[{"name":"k","cluster":{"server":%q%s}}],"users":[{"name":"u","user":{%s}}]}`, server, cluster, user)
}

var _ = Describe("A hostile kubeconfig", func() {
	It("is refused with the field's name; nothing is run, read or called", func(ctx context.Context) {
		t := newTrap()
		server := "https://" + t.address
		ran := filepath.Join(GinkgoT().TempDir(), "ran")
		secret := filepath.Join(GinkgoT().TempDir(), "secret")
		Expect(os.WriteFile(secret, []byte("not for the wire"), 0o600)).To(Succeed())
		bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
		for c := 'b'; c < 'j'; c++ {
			before := string(c - 1)
			bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+before+",", 9), ","))
		}
		cases := map[string]struct{ raw, want string }{
			"exec":          {hostileKubeconfig(server, "", fmt.Sprintf(`"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"touch","args":[%q],"interactiveMode":"Never"}`, ran)), "users[].user.exec"},
			"auth-provider": {hostileKubeconfig(server, "", `"auth-provider":{"name":"oidc"}`), "users[].user.auth-provider"},
			"token-file":    {hostileKubeconfig(server, `,"insecure-skip-tls-verify":false`, fmt.Sprintf(`"tokenFile":%q`, secret)), "users[].user.tokenFile"},
			"cert-file":     {hostileKubeconfig(server, "", fmt.Sprintf(`"client-certificate":%q,"client-key":%q`, secret, secret)), "users[].user.client-certificate"},
			"ca-file":       {hostileKubeconfig(server, fmt.Sprintf(`,"certificate-authority":%q`, secret), `"token":"t"`), "clusters[].cluster.certificate-authority"},
			"plain":         {hostileKubeconfig("http://"+t.address, "", `"token":"t"`), "clusters[].cluster.server (scheme http)"},
			"insecure":      {hostileKubeconfig(server, `,"insecure-skip-tls-verify":true`, `"token":"t"`), "clusters[].cluster.insecure-skip-tls-verify"},
			"proxy":         {hostileKubeconfig("https://member.invalid", fmt.Sprintf(`,"proxy-url":"http://%s"`, t.address), `"token":"t"`), "clusters[].cluster.proxy-url"},
			"as":            {hostileKubeconfig(server, "", `"token":"t","as":"system:admin"`), "users[].user.as"},
			"user-info":     {hostileKubeconfig("https://a:b@"+t.address, "", `"token":"t"`), "clusters[].cluster.server (user information)"},
			"no-context":    {strings.Replace(hostileKubeconfig(server, "", `"token":"t"`), `"current-context":"c"`, `"current-context":"d"`, 1), `current-context "d"`},
			"no-yaml":       {"{", "kubeconfig"},
			"empty":         {"", "kubeconfig"},
			"not-a-config":  {`{"apiVersion":"v1","kind":"Pod"}`, "kubeconfig"},
			"bomb":          {bomb, "kubeconfig"},
			"huge":          {hostileKubeconfig(server, "", fmt.Sprintf(`"token":%q,"exec":{"command":"touch"}`, strings.Repeat("t", 900_000))), "kubeconfig"},
			"no-ca":         {hostileKubeconfig(server, fmt.Sprintf(`,"certificate-authority-data":%q`, base64.StdEncoding.EncodeToString([]byte("no PEM"))), `"token":"t"`), "certificate-authority-data"},
		}
		holder := shared.holder(ctx)
		for name, c := range cases {
			s := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "hostile-" + name, Namespace: appsv1alpha1.SystemNamespace},
				Data:       map[string][]byte{"kubeconfig": []byte(c.raw)},
			}
			Expect(shared.hub.Create(ctx, s)).To(Succeed())
			mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "hostile-" + name}}
			mc.Spec.KubeconfigSecretRef = &fleetv1alpha1.SecretReference{Name: s.Name}
			Expect(shared.hub.Create(ctx, mc)).To(Succeed())
			DeferCleanup(func(ctx context.Context) {
				Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, mc))).To(Succeed())
				Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, s))).To(Succeed())
			})
		}
		for name, c := range cases {
			Eventually(ctx, func(g Gomega) {
				var mc fleetv1alpha1.MemberCluster
				g.Expect(shared.hub.Get(ctx, types.NamespacedName{Name: "hostile-" + name}, &mc)).To(Succeed())
				ready := meta.FindStatusCondition(mc.Status.Conditions, fleetv1alpha1.ConditionReady)
				g.Expect(ready).NotTo(BeNil())
				g.Expect(ready.Status).To(Equal(metav1.ConditionFalse))
				valid := meta.FindStatusCondition(mc.Status.Conditions, fleetv1alpha1.ConditionCredentialsValid)
				g.Expect(valid).NotTo(BeNil())
				g.Expect(valid.Status).To(Equal(metav1.ConditionFalse))
				g.Expect(valid.Message).To(ContainSubstring(c.want))
				g.Expect(len(valid.Message)).To(BeNumerically("<", 1000), "and not the whole file")
			}).WithTimeout(patience).WithPolling(200*time.Millisecond).Should(Succeed(), name)
		}
		Expect(t.calls.Load()).To(BeZero(), "somebody called")
		Expect(ran).NotTo(BeAnExistingFile())
		Expect(shared.holder(ctx)).To(Equal(holder), "the hub was started again")
	})
})

// hostilePatches try to take the pods of a subset out of the hub's hands, or its object elsewhere; each with a word of the
// answer.
func hostilePatches() map[string]struct{ patch, want string } {
	return map[string]struct{ patch, want string }{
		"subset-label":      {`{"metadata":{"labels":{"apps.kruise.io/subset-name":"west"}}}`, "apps.kruise.io/subset-name"},
		"selector-label":    {`{"metadata":{"labels":{"app":"other"}}}`, "label app"},
		"no-selector-label": {`{"metadata":{"labels":{"app":null}}}`, "label app"},
		"all-labels":        {`{"metadata":{"labels":{"$patch":"replace"}}}`, "label app"},
		"no-labels":         {`{"metadata":{"labels":null}}`, "label app"},
		"all-metadata":      {`{"metadata":{"$patch":"replace"}}`, "label app"},
		"no-metadata":       {`{"metadata":null}`, "label app"},
		"owner-annotation":  {`{"metadata":{"annotations":{"fleet.underway.dev/owner":"kube-system/web"}}}`, "fleet.underway.dev/owner"},
		"intent-annotation": {`{"metadata":{"annotations":{"fleet.underway.dev/intent":"9.x.9.9"}}}`, "fleet.underway.dev/intent"},
		"owner-reference":   {`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"y"}]}}`, "metadata.ownerReferences"},
		"namespace":         {`{"metadata":{"namespace":"kube-system"}}`, "metadata.namespace"},
		"name":              {`{"metadata":{"name":"other"}}`, "metadata.name"},
		"no-containers":     {`{"spec":{"containers":null}}`, "spec.containers"},
		"emptied":           {`{"spec":{"containers":[{"$patch":"replace"}]}}`, "spec.containers"},
		"deleted":           {`{"spec":{"containers":[{"name":"app","$patch":"delete"}]}}`, "spec.containers"},
		"no-spec":           {`{"spec":null}`, "spec.containers"},
		"everything":        {`{"$patch":"replace"}`, "label app"},
		"deleted-whole":     {`{"$patch":"delete"}`, "label app"},
		"unknown-directive": {`{"spec":{"containers":[{"name":"app","$patch":"explode"}]}}`, "unknown patch type"},
	}
}

var _ = Describe("A hostile subset patch", func() {
	It("is refused in words, and nothing is sent", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		cases := hostilePatches()
		objects := map[string]*appsv1alpha1.UnitedDeployment{}
		for name := range cases {
			u := shared.create(ctx, united{name: name, ns: ns, image: v1, subsets: []string{"east:1"}}.yaml())
			DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, u))).To(Succeed()) })
			objects[name] = u
		}
		for _, u := range objects {
			shared.ready(ctx, u, 1)
		}
		shared.quiet(ctx, ns, "east")
		before := identities(pods(ctx, shared.at["east"], ns))
		mark := shared.mark("east")
		for name, c := range cases {
			// By an update: a merge patch would drop the nulls.
			shared.status(ctx, objects[name], func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
				u.Spec.Topology.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(c.patch)}
				g.Expect(shared.hub.Update(ctx, u)).To(Succeed())
				u.DeepCopyInto(objects[name])
			})
		}
		for name, c := range cases {
			Eventually(ctx, func(g Gomega) {
				var u appsv1alpha1.UnitedDeployment
				g.Expect(shared.hub.Get(ctx, client.ObjectKeyFromObject(objects[name]), &u)).To(Succeed())
				var said []string
				for _, kind := range []string{appsv1alpha1.ConditionInvalid, appsv1alpha1.ConditionTemplateInvalid, appsv1alpha1.ConditionRefused} {
					if c := condition(&u, kind); c.Status == metav1.ConditionTrue && c.ObservedGeneration == u.Generation && u.Generation >= objects[name].Generation {
						said = append(said, c.Message)
					}
				}
				g.Expect(said).To(ContainElement(And(ContainSubstring(c.want), ContainSubstring("east"))), "%s: %+v", name, u.Status.Conditions)
			}).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
		}
		Consistently(ctx, func(g Gomega) {
			g.Expect(shared.hubWrites("east", mark, ns)).To(BeEmpty())
		}).WithTimeout(3 * time.Second).WithPolling(500 * time.Millisecond).Should(Succeed())
		Expect(identities(pods(ctx, shared.at["east"], ns))).To(Equal(before))
	})
})

// bigTemplate plays a template of 1 MB, and one that is too large to be kept.
func bigTemplate(ctx context.Context, w *world) {
	ns := w.namespace(ctx)
	big := func(n int) string {
		return `            env: [{name: BIG, value: "` + strings.Repeat("x", n) + `"}]`
	}
	text := func(name string, n int) string {
		return strings.Replace(united{name: name, ns: ns, image: v1, subsets: []string{"east:1", "west:1"}, partitions: "{east: 0, west: 0}"}.yaml(),
			`            containers: [{name: app, image: "app:v1"}]`, "            containers:\n            - name: app\n              image: app:v1\n  "+big(n), 1)
	}
	u := w.create(ctx, text("mega", 1_000_000))
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(w.hub.Delete(ctx, u))).To(Succeed()) })
	w.ready(ctx, u, 2)
	for _, m := range []string{"east", "west"} {
		Expect(pods(ctx, w.at[m], ns)[0].Spec.Containers[0].Env[0].Value).To(HaveLen(1_000_000))
	}
	By("releasing it")
	image := strings.Replace(text("mega", 1_000_000), "image: app:v1", "image: "+v2, 1)
	next := parse(image)
	w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
		u.Spec = next.Spec
		g.Expect(w.hub.Update(ctx, u)).To(Succeed())
	})
	w.updated(ctx, u, 2)
	Expect(running(pods(ctx, w.at["west"], ns), v2)).To(Equal(1))

	By("going beyond what can be kept")
	Expect(w.hub.Create(ctx, parse(text("giga", 1_700_000)))).To(MatchError(ContainSubstring("too large")))
}

// manySubsets plays an object of 500 subsets.
func manySubsets(ctx context.Context, w *world) {
	ns := w.namespace(ctx)
	subsets := make([]string, 500)
	partitions := make([]string, 500)
	for i := range subsets {
		member, replicas := []string{"east", "west"}[i%2], 0
		if i < 10 {
			replicas = 1
		}
		subsets[i] = fmt.Sprintf("    - {name: s%03d, cluster: %s, replicas: %d}", i, member, replicas)
		partitions[i] = fmt.Sprintf("s%03d: 0", i)
	}
	text := united{name: "many", ns: ns, image: v1, subsets: []string{"east:10"}, partitions: "{" + strings.Join(partitions, ", ") + "}"}.yaml()
	text = strings.Replace(text, "    - {name: east, cluster: east, replicas: 10}", strings.Join(subsets, "\n"), 1)
	u := w.create(ctx, text)
	began := time.Now()
	children := func(ctx context.Context) int {
		n := 0
		for _, m := range []string{"east", "west"} {
			var list appsv1alpha1.CloneSetList
			Expect(w.at[m].List(ctx, &list, client.InNamespace(ns))).To(Succeed())
			n += len(list.Items)
		}
		return n
	}
	Eventually(ctx, children).WithTimeout(3 * patience).WithPolling(time.Second).Should(Equal(500))
	w.ready(ctx, u, 10)
	GinkgoWriter.Printf("500 subsets: 10 pods ready after %s\n", time.Since(began).Round(time.Second))
	w.quiet(ctx, ns, "east")
	mark := w.mark("east")
	began = time.Now()
	w.setImage(ctx, u, v2)
	w.updated(ctx, u, 10)
	GinkgoWriter.Printf("500 subsets: released after %s\n", time.Since(began).Round(time.Second))
	w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
		g.Expect(u.Status.SubsetStatuses).To(HaveLen(500))
		g.Expect(u.Status.CurrentRevision).To(Equal(u.Status.UpdatedRevision))
	})
	// A child without replicas follows when the release is complete, which may be a moment later.
	w.quiet(ctx, ns, "east")
	writes := slices.DeleteFunc(w.hubWrites("east", mark, ns), func(line string) bool {
		return strings.HasSuffix(line, ": 409") // judged on a version that the agent's report has overtaken: nothing was written
	})
	Expect(len(writes)).To(BeNumerically("<=", 250), "at most one write for each child")

	By("deleting it")
	began = time.Now()
	Expect(w.hub.Delete(ctx, u)).To(Succeed())
	// One child goes as the other: those that are left go with the fleet, which costs CI minutes less.
	Eventually(ctx, children).WithTimeout(3 * patience).WithPolling(time.Second).Should(BeNumerically("<=", 450))
	GinkgoWriter.Printf("500 subsets: 50 children deleted after %s\n", time.Since(began).Round(time.Second))
}
