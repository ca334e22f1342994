package imagediff

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/revision"
)

// recreate ends every sentence about a field that cannot be changed in place.
const recreate = "changes need a recreate"

// always is the restartPolicy of what runs as long as its pod.
const always = "Always"

// RefusalError is the error of a change that cannot be made in place.
type RefusalError struct {
	// Fields are the reasons, each "<JSON path>: why", sorted; never empty.
	Fields []string
}

// Error names all fields.
func (r *RefusalError) Error() string {
	return strings.Join(r.Fields, "; ")
}

// Between is what must be changed in place to bring a pod from the old raw template to the new one. The error is a
// *RefusalError when a field forbids it, and another error when a template cannot be read; either way nothing may be patched.
func Between(oldTemplate, newTemplate []byte) (inplace.Change, error) {
	older, err := revision.Object(oldTemplate)
	if err != nil {
		return inplace.Change{}, fmt.Errorf("the old template: %w", err)
	}
	newer, err := revision.Object(newTemplate)
	if err != nil {
		return inplace.Change{}, fmt.Errorf("the new template: %w", err)
	}
	d := diff{}
	d.fields("", older, newer, "metadata", "spec")
	if err := d.metadata(older, newer); err != nil {
		return inplace.Change{}, err
	}
	if err := d.spec(older, newer); err != nil {
		return inplace.Change{}, err
	}
	d.settle(newer)
	if len(d.refused) > 0 {
		slices.Sort(d.refused)
		return inplace.Change{}, &RefusalError{Fields: slices.Compact(d.refused)}
	}
	return d.change, nil
}

// object is one JSON object.
type object = map[string]any

// diff collects what changes and what forbids it.
type diff struct {
	change  inplace.Change
	refused []string
	// neverRestarts is the pod's restartPolicy where it is not Always.
	neverRestarts string
	// initImages are changed images of ordinary init containers, initPaths their fields.
	initImages map[string]string
	initPaths  []string
}

// settle decides what can be decided only when all changes are known.
func (d *diff) settle(newer object) {
	spec, _ := newer["spec"].(object)
	d.environment(spec)
	d.exposed(spec)
	if len(d.initImages) == 0 {
		return
	}
	if len(d.change.Images)+len(d.change.Resources) > 0 {
		d.change.InitImages = d.initImages
		return
	}
	for _, path := range d.initPaths {
		d.refuse(path, "an init container has run already; its image takes effect only when the pod starts anew: "+recreate)
	}
}

func (d *diff) refuse(path, why string) {
	d.refused = append(d.refused, path+": "+why)
}

// fields refuses every difference between two objects except below the keys that the caller looks at itself.
func (d *diff) fields(path string, older, newer object, except ...string) {
	for _, key := range keys(older, newer) {
		if !slices.Contains(except, key) && !reflect.DeepEqual(older[key], newer[key]) {
			d.refuse(path+key, recreate)
		}
	}
}

// keys are the keys of both, sorted.
func keys(a, b object) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

func (d *diff) spec(older, newer object) error {
	oldSpec, err := child(older, "spec")
	if err != nil {
		return err
	}
	newSpec, err := child(newer, "spec")
	if err != nil {
		return err
	}
	d.fields("spec.", oldSpec, newSpec, "containers", "initContainers")
	if p, _ := newSpec["restartPolicy"].(string); p != "" && p != always {
		d.neverRestarts = p
	}
	if err := d.containers("spec.containers", oldSpec["containers"], newSpec["containers"]); err != nil {
		return err
	}
	if err := d.containers("spec.initContainers", oldSpec["initContainers"], newSpec["initContainers"]); err != nil {
		return err
	}
	d.qos(oldSpec, newSpec)
	return nil
}

// containers compares two lists of containers by name.
func (d *diff) containers(path string, older, newer any) error {
	oldNames, oldByName, err := byName(path, older)
	if err != nil {
		return err
	}
	newNames, newByName, err := byName(path, newer)
	if err != nil {
		return err
	}
	if !slices.Equal(oldNames, newNames) {
		d.refuseList(path, oldNames, newNames)
		return nil
	}
	for _, name := range newNames {
		if err := d.container(path, name, oldByName[name], newByName[name]); err != nil {
			return err
		}
	}
	return nil
}

// refuseList says which containers came or went, or that only their order changed.
func (d *diff) refuseList(path string, older, newer []string) {
	before := len(d.refused)
	for _, name := range newer {
		if !slices.Contains(older, name) {
			d.refuse(at(path, name), "an added container needs a recreate")
		}
	}
	for _, name := range older {
		if !slices.Contains(newer, name) {
			d.refuse(at(path, name), "a removed container needs a recreate")
		}
	}
	if len(d.refused) == before {
		d.refuse(path, "a change of order needs a recreate")
	}
}

func (d *diff) container(path, name string, older, newer object) error {
	d.fields(at(path, name)+".", older, newer, "image", "resources")
	kind := kindOf(path, newer)
	d.image(at(path, name)+".image", kind, older, newer)
	return d.resources(at(path, name)+".resources", kind, older, newer)
}

// kindOf tells native sidecars from ordinary init containers. A change of restartPolicy is refused before this matters.
func kindOf(path string, container object) inplace.ContainerKind {
	switch {
	case path == "spec.containers":
		return inplace.KindApp
	case container["restartPolicy"] == always:
		return inplace.KindSidecar
	default:
		return inplace.KindInit
	}
}

// image notes a changed image.
func (d *diff) image(path string, kind inplace.ContainerKind, older, newer object) {
	if reflect.DeepEqual(older["image"], newer["image"]) {
		return
	}
	name, _ := newer["name"].(string)
	image, ok := newer["image"].(string)
	own, _ := newer["restartPolicy"].(string)
	switch {
	case !ok || image == "":
		d.refuse(path, "has no image")
	case d.neverRestarts != "":
		d.refuse(path, "containers of a pod with restartPolicy "+d.neverRestarts+" may not be started again: "+recreate)
	case kind == inplace.KindInit:
		d.initImages = put(d.initImages, name, image)
		d.initPaths = append(d.initPaths, path)
	case own != "" && own != always:
		d.refuse(path, "a container with restartPolicy "+own+" may not be started again: "+recreate)
	default:
		d.change.Images = put(d.change.Images, name, image)
	}
}

// put sets a key of a map that may not be there yet.
func put[V any](m map[string]V, key string, value V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = value
	return m
}

func at(path, name string) string {
	return path + "[" + name + "]"
}

// byName reads a list of containers; a name that is missing or occurs twice makes the template unreadable.
func byName(path string, list any) ([]string, map[string]object, error) {
	if list == nil {
		return nil, nil, nil
	}
	entries, ok := list.([]any)
	if !ok {
		return nil, nil, fmt.Errorf("%s is not a list", path)
	}
	found := make(map[string]object, len(entries))
	names := make([]string, 0, len(entries))
	for i, entry := range entries {
		c, _ := entry.(object)
		name, _ := c["name"].(string)
		if name == "" {
			return nil, nil, fmt.Errorf("%s[%d] has no name", path, i)
		}
		if _, twice := found[name]; twice {
			return nil, nil, fmt.Errorf("%s has two containers named %s", path, name)
		}
		found[name] = c
		names = append(names, name)
	}
	return names, found, nil
}

func child(o object, key string) (object, error) {
	if o[key] == nil {
		return nil, nil
	}
	c, ok := o[key].(object)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", key)
	}
	return c, nil
}
