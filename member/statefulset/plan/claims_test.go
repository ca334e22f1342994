package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// patched are claim patches as "name owners=... request=...".
func patched(r Result) string {
	var out []string
	for _, p := range r.ClaimPatches {
		line := p.Name
		if p.Owners != nil {
			names := make([]string, 0, len(p.Owners))
			for _, o := range p.Owners {
				names = append(names, o.Kind+"/"+o.Name)
			}
			line += " owners=" + strings.Join(names, ",")
		}
		if p.Request != nil {
			line += " request=" + p.Request.String()
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

func someoneElse(c *Claim) {
	c.Owners = append(c.Owners, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"})
}

func goes(c *Claim) { c.Terminating = true }

// TestRetention: who owns which claims, by the two policies, and that a condemned pod waits for it.
func TestRetention(t *testing.T) {
	t.Parallel()
	const (
		scaled  = "persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}, "
		whole   = "persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}, "
		both    = "persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Delete}, "
		nothing = "persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain}, "
	)
	two := []inplace.Pod{pod(0, "r2"), pod(1, "r2")}
	for name, tc := range map[string]struct {
		policy           string
		pods             []inplace.Pod
		claims           []Claim
		patches, deletes string
	}{
		"retained":                             {"", two, []Claim{claim(0, "2Gi", "2Gi"), claim(1, "2Gi", "2Gi")}, "", "1"},
		"retained, said":                       {nothing, two, []Claim{claim(0, "2Gi", "2Gi"), claim(1, "2Gi", "2Gi", ofSet)}, "data-web-1 owners=", "1"},
		"scaled: the claim first":              {scaled, two, []Claim{claim(0, "2Gi", "2Gi"), claim(1, "2Gi", "2Gi")}, "data-web-1 owners=Pod/web-1", ""},
		"scaled: then the pod":                 {scaled, two, []Claim{claim(0, "2Gi", "2Gi"), claim(1, "2Gi", "2Gi", ofPod(1))}, "", "1"},
		"scaled: without claims":               {scaled, two, nil, "", "1"},
		"scaled: the claim goes already":       {scaled, two, []Claim{claim(1, "2Gi", "2Gi", goes)}, "", "1"},
		"scaled: brought by somebody":          {scaled, two, []Claim{claim(1, "2Gi", "2Gi", func(c *Claim) { c.Labels = nil })}, "", "1"},
		"scaled: of somebody else":             {scaled, two, []Claim{claim(1, "2Gi", "2Gi", func(c *Claim) { c.Owner = "x" })}, "", "1"},
		"scaled: others' owners stay":          {scaled, two, []Claim{claim(1, "2Gi", "2Gi", someoneElse)}, "data-web-1 owners=ConfigMap/x,Pod/web-1", ""},
		"deleted: the set, condemned too":      {whole, two, []Claim{claim(0, "2Gi", "2Gi"), claim(1, "2Gi", "2Gi")}, "data-web-0 owners=StatefulSet/web; data-web-1 owners=StatefulSet/web", "1"},
		"deleted: it has it":                   {whole, two, []Claim{claim(0, "2Gi", "2Gi", ofSet)}, "", "1"},
		"both: the pod and not the set":        {both, two, []Claim{claim(0, "2Gi", "2Gi", ofSet), claim(1, "2Gi", "2Gi", ofSet)}, "data-web-1 owners=Pod/web-1", ""},
		"wanted again: taken back":             {scaled, two[:1], []Claim{claim(0, "2Gi", "2Gi", ofPod(0))}, "data-web-0 owners=", ""},
		"wanted again while it goes":           {scaled, []inplace.Pod{pod(0, "r2", terminating(time.Minute))}, []Claim{claim(0, "2Gi", "2Gi", ofPod(0))}, "data-web-0 owners=", ""},
		"wanted again and asked to go":         {scaled, []inplace.Pod{pod(0, "r2", asked)}, []Claim{claim(0, "2Gi", "2Gi", ofPod(0))}, "data-web-0 owners=", ""},
		"wanted again and evicted":             {scaled, []inplace.Pod{pod(0, "r2", evicted)}, []Claim{claim(0, "2Gi", "2Gi", ofPod(0))}, "data-web-0 owners=", ""},
		"wanted again and moved":               {scaled, []inplace.Pod{pod(0, "r1")}, []Claim{claim(0, "2Gi", "2Gi", ofPod(0))}, "data-web-0 owners=", ""},
		"retained after all":                   {"", two, []Claim{claim(1, "2Gi", "2Gi", ofPod(1))}, "data-web-1 owners=", ""},
		"of an earlier pod of the name":        {scaled, two[:1], []Claim{claim(0, "2Gi", "2Gi", ofPod(0), func(c *Claim) { c.Owners[0].UID = "gone" })}, "data-web-0 owners=", ""},
		"R2.5: retained after all, pod gone":   {nothing, two[:1], []Claim{claim(0, "2Gi", "2Gi"), claim(3, "2Gi", "2Gi", ofSet), claim(4, "2Gi", "2Gi", ofSet, someoneElse)}, "data-web-3 owners=; data-web-4 owners=ConfigMap/x", ""},
		"R2.5: by whenScaled alone":            {scaled, two[:1], []Claim{claim(7, "2Gi", "2Gi", ofSet)}, "data-web-7 owners=", ""},
		"R2.5: not one that is brought":        {nothing, two[:1], []Claim{claim(7, "2Gi", "2Gi", ofSet, func(c *Claim) { c.Labels = nil })}, "", ""},
		"R2.5: it is to go with the set":       {whole, two[:1], []Claim{claim(0, "2Gi", "2Gi", ofSet), claim(7, "2Gi", "2Gi", ofSet)}, "", ""},
		"a claim without a pod is not touched": {both, two[:1], []Claim{claim(0, "2Gi", "2Gi", ofSet), claim(7, "2Gi", "2Gi")}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(t, "{podManagementPolicy: Parallel, replicas: 1, "+tc.policy+dataTemplate+"}", tc.pods...)
			in.Claims = tc.claims
			r, d := next(in)
			if got := moving(r, d); got != "" {
				t.Errorf("moves %q", got)
			}
			if got := patched(r); got != tc.patches {
				t.Errorf("patches %q, want %q", got, tc.patches)
			}
			if got := deleted(r.Deletes); got != tc.deletes {
				t.Errorf("deletes %q, want %q", got, tc.deletes)
			}
			for _, d := range r.Deletes {
				if len(d.Claims) != 0 {
					t.Error("claims are left to the garbage collector")
				}
			}
		})
	}
}

// TestB093: with a reserved ordinal the claim of the real highest one goes; a nil policy is no crash.
func TestB093(t *testing.T) {
	t.Parallel()
	const text = "{replicas: 2, reserveOrdinals: [0], persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}, " + dataTemplate + "}"
	in := input(t, text, pod(1, "r2"), pod(2, "r2"), pod(3, "r2"))
	in.Claims = []Claim{claim(1, "2Gi", "2Gi"), claim(2, "2Gi", "2Gi"), claim(3, "2Gi", "2Gi")}
	r := Scale(in)
	if got := patched(r); got != "data-web-3 owners=Pod/web-3" || len(r.Deletes) != 0 {
		t.Errorf("first: patches %q, deletes %v", got, r.Deletes)
	}
	ofPod(3)(&in.Claims[2])
	r = Scale(in)
	if deleted(r.Deletes) != "3" || len(r.ClaimPatches) != 0 {
		t.Errorf("then: %+v", r)
	}
	in.Pods, in.Claims = in.Pods[:2], in.Claims[:2]
	if r = Scale(in); len(r.Deletes)+len(r.Creates)+len(r.ClaimPatches)+len(r.Warnings) != 0 {
		t.Errorf("at last: %+v", r)
	}
	if s := Read(spec(t, "{replicas: 2}")).Strategy; s.DeleteScaled || s.DeleteDeleted {
		t.Errorf("%+v", s)
	}
}

// TestClaimsOfNewPods: which claims are made, used, waited for, refused.
func TestClaimsOfNewPods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claims []Claim
		taken  string
		want   string
		hold   string
	}{
		"none is there":               {nil, "", "0:r2 +data-web-0", ""},
		"it is there":                 {[]Claim{claim(0, "2Gi", "2Gi")}, "", "0:r2", ""},
		"it is there, smaller":        {[]Claim{claim(0, "1Gi", "1Gi")}, "", "0:r2", ""},
		"somebody brought it":         {[]Claim{claim(0, "9Gi", "9Gi", func(c *Claim) { c.Labels, c.Owners = nil, nil })}, "", "0:r2", ""},
		"it is being deleted":         {[]Claim{claim(0, "2Gi", "2Gi", goes)}, "", "", "is being deleted; another one is made"},
		"it goes with its pod":        {[]Claim{claim(0, "2Gi", "2Gi", ofPod(0))}, "", "", "goes with the pod"},
		"it belongs to somebody else": {[]Claim{claim(0, "2Gi", "2Gi", func(c *Claim) { c.Owner = "x" })}, "", "", "belongs to somebody else"},
		"its name is taken":           {nil, "data-web-0", "", "name of its claim data-web-0 is taken"},
	} {
		in := input(t, "{replicas: 1, "+dataTemplate+"}")
		in.Claims, in.Taken = tc.claims, map[string]bool{tc.taken: true}
		r := Scale(in)
		got := created(r)
		for _, c := range r.Creates {
			for _, made := range c.Claims {
				got += " +" + made.GetName()
			}
		}
		text := held2(r, inplace.HoldClaim) + held2(r, inplace.HoldScale)
		if got != tc.want || !strings.Contains(text, tc.hold) || (tc.hold == "") != (text == "") {
			t.Errorf("%s: %q, want %q; holds %q", name, got, tc.want, text)
		}
	}
	in := input(t, "{replicas: 1, persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}, "+dataTemplate+"}")
	if made := Scale(in).Creates[0].Claims[0]; len(made.GetOwnerReferences()) != 1 || made.GetOwnerReferences()[0].UID != "set" {
		t.Errorf("it goes with the set: %v", made.GetOwnerReferences())
	}
}

// TestLeftClaimsAreSaid: nobody knows why they were kept, so nobody deletes them.
func TestLeftClaimsAreSaid(t *testing.T) {
	t.Parallel()
	in := input(t, "{replicas: 1, persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}, "+dataTemplate+"}", pod(0, "r2"))
	in.Claims = []Claim{claim(0, "2Gi", "2Gi"), claim(4, "2Gi", "2Gi"), claim(5, "2Gi", "2Gi", goes), claim(6, "2Gi", "2Gi", func(c *Claim) { c.Labels = nil })}
	r := Scale(in)
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "data-web-4;") || len(r.ClaimPatches) != 0 {
		t.Errorf("%q", r.Warnings)
	}
}

// TestO185: upstream's compatibility of claims and templates is "asks for no less"; a missing claim is no obstacle.
func TestO185(t *testing.T) {
	t.Parallel()
	const templates = `volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: 2Gi}}}}, {metadata: {name: logs}, spec: {resources: {requests: {storage: 1Gi}}}}]`
	logs := func(c *Claim) { c.Name = "logs-web-0" }
	for name, tc := range map[string]struct {
		claims []Claim
		want   bool
	}{
		"one smaller":   {[]Claim{claim(0, "1Gi", "1Gi"), claim(0, "1Gi", "1Gi", logs)}, false},
		"both as large": {[]Claim{claim(0, "2Gi", "2Gi"), claim(0, "1Gi", "1Gi", logs)}, true},
		"one larger":    {[]Claim{claim(0, "5Gi", "5Gi"), claim(0, "1Gi", "1Gi", logs)}, true},
		"one missing":   {[]Claim{claim(0, "2Gi", "2Gi")}, true},
	} {
		in := input(t, "{replicas: 1, volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}, "+templates+"}", pod(0, "r1"))
		in.Claims, in.Expandable = tc.claims, map[string]bool{"fast": true}
		r, d := next(in)
		if got := moving(r, d) != ""; got != tc.want {
			t.Errorf("%s: it moves %t, want %t: %v", name, got, tc.want, r.Fixed)
		}
	}
}

// TestResize: claims first, then the pod; in order, one after the other; what cannot be resized says why.
func TestResize(t *testing.T) {
	t.Parallel()
	const resize, template = "volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}, ", dataTemplate
	claims := func(sizes ...string) []Claim {
		var out []Claim
		for i, s := range sizes {
			request, capacity, _ := strings.Cut(s, "/")
			out = append(out, claim(int64(i), request, capacity))
		}
		return out
	}
	for name, tc := range map[string]struct {
		spec    string
		pods    []inplace.Pod
		claims  []Claim
		class   map[string]bool
		patches string
		moves   string
		hold    string
	}{
		"the highest first": {resize + "replicas: 3", all(3), claims("1Gi/1Gi", "1Gi/1Gi", "1Gi/1Gi"), map[string]bool{"fast": true}, "data-web-2 request=2Gi", "", "are resized first"},
		"it is under way":   {resize + "replicas: 3", all(3), claims("1Gi/1Gi", "1Gi/1Gi", "2Gi/1Gi"), map[string]bool{"fast": true}, "", "", "claim data-web-2 is being resized"},
		"then the pod":      {resize + "replicas: 3", all(3), claims("1Gi/1Gi", "1Gi/1Gi", "2Gi/2Gi"), map[string]bool{"fast": true}, "data-web-1 request=2Gi", "2", ""},
		"then the next":     {resize + "replicas: 3", all(3, 2), claims("1Gi/1Gi", "1Gi/1Gi", "2Gi/2Gi"), map[string]bool{"fast": true}, "data-web-1 request=2Gi", "", ""},
		"in parallel as many as may be down": {
			resize + "podManagementPolicy: Parallel, replicas: 4, updateStrategy: {rollingUpdate: {maxUnavailable: 2}}", all(4),
			claims("1Gi/1Gi", "1Gi/1Gi", "1Gi/1Gi", "1Gi/1Gi"),
			map[string]bool{"fast": true},
			"data-web-2 request=2Gi; data-web-3 request=2Gi", "", "",
		},
		"nobody overtakes one whose claims are resized": {
			resize + "podManagementPolicy: Parallel, replicas: 3, updateStrategy: {rollingUpdate: {maxUnavailable: 2}}", all(3),
			claims("2Gi/2Gi", "2Gi/2Gi", "1Gi/1Gi"),
			map[string]bool{"fast": true},
			"data-web-2 request=2Gi", "", "the claims of web-2 are resized first",
		},
		"those that stay old keep their size": {
			resize + "replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}", all(3, 2), claims("1Gi/1Gi", "1Gi/1Gi", "2Gi/2Gi"), map[string]bool{"fast": true}, "", "", "",
		},
		"those that have moved are resized": {
			resize + "replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}", all(3, 2), claims("1Gi/1Gi", "1Gi/1Gi", "1Gi/1Gi"), map[string]bool{"fast": true}, "data-web-2 request=2Gi", "", "",
		},
		"only the size changes: each in turn": {resize + "replicas: 2", all(2, 0, 1), claims("1Gi/1Gi", "1Gi/1Gi"), map[string]bool{"fast": true}, "data-web-1 request=2Gi", "", ""},
		"paused":                              {resize + "replicas: 2, updateStrategy: {rollingUpdate: {paused: true}}", all(2), claims("1Gi/1Gi", "1Gi/1Gi"), map[string]bool{"fast": true}, "", "", ""},
		"the class does not allow it":         {resize + "replicas: 2", all(2), claims("1Gi/1Gi", "1Gi/1Gi"), map[string]bool{"fast": false}, "", "", "fast does not allow expansion"},
		"the class is not known":              {resize + "replicas: 2", all(2), claims("1Gi/1Gi", "1Gi/1Gi"), nil, "", "", `"fast" can be expanded is not known`},
		"it is not bound":                     {resize + "replicas: 2", all(2), claims("1Gi/1Gi", "1Gi/"), map[string]bool{"fast": true}, "data-web-0 request=2Gi", "", "is not bound"},
		"a broken pod is not kept from a fix": {
			resize + "replicas: 2", []inplace.Pod{pod(0, "r1"), pod(1, "r1", down)}, claims("1Gi/1Gi", "1Gi/1Gi"), map[string]bool{"fast": false}, "", "1", "does not allow",
		},
		"a volume cannot shrink": {resize + "replicas: 1", all(1), claims("9Gi/9Gi"), map[string]bool{"fast": true}, "", "0", ""},
		"OnDelete leaves them":   {"replicas: 1", all(1), claims("1Gi/1Gi"), map[string]bool{"fast": true}, "", "0", ""},
		"brought by somebody":    {resize + "replicas: 1", all(1), []Claim{claim(0, "1Gi", "1Gi", func(c *Claim) { c.Labels = nil })}, map[string]bool{"fast": true}, "", "0", ""},
		"the node has still to see it": {
			resize + "replicas: 1", all(1), []Claim{claim(0, "2Gi", "1Gi", func(c *Claim) { c.NodePending = true })}, map[string]bool{"fast": true}, "", "0", "",
		},
		"the storage cannot": {
			resize + "replicas: 2", all(2),
			[]Claim{claim(0, "1Gi", "1Gi"), claim(1, "2Gi", "1Gi", func(c *Claim) { c.Trouble = "full" })},
			map[string]bool{"fast": true},
			"", "", "claim data-web-1 is not resized: full",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(t, "{"+tc.spec+", "+template+"}", tc.pods...)
			in.Claims, in.Expandable = tc.claims, tc.class
			r, d := next(in)
			if got := patched(r); got != tc.patches {
				t.Errorf("patches %q, want %q", got, tc.patches)
			}
			if got := moving(r, d); got != tc.moves {
				t.Errorf("moves %q, want %q; fixed %v", got, tc.moves, r.Fixed)
			}
			if got := held2(r, inplace.HoldClaim); !strings.Contains(got, tc.hold) {
				t.Errorf("holds %q, want %q", got, tc.hold)
			}
		})
	}
}

// TestShrinkIsSaid, and so is what OnDelete leaves.
func TestShrinkIsSaid(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"volumeClaimUpdateStrategy: {type: OnPodRollingUpdate},": "cannot shrink, so they stay: data-web-0",
		"": "stay so with volumeClaimUpdateStrategy.type OnDelete: data-web-1",
	} {
		in := input(t, "{replicas: 2, "+text+dataTemplate+"}", all(2, 0, 1)...)
		in.Claims, in.Expandable = []Claim{claim(0, "9Gi", "9Gi"), claim(1, "1Gi", "1Gi")}, map[string]bool{"fast": true}
		if r := Scale(in); len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], want) {
			t.Errorf("%q", r.Warnings)
		}
	}
}

// TestVolumesStatus counts the claims that ask for as much as their template, and those that have it.
func TestVolumesStatus(t *testing.T) {
	t.Parallel()
	in := input(t, "{replicas: 4, "+dataTemplate+"}", all(4)...)
	in.Claims = []Claim{claim(0, "2Gi", "2Gi"), claim(1, "2Gi", "1Gi"), claim(2, "1Gi", "1Gi")}
	want := []appsv1alpha1.VolumeClaimStatus{{VolumeClaimName: "data", CompatibleReplicas: 2, CompatibleReadyReplicas: 1}}
	if diff := cmp.Diff(want, Scale(in).Volumes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestB091: image and claim size change together. The pod, updated in place, never counts as updated on a small volume with
// OnPodRollingUpdate; with OnDelete the volume stays, is counted apart and said. The size alone touches no pod.
func TestB091(t *testing.T) {
	t.Parallel()
	const text = "{replicas: 1, updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}, volumeClaimUpdateStrategy: {type: %s}, " + dataTemplate + "}"
	for strategy, want := range map[string]string{"OnPodRollingUpdate": "", "OnDelete": "0"} {
		in := input(t, fmt.Sprintf(text, strategy), pod(0, "r1"))
		in.Claims, in.Expandable = []Claim{claim(0, "1Gi", "1Gi")}, map[string]bool{"fast": true}
		r, d := next(in)
		if got := moving(r, d); got != want || r.Volumes[0].CompatibleReplicas != 0 {
			t.Errorf("%s: moves %q, volumes %v", strategy, got, r.Volumes)
		}
		in.Pods = []inplace.Pod{pod(0, "r2")}
		if _, d = next(in); len(d.Patches)+len(d.Deletes)+len(d.Creates) != 0 {
			t.Errorf("%s: the size alone touches a pod: %+v", strategy, d)
		}
	}
}

// TestOutdated: other names of templates are other volumes, another size is not.
func TestOutdated(t *testing.T) {
	t.Parallel()
	const other = `volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: 9Gi}}}}]`
	const more = `volumeClaimTemplates: [{metadata: {name: data}, spec: {}}, {metadata: {name: logs}, spec: {}}]`
	made := Scale(input(t, "{replicas: 1, "+dataTemplate+"}")).Creates[0].Object
	p := pod(0, "r1", func(p *inplace.Pod) { p.Annotations = made.GetAnnotations() })
	if got := Outdated(input(t, "{"+other+"}").Templates, []inplace.Pod{p}); len(got) != 0 {
		t.Errorf("another size: %v", got)
	}
	if got := Outdated(input(t, "{"+more+"}").Templates, []inplace.Pod{p, pod(1, "r1")}); len(got) != 1 || got["web-0"] == "" {
		t.Errorf("one more: %v", got)
	}
	if got := Outdated(nil, []inplace.Pod{p}); len(got) != 1 {
		t.Errorf("none: %v", got)
	}
}

func TestReadClaim(t *testing.T) {
	t.Parallel()
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data-web-0", UID: "u", ResourceVersion: "7", Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{owner()}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("fast"),
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
	want := Claim{
		Claim:  inplace.Claim{Ref: inplace.Ref{Namespace: "ns", Name: "data-web-0", UID: "u", ResourceVersion: "7"}, Owner: types.UID("set")},
		Labels: map[string]string{"app": "web"}, Owners: []metav1.OwnerReference{owner()}, Class: "fast",
		Request: resource.MustParse("2Gi"), Capacity: resource.MustParse("1Gi"),
	}
	if diff := cmp.Diff(want, ReadClaim(c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
		{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue},
		{Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, Message: "no room"},
		{Type: corev1.PersistentVolumeClaimNodeResizeError, Status: corev1.ConditionFalse, Message: "passed"},
	}
	if got := ReadClaim(c); !got.NodePending || got.Trouble != "no room" {
		t.Errorf("%+v", got)
	}
	c.Status.Conditions = nil
	c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible}
	if got := ReadClaim(c); got.Trouble == "" {
		t.Errorf("%+v", got)
	}
}
