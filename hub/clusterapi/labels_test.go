package clusterapi

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// TestALabelOfTwoIsNobodysAlone: an apply that changes it would be refused, again and again.
func TestALabelOfTwoIsNobodysAlone(t *testing.T) {
	t.Parallel()
	owns := func(manager string, op metav1.ManagedFieldsOperationType, keys string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: op, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{` + keys + `}}}`),
		}
	}
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{"ours": "1", "shared": "1", "theirs": "1"},
		ManagedFields: []metav1.ManagedFieldsEntry{
			owns(fieldManager, metav1.ManagedFieldsOperationApply, `"f:ours":{},"f:shared":{}`),
			owns("gitops", metav1.ManagedFieldsOperationApply, `"f:shared":{},"f:theirs":{}`),
		},
	}}
	got, err := ownLabels(mc)
	if keys := slices.Sorted(maps.Keys(got)); err != nil || !slices.Equal(keys, []string{"ours"}) {
		t.Errorf("ours are %v (%v), want ours alone", keys, err)
	}
}

func TestAFieldOfAnotherIsNoOldCache(t *testing.T) {
	t.Parallel()
	owned := apierrors.NewConflict(fleetv1alpha1.GroupVersion.WithResource("memberclusters").GroupResource(), "eu-1", errors.New("taken"))
	owned.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Field: ".metadata.labels.x"}}
	old := apierrors.NewConflict(fleetv1alpha1.GroupVersion.WithResource("memberclusters").GroupResource(), "eu-1", errors.New("modified"))
	if a, b, c := ownedByOthers(owned), ownedByOthers(old), ownedByOthers(nil); a != ".metadata.labels.x" || b != "" || c != "" {
		t.Errorf("got %q, %q, %q", a, b, c)
	}
}

// TestAnAdministratorsRequestGoesNowhereElse: neither an answer of the member nor our environment may send it to another place.
func TestAnAdministratorsRequestGoesNowhereElse(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	member := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, other.URL+req.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(member.Close)
	c, err := direct(&rest.Config{Host: member.URL, BearerToken: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, &corev1.Namespace{}); err == nil || elsewhere.Load() != 0 {
		t.Errorf("%d requests went elsewhere: %v", elsewhere.Load(), err)
	}
}
