package plan

import (
	"fmt"
	"testing"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// BenchmarkThousandSubsets is the budget of design.md 9: under 10 ms of CPU.
func BenchmarkThousandSubsets(b *testing.B) {
	var subsets []appsv1alpha1.Subset
	values := map[string]string{}
	for i := range 1000 {
		name := fmt.Sprintf("s%d", i)
		subsets = append(subsets, sub(name, name, ""))
		values[name] = "1"
	}
	w := newWorld(b, united("web", 5000, "web:1", subsets...))
	partitions(w.ud, values)
	w.run()
	setImage(w.ud, "web:2")
	for range 3 {
		for _, p := range w.pass() {
			w.deliver(p)
		}
	}
	o := w.observe()
	b.ReportAllocs()
	for b.Loop() {
		if d := Next(o, w.now); len(d.Pushes) != 1000 {
			b.Fatal(len(d.Pushes))
		}
	}
}

// BenchmarkThousandMembers is the same by one template of subsets.
func BenchmarkThousandMembers(b *testing.B) {
	var members []string
	for i := range 1000 {
		members = append(members, fmt.Sprintf("m%d:tier=web", i))
	}
	w := selectedFleet(b, 5000, []appsv1alpha1.SubsetSelector{tmpl("tier=web", "")}, members...)
	w.run()
	w.hold("50%")
	setImage(w.ud, "web:2")
	for range 3 {
		for _, p := range w.pass() {
			w.deliver(p)
		}
	}
	o := w.observe()
	b.ReportAllocs()
	for b.Loop() {
		if d := Next(o, w.now); len(d.Pushes) != 1000 {
			b.Fatal(len(d.Pushes))
		}
	}
}
