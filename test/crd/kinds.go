package crd

func cloneSets() []Case {
	const strategy, nested = "spec.updateStrategy", "spec.updateStrategy.rollingUpdate"
	refuse := func(name, path, says, patch string) Case {
		return Case{Name: name, Kind: "CloneSet", Patch: patch, Refused: map[string]string{path: says}}
	}
	accept := func(name, patch string) Case { return Case{Name: name, Kind: "CloneSet", Patch: patch} }
	return []Case{
		accept("the smallest CloneSet", ""),
		{
			Name: "B005: quoted numbers are refused in both fields", Kind: "CloneSet",
			Patch:   `spec: {replicas: 10, updateStrategy: {maxUnavailable: "5", maxSurge: "2"}}`,
			Refused: map[string]string{strategy + ".maxUnavailable": remedy, strategy + ".maxSurge": remedy},
		},
		accept("B005: numbers and percents are accepted", `spec: {updateStrategy: {maxUnavailable: 5, maxSurge: "50%"}}`),
		accept("B007: more than all pods is accepted", `spec: {replicas: 4, updateStrategy: {partition: 12}}`),
		accept("B121: a name of 57 characters", `metadata: {name: a23456789-a23456789-a23456789-a23456789-a23456789-a234567}`),
		accept("the flat shape", `spec: {updateStrategy: {type: InPlaceOnly, partition: 1, paused: true, partitionRollback: true}}`),
		accept("the nested shape", `spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 1}}}`),
		accept("the nested shape without type", `spec: {updateStrategy: {rollingUpdate: {partition: 1}}}`),
		accept("type OnDelete alone", `spec: {updateStrategy: {type: OnDelete}}`),
		accept("type OnDelete with rollingUpdate", `spec: {updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceOnly}}}`),
		accept("flat false and empty beside the nested shape", `spec: {updateStrategy: {paused: false, scatterStrategy: [], rollingUpdate: {partition: 1}}}`),
		refuse("a flat type beside rollingUpdate is refused", strategy, "two shapes",
			`spec: {updateStrategy: {type: InPlaceIfPossible, rollingUpdate: {partition: 1}}}`),
		refuse("a flat field beside rollingUpdate is refused", strategy, "under rollingUpdate",
			`spec: {updateStrategy: {partition: 1, rollingUpdate: {partition: 1}}}`),
		refuse("a flat field beside type RollingUpdate is refused", strategy, "under rollingUpdate",
			`spec: {updateStrategy: {type: RollingUpdate, maxUnavailable: 1}}`),
		refuse("a flat field beside type OnDelete is refused", strategy, "under rollingUpdate",
			`spec: {updateStrategy: {type: OnDelete, paused: true}}`),
		{
			Name: "an unknown type is refused", Kind: "CloneSet", Patch: `spec: {updateStrategy: {type: Recreate}}`,
			Refused: map[string]string{strategy + ".type": "Recreate"},
		},
		{
			Name: "an unknown policy is refused", Kind: "CloneSet", Patch: `spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: OnDelete}}}`,
			Refused: map[string]string{nested + ".podUpdatePolicy": "OnDelete"},
		},
		refuse("InPlaceOnly with surge is refused", strategy+".maxSurge", "InPlaceIfPossible",
			`spec: {updateStrategy: {type: InPlaceOnly, maxSurge: 1}}`),
		refuse("nested InPlaceOnly with surge is refused", nested+".maxSurge", "InPlaceIfPossible",
			`spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly, maxSurge: "10%"}}}`),
		accept("InPlaceOnly with surge 0", `spec: {updateStrategy: {type: InPlaceOnly, maxSurge: "0%"}}`),
		refuse("no budget at all is refused", strategy+".maxUnavailable", "raise one",
			`spec: {updateStrategy: {maxUnavailable: 0, maxSurge: "0%"}}`),
		refuse("no budget by default surge is refused", strategy+".maxUnavailable", "raise one",
			`spec: {replicas: 3, updateStrategy: {maxUnavailable: "0%"}}`),
		refuse("no nested budget is refused", nested+".maxUnavailable", "raise one",
			`spec: {updateStrategy: {rollingUpdate: {maxUnavailable: 0}}}`),
		accept("no budget with surge", `spec: {updateStrategy: {maxUnavailable: 0, maxSurge: 1}}`),
		accept("no nested budget with surge", `spec: {updateStrategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}}`),
		accept("no budget without pods", `spec: {replicas: 0, updateStrategy: {maxUnavailable: 0}}`),
		accept("no budget with OnDelete", `spec: {updateStrategy: {type: OnDelete, rollingUpdate: {maxUnavailable: 0}}}`),
		refuse("both spellings of claim reuse are refused", "spec.scaleStrategy", "keep one",
			`spec: {scaleStrategy: {disablePVCReuse: true, enablePVCReuse: false}}`),
		accept("one spelling of claim reuse", `spec: {scaleStrategy: {disablePVCReuse: true}}`),
		refuse("a deadline within minReadySeconds is refused", "spec.progressDeadlineSeconds", "minReadySeconds",
			`spec: {minReadySeconds: 30, progressDeadlineSeconds: 30}`),
		refuse("a deadline of nothing is refused", "spec.progressDeadlineSeconds", "minReadySeconds", `spec: {progressDeadlineSeconds: 0}`),
		accept("a deadline beyond minReadySeconds", `spec: {minReadySeconds: 30, progressDeadlineSeconds: 31}`),
		refuse("negative replicas are refused", "spec.replicas", "0", `spec: {replicas: -1}`),
		refuse("negative minReadySeconds are refused", "spec.minReadySeconds", "0", `spec: {minReadySeconds: -1}`),
		refuse("a negative history is refused", "spec.revisionHistoryLimit", "0", `spec: {revisionHistoryLimit: -1}`),
		refuse("an empty selector is refused", "spec.selector", "matchLabels", `spec: {selector: {matchLabels: null}}`),
		accept("a selector of expressions", `spec: {selector: {matchLabels: null, matchExpressions: [{key: app, operator: Exists}]}}`),
		{
			Name: "no selector is refused", Kind: "CloneSet", Patch: `spec: {selector: null}`,
			Refused: map[string]string{"spec.selector": ""},
		},
		{
			Name: "no template is refused", Kind: "CloneSet", Patch: `spec: {template: null}`, CRDOnly: true,
			Refused: map[string]string{"spec.template": ""},
		},
		{
			Name: "no spec is refused", Kind: "CloneSet", Patch: `spec: null`, CRDOnly: true,
			Refused: map[string]string{"spec": ""},
		},
		{
			Name: "the same pod to delete twice is refused", Kind: "CloneSet", CRDOnly: true,
			Patch:   `spec: {scaleStrategy: {podsToDelete: [a, a]}}`,
			Refused: map[string]string{"spec.scaleStrategy.podsToDelete[1]": "Duplicate"},
		},
	}
}

// cloneSetPods are what names labels, finalizers and claims of pods, where a rule can see it.
func cloneSetPods() []Case {
	const strategy, life, nested = "spec.updateStrategy", "spec.lifecycle", "spec.updateStrategy.rollingUpdate"
	refuse := func(name, path, says, patch string) Case {
		return Case{Name: name, Kind: "CloneSet", Patch: patch, Refused: map[string]string{path: says}}
	}
	accept := func(name, patch string) Case { return Case{Name: name, Kind: "CloneSet", Patch: patch} }
	// The member's own reading compares selector and template; a hub writes the selector of what it embeds itself.
	crdOnly := func(c Case) Case {
		c.CRDOnly = true
		return c
	}
	const claims = "spec.volumeClaimTemplates"
	return []Case{
		crdOnly(refuse("a selector that the template does not match is refused", "spec.selector", "spec.template.metadata.labels",
			`spec: {selector: {matchLabels: {app: other}}}`)),
		crdOnly(refuse("a template without labels is refused", "spec.selector", "spec.template.metadata.labels",
			`spec: {template: {metadata: null}}`)),
		accept("more labels than the selector names", `spec: {template: {metadata: {labels: {tier: web}}}}`),
		refuse("an unknown operator of the selector is refused", "spec.selector.matchExpressions[0].operator", "DoesNotExist",
			`spec: {selector: {matchExpressions: [{key: app, operator: Near}]}}`),
		accept("two claim templates", `spec: {volumeClaimTemplates: [{metadata: {name: data}, spec: {}}, {metadata: {name: logs-2}, spec: {}}]}`),
		refuse("a claim template without a name is refused", claims+"[0].metadata.name", "data", `spec: {volumeClaimTemplates: [{spec: {}}]}`),
		refuse("a claim template with a name of no volume is refused", claims+"[0].metadata.name", "DNS label",
			`spec: {volumeClaimTemplates: [{metadata: {name: Data.1}, spec: {}}]}`),
		refuse("a claim template without a spec is refused", claims+"[0].spec", "storage", `spec: {volumeClaimTemplates: [{metadata: {name: data}}]}`),
		refuse("two claim templates of one name are refused", claims, "its own",
			`spec: {volumeClaimTemplates: [{metadata: {name: data}, spec: {}}, {metadata: {name: data}, spec: {}}]}`),
		accept("A01: weight and order together", `spec: {updateStrategy: {priorityStrategy: {weightPriority: [{weight: 100, matchSelector: {matchLabels: {a: b}}}, {weight: 0, matchSelector: {matchExpressions: [{key: a, operator: Exists}]}}], orderPriority: [{orderedKey: example.com/Some_key.1}]}}}`),
		refuse("a weight beyond 100 is refused", strategy+".priorityStrategy.weightPriority[0].weight", "100",
			`spec: {updateStrategy: {priorityStrategy: {weightPriority: [{weight: 101, matchSelector: {}}]}}}`),
		refuse("an unknown operator of a weight is refused", nested+".priorityStrategy.weightPriority[0].matchSelector.matchExpressions[0].operator",
			"DoesNotExist", `spec: {updateStrategy: {rollingUpdate: {priorityStrategy: {weightPriority: [{weight: 1, matchSelector: {matchExpressions: [{key: a, operator: Near}]}}]}}}}`),
		refuse("an ordered key with a space is refused", strategy+".priorityStrategy.orderPriority[0].orderedKey", "example.com/",
			`spec: {updateStrategy: {priorityStrategy: {orderPriority: [{orderedKey: "some key"}]}}}`),
		refuse("an empty ordered key is refused", nested+".priorityStrategy.orderPriority[0].orderedKey", "",
			`spec: {updateStrategy: {rollingUpdate: {priorityStrategy: {orderPriority: [{orderedKey: ""}]}}}}`),
		accept("B097: one label with two values is scattered", `spec: {updateStrategy: {scatterStrategy: [{key: foo, value: bar}, {key: foo, value: ""}]}}`),
		refuse("a scatter key of two slashes is refused", strategy+".scatterStrategy[0].key", "example.com/",
			`spec: {updateStrategy: {scatterStrategy: [{key: "a//b", value: c}]}}`),
		refuse("a scatter value with a slash is refused", nested+".scatterStrategy[0].value", "label value",
			`spec: {updateStrategy: {rollingUpdate: {scatterStrategy: [{key: a, value: b/c}]}}}`),
		refuse("a label to scatter twice is refused", strategy+".scatterStrategy", "keep it once",
			`spec: {updateStrategy: {scatterStrategy: [{key: foo, value: bar}, {key: foo, value: bar}]}}`),
		accept("M005: hooks by label and finalizer", `spec: {lifecycle: {preDelete: {finalizersHandler: [example.test/unregister], markPodNotReady: true}, inPlaceUpdate: {labelsHandler: {example.test/lb-registered: "true", empty: ""}}, preNormal: {labelsHandler: {a: b}}}}`),
		refuse("a hook's label with a space is refused", life+".preDelete.labelsHandler", "example.com/",
			`spec: {lifecycle: {preDelete: {labelsHandler: {"a b": c}}}}`),
		refuse("a hook's value with a space is refused", life+".inPlaceUpdate.labelsHandler.a", "",
			`spec: {lifecycle: {inPlaceUpdate: {labelsHandler: {a: "b c"}}}}`),
		refuse("a hook's finalizer without a domain is refused", life+".preNormal.finalizersHandler[0]", "domain/name",
			`spec: {lifecycle: {preNormal: {finalizersHandler: [unregister]}}}`),
		crdOnly(refuse("a hook's finalizer twice is refused", life+".preDelete.finalizersHandler[1]", "Duplicate",
			`spec: {lifecycle: {preDelete: {finalizersHandler: [a/b, a/b]}}}`)),
	}
}

func unitedDeployments() []Case {
	const topology = "spec.topology"
	refuse := func(name, path, says, patch string) Case {
		return Case{Name: name, Kind: "UnitedDeployment", Patch: patch, Refused: map[string]string{path: says}}
	}
	accept := func(name, patch string) Case { return Case{Name: name, Kind: "UnitedDeployment", Patch: patch} }
	return []Case{
		accept("the smallest UnitedDeployment", ""),
		accept("clusters as subsets", `spec: {topology: {subsets: [{name: a, cluster: a}, {name: b, cluster: b-2, nodeSelectorTerm: {matchFields: [{key: metadata.name, operator: In, values: [node-1]}]}}]}}`),
		accept("O78 and N3: replicas that do not add up", `spec: {replicas: 10, topology: {subsets: [{name: a, replicas: 1}]}}`),
		accept("O79 and N3: percents that do not add up", `spec: {replicas: 10, topology: {subsets: [{name: a, replicas: 1}, {name: b, replicas: "71%"}]}}`),
		accept("O23 and N3: more than the total", `spec: {replicas: 14, topology: {subsets: [{name: a, replicas: 10}, {name: b, replicas: 6}]}}`),
		accept("O81: percents that add up", `spec: {replicas: 10, topology: {subsets: [{name: a, replicas: "71%"}, {name: b, replicas: "29%"}]}}`),
		accept("O82 and N3: a partition of no subset", `spec: {updateStrategy: {manualUpdate: {partitions: {nowhere: 1}}}}`),
		accept("B045: halves of an odd total", `spec: {replicas: 5, topology: {subsets: [{name: a, replicas: "50%"}, {name: b, replicas: "50%"}]}}`),
		accept("O88: minimums beyond the total", `spec: {replicas: 1, topology: {subsets: [{name: a, minReplicas: 2}, {name: b, minReplicas: 2}]}}`),
		accept("bounds of two kinds", `spec: {topology: {subsets: [{name: a, minReplicas: 9, maxReplicas: "10%"}, {name: b}]}}`),
		accept("unnamed subsets are updated", `spec: {updateStrategy: {type: Manual, manualUpdate: {unnamed: Update}}}`),
		accept("staged with a policy", `spec: {updateStrategy: {type: Staged, staged: {policyRef: {name: waves}}}}`),
		accept("a nested CloneSet inside", `spec: {template: {cloneSetTemplate: {spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}}}}}`),
		accept("adoption of orphans", `spec: {adopt: Orphaned}`),
		refuse("O83: two templates are refused", "spec.template", "exactly one", `spec: {template: {deploymentTemplate: {spec: {}}}}`),
		refuse("no template is refused", "spec.template", "exactly one", `spec: {template: {cloneSetTemplate: null}}`),
		refuse("O84: Adaptive with replicas is refused", topology, "minReplicas",
			`spec: {topology: {scheduleStrategy: {type: Adaptive}, subsets: [{name: a, replicas: 1}, {name: b}]}}`),
		refuse("O86: min beyond max is refused", topology+".subsets[0]", "lower minReplicas",
			`spec: {topology: {subsets: [{name: a, minReplicas: 7, maxReplicas: 5}, {name: b}]}}`),
		refuse("min beyond max in percents is refused", topology+".subsets[0]", "lower minReplicas",
			`spec: {topology: {subsets: [{name: a, minReplicas: "70%", maxReplicas: "9%"}, {name: b}]}}`),
		refuse("O87: a maximum everywhere is refused", topology, "leave maxReplicas out",
			`spec: {topology: {subsets: [{name: a, maxReplicas: 5}, {name: b, maxReplicas: 5}]}}`),
		accept("a maximum everywhere but in the templates", `spec: {topology: {subsets: [{name: a, maxReplicas: 5}], subsetTemplates: [{clusterSelector: {}}]}}`),
		refuse("replicas beside bounds are refused", topology, "mixed",
			`spec: {topology: {subsets: [{name: a, replicas: 5}, {name: b, minReplicas: 5}]}}`),
		refuse("replicas beside bounds of a template are refused", topology, "mixed",
			`spec: {topology: {subsets: [{name: a, replicas: 5}], subsetTemplates: [{clusterSelector: {}, minReplicas: 1}]}}`),
		refuse("B045: a fraction of a percent is refused", topology+".subsets[0].replicas", remedy,
			`spec: {topology: {subsets: [{name: a, replicas: "33.3%"}]}}`),
		refuse("a subset name with capitals is refused", topology+".subsets[0].name", "DNS label",
			`spec: {topology: {subsets: [{name: East}]}}`),
		refuse("a subset name with a dot is refused", topology+".subsets[0].name", "DNS label",
			`spec: {topology: {subsets: [{name: eu.west}]}}`),
		refuse("a subset name of 64 characters is refused", topology+".subsets[0].name", "63",
			`spec: {topology: {subsets: [{name: a234567890a234567890a234567890a234567890a234567890a234567890a234}]}}`),
		refuse("a cluster which is no name is refused", topology+".subsets[0].cluster", "MemberCluster",
			`spec: {topology: {subsets: [{name: a, cluster: "a/b"}]}}`),
		{
			Name: "a subset twice is refused", Kind: "UnitedDeployment", Patch: `spec: {topology: {subsets: [{name: a}, {name: a}]}}`,
			Refused: map[string]string{topology + ".subsets[1]": ""},
		},
		refuse("staged without a policy is refused", "spec.updateStrategy.staged", "policyRef", `spec: {updateStrategy: {type: Staged}}`),
		refuse("an unknown strategy is refused", "spec.updateStrategy.type", "Manual", `spec: {updateStrategy: {type: Automatic}}`),
		refuse("an unknown word for unnamed is refused", "spec.updateStrategy.manualUpdate.unnamed", "Hold",
			`spec: {updateStrategy: {manualUpdate: {unnamed: Ignore}}}`),
		refuse("an unknown adoption is refused", "spec.adopt", "Orphaned", `spec: {adopt: All}`),
		refuse("negative replicas are refused", "spec.replicas", "0", `spec: {replicas: -1}`),
		refuse("an empty selector is refused", "spec.selector", "matchLabels", `spec: {selector: {matchLabels: null}}`),
	}
}

func memberClusters() []Case {
	refuse := func(name, path, says, patch string) Case {
		return Case{Name: name, Kind: "MemberCluster", Patch: patch, CRDOnly: true, Refused: map[string]string{path: says}}
	}
	return []Case{
		{Name: "the smallest MemberCluster", Kind: "MemberCluster"},
		{
			Name: "a Cluster API member", Kind: "MemberCluster",
			Patch: `spec: {kubeconfigSecretRef: null, clusterRef: {namespace: capi, name: a}, allowedNamespaces: {}}`,
		},
		refuse("two ways to reach a member are refused", "spec", "exactly one", `spec: {clusterRef: {namespace: capi, name: a}}`),
		refuse("no way to reach a member is refused", "spec", "exactly one", `spec: {kubeconfigSecretRef: null}`),
		refuse("a Secret without a name is refused", "spec.kubeconfigSecretRef.name", "", `spec: {kubeconfigSecretRef: {name: ""}}`),
		refuse("B121: a member name of 64 characters is refused", "", "DNS label",
			`metadata: {name: a234567890a234567890a234567890a234567890a234567890a234567890a234}`),
		refuse("a member name with a dot is refused", "", "DNS label", `metadata: {name: eu.west}`),
	}
}
