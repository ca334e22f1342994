package partition

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// defaultMaxUnavailable is upstream's default.
const defaultMaxUnavailable = "20%"

// Old is how many of replicas stay on the old revision: 0 when v is nil; a number as it is; a percent rounded up and, as
// long as it is below 100% and replicas above 1, at most replicas-1. Clamped to 0..replicas.
// The error names the value and the remedy; the caller adds the field.
func Old(v *intstr.IntOrString, replicas int32) (int32, error) {
	replicas = max(replicas, 0)
	if v == nil {
		return 0, nil
	}
	n, percent, err := read(v)
	if err != nil {
		return 0, err
	}
	if percent == nil {
		return min(n, replicas), nil
	}
	if percent.Full() {
		return replicas, nil
	}
	n = percent.Up(replicas)
	if replicas > 1 && n >= replicas {
		n = replicas - 1
	}
	return min(n, replicas), nil
}

// OldDaemons is Old for DaemonSets, whose percents are rounded down (B003). It is named apart so that nobody mixes them.
func OldDaemons(v *intstr.IntOrString, desired int32) (int32, error) {
	desired = max(desired, 0)
	if v == nil {
		return 0, nil
	}
	n, percent, err := read(v)
	if err != nil {
		return 0, err
	}
	if percent != nil {
		n = percent.Down(desired)
	}
	return min(n, desired), nil
}

// MaxSurge is how many pods more than replicas may exist: 0 when v is nil; a percent is rounded up.
func MaxSurge(v *intstr.IntOrString, replicas int32) (int32, error) {
	if v == nil {
		return 0, nil
	}
	n, percent, err := read(v)
	if err != nil {
		return 0, err
	}
	if percent != nil {
		n = percent.Up(replicas)
	}
	return n, nil
}

// MaxUnavailable is how many of replicas may be unavailable: 20% when v is nil; a percent is rounded up without surge and
// down with it (surge is the resolved maxSurge). Clamped to replicas.
func MaxUnavailable(v *intstr.IntOrString, surge, replicas int32) (int32, error) {
	replicas = max(replicas, 0)
	if v == nil {
		v = &intstr.IntOrString{Type: intstr.String, StrVal: defaultMaxUnavailable}
	}
	n, percent, err := read(v)
	switch {
	case err != nil:
		return 0, err
	case percent != nil && surge > 0:
		n = percent.Down(replicas)
	case percent != nil:
		n = percent.Up(replicas)
	}
	return min(n, replicas), nil
}

// Limit is a plain bound such as scaleStrategy.maxUnavailable: a percent is rounded up; v must not be nil.
func Limit(v *intstr.IntOrString, replicas int32) (int32, error) {
	if v == nil {
		return 0, fmt.Errorf("no value")
	}
	return MaxSurge(v, replicas)
}

// Check reports whether v can be read, without asking for replicas. Nil can.
func Check(v *intstr.IntOrString) error {
	if v == nil {
		return nil
	}
	_, _, err := read(v)
	return err
}

// Hold is the value that keeps every pod of a CloneSet on the old revision under any scaling.
func Hold() intstr.IntOrString {
	return intstr.FromString("100%")
}
