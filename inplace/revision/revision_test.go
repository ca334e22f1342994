package revision_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/underway-dev/underway/inplace/revision"
)

var update = flag.Bool("update", false, "write the golden file anew; a hash that differs restarts every pod in the field")

const web1 = `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"app:v1"}]}}`

const web2 = `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"app:v2"}]}}`

// frozen are inputs whose hashes must never change.
func frozen() map[string]string {
	return map[string]string{
		"empty":            ``,
		"web v1":           web1,
		"web v2":           web2,
		"numbers":          `{"spec":{"a":1,"b":1.0,"c":1e3,"d":123456789012345678901234567890,"e":-0}}`,
		"text":             `{"spec":{"a":"<b>&\u2028 \u00e9 \ud83d\ude00","b":"line\nfeed \u0001"}}`,
		"lists":            `{"spec":{"args":[],"list":[null,{},[],1],"emptyDir":{}}}`,
		"unknown field":    `{"spec":{"containers":[{"name":"web","image":"app:v1","fieldOf2031":{"deep":[true,false]}}]}}`,
		"nested emptiness": `{"a":{"b":{"c":null}},"d":1}`,
	}
}

func TestHashesAreFrozen(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for name, raw := range frozen() {
		hash, err := revision.Hash([]byte(raw))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got[name] = hash
	}
	parts, err := revision.HashOf(map[string][]byte{"template": []byte(web1), "us-1": []byte(`{"a":1}`), "eu-1": []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	got["parts"] = parts
	got["short"] = revision.Short("web/us-1", 5)
	file := filepath.Join("testdata", "hashes.json")
	if *update {
		b, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(b, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]string
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hashes changed; every pod of every workload would be updated (-frozen +now):\n%s", diff)
	}
}

func TestEqualTemplatesHashEqual(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		a, b string
		want bool
	}{
		"key order and white space":       {`{"a":1,"b":2}`, ` { "b":2 , "a":1 } `, true},
		"nulls":                           {`{"a":1,"b":null}`, `{"a":1}`, true},
		"empty maps, nested":              {`{"a":1,"b":{"c":{"d":null}}}`, `{"a":1}`, true},
		"empty lists count":               {`{"a":[]}`, `{}`, false},
		"an empty map in a list counts":   {`{"a":[{}]}`, `{"a":[]}`, false},
		"numbers as written":              {`{"a":1}`, `{"a":1.0}`, false},
		"large numbers":                   {`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		"escapes are the same text":       {`{"a":"\u0041<"}`, `{"a":"A\u003c"}`, true},
		"list order counts":               {`{"a":[1,2]}`, `{"a":[2,1]}`, false},
		"text is not a number":            {`{"a":"1"}`, `{"a":1}`, false},
		"what cannot be read is not same": {`{`, `{`, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := revision.Equal([]byte(tc.a), []byte(tc.b)); got != tc.want {
				t.Errorf("Equal is %v", got)
			}
			a, errA := revision.Hash([]byte(tc.a))
			b, errB := revision.Hash([]byte(tc.b))
			if got := errA == nil && errB == nil && a == b; got != tc.want {
				t.Errorf("hashes %s (%v) and %s (%v)", a, errA, b, errB)
			}
		})
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{`{"a":1}{"b":2}`, `{"a":1,"a":2}`, `{"a"}`, `[1,`, `nonsense`, `{"a":{"b":1,"b":1}}`} {
		if got, err := revision.Hash([]byte(bad)); err == nil {
			t.Errorf("%s hashed to %s", bad, got)
		}
	}
	if _, err := revision.Plan(revision.History{Owner: "web", Template: []byte(`{`)}); err == nil {
		t.Error("a template that cannot be read got a revision")
	}
}

func TestPartsDoNotRunTogether(t *testing.T) {
	t.Parallel()
	a, errA := revision.HashOf(map[string][]byte{"a": []byte(`{"x":1}`), "b": []byte(`{"y":1}`)})
	b, errB := revision.HashOf(map[string][]byte{"a": []byte(`{"y":1}`), "b": []byte(`{"x":1}`)})
	if errA != nil || errB != nil || a == b {
		t.Errorf("%s %s %v %v", a, b, errA, errB)
	}
}

func stored(t *testing.T, name string, number int64, template string) revision.Stored {
	t.Helper()
	data, err := revision.Encode([]byte(template))
	if err != nil {
		t.Fatal(err)
	}
	return revision.Stored{Name: name, Number: number, Data: data}
}

func hash(t *testing.T, template string) string {
	t.Helper()
	h, err := revision.Hash([]byte(template))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func plan(t *testing.T, h revision.History) revision.Changes {
	t.Helper()
	h.Owner = "web"
	c, err := revision.Plan(h)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFirstTemplateMakesARevision(t *testing.T) {
	t.Parallel()
	c := plan(t, revision.History{Template: []byte(web1), Limit: 10})
	if c.Create == nil || c.Create.Name != "web-"+hash(t, web1) || c.Create.Number != 1 || c.Update.Hash != hash(t, web1) {
		t.Errorf("%+v", c)
	}
	template, err := revision.Decode(c.Create.Data)
	if err != nil || !revision.Equal(template, []byte(web1)) {
		t.Errorf("%s, %v", template, err)
	}
	if !strings.Contains(string(c.Create.Data), `"$patch":"replace"`) {
		t.Errorf("OpenKruise could not read %s", c.Create.Data)
	}
	again := plan(t, revision.History{Template: []byte(web1), Limit: 10, Existing: []revision.Stored{*c.Create}})
	if again.Create != nil || again.Renumber != nil || again.Update.Name != c.Update.Name {
		t.Errorf("the second pass writes: %+v", again)
	}
}

func TestRollbackReusesTheRevisionWithAHigherNumber(t *testing.T) {
	t.Parallel()
	existing := []revision.Stored{stored(t, "web-b", 2, web2), stored(t, "web-a", 1, web1)}
	c := plan(t, revision.History{Template: []byte(web1), Existing: existing, Limit: 10})
	if c.Create != nil || c.Renumber == nil || c.Renumber.Name != "web-a" || c.Renumber.Number != 3 || c.Update.Name != "web-a" {
		t.Errorf("%+v", c)
	}
	if got := c.Revisions[len(c.Revisions)-1].Name; got != "web-a" || len(c.Revisions) != 2 {
		t.Errorf("newest is %s of %d", got, len(c.Revisions))
	}
}

func TestARevisionOfOpenKruiseIsFoundByContent(t *testing.T) {
	t.Parallel()
	kruise := revision.Stored{Name: "web-6f9d7c5b8", Number: 4, Data: []byte(
		`{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"web"}},"spec":{"containers":[{"image":"app:v1","name":"web","resources":{}}]}}}}`)}
	c := plan(t, revision.History{Template: []byte(web1), Existing: []revision.Stored{kruise}, Limit: 10})
	if c.Create != nil || c.Update.Name != kruise.Name || c.Update.Hash != "6f9d7c5b8" {
		t.Errorf("%+v", c)
	}
}

func TestTrimKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	existing := []revision.Stored{{Name: "web-broken", Number: 0, Data: []byte(`{`)}}
	for i, name := range []string{"web-1", "web-2", "web-3", "web-4"} {
		existing = append(existing, stored(t, name, int64(i+1), strings.ReplaceAll(web1, "v1", name)))
	}
	cases := map[string]struct {
		limit int32
		inUse []string
		want  []string
	}{
		"limit 10 keeps all":           {limit: 10},
		"limit 2 keeps the newest":     {limit: 2, want: []string{"web-broken", "web-1", "web-2"}},
		"used ones do not count":       {limit: 1, inUse: []string{"web-1", "web-3"}, want: []string{"web-broken", "web-2"}},
		"limit 0 keeps used ones only": {limit: 0, inUse: []string{"web-2", "web-broken"}, want: []string{"web-1", "web-3", "web-4"}},
		"a negative limit is 0":        {limit: -5, inUse: []string{"web-1", "web-2", "web-3", "web-4", "web-broken"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := plan(t, revision.History{Template: []byte(web2), Existing: existing, Limit: tc.limit, InUse: tc.inUse})
			if diff := cmp.Diff(tc.want, slices.Clip(c.Trim), cmp.Transformer("nil", func(s []string) []string {
				if len(s) == 0 {
					return nil
				}
				return s
			})); diff != "" {
				t.Error(diff)
			}
			for _, r := range c.Revisions {
				if slices.Contains(c.Trim, r.Name) {
					t.Errorf("%s is kept and trimmed", r.Name)
				}
			}
		})
	}
}

func TestCollision(t *testing.T) {
	t.Parallel()
	taken := "web-" + hash(t, web1)
	other := stored(t, taken, 1, web2)
	c := plan(t, revision.History{Template: []byte(web1), Existing: []revision.Stored{other}, Limit: 10})
	if c.Create == nil || c.Create.Name == taken || c.CollisionCount != 1 {
		t.Fatalf("%+v", c)
	}
	// The next pass, with the count stored, finds it by content; a foreign object of that name counts once more.
	again := plan(t, revision.History{Template: []byte(web1), Existing: []revision.Stored{other, *c.Create}, CollisionCount: 1, Limit: 10})
	if again.Create != nil || again.Update.Name != c.Create.Name || again.CollisionCount != 1 {
		t.Errorf("%+v", again)
	}
	foreign := plan(t, revision.History{Template: []byte(web1), Taken: []string{taken, c.Create.Name}, Limit: 10})
	if foreign.CollisionCount != 2 || foreign.Create.Name == taken || foreign.Create.Name == c.Create.Name {
		t.Errorf("%+v", foreign)
	}
}

func TestNamesAreLabelValues(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 60)
	a, b := revision.Name(long+"x", "hhhhhhhhhh"), revision.Name(long+"y", "hhhhhhhhhh")
	if len(a) > 63 || a == b || !strings.HasSuffix(a, "-hhhhhhhhhh") {
		t.Errorf("%s %s", a, b)
	}
	if got := revision.Name("web", "h"); got != "web-h" {
		t.Error(got)
	}
}

// Canonicalisation is idempotent, and hashing does not depend on the order in which keys were written.
func TestCanonicalProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(value(3).Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		once, err := revision.Canonical(raw)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := revision.Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s\n%s\n%v", once, twice, err)
		}
		if !json.Valid(once) {
			t.Fatalf("%s is not JSON", once)
		}
	})
}

func value(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.Int64(), func(n int64) any { return n }), rapid.Map(rapid.String(), func(s string) any { return s }),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) }), 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-c]{1,2}`), rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) }), 0, 3), func(m map[string]any) any { return m }),
	)
}

func FuzzCanonical(f *testing.F) {
	for _, raw := range frozen() {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		once, err := revision.Canonical(raw)
		if err != nil {
			return
		}
		if twice, err := revision.Canonical(once); err != nil || !bytes.Equal(twice, once) {
			t.Errorf("%s, then %s, %v", once, twice, err)
		}
	})
}
