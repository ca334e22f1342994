package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "seeds:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	r := &runner{out: os.Stdout}
	fs := flag.NewFlagSet("seeds", flag.ContinueOnError)
	seeds := fs.Uint64("seeds", 100_000, "seeds of each suite; of stories of whole fleets a 20th or a 100th")
	from := fs.Uint64("from", 0, "the first seed")
	only := fs.String("only", "", "a regular expression: the suites whose folder or tests match it")
	fs.DurationVar(&r.limit, "for", 0, "begin nothing new after so long; 0 for no limit")
	fs.IntVar(&r.procs, "procs", runtime.NumCPU(), "processes at once")
	fs.StringVar(&r.bin, "bin", "", "a folder for the test binaries, which stay there; one that is there is used as it is (default: a temporary one)")
	if err := fs.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	list := slices.DeleteFunc(suites(), func(s suite) bool { return !match.MatchString(s.String()) })
	if len(list) == 0 || *seeds == 0 || r.procs < 1 {
		return errors.New("nothing to do: see -only, -seeds and -procs")
	}
	r.list = tallies(list, *from, *seeds)
	return r.run(ctx)
}
