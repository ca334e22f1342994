package lab

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

// ports are the ports of one cluster, all on 127.0.0.1. They stay the same for
// the cluster's life, so that a credential stays good over a restart.
type ports struct {
	APIServer         int `json:"apiServer"`
	Etcd              int `json:"etcd"`
	EtcdPeer          int `json:"etcdPeer"`
	ControllerManager int `json:"controllerManager"`
	Scheduler         int `json:"scheduler"`
}

// pickPorts asks the kernel for free ports. It looks below the range from which
// the kernel takes the near end of outgoing connections: there one of these
// could take the port of a cluster that is stopped for a while. Another process
// may still come first, which shows when the server fails to bind; boot then
// asks again.
func pickPorts() (ports, error) {
	free, err := freePorts(5, firstEphemeralPort())
	if err != nil {
		return ports{}, err
	}
	return ports{APIServer: free[0], Etcd: free[1], EtcdPeer: free[2], ControllerManager: free[3], Scheduler: free[4]}, nil
}

// freePorts finds n ports below limit; at random, so that two fleets that start
// together seldom meet. They are held until all are found, so they differ.
func freePorts(n, limit int) ([]int, error) {
	const lowest = 10240
	if limit <= lowest+1000 {
		limit = 32768
	}
	var found []int
	for range 1000 {
		port := lowest + rand.IntN(limit-lowest)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer l.Close() //nolint:gocritic // held on purpose until the function ends
		found = append(found, port)
		if len(found) == n {
			return found, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d", n, lowest, limit)
}

// firstEphemeralPort is where the kernel's range for outgoing connections begins.
func firstEphemeralPort() int {
	data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		if fields := strings.Fields(string(data)); len(fields) == 2 {
			if low, err := strconv.Atoi(fields[0]); err == nil {
				return low
			}
		}
	}
	return 32768
}

// bindFailed tells from a server's log that somebody else had its port.
func bindFailed(logFile string) bool {
	data, err := os.ReadFile(logFile)
	return err == nil && strings.Contains(string(data), "address already in use")
}
