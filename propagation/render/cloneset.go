package render

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// placeCloneSet writes into the shape the template uses: flat (v1alpha1) or nested in rollingUpdate (v1beta1); flat
// where nothing shows the shape. Both in one template are refused.
func placeCloneSet(spec map[string]any, in Input) error {
	strategy, err := childMap(spec, "updateStrategy")
	if err != nil {
		return err
	}
	at, err := rolloutOf(strategy)
	if err != nil {
		return err
	}
	own, err := childBool(at, "paused")
	if err != nil {
		return fmt.Errorf("updateStrategy: %w", err)
	}
	at["paused"] = own || in.Paused
	at["partition"] = partitionValue(in.Partition)
	spec["updateStrategy"] = strategy
	return nil
}

// rolloutOf is the object that holds partition and paused, attached to strategy.
func rolloutOf(strategy map[string]any) (map[string]any, error) {
	flat := false
	for _, field := range []string{
		"partition", "maxUnavailable", "maxSurge", "paused", "priorityStrategy", "scatterStrategy", "inPlaceUpdateStrategy",
	} {
		flat = flat || strategy[field] != nil
	}
	typ, nested := strategy["type"], strategy["rollingUpdate"] != nil
	switch typ {
	case nil, "":
	case "ReCreate", "InPlaceIfPossible", "InPlaceOnly":
		flat = true
	case "RollingUpdate", "OnDelete":
		nested = true
	default:
		return nil, fmt.Errorf("updateStrategy.type %v is not known", typ)
	}
	if flat && nested {
		return nil, errBothShapes
	}
	if !nested {
		return strategy, nil
	}
	rolling, err := childMap(strategy, "rollingUpdate")
	if err != nil {
		return nil, fmt.Errorf("updateStrategy: %w", err)
	}
	strategy["rollingUpdate"] = rolling
	return rolling, nil
}

func partitionValue(p Partition) any {
	switch {
	case p.Hold:
		return HoldPercent
	case p.Value.Type == intstr.String:
		return p.Value.StrVal
	default:
		return int64(p.Value.IntVal)
	}
}
