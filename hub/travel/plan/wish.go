package plan

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/content"
)

// Object is the hub's object, as far as its metadata tell, and why it never travels.
type Object struct {
	Kind, Namespace, Name string
	UID                   types.UID
	Labels, Annotations   map[string]string
	// Finalized is true while our finalizer holds it, Deleting once it is being deleted.
	Finalized, Deleting bool
	// Retired: its kind is not among those that travel any more.
	Retired bool
	// Excluded says why it never travels; empty when it may.
	Excluded string
}

// Ending is what the deletion of an object means for its copies.
type Ending string

// Values of Ending.
const (
	// EndingDelete: they go.
	EndingDelete Ending = "Delete"
	// EndingOrphan: they stay, marked as let go.
	EndingOrphan Ending = "Orphan"
)

// Wish is what an object wants.
type Wish string

// Values of Wish.
const (
	// WishTravel: copies on the members that it selects.
	WishTravel Wish = "Travel"
	// WishRemove: no copies.
	WishRemove Wish = "Remove"
	// WishLetGo: copies stay and are nobody's.
	WishLetGo Wish = "LetGo"
	// WishKeep: what it wants cannot be told, so everything stays as it is.
	WishKeep Wish = "Keep"
)

// WishOf is what an object wants, and in words why. ending counts for an object that is being deleted; "" is not known.
func WishOf(o *Object, ending Ending) (Wish, string) {
	label, labelled := o.Labels[appsv1alpha1.LabelPropagate]
	switch {
	case o.Annotations[appsv1alpha1.AnnotationPropagate] == "false":
		return WishLetGo, "it is marked as managed elsewhere"
	case o.Deleting && ending == EndingOrphan:
		return WishLetGo, "it is deleted without its copies"
	case o.Retired:
		return WishLetGo, "its kind is not in --propagate-kinds any more"
	case o.Deleting && ending == EndingDelete:
		return WishRemove, "it is being deleted"
	case o.Deleting:
		return WishKeep, "how it ends cannot be read"
	case !labelled, label == "false":
		return WishRemove, "it does not ask for copies any more"
	case label != "true":
		return WishKeep, fmt.Sprintf(`label %s is %q, want "true" or "false"`, appsv1alpha1.LabelPropagate, label)
	}
	if why := refused(o); why != "" {
		return WishKeep, why
	}
	if _, err := SelectorOf(o.Annotations); err != nil {
		return WishKeep, err.Error()
	}
	if _, err := AdoptOf(o.Annotations); err != nil {
		return WishKeep, err.Error()
	}
	return WishTravel, ""
}

// refused says why an object never travels.
func refused(o *Object) string {
	switch {
	case slices.Contains([]string{metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease", appsv1alpha1.SystemNamespace}, o.Namespace):
		return "nothing of namespace " + o.Namespace + " travels: every cluster has its own"
	case o.Kind == content.KindService && o.Namespace == metav1.NamespaceDefault && o.Name == "kubernetes":
		return "every cluster has a Service kubernetes of its own"
	case o.Excluded != "":
		return o.Excluded
	}
	return ""
}

// SelectorOf is which members an object selects. Without the annotation that is all; an empty one is refused, because it is
// what a template leaves whose value is missing.
func SelectorOf(annotations map[string]string) (labels.Selector, error) {
	text, there := annotations[appsv1alpha1.AnnotationClusters]
	if !there {
		return labels.Everything(), nil
	}
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("annotation %s is empty: take it off for every member, or write a label selector", appsv1alpha1.AnnotationClusters)
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("annotation %s is no label selector: %w", appsv1alpha1.AnnotationClusters, err)
	}
	return selector, nil
}

// AdoptOf is an object's policy about objects of its name that the hub did not make; without the annotation Never.
func AdoptOf(annotations map[string]string) (appsv1alpha1.AdoptPolicy, error) {
	text, there := annotations[appsv1alpha1.AnnotationAdopt]
	policy := appsv1alpha1.AdoptPolicy(text)
	switch policy {
	case appsv1alpha1.AdoptNever, appsv1alpha1.AdoptOrphaned, appsv1alpha1.AdoptAny:
		return policy, nil
	}
	if !there {
		return appsv1alpha1.AdoptNever, nil
	}
	return "", fmt.Errorf("annotation %s is %q, want %s, %s or %s", appsv1alpha1.AnnotationAdopt, text,
		appsv1alpha1.AdoptNever, appsv1alpha1.AdoptOrphaned, appsv1alpha1.AdoptAny)
}

// Leaves is true when an object, as freshly read, wants no copy on a member with these labels any more, and wants what
// becomes of it: wish is WishRemove or WishLetGo. What cannot be read leaves nothing.
func Leaves(o *Object, ending Ending, of map[string]string, wish Wish) bool {
	now, _ := WishOf(o, ending)
	if now != WishTravel {
		return now == wish
	}
	selector, err := SelectorOf(o.Annotations)
	return err == nil && wish == WishRemove && !selector.Matches(labels.Set(of))
}
