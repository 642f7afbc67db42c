package worker

import (
	"time"
)

// Config are the settings of a Pool. Zero fields take the value named in their comment.
type Config struct {
	// Command is the argument vector that runs Main in this or another passgate binary, e.g. {os.Args[0], "worker"}. Required.
	Command []string
	// Workers is the number of requests that run at a time; 1 if 0.
	Workers int
	// Processes bounds the live worker processes, busy and idle; 4*Workers if 0. The idle one that was used longest ago is
	// stopped when another build needs its place.
	Processes int
	// Timeout is the default deadline of a request; 60 s.
	Timeout time.Duration
	// StartTimeout bounds the start of a process until the build is loaded; 120 s (cold disks, Python imports).
	StartTimeout time.Duration
	// MemoryLimit is the anonymous resident memory in bytes at which a worker is killed; 4 GiB.
	MemoryLimit int64
	// RecycleGrowth is the growth in bytes since the first request at which a worker is replaced; 512 MiB.
	RecycleGrowth int64
	// LogLines is the number of last log lines kept per process; 200.
	LogLines int
	// TempDir is where workers may write scratch files; the system's temporary directory if empty.
	TempDir string
}
