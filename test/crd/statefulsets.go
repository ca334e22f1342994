package crd

func statefulSets() []Case {
	const rolling = "spec.updateStrategy.rollingUpdate"
	refuse := func(name, path, says, patch string) Case {
		return Case{Name: name, Kind: "StatefulSet", Patch: patch, Refused: map[string]string{path: says}}
	}
	accept := func(name, patch string) Case { return Case{Name: name, Kind: "StatefulSet", Patch: patch} }
	all := []Case{
		accept("the smallest StatefulSet", ""),
		accept("no pods", `spec: {replicas: 0, updateStrategy: {rollingUpdate: {maxUnavailable: 0}}}`),
		accept("OnDelete", `spec: {updateStrategy: {type: OnDelete}}`),
		accept("the hold of the hub", `spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2147483647}}}`),
		accept("one at a time in order", `spec: {podManagementPolicy: OrderedReady, updateStrategy: {rollingUpdate: {maxUnavailable: 1}}}`),
		accept("many at a time in parallel", `spec: {podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {maxUnavailable: "40%"}}}`),
		accept("unordered in parallel", `spec: {podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {unorderedUpdate: {priorityStrategy:
  {orderPriority: [{orderedKey: role}]}}}}}`),
		accept("every field of v1beta1", `spec:
  serviceName: db
  volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}
  reserveOrdinals: [0, "3-5", "7"]
  lifecycle: {inPlaceUpdate: {labelsHandler: {a: b}}}
  scaleStrategy: {maxUnavailable: 1}
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain}
  ordinals: {start: 5}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {minReadySeconds: 300, podUpdatePolicy: InPlaceOnly, inPlaceUpdateStrategy: {gracePeriodSeconds: 3}}}`),
		refuse("two at a time in order is refused", rolling+".maxUnavailable", "Parallel", `spec: {updateStrategy: {rollingUpdate: {maxUnavailable: 2}}}`),
		refuse("a percent in order is refused", rolling+".maxUnavailable", "Parallel", `spec: {updateStrategy: {rollingUpdate: {maxUnavailable: "20%"}}}`),
		refuse("unordered in order is refused", rolling+".unorderedUpdate", "Parallel",
			`spec: {podManagementPolicy: OrderedReady, updateStrategy: {rollingUpdate: {unorderedUpdate: {}}}}`),
		refuse("no budget is refused", rolling+".maxUnavailable", "partition", `spec: {updateStrategy: {rollingUpdate: {maxUnavailable: 0}}}`),
		refuse("no budget in percent is refused", rolling+".maxUnavailable", "partition",
			`spec: {podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {maxUnavailable: "00%"}}}`),
		refuse("OnDelete with a rolling update is refused", rolling, "OnDelete", `spec: {updateStrategy: {type: OnDelete, rollingUpdate: {}}}`),
		refuse("an unknown strategy is refused", "spec.updateStrategy.type", "OnDelete", `spec: {updateStrategy: {type: InPlaceIfPossible}}`),
		refuse("an unknown policy is refused", rolling+".podUpdatePolicy", "InPlaceOnly", `spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: Fast}}}`),
		refuse("an unknown management is refused", "spec.podManagementPolicy", "Parallel", `spec: {podManagementPolicy: Random}`),
		refuse("an unknown retention is refused", "spec.persistentVolumeClaimRetentionPolicy.whenScaled", "Retain",
			`spec: {persistentVolumeClaimRetentionPolicy: {whenScaled: Keep}}`),
		refuse("an unknown retention after deletion is refused", "spec.persistentVolumeClaimRetentionPolicy.whenDeleted", "Retain",
			`spec: {persistentVolumeClaimRetentionPolicy: {whenDeleted: Keep}}`),
		refuse("an unknown claim update is refused", "spec.volumeClaimUpdateStrategy.type", "OnPodRollingUpdate",
			`spec: {volumeClaimUpdateStrategy: {type: Now}}`),
		refuse("a negative partition is refused", rolling+".partition", "0", `spec: {updateStrategy: {rollingUpdate: {partition: -1}}}`),
		refuse("minReadySeconds of more than 300 are refused", rolling+".minReadySeconds", "300",
			`spec: {updateStrategy: {rollingUpdate: {minReadySeconds: 301}}}`),
		refuse("negative minReadySeconds are refused", rolling+".minReadySeconds", "0", `spec: {updateStrategy: {rollingUpdate: {minReadySeconds: -1}}}`),
		refuse("a negative grace period is refused", rolling+".inPlaceUpdateStrategy.gracePeriodSeconds", "0",
			`spec: {updateStrategy: {rollingUpdate: {inPlaceUpdateStrategy: {gracePeriodSeconds: -1}}}}`),
		refuse("a negative start is refused", "spec.ordinals.start", "0", `spec: {ordinals: {start: -1}}`),
		refuse("negative replicas are refused", "spec.replicas", "0", `spec: {replicas: -1}`),
		refuse("a negative history is refused", "spec.revisionHistoryLimit", "0", `spec: {revisionHistoryLimit: -1}`),
		refuse("an empty selector is refused", "spec.selector", "matchLabels", `spec: {selector: {matchLabels: null}}`),
		refuse("a claim template without a name is refused", "spec.volumeClaimTemplates[0].metadata.name", "data", `spec: {volumeClaimTemplates: [{spec: {}}]}`),
		refuse("two claim templates of one name are refused", "spec.volumeClaimTemplates", "its own",
			`spec: {volumeClaimTemplates: [{metadata: {name: data}, spec: {}}, {metadata: {name: data}, spec: {}}]}`),
		refuse("a hook's finalizer without a domain is refused", "spec.lifecycle.preDelete.finalizersHandler[0]", "domain/name",
			`spec: {lifecycle: {preDelete: {finalizersHandler: [unregister]}}}`),
		refuse("a weight beyond 100 is refused", rolling+".unorderedUpdate.priorityStrategy.weightPriority[0].weight", "100",
			`spec: {podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {unorderedUpdate: {priorityStrategy: {weightPriority: [{weight: 101, matchSelector: {}}]}}}}}`),
		refuse("an unknown operator of a weight is refused",
			rolling+".unorderedUpdate.priorityStrategy.weightPriority[0].matchSelector.matchExpressions[0].operator", "DoesNotExist",
			`spec: {podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {unorderedUpdate: {priorityStrategy: {weightPriority: [{weight: 1, matchSelector: {matchExpressions: [{key: a, operator: Near}]}}]}}}}}`),
		{
			Name: "a selector that the template does not match is refused", Kind: "StatefulSet", CRDOnly: true,
			Patch: `spec: {selector: {matchLabels: {app: other}}}`, Refused: map[string]string{"spec.selector": "spec.template.metadata.labels"},
		},
		{
			Name: "a partition in percent is refused", Kind: "StatefulSet", CRDOnly: true,
			Patch:   `spec: {updateStrategy: {rollingUpdate: {partition: "50%"}}}`,
			Refused: map[string]string{rolling + ".partition": "integer"},
		},
	}
	for _, value := range []string{"-1", `""`, `"a"`, `"-3"`, `"3-"`, `"5-3"`, `"1-2-3"`, `"3 - 5"`, `"50%"`, `"2147483648"`, `"0-2147483648"`, `"1.5"`} {
		all = append(all, refuse("the reserved ordinal "+value+" is refused", "spec.reserveOrdinals[1]", "3-5",
			`spec: {reserveOrdinals: [0, `+value+`]}`))
	}
	for _, value := range []string{"0", "2147483647", `"3"`, `"3-5"`, `"3-3"`, `"03-5"`, `"0-2147483647"`} {
		all = append(all, accept("the reserved ordinal "+value, `spec: {reserveOrdinals: [`+value+`]}`))
	}
	return all
}
