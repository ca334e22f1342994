package clusters

import "testing"

// TestTheHubItselfIsNoMember: its children would be seen, and deleted, under two names.
func TestTheHubItselfIsNoMember(t *testing.T) {
	t.Parallel()
	f := &Fleet{localIdentity: "hub-uid", claims: map[string]string{}, members: map[string]*member{}}
	cases := []struct {
		title              string
		name, stored, seen string
		want               Block
	}{
		{"the hub under another name, before its identity is stored", "self", "", "hub-uid", BlockIdentityTaken},
		{"the hub under another name, stored by an older version", "self", "hub-uid", "hub-uid", BlockIdentityTaken},
		{"the hub's own cluster", Local, "", "hub-uid", ""},
		{"a member", "east", "east-uid", "east-uid", ""},
		{"another cluster under a member's name", "east", "east-uid", "other", BlockIdentityChanged},
	}
	for _, tc := range cases {
		t.Run(tc.title, func(t *testing.T) {
			t.Parallel()
			m := &member{name: tc.name, fleet: f}
			if got, message := m.strangerTo(sighting{uid: tc.seen}, tc.stored); got != tc.want {
				t.Errorf("block %q (%s), want %q", got, message, tc.want)
			}
		})
	}
}
