package statefulset

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
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/member/statefulset/plan"
	"github.com/underway-dev/underway/member/workload"
)

// The reconciler asks for these by type.
var (
	_ workload.Kind  = Kind{}
	_ workload.Named = Kind{}
)

// set reads YAML of a spec, with a selector and a template.
func set(tb testing.TB, spec string) *appsv1alpha1.StatefulSet {
	tb.Helper()
	out := &appsv1alpha1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db-1", UID: "set", Generation: 3}}
	text := "selector: {matchLabels: {app: db}}\ntemplate: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: \"a:2\"}]}}\n" + spec
	if err := yaml.UnmarshalStrict([]byte(text), &out.Spec); err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec              string
		invalid           string
		partition         int32
		held, claims, cls bool
		ready             int32
	}{
		"plain":             {},
		"partition":         {spec: "replicas: 5\nupdateStrategy: {rollingUpdate: {partition: 2, minReadySeconds: 7}}", partition: 2, held: true, ready: 7},
		"claims":            {spec: withData, claims: true},
		"claims that grow":  {spec: "volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}" + withData, claims: true, cls: true},
		"no claims grow":    {spec: "volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}"},
		"unreadable":        {spec: "replicas: 5\nreserveOrdinals: [\"5-3\"]", invalid: "spec.reserveOrdinals[0]", partition: 5, held: true},
		"an unknown policy": {spec: "replicas: 4\npodManagementPolicy: Wild", invalid: "spec.podManagementPolicy", partition: 4, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := Kind{}.Read(set(t, tc.spec))
			if in := w.Intent; !strings.HasPrefix(in.Invalid, tc.invalid) || (in.Invalid == "") != (tc.invalid == "") || in.Partition != tc.partition {
				t.Errorf("invalid %q, partition %d", in.Invalid, in.Partition)
			}
			if w.Held != tc.held || w.Claims != tc.claims || w.Classes != tc.cls || w.MinReadySeconds != tc.ready || w.HistoryLimit != 10 || w.Selector != "app=db" {
				t.Errorf("%+v", w)
			}
		})
	}
	other := set(t, "replicas: 3")
	other.Spec.Selector.MatchLabels["app"] = "else"
	if w := (Kind{}).Read(other); !strings.HasPrefix(w.Intent.Invalid, "spec.selector") || w.Intent.Partition != 3 || !w.Held {
		t.Errorf("a selector that does not match: %+v", w.Intent)
	}
	ends := set(t, "")
	ends.Spec.Template.Raw = []byte(`{"metadata":{"labels":{"app":"db"}},"spec":{"restartPolicy":"Never","containers":[]}}`)
	if w := (Kind{}).Read(ends); !w.Unfit || w.Intent.Invalid == "" {
		t.Errorf("a template whose pods end: %+v", w)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	obj := set(t, "")
	for pod, want := range map[string]bool{"db-1-0": true, "db-1-12": true, "db-1-01": false, "db-1": false, "db-1-": false, "db-1-a": false, "db-2-0": false, "db-1-0-0": false} {
		if got := (Kind{}).Gives(obj, pod); got != want {
			t.Errorf("gives %s: %t", pod, got)
		}
	}
	for claim, want := range map[string]bool{
		"data-db-1-0": true, "my-data-db-1-3": true, "db-1-db-1-3": true, "db-1-0": false, "-db-1-0": false, "data-db-1": false, "data-db-2-0": false, "data-db-1-x": false, "xdb-1-0": false, "": false,
	} {
		if got := (Kind{}).Uses(obj, claim); got != want {
			t.Errorf("uses %s: %t", claim, got)
		}
	}
	want := map[string]string{"statefulset.kubernetes.io/pod-name": "db-1-7", "apps.kubernetes.io/pod-index": "7"}
	if diff := cmp.Diff(want, plan.Identity(obj.GetName(), "db-1-7")); diff != "" {
		t.Error(diff)
	}
	if got := plan.Identity(obj.GetName(), "else"); got != nil {
		t.Errorf("%v", got)
	}
}

// crowdOf is a set of three on revision r1 that goes to r2.
func crowdOf(t *testing.T, spec string, ordinals ...int) workload.Crowd {
	t.Helper()
	obj := set(t, spec)
	c := workload.Crowd{
		Object: obj, Intent: Kind{}.Read(obj).Intent, Namespace: "ns", Now: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC),
		Owner: metav1.OwnerReference{APIVersion: "apps.kruise.io/v1alpha1", Kind: "StatefulSet", Name: obj.Name, UID: obj.UID, Controller: new(true)},
	}
	r2 := inplace.Revision{Name: "r2", Hash: "r2", Template: obj.Spec.Template.Raw}
	c.Intent.Update, c.Intent.Current, c.Intent.Revisions = r2, r2, []inplace.Revision{r2}
	for _, n := range ordinals {
		name := fmt.Sprintf("db-1-%d", n)
		c.Pods = append(c.Pods, inplace.Pod{
			Ref: inplace.Ref{Namespace: "ns", Name: name, UID: types.UID("u" + name), ResourceVersion: "1"}, Phase: inplace.PhaseRunning,
			Revision: "r2", Ready: true, Available: true, Gate: inplace.GateTrue, Labels: map[string]string{"app": "db"}, Annotations: map[string]string{},
		})
	}
	return c
}

const withData = `
volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}]`

func TestScale(t *testing.T) {
	t.Parallel()
	c := crowdOf(t, "replicas: 3\nserviceName: net\npersistentVolumeClaimRetentionPolicy: {whenScaled: Delete}"+withData, 0, 1, 5)
	c.Volumes = []corev1.PersistentVolumeClaim{claim("data-db-1-5", "2Gi")}
	c.LostBy = map[string]string{"db-1-2": "r1"}
	got := Kind{}.Scale(c)
	if len(got.Population.Creates) != 1 {
		t.Fatalf("%+v", got.Population)
	}
	made := got.Population.Creates[0].Object
	spec, _ := made.Object["spec"].(map[string]any)
	if made.GetName() != "db-1-2" || spec["hostname"] != "db-1-2" || spec["subdomain"] != "net" || made.GetAnnotations()[appsv1alpha1.AnnotationReplaces] != "r1" ||
		made.GetLabels()[appsv1alpha1.LabelPodIndex] != "2" || len(got.Population.Creates[0].Claims) != 1 {
		t.Errorf("%v", made.Object)
	}
	// The engine is told who has no slot, and the claim of that one goes with it.
	if diff := cmp.Diff([]string{"db-1-5"}, got.Population.Condemned); diff != "" || got.Population.AbsentNew == nil {
		t.Errorf("%v, %+v", diff, got.Population)
	}
	if p := got.Population.ClaimPatches; len(p) != 1 || p[0].Name != "data-db-1-5" || len(p[0].Owners) != 1 || p[0].Owners[0].Name != "db-1-5" {
		t.Errorf("%+v", got.Population.ClaimPatches)
	}
}

func claim(name, size string) corev1.PersistentVolumeClaim {
	q := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("c" + name), ResourceVersion: "1", Labels: map[string]string{"app": "db"}},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: new("fast"), Resources: corev1.VolumeResourceRequirements{Requests: q}},
		Status:     corev1.PersistentVolumeClaimStatus{Capacity: q},
	}
}

// TestScaleResizes: claims are brought to their template by class; one that cannot be is looked at again.
func TestScaleResizes(t *testing.T) {
	t.Parallel()
	for class, want := range map[bool]int{true: 1, false: 0} {
		c := crowdOf(t, "replicas: 1\nvolumeClaimUpdateStrategy: {type: OnPodRollingUpdate}"+withData, 0)
		c.Volumes = []corev1.PersistentVolumeClaim{claim("data-db-1-0", "1Gi")}
		c.Expandable = map[string]bool{"fast": class}
		got := Kind{}.Scale(c)
		if p := got.Population; len(p.ClaimPatches) != want || want == 0 && p.LookAgainIn != resizeAgain {
			t.Errorf("expandable %t: %+v", class, p)
		}
		if diff := cmp.Diff([]appsv1alpha1.VolumeClaimStatus{{VolumeClaimName: "data"}}, got.Volumes); diff != "" {
			t.Error(diff)
		}
	}
}

// TestScaleWithoutReadableClaims: nobody is created without volumes, and nobody recreated for them.
func TestScaleWithoutReadableClaims(t *testing.T) {
	t.Parallel()
	c := crowdOf(t, "replicas: 2", 0)
	c.Pods[0].Annotations[appsv1alpha1.AnnotationClaimTemplate] = "x"
	obj, _ := c.Object.(*appsv1alpha1.StatefulSet)
	obj.Spec.VolumeClaimTemplates = make([]appsv1alpha1.RawObject, 1)
	obj.Spec.VolumeClaimTemplates[0].Raw = []byte(`{"metadata":{}}`)
	got := Kind{}.Scale(c)
	if len(got.Population.Creates) != 0 || got.RecreateOnly != nil || !waitsFor(got.Population.Holds, inplace.HoldScale) {
		t.Errorf("%+v", got)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	obj := set(t, "")
	obj.Status.CurrentRevision = "old"
	r := workload.Report{
		ObservedGeneration: 3, UpdateRevision: "new", Selector: "app=db", Extended: true, CollisionCount: 2,
		Summary: inplace.Summary{Replicas: 9, Ready: 8, Available: 7, Current: 6, Updated: 5, UpdatedReady: 4, UpdatedAvailable: 3, InPlace: 2, Recreated: 1},
		Volumes: []appsv1alpha1.VolumeClaimStatus{{VolumeClaimName: "data", CompatibleReplicas: 1}},
	}
	if !(Kind{}).Report(obj, r) {
		t.Fatal("not changed")
	}
	want := appsv1alpha1.StatefulSetStatus{
		ObservedGeneration: 3, Replicas: 9, ReadyReplicas: 8, AvailableReplicas: 7, CurrentReplicas: 6, UpdatedReplicas: 5, UpdatedReadyReplicas: 4,
		UpdatedAvailableReplicas: 3, CurrentRevision: "old", UpdateRevision: "new", LabelSelector: "app=db", CollisionCount: new(int32(2)),
		VolumeClaims: r.Volumes, Underway: &appsv1alpha1.WorkloadReport{UpdatedInPlace: 2, Recreated: 1},
	}
	if diff := cmp.Diff(want, obj.Status); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if (Kind{}).Report(obj, r) {
		t.Error("the same is a change")
	}
	r.Extended = false
	if (Kind{}).Report(obj, r); obj.Status.Underway != nil {
		t.Error("a CRD that is not ours drops status.underway")
	}
}
