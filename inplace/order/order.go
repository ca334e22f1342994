package order

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/underway-dev/underway/inplace"
)

// Default moves first who is missed least: pods without a node, then pods that have not started, then those that are not
// ready, not available, then the younger; ties end at the name.
func Default(a, b inplace.Pod) int {
	return cmp.Or(NotReadyFirst(a, b), b.Created.Compare(a.Created), Name(a, b))
}

// NotReadyFirst is Default without the age and the name: 0 means that the two are missed alike.
func NotReadyFirst(a, b inplace.Pod) int {
	return cmp.Or(
		falseFirst(a.Node != "", b.Node != ""),
		falseFirst(a.Phase != inplace.PhasePending, b.Phase != inplace.PhasePending),
		falseFirst(a.Ready, b.Ready),
		falseFirst(a.Available, b.Available),
	)
}

// OrdinalDescending orders by the number at the end of the name, largest first; names without one come last.
func OrdinalDescending(a, b inplace.Pod) int {
	return cmp.Or(cmp.Compare(ordinal(b.Name), ordinal(a.Name)), Name(a, b))
}

// ByNode orders by node name, then by name.
func ByNode(a, b inplace.Pod) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), Name(a, b))
}

// Name orders by namespace and name, which makes every order total.
func Name(a, b inplace.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// DrainedFirst puts pods first that are out of service because of us: they wait for nothing but their patch.
func DrainedFirst(a, b inplace.Pod) int {
	return falseFirst(a.Gate != inplace.GateFalse, b.Gate != inplace.GateFalse)
}

func ordinal(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		return -1
	}
	return n
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
