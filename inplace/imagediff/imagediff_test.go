package imagediff_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/imagediff"
)

func TestBetween(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		older, newer string
		want         inplace.Change
		wantRefused  []string
	}{
		"O146: an image": {
			older: `{"spec":{"containers":[{"name":"c1","image":"foo1"}]}}`,
			newer: `{"spec":{"containers":[{"name":"c1","image":"foo2"}]}}`,
			want:  inplace.Change{Images: map[string]string{"c1": "foo2"}},
		},
		"O147: an image and a new label": {
			older: `{"spec":{"containers":[{"name":"c1","image":"foo1"}]}}`,
			newer: `{"metadata":{"labels":{"k1":"v1"}},"spec":{"containers":[{"name":"c1","image":"foo2"}]}}`,
			want: inplace.Change{
				Images:   map[string]string{"c1": "foo2"},
				Metadata: inplace.MetadataChange{Labels: map[string]*string{"k1": new("v1")}},
			},
		},
		"O149: finalizers and labels come and go": {
			older: `{"metadata":{"labels":{"k2":"v2"},"finalizers":["fz1","fz2"]},"spec":{"containers":[{"name":"c1","image":"foo1"}]}}`,
			newer: `{"metadata":{"labels":{"k1":"v1"},"finalizers":["fz2"]},"spec":{"containers":[{"name":"c1","image":"foo2"}]}}`,
			want: inplace.Change{
				Images: map[string]string{"c1": "foo2"},
				Metadata: inplace.MetadataChange{
					Labels: map[string]*string{"k1": new("v1"), "k2": nil}, RemoveFinalizers: []string{"fz1"},
				},
			},
		},
		"metadata only: in place, nothing restarts": {
			older: `{"metadata":{"annotations":{"a":"1"}},"spec":{"containers":[{"name":"c1","image":"foo1"}]}}`,
			newer: `{"metadata":{"annotations":{"a":"2"},"finalizers":["f"]},"spec":{"containers":[{"name":"c1","image":"foo1"}]}}`,
			want: inplace.Change{Metadata: inplace.MetadataChange{
				Annotations: map[string]*string{"a": new("2")}, AddFinalizers: []string{"f"},
			}},
		},
		"nulls, empty maps, key order and creationTimestamp are no change": {
			older: `{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"image":"foo1","name":"c1","resources":{}}],"securityContext":{}}}`,
			newer: `{"spec":{"containers":[{"name":"c1","image":"foo1"}]}}`,
		},
		"one of two containers": {
			older: `{"spec":{"containers":[{"name":"a","image":"x:1"},{"name":"b","image":"y:1"}]}}`,
			newer: `{"spec":{"containers":[{"name":"a","image":"x:1"},{"name":"b","image":"y:2"}]}}`,
			want:  inplace.Change{Images: map[string]string{"b": "y:2"}},
		},
		"every field that forbids it is named, with its container": {
			older: `{"spec":{"containers":[{"name":"web","image":"a:1","env":[{"name":"X","value":"1"}]}],"hostNetwork":false}}`,
			newer: `{"spec":{"containers":[{"name":"web","image":"a:2","env":[{"name":"X","value":"2"}],"futureField":7}],"hostNetwork":true}}`,
			wantRefused: []string{
				"spec.containers[web].env: changes need a recreate",
				"spec.containers[web].futureField: changes need a recreate",
				"spec.hostNetwork: changes need a recreate",
			},
		},
		"a container added and one removed": {
			older:       `{"spec":{"containers":[{"name":"web","image":"a:1"},{"name":"old","image":"o"}]}}`,
			newer:       `{"spec":{"containers":[{"name":"web","image":"a:1"},{"name":"new","image":"o"}]}}`,
			wantRefused: []string{"spec.containers[new]: an added container needs a recreate", "spec.containers[old]: a removed container needs a recreate"},
		},
		"containers in another order": {
			older:       `{"spec":{"containers":[{"name":"a","image":"a:1"},{"name":"b","image":"o"}]}}`,
			newer:       `{"spec":{"containers":[{"name":"b","image":"o"},{"name":"a","image":"a:1"}]}}`,
			wantRefused: []string{"spec.containers: a change of order needs a recreate"},
		},
		"an image that is gone": {
			older:       `{"spec":{"containers":[{"name":"a","image":"a:1"}]}}`,
			newer:       `{"spec":{"containers":[{"name":"a"}]}}`,
			wantRefused: []string{"spec.containers[a].image: has no image"},
		},
		"a label that the environment reads, image unchanged": {
			older:       `{"metadata":{"labels":{"v":"1"}},"spec":{"containers":[{"name":"web","image":"a:1","env":[{"name":"V","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['v']"}}}]}]}}`,
			newer:       `{"metadata":{"labels":{"v":"2"}},"spec":{"containers":[{"name":"web","image":"a:1","env":[{"name":"V","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['v']"}}}]}]}}`,
			wantRefused: []string{"metadata.labels['v']: is read by spec.containers[web].env[V] when the container starts, and its image does not change; only an agent on the node could restart it: changes need a recreate"},
		},
		"a label that the environment reads, image changes too": {
			older: `{"metadata":{"labels":{"v":"1"}},"spec":{"containers":[{"name":"web","image":"a:1","env":[{"name":"V","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['v']"}}}]}]}}`,
			newer: `{"metadata":{"labels":{"v":"2"}},"spec":{"containers":[{"name":"web","image":"a:2","env":[{"name":"V","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['v']"}}}]}]}}`,
			want: inplace.Change{
				Images: map[string]string{"web": "a:2"}, EnvFrom: []string{"web"},
				Metadata: inplace.MetadataChange{Labels: map[string]*string{"v": new("2")}},
			},
		},
		"an annotation that a native sidecar reads": {
			older:       `{"metadata":{"annotations":{"v":"1"}},"spec":{"initContainers":[{"name":"s","image":"i","restartPolicy":"Always","env":[{"name":"V","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['v']"}}}]}],"containers":[{"name":"web","image":"a:1"}]}}`,
			newer:       `{"spec":{"initContainers":[{"name":"s","image":"i","restartPolicy":"Always","env":[{"name":"V","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['v']"}}}]}],"containers":[{"name":"web","image":"a:2"}]}}`,
			wantRefused: []string{"metadata.annotations['v']: is read by spec.initContainers[s].env[V] when the container starts, and its image does not change; only an agent on the node could restart it: changes need a recreate"},
		},
		"beside metadata and spec": {
			older:       `{"spec":{"containers":[{"name":"web","image":"a:1"}]}}`,
			newer:       `{"status":{"x":1},"metadata":{"name":"n"},"spec":{"containers":[{"name":"web","image":"a:1"}]}}`,
			wantRefused: []string{"metadata.name: changes need a recreate", "status: changes need a recreate"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := imagediff.Between([]byte(tc.older), []byte(tc.newer))
			if tc.wantRefused == nil {
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
				return
			}
			var refusal *imagediff.RefusalError
			if !errors.As(err, &refusal) {
				t.Fatalf("no refusal: %v, %v", got, err)
			}
			if diff := cmp.Diff(tc.wantRefused, refusal.Fields); diff != "" {
				t.Error(diff)
			}
			if !got.Empty() {
				t.Errorf("a refusal and a change: %+v", got)
			}
		})
	}
}

func TestO150AndWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	good := `{"spec":{"containers":[{"name":"a","image":"a:1"}]}}`
	for name, bad := range map[string]string{
		"O150: the old revision is missing": ``,
		"not JSON":                          `{`,
		"a list":                            `[]`,
		"spec is text":                      `{"spec":"x"}`,
		"containers are a map":              `{"spec":{"containers":{"a":1}}}`,
		"a container without a name":        `{"spec":{"containers":[{"image":"a"}]}}`,
		"two of one name":                   `{"spec":{"containers":[{"name":"a"},{"name":"a"}]}}`,
		"labels are a list":                 `{"metadata":{"labels":[1]},"spec":{"containers":[{"name":"a","image":"a:1"}]}}`,
		"a label is a number":               `{"metadata":{"labels":{"a":1}},"spec":{"containers":[{"name":"a","image":"a:1"}]}}`,
		"finalizers are text":               `{"metadata":{"finalizers":"a"},"spec":{"containers":[{"name":"a","image":"a:1"}]}}`,
		"a finalizer is a number":           `{"metadata":{"finalizers":[1]},"spec":{"containers":[{"name":"a","image":"a:1"}]}}`,
		"a key twice":                       `{"spec":{"containers":[{"name":"a","image":"a:1","image":"a:2"}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, pair := range [][2]string{{bad, good}, {good, bad}} {
				got, err := imagediff.Between([]byte(pair[0]), []byte(pair[1]))
				if err == nil || !got.Empty() {
					t.Errorf("%v, %v", got, err)
				}
			}
		})
	}
}

func TestSameImage(t *testing.T) {
	t.Parallel()
	digest := "@sha256:" + "0123456789012345678901234567890123456789012345678901234567890123"
	cases := map[string]struct {
		a, b string
		want bool
	}{
		"B027: the default tag":                   {"web", "web:latest", true},
		"B027: the default registry":              {"web", "docker.io/library/web:latest", true},
		"the legacy registry":                     {"index.docker.io/library/web", "web", true},
		"an organisation":                         {"org/web:v1", "docker.io/org/web:v1", true},
		"not a library image":                     {"org/web", "docker.io/library/org/web", false},
		"a registry with a port and no tag":       {"registry:5000/app", "registry:5000/app:latest", true},
		"the port is not a tag":                   {"registry:5000/app", "registry:5001/app", false},
		"localhost is a registry":                 {"localhost/app", "docker.io/localhost/app", false},
		"tags differ":                             {"web:v1", "web:v2", false},
		"tag and digest":                          {"web:v1" + digest, "web:v1" + digest, true},
		"with two digests the tags say nothing":   {"web:v1" + digest, "web:v2" + digest, true},
		"a digest is not a tag":                   {"web" + digest, "web:latest", false},
		"tag and digest against the tag alone":    {"web:v1" + digest, "web:v1", false},
		"nothing equals nothing: it is not known": {"", "", false},
		"nothing is no image":                     {"web", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := imagediff.SameImage(tc.a, tc.b); got != tc.want {
				t.Errorf("%v: %s %s", got, imagediff.ParseImage(tc.a), imagediff.ParseImage(tc.b))
			}
			if imagediff.SameImage(tc.a, tc.b) != imagediff.SameImage(tc.b, tc.a) {
				t.Error("not symmetric")
			}
		})
	}
}

// The complete form of a name is the same image, and complete already.
func FuzzParseImage(f *testing.F) {
	for _, seed := range []string{"web", "web:v1", "r:5000/a/b:c@sha256:d", "@", ":", "/", "a//b", "localhost", "A/b", "index.docker.io/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		once := imagediff.ParseImage(name)
		if name != "" && !imagediff.SameImage(name, name) {
			t.Errorf("%q is not itself", name)
		}
		if once.Path == "" || once.Path == "library/" {
			return // not a name
		}
		if twice := imagediff.ParseImage(once.String()); twice != once {
			t.Errorf("%q: %+v, then %+v", name, once, twice)
		}
	})
}

// FuzzBetween: templates of anybody never panic; what does not change is no change, and an image that is named in the change
// is the newer one.
func FuzzBetween(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"spec":{"containers":[{"name":"web","image":"a"}]}}`, `{"spec":{"containers":[{"name":"web","image":"b"}]}}`},
		{`{"metadata":{"labels":{"a":"b"}},"spec":{}}`, `{"metadata":{"labels":null},"spec":{"containers":[]}}`},
		{`{"spec":{"initContainers":[{"name":"s","image":"a","restartPolicy":"Always"}]}}`, `{"spec":{"initContainers":[{"name":"s","image":1}]}}`},
		{`{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"1"}}}]}}`, `{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":[]}}}]}}`},
		{`{}`, `[]`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, older, newer []byte) {
		if change, err := imagediff.Between(older, older); err == nil && !change.Empty() {
			t.Errorf("%s differs from itself: %+v", older, change)
		}
		change, err := imagediff.Between(older, newer)
		if err != nil {
			if !change.Empty() {
				t.Errorf("refused, and a change: %+v", change)
			}
			return
		}
		for name, image := range change.Images {
			if name == "" || image == "" || !strings.Contains(string(newer), "image") {
				t.Errorf("%q to %q", name, image)
			}
		}
	})
}
