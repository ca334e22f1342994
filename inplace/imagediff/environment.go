package imagediff

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/underway-dev/underway/inplace"
)

// variable is one environment variable of a container that lives as long as its pod.
type variable struct {
	container object
	name      string
	// path is "spec.containers[web].env[V]".
	path string
	from object
}

// variables are those that read something, of containers and native sidecars. Init containers that have finished read
// nothing again.
func variables(spec object) []variable {
	var out []variable
	for _, list := range []string{"containers", "initContainers"} {
		entries, _ := spec[list].([]any)
		for _, entry := range entries {
			c, _ := entry.(object)
			if c == nil || kindOf("spec."+list, c) == inplace.KindInit {
				continue
			}
			out = append(out, variablesOf("spec."+list, c)...)
		}
	}
	return out
}

func variablesOf(path string, container object) []variable {
	var out []variable
	name, _ := container["name"].(string)
	env, _ := container["env"].([]any)
	for _, entry := range env {
		e, _ := entry.(object)
		from, _ := e["valueFrom"].(object)
		if from == nil {
			continue
		}
		variableName, _ := e["name"].(string)
		out = append(out, variable{container: container, name: name, path: fmt.Sprintf("%s.env[%s]", at(path, name), variableName), from: from})
	}
	return out
}

// environment looks at labels and annotations that change and that a container read into its environment when it was
// started. Where its image changes too it is started anew and reads them again; elsewhere somebody on the node would have
// to restart it.
func (d *diff) environment(spec object) {
	for _, v := range variables(spec) {
		ref, _ := v.from["fieldRef"].(object)
		path, _ := ref["fieldPath"].(string)
		if !d.changes(path) {
			continue
		}
		if _, restarts := d.change.Images[v.name]; !restarts {
			d.refuse(path, fmt.Sprintf("is read by %s when the container starts, and its image does not change; only an agent on the node could restart it: %s", v.path, recreate))
			continue
		}
		if !slices.Contains(d.change.EnvFrom, v.name) {
			d.change.EnvFrom = append(d.change.EnvFrom, v.name)
		}
	}
	slices.Sort(d.change.EnvFrom)
}

// changes reports whether what a fieldPath names changes. Kubernetes accepts one form, metadata.labels['key']; of any
// other form of labels or annotations nobody knows which key it reads, so each change counts.
func (d *diff) changes(fieldPath string) bool {
	field, key, found := strings.Cut(strings.TrimSuffix(fieldPath, "']"), "['")
	whole := !found || !strings.HasSuffix(fieldPath, "']")
	if whole {
		field, _, _ = strings.Cut(fieldPath, "[")
	}
	var changed map[string]*string
	switch field {
	case "metadata.labels":
		changed = d.change.Metadata.Labels
	case "metadata.annotations":
		changed = d.change.Metadata.Annotations
	}
	if whole {
		return len(changed) > 0
	}
	_, hit := changed[key]
	return hit
}

// exposed refuses a resize of what a container has read into its environment (limits.memory as GOMEMLIMIT): a resize does
// not renew it, and the patch of an image reaches the kubelet before the resize does. Only a container that restarts
// because of the resize reads the new value for certain.
func (d *diff) exposed(spec object) {
	for _, v := range variables(spec) {
		ref, _ := v.from["resourceFieldRef"].(object)
		of, _ := ref["containerName"].(string)
		if of == "" {
			of = v.name
		}
		list, name, _ := strings.Cut(text(ref["resource"]), ".")
		changed := d.change.Resources[of].Limits
		if list == "requests" {
			changed = d.change.Resources[of].Requests
		}
		_, hit := changed[corev1.ResourceName(name)]
		if hit && (of != v.name || !restartsFor(v.container, name)) {
			d.refuse(fmt.Sprintf("%s of container %s", text(ref["resource"]), of), fmt.Sprintf("is read by %s when the container starts, and a resize does not restart it: %s", v.path, recreate))
		}
	}
}

// restartsFor reports whether a resize of that resource restarts the container.
func restartsFor(container object, name string) bool {
	policies, _ := container["resizePolicy"].([]any)
	for _, entry := range policies {
		p, _ := entry.(object)
		if p["resourceName"] == name {
			return p["restartPolicy"] == string(corev1.RestartContainer)
		}
	}
	return false
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
