package crd

import "fmt"

// What an int-or-string may be, by kind of field. The remedy is part of every refusal.
const remedy = `write 50 instead of "50"`

// intOrString tries the values on every int-or-string field there is.
func intOrString() []Case {
	fields := []struct {
		kind, path, patch string
		fraction, whole   bool
	}{
		{"CloneSet", "spec.updateStrategy.partition", "spec: {updateStrategy: {partition: %s}}", true, false},
		{"CloneSet", "spec.updateStrategy.maxUnavailable", "spec: {updateStrategy: {maxUnavailable: %s, maxSurge: 1}}", false, false},
		{"CloneSet", "spec.updateStrategy.maxSurge", "spec: {updateStrategy: {maxSurge: %s}}", false, false},
		{"CloneSet", "spec.updateStrategy.rollingUpdate.partition", "spec: {updateStrategy: {rollingUpdate: {partition: %s}}}", true, false},
		{
			"CloneSet", "spec.updateStrategy.rollingUpdate.maxUnavailable",
			"spec: {updateStrategy: {rollingUpdate: {maxUnavailable: %s, maxSurge: 1}}}", false, false,
		},
		{"CloneSet", "spec.updateStrategy.rollingUpdate.maxSurge", "spec: {updateStrategy: {rollingUpdate: {maxSurge: %s}}}", false, false},
		{"CloneSet", "spec.scaleStrategy.maxUnavailable", "spec: {scaleStrategy: {maxUnavailable: %s}}", false, false},
		{
			"StatefulSet", "spec.updateStrategy.rollingUpdate.maxUnavailable",
			"spec: {replicas: 0, podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {maxUnavailable: %s}}}", false, false,
		},
		{
			"StatefulSet", "spec.scaleStrategy.maxUnavailable",
			"spec: {podManagementPolicy: Parallel, scaleStrategy: {maxUnavailable: %s}}", false, false,
		},
		{
			"UnitedDeployment", "spec.updateStrategy.manualUpdate.partition",
			"spec: {updateStrategy: {manualUpdate: {partition: %s}}}", true, false,
		},
		{
			"UnitedDeployment", "spec.updateStrategy.manualUpdate.partitions[east]",
			"spec: {updateStrategy: {manualUpdate: {partitions: {east: %s}}}}", true, false,
		},
		{"UnitedDeployment", "spec.topology.subsets[0].replicas", "spec: {topology: {subsets: [{name: a, replicas: %s}]}}", false, true},
		{"UnitedDeployment", "spec.topology.subsets[0].minReplicas", "spec: {topology: {subsets: [{name: a, minReplicas: %s}]}}", false, true},
		{
			"UnitedDeployment", "spec.topology.subsets[0].maxReplicas",
			"spec: {topology: {subsets: [{name: a, maxReplicas: %s}, {name: b}]}}", false, true,
		},
		{
			"UnitedDeployment", "spec.topology.subsetTemplates[0].replicas",
			"spec: {topology: {subsetTemplates: [{clusterSelector: {}, replicas: %s}]}}", false, true,
		},
	}
	cases := make([]Case, 0, 32*len(fields))
	for _, f := range fields {
		good := []string{"0", "1", "50", "2147483647", `"0%"`, `"25%"`, `"100%"`}
		bad := []string{`"50"`, `"abc"`, "-1", `"-10%"`, `"#%"`, `"90#"`, `""`, `"%"`, `"5 %"`, `"1%%"`}
		if f.whole {
			bad = append(bad, `"150%"`, `"33.3%"`, `"07%"`)
		} else {
			good = append(good, `"150%"`)
		}
		if f.fraction {
			good = append(good, `"99.99%"`)
		} else {
			bad = append(bad, `"99.99%"`, `".5%"`)
		}
		for _, value := range good {
			cases = append(cases, Case{
				Name: fmt.Sprintf("%s %s is accepted", f.path, value), Kind: f.kind, Patch: fmt.Sprintf(f.patch, value),
			})
		}
		for _, value := range bad {
			cases = append(cases, Case{
				Name: fmt.Sprintf("%s %s is refused", f.path, value), Kind: f.kind, Patch: fmt.Sprintf(f.patch, value),
				Refused: map[string]string{f.path: remedy},
			})
		}
		cases = append(
			cases,
			Case{
				Name: fmt.Sprintf("%s beyond int32 is refused", f.path), Kind: f.kind, CRDOnly: true,
				Patch: fmt.Sprintf(f.patch, "3000000000"), Refused: map[string]string{f.path: remedy},
			},
			Case{
				Name: fmt.Sprintf("%s of 17 characters is refused", f.path), Kind: f.kind, CRDOnly: true,
				Patch: fmt.Sprintf(f.patch, `"0000000000000001%"`), Refused: map[string]string{f.path: "16"},
			},
			Case{
				Name: fmt.Sprintf("%s of another type is refused", f.path), Kind: f.kind, CRDOnly: true, Noisy: true,
				Patch: fmt.Sprintf(f.patch, "true"), Refused: map[string]string{f.path: "integer,string"},
			},
		)
	}
	return cases
}
