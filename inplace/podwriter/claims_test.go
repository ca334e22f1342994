package podwriter_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podwriter"
)

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "claim-uid"}}
}

func claimObject(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("v1")
	u.SetKind("PersistentVolumeClaim")
	u.SetNamespace("ns")
	u.SetName(name)
	return u
}

func podObject(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("v1")
	u.SetKind("Pod")
	u.SetNamespace("ns")
	u.SetName(name)
	return u
}

// claimRef is the claim as it is stored.
func claimRef(t *testing.T, c client.Client, name string) inplace.Ref {
	t.Helper()
	o := &corev1.PersistentVolumeClaim{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, o); err != nil {
		t.Fatal(err)
	}
	return inplace.Ref{Namespace: "ns", Name: name, UID: o.UID, ResourceVersion: o.ResourceVersion}
}

// there are the names of what is stored.
func there(t *testing.T, c client.Client) []string {
	t.Helper()
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	if err := errors.Join(c.List(t.Context(), &pods), c.List(t.Context(), &claims)); err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for i := range pods.Items {
		out = append(out, "pod "+pods.Items[i].Name)
	}
	for i := range claims.Items {
		out = append(out, "claim "+claims.Items[i].Name)
	}
	return out
}

func creating(name string, claims ...string) inplace.Create {
	c := inplace.Create{Object: podObject(name)}
	for _, n := range claims {
		c.Claims = append(c.Claims, claimObject(n))
	}
	return c
}

func TestClaimsComeBeforeTheirPod(t *testing.T) {
	t.Parallel()
	n := &counting{}
	c := n.client(t)
	result, err := podwriter.New(c).Do(t.Context(), inplace.Decision{Creates: []inplace.Create{creating("web-a", "data-web-a", "log-web-a")}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"pod web-a", "claim data-web-a", "claim log-web-a"}, there(t, c)); diff != "" {
		t.Error(diff)
	}
	if result.Created != 1 || result.ClaimsCreated != 2 || len(result.Written) != 1 || len(result.Claims) != 2 || n.calls["get"] != 0 {
		t.Errorf("%+v, %v", result, n.calls)
	}
	for _, w := range result.Claims {
		if w.ResourceVersion == "" || w.Deleted {
			t.Errorf("not to be awaited: %+v", w)
		}
	}
}

func TestAPodWithoutItsClaimsIsNotCreated(t *testing.T) {
	t.Parallel()
	gr := schema.GroupResource{Resource: "persistentvolumeclaims"}
	cases := map[string]struct {
		fail    func(verb, name string) error
		want    []string
		taken   int
		unsure  int
		wantErr string
	}{
		"a name is in use": {want: []string{"claim b"}, taken: 1},
		"a quota": {
			fail: func(_, name string) error {
				if name == "b" {
					return apierrors.NewForbidden(gr, name, errors.New("exceeded quota: storage"))
				}
				return nil
			},
			want: []string{"claim a", "claim b"}, wantErr: "exceeded quota: storage",
		},
		"no answer": {
			fail: func(_, name string) error {
				if name == "b" {
					return context.DeadlineExceeded
				}
				return nil
			},
			want: []string{"claim a", "claim b"}, wantErr: "-", unsure: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &counting{fail: tc.fail}
			c := n.client(t, claim("b"))
			creates := []inplace.Create{creating("web-a", "a", "b")}
			if tc.wantErr == "" {
				creates[0] = creating("web-a", "b", "a")
			}
			result, err := podwriter.New(c).Do(t.Context(), inplace.Decision{Creates: creates})
			if diff := cmp.Diff(tc.want, there(t, c)); diff != "" {
				t.Error(diff)
			}
			if len(result.ClaimsTaken) != tc.taken || len(result.UnsureClaims) != tc.unsure || result.Created != 0 || (err != nil) != (tc.wantErr != "") {
				t.Errorf("%+v, %v", result, err)
			}
			var failed *podwriter.CreateError
			if err == nil || !errors.As(err, &failed) {
				return
			}
			if message, ok := failed.Refused(); ok != (tc.wantErr != "-") || ok && message != tc.wantErr || failed.What != "claim" {
				t.Errorf("%q %t %+v", message, ok, failed)
			}
		})
	}
}

// TestClaimsGoAfterTheirPod: with the pod's deletion, and never when that was not accepted.
func TestClaimsGoAfterTheirPod(t *testing.T) {
	t.Parallel()
	gr := schema.GroupResource{Resource: "pods"}
	cases := map[string]struct {
		fail  func(verb, name string) error
		stale bool
		want  []string
	}{
		"accepted":              {want: []string{}},
		"the pod changed":       {stale: true, want: []string{"pod a", "claim data-a"}},
		"the pod's is refused":  {fail: refuse("a", apierrors.NewForbidden(gr, "a", errors.New("no"))), want: []string{"pod a", "claim data-a"}},
		"no answer":             {fail: refuse("a", context.DeadlineExceeded), want: []string{"pod a", "claim data-a"}},
		"the claim's is failed": {fail: refuse("data-a", context.DeadlineExceeded), want: []string{"claim data-a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &counting{fail: tc.fail}
			c := n.client(t, pod("a"), claim("data-a"))
			d := inplace.Delete{Ref: ref(get(t, c, "a")), Claims: []inplace.Ref{claimRef(t, c, "data-a")}}
			if tc.stale {
				d.ResourceVersion = "1"
			}
			p := get(t, c, "a")
			p.Finalizers = nil
			if err := c.Update(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if !tc.stale {
				d.Ref = ref(get(t, c, "a"))
			}
			result, err := podwriter.New(c).Do(t.Context(), inplace.Decision{Deletes: []inplace.Delete{d}})
			if (err != nil) != (tc.fail != nil) {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, there(t, c)); diff != "" {
				t.Errorf("%s\n%+v", diff, result)
			}
		})
	}
}

func refuse(name string, err error) func(verb, of string) error {
	return func(verb, of string) error {
		if verb == "delete" && of == name {
			return err
		}
		return nil
	}
}

// TestClaimDeletesNameTheirVersion: one that changed since it was judged stays, and is no error.
func TestClaimDeletesNameTheirVersion(t *testing.T) {
	t.Parallel()
	n := &counting{}
	c := n.client(t, claim("a"), claim("b"))
	a, b := claimRef(t, c, "a"), claimRef(t, c, "b")
	b.ResourceVersion = "1"
	other := a
	other.Name, other.UID, other.ResourceVersion = "gone", "x", "1"
	result, err := podwriter.New(c).Do(t.Context(), inplace.Decision{ClaimDeletes: []inplace.ClaimDelete{{Ref: a}, {Ref: b}, {Ref: other}}})
	if err != nil || result.ClaimsDeleted != 1 || result.Conflicts != 2 || len(result.Claims) != 1 || !result.Claims[0].Deleted {
		t.Errorf("%+v, %v", result, err)
	}
	if diff := cmp.Diff([]string{"claim b"}, there(t, c)); diff != "" {
		t.Error(diff)
	}
	if _, err = podwriter.New(c).Do(t.Context(), inplace.Decision{ClaimDeletes: []inplace.ClaimDelete{{Ref: inplace.Ref{Name: "b"}}}}); err == nil {
		t.Error("a claim is deleted that is held to nothing")
	}
}
