package check

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func at(seconds int) time.Time { return time.Unix(1_800_000_000+int64(seconds), 0) }

func template(hash string, members ...string) Template {
	return Template{Hash: hash, Subset: "s-" + hash, Field: "cloneSetTemplate", Members: members, Pod: []byte(`{"spec":{"containers":[]}}`)}
}

func ready(version string) Member { return Member{Ready: true, Version: version} }

// probesOf are the probes as text.
func probesOf(p Plan) []string {
	var out []string
	for _, probe := range p.Probes {
		out = append(out, fmt.Sprintf("%s on %s at %s", probe.Hash, probe.Version, probe.Member))
	}
	return out
}

func TestEachDistinctTemplateIsAskedOncePerMinorVersion(t *testing.T) {
	t.Parallel()
	ask := Ask{Revision: "r", Templates: []Template{template("a", "east", "west", "north", "old"), template("b", "west")}}
	members := map[string]Member{
		"east": ready("v1.37.2"), "west": ready("v1.37.0-vnd.12"), "north": {Version: "v1.37.2"}, "old": ready("v1.36.9"),
	}
	got := probesOf(Next(ask, members, Known{}, at(0)))
	want := []string{"a on 1.36 at old", "a on 1.37 at east", "b on 1.37 at west"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestB147VersionsOfVendorsAreRead(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.33.1-vnd.1234567": "1.33", "v1.32.3-xyz-5d4a308": "1.32", "v1.32+vnd.1": "1.32", "v1.31.9-vnd.1": "1.31", "v2.0.0": "2.0",
		"1.37": "1.37", "": "", "v": "v", "v1": "v1", "v1.": "v1.", "banana": "banana", "v1.33+": "1.33",
	} {
		if got := Minor(version); got != want {
			t.Errorf("Minor(%q) = %q, want %q", version, got, want)
		}
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	key := Key{"a", "1.37"}
	cases := map[string]struct {
		template Template
		members  map[string]Member
		known    Known
		// Wanted.
		probes []string
		again  time.Duration
		result Result
	}{
		"a question on its way is not asked twice": {
			template: template("a", "east"), members: map[string]Member{"east": ready("v1.37.2")},
			known:  Known{Busy: map[Key]bool{key: true}},
			result: Result{Version: "1.37", Unknown: true},
		},
		"an answer stands": {
			template: template("a", "east"), members: map[string]Member{"east": ready("v1.37.2")},
			known:  Known{Answers: map[Key]Answer{key: {Outcome: OutcomeValid, Member: "east", Dropped: []string{"x"}}}},
			result: Result{Version: "1.37", Member: "east", Dropped: []string{"x"}},
		},
		"it stands also when the one who gave it is gone": {
			template: template("a", "east"), members: map[string]Member{"east": {Version: "v1.37.2"}},
			known:  Known{Answers: map[Key]Answer{key: {Outcome: OutcomeInvalid, Member: "east", Text: "bad"}}},
			result: Result{Version: "1.37", Member: "east", Invalid: "bad"},
		},
		"one that fails hands the question on": {
			template: template("a", "east", "west"), members: map[string]Member{"east": ready("v1.37.2"), "west": ready("v1.37.1")},
			known:  Known{Answers: map[Key]Answer{key: {Outcome: OutcomeFailed, Member: "east", Tried: []string{"east"}, Text: "no answer", At: at(0)}}},
			probes: []string{"a on 1.37 at west"},
			result: Result{Version: "1.37", Member: "east", Unknown: true, Why: "no answer"},
		},
		"when all have failed they are asked again later": {
			template: template("a", "east"), members: map[string]Member{"east": ready("v1.37.2")},
			known:  Known{Answers: map[Key]Answer{key: {Outcome: OutcomeFailed, Member: "east", Tried: []string{"east"}, Text: "no answer", At: at(-4)}}},
			again:  6 * time.Second,
			result: Result{Version: "1.37", Member: "east", Unknown: true, Why: "no answer"},
		},
		"and then are": {
			template: template("a", "east"), members: map[string]Member{"east": ready("v1.37.2")},
			known:  Known{Answers: map[Key]Answer{key: {Outcome: OutcomeFailed, Member: "east", Tried: []string{"east"}, Text: "no answer", At: at(-10)}}},
			probes: []string{"a on 1.37 at east"},
			result: Result{Version: "1.37", Member: "east", Unknown: true, Why: "no answer"},
		},
		"a question that may not be asked is not waited for": {
			template: template("a", "east"), members: map[string]Member{"east": ready("v1.37.2")},
			known:  Known{Answers: map[Key]Answer{key: {Outcome: OutcomeRefused, Member: "east", Tried: []string{"east"}, Text: "forbidden", At: at(0)}}},
			again:  time.Minute,
			result: Result{Version: "1.37", Member: "east", Unknown: true, Settled: true, Why: "forbidden"},
		},
		"a policy's word is asked for again, as policies change": {
			template: template("a", "east"), members: map[string]Member{"east": ready("v1.37.2")},
			known:  Known{Answers: map[Key]Answer{key: {Outcome: OutcomeDenied, Member: "east", Text: "denied", At: at(-60)}}},
			probes: []string{"a on 1.37 at east"},
			result: Result{Version: "1.37", Member: "east", Invalid: "denied"},
		},
		"an upgraded member is a new version": {
			template: template("a", "east"), members: map[string]Member{"east": ready("v1.38.0")},
			known:  Known{Answers: map[Key]Answer{key: {Outcome: OutcomeValid, Member: "east"}}},
			probes: []string{"a on 1.38 at east"},
			result: Result{Version: "1.38", Unknown: true},
		},
		"nobody of the version is there": {
			template: template("a", "east"), members: map[string]Member{"east": {Version: "v1.37.2"}},
			again:  retryAway,
			result: Result{Version: "1.37", Unknown: true, Why: "no member of that version answers"},
		},
		"nobody was ever heard from": {
			template: template("a", "east"), members: nil, again: retryAway,
			result: Result{Unknown: true, Why: "no member that it is for was heard from"},
		},
		"nobody may get it": {
			template: template("a"), result: Result{Unknown: true, Settled: true},
		},
		"what no workload takes needs no asking": {
			template: Template{Hash: "a", Subset: "s-a", Field: "deploymentTemplate", Members: []string{"east"}, Pod: []byte(`{"spec":{"restartPolicy":"OnFailure"}}`)},
			members:  map[string]Member{"east": ready("v1.37.2")},
			result:   Result{Invalid: `spec.template.deploymentTemplate.spec.template.spec.restartPolicy: Unsupported value: "OnFailure": a workload's pods are restarted Always`},
		},
		"a template without a spec": {
			template: Template{Hash: "a", Subset: "s-a", Field: "deploymentTemplate", Pod: []byte(`{}`)},
			result:   Result{Invalid: "spec.template.deploymentTemplate.spec.template.spec: Required value"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Next(Ask{Revision: "r", Templates: []Template{tc.template}}, tc.members, tc.known, at(0))
			tc.result.Revision, tc.result.Subset = "r", "s-a"
			if diff := cmp.Diff([]Result{tc.result}, got.Results); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.probes, probesOf(got)); diff != "" {
				t.Error(diff)
			}
			if got.LookAgainIn != tc.again {
				t.Errorf("looks again in %s, want %s", got.LookAgainIn, tc.again)
			}
		})
	}
}

func TestAVersionWhoseMembersAreAwayHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	ask := Ask{Revision: "r", Templates: []Template{template("a", "east", "old")}}
	members := map[string]Member{"east": ready("v1.37.2"), "old": {Version: "v1.36.0"}}
	known := Known{Since: at(0), Answers: map[Key]Answer{{"a", "1.37"}: {Outcome: OutcomeValid, Member: "east"}}}
	got := Judge("r", Next(ask, members, known, at(0)).Results, at(0))
	want := Verdict{Warnings: []string{"the template could not be looked at beforehand (Kubernetes 1.36): no member of that version answers"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestEveryQuestionEnds plays members that fail and refuse at random: every question is put to each ready member before
// one is asked twice, none is asked twice at a time, and it ends as soon as somebody can answer.
func TestEveryQuestionEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "members")]
		members := map[string]Member{}
		for _, n := range names {
			members[n] = ready("v1.37.0")
		}
		ask := Ask{Revision: "r", Templates: []Template{template("x", names...)}}
		key := Key{"x", "1.37"}
		known := Known{Since: at(0), Answers: map[Key]Answer{}, Busy: map[Key]bool{}}
		able := rapid.SampledFrom(names).Draw(t, "able")
		now, asked := 0, 0
		for step := 0; ; step++ {
			plan := Next(ask, members, known, at(now))
			if !plan.Results[0].Unknown {
				return
			}
			if step > 20 {
				t.Fatalf("no answer after %d questions", asked)
			}
			if len(plan.Probes) == 0 {
				t.Fatalf("nothing is asked and nobody has answered: %+v", plan)
			}
			probe := plan.Probes[0]
			before := known.Answers[key]
			if probe.Anew {
				before = Answer{}
			}
			for _, tried := range before.Tried {
				if tried == probe.Member {
					t.Fatalf("%s is asked twice, and others not at all: %v", tried, before.Tried)
				}
			}
			known.Busy[key] = true
			if again := Next(ask, members, known, at(now)); len(again.Probes) > 0 {
				t.Fatal("it is asked twice at a time")
			}
			delete(known.Busy, key)
			asked++
			outcome := rapid.SampledFrom([]Outcome{OutcomeFailed, OutcomeRefused}).Draw(t, "outcome")
			if probe.Member == able {
				outcome = rapid.SampledFrom([]Outcome{OutcomeValid, OutcomeInvalid}).Draw(t, "answer")
			}
			known.Answers[key] = Answer{Outcome: outcome, Member: probe.Member, Text: "text", At: at(now)}.After(before)
			now += rapid.IntRange(0, 5).Draw(t, "seconds")
		}
	})
}

func TestJudge(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		results []Result
		want    Verdict
	}{
		"nothing known":        {want: Verdict{Wait: HoldFor}},
		"of another revision":  {results: []Result{{Revision: "q", Invalid: "bad"}}, want: Verdict{Wait: HoldFor}},
		"valid":                {results: []Result{{Revision: "r", Version: "1.37"}}},
		"on its way":           {results: []Result{{Revision: "r", Unknown: true, Since: at(-1)}}, want: Verdict{Wait: 29 * time.Second}},
		"waited long enough":   {results: []Result{{Revision: "r", Unknown: true, Since: at(-30)}}},
		"nobody may be asked":  {results: []Result{{Revision: "r", Version: "1.37", Unknown: true, Settled: true, Why: "quota", Since: at(0)}}, want: Verdict{Warnings: []string{"the template could not be looked at beforehand (Kubernetes 1.37): quota"}}},
		"refusals, each once":  {results: []Result{{Revision: "r", Invalid: "b"}, {Revision: "r", Invalid: "a"}, {Revision: "r", Invalid: "b"}}, want: Verdict{Invalid: []string{"a", "b"}}},
		"of a version":         {results: []Result{{Revision: "r", Version: "1.36", Invalid: "a"}, {Revision: "r", Version: "1.37", Invalid: "a"}}, want: Verdict{Invalid: []string{"a (Kubernetes 1.36, 1.37)"}}},
		"of one subset's own":  {results: []Result{{Revision: "r", Subset: "eu", Version: "1.37", Invalid: "a"}, {Revision: "r", Subset: "us", Version: "1.37"}}, want: Verdict{Invalid: []string{"subset eu: a (Kubernetes 1.37)"}}},
		"B149 dropped, not no": {results: []Result{{Revision: "r", Version: "1.34", Dropped: []string{"x", "y"}}}, want: Verdict{Warnings: []string{"Kubernetes 1.34 does not keep x, y: it is without effect on members of that version"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Judge("r", tc.results, at(0))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	const in = "spec.template.statefulSetTemplate.spec.template"
	status := func(code int32, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) metav1.Status {
		return metav1.Status{Code: code, Reason: reason, Message: message, Details: &metav1.StatusDetails{Causes: causes}}
	}
	missing := status(http.StatusNotFound, metav1.StatusReasonNotFound, `namespaces "x" not found`)
	missing.Details.Kind = "namespaces"
	cases := map[string]struct {
		status metav1.Status
		want   Reading
	}{
		"fields are named as they were written": {
			status: status(422, metav1.StatusReasonInvalid, "",
				metav1.StatusCause{Field: "template.spec.containers[0].ports[0].name", Message: `Invalid value: "UPPER": must be lower case`},
				metav1.StatusCause{Field: "template.labels", Message: `Invalid value: "a b"`}),
			want: Reading{Outcome: OutcomeInvalid, Text: in + `.spec.containers[0].ports[0].name: Invalid value: "UPPER": must be lower case; ` + in + `.metadata.labels: Invalid value: "a b"`},
		},
		"the object's own fields are not the template's": {
			status: status(422, metav1.StatusReasonInvalid, "the name", metav1.StatusCause{Field: "metadata.name"}, metav1.StatusCause{Field: "templates"}),
			want:   Reading{Outcome: OutcomeDenied, Text: in + ": the name", Unclear: true},
		},
		"a policy": {
			status: status(422, metav1.StatusReasonInvalid, "denied by policy", metav1.StatusCause{Message: "denied"}),
			want:   Reading{Outcome: OutcomeDenied, Text: in + ": denied by policy", Unclear: true},
		},
		"a type that cannot be read": {
			status: status(400, metav1.StatusReasonBadRequest, "cannot be handled as a PodTemplate"),
			want:   Reading{Outcome: OutcomeInvalid, Text: in + ": cannot be handled as a PodTemplate", Unclear: true},
		},
		"quota and rights":        {status: status(403, metav1.StatusReasonForbidden, "exceeded quota"), want: Reading{Outcome: OutcomeRefused, Text: "exceeded quota"}},
		"no namespace":            {status: missing, want: Reading{Outcome: OutcomeRefused, Text: `namespaces "x" not found`, NoNamespace: true}},
		"no such resource":        {status: status(404, metav1.StatusReasonNotFound, "gone"), want: Reading{Outcome: OutcomeRefused, Text: "gone"}},
		"looked at and in use":    {status: status(409, metav1.StatusReasonAlreadyExists, "exists"), want: Reading{Outcome: OutcomeValid}},
		"overload":                {status: status(429, metav1.StatusReasonTooManyRequests, "later"), want: Reading{Outcome: OutcomeFailed, Text: "the API server does not answer the question"}},
		"a webhook that is down":  {status: status(500, metav1.StatusReasonInternalError, "port 1234"), want: Reading{Outcome: OutcomeFailed, Text: "the API server does not answer the question"}},
		"a credential in renewal": {status: status(401, metav1.StatusReasonUnauthorized, ""), want: Reading{Outcome: OutcomeFailed, Text: "the API server does not answer the question"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Read(tc.status, "statefulSetTemplate")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	status := metav1.Status{Code: 422, Details: &metav1.StatusDetails{}}
	for i := range 100 {
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{
			Field: fmt.Sprintf("template.spec.containers[%d].name", i), Message: strings.Repeat("ä", 1000),
		})
	}
	got := Read(status, "cloneSetTemplate").Text
	if !strings.HasSuffix(got, "; and 95 more") || len([]rune(got)) > 3000 {
		t.Errorf("%d characters: %q", len([]rune(got)), got)
	}
}

func TestDropped(t *testing.T) {
	t.Parallel()
	sent := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a": "b"}, "creationTimestamp": nil},
		"spec": map[string]any{
			"containers":  []any{map[string]any{"name": "app", "fromTheFuture": map[string]any{"x": int64(1)}, "args": []any{}}},
			"hostNetwork": false, "tolerations": []any{map[string]any{"new": "x"}},
		},
	}
	got := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a": "c", "more": "d"}},
		"spec": map[string]any{
			"containers": []any{map[string]any{"name": "app", "imagePullPolicy": "Always"}}, "dnsPolicy": "ClusterFirst",
			"tolerations": []any{map[string]any{}, map[string]any{"key": "by-admission"}},
		},
	}
	want := []string{"spec.template.cloneSetTemplate.spec.template.spec.containers[0].fromTheFuture"}
	if diff := cmp.Diff(want, Dropped(sent, got, "cloneSetTemplate")); diff != "" {
		t.Error(diff)
	}
	many := map[string]any{}
	for i := range 20 {
		many[fmt.Sprintf("f%02d", i)] = int64(1)
	}
	if got := Dropped(many, map[string]any{}, "cloneSetTemplate"); len(got) != maxDropped+1 || got[maxDropped] != "and 12 more" {
		t.Errorf("got %v", got)
	}
}
