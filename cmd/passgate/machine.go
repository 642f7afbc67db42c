package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// memoryRoot is a directory in memory for files that live for milliseconds, ""
// if the machine has none with room.
func memoryRoot(dir string, need uint64) string {
	const tmpfs = 0x01021994 // TMPFS_MAGIC, statfs(2)
	var fs syscall.Statfs_t
	if syscall.Statfs(dir, &fs) != nil || int64(fs.Type) != tmpfs || fs.Bavail*uint64(fs.Bsize) < need {
		return ""
	}
	probe, err := os.MkdirTemp(dir, "passgate-probe-")
	if err != nil {
		return ""
	}
	os.Remove(probe)
	return dir
}

// dumpRoot is where dumps of programs that are not executed go. The largest of
// the handed programs leaves some 100 MB.
func dumpRoot() string { return memoryRoot("/dev/shm", 1<<30) }

// processorTime is the processor time that this process, its children and the
// children that it has reaped have used so far.
func processorTime() time.Duration {
	total := time.Duration(0)
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if syscall.Getrusage(who, &r) == nil {
			total += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		data, _ := os.ReadFile(list) // a thread that has ended has no children
		for _, pid := range strings.Fields(string(data)) {
			total += usedBy(pid)
		}
	}
	return total
}

// usedBy is the processor time of a process by proc(5), fields 14 and 15, in
// ticks of 10 ms (USER_HZ is 100 on every Linux of amd64 and arm64); 0 if it
// has ended.
func usedBy(pid string) time.Duration {
	data, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}
