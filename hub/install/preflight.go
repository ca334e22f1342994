package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OldestVersion of Kubernetes that is supported on members.
const OldestVersion = "1.34"

// Facts are what is seen of a cluster before anything is done to it.
type Facts struct {
	// Identity is the UID of its kube-system namespace.
	Identity string
	// Version is its API server's, "v1.37.2".
	Version string
}

// Look reads the facts.
func Look(ctx context.Context, c client.Client, cfg *rest.Config) (Facts, error) {
	identity, err := Identity(ctx, c)
	if err != nil {
		return Facts{}, err
	}
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return Facts{}, fmt.Errorf("asking %s for its version: %w", cfg.Host, err)
	}
	v, err := d.ServerVersion()
	if err != nil {
		return Facts{}, fmt.Errorf("asking %s for its version: %w", cfg.Host, err)
	}
	return Facts{Identity: identity, Version: v.GitVersion}, nil
}

// Identity is the UID of a cluster's kube-system namespace.
func Identity(ctx context.Context, c client.Client) (string, error) {
	ns := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, ns); err != nil {
		return "", fmt.Errorf("reading namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(ns.UID), nil
}

// TooOld says whether a cluster's version is older than OldestVersion; one that cannot be read, or
// that was built without one (v0.0.0), is not known to be.
func (f Facts) TooOld() bool {
	v, err := version.ParseGeneric(f.Version)
	return err == nil && v.Major() > 0 && v.LessThan(version.MustParseGeneric(OldestVersion))
}

// Served are the kinds of a cluster whose objects can be listed and patched, each in the version that it prefers. Groups that
// could not be asked for, an aggregated API that is down, are named in unread and are not in the list.
func Served(cfg *rest.Config) (kinds []schema.GroupVersionKind, unread []string, err error) {
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("asking %s for its kinds: %w", cfg.Host, err)
	}
	lists, err := d.ServerPreferredResources()
	if failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err); partly {
		for gv := range failed {
			unread = append(unread, gv.String())
		}
		slices.Sort(unread)
	} else if err != nil {
		return nil, nil, fmt.Errorf("asking %s for its kinds: %w", cfg.Host, err)
	}
	return kindsIn(lists), unread, nil
}

func kindsIn(lists []*metav1.APIResourceList) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "patch") {
				out = append(out, gv.WithKind(r.Kind))
			}
		}
	}
	return out
}

// Prove uses the credential as the hub will: it must reach the same cluster. It lists kube-system alone, which is what the
// hub's account may do everywhere; getting it takes the role that join binds in the namespaces named only.
func Prove(ctx context.Context, asHub client.Client, identity string) error {
	list := &corev1.NamespaceList{}
	err := asHub.List(ctx, list, client.MatchingFields{"metadata.name": metav1.NamespaceSystem})
	if err != nil {
		return fmt.Errorf("the credential made for the hub does not work: reading namespace %s: %w", metav1.NamespaceSystem, err)
	}
	if len(list.Items) != 1 || string(list.Items[0].UID) != identity {
		return fmt.Errorf("the credential made for the hub reaches another cluster (%d namespaces %s, want one with UID %s)",
			len(list.Items), metav1.NamespaceSystem, identity)
	}
	return nil
}
