package lab

import (
	"fmt"
	"sync"
	"time"
)

// Service is a program that is started again when it ends, as a kubelet does
// with a container: our hubs and agents end when they lose their leader Lease.
type Service struct {
	fleet *Fleet
	name  string
	start func(n int) (*Process, error)

	mu     sync.Mutex
	run    *Process
	starts int
	ended  bool
}

// Serve is Run for a program that is started again, half a second after it
// ended, until End. Its runs are named <name>-1, <name>-2 ...
func (f *Fleet) Serve(name, binary string, args, env []string) (*Service, error) {
	s := &Service{fleet: f, name: name, starts: 1}
	s.start = func(n int) (*Process, error) { return f.Run(fmt.Sprintf("%s-%d", name, n), binary, args, env) }
	var err error
	if s.run, err = s.start(1); err != nil {
		return nil, err
	}
	go s.keep()
	return s, nil
}

func (s *Service) keep() {
	for {
		_ = s.Process().Wait() // how it ended does not matter
		time.Sleep(500 * time.Millisecond)
		if !s.again() {
			return
		}
	}
}

// again starts it, and says whether it runs.
func (s *Service) again() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	next, err := s.start(s.starts + 1)
	if err != nil {
		s.fleet.log.printf("starting %s again: %v", s.name, err)
		s.ended = true
		return false
	}
	s.run = next
	s.starts++
	return true
}

// Process is the run that is now, or was last.
func (s *Service) Process() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

// End ends it for good, at once, as a machine that loses its power.
func (s *Service) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	_ = s.run.Kill()
}
