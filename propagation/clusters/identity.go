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
	"k8s.io/klog/v2"
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
	if uid := string(list.Items[0].GetUID()); told(uid) != uid {
		return sighting{}, fmt.Errorf("reading namespace kube-system: its UID has %d bytes, which no UID has", len(uid))
	}
	version, err := strconv.ParseUint(list.GetResourceVersion(), 10, 64)
	if err != nil {
		version = 0
	}
	return sighting{uid: string(list.Items[0].GetUID()), version: version}, nil
}

// prove reads who answers and compares it with what is stored. It drops everything known of the member when another
// cluster answers, or when the store's version runs backwards.
func (m *member) prove(ctx context.Context) error {
	// What is known is read before the request is sent: of two proofs under way at once, the one that was answered first
	// would otherwise look like a store that went back.
	m.mu.RLock()
	newest := m.newest
	m.mu.RUnlock()
	conn, err := m.connected()
	if err != nil {
		return err
	}
	seen, err := sight(ctx, conn.dynamic)
	if err != nil {
		return err
	}
	m.mu.RLock()
	want := m.cfg.Identity
	m.mu.RUnlock()
	if block, message := m.strangerTo(seen, want); block != "" {
		m.forget(block, seen, message)
		return fmt.Errorf("%w: %s", ErrIdentity, message)
	}
	if seen.version != 0 && seen.version < newest {
		klog.FromContext(ctx).Info("Dropped what was known of a member whose store went back",
			"from", newest, "to", seen.version)
		m.forget("", seen, "")
		m.nudge()
	}
	m.mu.Lock()
	m.newest = max(m.newest, seen.version)
	m.mu.Unlock()
	m.change(func(v *View) {
		v.Identity, v.SeenIdentity = seen.uid, seen.uid
		if v.Block != "" && v.Block != BlockUnreachable && v.Block != BlockUnauthorized {
			v.Block, v.Message = "", ""
		}
	})
	return nil
}

// strangerTo says why the cluster that answered is not the stored one.
func (m *member) strangerTo(seen sighting, want string) (Block, string) {
	if m.name == Local {
		// The hub's own cluster cannot be another one: this process would not lead there.
		return "", ""
	}
	if own := m.fleet.localIdentity; own != "" && own == seen.uid {
		return BlockIdentityTaken, fmt.Sprintf(
			"this cluster (UID %s) is the hub's own: a subset without cluster lives there; delete this MemberCluster", seen.uid)
	}
	if want != "" && want != seen.uid {
		return BlockIdentityChanged, fmt.Sprintf(
			"kube-system has UID %s, the stored one is %s: another cluster answers under this address", seen.uid, want)
	}
	if other := m.fleet.claim(seen.uid, m); other != "" {
		return BlockIdentityTaken, fmt.Sprintf("this cluster (UID %s) is already member %q", seen.uid, other)
	}
	if want == "" {
		return BlockIdentityUnstored, "its identity is not stored yet"
	}
	return "", ""
}
