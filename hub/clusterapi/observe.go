package clusterapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/clusterapi/plan"
	"github.com/underway-dev/underway/hub/install"
	"github.com/underway-dev/underway/propagation/clusters"
)

const (
	// kubeconfigSuffix and kubeconfigKey are of Cluster API's contract.
	kubeconfigSuffix = "-kubeconfig"
	kubeconfigKey    = "value"
	// readEvery is how often a kubeconfig is read of a member that is fine.
	readEvery = time.Minute
	// fieldManager owns the labels that were copied; nothing else is written by it.
	fieldManager = "underway-cluster-api"
)

// Annotations on a member's Secret: what its credential was made from.
const (
	annotationSource  = "fleet.underway.dev/made-from"
	annotationCluster = "fleet.underway.dev/made-for"
	annotationVersion = "fleet.underway.dev/made-by"
)

// source is Cluster API's kubeconfig as it was last read.
type source struct {
	digest   string
	unusable string
	at       time.Time
}

// seen is an observation with what acting on it needs.
type seen struct {
	plan.Observation
	// admin is Cluster API's kubeconfig; nil when it was not read now.
	admin *rest.Config
}

// observe reads the Cluster, the MemberCluster that refers to it, and what is known of the hub's account there. What
// cannot be read is an error, and nothing is decided.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*seen, error) {
	s := &seen{Observation: plan.Observation{
		Namespace: key.Namespace, Name: key.Name, Taken: map[string]bool{}, OwnLabels: map[string]bool{},
		Options: plan.Options{LabelPrefixes: r.LabelPrefixes, Version: r.Version, Reinstall: r.Upgrade},
	}}
	if err := r.observeMember(ctx, key, s); err != nil {
		return nil, err
	}
	if err := r.observeCluster(ctx, key, s); err != nil {
		return nil, err
	}
	if s.Member == nil || s.Cluster == nil {
		return s, nil
	}
	return s, r.observeInstall(ctx, key, s)
}

// observeMember finds the MemberCluster by its reference, and reads it with the owners of its labels, which no cache keeps.
func (r *Reconciler) observeMember(ctx context.Context, key types.NamespacedName, s *seen) error {
	list := &fleetv1alpha1.MemberClusterList{}
	if err := r.Client.List(ctx, list); err != nil {
		return fmt.Errorf("listing MemberClusters: %w", err)
	}
	for i := range list.Items {
		mc := &list.Items[i]
		s.Taken[mc.Name] = true
		if ref := mc.Spec.ClusterRef; ref == nil || ref.Namespace != key.Namespace || ref.Name != key.Name || s.Member != nil {
			continue
		}
		live := &fleetv1alpha1.MemberCluster{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(mc), live); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading MemberCluster %s: %w", mc.Name, err)
		} else if err != nil || live.DeletionTimestamp != nil {
			return fmt.Errorf("MemberCluster %s is going: looking again", mc.Name)
		}
		own, err := ownLabels(live)
		if err != nil {
			return err
		}
		s.Member, s.OwnLabels = live, own
	}
	return nil
}

// ownLabels are the keys of labels that fieldManager owns, and nobody else: what two own only both can change.
func ownLabels(mc *fleetv1alpha1.MemberCluster) (map[string]bool, error) {
	out, others := map[string]bool{}, map[string]bool{}
	for _, entry := range mc.ManagedFields {
		if entry.FieldsV1 == nil {
			continue
		}
		of := others
		if entry.Manager == fieldManager && entry.Operation == metav1.ManagedFieldsOperationApply {
			of = out
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("reading the owners of the labels of MemberCluster %s: %w", mc.Name, err)
		}
		for key := range mc.Labels {
			if set.Has(fieldpath.MakePathOrDie("metadata", "labels", key)) {
				of[key] = true
			}
		}
	}
	maps.DeleteFunc(out, func(key string, _ bool) bool { return others[key] })
	return out, nil
}

// observeCluster reads the Cluster from the cache. Where the cache has none the API server is asked, and whether Cluster
// API's CRD is there and stays: a cache can be empty for many reasons.
func (r *Reconciler) observeCluster(ctx context.Context, key types.NamespacedName, s *seen) error {
	cluster := &clusterv1.Cluster{}
	err := r.Client.Get(ctx, key, cluster)
	if err == nil && cluster.DeletionTimestamp == nil {
		s.Cluster = r.read(cluster)
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Cluster %s: %w", key, err)
	}
	state, kindErr := r.kind(ctx)
	if kindErr != nil {
		return kindErr
	}
	s.KindGoing = state != kindServed
	if err == nil {
		s.Cluster = r.read(cluster)
		return nil
	}
	if s.KindGoing {
		return nil
	}
	err = r.Live.Get(ctx, key, cluster)
	switch {
	case apierrors.IsNotFound(err):
		s.ProvenGone = true
	case err != nil:
		return fmt.Errorf("reading Cluster %s: %w", key, err)
	default:
		s.Cluster = r.read(cluster)
	}
	return nil
}

// read takes from a Cluster what is decided by.
func (r *Reconciler) read(c *clusterv1.Cluster) *plan.Cluster {
	_, annotated := c.Annotations[clusterv1.PausedAnnotation]
	out := &plan.Cluster{
		UID: string(c.UID), Labels: c.Labels, Selected: r.Selector.Matches(labels.Set(c.Labels)),
		Paused:      annotated || (c.Spec.Paused != nil && *c.Spec.Paused),
		Deleting:    c.DeletionTimestamp != nil,
		Initialized: c.Status.Initialization.ControlPlaneInitialized != nil && *c.Status.Initialization.ControlPlaneInitialized,
		Upgrade:     plan.Upgrade{Wanted: c.Spec.Topology.Version, Conditions: c.Status.Conditions},
	}
	if p := c.Status.ControlPlane; p != nil {
		out.Upgrade.ControlPlane, out.Upgrade.ControlPlanePlan = versions(p.Versions), planned(p.UpgradePlan)
	}
	if w := c.Status.Workers; w != nil {
		out.Upgrade.Workers, out.Upgrade.WorkersPlan = versions(w.Versions), planned(w.UpgradePlan)
	}
	return out
}

func versions(list []clusterv1.StatusVersion) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		out = append(out, v.Version)
	}
	return out
}

func planned(list []clusterv1.StatusUpgradePlanVersion) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		out = append(out, v.Version)
	}
	return out
}

// observeInstall reads the hub's credential and, when it is due, Cluster API's kubeconfig.
func (r *Reconciler) observeInstall(ctx context.Context, key types.NamespacedName, s *seen) error {
	secret := &corev1.Secret{}
	name := client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: install.SecretName(s.Member.Name)}
	err := r.Client.Get(ctx, name, secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the credential: %w", err)
	}
	in := &s.Install
	*in = r.progressOf(key)
	in.Stored = err == nil && len(secret.Data["kubeconfig"]) > 0
	in.From, in.For, in.By = secret.Annotations[annotationSource], secret.Annotations[annotationCluster], secret.Annotations[annotationVersion]
	valid := meta.FindStatusCondition(s.Member.Status.Conditions, fleetv1alpha1.ConditionCredentialsValid)
	in.Refused = valid != nil && valid.Status == metav1.ConditionFalse && (valid.Reason == "Unauthorized" || valid.Reason == "Expired")
	fine := in.Stored && !in.Refused && meta.IsStatusConditionTrue(s.Member.Status.Conditions, fleetv1alpha1.ConditionReady) && in.For == s.Cluster.UID
	if known, ok := r.sourceOf(key); ok && fine && r.Clock.Since(known.at) < readEvery {
		in.Source, in.Unusable = known.digest, known.unusable
		return nil
	}
	return r.readSource(ctx, key, s)
}

// readSource reads Cluster API's kubeconfig.
func (r *Reconciler) readSource(ctx context.Context, key types.NamespacedName, s *seen) error {
	secret := &corev1.Secret{}
	name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name + kubeconfigSuffix}
	err := r.Live.Get(ctx, name, secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Secret %s: %w", name, err)
	}
	now := source{at: r.Clock.Now()}
	cfg, parseErr := kubeconfigIn(secret, name, err)
	if parseErr != nil {
		now.unusable = parseErr.Error()
	} else {
		s.admin, now.digest = cfg, digest(cfg)
	}
	r.mu.Lock()
	r.sources[key] = now
	r.mu.Unlock()
	s.Install.Source, s.Install.Unusable = now.digest, now.unusable
	return nil
}

func kubeconfigIn(secret *corev1.Secret, name types.NamespacedName, readErr error) (*rest.Config, error) {
	raw, ok := secret.Data[kubeconfigKey]
	switch {
	case readErr != nil:
		return nil, refusal(fmt.Sprintf("Secret %s does not exist", name))
	case !ok:
		return nil, refusal(fmt.Sprintf("Secret %s has no key %q", name, kubeconfigKey))
	}
	cfg, err := clusters.ParseKubeconfig(raw, false)
	if errors.Is(err, clusters.ErrRefused) {
		return nil, refusal(fmt.Sprintf("Secret %s: %v", name, err))
	}
	return cfg, err
}

// digest is of what leads to the member; another client certificate is no other way.
func digest(cfg *rest.Config) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", cfg.Host, cfg.CAData, cfg.ServerName))
	return hex.EncodeToString(sum[:8])
}

func (r *Reconciler) sourceOf(key types.NamespacedName) (source, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sources[key]
	return s, ok
}
