package travel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/content"
)

const (
	keyKinds    = "kinds"
	endedPrefix = "ended."
	// endedMost is how many ended objects are remembered; of more the oldest are forgotten, and said.
	endedMost = 1000
)

// Ended is an object that was released while copies may have been left on members that could not be looked at.
type Ended struct {
	UID       types.UID `json:"-"`
	Kind      string    `json:"kind"` // "<Kind>.<group>"
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	At        time.Time `json:"at"`
	// Term and Version are the hub's term and the object's resourceVersion then: a copy of a later one is not owed.
	Term    int64 `json:"term"`
	Version int64 `json:"version"`
}

// Ledger is what the hub remembers of objects that travel by label beside their finalizers, in Secret underway-propagation of
// its namespace: the kinds that it may have held objects of, and the objects that it released while copies may have been left.
type Ledger struct {
	client client.Client

	mu    sync.Mutex
	ended map[types.UID]Ended // nil until Ended was called, by a process that leads
}

// NewLedger returns a Ledger; c reads from the API server.
func NewLedger(c client.Client) *Ledger { return &Ledger{client: c} }

// Kinds are those of AddKinds, by a fresh read.
func (l *Ledger) Kinds(ctx context.Context) ([]schema.GroupVersionKind, error) {
	data, err := l.read(ctx)
	return kindsIn(data), err
}

// AddKinds remembers kinds; nothing is written when they are there.
func (l *Ledger) AddKinds(ctx context.Context, kinds []schema.GroupVersionKind) error {
	return l.edit(ctx, func(data map[string][]byte) bool {
		return setKinds(data, slices.Concat(slices.DeleteFunc(kindsIn(data), func(old schema.GroupVersionKind) bool {
			return slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool { return k.GroupKind() == old.GroupKind() })
		}), kinds))
	})
}

// DropKind forgets a kind of which nothing is held any more.
func (l *Ledger) DropKind(ctx context.Context, kind schema.GroupKind) error {
	return l.edit(ctx, func(data map[string][]byte) bool {
		return setKinds(data, slices.DeleteFunc(kindsIn(data), func(k schema.GroupVersionKind) bool { return k.GroupKind() == kind }))
	})
}

// Ended are the objects of Add that were not dropped. It is read once, when a process begins to lead; from then on nobody else
// writes.
func (l *Ledger) Ended(ctx context.Context) (map[types.UID]Ended, error) {
	l.mu.Lock()
	have := l.ended
	l.mu.Unlock()
	if have != nil {
		return have, nil
	}
	data, err := l.read(ctx)
	if err != nil {
		return nil, err
	}
	return l.keep(data), nil
}

// Owes is true while an object is remembered, by a fresh read.
func (l *Ledger) Owes(ctx context.Context, uid types.UID) (bool, error) {
	data, err := l.read(ctx)
	_, there := data[endedPrefix+string(uid)]
	return there, err
}

// Add remembers an object that is to be released.
func (l *Ledger) Add(ctx context.Context, e Ended) error {
	value, err := json.Marshal(e)
	if err != nil {
		return wrap("writing what is owed", err)
	}
	return l.edit(ctx, func(data map[string][]byte) bool {
		data[endedPrefix+string(e.UID)] = value
		forgetOldest(ctx, data)
		return true
	})
}

// Drop forgets objects: no copies are left, or they are wanted again. Nothing is written when none of them is there.
func (l *Ledger) Drop(ctx context.Context, uids ...types.UID) error {
	ended, err := l.Ended(ctx)
	if err != nil || !slices.ContainsFunc(uids, func(uid types.UID) bool { _, there := ended[uid]; return there }) {
		return err
	}
	return l.edit(ctx, func(data map[string][]byte) bool {
		before := len(data)
		for _, uid := range uids {
			delete(data, endedPrefix+string(uid))
		}
		return len(data) != before
	})
}

func (l *Ledger) read(ctx context.Context) (map[string][]byte, error) {
	secret := &corev1.Secret{}
	err := l.client.Get(ctx, types.NamespacedName{Namespace: appsv1alpha1.SystemNamespace, Name: appsv1alpha1.SecretPropagation}, secret)
	return secret.Data, wrap("reading Secret "+appsv1alpha1.SecretPropagation, client.IgnoreNotFound(err))
}

// edit changes the data as they are on the API server; change returns false when there is nothing to write.
func (l *Ledger) edit(ctx context.Context, change func(data map[string][]byte) bool) error {
	key := types.NamespacedName{Namespace: appsv1alpha1.SystemNamespace, Name: appsv1alpha1.SecretPropagation}
	again := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err := retry.OnError(retry.DefaultBackoff, again, func() error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			// What is owed by a hub of yesterday may be wanted today; Velero obeys this label.
			Labels: map[string]string{appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf, "velero.io/exclude-from-backup": "true"},
		}}
		err := l.client.Get(ctx, key, secret)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		missing := err != nil
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		if !change(secret.Data) {
			l.refresh(secret.Data)
			return nil
		}
		if missing {
			err = l.client.Create(ctx, secret)
		} else {
			err = l.client.Update(ctx, secret)
		}
		if err == nil {
			l.refresh(secret.Data)
		}
		return err
	})
	return wrap("writing Secret "+appsv1alpha1.SecretPropagation, err)
}

// refresh keeps what is remembered up to date. A process that has not led yet remembers nothing: who leads would write past it.
func (l *Ledger) refresh(data map[string][]byte) {
	l.mu.Lock()
	used := l.ended != nil
	l.mu.Unlock()
	if used {
		l.keep(data)
	}
}

// keep remembers what is owed by data. What cannot be read is left alone.
func (l *Ledger) keep(data map[string][]byte) map[types.UID]Ended {
	out := map[types.UID]Ended{}
	for key, value := range data {
		uid, ok := strings.CutPrefix(key, endedPrefix)
		e := Ended{UID: types.UID(uid)}
		if ok && json.Unmarshal(value, &e) == nil {
			out[e.UID] = e
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = out
	return out
}

// forgetOldest keeps data within endedMost.
func forgetOldest(ctx context.Context, data map[string][]byte) {
	var all []Ended
	for key, value := range data {
		uid, ok := strings.CutPrefix(key, endedPrefix)
		e := Ended{UID: types.UID(uid)}
		if ok && json.Unmarshal(value, &e) == nil {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b Ended) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.UID, b.UID)) })
	for _, e := range all[:max(0, len(all)-endedMost)] {
		klog.FromContext(ctx).Info("Too many objects have ended while members were away: copies that are left of the oldest stay there",
			"kind", e.Kind, "object", klog.KRef(e.Namespace, e.Name), "ended", e.At)
		delete(data, endedPrefix+string(e.UID))
	}
}

// GivenUp are the known kinds that nobody asks for any more, in whatever version; those that always travel are not among them.
func GivenUp(known, asked []schema.GroupVersionKind) []schema.GroupVersionKind {
	for _, k := range content.ByLabel() {
		asked = append(slices.Clone(asked), k.GVK)
	}
	return slices.DeleteFunc(slices.Clone(known), func(k schema.GroupVersionKind) bool {
		return slices.ContainsFunc(asked, func(a schema.GroupVersionKind) bool { return a.GroupKind() == k.GroupKind() })
	})
}

func kindsIn(data map[string][]byte) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for text := range strings.SplitSeq(string(data[keyKinds]), ",") {
		if parts := strings.Split(text, "/"); len(parts) == 3 {
			out = append(out, schema.GroupVersionKind{Group: parts[0], Version: parts[1], Kind: parts[2]})
		}
	}
	return out
}

// setKinds is false when they are there already.
func setKinds(data map[string][]byte, kinds []schema.GroupVersionKind) bool {
	text := map[string]bool{}
	for _, k := range kinds {
		text[fmt.Sprintf("%s/%s/%s", k.Group, k.Version, k.Kind)] = true
	}
	value := strings.Join(slices.Sorted(maps.Keys(text)), ",")
	if string(data[keyKinds]) == value {
		return false
	}
	data[keyKinds] = []byte(value)
	return true
}
