package render

import (
	"errors"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// place writes partition and paused where a kind keeps them.
type place func(spec map[string]any, in Input) error

// places is the table by kind.
func places(k Kind) (place, error) {
	table := map[schema.GroupVersionKind]place{
		CloneSet().GVK:            placeCloneSet,
		AdvancedStatefulSet().GVK: placeAdvanced,
		StatefulSet().GVK:         placeStatefulSet,
		Deployment().GVK:          placeDeployment,
	}
	p, ok := table[k.GVK]
	if !ok {
		return nil, fmt.Errorf("%s: %w", k.GVK.GroupKind(), ErrUnsupportedKind)
	}
	return p, nil
}

// placeAdvanced writes a count of pods, which ordinals.start and reserveOrdinals do not shift.
func placeAdvanced(spec map[string]any, in Input) error {
	rolling, err := rollingUpdateOf(spec)
	if err != nil || rolling == nil {
		return err
	}
	own, err := childBool(rolling, "paused")
	if err != nil {
		return fmt.Errorf("updateStrategy.rollingUpdate: %w", err)
	}
	old, err := oldPods(in)
	if err != nil {
		return err
	}
	rolling["paused"], rolling["partition"] = own || in.Paused, old
	return nil
}

// placeStatefulSet writes an ordinal: the pods at or above it move.
func placeStatefulSet(spec map[string]any, in Input) error {
	rolling, err := rollingUpdateOf(spec)
	if err != nil || rolling == nil {
		return err
	}
	start, err := firstOrdinal(spec)
	if err != nil {
		return err
	}
	in.Partition.Hold = in.Partition.Hold || in.Paused
	old, err := oldPods(in)
	if err != nil {
		return err
	}
	if old > 0 {
		// 0 releases every pod, those below a start that was moved up and are about to go as well.
		old = min(old+start, HoldOrdinal)
	}
	rolling["partition"] = old
	return nil
}

func firstOrdinal(spec map[string]any) (int64, error) {
	ordinals, err := childMap(spec, "ordinals")
	if err != nil {
		return 0, err
	}
	start := ordinals["start"]
	if start == nil {
		return 0, nil
	}
	n, ok := start.(int64)
	if !ok || n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("ordinals.start is %v, want a number of 0 or more", start)
	}
	return n, nil
}

// placeDeployment writes paused alone.
func placeDeployment(spec map[string]any, in Input) error {
	own, err := childBool(spec, "paused")
	if err != nil {
		return err
	}
	if !in.Partition.Hold && in.Partition.Value != intstr.FromInt32(0) {
		return fmt.Errorf("a Deployment cannot be held in part, and the partition is %s", in.Partition.Value.String())
	}
	spec["paused"] = own || in.Paused
	return nil
}

// rollingUpdateOf is the object that holds a StatefulSet's partition, attached; nil with OnDelete, where pods move when
// somebody deletes them and the API server refuses the object.
func rollingUpdateOf(spec map[string]any) (map[string]any, error) {
	strategy, err := childMap(spec, "updateStrategy")
	if err != nil {
		return nil, err
	}
	switch strategy["type"] {
	case nil, "", "RollingUpdate":
	case "OnDelete":
		return nil, nil //nolint:nilnil // no place is an answer
	default:
		return nil, fmt.Errorf("updateStrategy.type %v is not known", strategy["type"])
	}
	rolling, err := childMap(strategy, "rollingUpdate")
	if err != nil {
		return nil, fmt.Errorf("updateStrategy: %w", err)
	}
	strategy["rollingUpdate"] = rolling
	spec["updateStrategy"] = strategy
	return rolling, nil
}

var errPartition = errors.New("the partition is neither a number of 0 or more nor a whole percent up to 100%")

// oldPods is the partition as a number of pods. A percent counts of the replicas, rounded towards
// old; where somebody else scales the child it is the hold.
func oldPods(in Input) (int64, error) {
	p := in.Partition
	if p.Hold {
		return HoldOrdinal, nil
	}
	if p.Value.Type == intstr.Int {
		if p.Value.IntVal < 0 {
			return 0, fmt.Errorf("%w: %d", errPartition, p.Value.IntVal)
		}
		return int64(p.Value.IntVal), nil
	}
	percent, err := intstr.GetScaledValueFromIntOrPercent(&p.Value, 100, true)
	if err != nil || percent < 0 || percent > 100 {
		return 0, fmt.Errorf("%w: %q", errPartition, p.Value.StrVal)
	}
	live := in.Replicas
	switch {
	case percent == 0:
		return 0, nil
	case percent == 100 || live == nil || *live <= 0:
		return HoldOrdinal, nil
	}
	return (int64(*live)*int64(percent) + 99) / 100, nil
}
