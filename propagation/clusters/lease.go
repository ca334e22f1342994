package clusters

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// renewalsThatProve is how often another holder must renew the Lease, while we lead, to be a second hub.
const renewalsThatProve = 2

// leaseMemory is what was seen of another holder, by our own clock.
type leaseMemory struct {
	holder   string
	version  string
	since    time.Time
	renewals int
}

// leaseStep is what to do with the Lease.
type leaseStep string

const (
	leaseRenew   leaseStep = "Renew"
	leaseWait    leaseStep = "Wait"
	leaseTake    leaseStep = "Take"
	leaseTwoHubs leaseStep = "TwoHubs"
)

// observe decides, and is pure but for its receiver: a Lease of ours is renewed, another's is taken once it was not
// renewed for expiry by our clock; another holder that renews it twice while we look is a second hub.
func (l *leaseMemory) observe(lease *coordinationv1.Lease, me string, now time.Time, expiry time.Duration) leaseStep {
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	if holder == me || holder == "" {
		*l = leaseMemory{}
		return leaseRenew
	}
	holder = told(holder)
	switch {
	case l.holder != holder:
		*l = leaseMemory{holder: holder, version: lease.ResourceVersion, since: now}
	case l.version != lease.ResourceVersion:
		l.version, l.since = lease.ResourceVersion, now
		l.renewals++
	}
	switch {
	case l.renewals >= renewalsThatProve:
		return leaseTwoHubs
	case now.Sub(l.since) >= expiry:
		return leaseTake
	default:
		return leaseWait
	}
}

// keepLease renews the hub's Lease in the member until ctx is done. A freeze does not stop it.
func (m *member) keepLease(ctx context.Context) {
	every := m.fleet.intervals.Lease
	for ctx.Err() == nil {
		pause := every
		if m.View().State == StateReady {
			if err := m.renew(ctx); err != nil {
				klog.FromContext(ctx).V(2).Info("Could not renew the hub's Lease", "reason", err.Error())
			}
		} else {
			pause = min(every, m.fleet.intervals.Probe)
		}
		timer := m.fleet.clock.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}

// renew reads the Lease and does the step. The identity is proven just before: nothing is written to another cluster.
func (m *member) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.fleet.intervals.ProbeTimeout)
	defer cancel()
	conn, err := m.connected()
	if err != nil {
		return err
	}
	leases := conn.leases.Leases(appsv1alpha1.SystemNamespace)
	name := appsv1alpha1.LeaseHubPrefix + m.fleet.hubID
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if err := m.prove(ctx); err != nil {
			return err
		}
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: appsv1alpha1.SystemNamespace,
			Labels: map[string]string{appsv1alpha1.LabelHub: m.fleet.hubID},
		}}
		m.hold(lease)
		if _, err := leases.Create(ctx, lease, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the Lease: %w", err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("reading the Lease: %w", err)
	}
	m.mu.Lock()
	step := m.lease.observe(lease, m.fleet.holder, m.fleet.clock.Now(), m.fleet.intervals.LeaseExpiry)
	other := m.lease.holder
	m.mu.Unlock()
	switch step {
	case leaseWait:
		m.change(func(v *View) { v.OtherHolder = other })
		return nil
	case leaseTwoHubs:
		if leading, err := m.fleet.leading(ctx); err != nil || !leading {
			return err
		}
		// Taking the Lease shows the other hub that we are here: it counts our renewals in turn.
		m.change(func(v *View) { v.TwoHubs, v.OtherHolder = true, other })
	case leaseTake, leaseRenew:
		m.change(func(v *View) {
			if !v.TwoHubs {
				v.OtherHolder = ""
			}
		})
	}
	if err := m.prove(ctx); err != nil {
		return err
	}
	m.hold(lease)
	if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("renewing the Lease: %w", err)
	}
	return nil
}

// hold writes us into the Lease.
func (m *member) hold(lease *coordinationv1.Lease) {
	now := metav1.NewMicroTime(m.fleet.clock.Now())
	seconds := int32(m.fleet.intervals.LeaseExpiry / time.Second) //nolint:gosec // a minute or so
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != m.fleet.holder {
		lease.Spec.AcquireTime = &now
		transitions := int32(0)
		if lease.Spec.LeaseTransitions != nil {
			transitions = *lease.Spec.LeaseTransitions + 1
		}
		lease.Spec.LeaseTransitions = &transitions
	}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &m.fleet.holder, &now, &seconds
}
