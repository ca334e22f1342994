package dryrun

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/underway-dev/underway/hub/check"
	"github.com/underway-dev/underway/propagation/clusters"
)

// apiServer is a member's, as far as PodTemplates go.
type apiServer struct {
	t       *testing.T
	version string
	// answer makes the answer to a template in a namespace; nil: it is taken as it is.
	answer func(namespace string, template map[string]any) *metav1.Status

	mu    sync.Mutex
	ready bool
	asked []string
	// hold keeps answers back while it is locked.
	hold sync.RWMutex
	url  string
}

func newServer(t *testing.T, version string, answer func(namespace string, template map[string]any) *metav1.Status) *apiServer {
	t.Helper()
	s := &apiServer{t: t, version: version, answer: answer, ready: true}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/podtemplates", s.create)
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *apiServer) create(w http.ResponseWriter, r *http.Request) {
	s.hold.RLock()
	defer s.hold.RUnlock()
	if q := r.URL.Query(); q.Get("dryRun") != "All" || q.Get("fieldValidation") != "Ignore" {
		s.t.Errorf("a create that is no dry run: %s", r.URL)
	}
	var obj map[string]any
	if err := json.NewDecoder(r.Body).Decode(&obj); err != nil {
		s.t.Error(err)
	}
	template, _ := obj["template"].(map[string]any)
	text, _ := json.Marshal(template)
	namespace := r.PathValue("namespace")
	s.mu.Lock()
	s.asked = append(s.asked, namespace+" "+string(text))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if s.answer != nil {
		if status := s.answer(namespace, template); status != nil {
			status.Kind, status.APIVersion, status.Status = "Status", "v1", metav1.StatusFailure
			w.WriteHeader(int(status.Code))
			_ = json.NewEncoder(w).Encode(status)
			return
		}
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(obj)
}

func (s *apiServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *apiServer) setReady(ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = ready
}

// fleet is a set of members.
type fleet map[string]*apiServer

func (f fleet) View(name string) (clusters.View, bool) {
	s, ok := f[name]
	if !ok {
		return clusters.View{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	view := clusters.View{Name: name, Version: s.version, State: clusters.StateDegraded}
	if s.ready {
		view.State = clusters.StateReady
	}
	return view, true
}

func (f fleet) Client(name string) (dynamic.Interface, error) {
	return dynamic.NewForConfig(&rest.Config{Host: f[name].url})
}

var owner = types.NamespacedName{Namespace: "shop", Name: "web"}

// run starts a Runner that lasts as long as the test; woken tells of changes.
func run(t *testing.T, f fleet) (r *Runner, woken chan struct{}) {
	t.Helper()
	woken = make(chan struct{}, 100)
	r = New(Options{Members: f, Clock: clock.RealClock{}, Wake: func(types.NamespacedName) { woken <- struct{}{} }})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r, woken
}

func ask(pod string, members ...string) check.Ask {
	return check.Ask{Owner: owner, Revision: "web-1", Templates: []check.Template{{
		Hash: "h", Subset: "s", Field: "cloneSetTemplate", Members: members, Pod: []byte(pod),
	}}}
}

// settled waits until no result is on its way, as the plan would: woken, never by polling.
func settled(t *testing.T, r *Runner, woken chan struct{}) []check.Result {
	t.Helper()
	for {
		results := r.Results(owner)
		if !slices.ContainsFunc(results, func(r check.Result) bool { return r.Unknown && r.Why == "" }) {
			return results
		}
		select {
		case <-woken:
		case <-time.After(20 * time.Second):
			t.Fatalf("no answer: %+v", results)
		}
	}
}

var untimed = cmpopts.IgnoreFields(check.Result{}, "Since")

const plain = `{"spec":{"containers":[{"name":"app","image":"app:1"}]}}`

func TestATemplateIsAskedAboutOncePerVersion(t *testing.T) {
	t.Parallel()
	f := fleet{"east": newServer(t, "v1.37.2", nil), "west": newServer(t, "v1.37.2", nil), "old": newServer(t, "v1.36.1", nil)}
	r, woken := run(t, f)
	for range 50 {
		r.Ask(ask(plain, "east", "west", "old"))
	}
	got := settled(t, r, woken)
	want := []check.Result{
		{Revision: "web-1", Version: "1.36", Subset: "s", Member: "old"}, {Revision: "web-1", Version: "1.37", Subset: "s", Member: "east"},
	}
	if diff := cmp.Diff(want, got, untimed); diff != "" {
		t.Error(diff)
	}
	r.Ask(ask(plain, "east", "west", "old"))
	for name, n := range map[string]int{"east": 1, "west": 0, "old": 1} {
		if asked := f[name].requests(); len(asked) != n {
			t.Errorf("%s was asked %d times, want %d: %v", name, len(asked), n, asked)
		}
	}
}

// refusal refuses templates whose first container has the image.
func refusal(image string, status metav1.Status) func(string, map[string]any) *metav1.Status {
	return func(_ string, template map[string]any) *metav1.Status {
		containers := template["spec"].(map[string]any)["containers"].([]any)
		if image != "*" && containers[0].(map[string]any)["image"] != image {
			return nil
		}
		return new(status)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	const in = "spec.template.cloneSetTemplate.spec.template"
	field := metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{
		Causes: []metav1.StatusCause{{Field: "template.spec.containers[0].image", Message: "Required value"}},
	}}
	policy := metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid, Message: "denied by policy"}
	noDryRun := metav1.Status{Code: 400, Reason: metav1.StatusReasonBadRequest, Message: "does not support dry run"}
	cases := map[string]struct {
		answer   func(string, map[string]any) *metav1.Status
		want     check.Result
		requests int
	}{
		"fields":                                      {refusal("app:1", field), check.Result{Invalid: in + ".spec.containers[0].image: Required value"}, 1},
		"a policy against this template":              {refusal("app:1", policy), check.Result{Invalid: in + ": denied by policy"}, 2},
		"a policy against PodTemplates as such":       {refusal("*", policy), check.Result{Unknown: true, Settled: true, Why: in + ": denied by policy"}, 2},
		"a webhook that takes no dry run":             {refusal("*", noDryRun), check.Result{Unknown: true, Settled: true, Why: in + ": does not support dry run"}, 2},
		"a quota":                                     {refusal("*", metav1.Status{Code: 403, Message: "exceeded quota"}), check.Result{Unknown: true, Settled: true, Why: "exceeded quota"}, 1},
		"an overload":                                 {refusal("*", metav1.Status{Code: 500, Message: "etcd"}), check.Result{Unknown: true, Why: "the API server does not answer the question"}, 1},
		"a namespace that is missing is not created":  {missingNamespace("default", field), check.Result{Invalid: in + ".spec.containers[0].image: Required value"}, 2},
		"and a namespace that is missing is no fault": {missingNamespace("", field), check.Result{}, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleet{"east": newServer(t, "v1.37.2", tc.answer)}
			r, woken := run(t, f)
			r.Ask(ask(plain, "east"))
			tc.want.Revision, tc.want.Version, tc.want.Subset, tc.want.Member = "web-1", "1.37", "s", "east"
			if diff := cmp.Diff([]check.Result{tc.want}, settled(t, r, woken), untimed); diff != "" {
				t.Error(diff)
			}
			if asked := f["east"].requests(); len(asked) != tc.requests {
				t.Errorf("%d requests, want %d: %v", len(asked), tc.requests, asked)
			}
		})
	}
}

// missingNamespace has namespace default only, where the status is the answer if it is the one named.
func missingNamespace(refusing string, status metav1.Status) func(string, map[string]any) *metav1.Status {
	return func(namespace string, _ map[string]any) *metav1.Status {
		switch namespace {
		case refusing:
			return new(status)
		case metav1.NamespaceDefault:
			return nil
		}
		return &metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound, Message: "not found", Details: &metav1.StatusDetails{Kind: "namespaces", Name: namespace}}
	}
}

func TestB149AFieldThatAMemberDropsIsSaid(t *testing.T) {
	t.Parallel()
	f := fleet{"east": newServer(t, "v1.30.0", func(_ string, template map[string]any) *metav1.Status {
		delete(template["spec"].(map[string]any), "newField") // as a version does that does not know it
		return nil
	})}
	r, woken := run(t, f)
	r.Ask(ask(`{"spec":{"newField":{"x":9007199254740993},"containers":[{"name":"app","image":"app:1"}]}}`, "east"))
	want := []check.Result{{
		Revision: "web-1", Version: "1.30", Subset: "s", Member: "east",
		Dropped: []string{"spec.template.cloneSetTemplate.spec.template.spec.newField"},
	}}
	if diff := cmp.Diff(want, settled(t, r, woken), untimed); diff != "" {
		t.Error(diff)
	}
	if asked := f["east"].requests(); len(asked) != 1 {
		t.Errorf("got %v", asked)
	}
}

func TestASlowMemberDelaysItsOwnAnswersOnly(t *testing.T) {
	t.Parallel()
	f := fleet{"east": newServer(t, "v1.37.2", nil), "slow": newServer(t, "v1.36.0", nil)}
	f["slow"].hold.Lock()
	r, woken := run(t, f)
	r.Ask(ask(plain, "slow", "east"))
	other := types.NamespacedName{Namespace: "shop", Name: "other"}
	second := ask(plain, "slow", "east")
	second.Owner = other
	r.Ask(second)
	deadline := time.After(20 * time.Second)
	for {
		a, b := r.Results(owner), r.Results(other)
		if !a[1].Unknown && !b[1].Unknown {
			break
		}
		select {
		case <-woken:
		case <-deadline:
			t.Fatalf("east's answers wait for the slow member: %+v %+v", a, b)
		}
	}
	if a := r.Results(owner); !a[0].Unknown {
		t.Errorf("an answer that nobody gave: %+v", a)
	}
	if asked := f["slow"].requests(); len(asked) != 0 {
		t.Errorf("the answer was not held: %v", asked)
	}
	f["slow"].hold.Unlock()
	settled(t, r, woken)
	if asked := f["slow"].requests(); len(asked) > 2 {
		t.Errorf("asked too often: %v", asked)
	}
}

func TestAMemberThatComesBackIsAsked(t *testing.T) {
	t.Parallel()
	f := fleet{"east": newServer(t, "v1.37.2", nil)}
	f["east"].setReady(false)
	r, woken := run(t, f)
	r.Ask(ask(plain, "east"))
	if got := settled(t, r, woken); got[0].Why != "no member of that version answers" {
		t.Fatalf("got %+v", got)
	}
	f["east"].setReady(true)
	r.Ask(ask(plain, "east")) // the reconcile that its return causes
	for r.Results(owner)[0].Unknown {
		select {
		case <-woken:
		case <-time.After(20 * time.Second):
			t.Fatal("it is not asked")
		}
	}
}

func TestANewRevisionReplacesTheOldAndForgetLeavesNothing(t *testing.T) {
	t.Parallel()
	f := fleet{"east": newServer(t, "v1.37.2", nil)}
	f["east"].hold.Lock()
	r, woken := run(t, f)
	r.Ask(ask(plain, "east"))
	next := ask(`{"spec":{"containers":[{"name":"app","image":"app:2"}]}}`, "east")
	next.Revision, next.Templates[0].Hash = "web-2", "h2"
	r.Ask(next)
	if got := r.Results(owner); len(got) != 1 || got[0].Revision != "web-2" {
		t.Errorf("got %+v", got)
	}
	f["east"].hold.Unlock()
	if got := settled(t, r, woken); got[0].Revision != "web-2" || got[0].Unknown {
		t.Errorf("got %+v", got)
	}
	r.Forget(owner)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.owners) != 0 || len(r.busy) != 0 {
		t.Errorf("left: %v %v", r.owners, r.busy)
	}
}
