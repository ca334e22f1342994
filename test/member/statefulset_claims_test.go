//go:build lab

package member

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
)

// resizer plays the one that makes volumes larger, as slowly as one that has work to do, and notes in which order claims ask,
// have what they asked for, and pods are moved.
type resizer struct {
	mu     sync.Mutex
	images map[string]string
	asked  map[string]time.Time
	notes  []string
}

func (r *resizer) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, what)
}

func (r *resizer) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.notes)
}

// resizing begins to make volumes of the namespace larger; it ends with the test.
func (p place) resizing() *resizer {
	p.Helper()
	r := &resizer{images: map[string]string{}, asked: map[string]time.Time{}}
	ctx, stop := context.WithCancel(p.Context())
	done := make(chan struct{})
	p.Cleanup(func() {
		stop()
		<-done
	})
	pods, err := p.Follow(ctx, p.NS, func(e watch.Event) {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok || e.Type == watch.Deleted {
			return
		}
		image := pod.Spec.Containers[0].Image
		if was := r.images[pod.Name]; was != "" && was != image {
			r.note("moves " + pod.Name)
		}
		r.images[pod.Name] = image
	}, func(err error) { r.note(err.Error()) })
	if err != nil {
		p.Fatal(err)
	}
	for i := range pods {
		r.images[pods[i].Name] = pods[i].Spec.Containers[0].Image
	}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			r.resize(ctx, p)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return r
}

func (r *resizer) resize(ctx context.Context, p place) {
	const slow = time.Second
	var list corev1.PersistentVolumeClaimList
	if p.List(ctx, &list, client.InNamespace(p.NS)) != nil {
		return
	}
	for i := range list.Items {
		claim := &list.Items[i]
		want, has := claim.Spec.Resources.Requests.Storage(), claim.Status.Capacity.Storage()
		if has.IsZero() || want.Cmp(*has) <= 0 {
			continue
		}
		key := claim.Name + " " + want.String()
		since, known := r.asked[key]
		if !known {
			r.asked[key] = time.Now()
			r.note("asks " + key)
			continue
		}
		if time.Since(since) < slow {
			continue
		}
		r.note("has " + key)
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
		size := fmt.Sprintf(`{"capacity": {"storage": %q}}`, want.String())
		if err := p.Patch(ctx, volume, client.RawPatch(types.MergePatchType, []byte(`{"spec": `+size+`}`))); err != nil {
			r.note(err.Error())
		}
		if err := p.Status().Patch(ctx, claim, client.RawPatch(types.MergePatchType, []byte(`{"status": `+size+`}`))); err != nil {
			r.note(err.Error())
		}
	}
}

// sizes are the sizes of the claims, wanted and had, by name.
func (p place) sizes() map[string]string {
	p.Helper()
	out := map[string]string{}
	for name, claim := range p.Claims() {
		out[name] = claim.Spec.Resources.Requests.Storage().String() + "/" + claim.Status.Capacity.Storage().String()
	}
	return out
}

// TestB091Resize: image and claim size change together, with OnPodRollingUpdate. Each pod's claim is as large as its template
// before the pod is moved, in place, from the highest ordinal down, one after the other. The size alone touches no pod.
func TestB091Resize(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	s := p.Stateful("db", "app:v1", "replicas: 3\nvolumeClaimUpdateStrategy: {type: OnPodRollingUpdate}"+inPlace+dataOf("1Gi", ""))
	s.Ready(3, time.Minute)
	pods, claims, r, z := kit.Identities(p.Pods()), p.claimIDs(), p.Record(), p.resizing()
	s.Merge("spec:\n  template: {spec: {containers: [{name: main, image: \"app:v2\"}]}}" + strings.ReplaceAll(dataOf("2Gi", ""), "\n", "\n  "))
	set := s.Ready(3, time.Minute)
	p.InPlace(pods, 1)
	if diff := cmp.Diff(claims, p.claimIDs()); diff != "" {
		t.Errorf("claims changed (-before +after):\n%s", diff)
	}
	p.Eventually(20*time.Second, func() string { return is(len(z.seen()), 9) })
	notes := z.seen()
	for i := range 3 {
		at := func(what string) int { return slices.Index(notes, fmt.Sprintf(what, 2-i)) }
		asks, has, moves := at("asks data-db-%d 2Gi"), at("has data-db-%d 2Gi"), at("moves db-%d")
		if asks < 0 || asks > has || has > moves {
			t.Errorf("ordinal %d asks, has and moves in places %d, %d and %d: %v", 2-i, asks, has, moves, notes)
		}
		if i > 0 && asks < slices.Index(notes, fmt.Sprintf("has data-db-%d 2Gi", 3-i)) {
			t.Errorf("two claims are resized at once: %v", notes)
		}
	}
	if len(notes) != 9 {
		t.Errorf("%v", notes)
	}
	if seen := r.Seen(); !slices.Equal(seen.Order, []string{"db-2", "db-1", "db-0"}) || seen.Unready > 1 || seen.Created+seen.Deleted > 0 {
		t.Errorf("seen %+v", seen)
	}
	if kit.Text(set.Status.VolumeClaims) != `[{"volumeClaimName":"data","compatibleReplicas":3,"compatibleReadyReplicas":3}]` {
		t.Errorf("claims in the status: %s", kit.Text(set.Status.VolumeClaims))
	}

	mark := p.Marked()
	s.Merge("{spec: {" + strings.TrimSpace(dataOf("3Gi", "")) + "}}")
	p.Eventually(time.Minute, func() string {
		if got := p.sizes(); len(got) != 3 || got["data-db-0"] != "3Gi/3Gi" || got["data-db-1"] != "3Gi/3Gi" || got["data-db-2"] != "3Gi/3Gi" {
			return "sizes " + kit.Text(got)
		}
		return ""
	})
	after := s.Ready(3, 20*time.Second)
	if writes, _, _ := p.Requests(mark, "pods", "pods/status", "pods/resize"); len(writes) > 0 {
		t.Errorf("pods were touched for a size alone: %v", writes)
	}
	if after.Status.UpdateRevision != set.Status.UpdateRevision || len(p.revisions()) != 2 {
		t.Errorf("update revision %s, was %s; %d revisions", after.Status.UpdateRevision, set.Status.UpdateRevision, len(p.revisions()))
	}
}

// TestRigidClaims: the storage class does not let volumes grow. Nothing moves and nothing is tried again and again; it is said
// with both remedies, and the second of them, OnDelete, lets the pods move on their small volumes, which is said, too.
func TestRigidClaims(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	s := p.Stateful("db", "app:v1", "replicas: 2\nvolumeClaimUpdateStrategy: {type: OnPodRollingUpdate}"+inPlace+dataOf("1Gi", kit.RigidClass))
	s.Ready(2, time.Minute)
	pods, mark := kit.Identities(p.Pods()), p.Marked()
	s.Merge("spec:\n  template: {spec: {containers: [{name: main, image: \"app:v2\"}]}}" + strings.ReplaceAll(dataOf("2Gi", kit.RigidClass), "\n", "\n  "))
	p.Eventually(20*time.Second, func() string {
		c := s.Condition(appsv1alpha1.ConditionReady)
		if c == nil || c.Status == metav1.ConditionTrue || !strings.Contains(c.Message, "storage class "+kit.RigidClass) || !strings.Contains(c.Message, "allowVolumeExpansion") {
			return "Ready: " + kit.Text(c)
		}
		return ""
	})
	p.During(3*time.Second, func() string {
		for name, pod := range p.Pods() {
			if !runs("app:v1")(pod) || !kit.PodReady(pod) {
				return name + " has moved"
			}
		}
		return ""
	})
	if calls := p.calls(mark, "persistentvolumeclaims"); calls["patch"]+calls["update"] > 0 {
		t.Errorf("writes of claims that cannot be resized: %v", calls)
	}
	p.idle()
	s.Merge(`{spec: {volumeClaimUpdateStrategy: {type: OnDelete}}}`)
	set := s.Ready(2, time.Minute)
	p.InPlace(pods, 1)
	if got := p.sizes(); got["data-db-0"] != "1Gi/1Gi" || got["data-db-1"] != "1Gi/1Gi" {
		t.Errorf("sizes %v", got)
	}
	if kit.Text(set.Status.VolumeClaims) != `[{"volumeClaimName":"data","compatibleReplicas":0,"compatibleReadyReplicas":0}]` {
		t.Errorf("claims in the status: %s", kit.Text(set.Status.VolumeClaims))
	}
	if c := s.Condition(appsv1alpha1.ConditionWarning); c == nil || !strings.Contains(c.Message, "data-db-0") {
		t.Errorf("small claims are not said: %s", kit.Text(c))
	}
}

// TestClaimsOverQuota: the API server refuses to let a claim grow. It is said in its words and tried again ever more seldom,
// nothing moves meanwhile, and when there is room the release goes on by itself.
func TestClaimsOverQuota(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	s := p.Stateful("db", "app:v1", "replicas: 2\nvolumeClaimUpdateStrategy: {type: OnPodRollingUpdate}"+inPlace+dataOf("1Gi", ""))
	s.Ready(2, time.Minute)
	pods := kit.Identities(p.Pods())
	quota := p.unstructured("v1", "ResourceQuota", "storage")
	quota.Object["spec"] = map[string]any{"hard": map[string]any{"requests.storage": "2Gi"}}
	if err := p.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	p.Eventually(20*time.Second, func() string {
		if err := p.Cluster.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil || quota.Object["status"] == nil {
			return "the quota is not counted yet"
		}
		return ""
	})
	inForce(p.Place, &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Gi")}},
	}})
	said := func() bool {
		return slices.ContainsFunc(s.Get().Status.Conditions, func(c metav1.Condition) bool {
			return c.Status == metav1.ConditionTrue && strings.Contains(c.Message, "data-db-1") && strings.Contains(c.Message, "exceeded quota")
		})
	}
	p.resizing()
	mark := p.mark()
	s.Merge("spec:\n  template: {spec: {containers: [{name: main, image: \"app:v2\"}]}}" + strings.ReplaceAll(dataOf("2Gi", ""), "\n", "\n  "))
	p.Eventually(20*time.Second, func() string {
		if !said() {
			return "the refusal is not said: " + p.says(s)
		}
		return ""
	})
	p.During(6*time.Second, func() string { return is(p.On("app:v1"), 2) })
	if n := p.calls(mark, "persistentvolumeclaims")["patch"]; n > 20 {
		t.Errorf("%d requests that are refused", n)
	}
	if err := p.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	s.Ready(2, time.Minute)
	p.InPlace(pods, 1)
	if got := p.sizes(); got["data-db-0"] != "2Gi/2Gi" || got["data-db-1"] != "2Gi/2Gi" {
		t.Errorf("sizes %v", got)
	}
	p.Eventually(20*time.Second, func() string {
		if said() {
			return "still said: " + kit.Text(s.Get().Status.Conditions)
		}
		return ""
	})
}

// TestRetention: what becomes of claims when their ordinal is scaled away, and when the set is deleted, under the garbage
// collector of Kubernetes.
func TestRetention(t *testing.T) {
	t.Parallel()
	for _, policy := range []struct{ deleted, scaled string }{
		{"", ""}, {"Retain", "Delete"}, {"Delete", "Retain"}, {"Delete", "Delete"},
	} {
		t.Run(fmt.Sprintf("whenDeleted %s, whenScaled %s", policy.deleted, policy.scaled), func(t *testing.T) {
			t.Parallel()
			p := in(t, steady)
			spec := "replicas: 2\npodManagementPolicy: Parallel" + dataOf("1Gi", "")
			if policy.deleted != "" {
				spec += fmt.Sprintf("\npersistentVolumeClaimRetentionPolicy: {whenDeleted: %s, whenScaled: %s}", policy.deleted, policy.scaled)
			}
			s := p.Stateful("db", "app:v1", spec)
			s.Ready(2, time.Minute)
			claims := p.claimIDs()
			stay := func(names ...string) {
				t.Helper()
				want := maps.Clone(claims)
				maps.DeleteFunc(want, func(name string, _ types.UID) bool { return !slices.Contains(names, name) })
				// The garbage collector looks for new kinds every 30 s.
				p.Eventually(90*time.Second, func() string { return cmp.Diff(want, p.claimIDs()) })
				p.During(3*time.Second, func() string { return cmp.Diff(want, p.claimIDs()) })
			}
			s.Merge(`{spec: {replicas: 1}}`)
			p.numbered(time.Minute, 0)
			left := []string{"data-db-0"}
			if policy.scaled != "Delete" {
				left = append(left, "data-db-1")
			}
			stay(left...)
			if policy.scaled == "" {
				// The ordinal is wanted again, and has its claim.
				s.Merge(`{spec: {replicas: 2}}`)
				p.numbered(time.Minute, 0, 1)
				s.Merge(`{spec: {replicas: 1}}`)
				p.numbered(time.Minute, 0)
				stay(left...)
			}
			if err := p.Delete(t.Context(), s.Get(), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
				t.Fatal(err)
			}
			p.Eventually(90*time.Second, func() string { return is(len(p.Pods()), 0) })
			if policy.deleted == "Delete" {
				left = nil
			}
			stay(left...)
		})
	}
}

// TestClaimThatGoesWithoutItsPod: somebody deletes a claim that is in use, and then its pod: the next pod waits until the claim
// is gone, and gets another one; nobody is created on a claim that is about to vanish.
func TestClaimThatGoesWithoutItsPod(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	s := p.Stateful("db", "app:v1", "replicas: 1"+dataOf("1Gi", ""))
	s.Ready(1, time.Minute)
	old := p.Claims()["data-db-0"]
	if err := p.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := p.Delete(t.Context(), p.Pods()["db-0"]); err != nil {
		t.Fatal(err)
	}
	s.Ready(1, time.Minute)
	p.numbered(time.Minute, 0)
	if now := p.Claims()["data-db-0"]; now == nil || now.UID == old.UID {
		t.Errorf("the claim is %s", kit.Text(now))
	}
}
