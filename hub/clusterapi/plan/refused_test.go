package plan

import (
	"testing"
	"time"
)

// TestRefusedAfterItWasMade: a member that refuses the account which was just made there is not asked again at once, for ever.
func TestRefusedAfterItWasMade(t *testing.T) {
	t.Parallel()
	o := seen(func(o *Observation) { o.Install.Refused, o.Install.Made = true, at(0) })
	d := Next(o, at(0).Add(time.Second))
	if d.Install != "" || d.LookAgain <= 0 || d.LookAgain > installBackoffMax {
		t.Errorf("install %q, look again in %s", d.Install, d.LookAgain)
	}
	if d := Next(o, at(0).Add(installBackoffMax)); d.Install == "" {
		t.Error("it is never asked again")
	}
}
