//go:build lab

package plugin

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// image edits the image of a Deployment template that united made.
func image(ud *appsv1alpha1.UnitedDeployment, to string) {
	raw := ud.Spec.Template.DeploymentTemplate.Spec.Raw
	ud.Spec.Template.DeploymentTemplate.Spec.Raw = []byte(strings.ReplaceAll(string(raw), `"app:v1"`, `"`+to+`"`))
}

// images are the images of an app's running pods that are not going.
func (l *living) images(c client.Client, app string) (map[string]int, error) {
	list := &corev1.PodList{}
	if err := c.List(l.Context(), list, client.InNamespace(shop), client.MatchingLabels{"app": app}); err != nil {
		return nil, err
	}
	out := map[string]int{}
	for i := range list.Items {
		if p := &list.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
			out[p.Spec.Containers[0].Image]++
		}
	}
	return out, nil
}

// runs waits until all pods of an app, n of them, have one image.
func (l *living) runs(where string, c client.Client, app, image string, n int) {
	l.Helper()
	l.eventually(fmt.Sprintf("%d pods of %s on %s run %s", n, app, where, image), func() string {
		got, err := l.images(c, app)
		if err != nil || len(got) != 1 || got[image] != n {
			return fmt.Sprint(got, err)
		}
		return ""
	})
}

// remove deletes a UnitedDeployment and waits until it is gone, and with it its children.
func (l *living) remove(name string) {
	l.Helper()
	ud := &appsv1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name}}
	l.must(l.hub.Delete(l.Context(), ud))
	l.eventually(name+" is gone", func() string {
		err := l.hub.Get(l.Context(), client.ObjectKeyFromObject(ud), ud)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("%v %+v", err, ud.Status.Conditions)
	})
}

// cluster edits the Cluster us, and its status where that is said.
func (l *living) cluster(status bool, edit func(*clusterv1.Cluster)) {
	l.Helper()
	c := &clusterv1.Cluster{}
	l.must(l.hub.Get(l.Context(), client.ObjectKey{Namespace: fleets, Name: "us"}, c))
	base := client.MergeFrom(c.DeepCopy())
	edit(c)
	if status {
		l.must(l.hub.Status().Patch(l.Context(), c, base))
		return
	}
	l.must(l.hub.Patch(l.Context(), c, base))
}

// upgradesCluster plays what Cluster API does to a Cluster in its life: it is paused, upgraded, and its kubeconfig rotated.
func (l *living) upgradesCluster() {
	const member = fleets + "-us"
	labelled := func(value string) func() string {
		return func() string {
			mc := &fleetv1alpha1.MemberCluster{}
			if err := l.hub.Get(l.Context(), client.ObjectKey{Name: member}, mc); err != nil || mc.Labels["continent"] != value {
				return fmt.Sprint(mc.Labels, err)
			}
			return ""
		}
	}
	yes, no := true, false
	l.cluster(false, func(c *clusterv1.Cluster) { c.Spec.Paused, c.Labels["continent"] = &yes, "antarctica" })
	l.conditioned(member, fleetv1alpha1.ConditionClusterFollowed, metav1.ConditionFalse, fleetv1alpha1.ReasonClusterPaused)
	l.conditioned(member, fleetv1alpha1.ConditionReady, metav1.ConditionTrue)
	if got := labelled("america")(); got != "" {
		l.Errorf("a paused Cluster's labels are copied: %s", got)
	}
	l.cluster(false, func(c *clusterv1.Cluster) { c.Spec.Paused = &no })
	l.conditioned(member, fleetv1alpha1.ConditionClusterFollowed, metav1.ConditionTrue)
	l.eventually("the labels are copied again", labelled("antarctica"))

	l.united("rolling", "deploymentTemplate", "{name: eu, cluster: eu, replicas: 1}, {name: us, cluster: "+member+", replicas: 1}")
	l.runs("eu", l.eu, "rolling", "app:v1", 1)
	l.runs("us", l.us, "rolling", "app:v1", 1)
	mc := &fleetv1alpha1.MemberCluster{}
	l.must(l.hub.Get(l.Context(), client.ObjectKey{Name: member}, mc))
	base := client.MergeFrom(mc.DeepCopy())
	mc.Spec.DuringUpgrade = fleetv1alpha1.UpgradeHold
	l.must(l.hub.Patch(l.Context(), mc, base))
	l.cluster(true, func(c *clusterv1.Cluster) {
		c.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{Versions: []clusterv1.StatusVersion{{Version: "v1.37.2", Replicas: 1}, {Version: "v1.38.0", Replicas: 2}}}
	})
	l.conditioned(member, fleetv1alpha1.ConditionUpgrading, metav1.ConditionTrue, "ControlPlaneUpgrading")
	l.edit("rolling", func(ud *appsv1alpha1.UnitedDeployment) {
		ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Unnamed: appsv1alpha1.UnnamedUpdate}
		image(ud, "app:v2")
	})
	l.runs("eu", l.eu, "rolling", "app:v2", 1)
	l.eventually("the subset says why it is held", func() string {
		ud := &appsv1alpha1.UnitedDeployment{}
		if err := l.hub.Get(l.Context(), client.ObjectKey{Namespace: shop, Name: "rolling"}, ud); err != nil {
			return err.Error()
		}
		for i := range ud.Status.SubsetStatuses {
			if e := &ud.Status.SubsetStatuses[i]; e.Name == "us" && strings.Contains(e.Message, "being upgraded") {
				return ""
			}
		}
		return fmt.Sprintf("%+v", ud.Status.SubsetStatuses)
	})
	l.runs("us", l.us, "rolling", "app:v1", 1)

	// Meanwhile the kubeconfig is rotated, to another address of the same cluster.
	l.rotates(member)
	l.runs("us", l.us, "rolling", "app:v1", 1)
	l.cluster(true, func(c *clusterv1.Cluster) {
		c.Status.ControlPlane.Versions = []clusterv1.StatusVersion{{Version: "v1.38.0", Replicas: 3}}
	})
	l.conditioned(member, fleetv1alpha1.ConditionUpgrading, metav1.ConditionFalse)
	l.runs("us", l.us, "rolling", "app:v2", 1)
	l.remove("rolling")
}

// rotates writes a kubeconfig with another address into Cluster API's Secret, and waits until the hub goes that way. The hub
// looks at the Secret when it looks at the Cluster, at most once a minute of one that is fine.
func (l *living) rotates(member string) {
	l.Helper()
	secret := &corev1.Secret{}
	l.must(l.hub.Get(l.Context(), client.ObjectKey{Namespace: fleets, Name: "us-kubeconfig"}, secret))
	file, err := clientcmd.Load(secret.Data["value"])
	l.must(err)
	entry := file.Clusters[file.Contexts[file.CurrentContext].Cluster]
	entry.Server = strings.Replace(entry.Server, "127.0.0.1", "localhost", 1)
	secret.Data["value"], err = clientcmd.Write(*file)
	l.must(err)
	l.must(l.hub.Update(l.Context(), secret))
	looks := 0
	l.eventually("the hub goes by "+entry.Server, func() string {
		if looks++; looks%25 == 0 { // every 5 s something of the Cluster changes, as in a rotation
			l.cluster(false, func(c *clusterv1.Cluster) {
				c.Annotations = map[string]string{"test/look": fmt.Sprint(looks)}
			})
		}
		mc := &fleetv1alpha1.MemberCluster{}
		if err := l.hub.Get(l.Context(), client.ObjectKey{Name: member}, mc); err != nil || mc.Status.Server != entry.Server {
			return fmt.Sprint(mc.Status.Server, err)
		}
		return ""
	})
	l.conditioned(member, fleetv1alpha1.ConditionReady, metav1.ConditionTrue)
	l.conditioned(member, fleetv1alpha1.ConditionClusterFollowed, metav1.ConditionTrue)
}

// drains empties a member and takes it out: what a selector put there moves by itself, the others first; what a list names
// waits for a person.
func (l *living) drains() {
	config := l.config("us")
	l.kubectl("join", "west", "--kubeconfig", config, "--all-namespaces", "--no-agent").ok(l.T)
	l.conditioned("west", fleetv1alpha1.ConditionReady, metav1.ConditionTrue)
	for _, name := range []string{"eu", "west"} {
		mc := &fleetv1alpha1.MemberCluster{}
		l.must(l.hub.Get(l.Context(), client.ObjectKey{Name: name}, mc))
		base := client.MergeFrom(mc.DeepCopy())
		if mc.Labels == nil {
			mc.Labels = map[string]string{}
		}
		mc.Labels["tier"] = "gold"
		l.must(l.hub.Patch(l.Context(), mc, base))
	}
	l.united("pinned", "deploymentTemplate", "{name: eu, cluster: eu, replicas: 1}, {name: west, cluster: west, replicas: 1}")
	l.selected("spread", 4)
	l.pods(l.eu, "spread", 2)
	l.pods(l.us, "spread", 2)
	l.pods(l.us, "pinned", 1)

	ctx, stop := context.WithCancel(l.Context())
	fewest := make(chan int, 1)
	go func() { fewest <- l.fewest(ctx, "spread", 4) }()
	drain := []string{"unjoin", "west", "--kubeconfig", config, "--drain"}
	l.kubectl(append(drain, "--dry-run")...).ok(l.T).says(l.T, shop+"/pinned", "nothing was written")
	l.kubectl(append(drain, "--timeout", "3s")...).fails(l.T, "UnitedDeployment "+shop+"/pinned names the member in subset west", "(--timeout) are over", "do this again")
	// The command is gone and the hub goes on.
	l.pods(l.eu, "spread", 4)
	l.pods(l.us, "spread", 0)
	l.pods(l.us, "pinned", 1)
	l.kubectl("join", "west", "--kubeconfig", config, "--all-namespaces", "--no-agent").ok(l.T).says(l.T, "it is being drained")

	done := make(chan result, 1)
	go func() { done <- l.kubectl(append(drain, "--timeout", "10m")...) }()
	l.edit("pinned", func(ud *appsv1alpha1.UnitedDeployment) {
		ud.Spec.Topology.Subsets = ud.Spec.Topology.Subsets[:1]
	})
	(<-done).ok(l.T).says(l.T, "no UnitedDeployment has anything there")
	stop()
	if got := <-fewest; got < 4 {
		l.Errorf("while it was drained %d pods of spread ran, want 4 at any time", got)
	}
	l.pods(l.us, "pinned", 0)
	l.leftOnlyCRDs(l.us, "clonesets.apps.kruise.io", "statefulsets.apps.kruise.io")
	if err := l.hub.Get(l.Context(), client.ObjectKey{Name: "west"}, &fleetv1alpha1.MemberCluster{}); !apierrors.IsNotFound(err) {
		l.Errorf("the hub knows it still: %v", err)
	}
	l.kubectl(drain...).ok(l.T) // once more
	l.remove("pinned")
	l.remove("spread")
}

// selected makes a UnitedDeployment over the members of tier gold.
func (l *living) selected(name string, replicas int32) {
	l.Helper()
	ud := l.template(name, "deploymentTemplate")
	ud.Spec.Replicas = &replicas
	ud.Spec.Topology.SubsetTemplates = []appsv1alpha1.SubsetSelector{{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}}}
	l.must(l.hub.Create(l.Context(), ud))
}

// fewest is the smallest number of pods of an app that ran on the members at any look, at most the number that there should be.
func (l *living) fewest(ctx context.Context, app string, want int) int {
	least := want
	for ctx.Err() == nil {
		// The member that is emptied first: a pod that is counted on neither was on none.
		sum := 0
		for _, c := range []client.Client{l.us, l.eu} {
			list := &corev1.PodList{}
			if err := c.List(ctx, list, client.InNamespace(shop), client.MatchingLabels{"app": app}); err != nil {
				sum = want // a look that failed says nothing
				break
			}
			for i := range list.Items {
				if p := &list.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
					sum++
				}
			}
		}
		least = min(least, sum)
		time.Sleep(100 * time.Millisecond)
	}
	return least
}
