// Command seeds tells very many random stories of the planners and engines: `make test-long-seeds`. It cuts the seeds of every
// suite into slices, tells them with one process per processor, always next of the suite that has had the least time, so that
// a run that is ended early has told some of each. A story that fails is shown at once with the command that tells it again,
// and the ones after it are told all the same.
//
//	go run ./test/long/cmd/seeds -seeds 100000 -only statefulset -for 20m
package main
