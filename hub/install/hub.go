package install

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/config"
)

// HubWhere is what steps on the hub are named by.
const HubWhere = "hub"

// HubOptions are for [Hub].
type HubOptions struct {
	Options

	// Image of underway-hub; empty: no Deployment, the hub runs elsewhere.
	Image string
	// ClusterAPISelector chooses the Cluster API Clusters that become members: the hub's account gets the role for it, and
	// the Deployment the flag. Empty: neither.
	ClusterAPISelector string
}

// Hub installs CRDs, namespace and account on the hub, and the hub itself when there is an image. The first error stops
// it; a UnitedDeployment or MemberCluster CRD of somebody else is one, because the fleet cannot be declared with it.
func Hub(ctx context.Context, hub client.Client, opts HubOptions) error {
	a := &applier{where: HubWhere, client: hub, opts: opts.Options}
	crds, err := config.HubCRDs()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		action, err := a.apply(ctx, crd)
		if err != nil {
			return err
		}
		if action == Refused && crd.GetName() == "uniteddeployments.apps.kruise.io" {
			return fmt.Errorf("CustomResourceDefinition %s on the hub is not ours (OpenKruise's, most likely): it has no `cluster` "+
				"in its subsets and cannot declare a fleet; use a cluster without OpenKruise as the hub", crd.GetName())
		}
	}
	if err := a.establish(ctx, crds); err != nil {
		return err
	}
	if err := a.applyEach(ctx, config.HubNamespace, config.HubRBAC); err != nil {
		return err
	}
	var flags []string
	if opts.ClusterAPISelector != "" {
		if err := a.applyEach(ctx, config.HubClusterAPI); err != nil {
			return err
		}
		flags = append(flags, "--cluster-api-selector="+opts.ClusterAPISelector)
	}
	if opts.Image == "" {
		return nil
	}
	return a.deploy(ctx, config.HubManager, opts.Image, flags...)
}

// applyEach applies what the sources hold, one source after the other.
func (a *applier) applyEach(ctx context.Context, sources ...func() ([]*unstructured.Unstructured, error)) error {
	for _, source := range sources {
		objects, err := source()
		if err != nil {
			return err
		}
		if err := a.applyAll(ctx, objects); err != nil {
			return err
		}
	}
	return nil
}

// deploy applies a manager's manifests with the image put in, and flags added.
func (a *applier) deploy(ctx context.Context, source func() ([]*unstructured.Unstructured, error), image string, flags ...string) error {
	objects, err := source()
	if err != nil {
		return err
	}
	var errs []error
	for _, obj := range objects {
		if obj.GetKind() == "Deployment" {
			if err := setImage(obj, image, flags); err != nil {
				return err
			}
		}
		_, err := a.apply(ctx, obj)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func setImage(deployment *unstructured.Unstructured, image string, flags []string) error {
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(deployment.Object, path...)
	if err != nil || len(containers) != 1 {
		return fmt.Errorf("the manifest of %s has %d containers, want 1: %w", deployment.GetName(), len(containers), err)
	}
	container, ok := containers[0].(map[string]any)
	if !ok {
		return fmt.Errorf("the manifest of %s has a container that is no object", deployment.GetName())
	}
	container["image"] = image
	args, _ := container["args"].([]any)
	for _, flag := range flags {
		args = append(args, flag)
	}
	container["args"] = args
	if err := unstructured.SetNestedSlice(deployment.Object, containers, path...); err != nil {
		return fmt.Errorf("setting the image of %s: %w", deployment.GetName(), err)
	}
	return nil
}
