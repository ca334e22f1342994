package lab

import (
	"context"
	"io"
)

// CanRunContainers says whether this machine can have real nodes: nil, or an
// error that names what is missing and the remedy. It builds the binaries, and
// runs a container.
func CanRunContainers(ctx context.Context, source string, log io.Writer) error {
	_, err := ensureBinaries(ctx, source, true, newProgress(log))
	return err
}
