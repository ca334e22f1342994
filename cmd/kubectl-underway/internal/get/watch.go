package get

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/hub/screen"
)

const (
	// redrawEvery bounds how often a terminal is redrawn, and keeps ages ticking.
	redrawEvery = 200 * time.Millisecond
	// againAfter is how long to wait before a watch that ended is opened again.
	againAfter = time.Second
	// freezeEvery is how often the freeze is looked up while watching.
	freezeEvery = 5 * time.Second
)

func kind() schema.GroupVersionKind { return appsv1alpha1.GroupVersion.WithKind("UnitedDeployment") }

// follow shows one UnitedDeployment until it is deleted or the context ends.
func (o *ud) follow(ctx context.Context, c client.WithWatch, name string) error {
	key := client.ObjectKey{Namespace: cli.Namespace(o.flags), Name: name}
	start := &unstructured.Unstructured{}
	start.SetGroupVersionKind(kind())
	if err := c.Get(ctx, key, start); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen := make(chan *unstructured.Unstructured)
	go o.feed(ctx, c, key, seen)

	v := &view{ud: o, client: c}
	v.look(start)
	tick := o.env.Clock.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		v.show(ctx)
		select {
		case <-ctx.Done():
			return nil
		case u, open := <-seen:
			if !open {
				o.env.Note("%s/%s is deleted", key.Namespace, key.Name)
				return nil
			}
			v.look(u)
		case <-tick.C():
		}
	}
}

// feed sends every version of the object; it closes the channel when the object is gone, and opens a watch that ended
// again.
func (o *ud) feed(ctx context.Context, c client.WithWatch, key client.ObjectKey, seen chan<- *unstructured.Unstructured) {
	for ctx.Err() == nil {
		gone, err := once(ctx, c, key, seen)
		if gone {
			close(seen)
			return
		}
		if err != nil && ctx.Err() == nil {
			o.env.Note("watching %s again: %v", key.Name, err)
		}
		select {
		case <-ctx.Done():
		case <-o.env.Clock.After(againAfter):
		}
	}
}

func once(ctx context.Context, c client.WithWatch, key client.ObjectKey, seen chan<- *unstructured.Unstructured) (gone bool, err error) {
	first := &unstructured.Unstructured{}
	first.SetGroupVersionKind(kind())
	if err := c.Get(ctx, key, first); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind().GroupVersion().WithKind(kind().Kind + "List"))
	w, err := c.Watch(ctx, list, &client.ListOptions{
		Namespace: key.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", key.Name),
	})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		u, ok := event.Object.(*unstructured.Unstructured)
		switch {
		case event.Type == watch.Deleted:
			return true, nil
		case event.Type == watch.Error || !ok:
			return false, apierrors.FromObject(event.Object)
		}
		select {
		case seen <- u:
		case <-ctx.Done():
			return false, nil
		}
	}
	return false, nil
}

// view is what is on the screen.
type view struct {
	ud     *ud
	client client.Client

	object   *appsv1alpha1.UnitedDeployment
	frozen   *screen.Freeze
	lookedAt time.Time
	canvas   screen.Canvas
	drawn    string
	before   *screen.Tree
}

func (v *view) look(u *unstructured.Unstructured) {
	typed := &appsv1alpha1.UnitedDeployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
		v.ud.env.Note("reading what the hub answered: %v", err)
		return
	}
	v.object = typed
}

func (v *view) show(ctx context.Context) {
	env := v.ud.env
	now := env.Clock.Now()
	if v.object == nil {
		return
	}
	if now.Sub(v.lookedAt) >= freezeEvery {
		v.frozen, v.lookedAt = v.ud.frozen(ctx, v.client), now
	}
	tree := screen.TreeOf(v.object, v.frozen, now)
	width, height, terminal := env.Terminal()
	if !terminal {
		for _, line := range screen.Changes(v.before, tree, now) {
			env.Say("%s", line)
		}
		v.before = &tree
		return
	}
	text := tree.Render(env.Style(v.ud.output.Wide(), v.ud.output.NoHeaders, v.ud.output.NoColor))
	if text != v.drawn {
		_, _ = fmt.Fprint(env.Out, v.canvas.Draw(text, width, height))
		v.drawn = text
	}
}
