// Command node gives one real node of the lab its own view of the machine, and
// runs programs in it.
//
//	node init DIR [SOURCE:TARGET ...]   be the first process of the node
//	node enter PID PROGRAM [ARG ...]    run a program in the node of that init
//
// init is started in new mount and PID namespaces. It builds a root directory in
// DIR out of the machine's own directories, with /run, /var and /tmp of the
// node's own, so that the node uses the usual paths and touches nothing outside.
// When it dies, however that happens, the kernel kills every process of the node
// (kubelet, containerd, shims, containers) and drops every mount and, with them,
// the pods' network namespaces and links.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	// Namespaces belong to threads: all that follows stays on this one.
	runtime.LockOSThread()
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		code = 125
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	switch {
	case len(args) >= 2 && args[0] == "init":
		return 0, beInit(args[1], args[2:])
	case len(args) >= 3 && args[0] == "enter":
		return enter(args[1], args[2:])
	default:
		return 0, fmt.Errorf("usage: node init DIR [SOURCE:TARGET ...] | node enter PID PROGRAM [ARG ...]")
	}
}
