package plan

import (
	appsv1 "k8s.io/api/apps/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// readTemplate reads the embedded spec; at is its path.
func (p *pass) readTemplate(at string) {
	var unknown []string
	var err error
	switch KindName(p.workload.Kind) {
	case KindName(render.CloneSet()):
		unknown, err = p.readCloneSet(at)
	case KindName(render.AdvancedStatefulSet()):
		unknown, err = p.readAdvanced(at)
	case KindName(render.StatefulSet()):
		unknown, err = p.readStatefulSet(at)
	default:
		unknown, err = p.readDeployment(at)
	}
	if err != nil {
		p.invalid = append(p.invalid, at+"spec: "+err.Error())
	}
	for _, field := range unknown {
		p.unknown = append(p.unknown, at+"spec."+field)
	}
}

// found notes problems and fields without effect, as paths below at.
func (p *pass) found(at string, problems, unacted []string) {
	for _, problem := range problems {
		p.invalid = append(p.invalid, at+problem)
	}
	for _, field := range unacted {
		p.unacted = append(p.unacted, at+field)
	}
}

func (p *pass) readCloneSet(at string) ([]string, error) {
	spec, unknown, err := appsv1alpha1.DecodeCloneSetSpec(p.workload.Spec)
	if err != nil {
		return nil, err
	}
	if spec.Selector == nil {
		spec.Selector = p.United.Spec.Selector // the hub writes the child's selector
	}
	p.found(at, spec.Problems(), spec.NotActedOn())
	rollout, err := spec.Rollout()
	p.moves(at, rollout.Policy, rollout.OnDelete, err)
	return unknown, nil
}

// moves notes how pods move by a strategy, unless that cannot be read.
func (p *pass) moves(at string, policy appsv1alpha1.CloneSetUpdateStrategyType, onDelete bool, err error) {
	if err != nil && len(p.invalid) == 0 {
		p.invalid = append(p.invalid, at+err.Error())
	}
	p.inPlaceOnly, p.onDelete = policy == appsv1alpha1.InPlaceOnlyUpdate, onDelete
}

func (p *pass) readAdvanced(at string) ([]string, error) {
	spec, unknown, err := appsv1alpha1.DecodeStatefulSetSpec(p.workload.Spec)
	if err != nil {
		return nil, err
	}
	if spec.Selector == nil {
		spec.Selector = p.United.Spec.Selector
	}
	p.found(at, spec.Problems(), spec.NotActedOn())
	rollout, err := spec.Rollout()
	p.moves(at, rollout.Policy, rollout.OnDelete, err)
	return unknown, nil
}

// readStatefulSet reads Kubernetes' own. What its API server refuses besides becomes the outcome of the write.
func (p *pass) readStatefulSet(at string) ([]string, error) {
	var spec appsv1.StatefulSetSpec
	unknown, err := appsv1alpha1.DecodeNative(p.workload.Spec, &spec)
	if err != nil {
		return nil, err
	}
	switch spec.UpdateStrategy.Type {
	case "", appsv1.RollingUpdateStatefulSetStrategyType:
	case appsv1.OnDeleteStatefulSetStrategyType:
		p.onDelete = true
	case appsv1.RecreateStatefulSetStrategyType:
		p.found(at, []string{"spec.updateStrategy.type: Recreate cannot be held, nor bounded; write RollingUpdate or OnDelete"}, nil)
	default:
		p.found(at, []string{"spec.updateStrategy.type: it must be RollingUpdate or OnDelete"}, nil)
	}
	return unknown, nil
}

// readDeployment reads Kubernetes' own.
func (p *pass) readDeployment(at string) ([]string, error) {
	var spec appsv1.DeploymentSpec
	unknown, err := appsv1alpha1.DecodeNative(p.workload.Spec, &spec)
	if err != nil {
		return nil, err
	}
	switch spec.Strategy.Type {
	case "", appsv1.RollingUpdateDeploymentStrategyType, appsv1.RecreateDeploymentStrategyType:
	default:
		p.found(at, []string{"spec.strategy.type: it must be RollingUpdate or Recreate"}, nil)
	}
	return unknown, nil
}
