package defaults

import (
	"testing"

	"sigs.k8s.io/yaml"
)

func TestEqual(t *testing.T) {
	t.Parallel()
	// As a person writes it, and as apps/v1 stores it.
	const written = `
metadata: {labels: {app: db}}
spec:
  serviceAccountName: robot
  initContainers: [{name: first, image: "busybox:1.36"}]
  containers:
  - name: main
    image: "registry.test:5000/app"
    ports: [{containerPort: 80}]
    env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    resources: {requests: {cpu: "0.5"}}
    readinessProbe: {httpGet: {port: 80}}
    livenessProbe: {grpc: {port: 81}}
  volumes:
  - {name: a, configMap: {name: a}}
  - {name: b, projected: {sources: [{serviceAccountToken: {path: t}}]}}
  - {name: c, hostPath: {path: /c}}`
	const stored = `
metadata: {creationTimestamp: null, labels: {app: db}}
spec:
  serviceAccountName: robot
  serviceAccount: robot
  restartPolicy: Always
  dnsPolicy: ClusterFirst
  schedulerName: default-scheduler
  terminationGracePeriodSeconds: 30
  securityContext: {}
  initContainers: [{name: first, image: "busybox:1.36", imagePullPolicy: IfNotPresent, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}]
  containers:
  - name: main
    image: "registry.test:5000/app"
    imagePullPolicy: Always
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
    ports: [{containerPort: 80, protocol: TCP}]
    env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}]
    resources: {requests: {cpu: 500m}}
    readinessProbe: {httpGet: {port: 80, path: /, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3}
    livenessProbe: {grpc: {port: 81, service: ""}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3}
  volumes:
  - {name: a, configMap: {name: a, defaultMode: 420}}
  - {name: b, projected: {defaultMode: 420, sources: [{serviceAccountToken: {path: t, expirationSeconds: 3600}}]}}
  - {name: c, hostPath: {path: /c, type: ""}}`
	for name, tc := range map[string]struct {
		a, b string
		want bool
	}{
		"defaults":                {written, stored, true},
		"the same":                {written, written, true},
		"another image":           {`{spec: {containers: [{name: a, image: "a:1"}]}}`, `{spec: {containers: [{name: a, image: "a:2"}]}}`, false},
		"no default":              {`{spec: {containers: [{name: a, image: "a:1"}]}}`, `{spec: {dnsPolicy: Default, containers: [{name: a, image: "a:1"}]}}`, false},
		"another pull policy":     {`{spec: {containers: [{name: a, image: "a:1"}]}}`, `{spec: {containers: [{name: a, image: "a:1", imagePullPolicy: Always}]}}`, false},
		"a digest":                {`{spec: {containers: [{name: a, image: "a@sha256:0"}]}}`, `{spec: {containers: [{name: a, image: "a@sha256:0", imagePullPolicy: IfNotPresent}]}}`, true},
		"a field of a later time": {`{spec: {later: 1, containers: []}}`, `{spec: {later: 1, containers: []}}`, false},
		"another label":           {`{metadata: {labels: {a: b}}, spec: {containers: []}}`, `{spec: {containers: []}}`, false},
		"none":                    {`[]`, `[]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := yaml.YAMLToJSON([]byte(tc.a))
			if err != nil {
				t.Fatal(err)
			}
			b, err := yaml.YAMLToJSON([]byte(tc.b))
			if err != nil {
				t.Fatal(err)
			}
			if got := Equal(a, b); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
