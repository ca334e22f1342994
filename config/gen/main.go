package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

func main() {
	log.SetFlags(0)
	tool := flag.String("controller-gen", "bin/controller-gen", "controller-gen to run")
	out := flag.String("out", "config", "folder that holds hub and member")
	flag.Parse()
	g := generator{tool: *tool, out: *out}
	if err := errors.Join(g.crds(), g.roles()); err != nil {
		log.Fatalf("gen: %v", err)
	}
}

type generator struct {
	tool string
	out  string
}

// crds writes each kind to every side that needs it.
func (g *generator) crds() error {
	docs, err := g.controllerGen("crd", "./apis/apps/v1alpha1", "./apis/fleet/v1alpha1")
	if err != nil {
		return err
	}
	folders := map[string][]string{
		"clonesets.apps.kruise.io":          {"hub/crd", "member/crd"},
		"statefulsets.apps.kruise.io":       {"hub/crd", "member/crd"},
		"uniteddeployments.apps.kruise.io":  {"hub/crd"},
		"memberclusters.fleet.underway.dev": {"hub/crd"},
	}
	for _, doc := range docs {
		name, err := complete(doc)
		if err != nil {
			return err
		}
		if len(folders[name]) == 0 {
			return fmt.Errorf("CRD %s: say in crds() who needs it", name)
		}
		plural, group, _ := strings.Cut(name, ".")
		for _, folder := range folders[name] {
			if err := g.write(filepath.Join(folder, group+"_"+plural+".yaml"), doc); err != nil {
				return err
			}
		}
		delete(folders, name)
	}
	for name := range folders {
		err = errors.Join(err, fmt.Errorf("CRD %s: controller-gen wrote none", name))
	}
	return err
}

// roles writes the roles of the hub and of the agent, each from the markers beside the code that needs them. What the
// hub may do in a member is written by hand (member/hub-access): two roles, bound apart.
func (g *generator) roles() error {
	// What Cluster API needs is a role of its own, given only where a selector is chosen at install: it reads Secrets.
	hub, err := below("hub", "hub/clusterapi")
	errs := []error{err}
	for _, role := range []struct {
		name, file string
		paths      []string
	}{
		{"underway-hub", "hub/rbac/role.yaml", append([]string{"./cmd/underway-hub"}, hub...)},
		{"underway-hub-cluster-api", "hub/cluster-api/role.yaml", []string{"./hub/clusterapi"}},
		{"underway-member", "member/rbac/role.yaml", []string{"./cmd/underway-member", "./member/...", "./inplace/podwriter"}},
	} {
		docs, err := g.controllerGen("rbac:roleName="+role.name, role.paths...)
		err = errors.Join(err, unseen(role.paths))
		switch {
		case err != nil:
			errs = append(errs, err)
		case len(docs) == 0:
			errs = append(errs, fmt.Errorf("role %s: no RBAC markers in %s", role.name, strings.Join(role.paths, " ")))
		default:
			for _, doc := range docs {
				label(doc)
				errs = append(errs, placed(doc))
			}
			errs = append(errs, g.write(role.file, docs...))
		}
	}
	return errors.Join(errs...)
}

// below lists the packages of a folder and below it, but for one of its folders.
func below(folder, but string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		case name == filepath.FromSlash(but) || entry.Name() == "testdata":
			return filepath.SkipDir
		}
		if files, err := filepath.Glob(filepath.Join(name, "*.go")); err != nil || len(files) == 0 {
			return err
		}
		out = append(out, "./"+filepath.ToSlash(name))
		return nil
	})
	return out, err
}

// placed refuses a Role in a namespace that we do not create: where it is missing, nothing could be installed.
func placed(role map[string]any) error {
	metadata := dig(role, "metadata")
	if at, ok := metadata["namespace"]; ok && at != appsv1alpha1.SystemNamespace {
		return fmt.Errorf("role %v in namespace %v, which may not exist: use resourceNames instead of namespace", metadata["name"], at)
	}
	return nil
}

// controllerGen runs one generator over paths and returns the objects it prints.
func (g *generator) controllerGen(generator string, paths ...string) ([]map[string]any, error) {
	args := make([]string, 1, len(paths)+2)
	args[0] = generator
	for _, path := range paths {
		args = append(args, "paths="+path)
	}
	kind, _, _ := strings.Cut(generator, ":")
	args = append(args, "output:"+kind+":stdout")
	cmd := exec.Command(g.tool, args...) //nolint:gosec // the tool the caller names
	cmd.Stderr = os.Stderr
	printed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running controller-gen %s: %w", generator, err)
	}
	var docs []map[string]any
	for raw := range bytes.SplitSeq(printed, []byte("\n---\n")) {
		doc := map[string]any{}
		if err := yaml.Unmarshal(bytes.TrimPrefix(raw, []byte("---\n")), &doc); err != nil {
			return nil, fmt.Errorf("reading the output of controller-gen %s: %w", generator, err)
		}
		if len(doc) > 0 {
			docs = append(docs, doc)
		}
	}
	return docs, nil
}

const header = "# Written by config/gen from the code; do not edit.\n"

func (g *generator) write(file string, docs ...map[string]any) error {
	content := bytes.NewBufferString(header)
	for i, doc := range docs {
		raw, err := yaml.Marshal(doc)
		if err != nil {
			return err
		}
		if i > 0 {
			content.WriteString("---\n")
		}
		content.Write(raw)
	}
	path := filepath.Join(g.out, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a source folder
		return err
	}
	return os.WriteFile(path, content.Bytes(), 0o644) //nolint:gosec // a source file
}
