package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/root"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := root.Run(ctx, cli.New(), os.Args[1:])
	stop()
	os.Exit(code)
}
