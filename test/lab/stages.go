package lab

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
)

//go:embed stages/pod.jq
var podRules string

//go:embed stages/pod.tmpl
var podStatus string

// nodeConditions is what a healthy kubelet reports of its node.
const nodeConditions = `{{ $now := Now }}
conditions:
- {type: Ready, status: "True", reason: KubeletReady, message: kubelet is posting ready status, lastHeartbeatTime: {{ $now | Quote }}, lastTransitionTime: {{ $now | Quote }}}
- {type: MemoryPressure, status: "False", reason: KubeletHasSufficientMemory, lastHeartbeatTime: {{ $now | Quote }}, lastTransitionTime: {{ $now | Quote }}}
- {type: DiskPressure, status: "False", reason: KubeletHasNoDiskPressure, lastHeartbeatTime: {{ $now | Quote }}, lastTransitionTime: {{ $now | Quote }}}
- {type: PIDPressure, status: "False", reason: KubeletHasSufficientPID, lastHeartbeatTime: {{ $now | Quote }}, lastTransitionTime: {{ $now | Quote }}}
`

// stage is a KWOK Stage: what is selected, after which delay, and what is done.
type stage struct {
	name, kind string
	// guards are cheap conditions that are looked at first: key takes long enough
	// to show when hundreds of pods change at once.
	guards []guard
	// key is a jq expression, value what it must yield.
	key, value string
	// delay is a jq expression for a duration or a time; empty for none.
	delay string
	steps []any
}

// guard is a condition of a KWOK selector.
type guard struct {
	key, operator string
	values        []string
}

func exists(key string) guard { return guard{key: key, operator: "Exists"} }
func absent(key string) guard { return guard{key: key, operator: "DoesNotExist"} }

// podGuards are what holds for every pod whose next stage is the named one.
func podGuards(name string) []guard {
	const deleted, statuses = ".metadata.deletionTimestamp", ".status.containerStatuses"
	const anyStatus = "((.status.containerStatuses // []) + (.status.initContainerStatuses // []))[]"
	running := []guard{absent(deleted), exists(statuses)}
	switch name {
	case "delete", "terminate":
		return []guard{exists(deleted)}
	case "create":
		return []guard{absent(deleted), absent(statuses)}
	case "complete":
		return append(running, guard{key: ".spec.restartPolicy", operator: "NotIn", values: []string{"Always"}})
	case "crash":
		return append(running, guard{key: anyStatus + ".state.waiting.reason", operator: "In", values: []string{"CrashLoopBackOff"}})
	case "started":
		return append(running, guard{key: anyStatus + ".started", operator: "In", values: []string{"false"}})
	default:
		return running
	}
}

// podStages are the life of a pod on a simulated node; pod.jq decides which of
// them is next.
func podStages() []stage {
	status := func(name string) any {
		// The patch carries the resourceVersion it was made for: KWOK works on
		// snapshots, and one that is out of date must not undo a newer one.
		return map[string]any{"patch": map[string]any{
			"subresource": "status",
			"type":        "strategic",
			"template":    fmt.Sprintf("{{- $stage := %q -}}\n%s", name, podStatus),
		}}
	}
	remove := map[string]any{"delete": true}
	stop := `"\([(containers | slowest("slow-stop")), (.metadata.deletionGracePeriodSeconds // 0) * 1000] | min | if . == 0 then 50 else . end)ms"`
	pod := func(name, delay string, steps ...any) stage {
		if steps == nil {
			steps = []any{status(name)}
		}
		return stage{name: "pod-" + name, kind: "Pod", guards: podGuards(name), key: podRules + "next", value: name, delay: podRules + delay, steps: steps}
	}
	return []stage{
		pod("create", `"\(200 + (containers | slowest("slow-pull")))ms"`),
		pod("report", `"20ms"`),
		pod("update", `"\(400 + (unsettled | slowest("slow-pull")))ms"`),
		pod("started", `. as $pod | [starting[] | . as $c | status($pod; .name).state.running.startedAt | plus($c | ms("slow-start") / 1000 | ceil)] | max`),
		pod("crash", `[crashed[] | . as $s | .lastState.terminated.finishedAt | plus([10 * pow(2; $s.restartCount), 300] | min)] | min`),
		pod("complete", `"1s"`),
		pod("terminate", stop, status("terminate"), remove),
		pod("delete", stop, remove),
		// Nothing to do. It drops what KWOK still has queued for an older version
		// of the pod, and tells a restarted KWOK which addresses are taken.
		pod("idle", `"0s"`, map[string]any{"patch": map[string]any{"subresource": "status", "root": "status", "template": "{}"}}),
	}
}

func nodeStage() stage {
	return stage{
		name: "node-ready", kind: "Node",
		key:   `[(.status.conditions // [])[] | select(.type == "Ready" and .status == "True")] | length > 0`,
		value: "false",
		steps: []any{map[string]any{"patch": map[string]any{"subresource": "status", "root": "status", "template": nodeConditions}}},
	}
}

func (s stage) document() map[string]any {
	var conditions []any
	for _, g := range append(slices.Clone(s.guards), guard{key: s.key, operator: "In", values: []string{s.value}}) {
		jq := map[string]any{"key": g.key, "operator": g.operator}
		if g.values != nil {
			jq["values"] = g.values
		}
		conditions = append(conditions, map[string]any{"jq": jq})
	}
	spec := map[string]any{
		"resourceRef": map[string]any{"apiGroup": "v1", "kind": s.kind},
		"selector":    map[string]any{"matchExpressions": conditions},
		"steps":       s.steps,
	}
	if s.delay != "" {
		spec["delay"] = map[string]any{"durationFrom": map[string]any{"jq": map[string]any{"expression": s.delay}}}
	}
	return map[string]any{
		"apiVersion": "kwok.x-k8s.io/v1alpha1",
		"kind":       "Stage",
		"metadata":   map[string]any{"name": s.name},
		"spec":       spec,
	}
}

// stageConfig is KWOK's configuration: YAML documents, each written as JSON.
func stageConfig() ([]byte, error) {
	docs := []any{map[string]any{
		"apiVersion": "config.kwok.x-k8s.io/v1alpha1",
		"kind":       "KwokConfiguration",
		// With this document KWOK takes no defaults: all of them are named.
		"options": map[string]any{
			"cidr":                      "10.0.0.0/24",
			"podPlayStageParallelism":   16,
			"nodePlayStageParallelism":  4,
			"nodeLeaseParallelism":      4,
			"podsOnNodeSyncParallelism": 1,
		},
	}, nodeStage().document()}
	for _, s := range podStages() {
		docs = append(docs, s.document())
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, doc := range docs {
		out.WriteString("---\n")
		if err := enc.Encode(doc); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
