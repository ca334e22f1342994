package claims

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/revision"
)

// maxName is the longest name of a claim.
const maxName = 253

// Template is one of spec.volumeClaimTemplates.
type Template struct {
	// Name is the name of the volume in the pod.
	Name string
	// Hash is that of its spec: labels and annotations make no other volume.
	Hash string

	object map[string]any
	spec   []byte
}

// Read reads spec.volumeClaimTemplates. The error names the entry and the remedy.
func Read(raw []appsv1alpha1.RawObject) ([]Template, error) {
	out := make([]Template, 0, len(raw))
	for i := range raw {
		t, err := read(raw[i].Raw)
		if err == nil && slices.ContainsFunc(out, func(o Template) bool { return o.Name == t.Name }) {
			err = fmt.Errorf("metadata.name: another one is named %q too; give each its own name", t.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("spec.volumeClaimTemplates[%d]: %w", i, err)
		}
		out = append(out, t)
	}
	return out, nil
}

func read(raw []byte) (Template, error) {
	object, err := decode(raw)
	if err != nil {
		return Template{}, err
	}
	name, _, err := unstructured.NestedString(object, "metadata", "name")
	if err != nil || name == "" {
		return Template{}, errors.New("metadata.name: is missing; it is the name of the volume that the containers mount")
	}
	for _, field := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedStringMap(object, "metadata", field); err != nil {
			return Template{}, fmt.Errorf("metadata.%s: is no map of texts", field)
		}
	}
	spec, ok, err := unstructured.NestedMap(object, "spec")
	if err != nil || !ok {
		return Template{}, errors.New("spec: is missing; write accessModes and resources.requests.storage")
	}
	if err := plainQuantities(spec); err != nil {
		return Template{}, err
	}
	canonical, err := json.Marshal(spec)
	if err != nil {
		return Template{}, fmt.Errorf("spec: %w", err)
	}
	hash, err := revision.Hash(canonical)
	if err != nil {
		return Template{}, fmt.Errorf("spec: %w", err)
	}
	return Template{Name: name, Hash: hash, object: object, spec: canonical}, nil
}

// decode refuses a key that occurs twice, and keeps numbers as unstructured objects hold them.
func decode(raw []byte) (map[string]any, error) {
	if _, err := revision.Object(raw); err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	return object, nil
}

// plainQuantities writes equal quantities alike, so that 1024Mi instead of 1Gi is no other template.
func plainQuantities(spec map[string]any) error {
	for _, field := range []string{"requests", "limits"} {
		list, ok, err := unstructured.NestedMap(spec, "resources", field)
		if err != nil {
			return fmt.Errorf("spec.resources.%s: is no map", field)
		}
		if !ok {
			continue
		}
		for name, value := range list {
			q, err := resource.ParseQuantity(fmt.Sprint(value))
			if err != nil {
				return fmt.Errorf("spec.resources.%s.%s: %v is no quantity; write one such as 20Gi", field, name, value)
			}
			list[name] = q.String()
		}
		if err := unstructured.SetNestedMap(spec, list, "resources", field); err != nil {
			return fmt.Errorf("spec.resources.%s: %w", field, err)
		}
	}
	return nil
}

// Set are the claim templates of one workload.
type Set struct {
	Templates []Template
	Namespace string
	// Owner is the workload as controller reference; its name is part of the claims' names.
	Owner metav1.OwnerReference
	// Labels go on every claim: the workload's spec.selector.matchLabels, as OpenKruise does it.
	Labels map[string]string
}

// Empty reports whether the workload has no claim templates.
func (s Set) Empty() bool {
	return len(s.Templates) == 0
}

// Hash is that of all templates, empty without any.
func (s Set) Hash() string {
	if s.Empty() {
		return ""
	}
	parts := make(map[string][]byte, len(s.Templates))
	for i := range s.Templates {
		parts[s.Templates[i].Name] = s.Templates[i].spec
	}
	hash, err := revision.HashOf(parts)
	if err != nil {
		// Read has hashed each of them already.
		return ""
	}
	return hash
}

// Name is the name of the claim of a template and an id. Where it would be too long, the workload's name is cut.
func (s Set) Name(template, id string) string {
	owner := s.Owner.Name
	if over := len(template) + len(owner) + len(id) + len("--") - maxName; over > 0 {
		owner = strings.TrimRight(owner[:max(len(owner)-over, 0)], "-.")
	}
	return template + "-" + owner + "-" + id
}

// Names are the names of all claims of an id.
func (s Set) Names(id string) []string {
	out := make([]string, 0, len(s.Templates))
	for i := range s.Templates {
		out = append(out, s.Name(s.Templates[i].Name, id))
	}
	return out
}

// Missing are the claims of an id to create; there are those that exist, by name.
func (s Set) Missing(id string, there map[string]bool) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for i := range s.Templates {
		if name := s.Name(s.Templates[i].Name, id); !there[name] {
			out = append(out, s.claim(&s.Templates[i], name, id))
		}
	}
	return out
}

func (s Set) claim(t *Template, name, id string) *unstructured.Unstructured {
	template := unstructured.Unstructured{Object: t.object}
	labels, annotations := template.GetLabels(), template.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, s.Labels)
	labels[appsv1alpha1.LabelCloneSetInstanceID] = id
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[appsv1alpha1.AnnotationClaimTemplate] = t.Hash
	claim := &unstructured.Unstructured{Object: map[string]any{}}
	if spec, ok := t.object["spec"].(map[string]any); ok {
		claim.Object["spec"] = (&unstructured.Unstructured{Object: spec}).DeepCopy().Object
	}
	claim.SetAPIVersion("v1")
	claim.SetKind("PersistentVolumeClaim")
	claim.SetNamespace(s.Namespace)
	claim.SetName(name)
	claim.SetLabels(labels)
	claim.SetAnnotations(annotations)
	claim.SetOwnerReferences([]metav1.OwnerReference{s.Owner})
	return claim
}

// Mount gives a new pod the volumes of its claims, in the place of volumes of the same names, and writes down which
// templates they are.
func (s Set) Mount(pod *unstructured.Unstructured, id string) error {
	if s.Empty() {
		return nil
	}
	existing, _, err := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	if err != nil {
		return fmt.Errorf("spec.template.spec.volumes: %w", err)
	}
	volumes := make([]any, 0, len(s.Templates)+len(existing))
	for i := range s.Templates {
		name := s.Templates[i].Name
		volumes = append(volumes, map[string]any{
			"name": name, "persistentVolumeClaim": map[string]any{"claimName": s.Name(name, id)},
		})
	}
	for _, v := range existing {
		volume, _ := v.(map[string]any)
		named := func(t Template) bool { return volume["name"] == t.Name }
		if !slices.ContainsFunc(s.Templates, named) {
			volumes = append(volumes, v)
		}
	}
	annotations := pod.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[appsv1alpha1.AnnotationClaimTemplate] = s.Hash()
	pod.SetAnnotations(annotations)
	return unstructured.SetNestedSlice(pod.Object, volumes, "spec", "volumes")
}

// Outdated are the pods, by name, whose claims were made from other templates, with the reason: they are recreated and not
// updated in place, or they would stay on their old volumes and count as updated (B091). A pod that does not say (somebody
// else created it, or it was created without claims) is not among them.
func (s Set) Outdated(pods []inplace.Pod) map[string]string {
	want := s.Hash()
	var out map[string]string
	for i := range pods {
		has := pods[i].Annotations[appsv1alpha1.AnnotationClaimTemplate]
		if has == "" || has == want {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[pods[i].Name] = "its volumes were made from other volumeClaimTemplates, and a pod cannot change volumes"
	}
	return out
}

// Ours reports whether the workload controls the claim.
func (s Set) Ours(c *inplace.Claim) bool {
	return c.Owner != "" && c.Owner == s.Owner.UID
}

// Usable says why a new pod cannot have the claims that exist of an id; empty when it can.
func (s Set) Usable(seen []inplace.Claim) string {
	for i := range seen {
		c := &seen[i]
		t := slices.IndexFunc(s.Templates, func(t Template) bool { return s.Name(t.Name, c.ID) == c.Name })
		switch {
		case !s.Ours(c):
			return fmt.Sprintf("claim %s belongs to somebody else", c.Name)
		case c.Terminating:
			return fmt.Sprintf("claim %s is being deleted", c.Name)
		case t < 0:
			return fmt.Sprintf("claim %s is of a volumeClaimTemplate that is gone", c.Name)
		case c.Template != "" && c.Template != s.Templates[t].Hash:
			return fmt.Sprintf("claim %s was made from another volumeClaimTemplate", c.Name)
		}
	}
	return ""
}

// From reads the metadata of a claim.
func From(claim metav1.Object) inplace.Claim {
	c := inplace.Claim{
		Ref: inplace.Ref{
			Namespace: claim.GetNamespace(), Name: claim.GetName(), UID: claim.GetUID(), ResourceVersion: claim.GetResourceVersion(),
		},
		ID:          claim.GetLabels()[appsv1alpha1.LabelCloneSetInstanceID],
		Template:    claim.GetAnnotations()[appsv1alpha1.AnnotationClaimTemplate],
		Terminating: claim.GetDeletionTimestamp() != nil,
		Created:     claim.GetCreationTimestamp().Time,
	}
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil {
		c.Owner = owner.UID
	}
	return c
}
