package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/passgate/passgate/gate"
)

// scratch is a directory of this process for files that live shortly: dumps of
// programs, mostly. The process holds a lock on it (flock(2)) until it ends,
// however it ends; whoever makes the next one sweeps away those without an owner.
type scratch struct {
	root string // where it is made; "" is the system's directory for such files
	once sync.Once
	path string
	lock *os.File
	err  error
}

// scratchRoot is dir if that is in memory and has need bytes of room, else "". The
// largest of the handed programs leaves some 100 MB of dumps.
func scratchRoot(dir string, need uint64) string {
	const tmpfs = 0x01021994 // TMPFS_MAGIC, statfs(2)
	var fs syscall.Statfs_t
	if syscall.Statfs(dir, &fs) != nil || int64(fs.Type) != tmpfs || fs.Bavail*uint64(fs.Bsize) < need || syscall.Access(dir, 2) != nil {
		return ""
	}
	return dir
}

// dir makes the directory when it is first asked for.
func (s *scratch) dir() (string, error) {
	s.once.Do(func() {
		if s.root == "" {
			s.root = os.TempDir()
		}
		s.sweep()
		if s.path, s.err = os.MkdirTemp(s.root, scratchPrefix); s.err != nil {
			return
		}
		if s.lock, s.err = os.Open(s.path); s.err != nil {
			return
		}
		s.err = syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX)
	})
	return s.path, s.err
}

const scratchPrefix = "passgate-scratch-"

// sweep removes what processes that were killed have left behind. One that is being
// made has no lock for a moment: it must be a minute old.
func (s *scratch) sweep() {
	found, _ := filepath.Glob(filepath.Join(s.root, scratchPrefix+"*"))
	for _, path := range found {
		if info, err := os.Lstat(path); err != nil || !info.IsDir() || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lock, err := os.Open(path)
		if err != nil {
			continue // another user's
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.RemoveAll(path)
		}
		lock.Close()
	}
}

func (s *scratch) remove() {
	if s.path != "" {
		os.RemoveAll(s.path)
	}
	if s.lock != nil {
		s.lock.Close()
	}
}

// dumps lets a run write its dumps into the scratch directory.
func (a *app) dumps(cfg *gate.Config) error {
	dir, err := a.scratch.dir()
	cfg.DumpRoot = dir
	cfg.TempDir = func() (string, func(), error) {
		dir, err := os.MkdirTemp(dir, "dump-")
		return dir, func() { os.RemoveAll(dir) }, err
	}
	return err
}

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
