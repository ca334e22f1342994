package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/travel/plan"
)

// service is an object that travels to the members of region eu.
func service(edit ...func(*plan.Object)) plan.Object {
	o := plan.Object{
		Kind: "Service", Namespace: "shop", Name: "web", UID: "u", Finalized: true,
		Labels:      map[string]string{appsv1alpha1.LabelPropagate: "true"},
		Annotations: map[string]string{appsv1alpha1.AnnotationClusters: "region=eu"},
	}
	for _, e := range edit {
		e(&o)
	}
	return o
}

func member(region string, edit ...func(*plan.Member)) plan.Member {
	m := plan.Member{Labels: map[string]string{"region": region}, Ready: true, Known: true}
	for _, e := range edit {
		e(&m)
	}
	return m
}

func marked(m *plan.Member)  { m.Marked = true }
func left(m *plan.Member)    { there(m); m.Left, m.LeftFor = true, plan.LeaveAfter }
func unknown(m *plan.Member) { m.Known, m.Ready, m.Problem = false, false, "it does not answer" }
func newer(m *plan.Member)   { m.Marked, m.Newer = true, true }

func there(m *plan.Member) {
	m.Marked, m.Posted, m.Delivery = true, plan.WantApplied, plan.Delivery{Done: true}
}

func gone(m *plan.Member) {
	m.Marked, m.Posted, m.Delivery = false, plan.WantDeleted, plan.Delivery{Done: true, Gone: true}
}

func annotated(name, value string) func(*plan.Object) {
	return func(o *plan.Object) { o.Annotations[name] = value }
}

func labelled(value string) func(*plan.Object) {
	return func(o *plan.Object) { o.Labels[appsv1alpha1.LabelPropagate] = value }
}

func deleting(o *plan.Object) { o.Deleting = true }
func retired(o *plan.Object)  { o.Retired = true }

// asked is the decision in short: what is asked for by member, and what is done to the object.
func asked(d plan.Decision) string {
	var out []string
	if d.Stay {
		out = append(out, "stay")
	}
	for _, i := range d.Items {
		out = append(out, i.Member+"="+string(i.Want))
	}
	for word, is := range map[string]bool{"hold": d.Hold, "release": d.Release, "owed": d.Owed} {
		if is {
			out = append(out, word)
		}
	}
	slices.Sort(out)
	if d.Confirm != nil {
		out = append(out, "confirm="+*d.Confirm)
	}
	return strings.Join(out, " ")
}

func TestNext(t *testing.T) {
	t.Parallel()
	eu, us := member("eu"), member("us")
	type members = map[string]plan.Member
	cases := map[string]struct {
		object  plan.Object
		ending  plan.Ending
		members members
		want    string
		note    string
	}{
		"goes to the members that are selected": {
			object: service(), members: members{"east": eu, "west": us}, want: "east=Applied", note: "On 0 of 1 members",
		},
		"is held before it is sent": {
			object: service(func(o *plan.Object) { o.Finalized = false }), members: members{"east": eu}, want: "hold", note: "On 0 of 1",
		},
		"is not held for nothing": {
			object: service(func(o *plan.Object) { o.Finalized = false }), members: members{"west": us}, want: "", note: "No member is selected",
		},
		"goes to all without a selector": {
			object:  service(func(o *plan.Object) { o.Annotations = nil }),
			members: members{"east": member("eu", there), "west": member("us", there)}, want: "east=Applied west=Applied", note: "On 2 of 2 members",
		},
		"waits for a member that is away": {
			object: service(), members: members{"east": member("eu", unknown)}, want: "east=Applied", note: "east: MemberNotReady: it does not answer",
		},
		"an empty selector moves nothing": {
			object: service(annotated(appsv1alpha1.AnnotationClusters, " ")), members: members{"west": member("us", marked)}, want: "stay", note: "is empty",
		},
		"an unreadable selector moves nothing": {
			object: service(annotated(appsv1alpha1.AnnotationClusters, "region in eu")), members: members{"west": member("us", marked)}, want: "stay", note: "no label selector",
		},
		"a label with another value moves nothing": {
			object: service(labelled("ture")), members: members{"east": member("eu", marked)}, want: "stay", note: `is "ture"`,
		},
		"an unknown policy of adoption moves nothing": {
			object: service(annotated(appsv1alpha1.AnnotationAdopt, "Yes")), members: members{"east": eu}, want: "stay", note: "want Never, Orphaned or Any",
		},
		"nothing of kube-system travels": {
			object: service(func(o *plan.Object) { o.Namespace = "kube-system" }), members: members{"east": eu}, want: "stay", note: "nothing of namespace kube-system travels",
		},
		"nothing of underway-system travels": {
			object: service(func(o *plan.Object) { o.Namespace = "underway-system" }), members: members{"east": eu}, want: "stay", note: "nothing of namespace underway-system",
		},
		"the Service of the API server stays": {
			object:  service(func(o *plan.Object) { o.Namespace, o.Name = "default", "kubernetes" }),
			members: members{"east": eu}, want: "stay", note: "Service kubernetes of its own",
		},
		"what is excluded stays": {
			object: service(func(o *plan.Object) { o.Excluded = "a Secret of type t belongs to one cluster" }), members: members{"east": eu}, want: "stay", note: "type t",
		},
		"a member that takes nothing of the namespace gets nothing, and keeps what it has": {
			object: service(), members: members{"east": member("eu", marked, func(m *plan.Member) { m.NotAllowed = "no" }), "north": member("eu", there)},
			want: "north=Applied", note: "On 1 of 2 members; east: NotAllowed: no",
		},
		"a member that is not selected any more is left": {
			object: service(), members: members{"east": member("eu", there), "west": member("us", left)}, want: "east=Applied west=Deleted", note: "On 1 of 1",
		},
		"not before it has stayed so": {
			object: service(), members: members{"east": member("eu", there), "west": member("us", there)}, want: "east=Applied", note: "On 1 of 1",
		},
		"what was left a moment ago counts as at once": {
			object: service(), members: members{"a": member("us", left), "b": member("us", gone, func(m *plan.Member) { m.Left = true }), "c": member("eu", there), "d": member("eu", there)},
			want: "c=Applied d=Applied", note: "like 2 of 4 at once",
		},
		"what cannot be read counts as at once": {
			object: service(), members: members{"a": member("us", left), "b": member("us", unknown), "c": member("eu", there), "d": member("eu", there)},
			want: "c=Applied d=Applied", note: "like 2 of 4 at once (1 are not read yet); to take the copies away: kubectl underway confirm service/web -n shop (annotation fleet.underway.dev/confirm: RemovalHeld/a,b)",
		},
		"until a person has accepted it by name": {
			object:  service(annotated(appsv1alpha1.AnnotationConfirm, "RemovalHeld/b")),
			members: members{"a": member("us", left), "b": member("us", unknown), "c": member("eu", there), "d": member("eu", there)},
			want:    "a=Deleted c=Applied d=Applied",
		},
		"and what was accepted goes when it comes back": {
			object:  service(annotated(appsv1alpha1.AnnotationConfirm, "RemovalHeld/b,e")),
			members: members{"b": member("us", marked), "c": member("eu", there), "d": member("us", gone), "e": member("us", unknown)}, want: "b=Deleted c=Applied",
		},
		"of a used confirmation the members that are not read stay": {
			object:  service(annotated(appsv1alpha1.AnnotationConfirm, "RemovalHeld/a,b,c")),
			members: members{"a": us, "b": member("us", unknown), "c": member("eu", there)}, want: "c=Applied confirm=RemovalHeld/b",
		},
		"which is written once": {
			object:  service(annotated(appsv1alpha1.AnnotationConfirm, "RemovalHeld/b")),
			members: members{"b": member("us", unknown), "c": member("eu", there)}, want: "c=Applied",
		},
		"a number becomes the names of the moment where some are not read": {
			object:  service(annotated(appsv1alpha1.AnnotationConfirm, "RemovalHeld/max:2")),
			members: members{"a": member("us", left), "b": member("us", unknown), "c": member("eu", there)}, want: "a=Deleted c=Applied confirm=RemovalHeld/a,b",
		},
		"what is not read counts in it": {
			object:  service(annotated(appsv1alpha1.AnnotationConfirm, "RemovalHeld/max:1")),
			members: members{"a": member("us", left), "b": member("us", unknown), "c": member("eu", there)}, want: "c=Applied", note: "RemovalHeld/a,b",
		},
		"what will never be read does not": {
			object:  service(),
			members: members{"a": member("us", left), "b": member("us", func(m *plan.Member) { m.Known, m.Blind = false, true }), "c": member("eu", there), "d": member("eu", there)},
			want:    "a=Deleted c=Applied d=Applied",
		},
		"a member that bars the hub holds up nothing": {
			object: service(deleting), ending: plan.EndingDelete, want: "owed release",
			members: members{"east": member("eu", func(m *plan.Member) {
				m.Known, m.Posted, m.Delivery = false, plan.WantDeleted, plan.Delivery{Problem: "Refused", Barred: true}
			})},
		},
		"unless a copy is seen there": {
			object: service(deleting), ending: plan.EndingDelete, want: "east=Deleted",
			members: members{"east": member("eu", marked, func(m *plan.Member) {
				m.Posted, m.Delivery = plan.WantDeleted, plan.Delivery{Problem: "Refused", Message: "forbidden", Barred: true}
			})},
		},
		"what is not marked is left alone": {
			object: service(), members: members{"east": member("eu", there), "west": us}, want: "east=Applied",
		},
		"the last one waits for a person": {
			object: service(), members: members{"west": member("us", there)}, want: "", note: "RemovalHeld/west",
		},
		"several at once wait for a person": {
			object: service(), members: members{"a": member("us", there), "b": member("us", there), "east": member("eu", there)},
			want: "east=Applied", note: "kubectl underway confirm service/web -n shop (annotation fleet.underway.dev/confirm: RemovalHeld/a,b)",
		},
		"and go when that is confirmed": {
			object:  service(annotated(appsv1alpha1.AnnotationConfirm, "RemovalHeld/a,b")),
			members: members{"a": member("us", there), "b": member("us", there), "east": member("eu", there)}, want: "a=Deleted b=Deleted east=Applied",
		},
		"the first to be gone does not revoke it": {
			object:  service(annotated(appsv1alpha1.AnnotationConfirm, "RemovalHeld/a,b,c")),
			members: members{"a": member("us", gone), "b": member("us", there), "c": member("us", there), "east": member("eu", there)}, want: "b=Deleted c=Deleted east=Applied",
		},
		"another set is not confirmed": {
			object:  service(annotated(appsv1alpha1.AnnotationConfirm, "RemovalHeld/a,c")),
			members: members{"a": member("us", there), "b": member("us", there), "east": member("eu", there)}, want: "east=Applied", note: "RemovalHeld",
		},
		"a number confirms that many": {
			object:  service(annotated(appsv1alpha1.AnnotationConfirm, "RemovalHeld/max:2")),
			members: members{"a": member("us", there), "b": member("us", there), "east": member("eu", there)}, want: "a=Deleted b=Deleted east=Applied",
		},
		"and not more": {
			object:  service(annotated(appsv1alpha1.AnnotationConfirm, "RemovalHeld/max:1")),
			members: members{"a": member("us", there), "b": member("us", there), "east": member("eu", there)}, want: "east=Applied", note: "RemovalHeld",
		},
		"a used confirmation is taken off": {
			object:  service(annotated(appsv1alpha1.AnnotationConfirm, "RemovalHeld/a,b")),
			members: members{"a": us, "b": us, "east": member("eu", there)}, want: "east=Applied confirm=",
		},
		"a copy of a later version stays": {
			object: service(), members: members{"east": member("eu", there), "west": member("us", newer)}, want: "east=Applied", note: "west: HubBehind",
		},
		"a MemberCluster that goes keeps what it has": {
			object: service(), members: members{"east": member("eu", there), "west": member("us", there, func(m *plan.Member) { m.Deleting = true })}, want: "east=Applied",
		},
		"without its label its copies go": {
			object:  service(func(o *plan.Object) { o.Labels = nil }),
			members: members{"east": member("eu", there), "north": member("eu", there), "west": us}, want: "east=Deleted north=Deleted", note: "does not ask for copies",
		},
		"with label false, too": {
			object: service(labelled("false")), members: members{"east": member("eu", there)}, want: "east=Deleted",
		},
		"deleted, its copies go": {
			object: service(deleting), ending: plan.EndingDelete, members: members{"east": member("eu", there), "west": member("us", marked)}, want: "east=Deleted west=Deleted",
		},
		"and it is released after them": {
			object: service(deleting), ending: plan.EndingDelete, members: members{"east": member("eu", gone), "west": us}, want: "release",
		},
		"not while one is away that may have a copy": {
			object: service(deleting), ending: plan.EndingDelete, members: members{"east": member("eu", unknown)}, want: "east=Deleted", note: "it does not answer",
		},
		"one that is away and was never selected holds up nothing": {
			object: service(deleting), ending: plan.EndingDelete, members: members{"west": member("us", unknown)}, want: "owed release",
		},
		"one that was read owes nothing": {
			object: service(deleting), ending: plan.EndingDelete, members: members{"west": us}, want: "release",
		},
		"one that is let go owes nothing": {
			object: service(deleting), ending: plan.EndingOrphan, members: members{"west": member("us", unknown)}, want: "release",
		},
		"a kind that does not travel any more lets its copies go": {
			object: service(retired), members: members{"east": member("eu", there), "west": us}, want: "east=LetGo", note: "not in --propagate-kinds any more",
		},
		"and waits for nobody who is away or bars the hub": {
			object: service(retired), members: members{"east": member("eu", there, unknown), "west": member("us", marked, func(m *plan.Member) { m.Delivery.Barred = true })}, want: "release",
		},
		"one whose MemberCluster is gone holds up nothing": {
			object: service(deleting), ending: plan.EndingDelete, members: members{}, want: "release",
		},
		"how it ends is not known": {
			object: service(deleting), members: members{"east": member("eu", there)}, want: "stay",
		},
		"deleted with its namespace, its copies stay": {
			object: service(deleting), ending: plan.EndingOrphan, members: members{"east": member("eu", there), "north": member("eu", marked, unknown)}, want: "east=LetGo",
		},
		"and nobody who is away is waited for": {
			object: service(deleting), ending: plan.EndingOrphan, members: members{"north": member("eu", unknown)}, want: "release",
		},
		"marked as managed elsewhere, it lets go": {
			object:  service(annotated(appsv1alpha1.AnnotationPropagate, "false")),
			members: members{"east": member("eu", there), "west": member("us", marked)}, want: "east=LetGo west=LetGo", note: "managed elsewhere",
		},
		"a deleted object takes no later copy with it": {
			object: service(deleting), ending: plan.EndingDelete, members: members{"east": member("eu", newer)}, want: "", note: "delete it there by hand",
		},
		"an empty list of members moves nothing": {object: service(), want: "", note: "No member is selected"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := plan.Observation{Object: tc.object, Ending: tc.ending, Members: tc.members}
			got := plan.Next(o)
			if diff := cmp.Diff(tc.want, asked(got)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if !strings.Contains(got.Summary.Note, tc.note) {
				t.Errorf("note %q, want %q in it", got.Summary.Note, tc.note)
			}
			if diff := cmp.Diff(got, plan.Next(o)); diff != "" {
				t.Errorf("asked again (-first +second):\n%s", diff)
			}
		})
	}
}

// TestAThousandMembersInAFewWords: a note fits into an event, whatever is wrong wherever.
func TestAThousandMembersInAFewWords(t *testing.T) {
	t.Parallel()
	members := map[string]plan.Member{}
	for i := range 1000 {
		m := member("eu", func(m *plan.Member) { m.NotAllowed = fmt.Sprintf("reason %d", i%20) })
		if i%2 == 0 {
			m = member("eu", unknown)
		}
		members[fmt.Sprintf("member-%04d", i)] = m
	}
	got := plan.Next(plan.Observation{Object: service(), Members: members}).Summary
	if len(got.Note) > 900 {
		t.Errorf("the note has %d characters: %s", len(got.Note), got.Note)
	}
	if !strings.Contains(got.Note, "member-0000, member-0002, member-0004, member-0006, member-0008 and 495 more: MemberNotReady") {
		t.Errorf("note %s", got.Note)
	}
	want := map[plan.State]int{plan.StateWaiting: 500, plan.StateRefused: 500}
	if diff := cmp.Diff(want, got.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestParseKinds(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ text, want, err string }{
		"nothing":              {"", "[]", ""},
		"kinds":                {"networking.k8s.io/v1/Ingress, v1/ConfigMap", "[networking.k8s.io/v1, Kind=Ingress /v1, Kind=ConfigMap]", ""},
		"policies of ours":     {"policy.kruise.io/v1alpha1/PodUnavailableBudget,apps/v1/DaemonSet", "[policy.kruise.io/v1alpha1, Kind=PodUnavailableBudget apps/v1, Kind=DaemonSet]", ""},
		"Services are there":   {"v1/Service", "[]", ""},
		"twice":                {"batch/v1/CronJob,batch/v1beta1/CronJob", "", "there twice"},
		"no version":           {"ConfigMap", "", "<group>/<version>/<Kind>"},
		"a resource":           {"networking.k8s.io/v1/ingresses", "", "<group>/<version>/<Kind>"},
		"parts too many":       {"a/b/c/D", "", "<group>/<version>/<Kind>"},
		"an empty group":       {"/v1/Secret", "", "<group>/<version>/<Kind>"},
		"the group core":       {"core/v1/Secret", "", "write v1/Secret"},
		"Pods":                 {"v1/Pod", "", "every cluster has its own"},
		"Nodes":                {"v1/Node", "", "every cluster has its own"},
		"Namespaces":           {"v1/Namespace", "", "every cluster has its own"},
		"EndpointSlices":       {"discovery.k8s.io/v1/EndpointSlice", "", "every cluster has its own"},
		"rights":               {"rbac.authorization.k8s.io/v1/RoleBinding", "", "gives rights"},
		"webhooks":             {"admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration", "", "gives rights"},
		"CRDs":                 {"apiextensions.k8s.io/v1/CustomResourceDefinition", "", "gives rights"},
		"MemberClusters":       {"fleet.underway.dev/v1alpha1/MemberCluster", "", "belongs to the hub"},
		"UnitedDeployments":    {"apps.kruise.io/v1alpha1/UnitedDeployment", "", "UnitedDeployment"},
		"children":             {"apps.kruise.io/v1alpha1/CloneSet", "", "UnitedDeployment"},
		"Deployments":          {"apps/v1/Deployment", "", "UnitedDeployment"},
		"ReplicaSets":          {"apps/v1/ReplicaSet", "", "controllers"},
		"Jobs":                 {"batch/v1/Job", "", "run again"},
		"what ends":            {"apps.kruise.io/v1alpha1/ContainerRecreateRequest", "", "run again"},
		"clusters":             {"cluster.x-k8s.io/v1beta2/Cluster", "", "another one"},
		"machines":             {"infrastructure.cluster.x-k8s.io/v1beta1/DockerMachine", "", "another one"},
		"one bad among others": {"v1/ConfigMap,v1/Event", "", "every cluster has its own"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := plan.ParseKinds(tc.text)
			switch {
			case tc.err == "" && err != nil:
				t.Fatal(err)
			case tc.err == "" && fmt.Sprint(got) != tc.want:
				t.Errorf("got %v, want %v", got, tc.want)
			case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
				t.Errorf("error %v, want %q in it", err, tc.err)
			}
		})
	}
}
