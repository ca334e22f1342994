package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/render"
)

// ErrKind is wrapped by every error of ParseKinds.
var ErrKind = errors.New("kinds that travel by label are <group>/<version>/<Kind>, joined by commas")

// ParseKinds reads the kinds of flag --propagate-kinds, as "networking.k8s.io/v1/Ingress,v1/ConfigMap". Kinds that belong to
// one cluster, that give rights, or that UnitedDeployments manage are refused. Kinds that always travel by label are passed
// over. Whether a kind has namespaces is not known here.
func ParseKinds(text string) ([]schema.GroupVersionKind, error) {
	var out []schema.GroupVersionKind
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		gvk, err := parseKind(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(content.ByLabel(), func(k render.Kind) bool { return k.GVK.GroupKind() == gvk.GroupKind() }) {
			continue
		}
		if slices.ContainsFunc(out, func(k schema.GroupVersionKind) bool { return k.GroupKind() == gvk.GroupKind() }) {
			return nil, fmt.Errorf("%s is there twice: %w", gvk.GroupKind(), ErrKind)
		}
		out = append(out, gvk)
	}
	return out, nil
}

func parseKind(name string) (schema.GroupVersionKind, error) {
	parts := strings.Split(name, "/")
	if len(parts) == 2 {
		parts = append([]string{""}, parts...)
	}
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" || !upper(parts[2]) || upper(parts[1]) || (name[0] == '/') {
		return schema.GroupVersionKind{}, fmt.Errorf("%q: %w", name, ErrKind)
	}
	gvk := schema.GroupVersionKind{Group: parts[0], Version: parts[1], Kind: parts[2]}
	if gvk.Group == "core" {
		return gvk, fmt.Errorf("%q: write %s/%s: %w", name, gvk.Version, gvk.Kind, ErrKind)
	}
	if why := never(gvk); why != "" {
		return gvk, fmt.Errorf("%q never travels: %s: %w", name, why, ErrKind)
	}
	return gvk, nil
}

func upper(s string) bool { return s[0] >= 'A' && s[0] <= 'Z' }

// never says why a kind never travels by label; "" when it may.
func never(gvk schema.GroupVersionKind) string {
	_, workload := render.KindOf(gvk)
	switch {
	case workload, gvk.Group == "apps.kruise.io" && gvk.Kind == "UnitedDeployment":
		return "workloads go to members as children of a UnitedDeployment"
	case gvk.Group == "":
		if !slices.Contains([]string{
			content.KindConfigMap, content.KindSecret, content.KindService, content.KindServiceAccount, content.KindClaim,
			"LimitRange", "ResourceQuota",
		}, gvk.Kind) {
			return "every cluster has its own"
		}
	case gvk.Group == "apps" && gvk.Kind != "DaemonSet":
		return "it is made by the controllers of its own cluster"
	case gvk.Group == "batch" && gvk.Kind == "Job":
		return "a member removes a Job that has ended, and it would be run again"
	case gvk.Group == "apps.kruise.io" && slices.Contains([]string{"BroadcastJob", "ContainerRecreateRequest", "ImagePullJob", "ImageListPullJob"}, gvk.Kind):
		return "a member removes it when it has ended, and it would be run again"
	case gvk.Group == "fleet.underway.dev":
		return "it belongs to the hub"
	case gvk.Group == "cluster.x-k8s.io", strings.HasSuffix(gvk.Group, ".cluster.x-k8s.io"):
		return "it stands for a cluster or a machine, and a copy would make another one"
	case slices.Contains([]string{
		"rbac.authorization.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io",
		"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io",
	}, gvk.Group):
		return "it gives rights or changes the API of a cluster"
	case slices.Contains([]string{
		"events.k8s.io", "discovery.k8s.io", "coordination.k8s.io", "metrics.k8s.io", "node.k8s.io", "storage.k8s.io",
		"flowcontrol.apiserver.k8s.io", "scheduling.k8s.io", "resource.k8s.io",
	}, gvk.Group):
		return "every cluster has its own"
	}
	return ""
}
