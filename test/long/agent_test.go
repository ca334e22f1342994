//go:build lab

package long

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// ticks is the kernel's unit of CPU time in /proc: USER_HZ, 100 on every architecture that Go runs on.
const ticks = 100

// mortal is an agent that is killed now and then, and started anew at once.
type mortal struct {
	*testing.T
	cluster kit.Cluster
	random  *rand.Rand

	mu    sync.Mutex
	p     *lab.Process
	kills int
	// spent is the CPU time of those that were killed, peak the most memory that any of them held, in kB.
	spent time.Duration
	peak  int
}

func (m *mortal) start() {
	var err error
	// Without an election the successor begins at once; it is at work while the writes of the killed one arrive.
	if m.p, err = m.cluster.StartAgent(fmt.Sprintf("agent-%d", m.kills), "--leader-elect=false"); err != nil {
		m.Error(err)
	}
}

// kill is kill -9, and the successor.
func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent += m.look()
	if err := m.p.Kill(); err != nil {
		m.Error(err)
	}
	m.kills++
	m.start()
}

// look reads the CPU time of the running agent, and notes its peak of memory.
func (m *mortal) look() time.Duration {
	dir := fmt.Sprintf("/proc/%d/", m.p.PID())
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		m.Error(err)
		return 0
	}
	// The second field is the name, in parentheses, and may hold spaces; utime and stime are fields 14 and 15.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	status, _ := os.ReadFile(dir + "status")
	for line := range strings.Lines(string(status)) {
		if kb, has := strings.CutPrefix(line, "VmHWM:"); has {
			n, _ := strconv.Atoi(strings.Fields(kb)[0])
			m.peak = max(m.peak, n)
		}
	}
	return time.Duration(user+system) * time.Second / ticks
}

// used is the CPU time of all agents so far, and the peak of memory of one, in MiB.
func (m *mortal) used() (cpu time.Duration, peak int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spent + m.look(), m.peak / 1024
}

// killAt kills the agent so many times on the way from one number to another, at random places of it, until stop is closed.
// The result is closed when it is done.
func (m *mortal) killAt(times, from, to int, progress func() int, stop <-chan struct{}) <-chan struct{} {
	at := make([]int, times)
	for i := range at {
		at[i] = min(from, to) + 1 + m.random.IntN(max(from, to)-min(from, to)-1)
	}
	slices.Sort(at)
	if to < from {
		slices.Reverse(at)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, place := range at {
			for passed := false; !passed; {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
				n := progress()
				passed = (to > from && n >= place) || (to < from && n <= place)
			}
			m.kill()
		}
	}()
	return done
}
