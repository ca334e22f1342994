package confirm_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/confirm"
	travelplan "github.com/underway-dev/underway/hub/travel/plan"
)

// heldNote is what the hub says of a Service that leaves two members at once, by its own plan.
func heldNote(t *testing.T) string {
	t.Helper()
	there := travelplan.Member{Labels: map[string]string{"region": "us"}, Ready: true, Known: true, Marked: true}
	note := travelplan.Next(travelplan.Observation{
		Object: travelplan.Object{
			Kind: "Service", Namespace: "shop", Name: "web", UID: "u", Finalized: true,
			Labels: map[string]string{appsv1alpha1.LabelPropagate: "true"}, Annotations: map[string]string{appsv1alpha1.AnnotationClusters: "region=eu"},
		},
		Members: map[string]travelplan.Member{"east": there, "west": there},
	}).Summary.Note
	if !strings.Contains(note, "kubectl underway confirm service/web -n shop") {
		t.Fatalf("the note does not name the command: %s", note)
	}
	return note
}

func event(name, note string, at time.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: name},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "shop", Name: "web", UID: "u"},
		Reason:         travelplan.ReasonWaits, Message: note, EventTime: metav1.NewMicroTime(at), ReportingController: "underway-hub",
	}
}

func TestObject(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	held := event("held", heldNote(t), at)
	forged := event("forged", strings.ReplaceAll(held.Message, "east", "all"), at.Add(time.Hour))
	forged.ReportingController = "somebody"
	repeated := event("repeated", "On 2 of 2 members", at.Add(-time.Hour))
	repeated.Series = &corev1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(at.Add(time.Minute))}
	other := event("other", heldNote(t), at)
	other.InvolvedObject.UID = "before"
	for name, tc := range map[string]struct {
		args   []string
		stdin  string
		events []client.Object
		wrote  string
		says   string
		fails  bool
	}{
		"KIND/NAME":                    {args: []string{"service/web"}, stdin: "y\n", events: []client.Object{held}, wrote: "RemovalHeld/east,west", says: "like 2 of 2 at once"},
		"KIND NAME":                    {args: []string{"Services", "web", "--yes"}, events: []client.Object{held}, wrote: "RemovalHeld/east,west"},
		"the flag first":               {args: []string{"-y", "services.v1.", "web"}, events: []client.Object{held}, wrote: "RemovalHeld/east,west"},
		"nobody says yes":              {args: []string{"service/web"}, stdin: "n\n", events: []client.Object{held}, says: "accepts: RemovalHeld/east,west", fails: true},
		"another's event is not heard": {args: []string{"service/web", "-y"}, events: []client.Object{held, forged}, wrote: "RemovalHeld/east,west"},
		"of another object, too":       {args: []string{"service/web", "-y"}, events: []client.Object{other}, says: "nothing waits"},
		"the hub's last word counts":   {args: []string{"service/web", "-y"}, events: []client.Object{held, repeated}, says: "nothing waits"},
		"no event":                     {args: []string{"service/web", "-y"}, says: "nothing waits"},
		"no such object":               {args: []string{"service/api", "-y"}, fails: true},
		"no such kind":                 {args: []string{"frob/web", "-y"}, fails: true},
		"no name":                      {args: []string{"service"}, fails: true},
		"too much":                     {args: []string{"service", "web", "api"}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", Labels: map[string]string{appsv1alpha1.LabelPropagate: "true"}}}
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Service"), meta.RESTScopeNamespace)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
			hub := fake.NewClientBuilder().WithRESTMapper(mapper).WithScheme(cli.Scheme()).WithObjects(svc).WithObjects(tc.events...).
				WithIndex(&corev1.Event{}, "involvedObject.uid", func(obj client.Object) []string {
					return []string{string(obj.(*corev1.Event).InvolvedObject.UID)}
				}).Build()
			var said bytes.Buffer
			cmd := confirm.New(&cli.Env{
				IOStreams: genericiooptions.IOStreams{In: strings.NewReader(tc.stdin), Out: &said, ErrOut: &said},
				Connect:   func(*rest.Config) (client.WithWatch, error) { return hub, nil },
				Config: func(*genericclioptions.ConfigFlags) (*rest.Config, error) {
					return &rest.Config{Host: "https://hub.example"}, nil
				},
			})
			cmd.SetArgs(append([]string{"-n", "shop"}, tc.args...))
			cmd.SetOut(&said)
			cmd.SetErr(&said)
			cmd.SilenceUsage = true
			err := cmd.ExecuteContext(t.Context())
			if (err != nil) != tc.fails {
				t.Errorf("error %v; it said %s", err, &said)
			}
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(svc), svc); err != nil {
				t.Fatal(err)
			}
			if got := svc.Annotations[appsv1alpha1.AnnotationConfirm]; got != tc.wrote {
				t.Errorf("wrote %q, want %q", got, tc.wrote)
			}
			if !strings.Contains(said.String(), tc.says) {
				t.Errorf("it said %s", &said)
			}
		})
	}
}
