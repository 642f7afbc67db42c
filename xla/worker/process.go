package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker/wire"
)

// process is one running worker.
type process struct {
	build  *builds.Build
	cmd    *exec.Cmd
	in     *os.File // requests
	out    *os.File // responses
	log    *logRing
	logged chan struct{} // closed when the log has ended
	exited chan struct{} // closed when the process has been reaped
	done   chan struct{} // closed when nobody will look at frames any more
	ending sync.Once

	mu     sync.Mutex
	reaped bool
	killed bool // by us

	frames  chan frame
	served  int
	nextID  uint64
	base    int64 // anonymous memory after the first request
	lastUse time.Time
	info    Info
}

type frame struct {
	resp *wire.Response
	err  error
}

// argv is the command line of a worker for a build.
func argv(command []string, b *builds.Build) []string {
	if b.Python != "" {
		// -I -S: nothing from the environment, the user or the interpreter's own site packages.
		return append([]string{b.Python, "-I", "-S", "-c", jaxlibScript}, b.PythonPath...)
	}
	args := slices.Clone(command)
	if b.Spec.Source == builds.Fault {
		args = append(args, "-fault", "-every", strconv.Itoa(b.Spec.Every))
	}
	if b.Plugin != "" {
		args = append(args, "-plugin", b.Plugin)
	}
	if t := b.Topology; t != nil {
		args = append(args, "-compile-only", "-topology", t.Name)
		for name, v := range t.Options {
			args = append(args, "-topology-option", name+"="+v)
		}
	}
	return args
}

// environ is the whole environment of a worker: fixed, so that the machine's settings do not reach the build under test.
func environ(cfg Config, b *builds.Build) []string {
	n := strconv.Itoa(cfg.Threads)
	env := []string{
		"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "TZ=UTC", "HOME=" + cfg.TempDir, "TMPDIR=" + cfg.TempDir,
		"NPROC=" + n, "PJRT_NPROC=" + n, "OMP_NUM_THREADS=" + n, "OPENBLAS_NUM_THREADS=" + n, // thread pools (xla/pjrt/utils.cc, libraries)
		"TF_CPP_MIN_LOG_LEVEL=1", // no INFO lines in the log
	}
	return append(env, b.Env...)
}

// startProcess starts a worker and waits until its build is loaded. On failure nothing is left behind.
func (p *Pool) startProcess(ctx context.Context, b *builds.Build) (*process, error) {
	var fds []int
	closeAll := func() {
		for _, fd := range fds {
			syscall.Close(fd)
		}
	}
	pipe := func() (r, w int, err error) {
		var f [2]int
		if err := syscall.Pipe2(f[:], syscall.O_CLOEXEC); err != nil {
			return 0, 0, fmt.Errorf("pipe: %w", err)
		}
		fds = append(fds, f[0], f[1])
		return f[0], f[1], nil
	}
	childIn, in, err1 := pipe()
	out, childOut, err2 := pipe()
	logR, childErr, err3 := pipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		closeAll()
		return nil, err
	}
	file := func(fd int, name string) *os.File { return os.NewFile(uintptr(fd), name) }
	ours := func(fd int, name string) *os.File {
		// Non-blocking pipes are polled: Close wakes a blocked read or write.
		if err := syscall.SetNonblock(fd, true); err != nil {
			panic(err) // a pipe of ours
		}
		return file(fd, name)
	}

	args := argv(p.cfg.Command, b)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = environ(p.cfg, b)
	cmd.Dir = p.cfg.TempDir
	theirs := []*os.File{file(childIn, "stdin"), file(childOut, "stdout"), file(childErr, "stderr")}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	w := &process{
		build: b, cmd: cmd, in: ours(in, "requests"), out: ours(out, "responses"),
		log: newLogRing(p.cfg.LogLines), logged: make(chan struct{}), exited: make(chan struct{}), done: make(chan struct{}), frames: make(chan frame, 1),
	}
	logFile := ours(logR, "log")
	err := p.start(cmd)
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		w.in.Close()
		w.out.Close()
		logFile.Close()
		return nil, err
	}
	// Under memory pressure the kernel shall take a worker, not the gate. Raising the score needs no privilege; where /proc
	// forbids it the RSS watch still holds.
	_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "oom_score_adj"), []byte("1000"), 0)
	noCore(cmd.Process.Pid)
	go func() {
		_, _ = io.Copy(w.log, logFile) // ends with the process
		logFile.Close()
		close(w.logged)
	}()
	go func() {
		for {
			resp := &wire.Response{}
			err := wire.Read(w.out, resp)
			select {
			case w.frames <- frame{resp, err}:
			case <-w.done:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		awaitEnd(cmd.Process.Pid)
		w.mu.Lock()
		// What the process started and left behind dies with it. As long as it is not reaped its id cannot be anyone else's.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		w.reaped = true
		_ = cmd.Wait() // the state is read from ProcessState
		w.mu.Unlock()
		close(w.exited)
	}()

	timeout := time.NewTimer(p.cfg.StartTimeout)
	defer timeout.Stop()
	select {
	case f := <-w.frames:
		switch {
		case f.err != nil:
			crash := w.end()
			return nil, fmt.Errorf("worker ended while it loaded the build (%s): %s", crash, strings.Join(w.log.last(5), " | "))
		case f.resp.GetTrouble() != "":
			w.end()
			return nil, fmt.Errorf("worker could not load the build: %s", f.resp.GetTrouble())
		case f.resp.GetId() != 0 || f.resp.GetHello() == nil:
			w.end()
			return nil, errors.New("worker did not introduce its build")
		}
		h := f.resp.GetHello()
		w.info = Info{Platform: h.GetPlatform(), PlatformVersion: h.GetPlatformVersion(), API: h.GetApi(),
			Extensions: h.GetExtensions(), Devices: int(h.GetDevices())}
		return w, nil
	case <-timeout.C:
		w.end()
		return nil, fmt.Errorf("worker did not load the build within %v: %s", p.cfg.StartTimeout, strings.Join(w.log.last(5), " | "))
	case <-ctx.Done():
		w.end()
		return nil, ctx.Err()
	case <-p.closing:
		w.end()
		return nil, errClosed
	}
}

// kill sends SIGKILL to the process group unless the process is gone already.
func (w *process) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.reaped {
		w.killed = true
		// The group may have ended just now; there is nothing to do about other errors.
		_ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// end kills the process, waits until it is gone and returns how it died. It may be called again.
func (w *process) end() *Crash {
	w.kill()
	return w.wait()
}

// wait waits for the end of the process and of its log, and releases the pipes.
func (w *process) wait() *Crash {
	<-w.exited
	<-w.logged
	w.ending.Do(func() {
		close(w.done)
		w.in.Close()
		w.out.Close()
	})
	c := crashOf(w.cmd.ProcessState, w.log.last(0))
	w.log.mu.Lock()
	c.address = w.log.fault
	w.log.mu.Unlock()
	return c
}

// awaitEnd waits until a child has ended, without reaping it.
func awaitEnd(pid int) {
	const pPid, wExited, wNoWait = 1, 4, 0x01000000
	var info [128]byte // siginfo_t
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPid, uintptr(pid), uintptr(unsafe.Pointer(&info)), wExited|wNoWait, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}

// noCore keeps a crashing worker from writing its memory to the disk. If the kernel refuses, a crash only takes longer.
func noCore(pid int) {
	const rlimitCore = 4
	none := syscall.Rlimit{}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), rlimitCore, uintptr(unsafe.Pointer(&none)), 0, 0, 0)
}

// dying says whether the process is on its way out (or gone): the kernel has marked its first thread with PF_EXITING. A
// process closes its descriptors by exiting only after all its threads carry the mark.
func (w *process) dying() bool {
	const pfExiting = 4
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(w.cmd.Process.Pid), "stat"))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest) // from the third field of proc(5), the state, on
	if len(fields) < 7 {
		return true
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return err != nil || flags&pfExiting != 0
}

// wasKilled says whether we killed the process.
func (w *process) wasKilled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.killed
}

// anonymous is the process's anonymous resident memory in bytes; 0 if it is gone.
func (w *process) anonymous() int64 {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(w.cmd.Process.Pid), "statm"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 3 {
		return 0
	}
	resident, err1 := strconv.ParseInt(fields[1], 10, 64)
	shared, err2 := strconv.ParseInt(fields[2], 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return (resident - shared) * int64(os.Getpagesize())
}

func (c *Crash) String() string {
	how := "exit status " + strconv.Itoa(c.Exit)
	if c.Signal != "" {
		how = c.Signal
	}
	if c.Check != nil {
		how += ": " + c.Check.String()
	}
	return how
}

func (c *Check) String() string {
	if c.File == "" {
		return c.Text
	}
	return fmt.Sprintf("%s:%d: %s", c.File, c.Line, c.Text)
}

var (
	// "F0000 00:00:1700000000.123456    1234 file.cc:123] Check failed: ..." (absl), "2023-06-01 10:00:00.123456: F
	// dir/file.cc:123] Check failed: ..." (TSL before 2024)
	fatalLine = regexp.MustCompile(`^(?:F\d{4} \S+\s+\d+|\d{4}-\S+ \S+: F) ([^\s:\]]+):(\d+)\] (.*)`)
	// "prog: file.cpp:123: void f(): Assertion `x' failed." (assert)
	assertLine = regexp.MustCompile(`([^\s:]+\.[A-Za-z]+):(\d+): (.*Assertion .* failed.*)`)
	// "LLVM ERROR: ...", "terminate called after throwing ..."
	otherLine = regexp.MustCompile(`^(LLVM ERROR: .*|terminate called .*|libc\+\+abi: terminating .*|\*\*\* stack smashing detected.*|(?:malloc|free|double free|corrupted).*: .*)`)
	// The Go runtime says which signal it died of, and then exits with status 2.
	goSignal = regexp.MustCompile(`^(SIG[A-Z]+): `)
	// onFault says which address was touched, if it is one around the arguments.
	faultAddress = regexp.MustCompile(`^passgate: fault ([0-9a-f]{16})$`)
)

// crashOf reads the end of a process from its state and its log.
func crashOf(state *os.ProcessState, log []string) *Crash {
	c := &Crash{Exit: state.ExitCode()}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		c.Signal = signalName(ws.Signal())
	}
	for _, line := range log {
		if c.Signal == "" && c.Exit == 2 {
			if m := goSignal.FindStringSubmatch(line); m != nil {
				c.Signal, c.Exit = m[1], -1
			}
		}
		if c.Check == nil {
			c.Check = checkOf(line)
		}
	}
	return c
}

// checkOf reads a fatal log line; nil for any other.
func checkOf(line string) *Check {
	m := fatalLine.FindStringSubmatch(line)
	if m == nil {
		m = assertLine.FindStringSubmatch(line)
	}
	if m != nil {
		n, err := strconv.Atoi(m[2])
		if err == nil {
			return &Check{File: m[1], Line: n, Text: m[3]}
		}
	}
	if m != nil || otherLine.MatchString(line) {
		return &Check{Text: line}
	}
	return nil
}

func signalName(s syscall.Signal) string {
	names := map[syscall.Signal]string{syscall.SIGABRT: "SIGABRT", syscall.SIGSEGV: "SIGSEGV", syscall.SIGBUS: "SIGBUS",
		syscall.SIGILL: "SIGILL", syscall.SIGFPE: "SIGFPE", syscall.SIGKILL: "SIGKILL", syscall.SIGTERM: "SIGTERM", syscall.SIGTRAP: "SIGTRAP"}
	if n, ok := names[s]; ok {
		return n
	}
	return "signal " + strconv.Itoa(int(s))
}

// logRing keeps the last lines that were written to it.
type logRing struct {
	mu      sync.Mutex
	lines   []string
	total   int // lines seen
	partial []byte
	keep    int
	over    bool   // the Go runtime has begun to print goroutines: nothing of the build follows
	fault   uint64 // the address around the arguments that was touched
}

// maxLogLine bounds a line in bytes; the rest is dropped.
const maxLogLine = 4096

func newLogRing(keep int) *logRing { return &logRing{keep: keep} }

func (r *logRing) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(b)
	for {
		line, rest, found := bytes.Cut(b, []byte("\n"))
		if room := maxLogLine - len(r.partial); room > 0 {
			r.partial = append(r.partial, line[:min(len(line), room)]...)
		}
		if !found {
			return n, nil
		}
		r.push(string(r.partial))
		r.partial = r.partial[:0]
		b = rest
	}
}

func (r *logRing) push(line string) {
	if n := len(r.lines); !r.over && n > 0 && strings.HasPrefix(line, "PC=") && goSignal.MatchString(r.lines[n-1]) {
		r.over = true // GOTRACEBACK cannot switch this off after a signal
	}
	if r.over {
		return
	}
	if m := faultAddress.FindStringSubmatch(line); m != nil {
		r.fault, _ = strconv.ParseUint(m[1], 16, 64) // a number by the expression, and of 64 bits
	}
	r.total++
	r.lines = append(r.lines, strings.ToValidUTF8(line, "\uFFFD"))
	if len(r.lines) > r.keep {
		r.lines = slices.Delete(r.lines, 0, len(r.lines)-r.keep)
	}
}

// mark is the number of lines so far; since returns those after a mark that are still kept.
func (r *logRing) mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

func (r *logRing) since(mark int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	if len(r.partial) > 0 {
		lines = append(slices.Clone(lines), strings.ToValidUTF8(string(r.partial), "\uFFFD"))
	}
	first := r.total - len(r.lines)
	return slices.Clone(lines[min(max(mark-first, 0), len(lines)):])
}

// last returns the last n kept lines, all of them for 0.
func (r *logRing) last(n int) []string {
	lines := r.since(0)
	if n > 0 && len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return lines
}

// check finds mistakes of the caller.
func (r Request) check() error {
	switch {
	case r.Format != HLO && r.Format != MLIR:
		return fmt.Errorf("request: unknown program format %q", r.Format)
	case r.DumpDir != "" && !filepath.IsAbs(r.DumpDir):
		return fmt.Errorf("request: dump directory %q is not absolute", r.DumpDir)
	case r.Replicas < 0 || r.Replicas > 1 && !r.CompileOnly:
		return fmt.Errorf("request: %d replicas; more than one can be compiled for only", r.Replicas)
	case r.Repeat < 0:
		return fmt.Errorf("request: %d repetitions", r.Repeat)
	case r.CompileOnly && len(r.Inputs) > 0:
		return errors.New("request: inputs for a compilation only")
	}
	return nil
}

// withGuard says what the address means at which a process died.
func (r Request) withGuard(o Outcome) Outcome {
	if r.CheckMemory && o.Crash != nil && o.Crash.address != 0 {
		o.Crash.Guard = r.guardFault(uintptr(o.Crash.address))
	}
	return o
}

func (r Request) message(id uint64) *wire.Request {
	m := &wire.Request{Id: id, Program: r.Program, Format: string(r.Format), Options: r.Options, BackendOnly: r.BackendOnly,
		WantOptimized: r.WantOptimized, DumpDir: r.DumpDir, DumpAll: r.DumpAll, CompileOnly: r.CompileOnly, Repeat: int32(max(r.Repeat, 1)), RepeatNs: int64(r.RepeatFor), Replicas: int32(r.Replicas),
		CheckMemory: r.CheckMemory}
	for _, p := range r.Before {
		m.Before = append(m.Before, &wire.Predecessor{Program: p.Program, Format: string(p.Format), Inputs: arraysOf(p.Inputs)})
	}
	if t := r.Transform; t != nil {
		m.Transform = &wire.Transform{Stage: int32(t.Stage), Module: t.Module}
	}
	for _, set := range r.Inputs {
		m.Inputs = append(m.Inputs, arraysOf(set))
	}
	return m
}

func arraysOf(set []Array) *wire.Arrays {
	out := &wire.Arrays{}
	for _, a := range set {
		out.Arrays = append(out.Arrays, &wire.Array{Type: a.Type, Dims: a.Dims, Data: a.Data})
	}
	return out
}

// send writes a request without waiting: a process that does not read must not stop the pool.
func (w *process) send(m proto.Message) {
	go func() {
		_ = wire.Write(w.in, m) // a broken pipe shows on the reading side as the end of the process
	}()
}
