//go:build lab

package member

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/config"
	"github.com/underway-dev/underway/test/kit"
)

// TestSetKill9: the agent is killed while it moves two sets, one in order and one in parallel; its successor ends both, in
// order and within the budgets, and no pod restarts twice.
func TestSetKill9(t *testing.T) {
	p := onRough(t)
	p.withCRD(nil)
	a := p.Agent("agent-killed-set")
	ordered := p.Stateful("db", "app:v1", "replicas: 4"+inPlace)
	many := p.Stateful("many", "app:v1", "replicas: 12\npodManagementPolicy: Parallel\nupdateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 3}}")
	ordered.Ready(4, time.Minute)
	many.Ready(12, time.Minute)
	before, r := kit.Identities(p.Pods()), p.Record()
	const slow = "app:v2-slow-start-2s"
	ordered.Image(slow)
	many.Image(slow)
	p.Eventually(30*time.Second, func() string {
		if n := p.On(slow); n < 4 {
			return fmt.Sprintf("%d pods are patched", n)
		}
		return ""
	})
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	if n := p.On(slow); n == 16 {
		t.Fatal("the release was over before the agent was killed")
	}
	p.Agent("agent-successor-set", "--leader-elect=false")
	ordered.Ready(4, time.Minute)
	many.Ready(12, time.Minute)
	p.InPlace(before, 1)
	seen := r.Seen()
	inOrder := slices.DeleteFunc(seen.Order, func(name string) bool { return !strings.HasPrefix(name, "db-") })
	if said := differs(inOrder, []string{"db-3", "db-2", "db-1", "db-0"}); said != "" || seen.Unready > 4 || len(seen.Problems) > 0 || seen.Created+seen.Deleted > 0 {
		t.Errorf("order: %s; seen %+v", said, seen)
	}
}

// TestSetCRDComesLater: without the StatefulSets' CRD the agent goes on with CloneSets, and begins with StatefulSets when
// theirs is there; a CloneSet that is under way loses nothing by it.
func TestSetCRDComesLater(t *testing.T) {
	p := onRough(t)
	p.withoutCRD()
	crds, err := config.MemberCRDs()
	if err != nil {
		t.Fatal(err)
	}
	install := func(plural string) {
		t.Helper()
		for _, crd := range crds {
			if strings.HasPrefix(crd.GetName(), plural) {
				if err := p.Create(t.Context(), crd); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
		t.Fatalf("a member has no CRD of %s", plural)
	}
	install("clonesets")
	a := p.Agent("agent-half", "--leader-elect=false")
	p.Eventually(20*time.Second, func() string {
		if err := p.List(t.Context(), &appsv1alpha1.CloneSetList{}); err != nil {
			return err.Error()
		}
		return ""
	})
	p.App("web", "app:v1", "replicas: 3\nupdateStrategy: {type: InPlaceIfPossible}")
	p.Ready("web", 3, time.Minute)
	before := kit.Identities(p.Pods())
	p.Image("web", "app:v2-slow-start-2s")
	install("statefulsets")
	p.Eventually(20*time.Second, func() string {
		u := p.unstructured("apps.kruise.io/v1beta1", "StatefulSet", "db")
		u.Object["spec"] = map[string]any{
			"replicas": int64(2), "selector": map[string]any{"matchLabels": map[string]any{"app": "db"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "db"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "app:v1"}}},
			},
		}
		if err := p.Create(t.Context(), u); err != nil {
			return err.Error()
		}
		return ""
	})
	p.Set("db").Ready(2, time.Minute)
	p.Ready("web", 3, time.Minute)
	for name, was := range before {
		if now := kit.Identities(p.Pods())[name]; now != was {
			t.Errorf("%s was %v and is %v", name, was, now)
		}
	}
	if !a.Alive() {
		t.Error("the agent ended")
	}
}
