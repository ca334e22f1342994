package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryStoryIsTold: each test that tells stories by seed is in a suite, and no suite names one that is not there. A helper
// that does it for a test is followed.
func TestEveryStoryIsTold(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, s := range suites() {
		for name := range strings.SplitSeq(s.tests, "|") {
			listed[s.pkg+" "+name] = true
		}
	}
	const root = "../../../.."
	for _, top := range []string{"inplace", "member", "hub", "propagation", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			pkg, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			for _, name := range storytellers(t, path) {
				key := filepath.ToSlash(pkg) + " " + name
				if !listed[key] {
					t.Errorf("%s tells stories and is in no suite", key)
				}
				delete(listed, key)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for key := range listed {
		t.Errorf("%s is in a suite, and tells no story", key)
	}
}

// storytellers are the tests of a folder that reach seeds.Range or a check of rapid.
func storytellers(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string][]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			if f, is := decl.(*ast.FuncDecl); is && f.Recv == nil && f.Body != nil {
				calls[f.Name.Name] = called(f.Body)
			}
		}
	}
	tells := map[string]bool{"seeds.Range": true, "rapid.Check": true, "rapid.MakeCheck": true}
	for grown := true; grown; {
		grown = false
		for name, list := range calls {
			if !tells[name] && slices.ContainsFunc(list, func(s string) bool { return tells[s] }) {
				tells[name], grown = true, true
			}
		}
	}
	var out []string
	for name := range calls {
		if tells[name] && strings.HasPrefix(name, "Test") {
			out = append(out, name)
		}
	}
	return out
}

// called are the functions that a body calls by their names.
func called(body ast.Node) []string {
	var out []string
	ast.Inspect(body, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			out = append(out, f.Name)
		case *ast.SelectorExpr:
			if x, is := f.X.(*ast.Ident); is {
				out = append(out, x.Name+"."+f.Sel.Name)
			}
		}
		return true
	})
	return out
}
