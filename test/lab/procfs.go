package lab

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// markVariable names the fleet in the environment of all its processes. Its
// value is random per fleet, so nobody else carries it.
const markVariable = "UNDERWAY_LAB_MARK"

// startTime returns when a process started, in ticks since boot. With the pid it
// names a process for good: pids are used again, pairs are not.
func startTime(pid int) (uint64, error) {
	fields, err := procStat(pid)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// procStat returns the fields of /proc/<pid>/stat from the third on: the second,
// the name, may hold spaces and parentheses.
func procStat(pid int) ([]string, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil, err
	}
	s := string(data)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 20 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields)+2)
	}
	return fields, nil
}

// running says whether the process of that pid and start time has not ended. A
// zombie has.
func running(pid int, start uint64) bool {
	fields, err := procStat(pid)
	if err != nil {
		return false
	}
	return fields[0] != "Z" && fields[0] != "X" && fields[19] == strconv.FormatUint(start, 10)
}

// killMarked kills every process that carries the mark in the environment it was
// started with, and waits until they are gone. It is what finds a process that
// was started an instant before its parent died, and the children of processes.
func killMarked(mark string) error {
	if mark == "" {
		return nil
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		pids, err := marked(mark)
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of the fleet do not end", pids)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func marked(mark string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	want := []byte(markVariable + "=" + mark)
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// The environment of a process of somebody else, or of a zombie, cannot
		// be read: it is not one of ours.
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil {
			continue
		}
		for v := range bytes.SplitSeq(env, []byte{0}) {
			if bytes.Equal(v, want) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids, nil
}
