package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/underway-dev/underway/hub/check"
)

// TestTheCheckShowsATemplateToNobodyElse: a member that takes no workloads of the namespace, or that does not exist, is not
// asked; and a template that nobody may get holds nothing up.
func TestTheCheckShowsATemplateToNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 6, "web:1", sub("a", "a", "2"), sub("b", "b", "2"), sub("c", "nowhere", "2")))
	w.edited()
	o := w.observe()
	delete(o.Members, "nowhere")
	o.Checker = true
	b := o.Members["b"]
	b.NotAllowed = "not this namespace"
	o.Members["b"] = b
	d := Next(o, w.now)
	if d.Ask == nil || len(d.Ask.Templates) != 1 {
		t.Fatalf("%+v", d.Ask)
	}
	if diff := cmp.Diff([]string{"a"}, d.Ask.Templates[0].Members); diff != "" {
		t.Error(diff)
	}
	a := o.Members["a"]
	a.NotAllowed = "nor this"
	o.Members["a"] = a
	d = Next(o, w.now)
	if d.Ask == nil || len(d.Ask.Templates[0].Members) != 0 {
		t.Fatalf("%+v", d.Ask)
	}
	o.Checks = check.Next(*d.Ask, nil, check.Known{Since: w.now}, w.now).Results
	if d = Next(o, w.now); d.Keep {
		t.Errorf("it waits for nobody: %+v", d)
	}
}
