package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/pjrt"
	"github.com/passgate/passgate/xla/worker/wire"
)

// Config are the settings of a Pool. Zero fields take the value named in their comment.
type Config struct {
	// Command is the argument vector that runs Main in this or another passgate binary, e.g. {os.Args[0], "worker"}. Required.
	Command []string
	// Workers is the number of requests that run at a time; 1.
	Workers int
	// Processes bounds the live worker processes, busy and idle; 4*Workers. The idle one that was used longest ago is
	// stopped when another build needs its place.
	Processes int
	// Threads is the size of the build's thread pools, the same on every machine for reproducible results; 2.
	Threads int
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
	// TempDir is the workers' working, home and scratch directory; the system's temporary directory.
	TempDir string
}

func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.Workers, 1)
	def(&c.Processes, 4*c.Workers)
	c.Processes = max(c.Processes, c.Workers)
	def(&c.Threads, 2)
	def(&c.LogLines, 200)
	if c.Timeout == 0 {
		c.Timeout = 60 * time.Second
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 120 * time.Second
	}
	if c.MemoryLimit == 0 {
		c.MemoryLimit = 4 << 30
	}
	if c.RecycleGrowth == 0 {
		c.RecycleGrowth = 512 << 20
	}
	if c.TempDir == "" {
		c.TempDir = os.TempDir()
	}
	return c
}

const (
	memoryPeriod  = 50 * time.Millisecond
	startAttempts = 3
)

var errClosed = errors.New("the worker pool is closed")

// Pool runs requests on worker processes of many builds. Its methods are safe for concurrent use.
type Pool struct {
	cfg     Config
	closing chan struct{}
	starts  chan func()
	ended   sync.WaitGroup // processes being ended in the background

	mu      sync.Mutex
	closed  bool
	running int                   // requests that hold a place
	calls   sync.WaitGroup        // requests that are inside Do
	waiting map[string][]*waiter  // by build, first come first served
	turn    []string              // builds that have waiters, next one first
	idle    map[string][]*process // by build, last used last
	live    int                   // processes, busy and idle
	broken  map[string]*breakage  // builds whose last start failed
}

type waiter struct{ ready chan struct{} }

// breakage remembers that a build cannot be started, so that thousands of requests do not each try in vain.
type breakage struct {
	err   error
	until time.Time
	delay time.Duration
}

// NewPool checks the settings; processes start with the first request of their build.
func NewPool(cfg Config) (*Pool, error) {
	if len(cfg.Command) == 0 {
		return nil, errors.New("worker pool: no command")
	}
	if cfg.Workers < 0 || cfg.Processes < 0 || cfg.Threads < 0 || cfg.Timeout < 0 || cfg.StartTimeout < 0 || cfg.MemoryLimit < 0 || cfg.RecycleGrowth < 0 {
		return nil, errors.New("worker pool: negative setting")
	}
	cfg = cfg.withDefaults()
	temp, err := filepath.Abs(cfg.TempDir)
	if err != nil {
		return nil, err
	}
	cfg.TempDir = temp
	p := &Pool{
		cfg: cfg, closing: make(chan struct{}), starts: make(chan func()),
		waiting: map[string][]*waiter{}, idle: map[string][]*process{}, broken: map[string]*breakage{},
	}
	go func() {
		// The kernel sends the parent-death signal when the thread that started the child ends. This one is locked to its
		// goroutine and ends with the pool, when no child is left.
		runtime.LockOSThread()
		for f := range p.starts {
			f()
		}
	}()
	return p, nil
}

// start runs cmd.Start on the starter thread.
func (p *Pool) start(cmd *exec.Cmd) error {
	err := make(chan error, 1)
	p.starts <- func() { err <- cmd.Start() }
	return <-err
}

// key tells builds apart whose workers cannot stand in for each other: a process keeps the environment it started with.
func key(b *builds.Build) string {
	return fmt.Sprintf("%s|%s|%s|%s|%v|%q", b.Spec.Text, b.ID, b.Plugin, b.Python, b.Topology, b.Env)
}

// Do runs one request on any worker of the build and waits for the outcome. It never returns without one: when ctx ends
// the outcome is Infrastructure with ctx's error, and a worker that was running the request is killed.
func (p *Pool) Do(ctx context.Context, b *builds.Build, r Request) Outcome {
	if err := r.check(); err != nil {
		return Outcome{Status: Infrastructure, Err: err}
	}
	return r.withGuard(p.do(ctx, b, r.message, r.Timeout, false))
}

// DoFresh is Do in a process that has served nothing before. It is gone when DoFresh returns.
func (p *Pool) DoFresh(ctx context.Context, b *builds.Build, r Request) Outcome {
	if err := r.check(); err != nil {
		return Outcome{Status: Infrastructure, Err: err}
	}
	return r.withGuard(p.do(ctx, b, r.message, r.Timeout, true))
}

// Describe loads the build in a worker and says what it is. An error is an infrastructure failure.
func (p *Pool) Describe(ctx context.Context, b *builds.Build) (Info, error) {
	if err := p.enter(); err != nil {
		return Info{}, err
	}
	defer p.calls.Done()
	if err := p.acquire(ctx, key(b)); err != nil {
		return Info{}, err
	}
	defer p.release()
	w, err := p.take(ctx, b, false)
	if err != nil {
		return Info{}, err
	}
	p.put(w)
	return w.info, nil
}

// SupportedOptions tells which of the option names the build has, by asking it ("No such compile option").
func (p *Pool) SupportedOptions(ctx context.Context, b *builds.Build, names []string) (map[string]bool, error) {
	out := map[string]bool{}
	if len(names) == 0 {
		return out, nil
	}
	o := p.do(ctx, b, func(id uint64) *wire.Request { return &wire.Request{Id: id, Probe: names} }, 0, false)
	if o.Status != OK {
		return nil, fmt.Errorf("probe the options of %s: %s: %s", b.Spec, o.Status, o.detail())
	}
	for _, n := range names {
		out[n] = slices.Contains(o.supported, n)
	}
	return out, nil
}

// Close ends all workers, running requests included, and waits until they are gone.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	close(p.closing)
	p.mu.Unlock()
	p.calls.Wait()
	p.mu.Lock()
	var all []*process
	for _, ws := range p.idle {
		all = append(all, ws...)
	}
	p.idle = nil
	p.mu.Unlock()
	for _, w := range all {
		w.end()
	}
	p.ended.Wait()
	close(p.starts)
	return nil
}

func (p *Pool) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	p.calls.Add(1)
	return nil
}

// acquire waits for one of the Workers places. Builds are served in turn, requests of one build in order.
func (p *Pool) acquire(ctx context.Context, k string) error {
	p.mu.Lock()
	if p.running < p.cfg.Workers {
		p.running++
		p.mu.Unlock()
		return nil
	}
	w := &waiter{ready: make(chan struct{})}
	if len(p.waiting[k]) == 0 {
		p.turn = append(p.turn, k)
	}
	p.waiting[k] = append(p.waiting[k], w)
	p.mu.Unlock()
	var err error
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-p.closing:
		err = errClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-w.ready: // the place came at the same time; pass it on
		p.releaseLocked()
	default:
		p.dropWaiter(k, w)
	}
	return err
}

func (p *Pool) dropWaiter(k string, w *waiter) {
	p.waiting[k] = slices.DeleteFunc(p.waiting[k], func(x *waiter) bool { return x == w })
	if len(p.waiting[k]) == 0 {
		delete(p.waiting, k)
		p.turn = slices.DeleteFunc(p.turn, func(x string) bool { return x == k })
	}
}

func (p *Pool) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releaseLocked()
}

func (p *Pool) releaseLocked() {
	if len(p.turn) == 0 {
		p.running--
		return
	}
	k := p.turn[0]
	p.turn = p.turn[1:]
	w := p.waiting[k][0]
	p.waiting[k] = p.waiting[k][1:]
	if len(p.waiting[k]) > 0 {
		p.turn = append(p.turn, k)
	} else {
		delete(p.waiting, k)
	}
	close(w.ready)
}

// take returns an idle worker of the build or starts one.
func (p *Pool) take(ctx context.Context, b *builds.Build, fresh bool) (*process, error) {
	k := key(b)
	if !fresh {
		for {
			p.mu.Lock()
			ws := p.idle[k]
			if len(ws) == 0 {
				p.mu.Unlock()
				break
			}
			w := ws[len(ws)-1]
			p.idle[k] = ws[:len(ws)-1]
			p.mu.Unlock()
			select {
			case <-w.exited: // died while idle: nobody's request
				p.retire(w)
			default:
				return w, nil
			}
		}
	}
	p.mu.Lock()
	if br := p.broken[k]; br != nil && time.Now().Before(br.until) {
		p.mu.Unlock()
		return nil, br.err
	}
	var victim *process
	if p.live >= p.cfg.Processes {
		victim = p.oldestIdle()
	}
	p.live++
	p.mu.Unlock()
	if victim != nil {
		p.retire(victim)
	}
	var err error
	delay := 100 * time.Millisecond
	for attempt := range startAttempts {
		if attempt > 0 {
			select {
			case <-time.After(delay):
				delay *= 4
			case <-ctx.Done():
				err = ctx.Err()
			case <-p.closing:
				err = errClosed
			}
		}
		if ctx.Err() != nil || errors.Is(err, errClosed) {
			break
		}
		var w *process
		if w, err = p.startProcess(ctx, b); err == nil {
			p.mu.Lock()
			delete(p.broken, k)
			p.mu.Unlock()
			return w, nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live--
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !errors.Is(err, errClosed) {
		br := p.broken[k]
		if br == nil {
			br = &breakage{delay: time.Second}
			p.broken[k] = br
		}
		br.err, br.until = err, time.Now().Add(br.delay)
		br.delay = min(2*br.delay, time.Minute)
	}
	return nil, err
}

// oldestIdle takes the idle process that was used longest ago out of the pool; nil if there is none.
func (p *Pool) oldestIdle() *process {
	var oldest *process
	for _, ws := range p.idle {
		if len(ws) > 0 && (oldest == nil || ws[0].lastUse.Before(oldest.lastUse)) {
			oldest = ws[0]
		}
	}
	if oldest != nil {
		k := key(oldest.build)
		p.idle[k] = p.idle[k][1:]
	}
	return oldest
}

// put gives a worker back for the next request.
func (p *Pool) put(w *process) {
	w.lastUse = time.Now()
	p.mu.Lock()
	if !p.closed {
		k := key(w.build)
		p.idle[k] = append(p.idle[k], w)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	p.retire(w)
}

// retire ends a process in the background.
func (p *Pool) retire(w *process) {
	p.mu.Lock()
	p.live--
	p.mu.Unlock()
	w.kill()
	p.ended.Go(func() { w.wait() })
}

func (p *Pool) do(ctx context.Context, b *builds.Build, message func(uint64) *wire.Request, timeout time.Duration, fresh bool) Outcome {
	if err := p.enter(); err != nil {
		return Outcome{Status: Infrastructure, Err: err}
	}
	defer p.calls.Done()
	if err := p.acquire(ctx, key(b)); err != nil {
		return Outcome{Status: Infrastructure, Err: err}
	}
	defer p.release()
	w, err := p.take(ctx, b, fresh)
	if err != nil {
		return Outcome{Status: Infrastructure, Err: err}
	}
	if timeout <= 0 {
		timeout = p.cfg.Timeout
	}
	o, usable := p.run(ctx, w, message, timeout)
	switch {
	case fresh:
		p.retire(w)
		w.wait()
	case !usable:
		p.retire(w)
	case w.anonymous()-w.base > p.cfg.RecycleGrowth:
		p.retire(w)
	default:
		p.put(w)
	}
	return o
}

// run gives one request to a worker and watches it. usable says whether the process can serve another.
func (p *Pool) run(ctx context.Context, w *process, message func(uint64) *wire.Request, timeout time.Duration) (o Outcome, usable bool) {
	start := time.Now()
	mark := w.log.mark()
	o.Fresh = w.served == 0
	w.served++
	w.nextID++
	id := w.nextID
	defer func() {
		o.Elapsed = time.Since(start)
		o.Log = w.log.since(mark)
	}()
	end := func(status Status, err error) (Outcome, bool) {
		w.end()
		o.Status, o.Err = status, err
		return o, false
	}

	w.send(message(id))
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	memory := time.NewTicker(memoryPeriod)
	defer memory.Stop()
	for {
		select {
		case f := <-w.frames:
			return p.judge(w, f, id, o)
		case <-deadline.C:
			return end(Hung, fmt.Errorf("no answer within %v", timeout))
		case <-memory.C:
			if n := w.anonymous(); n > p.cfg.MemoryLimit {
				return end(OutOfMemory, fmt.Errorf("worker uses %d MiB, limit %d MiB", n>>20, p.cfg.MemoryLimit>>20))
			}
		case <-ctx.Done():
			return end(Infrastructure, ctx.Err())
		case <-p.closing:
			return end(Infrastructure, errClosed)
		}
	}
}

// judge turns what came from a worker into an outcome.
func (p *Pool) judge(w *process, f frame, id uint64, o Outcome) (Outcome, bool) {
	if f.err != nil {
		return p.judgeEnd(w, f.err, o), false
	}
	resp := f.resp
	if resp.GetId() != id {
		w.end()
		o.Status, o.Err = Garbage, fmt.Errorf("answer to request %d, want %d", resp.GetId(), id)
		return o, false
	}
	if w.base == 0 {
		w.base = w.anonymous()
	}
	o.InXLA = time.Duration(resp.GetCompileNs() + resp.GetExecuteNs())
	o.Seen = resp.GetSeen()
	switch {
	case resp.GetTrouble() != "":
		w.end()
		o.Status, o.Err = Infrastructure, fmt.Errorf("fault of the worker: %s", resp.GetTrouble())
		return o, false
	case resp.GetFailure() != nil:
		o.Status, o.Failure = Rejected, failureOf(resp.GetFailure())
		o.Dropped = resp.GetDropped()
	default:
		o.Status, o.Result = OK, resultOf(resp)
		o.Dropped = resp.GetDropped()
		o.supported = resp.GetSupported()
	}
	return o, true
}

// judgeEnd says what it means that the stream of frames ended.
func (p *Pool) judgeEnd(w *process, err error, o Outcome) Outcome {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		w.end()
		o.Status, o.Err = Garbage, err
		return o
	}
	var crash *Crash
	if w.dying() {
		crash = w.wait()
	} else {
		crash = w.end()
	}
	switch {
	case w.wasKilled():
		o.Status, o.Err = Garbage, errors.New("worker closed its output and went on")
	case crash.Signal == "SIGKILL":
		o.Status, o.Err = OutOfMemory, errors.New("killed by SIGKILL from outside: the kernel's choice when memory is short")
	case errors.Is(err, io.ErrUnexpectedEOF) && crash.Signal == "" && crash.Exit == 0:
		o.Status, o.Err = Garbage, errors.New("worker ended inside a frame")
	default:
		o.Status, o.Crash = Crashed, crash
	}
	return o
}

func failureOf(f *wire.Failure) *Failure {
	return &Failure{Stage: Stage(f.GetStage()), Code: pjrt.Code(f.GetCode()), Message: f.GetMessage()}
}

func resultOf(resp *wire.Response) *Result {
	r := &Result{Optimized: resp.GetOptimized(),
		Compile: time.Duration(resp.GetCompileNs()), Execute: time.Duration(resp.GetExecuteNs())}
	for _, s := range resp.GetSets() {
		set := SetResult{Memory: memoryOf(s.GetMemory())}
		if s.GetFailure() != nil {
			set.Failure = failureOf(s.GetFailure())
		}
		for _, d := range s.GetDistinct() {
			out := Distinct{Count: int(d.GetCount()), First: int(d.GetFirst()), Under: d.GetUnder()}
			for _, a := range d.GetOutputs() {
				out.Outputs = append(out.Outputs, Array{Type: a.GetType(), Dims: a.GetDims(), Data: a.GetData()})
			}
			set.Distinct = append(set.Distinct, out)
		}
		r.Sets = append(r.Sets, set)
	}
	return r
}

// detail is one line about an outcome that is not OK.
func (o *Outcome) detail() string {
	switch {
	case o.Failure != nil:
		return o.Failure.Error()
	case o.Crash != nil:
		return o.Crash.String()
	case o.Err != nil:
		return o.Err.Error()
	}
	return o.Status.String()
}
