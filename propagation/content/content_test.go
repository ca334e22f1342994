package content_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/underway-dev/underway/propagation/content"
)

func TestReferences(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec string
		want string
	}{
		"nothing":                    {`"containers": [{"name": "a"}]`, ""},
		"a volume":                   {`"volumes": [{"name": "v", "configMap": {"name": "a"}}, {"name": "w", "secret": {"secretName": "b", "optional": true}}]`, "ConfigMap a, Secret b?"},
		"a projected volume":         {`"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "a", "optional": true}}, {"secret": {"name": "b"}}, {"serviceAccountToken": {"path": "t"}}]}}]`, "ConfigMap a?, Secret b"},
		"a claim":                    {`"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]`, "PersistentVolumeClaim data"},
		"an ephemeral volume":        {`"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, {"name": "w", "emptyDir": {}}]`, ""},
		"the secret of a CSI":        {`"volumes": [{"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}]`, "Secret s"},
		"old volume types":           {`"volumes": [{"name": "v", "azureFile": {"secretName": "a", "shareName": "x"}}, {"name": "w", "iscsi": {"secretRef": {"name": "b"}}}]`, "Secret a, Secret b"},
		"an environment":             {`"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}], "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}, {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "d", "key": "k", "optional": true}}}, {"name": "Z", "value": "z"}]}]`, "ConfigMap a, ConfigMap c, Secret b, Secret d?"},
		"a native sidecar":           {`"initContainers": [{"name": "s", "restartPolicy": "Always", "envFrom": [{"configMapRef": {"name": "a"}}]}]`, "ConfigMap a"},
		"an ephemeral container":     {`"ephemeralContainers": [{"name": "s", "envFrom": [{"secretRef": {"name": "a"}}]}]`, "Secret a"},
		"pull secrets":               {`"imagePullSecrets": [{"name": "b"}, {"name": "a"}]`, "Secret a?, Secret b?"},
		"a pull secret in use":       {`"imagePullSecrets": [{"name": "a"}], "volumes": [{"name": "v", "secret": {"secretName": "a"}}]`, "Secret a"},
		"an account":                 {`"serviceAccountName": "web", "serviceAccount": "old"`, "ServiceAccount web"},
		"the old name of an account": {`"serviceAccount": "web"`, "ServiceAccount web"},
		"what every namespace has":   {`"serviceAccountName": "default", "volumes": [{"name": "v", "configMap": {"name": "kube-root-ca.crt"}}]`, ""},
		"twice":                      {`"volumes": [{"name": "v", "configMap": {"name": "a", "optional": true}}, {"name": "w", "configMap": {"name": "a"}}]`, "ConfigMap a"},
		"a field of tomorrow":        {`"fieldOfTomorrow": {"x": 1}, "volumes": [{"name": "v", "configMap": {"name": "a"}, "y": [1]}]`, "ConfigMap a"},
		"a directive of a patch":     {`"volumes": [{"$patch": "replace"}, {"name": "v", "configMap": {"name": "a"}}], "$setElementOrder/volumes": [{"name": "v"}]`, "ConfigMap a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refs, err := content.References([]byte(`{"metadata": {"labels": {"a": "b"}}, "spec": {` + tc.spec + `}}`))
			if err != nil {
				t.Fatal(err)
			}
			parts := make([]string, len(refs))
			for i, r := range refs {
				parts[i] = r.String()
				if r.Optional {
					parts[i] += "?"
				}
			}
			if got := strings.Join(parts, ", "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if _, err := content.References([]byte(`{"spec": {"volumes": "x"}}`)); err == nil {
		t.Error("a template that cannot be read names nothing and says nothing")
	}
}

func parse(t *testing.T, raw string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(raw), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestPrepareRefuses(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"the account of every namespace": `{"kind": "ServiceAccount", "metadata": {"name": "default"}}`,
		"the cluster's CA":               `{"kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}}`,
		"a token":                        `{"kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": {"name": "t"}}`,
		"a token by its annotation":      `{"kind": "Secret", "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "x"}}}`,
		"a bootstrap token":              `{"kind": "Secret", "type": "bootstrap.kubernetes.io/token", "metadata": {"name": "t"}}`,
		"a release of Helm":              `{"kind": "Secret", "type": "helm.sh/release.v1", "metadata": {"name": "x"}}`,
		"a release of Helm by its name":  `{"kind": "ConfigMap", "metadata": {"name": "sh.helm.release.v1.web.v3"}}`,
		"managed elsewhere":              `{"kind": "ConfigMap", "metadata": {"name": "a", "annotations": {"fleet.underway.dev/propagate": "false"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, why := content.Prepare(parse(t, raw)); out != nil || why == "" {
				t.Errorf("it travels: %v", out)
			}
		})
	}
	for _, name := range []string{"Default", "kube-root-ca", "defaults"} {
		if _, why := content.Prepare(parse(t, `{"kind": "ConfigMap", "metadata": {"name": "`+name+`"}}`)); why != "" {
			t.Errorf("%s does not travel: %s", name, why)
		}
	}
}

func TestPrepareKeepsWhatMeansTheSameEverywhere(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want string }{
		"a ConfigMap": {
			`{"apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "data": {"a": "b"}, "binaryData": {"c": "ZA=="}, "metadata": {
				"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{}],
				"finalizers": ["f"], "ownerReferences": [{"uid": "o"}],
				"labels": {"app": "x", "argocd.argoproj.io/instance": "i", "fleet.underway.dev/hub": "h", "kustomize.toolkit.fluxcd.io/name": "k"},
				"annotations": {"note": "y", "kubectl.kubernetes.io/last-applied-configuration": "{}", "meta.helm.sh/release-name": "r",
					"fleet.underway.dev/intent": "i", "owner.fleet.underway.dev/u": ""}}}`,
			`{"apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "data": {"a": "b"}, "binaryData": {"c": "ZA=="}, "metadata": {
				"name": "a", "namespace": "n", "labels": {"app": "x"}, "annotations": {"note": "y"}}}`,
		},
		"an account": {
			`{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "n"}, "secrets": [{"name": "t"}], "imagePullSecrets": [{"name": "p"}], "automountServiceAccountToken": false}`,
			`{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "n"}, "imagePullSecrets": [{"name": "p"}], "automountServiceAccountToken": false}`,
		},
		"a claim": {
			`{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a", "namespace": "n", "annotations": {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n1"}},
				"spec": {"volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Bound"}}`,
			`{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a", "namespace": "n"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}`,
		},
		"a Service": {
			`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "n"}, "spec": {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ipFamilies": ["IPv4"],
				"ipFamilyPolicy": "SingleStack", "healthCheckNodePort": 1, "ports": [{"port": 80, "nodePort": 30001}], "selector": {"app": "x"}}, "status": {"loadBalancer": {}}}`,
			`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "n"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}}`,
		},
		"a headless Service": {
			`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "n"}, "spec": {"clusterIP": "None", "clusterIPs": ["None"], "ipFamilyPolicy": "PreferDualStack"}}`,
			`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "n"}, "spec": {"clusterIP": "None", "ipFamilyPolicy": "PreferDualStack"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := parse(t, tc.in)
			untouched := in.DeepCopy()
			got, why := content.Prepare(in)
			if why != "" {
				t.Fatal(why)
			}
			if diff := cmp.Diff(parse(t, tc.want).Object, got.Object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(untouched.Object, in.Object); diff != "" {
				t.Errorf("the hub's object was changed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPrepareProperties: whatever is there, what is sent has named fields of metadata only, is the same when prepared again,
// and the same for an object whose API server filled other things in.
func TestPrepareProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.SampledFrom([]string{"a", "fleet.underway.dev/x", "kubectl.kubernetes.io/y", "pv.kubernetes.io/z", "team"})
		object := func() *unstructured.Unstructured {
			u := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": rapid.SampledFrom([]string{"ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim", "Service"}).Draw(rt, "kind"),
				"data": map[string]any{"k": rapid.String().Draw(rt, "data")}, "spec": map[string]any{"x": rapid.String().Draw(rt, "spec")},
			}}
			u.SetName("n")
			u.SetNamespace("ns")
			u.SetLabels(rapid.MapOf(text, rapid.Just("v")).Draw(rt, "labels"))
			u.SetAnnotations(rapid.MapOf(text, rapid.Just("v")).Draw(rt, "annotations"))
			return u
		}
		one := object()
		other := one.DeepCopy()
		other.SetUID("u")
		other.SetResourceVersion(fmt.Sprint(rapid.Int().Draw(rt, "version")))
		other.SetFinalizers([]string{"f"})
		other.Object["status"] = map[string]any{"phase": "x"}
		a, _ := content.Prepare(one)
		b, _ := content.Prepare(other)
		if diff := cmp.Diff(a.Object, b.Object); diff != "" {
			rt.Fatalf("it differs by what the server fills in:\n%s", diff)
		}
		again, _ := content.Prepare(a)
		if diff := cmp.Diff(a.Object, again.Object); diff != "" {
			rt.Fatalf("prepared twice it differs:\n%s", diff)
		}
		for field := range a.Object["metadata"].(map[string]any) {
			if field != "name" && field != "namespace" && field != "labels" && field != "annotations" {
				rt.Fatalf("metadata.%s is sent", field)
			}
		}
	})
}
