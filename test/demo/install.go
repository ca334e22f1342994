package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

// agentLease is the leader Lease of the agent.
const agentLease = "underway-member"

// nodesPerMember are simulated; a node has room for 2000 pods.
const nodesPerMember = 3

// start starts the control planes.
func (d *demo) start(ctx context.Context) error {
	defer d.chapter("fleet", "start the fleet")()
	opts := lab.Options{
		MemberNames: d.names, Nodes: nodesPerMember, Audit: d.opts.requests, Log: d.out,
		Source: filepath.Join(d.opts.root, "test", "lab", "binaries"),
	}
	if d.opts.keep {
		opts.Dir, opts.Detach = filepath.Join(d.opts.root, "out", "lab"), true
	}
	fleet, err := lab.Start(ctx, opts)
	if err != nil {
		if d.opts.keep {
			err = fmt.Errorf("%w (`make lab-down` ends a fleet that was left running)", err)
		}
		return err
	}
	d.fleet = fleet
	if d.hub, err = connect(fleet.Hub().RESTConfig()); err != nil {
		return err
	}
	for i, name := range d.names {
		c, err := connect(fleet.Member(name).RESTConfig())
		if err != nil {
			return err
		}
		d.members = append(d.members, &member{name: name, replicas: d.counts[i], client: c})
	}
	return d.mark() // once more before the release; a log that is not there is told before the long part
}

func connect(cfg *rest.Config) (client.Client, error) {
	cfg.UserAgent = "underway-demo"
	s := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(s), appsv1alpha1.AddToScheme(s), fleetv1alpha1.AddToScheme(s))
	if err != nil {
		return nil, err
	}
	return client.New(cfg, client.Options{Scheme: s})
}

// install puts Underway on the fleet, as a user would.
func (d *demo) install(ctx context.Context) error {
	defer d.chapter("install", "install Underway")()
	if err := d.underway(ctx, "init"); err != nil {
		return err
	}
	for _, m := range d.members {
		kubeconfig := d.fleet.Member(m.name).Kubeconfig()
		if err := d.underway(ctx, "join", m.name, "--kubeconfig", kubeconfig, "--all-namespaces", "--no-agent"); err != nil {
			return err
		}
		agents, err := d.kubeconfigOf(d.fleet.Member(m.name), agentUser)
		if err != nil {
			return err
		}
		if err := d.process("underway-member-"+m.name, "underway-member", agents); err != nil {
			return err
		}
	}
	// The hub looks twice a minute who reconciles in a member. Started last, it finds the agents at its first look.
	if err := d.agentsLead(ctx); err != nil {
		return err
	}
	hubs, err := d.kubeconfigOf(d.fleet.Hub(), hubUser)
	if err != nil {
		return err
	}
	if err := d.process("underway-hub", "underway-hub", hubs); err != nil {
		return err
	}
	if err := d.membersReady(ctx); err != nil {
		return err
	}
	return d.underwayLoud(ctx, "get", "clusters")
}

// process runs one of our binaries against a cluster, until the fleet ends.
func (d *demo) process(name, binary, kubeconfig string) error {
	// Twenty control planes on two processors starve whom they serve: nobody stands in for who lost his Lease.
	args := []string{
		"--kubeconfig", kubeconfig, "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
		"--leader-elect-lease-duration=2m", "--leader-elect-renew-deadline=90s",
	}
	p, err := d.fleet.Run(name, d.binary(binary), args, nil)
	if err != nil {
		return err
	}
	d.say("running %s (pid %d)", name, p.PID())
	return nil
}

// underway runs the plugin and sums up what it says.
func (d *demo) underway(ctx context.Context, args ...string) error {
	out, err := d.call(ctx, args)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		counts[fields[1]]++
		if slices.Contains([]string{"warning", "refused", "missing", "kept"}, fields[1]) {
			d.say("  %s", strings.TrimSpace(line))
		}
	}
	var words []string
	for _, word := range []string{"created", "updated", "unchanged", "checked"} {
		if counts[word] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[word], word))
		}
	}
	d.say("  %s", strings.Join(words, ", "))
	return nil
}

func (d *demo) underwayLoud(ctx context.Context, args ...string) error {
	out, err := d.call(ctx, args)
	_, _ = fmt.Fprint(d.out, out)
	return err
}

func (d *demo) call(ctx context.Context, args []string) (string, error) {
	shown := strings.ReplaceAll(strings.Join(args, " "), d.fleet.Dir()+string(filepath.Separator), ".../")
	d.say("$ kubectl underway %s", shown)
	cmd := exec.CommandContext(ctx, d.binary("kubectl-underway"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+d.fleet.Hub().Kubeconfig())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl underway %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out), nil
}

// agentsLead waits until the agent of every member holds its leader Lease.
func (d *demo) agentsLead(ctx context.Context) error {
	return d.until(ctx, d.opts.patience, "the agents to lead", func(ctx context.Context) (bool, string, error) {
		var waiting []string
		for _, m := range d.members {
			lease := &coordinationv1.Lease{}
			key := client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: agentLease}
			if err := m.client.Get(ctx, key, lease); client.IgnoreNotFound(err) != nil {
				return false, "", err
			}
			if ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
				waiting = append(waiting, m.name)
			}
		}
		return len(waiting) == 0, strings.Join(waiting, ", "), nil
	})
}

// membersReady waits until the hub says that it reaches every member and who reconciles there.
func (d *demo) membersReady(ctx context.Context) error {
	return d.until(ctx, d.opts.patience, "the members to be Ready", func(ctx context.Context) (bool, string, error) {
		list := &fleetv1alpha1.MemberClusterList{}
		if err := d.hub.List(ctx, list); err != nil {
			return false, "", err
		}
		var waiting []string
		for i := range list.Items {
			m := &list.Items[i]
			d.report.Versions.Kubernetes = m.Status.KubernetesVersion
			if !isTrue(m.Status.Conditions, fleetv1alpha1.ConditionReady) || !reconciled(m) {
				waiting = append(waiting, m.Name)
			}
		}
		return len(waiting) == 0 && len(list.Items) == len(d.members), strings.Join(waiting, ", "), nil
	})
}

// reconciled says whether our agent is seen to do the work there.
func reconciled(m *fleetv1alpha1.MemberCluster) bool {
	return slices.ContainsFunc(m.Status.WorkloadKinds, func(k fleetv1alpha1.WorkloadKind) bool {
		return strings.HasPrefix(k.Kind, "CloneSet") && k.Reconciler == "Underway"
	})
}

func isTrue(list []metav1.Condition, kind string) bool {
	return slices.ContainsFunc(list, func(c metav1.Condition) bool { return c.Type == kind && c.Status == metav1.ConditionTrue })
}

// until asks again and again. What it waits for is named when the time is up; that a process of ours has ended, at once.
func (d *demo) until(ctx context.Context, patience time.Duration, what string, ask func(context.Context) (bool, string, error)) error {
	deadline := time.Now().Add(patience)
	var last string
	for {
		done, waiting, err := ask(ctx)
		if err != nil || done {
			return err
		}
		if waiting != "" {
			last = waiting
		}
		if err := d.alive(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %s for %s; still missing: %s", patience, what, last)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}
