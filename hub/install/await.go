package install

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// firstWord is how long a wait lasts before it is spoken of, nextWord how often after that.
	firstWord = 5 * time.Second
	nextWord  = 10 * time.Second
)

// talk says when a wait is to be spoken of.
type talk struct{ began, spoke time.Time }

// due is true when the wait has lasted long enough to be spoken of, or again; and how long it has lasted.
func (t *talk) due(now time.Time) (time.Duration, bool) {
	if t.began.IsZero() {
		t.began = now
	}
	lasted := now.Sub(t.began).Round(time.Second)
	if lasted < firstWord || (!t.spoke.IsZero() && now.Sub(t.spoke) < nextWord) {
		return lasted, false
	}
	t.spoke = now
	return lasted, true
}

// pause is one wait.
type pause struct {
	// what is waited for, and what a person can do about it.
	what, remedy string
	// every is how often is looked, limit how long at most.
	every, limit time.Duration
}

// await looks until done says so. A wait that takes a while says what for.
func (a *applier) await(ctx context.Context, p pause, done wait.ConditionWithContextFunc) error {
	var t talk
	return wait.PollUntilContextTimeout(ctx, p.every, p.limit, true, func(ctx context.Context) (bool, error) {
		ok, err := done(ctx)
		if ok || err != nil {
			return ok, err
		}
		if lasted, due := t.due(a.opts.now()); due {
			note := fmt.Sprintf("for %s, %s at most", lasted, p.limit)
			if p.remedy != "" {
				note += "; " + p.remedy
			}
			a.report(Waiting, p.what, note)
		}
		return false, nil
	})
}
