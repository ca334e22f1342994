package content

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

const (
	defaultAccount = "default"
	rootCA         = "kube-root-ca.crt"
	// helmRelease is the type of the Secrets, and the begin of the names of the ConfigMaps, that hold Helm's releases.
	helmRelease = "helm.sh/release.v1"
	helmPrefix  = "sh.helm.release.v1."
	// clusterSecret is the type of Cluster API's Secrets: kubeconfigs and keys of whole clusters.
	clusterSecret = "cluster.x-k8s.io/secret" //nolint:gosec // the name of a type
	kindJob       = "Job"
)

// everywhere is true for what every namespace of every cluster has of its own.
func everywhere(kind, name string) bool {
	return (kind == KindServiceAccount && name == defaultAccount) || (kind == KindConfigMap && name == rootCA)
}

// Excluded says why an object never travels, as far as its metadata tells; "" when it may.
func Excluded(kind string, name string, annotations map[string]string) string {
	switch {
	case everywhere(kind, name):
		return "every namespace has one of its own"
	case annotations[appsv1alpha1.AnnotationPropagate] == "false":
		return "it is marked as managed elsewhere (" + appsv1alpha1.AnnotationPropagate + `: "false")`
	case kind == KindSecret && annotations[corev1.ServiceAccountNameKey] != "":
		return "it is the token of an account of this cluster"
	case (kind == KindSecret || kind == KindConfigMap) && strings.HasPrefix(name, helmPrefix):
		return "it is a release of Helm in this cluster"
	}
	return ""
}

// Prepare is what is sent of an object: its name, namespace, labels and annotations without those that mean something in
// its own cluster only, and its content without what API servers and controllers fill in. The second result says why the
// object never travels; the first is then nil. obj is not changed.
func Prepare(obj *unstructured.Unstructured) (*unstructured.Unstructured, string) {
	kind := obj.GetKind()
	if why := Excluded(kind, obj.GetName(), obj.GetAnnotations()); why != "" {
		return nil, why
	}
	if kind == KindSecret {
		typ, _, _ := unstructured.NestedString(obj.Object, "type")
		switch typ {
		case string(corev1.SecretTypeServiceAccountToken), string(corev1.SecretTypeBootstrapToken), helmRelease, clusterSecret:
			return nil, "a Secret of type " + typ + " belongs to one cluster"
		}
	}
	out := map[string]any{}
	for field, v := range obj.Object {
		if field != "status" && field != "metadata" && v != nil {
			out[field] = runtime.DeepCopyJSONValue(v)
		}
	}
	meta := map[string]any{"name": obj.GetName(), "namespace": obj.GetNamespace()}
	for field, have := range map[string]map[string]string{"labels": obj.GetLabels(), "annotations": obj.GetAnnotations()} {
		kept := map[string]any{}
		for name, v := range have {
			if travels(kind, name) {
				kept[name] = v
			}
		}
		if len(kept) > 0 {
			meta[field] = kept
		}
	}
	out["metadata"] = meta
	u := &unstructured.Unstructured{Object: out}
	switch kind {
	case KindServiceAccount:
		delete(out, "secrets")
	case KindClaim:
		unstructured.RemoveNestedField(out, "spec", "volumeName")
	case KindService:
		service(u)
	case kindJob:
		job(u)
	}
	return u, ""
}

// travels is false for labels and annotations that mean something in their own cluster only: ours, those by which kubectl
// and GitOps tools find what is theirs (on a member they would make such a tool take the copy for its own, and remove it),
// and those of the controllers that bind claims.
func travels(kind, name string) bool {
	own := []string{
		"fleet.underway.dev/", appsv1alpha1.AnnotationOwnerPrefix, "kubectl.kubernetes.io/", "argocd.argoproj.io/",
		"kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/", "meta.helm.sh/", "control-plane.alpha.kubernetes.io/",
	}
	if kind == KindClaim {
		own = append(own, "pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/")
	}
	if kind == kindJob {
		own = append(own, "batch.kubernetes.io/")
	}
	return !slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// job leaves out the selector that the API server makes of a Job's UID, and the labels that it gives the pods for it: in
// another cluster they name a Job that is not there, and are refused. A selector of the author's own stays.
func job(u *unstructured.Unstructured) {
	if manual, _, _ := unstructured.NestedBool(u.Object, "spec", "manualSelector"); manual {
		return
	}
	unstructured.RemoveNestedField(u.Object, "spec", "selector")
	for _, at := range [][]string{{"metadata"}, {"spec", "template", "metadata"}} {
		labels, _, _ := unstructured.NestedMap(u.Object, slices.Concat(at, []string{"labels"})...)
		for name := range labels {
			if name == "controller-uid" || name == "job-name" || strings.HasPrefix(name, "batch.kubernetes.io/") {
				delete(labels, name)
			}
		}
		unstructured.RemoveNestedField(u.Object, slices.Concat(at, []string{"labels"})...)
		if len(labels) > 0 {
			_ = unstructured.SetNestedMap(u.Object, labels, slices.Concat(at, []string{"labels"})...) // it was there
		}
	}
}

// service leaves out what a cluster allots to a Service. A headless one stays headless.
func service(u *unstructured.Unstructured) {
	spec, ok := u.Object["spec"].(map[string]any)
	if !ok {
		return
	}
	if spec["clusterIP"] != corev1.ClusterIPNone {
		delete(spec, "clusterIP")
	}
	for _, field := range []string{"clusterIPs", "healthCheckNodePort", "ipFamilies"} {
		delete(spec, field)
	}
	if spec["ipFamilyPolicy"] == string(corev1.IPFamilyPolicySingleStack) {
		delete(spec, "ipFamilyPolicy")
	}
	ports, _ := spec["ports"].([]any)
	for _, port := range ports {
		if m, ok := port.(map[string]any); ok {
			delete(m, "nodePort")
		}
	}
}
