package simulation

import (
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/member/workload"
)

// fault is a mistake planted into the agent, to see that a rule catches it. None is the zero value.
type fault string

// read spoils what was read of the object.
func (f fault) read(_ *workload.Wanted) {}

// scale spoils what scaling decided.
func (f fault) scale(_ *agent, _ workload.Crowd, _ *inplace.Intent) {}

// request spoils a request.
func (f fault) request(_ *agent, _ *request) {}
