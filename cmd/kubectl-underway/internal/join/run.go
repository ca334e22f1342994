package join

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/hub/install"
	"github.com/underway-dev/underway/propagation/clusters"
)

// joiner carries one join out.
type joiner struct {
	env *cli.Env
	options

	hubClient, memberClient client.Client
	hubConfig, memberConfig *rest.Config
	access                  install.Access
	facts                   install.Facts
}

func (j *joiner) run(ctx context.Context) error {
	if err := j.connect(); err != nil {
		return err
	}
	if err := j.preflight(ctx); err != nil {
		return err
	}
	opts := install.Options{DryRun: j.dryRun, Upgrade: j.upgrade, Report: j.env.Step}
	memberOpts := install.MemberOptions{Options: opts, Name: j.name, AgentImage: j.agentImage}
	if !j.allNamespaces {
		memberOpts.Namespaces = j.namespaces
	}
	stored, err := j.stored(ctx)
	if err != nil {
		return err
	}
	memberOpts.Token, memberOpts.TokenLifetime = stored, j.tokenLifetime
	if memberOpts.HubID, err = install.HubID(ctx, j.hubClient); err != nil {
		return err
	}
	memberOpts.HubID = cmp.Or(memberOpts.HubID, "none") // a hub that was never started has no Lease there
	token, err := install.Member(ctx, j.memberClient, memberOpts)
	if err != nil {
		return err
	}
	registration, err := j.registration(ctx, token)
	if err != nil {
		return err
	}
	if err := install.Register(ctx, j.hubClient, registration, opts); err != nil {
		return err
	}
	if j.dryRun {
		j.env.Note("dry run: nothing was written")
		return nil
	}
	if err := j.draining(ctx); err != nil {
		return err
	}
	if stored == "" {
		if err := install.DropOldToken(ctx, j.memberClient, j.name, opts); err != nil {
			return err
		}
	}
	j.env.Note("next: kubectl underway get clusters %s%s", j.name, j.hubFlags())
	if j.noAgent {
		j.env.Note("no agent was deployed: unless OpenKruise runs there, run underway-member --kubeconfig FILE against the member")
	}
	return nil
}

func (j *joiner) connect() (err error) {
	if j.memberConfig, err = j.env.RESTConfig(j.member()); err != nil {
		return fmt.Errorf("the member (--kubeconfig %s): %w", j.kubeconfig, err)
	}
	if j.memberClient, err = j.env.Connect(j.memberConfig); err != nil {
		return fmt.Errorf("the member (--kubeconfig %s): %w", j.kubeconfig, err)
	}
	if j.hubConfig, err = j.env.RESTConfig(j.hub()); err != nil {
		return fmt.Errorf("the hub ($KUBECONFIG or --hub-kubeconfig; --kubeconfig is the member's): %w", err)
	}
	if j.hubClient, err = j.env.Connect(j.hubConfig); err != nil {
		return fmt.Errorf("the hub ($KUBECONFIG or --hub-kubeconfig; --kubeconfig is the member's): %w", err)
	}
	if j.access, err = install.AccessOf(j.memberConfig, j.insecure); err != nil {
		return fmt.Errorf("the hub cannot use --kubeconfig %s: %w", j.kubeconfig, err)
	}
	return nil
}

// preflight looks at both clusters before anything is written.
func (j *joiner) preflight(ctx context.Context) (err error) {
	if j.facts, err = install.Look(ctx, j.memberClient, j.memberConfig); err != nil {
		return fmt.Errorf("the member (--kubeconfig %s): %w", j.kubeconfig, err)
	}
	hub, err := install.Identity(ctx, j.hubClient)
	if err != nil {
		return fmt.Errorf("the hub ($KUBECONFIG or --hub-kubeconfig): %w", err)
	}
	if err := install.CheckIdentity(ctx, j.hubClient, j.name, j.facts.Identity); err != nil {
		return err
	}
	j.step(install.Checked, "server "+j.access.Server, "Kubernetes "+j.facts.Version+", kube-system "+j.facts.Identity)
	if j.facts.TooOld() {
		j.step(install.Warning, "Kubernetes "+j.facts.Version, "older than "+install.OldestVersion+", the oldest that is supported")
	}
	if hub == j.facts.Identity {
		return fmt.Errorf("the member (--kubeconfig %s) is the hub itself: a subset without `cluster` lives there without joining", j.kubeconfig)
	}
	if hubAccess, err := install.AccessOf(j.hubConfig, true); err == nil && j.access.Loopback() && !hubAccess.Loopback() {
		j.step(install.Warning, "server "+j.access.Server, "the hub is not on this machine and cannot reach this address; use one that both reach")
	}
	return nil
}

// registration builds the hub's credential and proves that it works.
func (j *joiner) registration(ctx context.Context, token string) (install.Registration, error) {
	allowed, err := j.allowed()
	if err != nil {
		return install.Registration{}, err
	}
	r := install.Registration{Name: j.name, Identity: j.facts.Identity, AllowedNamespaces: allowed, Insecure: j.insecure}
	if r.Kubeconfig, err = j.access.Kubeconfig(j.name, token); err != nil || token == "" {
		return r, err
	}
	// The hub's own parser: what it would refuse is refused here.
	cfg, err := clusters.ParseKubeconfig(r.Kubeconfig, j.insecure)
	if err != nil {
		return r, fmt.Errorf("the credential made for the hub: %w", err)
	}
	cfg.UserAgent = cli.UserAgent
	asHub, err := j.env.Connect(cfg)
	if err != nil {
		return r, fmt.Errorf("the credential made for the hub: %w", err)
	}
	if err := install.Prove(ctx, asHub, j.facts.Identity); err != nil {
		return r, err
	}
	j.step(install.Checked, "the hub's account", "it reaches the member")
	return r, nil
}

// stored is the token that the hub uses already, when it goes on working: joining again then changes nothing. With
// --upgrade there is always a new one, which is how a token without end is replaced.
func (j *joiner) stored(ctx context.Context) (string, error) {
	raw, err := install.StoredKubeconfig(ctx, j.hubClient, j.name)
	if err != nil {
		return "", err
	}
	if raw == nil || j.upgrade {
		return "", nil
	}
	cfg, err := clusters.ParseKubeconfig(raw, j.insecure)
	if err != nil || cfg.Host != j.access.Server || cfg.BearerToken == "" {
		return "", nil //nolint:nilerr // what the hub would refuse is replaced
	}
	cfg.UserAgent = cli.UserAgent
	asHub, err := j.env.Connect(cfg)
	if err != nil {
		return "", nil //nolint:nilerr // the same
	}
	err = install.Prove(ctx, asHub, j.facts.Identity)
	switch {
	case err == nil:
		return cfg.BearerToken, nil
	case !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err):
		// Anything else says nothing about the token: a connection that broke must not replace one that works.
		return "", fmt.Errorf("whether the hub's present credential still works could not be seen, and nothing was changed: %w\n"+
			"do this again; with --upgrade it is replaced without being asked (as when the member has another certificate authority)", err)
	}
	j.step(install.Warning, "the hub's present credential", "it does not work and is replaced: "+err.Error())
	return "", nil // the one that takes its place is proven before it is stored
}

// draining says that a member which was being emptied is still: joining does not take that back.
func (j *joiner) draining(ctx context.Context) error {
	mc := &fleetv1alpha1.MemberCluster{}
	if err := j.hubClient.Get(ctx, client.ObjectKey{Name: j.name}, mc); err != nil {
		return fmt.Errorf("reading the MemberCluster: %w", err)
	}
	if mc.Spec.Drain {
		j.step(install.Warning, "MemberCluster/"+j.name, "it is being drained (unjoin --drain); to use it again: "+install.UseAgain(j.name))
	}
	return nil
}

func (j *joiner) step(action install.Action, object, note string) {
	j.env.Step(install.Step{Where: j.name, Action: action, Object: object, Note: note})
}
