package cloneset

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkScale is one pass over 2,000 pods in the middle of a release, with everything that a spec may ask for.
func BenchmarkScale(b *testing.B) {
	names := make([]string, 2000)
	for i := range names {
		names[i] = fmt.Sprintf("p%04d", i)
	}
	for name, spec := range map[string]string{
		"plain": `{replicas: 2000, updateStrategy: {type: InPlaceIfPossible, maxUnavailable: "100%"}}`,
		"whole": `{replicas: 1900, updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 10%, maxSurge: 5%,
		  priorityStrategy: {weightPriority: [{weight: 50, matchSelector: {matchLabels: {zone: b}}}]}},
		  scaleStrategy: {podsToDelete: [p0001, p0002]}, lifecycle: {preDelete: {labelsHandler: {held: "yes"}}},
		  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			c := crowd(b, spec, names...)
			for i := range c.Pods {
				c.Pods[i].Node, c.Pods[i].Created = fmt.Sprintf("n%d", i%50), c.Now.Add(-time.Duration(i)*time.Second)
			}
			b.ReportAllocs()
			for b.Loop() {
				Kind{}.Scale(c)
			}
		})
	}
}
