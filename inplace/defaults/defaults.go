package defaults

import (
	"bytes"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Values that the API server writes where nothing is said.
const (
	terminationGrace = 30
	fileMode         = 0o644
	tokenExpires     = 3600
	probeTimeout     = 1
	probePeriod      = 10
	probeFailures    = 3
)

// Equal reports whether two templates, raw JSON, are the same with their defaults written out. What cannot be read equals
// nothing.
func Equal(a, b []byte) bool {
	one, ok := read(a)
	other, okToo := read(b)
	return ok && okToo && equality.Semantic.DeepEqual(one, other)
}

// read is the template with its defaults.
func read(raw []byte) (*corev1.PodTemplateSpec, bool) {
	t := &corev1.PodTemplateSpec{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(t) != nil {
		return nil, false
	}
	pod := &t.Spec
	set(&pod.RestartPolicy, corev1.RestartPolicyAlways)
	set(&pod.DNSPolicy, corev1.DNSClusterFirst)
	set(&pod.SchedulerName, corev1.DefaultSchedulerName)
	point(&pod.TerminationGracePeriodSeconds, terminationGrace)
	if pod.SecurityContext == nil {
		pod.SecurityContext = &corev1.PodSecurityContext{}
	}
	// The older name is kept beside the newer one.
	set(&pod.DeprecatedServiceAccount, pod.ServiceAccountName)
	set(&pod.ServiceAccountName, pod.DeprecatedServiceAccount)
	for i := range pod.InitContainers {
		container(&pod.InitContainers[i], pod.HostNetwork)
	}
	for i := range pod.Containers {
		container(&pod.Containers[i], pod.HostNetwork)
	}
	for i := range pod.Volumes {
		volume(&pod.Volumes[i].VolumeSource)
	}
	return t, true
}

func set[T comparable](field *T, value T) {
	var nothing T
	if *field == nothing {
		*field = value
	}
}

func point[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func container(c *corev1.Container, hostNetwork bool) {
	set(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	set(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	set(&c.ImagePullPolicy, pullPolicy(c.Image))
	for i := range c.Ports {
		set(&c.Ports[i].Protocol, corev1.ProtocolTCP)
		if hostNetwork {
			set(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			set(&from.FieldRef.APIVersion, "v1")
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		probe(p)
	}
	if c.Lifecycle != nil {
		handler(c.Lifecycle.PostStart)
		handler(c.Lifecycle.PreStop)
	}
	if c.SecurityContext != nil {
		point(&c.SecurityContext.ProcMount, corev1.DefaultProcMount)
	}
}

// pullPolicy is Always for the tag latest, and for none.
func pullPolicy(image string) corev1.PullPolicy {
	name := image[strings.LastIndexByte(image, '/')+1:]
	_, tag, tagged := strings.Cut(name, ":")
	if strings.Contains(name, "@") || tagged && tag != "latest" {
		return corev1.PullIfNotPresent
	}
	return corev1.PullAlways
}

func probe(p *corev1.Probe) {
	if p == nil {
		return
	}
	set(&p.TimeoutSeconds, probeTimeout)
	set(&p.PeriodSeconds, probePeriod)
	set(&p.SuccessThreshold, 1)
	set(&p.FailureThreshold, probeFailures)
	get(p.HTTPGet)
	if p.GRPC != nil {
		point(&p.GRPC.Service, "")
	}
}

func handler(h *corev1.LifecycleHandler) {
	if h != nil {
		get(h.HTTPGet)
	}
}

func get(h *corev1.HTTPGetAction) {
	if h == nil {
		return
	}
	set(&h.Path, "/")
	set(&h.Scheme, corev1.URISchemeHTTP)
	if h.Port.Type == intstr.String && h.Port.StrVal == "" {
		h.Port = intstr.IntOrString{}
	}
}

func volume(v *corev1.VolumeSource) {
	switch {
	case v.Secret != nil:
		point(&v.Secret.DefaultMode, fileMode)
	case v.ConfigMap != nil:
		point(&v.ConfigMap.DefaultMode, fileMode)
	case v.DownwardAPI != nil:
		point(&v.DownwardAPI.DefaultMode, fileMode)
		downward(v.DownwardAPI.Items)
	case v.HostPath != nil:
		point(&v.HostPath.Type, corev1.HostPathUnset)
	case v.Projected != nil:
		point(&v.Projected.DefaultMode, fileMode)
		for i := range v.Projected.Sources {
			source := &v.Projected.Sources[i]
			if source.DownwardAPI != nil {
				downward(source.DownwardAPI.Items)
			}
			if source.ServiceAccountToken != nil {
				point(&source.ServiceAccountToken.ExpirationSeconds, tokenExpires)
			}
		}
	}
}

func downward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		if items[i].FieldRef != nil {
			set(&items[i].FieldRef.APIVersion, "v1")
		}
	}
}
