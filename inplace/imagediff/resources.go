package imagediff

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/underway-dev/underway/inplace"
)

const (
	limits   = "limits"
	requests = "requests"
)

// resizable reports whether a running container can be given more or less of it.
func resizable(name string) bool {
	return name == string(corev1.ResourceCPU) || name == string(corev1.ResourceMemory)
}

// resources notes changed cpu and memory. Values are compared as quantities, and requests as the API server completes
// them: a request that is not written is the limit.
func (d *diff) resources(path string, kind inplace.ContainerKind, older, newer object) error {
	was, err := child(older, "resources")
	if err != nil {
		return err
	}
	is, err := child(newer, "resources")
	if err != nil {
		return err
	}
	d.fields(path+".", was, is, limits, requests)
	before := len(d.refused)
	oldLimits, newLimits, err := d.lists(path, limits, was, is)
	if err != nil {
		return err
	}
	oldRequests, newRequests, err := d.lists(path, requests, was, is)
	if err != nil || len(d.refused) > before {
		return err
	}
	change := corev1.ResourceRequirements{
		Limits:   d.replaced(path+"."+limits, oldLimits, newLimits),
		Requests: d.replaced(path+"."+requests, completed(oldRequests, oldLimits), completed(newRequests, newLimits)),
	}
	name, _ := newer["name"].(string)
	switch {
	case len(change.Limits)+len(change.Requests) == 0:
	case kind == inplace.KindInit:
		d.refuse(path, "an init container has run already and cannot be resized: "+recreate)
	default:
		d.change.Resources = put(d.change.Resources, name, change)
	}
	return nil
}

// lists reads one list of both; what is no quantity, and differs, is refused.
func (d *diff) lists(path, key string, older, newer object) (was, is corev1.ResourceList, err error) {
	oldList, err := child(older, key)
	if err != nil {
		return nil, nil, err
	}
	newList, err := child(newer, key)
	if err != nil {
		return nil, nil, err
	}
	was, is = corev1.ResourceList{}, corev1.ResourceList{}
	for _, name := range keys(oldList, newList) {
		oldErr := quantity(was, oldList, name)
		newErr := quantity(is, newList, name)
		if (oldErr != nil || newErr != nil) && !same(oldList[name], newList[name]) {
			d.refuse(fmt.Sprintf("%s.%s[%s]", path, key, name), "is not a quantity: "+recreate)
		}
	}
	return was, is, nil
}

func same(a, b any) bool {
	return fmt.Sprint(a) == fmt.Sprint(b)
}

// quantity parses one value into a list; a value that is not there is none.
func quantity(into corev1.ResourceList, from object, name string) error {
	value, ok := from[name]
	if !ok || value == nil {
		return nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	q, err := resource.ParseQuantity(strings.Trim(string(raw), `"`))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	into[corev1.ResourceName(name)] = q
	return nil
}

// completed are the requests as the API server completes them.
func completed(written, limits corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(written)
	for name, q := range limits {
		if _, has := out[name]; !has && resizable(string(name)) {
			out[name] = q
		}
	}
	return out
}

// replaced are the values that are there before and after and differ; all else that differs is refused.
func (d *diff) replaced(path string, was, is corev1.ResourceList) corev1.ResourceList {
	var out corev1.ResourceList
	all := maps.Clone(was)
	maps.Copy(all, is)
	for name := range all {
		before, had := was[name]
		after, has := is[name]
		field := fmt.Sprintf("%s[%s]", path, name)
		switch {
		case had && has && before.Cmp(after) == 0:
		case !resizable(string(name)):
			d.refuse(field, "only cpu and memory can be resized: "+recreate)
		case !had:
			d.refuse(field, "cannot be added to a running container: "+recreate)
		case !has:
			d.refuse(field, "cannot be removed from a running container: "+recreate)
		default:
			if out == nil {
				out = corev1.ResourceList{}
			}
			out[name] = after
		}
	}
	return out
}
