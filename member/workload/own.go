package workload

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podwriter"
)

// patience is how long the cache may take to show our own write before pods are read from the API server instead.
const patience = 5 * time.Second

// ledger remembers, per workload, what this process did and saw: it makes passes wait for our own writes. It is a cache:
// after a restart the first read of the cache is newer than anything the former process wrote or it collides with it.
type ledger struct {
	mu    sync.Mutex
	books map[types.UID]*book
	// names are the objects behind the pages, so that a page can be closed when its object is gone.
	names map[types.NamespacedName]types.UID
}

// book is the page of one workload.
type book struct {
	// pods and claims are what the caches must show of our writes, object the highest resourceVersion of a status we wrote.
	pods, claims awaited
	object       string
	// since is when we last wrote.
	since time.Time
	// refused is what the API server refused last; nil when the last create was accepted.
	refused *refusal
	// taken are names of pods and claims that are not ours, by a live read, and takenAt when that was, for a Named kind.
	taken   map[string]bool
	takenAt map[string]time.Time
	// revisionsTaken are names of ControllerRevisions that are not ours, by a live read.
	revisionsTaken []string
	// written is the adopted revision of the present template.
	written sameTemplate
	// planned is the last plan of the history, nil before the first.
	planned *planned
	// seen is what each active pod was at the last pass, nil before the first: its revision is the one it was last proven to run.
	seen map[types.UID]origin
	// known are all pods that existed at the last pass, terminating ones too: what the memory of waits is kept for.
	known map[types.UID]bool
	// lost are pods that went away and are not replaced yet; of a Named kind lostBy has them by name, and here are its active
	// pods at the last pass.
	lost         []origin
	lostBy, here map[string]origin
	// relabelled is when a pod was last given labels that it lacked.
	relabelled map[types.UID]time.Time
	// progress is how far the release has come.
	progress progress
	// stay are names of the spec that nobody has and somebody applies, at a generation of the object.
	stay struct {
		generation int64
		names      []string
	}
	// unclaimable are pods, claims and revisions whose owner the API server does not let us change, and its answer.
	unclaimable map[types.UID]string
	// unclaimableUntil is when they are asked again.
	unclaimableUntil time.Time
	// reported is when the status was written last.
	reported time.Time
}

// awaited is what a view must show of our own writes.
type awaited struct {
	// version is the highest resourceVersion that we wrote.
	version string
	// deleted are objects we deleted whose going the view must show.
	deleted map[types.UID]bool
	// unsure is set while it is not known whether a write took effect: then the next pass reads live.
	unsure bool
}

// wrote records what podwriter did.
func (a *awaited) wrote(written []podwriter.Written) {
	for _, w := range written {
		if !w.Deleted {
			a.version = later(a.version, w.ResourceVersion)
			continue
		}
		if a.deleted == nil {
			a.deleted = map[types.UID]bool{}
		}
		a.deleted[w.UID] = true
	}
}

// caughtUp reports whether a view of this version includes all that we wrote. active are the objects it shows that are not
// being deleted.
func (a *awaited) caughtUp(version string, active map[types.UID]bool) bool {
	if a.unsure || !reached(version, a.version) {
		return false
	}
	for uid := range a.deleted {
		if active[uid] {
			return false
		}
	}
	clear(a.deleted)
	return true
}

// settle makes it agree with a live read: what we wrote is in it, or versions ran backwards (a restored etcd).
func (a *awaited) settle(version string) {
	if a.unsure {
		// What the unsure write did is in this view; the cache has to come up to it.
		a.unsure = false
		a.version = later(a.version, version)
	}
	if !reached(version, a.version) {
		a.version = version
	}
}

func newLedger() *ledger {
	return &ledger{books: map[types.UID]*book{}, names: map[types.NamespacedName]types.UID{}}
}

// open returns the page of a workload. A workload is reconciled by one worker at a time, so a page needs no lock. An
// object of the same name with another UID gets a new page.
func (l *ledger) open(name types.NamespacedName, uid types.UID) *book {
	l.mu.Lock()
	defer l.mu.Unlock()
	var left map[types.UID]bool
	if old, ok := l.names[name]; ok && old != uid {
		if b := l.books[old]; b != nil {
			left = b.known
		}
		delete(l.books, old)
	}
	l.names[name] = uid
	b := l.books[uid]
	if b == nil {
		// The pods of the one before are gone for this one: the next look says so.
		b = &book{taken: map[string]bool{}, known: left}
		l.books[uid] = b
	}
	return b
}

// close drops the page of a workload that is gone and returns the pods it had seen.
func (l *ledger) close(name types.NamespacedName) []types.UID {
	l.mu.Lock()
	defer l.mu.Unlock()
	uid, ok := l.names[name]
	if !ok {
		return nil
	}
	var pods []types.UID
	if b := l.books[uid]; b != nil {
		pods = slices.Collect(maps.Keys(b.known))
	}
	delete(l.books, uid)
	delete(l.names, name)
	return pods
}

// wrote records what podwriter did.
func (b *book) wrote(r podwriter.Result, now time.Time) {
	b.pods.wrote(r.Written)
	b.claims.wrote(r.Claims)
	b.pods.unsure = b.pods.unsure || len(r.Unsure) > 0
	b.claims.unsure = b.claims.unsure || len(r.UnsureClaims) > 0
	if len(r.Written)+len(r.Claims) > 0 {
		b.since = now
	}
}

// wroteObject records a status write.
func (b *book) wroteObject(version string, now time.Time) {
	b.object = later(b.object, version)
	b.since = now
}

// patienceLeft is how long to wait for the view of one of the two before reading live.
func (b *book) patienceLeft(of *awaited, now time.Time) time.Duration {
	if of.unsure {
		return 0
	}
	return patience - now.Sub(b.since)
}

// caughtUp reports whether a view with these versions includes all that we wrote to pods and to the object.
func (b *book) caughtUp(podsVersion, objectVersion string, active map[types.UID]bool) bool {
	return reached(objectVersion, b.object) && b.pods.caughtUp(podsVersion, active)
}

// settle makes the page agree with a live read of pods and object.
func (b *book) settle(podsVersion, objectVersion string) {
	b.pods.settle(podsVersion)
	if !reached(objectVersion, b.object) {
		b.object = objectVersion
	}
}

// origin is what a pod came from.
type origin struct {
	// revision is what it ran. before is the revision of the pod that it had itself replaced; empty when it had replaced none, or
	// was changed in place since.
	revision, before string
}

func originOf(p *inplace.Pod) origin {
	o := origin{revision: p.Revision}
	if p.State == nil {
		o.before = p.Replaces
	}
	return o
}

// as is the revision that a pod of update replaces. One that a release had recreated, and that is lost for another reason, is
// passed over: the pod in its place came to be by that release as much as the one before.
func (o origin) as(update string) string {
	if o.before != "" && o.revision == update {
		return o.before
	}
	return o.revision
}

// lostAs are the revisions of the pods that went away and are not replaced yet, as a pod of update replaces them.
func (b *book) lostAs(update string) (revisions []string, byName map[string]string) {
	for _, o := range b.lost {
		revisions = append(revisions, o.as(update))
	}
	if b.lostBy != nil {
		byName = make(map[string]string, len(b.lostBy))
		for name, o := range b.lostBy {
			byName[name] = o.as(update)
		}
	}
	return revisions, byName
}

// follow notes which pods went away since the last pass. missing is how many pods are wanted and not there. A pod on its
// way to a revision is one of the revision before for as long as it is not proven to have got there.
func (b *book) follow(pods []inplace.Pod, missing int, proven func(inplace.Pod) bool) (gone []types.UID) {
	now := make(map[types.UID]origin, len(pods))
	exists := make(map[types.UID]bool, len(pods))
	for i := range pods {
		exists[pods[i].UID] = true
		if pods[i].Active() {
			now[pods[i].UID] = originOf(&pods[i])
			if was := b.seen[pods[i].UID]; was.revision != "" && was.revision != pods[i].Revision && !proven(pods[i]) {
				now[pods[i].UID] = was
			}
		} else if b.seen == nil {
			b.lost = append(b.lost, originOf(&pods[i]))
		}
	}
	for uid, was := range b.seen {
		if _, still := now[uid]; !still {
			b.lost = append(b.lost, was)
		}
	}
	for uid := range b.known {
		if !exists[uid] {
			gone = append(gone, uid)
		}
	}
	b.seen, b.known = now, exists
	if excess := len(b.lost) - max(missing, 0); excess > 0 {
		b.lost = b.lost[excess:]
	}
	return gone
}

// followNames is follow for pods whose names stay. It comes after it.
func (b *book) followNames(pods []inplace.Pod, missing int) {
	was, first := b.here, b.here == nil
	b.here = make(map[string]origin, len(pods))
	if b.lostBy == nil {
		b.lostBy = map[string]origin{}
	}
	for i := range pods {
		p := &pods[i]
		if p.Active() {
			b.here[p.Name] = b.seen[p.UID]
			delete(b.lostBy, p.Name)
		} else if first {
			b.lostBy[p.Name] = originOf(p)
		}
	}
	for name, pod := range was {
		if _, still := b.here[name]; !still {
			b.lostBy[name] = pod
		}
	}
	if missing <= 0 {
		// What went was not wanted any more.
		clear(b.lostBy)
	}
}

// replaced strikes out n lost pods.
func (b *book) replaced(n int) {
	b.lost = b.lost[min(n, len(b.lost)):]
}

// later returns the later of two resourceVersions; one that cannot be compared wins, so that it is waited for.
func later(a, b string) string {
	if a == "" {
		return b
	}
	if n, err := resourceversion.CompareResourceVersion(a, b); err == nil && n >= 0 {
		return a
	}
	return b
}

// reached reports whether version is at least wanted. Nothing wanted is reached by anything.
func reached(version, wanted string) bool {
	if wanted == "" {
		return true
	}
	n, err := resourceversion.CompareResourceVersion(version, wanted)
	return err == nil && n >= 0
}
