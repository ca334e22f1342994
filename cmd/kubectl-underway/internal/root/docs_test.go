package root_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/root"
)

// commandsOf are the command lines of a page that are ours: in code spans, in code blocks, and, of kubectl.md, the verbs of the
// table, which leave "kubectl underway" out.
func commandsOf(t *testing.T, page string) []string {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	var out []string
	for _, span := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.ReplaceAll(text, "```", ""), -1) {
		if line, is := strings.CutPrefix(strings.Join(strings.Fields(span[1]), " "), "kubectl underway "); is {
			out = append(out, line)
		}
	}
	for line := range strings.Lines(text) {
		if after, is := strings.CutPrefix(strings.TrimSpace(line), "kubectl underway "); is {
			line, _, _ = strings.Cut(after, "  ")
			out = append(out, line)
		}
		if !strings.HasPrefix(line, "| `") || filepath.Base(page) != "kubectl.md" {
			continue
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ") // a | of the command itself is escaped
		for _, span := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
			out = append(out, span[1])
		}
	}
	return out
}

// TestTheDocsNameRealFlags: every command line of the docs is one of ours, with flags that it has.
func TestTheDocsNameRealFlags(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	marks := strings.NewReplacer("(", " ", ")", " ", "[", " ", "]", " ", `\|`, " ", "|", " ", "…", " ", "'", "", ",", " ")
	seen := 0
	for _, page := range pages {
		for _, line := range commandsOf(t, page) {
			line, _, _ = strings.Cut(line, " #")
			words := strings.Fields(marks.Replace(line))
			cmd, _, err := root.New(newWorld(t, "").env).Find(words)
			if err != nil || !cmd.HasParent() {
				t.Errorf("%s: %q is no command: %v", filepath.Base(page), line, err)
				continue
			}
			seen++
			for _, word := range words {
				name, is := strings.CutPrefix(word, "--")
				name, _, _ = strings.Cut(name, "=")
				if is && flagOf(cmd, name) == nil {
					t.Errorf("%s: %q: %s has no flag --%s", filepath.Base(page), line, cmd.CommandPath(), name)
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d command lines were found", seen)
	}
}

// flagOf is a flag of a command, or of one of those below it.
func flagOf(cmd *cobra.Command, name string) *pflag.Flag {
	if f := cmd.Flag(name); f != nil {
		return f
	}
	for _, sub := range cmd.Commands() {
		if f := flagOf(sub, name); f != nil {
			return f
		}
	}
	return nil
}

// TestEveryVerbIsInTheDocs: what the plugin can, kubectl.md names.
func TestEveryVerbIsInTheDocs(t *testing.T) {
	var named []string
	for _, line := range commandsOf(t, filepath.Join("..", "..", "..", "..", "docs", "kubectl.md")) {
		named = append(named, strings.Fields(line)[0])
	}
	for _, cmd := range root.New(newWorld(t, "").env).Commands() {
		if !cmd.Hidden && cmd.Name() != "help" && !slices.Contains(named, cmd.Name()) {
			t.Errorf("docs/kubectl.md does not name %s", cmd.Name())
		}
	}
}
