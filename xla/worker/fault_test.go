package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/pjrt"
	"github.com/passgate/passgate/xla/pjrt/hlotest"
)

// faultOutcome is what each injected fault must turn into.
var faultOutcome = map[string]Status{
	"segv": Crashed, "abort": Crashed, "check": Crashed, "exit": Crashed, "hang": Hung, "memory": OutOfMemory,
	"garbage": Garbage, "truncate": Garbage, "closed": Garbage, "noise": OK, "internal": Rejected, "": OK,
}

// children are the live processes whose parent is this one, by command line.
func children(t *testing.T) map[int]string {
	t.Helper()
	out := map[int]string{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it ended
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 2 && fields[1] == strconv.Itoa(os.Getpid()) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			out[pid] = fields[0]
		}
	}
	return out
}

func echoRequest(fault string, value byte) Request {
	r := Request{Program: []byte{value}, Format: HLO, Inputs: [][]Array{{{Type: 6, Dims: []int64{1}, Data: []byte{value}}}}}
	if fault != "" {
		r.Options = map[string]string{FaultOption: fault}
	}
	return r
}

func checkFault(fault string, value byte, o Outcome) error {
	if o.Status != faultOutcome[fault] {
		return fmt.Errorf("fault %q: %s (%s), want %s; log %q", fault, o.Status, o.detail(), faultOutcome[fault], o.Log)
	}
	switch fault {
	case "", "noise":
		if got := o.Result.Sets[0].Distinct[0].Outputs[0].Data; !slices.Equal(got, []byte{value}) {
			return fmt.Errorf("fault %q: output % x, want %x", fault, got, value)
		}
	case "segv", "abort", "check":
		want := map[string]string{"segv": "SIGSEGV", "abort": "SIGABRT", "check": "SIGABRT"}[fault]
		if o.Crash.Signal != want || o.Crash.Exit != -1 {
			return fmt.Errorf("fault %q: %+v, want signal %s", fault, o.Crash, want)
		}
		if c := o.Crash.Check; (c != nil) != (fault == "check") || c != nil && *c != (Check{"fault.cc", 42, "Check failed: injected"}) {
			return fmt.Errorf("fault %q: check %+v", fault, c)
		}
	case "exit":
		if o.Crash.Signal != "" || o.Crash.Exit != 0 {
			return fmt.Errorf("fault %q: %+v", fault, o.Crash)
		}
	case "internal":
		if o.Failure.Code != pjrt.Internal || o.Failure.Stage != StageCompile {
			return fmt.Errorf("fault %q: %+v", fault, o.Failure)
		}
	}
	return nil
}

// TestThreeHundredFaults mixes 300 faults of all kinds with good requests, on several workers at once. Every request has its
// own outcome, and no process is left.
func TestThreeHundredFaults(t *testing.T) {
	if len(children(t)) != 0 {
		t.Fatalf("children before the test: %v", children(t))
	}
	p := newPool(t, Config{Workers: 4, Timeout: 60 * time.Second, MemoryLimit: 128 << 20})
	b := fetch(t, "fault:0:")
	var jobs []string
	for i := range 300 {
		jobs = append(jobs, Faults[i%len(Faults)], "", "")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	rng.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	errs := make([]error, len(jobs))
	var wg sync.WaitGroup
	for i, fault := range jobs {
		wg.Go(func() {
			r := echoRequest(fault, byte(i))
			if fault == "hang" {
				r.Timeout = 100 * time.Millisecond
			}
			errs[i] = checkFault(fault, byte(i), p.Do(t.Context(), b, r))
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("job %d: %v", i, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if left := children(t); len(left) != 0 {
		t.Errorf("orphans: %v", left)
	}
}

// TestNoise: what a build prints to standard output comes out in the log.
func TestNoise(t *testing.T) {
	p := newPool(t, Config{Workers: 1})
	b := fetch(t, "fault:0:")
	if err := checkFault("noise", 5, p.Do(t.Context(), b, echoRequest("noise", 5))); err != nil {
		t.Fatal(err)
	}
	log := p.idle[key(b)][0].log
	for len(log.last(0)) == 0 { // the log is a pipe of its own and may be behind the answer
		time.Sleep(time.Millisecond)
	}
	if got := log.last(1)[0]; got != "pgw1 noise on standard output" {
		t.Errorf("log %q", got)
	}
}

// TestFaultsOfARealBuild: the same in front of a real plugin, chosen by the program.
func TestFaultsOfARealBuild(t *testing.T) {
	p := newPool(t, Config{Workers: 2, Timeout: 10 * time.Second, MemoryLimit: 1 << 30})
	b := fetch(t, "fault:2:xla-2026-06")
	seen := map[Status]int{}
	for n := int64(1); n <= 12; n++ {
		data := make([]byte, 4*n)
		r := Request{Program: hlotest.Add(n), Format: HLO, Timeout: 3 * time.Second, Inputs: [][]Array{{
			{Type: hlotest.F32, Dims: []int64{n}, Data: data}, {Type: hlotest.F32, Dims: []int64{n}, Data: data}}}}
		first := p.Do(t.Context(), b, r)
		again := p.DoFresh(t.Context(), b, r)
		if first.Status != again.Status {
			t.Errorf("add %d: %s, then %s", n, first.Status, again.Status)
		}
		seen[first.Status]++
	}
	if seen[OK] == 0 || seen[OK] == 12 {
		t.Errorf("outcomes %v: want good and bad ones", seen)
	}
}

func TestContextEndsARequest(t *testing.T) {
	p := newPool(t, Config{Workers: 1})
	b := fetch(t, "fault:0:")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan Outcome)
	go func() { done <- p.Do(ctx, b, echoRequest("hang", 1)) }()
	queued := make(chan Outcome)
	go func() { queued <- p.Do(ctx, b, echoRequest("hang", 2)) }()
	for len(children(t)) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	for _, c := range []chan Outcome{done, queued} {
		if o := <-c; o.Status != Infrastructure || !errors.Is(o.Err, context.Canceled) {
			t.Errorf("%s %v", o.Status, o.Err)
		}
	}
	// The pool goes on.
	if err := checkFault("", 3, p.Do(t.Context(), b, echoRequest("", 3))); err != nil {
		t.Error(err)
	}
}

func TestCloseEndsRequests(t *testing.T) {
	p := newPool(t, Config{Workers: 2})
	b := fetch(t, "fault:0:")
	done := make(chan Outcome)
	for range 3 { // two run, one waits
		go func() { done <- p.Do(t.Context(), b, echoRequest("hang", 1)) }()
	}
	for len(children(t)) < 2 {
		time.Sleep(time.Millisecond)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	for range 3 {
		if o := <-done; o.Status != Infrastructure {
			t.Errorf("%s: %s", o.Status, o.detail())
		}
	}
	if o := p.Do(t.Context(), b, echoRequest("", 1)); o.Status != Infrastructure {
		t.Errorf("after Close: %s", o.Status)
	}
	if left := children(t); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestParentDies: a pool whose process is killed leaves no worker behind, busy or idle.
func TestParentDies(t *testing.T) {
	dir := t.TempDir()
	cmd := selfCommand("orphans", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for len(pids) < 2 { // written by the child when both workers are up
		data, err := os.ReadFile(filepath.Join(dir, "pids"))
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		for _, f := range strings.Fields(string(data)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	for _, pid := range pids {
		for alive(pid) { // the test's own deadline bounds this
			time.Sleep(time.Millisecond)
		}
	}
}

func alive(pid int) bool {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// orphans is the body of the process that TestParentDies kills.
func orphans(dir string) error {
	p, err := NewPool(Config{Command: []string{os.Args[0], "worker"}, Workers: 2, TempDir: dir})
	if err != nil {
		return err
	}
	b := &builds.Build{Spec: builds.Spec{Text: "fault:0:", Source: builds.Fault}, Kind: builds.Executable}
	go p.Do(context.Background(), b, echoRequest("hang", 1))
	var busy string
	for busy == "" {
		busy = childPids()
		time.Sleep(time.Millisecond)
	}
	p.Do(context.Background(), b, echoRequest("", 1)) // a second worker, idle afterwards
	if err := os.WriteFile(filepath.Join(dir, "tmp"), []byte(childPids()), 0o644); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "tmp"), filepath.Join(dir, "pids")); err != nil {
		return err
	}
	select {}
}

func TestIdleDeathIsNobodysFault(t *testing.T) {
	p := newPool(t, Config{Workers: 1})
	b := fetch(t, "fault:0:")
	for i := range 3 {
		if err := checkFault("", byte(i), p.Do(t.Context(), b, echoRequest("", byte(i)))); err != nil {
			t.Fatal(err)
		}
		for _, w := range p.idle[key(b)] {
			if err := w.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-w.exited
		}
	}
}

func TestKilledFromOutside(t *testing.T) {
	p := newPool(t, Config{Workers: 1})
	b := fetch(t, "fault:0:")
	done := make(chan Outcome)
	p.Do(t.Context(), b, echoRequest("", 1))
	w := p.idle[key(b)][0]
	go func() { done <- p.Do(t.Context(), b, echoRequest("hang", 1)) }()
	time.Sleep(20 * time.Millisecond) // an idle worker that dies is replaced, then the fault hangs: the outcome below differs
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if o := <-done; o.Status != OutOfMemory {
		t.Errorf("%s: %s", o.Status, o.detail())
	}
}

func TestBuildThatCannotStart(t *testing.T) {
	p := newPool(t, Config{Workers: 1})
	lib := filepath.Join(t.TempDir(), "none.so")
	b := &builds.Build{Spec: builds.Spec{Text: lib, Source: builds.File, Path: lib}, Kind: builds.Executable, Plugin: lib}
	for range 3 {
		if o := p.Do(t.Context(), b, echoRequest("", 1)); o.Status != Infrastructure || !strings.Contains(o.Err.Error(), "none.so") {
			t.Errorf("%s: %s", o.Status, o.detail())
		}
	}
	if _, err := p.Describe(t.Context(), b); err == nil {
		t.Error("a missing plugin was described")
	}
}

// TestRecycle: a worker that has grown is replaced, one that has not is kept.
func TestRecycle(t *testing.T) {
	p := newPool(t, Config{Workers: 1, RecycleGrowth: 64 << 20})
	b := fetch(t, "fault:0:")
	pid := func() int { return p.idle[key(b)][0].cmd.Process.Pid }
	p.Do(t.Context(), b, echoRequest("", 1))
	first := pid()
	if o := p.Do(t.Context(), b, echoRequest("", 1)); o.Status != OK || o.Fresh || pid() != first {
		t.Errorf("second request: %s, fresh %v, pid %d, want %d", o.Status, o.Fresh, pid(), first)
	}
	if o := p.Do(t.Context(), b, echoRequest("grow", 1)); o.Status != OK {
		t.Fatalf("%s: %s", o.Status, o.detail())
	}
	if len(p.idle[key(b)]) != 0 {
		t.Error("a grown worker was kept")
	}
	if o := p.Do(t.Context(), b, echoRequest("", 1)); o.Status != OK || !o.Fresh {
		t.Errorf("after recycling: %s, fresh %v", o.Status, o.Fresh)
	}
}

// A process serves only requests with the environment that it was started with.
func TestEnvironmentTellsProcessesApart(t *testing.T) {
	p := newPool(t, Config{Workers: 1})
	plain := fetch(t, "fault:0:")
	poisoned := *plain
	poisoned.Env = append(slices.Clone(plain.Env), "MALLOC_PERTURB_=165")
	for i, b := range []*builds.Build{plain, &poisoned, plain, &poisoned} {
		o := p.Do(t.Context(), b, echoRequest("", 1))
		if o.Status != OK || o.Fresh != (i < 2) {
			t.Errorf("request %d: %s, fresh %v", i, o.Status, o.Fresh)
		}
		if w := p.idle[key(b)][0]; slices.Contains(w.cmd.Env, "MALLOC_PERTURB_=165") != (b == &poisoned) {
			t.Errorf("request %d was served under %q", i, w.cmd.Env)
		}
	}
}

// TestFairness: with one place, two builds with many requests are served in turn.
func TestFairness(t *testing.T) {
	p := newPool(t, Config{Workers: 1})
	a, b := fetch(t, "fault:0:"), fetch(t, "fault:1000000:")
	gate := make(chan Outcome)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { gate <- p.Do(ctx, a, echoRequest("hang", 1)) }()
	for len(children(t)) == 0 {
		time.Sleep(time.Millisecond)
	}
	var mu sync.Mutex
	var order []string
	var wg sync.WaitGroup
	queue := func(build *builds.Build, want int) {
		wg.Go(func() {
			p.Do(t.Context(), build, echoRequest("", 0))
			mu.Lock()
			order = append(order, build.Spec.Text)
			mu.Unlock()
		})
		for {
			p.mu.Lock()
			n := len(p.waiting[key(build)])
			p.mu.Unlock()
			if n == want {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	for i := range 6 {
		queue(a, i+1)
	}
	for i := range 3 {
		queue(b, i+1)
	}
	cancel()
	<-gate
	wg.Wait()
	// Both are served in turn until b has no more: within the first six answers b's three are done.
	n := 0
	for _, s := range order[:7] {
		if s == b.Spec.Text {
			n++
		}
	}
	if n != 3 {
		t.Errorf("order %v", order)
	}
}

// TestEviction: more builds than processes.
func TestEviction(t *testing.T) {
	p := newPool(t, Config{Workers: 1, Processes: 2})
	var all []*builds.Build
	for i := range 4 {
		all = append(all, fetch(t, fmt.Sprintf("fault:%d:", 1000000+i)))
	}
	for range 2 {
		for _, b := range all {
			if err := checkFault("", 7, p.Do(t.Context(), b, echoRequest("", 7))); err != nil {
				t.Error(err)
			}
			p.mu.Lock()
			live := p.live
			p.mu.Unlock()
			if live > 2 {
				t.Errorf("%d live processes", live)
			}
		}
	}
}
