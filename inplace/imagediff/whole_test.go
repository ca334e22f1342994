package imagediff_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/imagediff"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// spec is a template of one container with resources.
func web(resources, rest string) string {
	return `{"spec":{"containers":[{"name":"web","image":"a:1","resources":` + resources + rest + `}]}}`
}

// check compares a change or the refusals, each of which has to contain one of the wanted texts.
func check(t *testing.T, older, newer string, want inplace.Change, refused ...string) {
	t.Helper()
	got, err := imagediff.Between([]byte(older), []byte(newer))
	if len(refused) == 0 {
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		return
	}
	var refusal *imagediff.RefusalError
	if !errors.As(err, &refusal) || !got.Empty() {
		t.Fatalf("no refusal: %+v, %v", got, err)
	}
	for _, text := range refused {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not say %q", err, text)
		}
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	change := func(limits, requests corev1.ResourceList) inplace.Change {
		return inplace.Change{Resources: map[string]corev1.ResourceRequirements{"web": {Limits: limits, Requests: requests}}}
	}
	cases := map[string]struct {
		older, newer string
		want         inplace.Change
		refused      []string
	}{
		"O152: a cpu request": {
			older: web(`{"requests":{"cpu":"1"}}`, ""), newer: web(`{"requests":{"cpu":"2"}}`, ""), want: change(nil, list("cpu", "2")),
		},
		"only what changes": {
			older: web(`{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"2"}}`, ""), newer: web(`{"requests":{"cpu":"1","memory":"2Gi"},"limits":{"cpu":"3"}}`, ""),
			want: change(list("cpu", "3"), list("memory", "2Gi")),
		},
		"a limit alone is a request too, as the API server completes it": {
			older: web(`{"limits":{"cpu":"1"}}`, ""), newer: web(`{"limits":{"cpu":"2"}}`, ""), want: change(list("cpu", "2"), list("cpu", "2")),
		},
		"a request written that was the limit's": {
			older: web(`{"limits":{"cpu":"2"}}`, ""), newer: web(`{"limits":{"cpu":"2"},"requests":{"cpu":"1"}}`, ""), want: change(nil, list("cpu", "1")),
		},
		"a request written as it was": {older: web(`{"limits":{"cpu":"2"}}`, ""), newer: web(`{"limits":{"cpu":"2"},"requests":{"cpu":"2"}}`, "")},
		"written otherwise, the same amount: nothing": {
			older: web(`{"requests":{"cpu":"1","memory":"1Gi"}}`, ""), newer: web(`{"requests":{"cpu":"1000m","memory":"1024Mi"}}`, ""),
		},
		"a number is an amount": {older: web(`{"requests":{"cpu":1}}`, ""), newer: web(`{"requests":{"cpu":2}}`, ""), want: change(nil, list("cpu", "2"))},
		"O154: a limit where there was none": {
			older: web(`{"requests":{"cpu":"1"}}`, ""), newer: web(`{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}`, ""),
			refused: []string{"spec.containers[web].resources.limits[cpu]: cannot be added"},
		},
		"O154: a limit removed": {
			older: web(`{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}`, ""), newer: web(`{"requests":{"cpu":"1"}}`, ""),
			refused: []string{"spec.containers[web].resources.limits[cpu]: cannot be removed"},
		},
		"O154: a gpu": {
			older: web(`{"limits":{"nvidia.com/gpu":"1"}}`, ""), newer: web(`{"limits":{"nvidia.com/gpu":"2"}}`, ""),
			refused: []string{"limits[nvidia.com/gpu]: only cpu and memory"},
		},
		"O154: not a quantity": {
			older: web(`{"limits":{"cpu":"1"}}`, ""), newer: web(`{"limits":{"cpu":"much"}}`, ""), refused: []string{"limits[cpu]: is not a quantity"},
		},
		"O154: container index 2 of 2, a container that is not there": {
			older: web(`{}`, ""), newer: `{"spec":{"containers":[{"name":"web","image":"a:1"},{"name":"c","image":"c"}]}}`, refused: []string{"spec.containers[c]: an added"},
		},
		"claims": {
			older: web(`{"claims":[{"name":"a"}]}`, ""), newer: web(`{"claims":[{"name":"b"}]}`, ""), refused: []string{"resources.claims: changes need a recreate"},
		},
		"the resize policy": {
			older: web(`{}`, `,"resizePolicy":[{"resourceName":"cpu","restartPolicy":"NotRequired"}]`), newer: web(`{}`, `,"resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}]`),
			refused: []string{"spec.containers[web].resizePolicy: changes need a recreate"},
		},
		"B085: Burstable to Guaranteed": {
			older: web(`{"requests":{"cpu":"500m","memory":"1Gi"},"limits":{"cpu":"1","memory":"2Gi"}}`, ""),
			newer: web(`{"requests":{"cpu":"1","memory":"2Gi"},"limits":{"cpu":"1","memory":"2Gi"}}`, ""), refused: []string{"QoS class from Burstable to Guaranteed"},
		},
		"B085: Guaranteed to Burstable": {
			older: web(`{"limits":{"cpu":"1","memory":"2Gi"}}`, ""), newer: web(`{"limits":{"cpu":"1","memory":"2Gi"},"requests":{"cpu":"500m"}}`, ""),
			refused: []string{"QoS class from Guaranteed to Burstable"},
		},
		"Guaranteed stays so": {
			older: web(`{"limits":{"cpu":"1","memory":"2Gi"}}`, ""), newer: web(`{"limits":{"cpu":"2","memory":"2Gi"}}`, ""), want: change(list("cpu", "2"), list("cpu", "2")),
		},
		"a request to nothing: Burstable to BestEffort": {
			older: web(`{"requests":{"cpu":"1"}}`, ""), newer: web(`{"requests":{"cpu":"0"}}`, ""), refused: []string{"from Burstable to BestEffort"},
		},
		"a limit that the environment reads": {
			older: web(`{"limits":{"memory":"1Gi"}}`, `,"env":[{"name":"GOMEMLIMIT","valueFrom":{"resourceFieldRef":{"resource":"limits.memory"}}}]`),
			newer: web(`{"limits":{"memory":"2Gi"}}`, `,"env":[{"name":"GOMEMLIMIT","valueFrom":{"resourceFieldRef":{"resource":"limits.memory"}}}]`), refused: []string{"limits.memory of container web: is read by spec.containers[web].env[GOMEMLIMIT]"},
		},
		"a limit that another container's environment reads, though its resize restarts the one": {
			older:   `{"spec":{"containers":[{"name":"web","image":"a","resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}],"resources":{"requests":{"cpu":"1"}}},{"name":"side","image":"s","resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}],"env":[{"name":"C","valueFrom":{"resourceFieldRef":{"containerName":"web","resource":"requests.cpu"}}}]}]}}`,
			newer:   `{"spec":{"containers":[{"name":"web","image":"a","resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}],"resources":{"requests":{"cpu":"2"}}},{"name":"side","image":"s","resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}],"env":[{"name":"C","valueFrom":{"resourceFieldRef":{"containerName":"web","resource":"requests.cpu"}}}]}]}}`,
			refused: []string{"requests.cpu of container web: is read by spec.containers[side].env[C]"},
		},
		"resources of the pod decide the class": {
			older: `{"spec":{"resources":{"requests":{"cpu":"4"}},"containers":[{"name":"web","image":"a:1","resources":{"requests":{"cpu":"1"}}}]}}`,
			newer: `{"spec":{"resources":{"requests":{"cpu":"4"}},"containers":[{"name":"web","image":"a:1","resources":{"requests":{"cpu":"0"}}}]}}`,
			want:  change(nil, list("cpu", "0")),
		},
		"another resource than the environment reads": {
			older: web(`{"limits":{"memory":"1Gi"},"requests":{"cpu":"1"}}`, `,"env":[{"name":"L","valueFrom":{"resourceFieldRef":{"resource":"limits.memory"}}}]`),
			newer: web(`{"limits":{"memory":"1Gi"},"requests":{"cpu":"2"}}`, `,"env":[{"name":"L","valueFrom":{"resourceFieldRef":{"resource":"limits.memory"}}}]`), want: change(nil, list("cpu", "2")),
		},
		"a limit that the environment reads, and whose resize restarts the container": {
			older: web(`{"limits":{"memory":"1Gi"}}`, `,"resizePolicy":[{"resourceName":"memory","restartPolicy":"RestartContainer"}],"env":[{"name":"L","valueFrom":{"resourceFieldRef":{"resource":"limits.memory"}}}]`),
			newer: web(`{"limits":{"memory":"2Gi"}}`, `,"resizePolicy":[{"resourceName":"memory","restartPolicy":"RestartContainer"}],"env":[{"name":"L","valueFrom":{"resourceFieldRef":{"resource":"limits.memory"}}}]`),
			want:  change(list("memory", "2Gi"), list("memory", "2Gi")),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, tc.older, tc.newer, tc.want, tc.refused...)
		})
	}
}

func initial(sidecar, prep, app, rest string) string {
	return `{"metadata":{"labels":{"v":"` + rest + `"}},"spec":{"initContainers":[{"name":"prep","image":"` + prep + `"},{"name":"log","image":"` + sidecar + `","restartPolicy":"Always","env":[{"name":"V","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['w']"}}}]}],"containers":[{"name":"web","image":"` + app + `"}]}}`
}

// B081: the image of a native sidecar is changed in place.
func TestB081NativeSidecar(t *testing.T) {
	t.Parallel()
	check(t, initial("log:1", "p:1", "a:1", "1"), initial("log:2", "p:1", "a:1", "1"), inplace.Change{Images: map[string]string{"log": "log:2"}})
	resized := func(cpu string) string {
		return `{"spec":{"initContainers":[{"name":"log","image":"l","restartPolicy":"Always","resources":{"requests":{"cpu":"` + cpu + `"}}}],"containers":[{"name":"web","image":"a"}]}}`
	}
	check(t, resized("1"), resized("2"), inplace.Change{Resources: map[string]corev1.ResourceRequirements{"log": {Requests: list("cpu", "2")}}})
}

// B079: an init container's image alone is not an update in place; beside another change of what runs it is recorded.
func TestB079InitContainer(t *testing.T) {
	t.Parallel()
	const why = "spec.initContainers[prep].image: an init container has run already"
	check(t, initial("log:1", "p:1", "a:1", "1"), initial("log:1", "p:2", "a:1", "1"), inplace.Change{}, why)
	check(t, initial("log:1", "p:1", "a:1", "1"), initial("log:1", "p:2", "a:1", "2"), inplace.Change{}, why)
	check(t, initial("log:1", "p:1", "a:1", "1"), initial("log:1", "p:2", "a:2", "1"), inplace.Change{
		Images: map[string]string{"web": "a:2"}, InitImages: map[string]string{"prep": "p:2"},
	})
	sized := func(prep, cpu string) string {
		return `{"spec":{"initContainers":[{"name":"prep","image":"` + prep + `"}],"containers":[{"name":"web","image":"a","resources":{"requests":{"cpu":"` + cpu + `"}}}]}}`
	}
	check(t, sized("p:1", "1"), sized("p:2", "2"), inplace.Change{
		InitImages: map[string]string{"prep": "p:2"}, Resources: map[string]corev1.ResourceRequirements{"web": {Requests: list("cpu", "2")}},
	})
	prep := func(cpu string) string {
		return `{"spec":{"initContainers":[{"name":"prep","image":"p","resources":{"requests":{"cpu":"` + cpu + `"}}}],"containers":[{"name":"web","image":"a"}]}}`
	}
	check(t, prep("1"), prep("2"), inplace.Change{}, "spec.initContainers[prep].resources: an init container has run already and cannot be resized")
}

// B083: what may not be started again is not changed in place.
func TestB083RestartPolicy(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Never", "OnFailure"} {
		pod := func(image string) string {
			return `{"spec":{"restartPolicy":"` + policy + `","containers":[{"name":"web","image":"` + image + `"}]}}`
		}
		check(t, pod("a:1"), pod("a:2"), inplace.Change{}, "spec.containers[web].image: containers of a pod with restartPolicy "+policy)
		container := func(image string) string {
			return `{"spec":{"containers":[{"name":"web","image":"` + image + `","restartPolicy":"` + policy + `"}]}}`
		}
		check(t, container("a:1"), container("a:2"), inplace.Change{}, "a container with restartPolicy "+policy)
	}
}

// B077: the value of an annotation that the environment reads is taken as it is, with its "=".
func TestB077EnvironmentFromMetadata(t *testing.T) {
	t.Parallel()
	pod := func(value, image, side, path string) string {
		return `{"metadata":{"annotations":{"deployed":"` + value + `"}},"spec":{"containers":[{"name":"web","image":"` + image +
			`","env":[{"name":"DEPLOYED","valueFrom":{"fieldRef":{"fieldPath":"` + path + `"}}}]}],"initContainers":[{"name":"log","restartPolicy":"Always","image":"` + side +
			`","env":[{"name":"D","valueFrom":{"fieldRef":{"fieldPath":"` + path + `"}}}]}]}}`
	}
	const path, other = "metadata.annotations['deployed']", "metadata.annotations['else']"
	change := inplace.Change{
		Images: map[string]string{"web": "a:2", "log": "l:2"}, EnvFrom: []string{"log", "web"},
		Metadata: inplace.MetadataChange{Annotations: map[string]*string{"deployed": new("2024-01-02 m=+1.02")}},
	}
	check(t, pod("then", "a:1", "l:1", path), pod("2024-01-02 m=+1.02", "a:2", "l:2", path), change)
	check(t, pod("then", "a:1", "l:1", path), pod("now", "a:2", "l:1", path), inplace.Change{}, path+": is read by spec.initContainers[log].env[D] when the container starts", "only an agent on the node")
	check(t, pod("then", "a:1", "l:1", path), pod("now", "a:1", "l:2", path), inplace.Change{}, "spec.containers[web].env[DEPLOYED]")
	change.EnvFrom = nil
	change.Metadata.Annotations["deployed"] = new("now")
	check(t, pod("then", "a:1", "l:1", other), pod("now", "a:2", "l:2", other), change)
	// The API server accepts no other form; should one come, nobody knows what it reads.
	check(t, pod("then", "a:1", "l:2", `metadata.annotations`), pod("now", "a:1", "l:2", `metadata.annotations`), inplace.Change{}, "is read by")
	check(t, pod("then", "a:1", "l:2", `metadata.annotations[\"deployed\"]`), pod("now", "a:1", "l:2", `metadata.annotations[\"deployed\"]`), inplace.Change{}, "is read by")
}

// B029: tag and digest stay together, and two digests are two images, whatever the tag.
func TestB029TagAndDigest(t *testing.T) {
	t.Parallel()
	one, two := "@sha256:"+strings.Repeat("1", 64), "@sha256:"+strings.Repeat("2", 64)
	if got := imagediff.ParseImage("registry.a.test/team/app:v1" + one).String(); got != "registry.a.test/team/app:v1"+one {
		t.Error(got)
	}
	if imagediff.SameImage("app:v1"+one, "app:v1"+two) {
		t.Error("one tag, two digests")
	}
	check(t, `{"spec":{"containers":[{"name":"web","image":"r.test/app:v1`+one+`"}]}}`, `{"spec":{"containers":[{"name":"web","image":"m.test/app:v1`+one+`"}]}}`,
		inplace.Change{Images: map[string]string{"web": "m.test/app:v1" + one}})
}
