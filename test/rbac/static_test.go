package rbac

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// claimed are the grants that the markers below folders ask for.
func claimed(t *testing.T, account Account, folders ...string) []Grant {
	t.Helper()
	line := regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:(.*)$`)
	var out []Grant
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(name string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && chosen(account, entry.Name()) {
				return filepath.SkipDir
			}
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			source, err := os.ReadFile(name)
			for _, found := range line.FindAllStringSubmatch(string(source), -1) {
				out = append(out, parse(account, found[1])...)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(out) == 0 {
		t.Fatalf("no markers below %v", folders)
	}
	return out
}

func parse(account Account, marker string) []Grant {
	fields := map[string][]string{}
	namespace := ""
	for argument := range strings.SplitSeq(marker, ",") {
		key, value, _ := strings.Cut(argument, "=")
		if key == "namespace" {
			namespace = value
			continue
		}
		fields[key] = strings.Split(value, ";")
	}
	var out []Grant
	names := strings.Join(slices.Sorted(slices.Values(fields["resourceNames"])), ",")
	for _, group := range fields["groups"] {
		for _, resource := range fields["resources"] {
			for _, verb := range fields["verbs"] {
				out = append(out, Grant{account, verb, inGroup(resource, strings.Trim(group, `"`)), namespace, names})
			}
		}
	}
	return out
}

// TestRolesAreWhatTheCodeClaims: nothing is granted that no marker beside the code asks for, and nothing asked for is left out.
func TestRolesAreWhatTheCodeClaims(t *testing.T) {
	t.Parallel()
	for account, folders := range map[Account][]string{
		Hub:         {"cmd/underway-hub", "hub"},
		ClusterAPI:  {"hub/clusterapi"},
		HubOnMember: {"propagation"},
		Agent:       {"cmd/underway-member", "member", "inplace/podwriter"},
	} {
		t.Run(string(account), func(t *testing.T) {
			t.Parallel()
			have, err := Granted(account)
			if err != nil {
				t.Fatal(err)
			}
			want := claimed(t, account, folders...)
			for _, g := range have {
				held := slices.ContainsFunc(want, func(w Grant) bool { return g.within(w) || g.Resource[0] == '/' })
				if !held {
					t.Errorf("no marker asks for it: %s", g)
				}
			}
			for _, w := range want {
				if !slices.ContainsFunc(have, w.within) {
					t.Errorf("a marker asks for it, and no role grants it: %s", w)
				}
			}
		})
	}
}

// chosen is the folder of Cluster API, whose role is an account's of its own here: it is bound only where that was chosen at
// install.
func chosen(account Account, folder string) bool { return account == Hub && folder == "clusterapi" }

// TestNoWildcards and no right to widen one's own rights.
func TestNoWildcards(t *testing.T) {
	t.Parallel()
	for _, account := range Accounts() {
		have, err := Granted(account)
		if err != nil || len(have) == 0 {
			t.Fatal(account, err, len(have))
		}
		for _, g := range have {
			if strings.Contains(g.Verb+g.Resource, "*") || slices.Contains([]string{"escalate", "bind", "impersonate"}, g.Verb) ||
				strings.HasSuffix(g.Resource, ".rbac.authorization.k8s.io") {
				t.Errorf("too much: %s", g)
			}
		}
	}
}

// TestNothingIsGrantedTwice: what two rules grant stays when one of them is taken away.
func TestNothingIsGrantedTwice(t *testing.T) {
	t.Parallel()
	for _, account := range Accounts() {
		have, err := Granted(account)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range Doubled(have) {
			if _, said := apart()[problem]; !said {
				t.Error(problem)
			}
		}
	}
}

// TestTheTableNamesRealTests: an entry whose test is gone proves nothing.
func TestTheTableNamesRealTests(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, folder := range []string{"cmd", "hub", "inplace", "member", "propagation", "test"} {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile(name)
			source.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := map[Grant]bool{}
	for _, r := range rare() {
		if r.Path == "" || r.Test == "" {
			t.Errorf("%s: neither path nor test may be empty", r.Grant)
		}
		if seen[r.Grant] {
			t.Errorf("%s: twice in the table", r.Grant)
		}
		seen[r.Grant] = true
		if !strings.Contains(source.String(), "func "+r.Test+"(") && !strings.Contains(source.String(), `"`+r.Test+`"`) {
			t.Errorf("%s: there is no test %q", r.Grant, r.Test)
		}
	}
}
