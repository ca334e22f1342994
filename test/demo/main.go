package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	opts, err := readOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 2
	}
	// The client library complains when nobody takes its log; what matters comes back as an error.
	log.SetLogger(logr.Discard())
	d := newDemo(opts, os.Stdout)
	err = d.play(ctx)
	if down := d.end(err); down != nil {
		fmt.Fprintln(os.Stderr, "demo: taking the fleet down:", down)
		return 1
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "demo: interrupted; everything is taken down")
		return 130
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo: FAILED:", err)
		return 1
	}
	return 0
}
