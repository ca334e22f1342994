package lab

import (
	"slices"
	"testing"
)

// TestService: a program that ends is started again under the next name, until it is ended for good.
func TestService(t *testing.T) {
	t.Parallel()
	f, err := newFleet(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	f.log = newProgress(nil)
	t.Cleanup(func() { _ = f.Stop() })
	short, err := f.Serve("short", "/bin/sh", []string{"-c", "exit 3"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	long, err := f.Serve("long", "/bin/sleep", []string{"600"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return f.Process("short-2") != nil })
	short.End()
	if name := long.Process().Name(); name != "long-1" || !long.Process().Alive() {
		t.Errorf("what does not end is %s, alive %t", name, long.Process().Alive())
	}
	long.End()
	if long.Process().Alive() {
		t.Error("it was ended and runs")
	}
	runs := slices.DeleteFunc(f.Processes(), func(p *Process) bool { return p.Name() != "long-1" && p.Name() != "long-2" })
	if len(runs) != 1 {
		t.Errorf("it was ended and started again: %d runs", len(runs))
	}
}
