package claims_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/claims"
)

func raw(texts ...string) []appsv1alpha1.RawObject {
	var out []appsv1alpha1.RawObject
	for _, text := range texts {
		out = append(out, appsv1alpha1.RawObject{RawExtension: runtime.RawExtension{Raw: []byte(text)}})
	}
	return out
}

func template(name, size string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"` + size + `"}}}}`
}

func set(t *testing.T, texts ...string) claims.Set {
	t.Helper()
	templates, err := claims.Read(raw(texts...))
	if err != nil {
		t.Fatal(err)
	}
	return claims.Set{
		Templates: templates, Namespace: "demo", Labels: map[string]string{"app": "web"},
		Owner: metav1.OwnerReference{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web", UID: "u", Controller: new(true)},
	}
}

// TestA01: one claim per pod, named and labelled as OpenKruise does it.
func TestA01(t *testing.T) {
	t.Parallel()
	s := set(t, `{"metadata":{"name":"data","labels":{"tier":"gold"}},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"20Gi"}},"unknownField":{"n":1}}}`)
	want := map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"metadata": map[string]any{
			"namespace": "demo", "name": "data-web-9m4hp",
			"labels":      map[string]any{"app": "web", "tier": "gold", "apps.kruise.io/cloneset-instance-id": "9m4hp"},
			"annotations": map[string]any{"apps.underway.dev/claim-template": s.Templates[0].Hash},
			"ownerReferences": []any{map[string]any{
				"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "u", "controller": true,
			}},
		},
		"spec": map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "20Gi"}},
			"unknownField": map[string]any{"n": int64(1)},
		},
	}
	got := s.Missing("9m4hp", nil)
	if len(got) != 1 {
		t.Fatalf("%d claims", len(got))
	}
	if diff := cmp.Diff(want, got[0].Object); diff != "" {
		t.Error(diff)
	}
	if more := s.Missing("9m4hp", map[string]bool{"data-web-9m4hp": true}); len(more) > 0 {
		t.Errorf("again: %v", more)
	}
}

func TestMount(t *testing.T) {
	t.Parallel()
	s := set(t, template("data", "1Gi"), template("log", "1Gi"))
	pod := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"volumes": []any{
		map[string]any{"name": "tmp", "emptyDir": map[string]any{}},
		map[string]any{"name": "data", "emptyDir": map[string]any{}},
	}}}}
	if err := s.Mount(pod, "abcde"); err != nil {
		t.Fatal(err)
	}
	got, _, err := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	if err != nil {
		t.Fatal(err)
	}
	claim := func(volume, name string) any {
		return map[string]any{"name": volume, "persistentVolumeClaim": map[string]any{"claimName": name}}
	}
	want := []any{claim("data", "data-web-abcde"), claim("log", "log-web-abcde"), map[string]any{"name": "tmp", "emptyDir": map[string]any{}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if pod.GetAnnotations()[appsv1alpha1.AnnotationClaimTemplate] != s.Hash() {
		t.Errorf("annotations %v", pod.GetAnnotations())
	}
	plain := &unstructured.Unstructured{Object: map[string]any{}}
	if err := set(t).Mount(plain, "abcde"); err != nil || len(plain.Object) > 0 {
		t.Errorf("%v, %v", plain.Object, err)
	}
}

func TestReadNamesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for want, texts := range map[string][]string{
		"spec.volumeClaimTemplates[0]: metadata.name: is missing":       {`{"spec":{}}`},
		"spec.volumeClaimTemplates[1]: metadata.name: another one":      {template("a", "1Gi"), template("a", "2Gi")},
		"spec.volumeClaimTemplates[0]: spec: is missing":                {`{"metadata":{"name":"a"}}`},
		"spec.volumeClaimTemplates[0]: spec.resources.requests.storage": {template("a", "much")},
		"spec.volumeClaimTemplates[0]: metadata.labels":                 {`{"metadata":{"name":"a","labels":{"n":1}},"spec":{"x":1}}`},
		"spec.volumeClaimTemplates[0]: ":                                {`[]`},
		"spec.volumeClaimTemplates[1]: ":                                {template("a", "1Gi"), `{"metadata":{"name":"b","name":"c"},"spec":{"x":1}}`},
	} {
		if _, err := claims.Read(raw(texts...)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestB091: another size is another template, another spelling of it or another label is not; only a pod that says that its
// volumes are of another one is recreated for it.
func TestB091(t *testing.T) {
	t.Parallel()
	small, big := set(t, template("data", "1Gi")), set(t, template("data", "2Gi"))
	same := set(t, `{"metadata":{"name":"data","labels":{"a":"b"}},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1024Mi"}}}}`)
	if small.Hash() == big.Hash() || small.Hash() != same.Hash() {
		t.Errorf("hashes %s, %s, %s", small.Hash(), big.Hash(), same.Hash())
	}
	if other := set(t, template("log", "1Gi")); other.Hash() == small.Hash() {
		t.Error("another name of the volume is no other volume")
	}
	pods := []inplace.Pod{
		{Ref: inplace.Ref{Name: "old"}, Annotations: map[string]string{appsv1alpha1.AnnotationClaimTemplate: small.Hash()}},
		{Ref: inplace.Ref{Name: "new"}, Annotations: map[string]string{appsv1alpha1.AnnotationClaimTemplate: big.Hash()}},
		{Ref: inplace.Ref{Name: "foreign"}},
	}
	got := big.Outdated(pods)
	if len(got) != 1 || got["old"] == "" {
		t.Errorf("outdated: %v", got)
	}
	if got := set(t).Outdated(pods); len(got) != 2 {
		t.Errorf("outdated without templates: %v", got)
	}
}

func TestUsable(t *testing.T) {
	t.Parallel()
	s := set(t, template("data", "1Gi"))
	good := inplace.Claim{Ref: inplace.Ref{Name: "data-web-abcde"}, ID: "abcde", Owner: "u", Template: s.Templates[0].Hash}
	cases := map[string]struct {
		change func(*inplace.Claim)
		want   string
	}{
		"ours":                          {func(*inplace.Claim) {}, ""},
		"made by OpenKruise":            {func(c *inplace.Claim) { c.Template = "" }, ""},
		"made from another template":    {func(c *inplace.Claim) { c.Template = "x" }, "another volumeClaimTemplate"},
		"of a template that is gone":    {func(c *inplace.Claim) { c.Name = "log-web-abcde" }, "that is gone"},
		"being deleted":                 {func(c *inplace.Claim) { c.Terminating = true }, "being deleted"},
		"of another CloneSet":           {func(c *inplace.Claim) { c.Owner = "v" }, "somebody else"},
		"of nobody: let go, or by hand": {func(c *inplace.Claim) { c.Owner = "" }, "somebody else"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := good
			tc.change(&c)
			if got := s.Usable([]inplace.Claim{good, c}); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestFrom(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(time.Unix(1_800_000_000, 0))
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "demo", Name: "data-web-abcde", UID: "p", ResourceVersion: "7", CreationTimestamp: at, DeletionTimestamp: &at,
		Labels:          map[string]string{appsv1alpha1.LabelCloneSetInstanceID: "abcde"},
		Annotations:     map[string]string{appsv1alpha1.AnnotationClaimTemplate: "h"},
		OwnerReferences: []metav1.OwnerReference{{UID: "x"}, {UID: "u", Controller: new(true)}},
	}}
	want := inplace.Claim{
		Ref: inplace.Ref{Namespace: "demo", Name: "data-web-abcde", UID: "p", ResourceVersion: "7"}, ID: "abcde", Template: "h",
		Owner: "u", Terminating: true, Created: at.Time,
	}
	if diff := cmp.Diff(want, claims.From(pvc)); diff != "" {
		t.Error(diff)
	}
}

// TestB121: a long name of a CloneSet still makes a name of a claim.
func TestB121(t *testing.T) {
	t.Parallel()
	s := set(t, template("data", "1Gi"))
	s.Owner.Name = strings.Repeat("a123456789.", 23)[:253]
	for _, template := range []string{"d", strings.Repeat("d", 63)} {
		name := s.Name(template, "abcde")
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		if !strings.HasPrefix(name, template+"-a1") || !strings.HasSuffix(name, "-abcde") {
			t.Errorf("%s", name)
		}
	}
}

// FuzzRead: what users write as claim templates never panics; what is read makes names and claims.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{template("data", "1Gi"), `{}`, `{"metadata":{"name":1}}`, `{"metadata":{"name":"a"},"spec":{"resources":{"requests":{"storage":1}}}}`, `{"metadata":{"name":"a"},"spec":{"resources":[]}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		templates, err := claims.Read([]appsv1alpha1.RawObject{{RawExtension: runtime.RawExtension{Raw: text}}})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "spec.volumeClaimTemplates[0]: ") {
				t.Errorf("%v does not name the field", err)
			}
			return
		}
		s := claims.Set{Templates: templates, Owner: metav1.OwnerReference{Name: "web"}}
		if len(s.Missing("abcde", nil)) != 1 || s.Hash() == "" {
			t.Errorf("read as %+v", templates)
		}
	})
}
