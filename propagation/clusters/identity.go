package clusters

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// ErrIdentity is wrapped when another cluster answers than the one whose identity is stored.
var ErrIdentity = errors.New("another cluster answers")

// sighting is a quorum read of who answers.
type sighting struct {
	uid string
	// version is the resourceVersion of the read: it only grows in one cluster. 0 where it is not a number.
	version uint64
}

// sight reads the UID of kube-system. It is a list, because a list's own resourceVersion is the present one of the
// whole store.
func sight(ctx context.Context, client dynamic.Interface) (sighting, error) {
	list, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", metav1.NamespaceSystem).String(),
	})
	if err != nil {
		return sighting{}, fmt.Errorf("reading namespace kube-system: %w", err)
	}
	if len(list.Items) != 1 || list.Items[0].GetUID() == "" {
		return sighting{}, fmt.Errorf("reading namespace kube-system: got %d, want 1", len(list.Items))
	}
	version, err := strconv.ParseUint(list.GetResourceVersion(), 10, 64)
	if err != nil {
		version = 0
	}
	return sighting{uid: string(list.Items[0].GetUID()), version: version}, nil
}
