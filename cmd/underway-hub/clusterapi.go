package main

import (
	"flag"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/underway-dev/underway/cmd/internal/boot"
	"github.com/underway-dev/underway/hub/clusterapi"
)

// clusterAPI are the flags about Cluster API.
type clusterAPI struct {
	selector, allow, labels, agentImage string
	upgrade                             bool
}

func (c *clusterAPI) bind(fs *flag.FlagSet) {
	fs.StringVar(&c.selector, "cluster-api-selector", "",
		"label selector of the Cluster API Clusters that become members; empty: none (see kubectl underway init --cluster-api-selector)")
	fs.StringVar(&c.allow, "cluster-api-allow-namespaces", "",
		"label selector of the hub's Namespaces that may use such members; empty: all. Written once, when a member is made")
	fs.StringVar(&c.labels, "cluster-api-labels", "",
		"prefixes, by comma, of the Clusters' labels that their MemberClusters get; empty: all but those of Kubernetes and Cluster API, and topology.kubernetes.io/")
	fs.StringVar(&c.agentImage, "cluster-api-agent-image", "", "image of underway-member to deploy on such members; empty: none is deployed")
	fs.BoolVar(&c.upgrade, "cluster-api-upgrade", false, "bring CRDs, account and agent on such members to this version")
}

// options of the controller; without a selector it does not run.
func (c *clusterAPI) options() (clusterapi.Options, error) {
	o := clusterapi.Options{AgentImage: c.agentImage, Upgrade: c.upgrade, Version: boot.Version(), AllowedNamespaces: &metav1.LabelSelector{}}
	if c.selector == "" {
		return o, nil
	}
	parsed, err := metav1.ParseToLabelSelector(c.selector)
	if err == nil {
		o.Selector, err = metav1.LabelSelectorAsSelector(parsed)
	}
	if err != nil {
		return o, fmt.Errorf("--cluster-api-selector %q: %w", c.selector, err)
	}
	if c.allow != "" {
		if o.AllowedNamespaces, err = metav1.ParseToLabelSelector(c.allow); err != nil {
			return o, fmt.Errorf("--cluster-api-allow-namespaces %q: %w", c.allow, err)
		}
	}
	for prefix := range strings.SplitSeq(c.labels, ",") {
		if prefix = strings.TrimSpace(prefix); prefix != "" {
			o.LabelPrefixes = append(o.LabelPrefixes, prefix)
		}
	}
	return o, nil
}
