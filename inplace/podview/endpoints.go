package podview

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// Naming is how one endpoint names a pod.
type Naming string

// Values of Naming.
const (
	// NamedNot: the endpoint is of something else.
	NamedNot Naming = "Not"
	// NamedUnready: named, and taken out of service.
	NamedUnready Naming = "Unready"
	// NamedReady: traffic may arrive.
	NamedReady Naming = "Ready"
	// NamedPublished: ready is true though serving is false: the Service publishes not-ready addresses, so waiting for
	// its endpoint to turn unready would be waiting forever.
	NamedPublished Naming = "Published"
)

// NamingOf says how an endpoint names the pod of that name in the endpoint's namespace.
func NamingOf(endpoint *discoveryv1.Endpoint, pod string) Naming {
	ref := endpoint.TargetRef
	if ref == nil || ref.Kind != "Pod" || ref.Name != pod {
		return NamedNot
	}
	ready := ptr.Deref(endpoint.Conditions.Ready, true)
	serving := ptr.Deref(endpoint.Conditions.Serving, ready)
	switch {
	case !ready:
		return NamedUnready
	case !serving:
		return NamedPublished
	default:
		return NamedReady
	}
}

// Endpoints is which EndpointSlices name a pod.
type Endpoints struct {
	// Ready lists it as ready; Published although it is not. Sorted.
	Ready     []string
	Published []string
}

// EndpointsOf reads the slices of the pod's namespace.
func EndpointsOf(slicesOfNamespace []*discoveryv1.EndpointSlice, pod string) Endpoints {
	var e Endpoints
	for _, s := range slicesOfNamespace {
		e.add(s, pod)
	}
	slices.Sort(e.Ready)
	slices.Sort(e.Published)
	return e
}

func (e *Endpoints) add(s *discoveryv1.EndpointSlice, pod string) {
	named := NamedNot
	for i := range s.Endpoints {
		switch n := NamingOf(&s.Endpoints[i], pod); n {
		case NamedReady:
			named = NamedReady
		case NamedPublished:
			if named != NamedReady {
				named = NamedPublished
			}
		case NamedNot, NamedUnready:
		}
	}
	switch named {
	case NamedReady:
		e.Ready = append(e.Ready, s.Name)
	case NamedPublished:
		e.Published = append(e.Published, s.Name)
	case NamedNot, NamedUnready:
	}
}
