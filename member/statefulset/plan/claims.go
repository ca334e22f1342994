package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/claims"
	"github.com/underway-dev/underway/inplace/revision"
)

// Claim is what was seen of one PersistentVolumeClaim.
type Claim struct {
	inplace.Claim

	Labels map[string]string
	// Owners are all its owner references.
	Owners []metav1.OwnerReference
	// Request is spec.resources.requests.storage, Capacity status.capacity.storage; zero where they are not set.
	Request, Capacity resource.Quantity
	// Class is its storage class, empty without one.
	Class string
	// NodePending: the volume is larger, and its file system follows when a node has it (FileSystemResizePending).
	NodePending bool
	// Trouble is what the cluster says keeps it from being resized; empty: nothing.
	Trouble string
}

// ClaimPatch is a change of one claim.
type ClaimPatch = inplace.ClaimPatch

// ReadClaim reads a claim.
func ReadClaim(c *corev1.PersistentVolumeClaim) Claim {
	out := Claim{
		Claim: claims.From(c), Labels: c.Labels, Owners: c.OwnerReferences, Class: ptr.Deref(c.Spec.StorageClassName, ""),
		Request: c.Spec.Resources.Requests[corev1.ResourceStorage], Capacity: c.Status.Capacity[corev1.ResourceStorage],
	}
	switch c.Status.AllocatedResourceStatuses[corev1.ResourceStorage] { //nolint:exhaustive // the others go on by themselves
	case corev1.PersistentVolumeClaimControllerResizeInfeasible:
		out.Trouble = "the storage cannot become as large"
	case corev1.PersistentVolumeClaimNodeResizeInfeasible:
		out.Trouble = "its node cannot make the file system as large"
	}
	for i := range c.Status.Conditions {
		cond := &c.Status.Conditions[i]
		if cond.Status != corev1.ConditionTrue {
			continue
		}
		switch cond.Type { //nolint:exhaustive // the others are no news
		case corev1.PersistentVolumeClaimFileSystemResizePending:
			out.NodePending = true
		case corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
			out.Trouble = cond.Message
		}
	}
	return out
}

// volumes are the claims of one StatefulSet.
type volumes struct {
	claims.Set

	// wants is the storage that each template asks for.
	wants []resource.Quantity
	// seen are all claims of the namespace by name.
	seen map[string]*Claim
}

func (in *Input) volumes() volumes {
	v := volumes{
		Set:  claims.Set{Templates: in.Templates, Namespace: in.Namespace, Owner: in.Owner, Labels: in.ClaimLabels},
		seen: make(map[string]*Claim, len(in.Claims)),
	}
	for i := range in.Claims {
		v.seen[in.Claims[i].Name] = &in.Claims[i]
	}
	if v.Empty() {
		return v
	}
	for _, made := range v.Missing("0", nil) {
		written, _, _ := unstructured.NestedFieldNoCopy(made.Object, "spec", "resources", "requests", string(corev1.ResourceStorage))
		// claims.Read has read it as a quantity; without one it asks for nothing.
		q, _ := resource.ParseQuantity(fmt.Sprint(written))
		v.wants = append(v.wants, q)
	}
	return v
}

func id(ordinal int64) string {
	return strconv.FormatInt(ordinal, 10)
}

// of are the claims that exist of an ordinal, by template; nil where there is none.
func (v *volumes) of(ordinal int64) []*Claim {
	out := make([]*Claim, 0, len(v.Templates))
	for _, name := range v.Names(id(ordinal)) {
		out = append(out, v.seen[name])
	}
	return out
}

// ordinalOf is the ordinal that a claim's name says, of whichever template.
func (v *volumes) ordinalOf(name string) (int64, bool) {
	for i := range v.Templates {
		if n, ok := OrdinalOf(v.Templates[i].Name+"-"+v.Owner.Name, name); ok {
			return n, true
		}
	}
	return 0, false
}

// ours reports whether the claim was made for this StatefulSet, by us or by OpenKruise, so that the retention policy is
// about it: it carries the selector's labels, and nobody else controls it. One that somebody brought, under the name that a
// pod expects, is used and left alone.
func (v *volumes) ours(c *Claim) bool {
	if c.Owner != "" && c.Owner != v.Owner.UID {
		return false
	}
	for key, value := range v.Labels {
		if has, ok := c.Labels[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// missing are the claims of an ordinal to create. They belong to nobody unless they go with the StatefulSet.
func (v *volumes) missing(ordinal int64, owned bool) []*unstructured.Unstructured {
	there := map[string]bool{}
	for _, c := range v.of(ordinal) {
		if c != nil {
			there[c.Name] = true
		}
	}
	out := v.Missing(id(ordinal), there)
	for _, claim := range out {
		labels := claim.GetLabels()
		delete(labels, appsv1alpha1.LabelCloneSetInstanceID)
		claim.SetLabels(labels)
		if !owned {
			claim.SetOwnerReferences(nil)
		}
	}
	return out
}

// mount gives a new pod its volumes, and writes down which they are.
func (v *volumes) mount(pod *unstructured.Unstructured, ordinal int64) error {
	if v.Empty() {
		return nil
	}
	if err := v.Mount(pod, id(ordinal)); err != nil {
		return err
	}
	annotations := pod.GetAnnotations()
	annotations[appsv1alpha1.AnnotationClaimTemplate] = mounted(v.Templates)
	pod.SetAnnotations(annotations)
	return nil
}

// mounted stands for the names of the templates: a claim outlives its pod, so another size makes no other volume.
func mounted(templates []claims.Template) string {
	if len(templates) == 0 {
		return ""
	}
	names := make([]string, 0, len(templates))
	for i := range templates {
		names = append(names, templates[i].Name)
	}
	slices.Sort(names)
	const length = 10
	return revision.Short(strings.Join(names, "/"), length)
}

// Outdated are the pods, by name, that mount other claims than the templates name, with the reason: Intent.RecreateOnly. A
// pod that does not say (OpenKruise made it, or it has none) is not among them.
func Outdated(templates []claims.Template, pods []inplace.Pod) map[string]string {
	want := mounted(templates)
	var out map[string]string
	for i := range pods {
		has := pods[i].Annotations[appsv1alpha1.AnnotationClaimTemplate]
		if has == "" || has == want {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[pods[i].Name] = "it mounts other claims than spec.volumeClaimTemplates names, and a pod cannot change volumes"
	}
	return out
}

// unusable says why a new pod cannot have the claims of its ordinal; passes is true when that ends by itself.
func (v *volumes) unusable(ordinal int64, taken map[string]bool) (why string, passes bool) {
	for i, c := range v.of(ordinal) {
		name := v.Name(v.Templates[i].Name, id(ordinal))
		switch {
		case c == nil && taken[name]:
			return fmt.Sprintf("the name of its claim %s is taken by something else", name), false
		case c == nil:
		case c.Owner != "" && c.Owner != v.Owner.UID:
			return fmt.Sprintf("claim %s belongs to somebody else", name), false
		case c.Terminating:
			return fmt.Sprintf("claim %s is being deleted; another one is made when it is gone", name), true
		case podOwner(c, PodName(v.Owner.Name, ordinal)) != "":
			return fmt.Sprintf("claim %s goes with the pod that it was scaled away with; another one is made when it is gone", name), true
		}
	}
	return "", false
}

// podOwner is the UID of the pod of that name that owns the claim, empty without one.
func podOwner(c *Claim, pod string) types.UID {
	for i := range c.Owners {
		if o := &c.Owners[i]; o.Kind == "Pod" && o.Name == pod {
			return o.UID
		}
	}
	return ""
}
