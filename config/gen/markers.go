package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
)

// unseen reports RBAC markers that controller-gen passes over in silence: those in the comment of a declaration. Only
// a comment by itself, or the package's, counts.
func unseen(paths []string) error {
	errs := make([]error, 0, len(paths))
	for _, path := range paths {
		folder, below := strings.CutSuffix(path, "/...")
		errs = append(errs, filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && name != folder && !below:
				return filepath.SkipDir
			case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			return unseenIn(name)
		}))
	}
	return errors.Join(errs...)
}

func unseenIn(name string) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	var errs []error
	for _, decl := range file.Decls {
		var doc *ast.CommentGroup
		switch d := decl.(type) {
		case *ast.GenDecl:
			doc = d.Doc
		case *ast.FuncDecl:
			doc = d.Doc
		}
		if doc == nil {
			continue
		}
		for _, comment := range doc.List {
			if strings.Contains(comment.Text, "+kubebuilder:rbac") {
				errs = append(errs, fmt.Errorf("%s: controller-gen does not see this marker; put it into a comment of its own, "+
					"with an empty line below", files.Position(comment.Pos())))
			}
		}
	}
	return errors.Join(errs...)
}
