// Package worker runs programs on real XLA builds in processes of their own and turns everything that can happen to such
// a process into one typed Outcome.
//
// A compiler under test may abort, loop, eat the machine's memory or write rubbish. So no plugin is ever loaded into the
// gate's own process: a Pool starts worker processes (the passgate binary itself with a hidden subcommand, see Main; for
// jaxlib builds a Python script), sends requests over pipes and watches them.
//
//	pool, err := worker.NewPool(worker.Config{Command: []string{os.Args[0], "worker"}, Workers: 2})
//	defer pool.Close()
//	out := pool.Do(ctx, build, worker.Request{Program: proto, Format: worker.HLO, Inputs: [][]worker.Array{{a, b}}, Repeat: 3})
//	switch out.Status {
//	case worker.OK:             // out.Result.Sets[i].Distinct[j].{Outputs, Count}
//	case worker.Rejected:       // out.Failure.{Stage, Code, Message}: the compiler or runtime said no
//	case worker.Crashed:        // out.Crash.{Signal, Exit, Check}, out.Log
//	case worker.Hung, worker.OutOfMemory, worker.Garbage:
//	case worker.Infrastructure: // the machine is wrong, not the compiler: no judgement about the case
//	}
//
// Do blocks until the outcome is there; callers use as many goroutines as they like, the pool runs Config.Workers
// requests at a time and serves the builds in turn. DoFresh is the same in a process that has run nothing before and runs
// nothing afterwards: for confirmations.
//
// # Processes
//
// A worker process holds one build and serves thousands of requests, one at a time. It is killed (the whole process
// group, SIGKILL) when a request outlives its deadline, when its memory passes the limit, when its answer is not a frame
// of the protocol, or when the context of the request ends. It is replaced when its memory has grown by more than
// Config.RecycleGrowth since its first request. Workers die with the pool's process, however that dies: each is started with
// a parent-death signal from a thread that lives as long as the pool, and ends by itself when its input closes.
//
// # Memory limit
//
// RLIMIT_AS cannot be used: plugins reserve far more address space than they touch. The pool reads the anonymous
// resident memory of each busy worker every 50 ms (/proc/PID/statm: resident minus shared) and kills above
// Config.MemoryLimit. Between two readings a process can overshoot; so every worker also gets the highest oom_score_adj,
// and if the kernel has to kill something it takes the worker: a SIGKILL that the pool did not send is reported as
// OutOfMemory too. A cgroup would be tighter but needs delegation that CI runners do not give; if passgate itself runs in
// one, the kernel's choice inside that cgroup follows the same score.
//
// # Wire
//
// Frames on the worker's standard input and output: "pgw1", length (u32 little-endian), CRC-32 IEEE of the payload (u32
// little-endian), payload = a message of wire/worker.proto. The worker moves its real standard output to a private
// descriptor before it loads anything and points descriptors 0 and 1 elsewhere, so that what a plugin prints lands in
// the log (standard error), never in a frame.
package worker
