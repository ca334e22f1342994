package clusterapi

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/clusterapi/plan"
	"github.com/underway-dev/underway/hub/install"
)

const (
	installTimeout = time.Minute
	requestTimeout = 15 * time.Second
)

// act carries a decision out.
func (r *Reconciler) act(ctx context.Context, key types.NamespacedName, s *seen, d *plan.Decision) error {
	switch {
	case d.Create != "":
		return r.create(ctx, d.Create, s)
	case d.Remove:
		return r.remove(ctx, key, s)
	}
	if d.Status != nil {
		mc := s.Member.DeepCopy()
		mc.Status = *d.Status
		base := client.MergeFromWithOptions(s.Member.DeepCopy(), client.MergeFromWithOptimisticLock{})
		if err := r.Client.Status().Patch(ctx, mc, base); err != nil {
			return fmt.Errorf("writing the status of MemberCluster %s: %w", mc.Name, err)
		}
	}
	if d.Labels != nil {
		if err := r.label(ctx, s.Member, d.Labels); err != nil {
			return err
		}
	}
	if d.Install != "" && s.admin != nil {
		r.install(ctx, key, s, d.Install)
	}
	return nil
}

// create makes the MemberCluster. Its spec is written once: a person may narrow it later.
func (r *Reconciler) create(ctx context.Context, name string, s *seen) error {
	mc := &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf}},
		Spec: fleetv1alpha1.MemberClusterSpec{
			ClusterRef:        &fleetv1alpha1.ClusterReference{Namespace: s.Namespace, Name: s.Name},
			AllowedNamespaces: r.AllowedNamespaces,
		},
	}
	err := r.Client.Create(ctx, mc, client.FieldOwner(appsv1alpha1.FieldManagerHub))
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making MemberCluster %s of Cluster %s/%s: the name is taken, looking again: %w", name, s.Namespace, s.Name, err)
	}
	if err != nil {
		return fmt.Errorf("making MemberCluster %s of Cluster %s/%s: %w", name, s.Namespace, s.Name, err)
	}
	klog.FromContext(ctx).Info("Made a member of a Cluster", "MemberCluster", klog.KRef("", name))
	return nil
}

// label owns exactly these labels on the MemberCluster: an apply by a manager that writes nothing else, unforced, so that
// what somebody else has put there meanwhile is a conflict and not overwritten.
func (r *Reconciler) label(ctx context.Context, mc *fleetv1alpha1.MemberCluster, want map[string]string) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind("MemberCluster"))
	u.SetName(mc.Name)
	u.SetUID(mc.UID)
	u.SetLabels(want)
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("copying labels to MemberCluster %s: %w", mc.Name, err)
	}
	return nil
}

// remove forgets a member whose Cluster is gone.
func (r *Reconciler) remove(ctx context.Context, key types.NamespacedName, s *seen) error {
	uid := s.Member.UID
	if err := r.Client.Delete(ctx, s.Member, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing MemberCluster %s: %w", s.Member.Name, err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: appsv1alpha1.SystemNamespace, Name: install.SecretName(s.Member.Name)}}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if err == nil && secret.Labels[appsv1alpha1.LabelPartOf] == appsv1alpha1.PartOf {
		uid := secret.UID
		err = r.Client.Delete(ctx, secret, client.Preconditions{UID: &uid})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the credential of %s: %w", s.Member.Name, err)
	}
	r.mu.Lock()
	delete(r.sources, key)
	delete(r.installs, key)
	r.mu.Unlock()
	klog.FromContext(ctx).Info("Forgot a member whose Cluster is gone; its workloads were not touched", "MemberCluster", klog.KObj(s.Member))
	return nil
}

// progress is how making the account of one Cluster goes.
type progress struct {
	running  bool
	failures int
	failed   time.Time
	why      string
	done     time.Time
}

func (r *Reconciler) progressOf(key types.NamespacedName) plan.Install {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.installs[key]
	if p == nil {
		return plan.Install{}
	}
	return plan.Install{Running: p.running, Failures: p.failures, Failed: p.failed, Why: p.why, Done: p.done}
}

// install makes the hub's account in a goroutine of its own.
func (r *Reconciler) install(ctx context.Context, key types.NamespacedName, s *seen, because string) {
	r.mu.Lock()
	p := r.installs[key]
	if p == nil {
		p = &progress{}
		r.installs[key] = p
	}
	begun := !p.running
	p.running = true
	r.mu.Unlock()
	if !begun {
		return
	}
	logger := klog.FromContext(ctx).WithValues("MemberCluster", klog.KObj(s.Member))
	logger.Info("Making the hub's account on a member", "because", because)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), installTimeout)
	go func() {
		defer cancel()
		err := r.makeAccount(ctx, s)
		r.mu.Lock()
		p.running = false
		if err == nil {
			*p = progress{done: r.Clock.Now()}
		} else {
			p.failures++
			p.failed, p.why = r.Clock.Now(), words(err)
			logger.Info("Could not make the hub's account", "reason", err.Error())
		}
		r.mu.Unlock()
		r.bell.Ring(ctrl.Request{NamespacedName: key})
	}()
}

// makeAccount does what `kubectl underway join` does, as the administrator that Cluster API's kubeconfig is.
func (r *Reconciler) makeAccount(ctx context.Context, s *seen) error {
	admin := rest.CopyConfig(s.admin)
	admin.Timeout, admin.QPS, admin.UserAgent = requestTimeout, -1, "underway-hub"
	member, err := r.Connect(admin)
	if err != nil {
		return step("reaching it", err)
	}
	identity, err := install.Identity(ctx, member)
	if err != nil {
		return step("reading its identity", err)
	}
	if identity == r.LocalIdentity {
		return refusal("the Cluster is the hub's own: a subset without `cluster` lives there")
	}
	if err := install.CheckIdentity(ctx, r.Live, s.Member.Name, identity); err != nil {
		return refusal(err.Error())
	}
	token, err := install.Member(ctx, member, install.MemberOptions{
		Options: install.Options{Upgrade: r.Upgrade}, Name: s.Member.Name, AgentImage: r.AgentImage,
	})
	if err != nil {
		return step("making the hub's account", err)
	}
	access, err := install.AccessOf(s.admin, false)
	if err != nil {
		return refusal(err.Error())
	}
	raw, err := access.Kubeconfig(s.Member.Name, token)
	if err != nil {
		return step("building the hub's kubeconfig", err)
	}
	return step("storing the credential", install.StoreCredential(ctx, r.Live, s.Member.Name, raw, map[string]string{
		annotationSource: s.Install.Source, annotationCluster: s.Cluster.UID, annotationVersion: r.Version,
	}))
}
