package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// cached lists as the manager's cache does: copies, unless that is switched off.
type cached struct {
	client.Client

	members []fleetv1alpha1.MemberCluster
	copied  *int
}

func (c cached) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	for _, opt := range opts {
		opt.ApplyToList(&o)
	}
	out := into.(*fleetv1alpha1.MemberClusterList)
	out.Items = make([]fleetv1alpha1.MemberCluster, len(c.members))
	for i := range c.members {
		if o.UnsafeDisableDeepCopy != nil && *o.UnsafeDisableDeepCopy {
			out.Items[i] = c.members[i]
			continue
		}
		*c.copied++
		c.members[i].DeepCopyInto(&out.Items[i])
	}
	return nil
}

func thousand() []fleetv1alpha1.MemberCluster {
	out := make([]fleetv1alpha1.MemberCluster, 1000)
	for i := range out {
		mc := named(fmt.Sprintf("m-%d", i), "uid")
		mc.Spec.KubeconfigSecretRef = &fleetv1alpha1.SecretReference{Name: "member-" + mc.Name}
		mc.Labels = map[string]string{"region": "eu", "zone": "a", "tier": "gold"}
		for _, kind := range []string{"Ready", "Reachable", "CredentialsValid", "AgentReady"} {
			mc.Status.Conditions = append(mc.Status.Conditions, metav1.Condition{Type: kind, Status: "True", Reason: "Connected", LastTransitionTime: metav1.NewTime(time.Unix(0, 0))})
		}
		out[i] = *mc
	}
	return out
}

// TestASecretOfAThousandCopiesNothing: at the start each of a thousand Secrets looks through a thousand members.
func TestASecretOfAThousandCopiesNothing(t *testing.T) {
	t.Parallel()
	c := cached{members: thousand(), copied: new(int)}
	r := New(Options{Client: c})
	got := r.ofSecret(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: appsv1alpha1.SystemNamespace, Name: "member-m-700"}})
	if len(got) != 1 || *c.copied != 0 {
		t.Errorf("%v, %d members copied", got, *c.copied)
	}
}

// BenchmarkASecretOfAThousand is one Secret's event among a thousand members.
func BenchmarkASecretOfAThousand(b *testing.B) {
	c := cached{members: thousand(), copied: new(int)}
	r := New(Options{Client: c})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: appsv1alpha1.SystemNamespace, Name: "member-m-700"}}
	b.Run("as it is", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.ofSecret(b.Context(), secret)
		}
	})
	b.Run("copied", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = c.List(b.Context(), &fleetv1alpha1.MemberClusterList{})
		}
	})
}
