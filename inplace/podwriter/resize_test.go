package podwriter_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podwriter"
)

// request is one request as it was on the wire.
type request struct {
	Verb, Path string
	Body       map[string]any
}

// wire is an API server that records requests and answers each with the next of answers, or with the pod at the next
// version.
type wire struct {
	mu       sync.Mutex
	requests []request
	answers  []http.HandlerFunc
}

func (s *wire) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, _ := io.ReadAll(r.Body)
	one := request{Verb: r.Method, Path: r.URL.Path}
	_ = json.Unmarshal(raw, &one.Body)
	if kind := r.Header.Get("Content-Type"); kind != "application/strategic-merge-patch+json" {
		one.Verb += " " + kind
	}
	s.requests = append(s.requests, one)
	n := len(s.requests)
	if n <= len(s.answers) && s.answers[n-1] != nil {
		s.answers[n-1](w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: fmt.Sprint(7 + n)},
	})
}

// answer is an API server's refusal.
func answer(code int, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(&metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
			Code: int32(code), Reason: reason, Message: message,
			Details: &metav1.StatusDetails{Name: "a", Kind: "pods", Causes: causes},
		})
	}
}

// do writes one patch through a real client to a wire with these answers.
func do(t *testing.T, p inplace.Patch, answers ...http.HandlerFunc) ([]request, podwriter.Result, error) {
	t.Helper()
	s := &wire{answers: answers}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	c, err := client.New(&rest.Config{Host: server.URL}, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	p.Ref = inplace.Ref{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "7"}
	result, err := podwriter.New(c).Do(t.Context(), inplace.Decision{Patches: []inplace.Patch{p}})
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, result, err
}

func cpu(value string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(value)}}
}

func both() inplace.Patch {
	return inplace.Patch{
		Kind: inplace.PatchUpdate, To: "web-2",
		Images: map[string]string{"web": "web:2"}, InitImages: map[string]string{"log": "log:2"},
		Resources: map[string]corev1.ResourceRequirements{"web": cpu("2")}, InitResources: map[string]corev1.ResourceRequirements{"log": cpu("3")},
		Metadata: inplace.MetadataChange{Annotations: map[string]*string{appsv1alpha1.AnnotationInPlaceState: new("{}")}},
	}
}

const (
	podPath    = "/api/v1/namespaces/ns/pods/a"
	resizePath = podPath + "/resize"
)

func preconditions(version string) map[string]any {
	return map[string]any{"uid": "u", "resourceVersion": version}
}

func sized(name, value string) []any {
	return []any{map[string]any{"name": name, "resources": map[string]any{"requests": map[string]any{"cpu": value}}}}
}

func TestAnUpdateWithResourcesIsTwoRequests(t *testing.T) {
	t.Parallel()
	requests, result, err := do(t, both())
	if err != nil {
		t.Fatal(err)
	}
	first := preconditions("7")
	first["annotations"] = map[string]any{appsv1alpha1.AnnotationInPlaceState: "{}"}
	want := []request{
		{Verb: "PATCH", Path: podPath, Body: map[string]any{"metadata": first, "spec": map[string]any{
			"containers":     []any{map[string]any{"name": "web", "image": "web:2"}},
			"initContainers": []any{map[string]any{"name": "log", "image": "log:2"}},
		}}},
		{Verb: "PATCH", Path: resizePath, Body: map[string]any{"metadata": preconditions("8"), "spec": map[string]any{
			"containers": sized("web", "2"), "initContainers": sized("log", "3"),
		}}},
	}
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	wrote := podwriter.Result{Patched: 1, Written: []podwriter.Written{{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "9"}}}
	if diff := cmp.Diff(wrote, result); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func TestAResizeIsOneRequest(t *testing.T) {
	t.Parallel()
	p := both()
	p.Kind, p.InitResources = inplace.PatchResize, nil
	requests, result, err := do(t, p)
	if err != nil {
		t.Fatal(err)
	}
	want := []request{{Verb: "PATCH", Path: resizePath, Body: map[string]any{
		"metadata": preconditions("7"), "spec": map[string]any{"containers": sized("web", "2")},
	}}}
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if result.Patched != 1 || result.Written[0].ResourceVersion != "8" {
		t.Errorf("result %+v", result)
	}
}

func TestAResizeOfNothingIsNotSent(t *testing.T) {
	t.Parallel()
	requests, result, err := do(t, inplace.Patch{Kind: inplace.PatchResize})
	if err == nil || len(requests) != 0 || len(result.Unsure) != 0 {
		t.Errorf("%v, %+v, %v", requests, result, err)
	}
}

// The first request is answered with a pod; these are answers to the second.
func TestAnswersToAResize(t *testing.T) {
	t.Parallel()
	patched := []podwriter.Written{{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "8"}}
	refused := func(message string, final bool) podwriter.Result {
		return podwriter.Result{Patched: 1, Written: patched, Refused: []podwriter.Refusal{{Message: message, Final: final}}}
	}
	cases := map[string]struct {
		answer  http.HandlerFunc
		want    podwriter.Result
		wantErr bool
	}{
		"the node can never hold it": {
			answer: answer(403, metav1.StatusReasonForbidden, `pods "a" is forbidden: Node didn't have enough allocatable resources: cpu, requested: 9, allocatable: 4`),
			want:   refused("Node didn't have enough allocatable resources: cpu, requested: 9, allocatable: 4", true),
		},
		"a quota": {
			answer: answer(403, metav1.StatusReasonForbidden, `pods "a" is forbidden: exceeded quota: q, requested: cpu=1`),
			want:   refused("exceeded quota: q, requested: cpu=1", false),
		},
		"missing rights": {
			answer: answer(403, metav1.StatusReasonForbidden, `pods "a" is forbidden: User "x" cannot patch resource "pods/resize"`),
			want:   refused(`User "x" cannot patch resource "pods/resize"`, false),
		},
		"another QoS class": {
			answer: answer(422, metav1.StatusReasonInvalid, `Pod "a" is invalid: spec: Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing`),
			want:   refused(`spec: Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing`, true),
		},
		"a kubelet of before": {
			answer: answer(422, metav1.StatusReasonInvalid, `Pod "a" is invalid: spec: Forbidden: Pod running on node without support for resize`),
			want:   refused("spec: Forbidden: Pod running on node without support for resize", true),
		},
		"a long message": {
			answer: answer(422, metav1.StatusReasonInvalid, `Pod "a" is invalid: `+strings.Repeat("ü", 400)),
			want:   refused(strings.Repeat("ü", 256)+"...", true),
		},
		"no such subresource": {
			answer: func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
			want:   refused("the API server does not serve pods/resize", true),
		},
		"no such verb": {
			answer: answer(405, metav1.StatusReasonMethodNotAllowed, "not supported"),
			want:   refused("the API server does not serve pods/resize", true),
		},
		"another version": {
			answer: answer(409, metav1.StatusReasonConflict, "the object has been modified"),
			want:   podwriter.Result{Patched: 1, Written: patched, Conflicts: 1},
		},
		"gone": {
			answer: answer(404, metav1.StatusReasonNotFound, `pods "a" not found`),
			want:   podwriter.Result{Patched: 1, Written: patched, Conflicts: 1},
		},
		"recreated": {
			answer: answer(422, metav1.StatusReasonInvalid, `Pod "a" is invalid: metadata.uid`, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid"}),
			want:   podwriter.Result{Patched: 1, Written: patched, Conflicts: 1},
		},
		"a server error": {
			answer:  answer(500, metav1.StatusReasonInternalError, "etcd"),
			want:    podwriter.Result{Patched: 1, Written: patched, Unsure: []inplace.Ref{{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "8"}}},
			wantErr: true,
		},
		"no answer": {
			answer:  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			want:    podwriter.Result{Patched: 1, Written: patched, Unsure: []inplace.Ref{{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "8"}}},
			wantErr: true,
		},
		"not who we were": {
			answer:  answer(401, metav1.StatusReasonUnauthorized, "Unauthorized"),
			want:    podwriter.Result{Patched: 1, Written: patched},
			wantErr: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests, result, err := do(t, both(), nil, tc.answer)
			if (err != nil) != tc.wantErr || len(requests) != 2 {
				t.Errorf("err %v, %d requests", err, len(requests))
			}
			for _, r := range result.Refused {
				if p := r.Patch; p.Name != "a" || p.UID != "u" || p.ResourceVersion != "8" || p.Kind != inplace.PatchResize {
					t.Errorf("refused %+v", r)
				}
			}
			if diff := cmp.Diff(tc.want, result, cmpopts.IgnoreFields(podwriter.Refusal{}, "Patch")); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnUpdateThatIsNotWrittenIsNotResized(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]http.HandlerFunc{
		"conflict": answer(409, metav1.StatusReasonConflict, "the object has been modified"),
		"refused":  answer(422, metav1.StatusReasonInvalid, `Pod "a" is invalid: spec`),
		"error":    answer(500, metav1.StatusReasonInternalError, "etcd"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests, result, _ := do(t, both(), first)
			if len(requests) != 1 || result.Patched != 0 || len(result.Written) != 0 || len(result.Refused) != 0 {
				t.Errorf("%d requests, %+v", len(requests), result)
			}
		})
	}
}
