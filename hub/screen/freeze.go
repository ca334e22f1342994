package screen

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys of the freeze ConfigMap. The hub looks only at whether it exists; people read who, when and why.
const (
	FreezeWho  = "who"
	FreezeWhen = "when"
	FreezeWhy  = "why"
)

// Freeze is who stopped all writes to members.
type Freeze struct {
	Who, Why, Since string
}

// FreezeOf reads the freeze ConfigMap; nil for nil. A time that cannot be read falls back to the object's own.
func FreezeOf(cm *corev1.ConfigMap, now time.Time) *Freeze {
	if cm == nil {
		return nil
	}
	since := cm.CreationTimestamp
	if at, err := time.Parse(time.RFC3339, cm.Data[FreezeWhen]); err == nil {
		since = metav1.NewTime(at)
	}
	f := &Freeze{Who: Clean(cm.Data[FreezeWho]), Why: Clean(cm.Data[FreezeWhy]), Since: Age(&since, now)}
	if f.Who == "" {
		f.Who = "somebody"
	}
	return f
}

// String is "frozen by anna since 4m: incident 991".
func (f *Freeze) String() string {
	text := fmt.Sprintf("frozen by %s since %s", f.Who, f.Since)
	if f.Why != "" {
		text += ": " + f.Why
	}
	return text
}
