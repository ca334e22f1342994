package install_test

import (
	"context"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/config"
	"github.com/underway-dev/underway/hub/install"
)

// TestUninstallEndsWhenItsCRDsAreGone: an API server takes a moment to delete a CRD; who installs again at once must not find
// it half there.
func TestUninstallEndsWhenItsCRDsAreGone(t *testing.T) {
	t.Parallel()
	crds, err := all(config.MemberCRDs)()
	if err != nil {
		t.Fatal(err)
	}
	slow := crds[0].GetName()
	for _, crd := range crds {
		crd.SetLabels(map[string]string{appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf})
	}
	crds[0].SetFinalizers([]string{apiextensionsv1.CustomResourceCleanupFinalizer})
	member := installed(t, crds)
	o := install.UninstallOptions{Members: map[string]client.Client{"eu-1": member}, Orphan: true, Now: time.Unix(0, 0)}
	o.Report = func(install.Step) {}
	cleaned := make(chan error, 1)
	go func() {
		cleaned <- wait.PollUntilContextCancel(t.Context(), 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := member.Get(ctx, client.ObjectKey{Name: slow}, crd); err != nil || crd.DeletionTimestamp == nil {
				return false, err
			}
			time.Sleep(50 * time.Millisecond) // as an API server that deletes what there is of it
			crd.Finalizers = nil
			return true, member.Update(ctx, crd)
		})
	}()
	if err := install.Uninstall(t.Context(), fakeHubWith(t), o); err != nil {
		t.Fatal(err)
	}
	if exists(t, member, &apiextensionsv1.CustomResourceDefinition{}, "", slow) {
		t.Errorf("it ended while %s was being deleted", slow)
	}
	if err := <-cleaned; err != nil {
		t.Error(err)
	}
}
