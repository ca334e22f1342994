//go:build lab

package integration

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/underway-dev/underway/hub/check"
	"github.com/underway-dev/underway/hub/check/dryrun"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/test/lab"
)

// versions plays members of other minor versions: what each says its version is. Their API servers are the lab's.
type versions struct {
	fleet *lab.Fleet
	of    map[string]string
}

func (v versions) View(name string) (clusters.View, bool) {
	version, ok := v.of[name]
	return clusters.View{Name: name, State: clusters.StateReady, Version: version}, ok
}

func (v versions) Client(name string) (dynamic.Interface, error) {
	return dynamic.NewForConfig(v.fleet.Member(name).RESTConfig())
}

// policy is a ValidatingAdmissionPolicy on PodTemplates of one namespace.
func policy(ctx context.Context, c client.Client, name, ns, expression, message string) {
	GinkgoHelper()
	p := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"podtemplates"}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: expression, Message: message}},
		},
	}
	b := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: ns},
			}},
		},
	}
	for _, obj := range []client.Object{p, b} {
		Expect(c.Create(ctx, obj)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(c.Delete(ctx, obj)).To(Succeed()) })
	}
	// It takes the API server a moment to enforce it: wait until it refuses what the expression must refuse.
	probe := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: ns}, Template: corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "new:1"}}},
	}}
	Eventually(ctx, func() error { return c.Create(ctx, probe.DeepCopy(), client.DryRunAll) }).
		WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(MatchError(ContainSubstring(message)))
}

var _ = Describe("The check of a template", Ordered, func() {
	var (
		ns     string
		mark   map[string]lab.Mark
		runner *dryrun.Runner
		n      int
	)

	BeforeAll(func(ctx context.Context) {
		ns = shared.namespace(ctx)
		mark = map[string]lab.Mark{}
		for name, c := range shared.at {
			mark[name] = shared.mark(name)
			if name != "north" { // which has no such namespace
				Expect(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})).To(Succeed())
			}
		}
		runner = dryrun.New(dryrun.Options{
			Members: versions{shared.fleet, map[string]string{"east": "v1.37.2", "west": "v1.36.4-vnd.7", "north": "v1.35.0"}},
			Wake:    func(types.NamespacedName) {}, Clock: clock.RealClock{},
		})
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = runner.Start(ctx)
		}()
		DeferCleanup(func() {
			cancel()
			<-done
		})
	})

	// results asks about a pod template, written as YAML, and waits for the answers.
	results := func(ctx context.Context, pod string, members ...string) []check.Result {
		GinkgoHelper()
		raw, err := yaml.YAMLToJSON([]byte(pod))
		Expect(err).NotTo(HaveOccurred())
		n++
		owner := types.NamespacedName{Namespace: ns, Name: fmt.Sprintf("ask-%d", n)}
		runner.Ask(check.Ask{Owner: owner, Revision: "r", Templates: []check.Template{{
			Hash: "h", Subset: "s", Field: "cloneSetTemplate", Members: members, Pod: raw,
		}}})
		defer runner.Forget(owner)
		var got []check.Result
		Eventually(ctx, func(g Gomega) {
			got = runner.Results(owner)
			// What a busy API server did not answer in time is asked again.
			g.Expect(slices.ContainsFunc(got, func(r check.Result) bool { return r.Unknown && !r.Settled })).To(BeFalse(), "%+v", got)
		}).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(Succeed())
		return got
	}

	const in = "spec.template.cloneSetTemplate.spec.template."

	DescribeTable("names the fields that the API server refuses", func(ctx context.Context, pod, want string) {
		got := results(ctx, pod, "east")
		Expect(got).To(HaveLen(1))
		Expect(got[0].Invalid).To(ContainSubstring(in + want))
		Expect(got[0].Version).To(Equal("1.37"))
	},
		Entry("the name of a port", `spec: {containers: [{name: app, image: "app:1", ports: [{name: Not_A_Port, containerPort: 80}]}]}`,
			`spec.containers[0].ports[0].name: Invalid value: "Not_A_Port"`),
		Entry("the value of a label", `{metadata: {labels: {app: "a b"}}, spec: {containers: [{name: app, image: "app:1"}]}}`,
			`metadata.labels: Invalid value: "a b"`),
		Entry("a limit below its request", `spec: {containers: [{name: app, image: "app:1", resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]}`,
			`spec.containers[0].resources.requests: Invalid value: "2"`),
		Entry("two containers of one name", `spec: {containers: [{name: app, image: "app:1"}, {name: app, image: "app:2"}]}`,
			`spec.containers[1].name: Duplicate value: "app"`),
		Entry("a volume that is not there", `spec: {containers: [{name: app, image: "app:1", volumeMounts: [{name: data, mountPath: /d}]}]}`,
			`spec.containers[0].volumeMounts[0].name: Not found: "data"`),
	)

	It("says that a value is of the wrong type", func(ctx context.Context) {
		got := results(ctx, `spec: {containers: [{name: app, image: "app:1", ports: "eighty"}]}`, "east")
		Expect(got[0].Invalid).To(And(HavePrefix("spec.template.cloneSetTemplate.spec.template: "), ContainSubstring("ports")))
	})

	It("B149 takes a field that the version does not know, and says that it is dropped", func(ctx context.Context) {
		got := results(ctx, `spec: {containers: [{name: app, image: "app:1", fromTheFuture: {a: 1}}]}`, "east")
		Expect(got[0].Invalid).To(BeEmpty())
		Expect(got[0].Unknown).To(BeFalse())
		Expect(got[0].Dropped).To(Equal([]string{in + "spec.containers[0].fromTheFuture"}))
	})

	It("asks once per minor version, and tells which one refuses", func(ctx context.Context) {
		policy(ctx, shared.at["west"], "no-new-"+ns, ns, `object.template.spec.containers.all(c, c.image != "new:1")`, "new:1 is of another version")
		got := results(ctx, `spec: {containers: [{name: app, image: "new:1"}]}`, "east", "west")
		Expect(got).To(HaveLen(2))
		Expect(got[0].Version).To(Equal("1.36"))
		Expect(got[0].Invalid).To(And(HavePrefix("spec.template.cloneSetTemplate.spec.template: "), ContainSubstring("new:1 is of another version")))
		Expect(got[1].Version).To(Equal("1.37"))
		Expect(got[1].Invalid).To(BeEmpty())
		Expect(got[1].Unknown).To(BeFalse())
		got = results(ctx, `spec: {containers: [{name: app, image: "old:1"}]}`, "east", "west")
		Expect(got[0].Invalid).To(BeEmpty())
	})

	It("does not take a place that takes no PodTemplates for a verdict", func(ctx context.Context) {
		policy(ctx, shared.at["east"], "none-"+ns, ns, "false", "no PodTemplates here")
		got := results(ctx, `spec: {containers: [{name: app, image: "app:1"}]}`, "east")
		Expect(got[0].Invalid).To(BeEmpty())
		Expect(got[0].Unknown).To(BeTrue())
		Expect(got[0].Settled).To(BeTrue())
		Expect(got[0].Why).To(ContainSubstring("no PodTemplates here"))
	})

	It("does not take a quota for a verdict", func(ctx context.Context) {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none", Namespace: ns}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{"count/podtemplates": resource.MustParse("0")},
		}}
		Expect(shared.at["west"].Create(ctx, quota)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(shared.at["west"].Delete(ctx, quota)).To(Succeed()) })
		Eventually(ctx, func(g Gomega) {
			g.Expect(shared.at["west"].Get(ctx, client.ObjectKeyFromObject(quota), quota)).To(Succeed())
			g.Expect(quota.Status.Hard).NotTo(BeEmpty())
			// The API server learns of it in its own time.
			probe := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: ns}, Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
			}}
			g.Expect(shared.at["west"].Create(ctx, probe, client.DryRunAll)).To(MatchError(ContainSubstring("quota")))
		}).WithTimeout(patience).WithPolling(100 * time.Millisecond).Should(Succeed())
		got := results(ctx, `spec: {containers: [{name: app, image: "app:1"}]}`, "west")
		Expect(got[0].Invalid).To(BeEmpty())
		Expect(got[0].Settled).To(BeTrue())
		Expect(got[0].Why).To(ContainSubstring("quota"))
	})

	It("asks where the namespace is missing, and makes none", func(ctx context.Context) {
		got := results(ctx, `spec: {containers: [{name: app, image: "app:1", ports: [{name: Not_A_Port, containerPort: 80}]}]}`, "north")
		Expect(got[0].Invalid).To(ContainSubstring(in + "spec.containers[0].ports[0].name"))
		got = results(ctx, `spec: {containers: [{name: app, image: "app:1"}]}`, "north")
		Expect(got[0].Unknown).To(BeFalse())
		err := shared.at["north"].Get(ctx, types.NamespacedName{Name: ns}, &corev1.Namespace{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	})

	AfterAll(func(ctx context.Context) {
		for name, c := range shared.at {
			var left corev1.PodTemplateList
			Expect(c.List(ctx, &left)).To(Succeed())
			Expect(left.Items).To(BeEmpty(), name)
			events, err := shared.fleet.Member(name).Since(mark[name], lab.Writes, lab.On("podtemplates"))
			Expect(err).NotTo(HaveOccurred())
			Expect(events).To(BeEmpty(), name)
		}
	})
})
