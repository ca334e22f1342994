// Command app is what runs in the lab's test images: a small, well-behaved
// server and, by the environment that an image sets, one that misbehaves.
//
//	VERSION  what it calls itself
//	MODE     server (the default), crash, never-ready, slow-start, run (until
//	         SIGTERM), exit-0
//	PORT     where the server listens; 8080 by default
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// slowStart is how long a server of MODE slow-start is not ready.
const slowStart = 3 * time.Second

func main() {
	var err error
	if len(os.Args) > 1 {
		err = command(os.Args[1:])
	} else {
		err = program(os.Getenv("MODE"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
}

func program(mode string) error {
	switch mode {
	case "exit-0":
		return nil
	case "crash":
		time.Sleep(100 * time.Millisecond)
		return fmt.Errorf("crashes, as its image says")
	case "run":
		<-asked()
		return nil
	case "never-ready":
		return serve(func() bool { return false })
	case "slow-start":
		at := time.Now().Add(slowStart)
		return serve(func() bool { return time.Now().After(at) })
	default:
		return serve(func() bool { return true })
	}
}

// asked is closed, so to say, when the program is asked to end.
func asked() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	return c
}

// command is what a test runs in a container: the images hold no shell.
func command(args []string) error {
	switch {
	case args[0] == "cat" && len(args) == 2:
		data, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(data)
		return err
	case args[0] == "write" && len(args) == 3:
		return os.WriteFile(args[1], []byte(args[2]), 0o644)
	case args[0] == "env" && len(args) == 2:
		value, ok := os.LookupEnv(args[1])
		if !ok {
			return fmt.Errorf("%s is not set", args[1])
		}
		fmt.Print(value)
		return nil
	default:
		return fmt.Errorf("usage: app [cat FILE | write FILE TEXT | env NAME]")
	}
}
