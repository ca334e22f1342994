package content

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Ref names one object in the workload's namespace.
type Ref struct {
	// Kind is one of Kinds.
	Kind, Name string
	// Optional is true when pods start without it.
	Optional bool
}

// String is for people: "ConfigMap settings".
func (r Ref) String() string { return r.Kind + " " + r.Name }

// References are the objects that a pod template, raw JSON, names: in volumes of every type, in the environment of every
// container, its pull secrets, its account and its claims; sorted by kind and name, each once. An object that is named
// twice is optional only if it is so everywhere. Pull secrets are optional: a kubelet starts pods without them. Claims made
// from templates and ephemeral volumes are no references, nor is the account `default`, which every namespace has.
//
// A subset's patch on a pod template can be read as well: it then names what it adds.
func References(pod []byte) ([]Ref, error) {
	var t corev1.PodTemplateSpec
	if len(pod) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(pod, &t); err != nil {
		return nil, fmt.Errorf("reading what the pod template names: %w", err)
	}
	c := collector{}
	for i := range t.Spec.Volumes {
		c.volume(&t.Spec.Volumes[i].VolumeSource)
	}
	for i := range t.Spec.InitContainers {
		c.environment(t.Spec.InitContainers[i].EnvFrom, t.Spec.InitContainers[i].Env)
	}
	for i := range t.Spec.Containers {
		c.environment(t.Spec.Containers[i].EnvFrom, t.Spec.Containers[i].Env)
	}
	for i := range t.Spec.EphemeralContainers {
		c.environment(t.Spec.EphemeralContainers[i].EnvFrom, t.Spec.EphemeralContainers[i].Env)
	}
	for _, s := range t.Spec.ImagePullSecrets {
		c.add(KindSecret, s.Name, true)
	}
	if account := cmp.Or(t.Spec.ServiceAccountName, t.Spec.DeprecatedServiceAccount); account != defaultAccount {
		c.add(KindServiceAccount, account, false)
	}
	return c.list(), nil
}

// OfAccount are the pull secrets that a ServiceAccount names, all optional. The Secrets that it lists as mountable are not
// among them: those are its own cluster's tokens.
func OfAccount(account *unstructured.Unstructured) []Ref {
	c := collector{}
	list, _, _ := unstructured.NestedSlice(account.Object, "imagePullSecrets")
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			name, _ := m["name"].(string)
			c.add(KindSecret, name, true)
		}
	}
	return c.list()
}

// Union are the references of all lists, as References returns them.
func Union(lists ...[]Ref) []Ref {
	c := collector{}
	for _, l := range lists {
		for _, r := range l {
			c.add(r.Kind, r.Name, r.Optional)
		}
	}
	return c.list()
}

// collector holds, by kind and name, whether an object is optional.
type collector map[Ref]bool

func (c collector) add(kind, name string, optional bool) {
	if name == "" || everywhere(kind, name) {
		return
	}
	at := Ref{Kind: kind, Name: name}
	before, known := c[at]
	c[at] = optional && (before || !known)
}

func (c collector) list() []Ref {
	out := make([]Ref, 0, len(c))
	for r, optional := range c {
		r.Optional = optional
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Ref) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return out
}

func (c collector) environment(from []corev1.EnvFromSource, env []corev1.EnvVar) {
	for _, f := range from {
		if f.ConfigMapRef != nil {
			c.add(KindConfigMap, f.ConfigMapRef.Name, isTrue(f.ConfigMapRef.Optional))
		}
		if f.SecretRef != nil {
			c.add(KindSecret, f.SecretRef.Name, isTrue(f.SecretRef.Optional))
		}
	}
	for _, e := range env {
		if e.ValueFrom == nil {
			continue
		}
		if ref := e.ValueFrom.ConfigMapKeyRef; ref != nil {
			c.add(KindConfigMap, ref.Name, isTrue(ref.Optional))
		}
		if ref := e.ValueFrom.SecretKeyRef; ref != nil {
			c.add(KindSecret, ref.Name, isTrue(ref.Optional))
		}
	}
}

func (c collector) volume(v *corev1.VolumeSource) {
	switch {
	case v.ConfigMap != nil:
		c.add(KindConfigMap, v.ConfigMap.Name, isTrue(v.ConfigMap.Optional))
	case v.Secret != nil:
		c.add(KindSecret, v.Secret.SecretName, isTrue(v.Secret.Optional))
	case v.PersistentVolumeClaim != nil:
		c.add(KindClaim, v.PersistentVolumeClaim.ClaimName, false)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				c.add(KindConfigMap, s.ConfigMap.Name, isTrue(s.ConfigMap.Optional))
			}
			if s.Secret != nil {
				c.add(KindSecret, s.Secret.Name, isTrue(s.Secret.Optional))
			}
		}
	case v.CSI != nil:
		c.secret(v.CSI.NodePublishSecretRef)
	default:
		c.oldVolume(v)
	}
}

// oldVolume are the volume types that the API still has and that name a Secret of the pod's namespace.
func (c collector) oldVolume(v *corev1.VolumeSource) {
	switch {
	case v.AzureFile != nil:
		c.add(KindSecret, v.AzureFile.SecretName, false)
	case v.CephFS != nil:
		c.secret(v.CephFS.SecretRef)
	case v.Cinder != nil:
		c.secret(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		c.secret(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		c.secret(v.ISCSI.SecretRef)
	case v.RBD != nil:
		c.secret(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		c.secret(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		c.secret(v.StorageOS.SecretRef)
	}
}

func (c collector) secret(ref *corev1.LocalObjectReference) {
	if ref != nil {
		c.add(KindSecret, ref.Name, false)
	}
}

func isTrue(b *bool) bool { return b != nil && *b }

func sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
