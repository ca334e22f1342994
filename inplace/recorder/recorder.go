package recorder

import (
	"fmt"
	"hash/fnv"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// maxAction is what the API server takes as an event's action, in bytes.
const maxAction = 128

// Recorder is client-go's events.EventRecorder; this package needs no client.
type Recorder interface {
	// Eventf records an event about an object, with a machine's reason and action and a note for people.
	Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any)
}

// Worded gives to those events that differ in their note alone an action of their own: the action's name and a hash of the
// note. client-go's recorder counts events of one object, type, reason and action as one series and keeps the first note,
// so that, say, the second of two reasons why a release waits would never be seen. It does so for events of the given types
// (Normal, Warning); none given: of all. Events of the others are counted as client-go does, which costs fewer requests.
func Worded(r Recorder, types ...string) Recorder {
	return worded{Recorder: r, types: types}
}

type worded struct {
	Recorder

	types []string
}

// Eventf implements Recorder.
func (w worded) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if len(w.types) > 0 && !slices.Contains(w.types, kind) {
		w.Recorder.Eventf(regarding, related, kind, reason, action, note, args...)
		return
	}
	w.Recorder.Eventf(regarding, related, kind, reason, Action(action, fmt.Sprintf(note, args...)), note, args...)
}

// Action is the action of an event that is to be a line of its own unless it says the same again: an action's name and a hash of
// the words, no longer than the API server takes.
func Action(action, words string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(words))
	sum := fmt.Sprintf("-%08x", hash.Sum32())
	if most := maxAction - len(sum); len(action) > most {
		action = action[:most]
	}
	return action + sum
}
