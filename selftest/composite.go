package selftest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/passgate/passgate/defects"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/dump"
	"github.com/passgate/passgate/xla/pjrt"
	"github.com/passgate/passgate/xla/worker"
)

// Route is the way in which a build goes on from a module between its passes.
type Route string

const (
	// Again runs the whole pipeline on it: right before layout assignment.
	Again Route = "whole pipeline again"
	// Resume starts behind the planted step (xla_run_hlo_passes_starting_from).
	Resume Route = "resumed behind the step"
	// Backend generates code for it as it is (run_backend_only).
	Backend Route = "code generation only"
	// BeforeScheduler and AfterScheduler let the build itself call the change
	// in the middle of its pipeline (PJRT's XlaTransform extension).
	BeforeScheduler Route = "transform before the scheduler"
	AfterScheduler  Route = "transform after the scheduler"
)

// stages are the routes through the extension.
var stages = map[Route]pjrt.Stage{BeforeScheduler: pjrt.PreScheduler, AfterScheduler: pjrt.PostScheduler}

// transformPass is the pass by which a build's dumps show a transform.
const transformPass = "apply-xla-transforms"

// layoutPass is the pass behind which a module cannot go through the whole
// pipeline again (xla-facts: bitcasts are refused).
const layoutPass = "layout-assignment"

// Composite is a build with one mistake in its pipeline. It serves requests
// for Head and passes those for other builds on.
type Composite struct {
	// Runner runs the real build.
	Runner gate.Runner
	Build  *builds.Build
	// Head is the build as the gate sees it.
	Head *builds.Build
	// Pipeline and Pass name the step behind which Change is made: the first
	// dumped step of that name, or the first run of the pass where it changed
	// nothing.
	Pipeline, Pass string
	// Change makes the mistake; false if the module gives no occasion.
	Change func(m *hlo.Module) (*hlo.Module, bool)
	Route  Route
	// TempDir holds the dumps.
	TempDir string
	// Kept remembers what the real build did for other defects of the program;
	// nil remembers nothing between composites.
	Kept *Kept

	mu    sync.Mutex
	known map[[sha256.Size]byte]*cut
	asked map[[sha256.Size]byte]int // how often the real build was asked
}

// Marked is the build under a name that says what was planted. Its id is not
// that of the build.
func Marked(b *builds.Build, what string) *builds.Build {
	out := *b
	out.Spec.Text = fmt.Sprintf("injected-fault(%s) in %s", what, b.Spec.Text)
	out.ID = fmt.Sprintf("injected-fault:%x", sha256.Sum256([]byte(out.Spec.Text+b.ID)))
	return &out
}

// NewComposite makes the build of a defect.
func NewComposite(r gate.Runner, b *builds.Build, d defects.Defect, route Route, temp string) *Composite {
	return &Composite{Runner: r, Build: b, Head: Marked(b, d.String()), Pipeline: d.Pipeline, Pass: d.Pass, Route: route, TempDir: temp,
		Change: func(m *hlo.Module) (*hlo.Module, bool) {
			p, ok := d.Apply(m)
			return p.Module, ok
		}}
}

// cut is a compilation taken apart at the planted step.
type cut struct {
	outcome worker.Outcome // of the compilation that was taken apart
	fired   bool
	steps   []step // up to the planted one, which is the last
	before  []byte // the dump before the passes
	program []byte // the planted module, with the stop behind the passes if the build is stopped
	plain   []byte // the planted module without it
	next    string // the pass behind the step
	whole   *compilation
	err     error
}

// step is one dump.
type step struct {
	pipeline, pass, next string
	data                 []byte // an HloProto
}

// Describe describes the real build.
func (c *Composite) Describe(ctx context.Context, b *builds.Build) (worker.Info, error) {
	return c.Runner.Describe(ctx, c.real(b))
}

// Do runs a request.
func (c *Composite) Do(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	return c.do(ctx, b, r, false, c.Runner.Do)
}

// DoFresh runs a request in a process of its own. What leads to the planted
// module is taken from an earlier compilation.
func (c *Composite) DoFresh(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	return c.do(ctx, b, r, true, c.Runner.DoFresh)
}

// real is the build behind the head, with the environment that is asked for.
func (c *Composite) real(b *builds.Build) *builds.Build {
	if b.ID != c.Head.ID {
		return b
	}
	out := *c.Build
	out.Env = b.Env
	return &out
}

type runFunc func(context.Context, *builds.Build, worker.Request) worker.Outcome

func (c *Composite) do(ctx context.Context, b *builds.Build, r worker.Request, fresh bool, run runFunc) worker.Outcome {
	if b.ID != c.Head.ID || r.Format != worker.HLO || r.BackendOnly {
		return c.untouched(ctx, c.real(b), r, fresh, run)
	}
	b = c.real(b)
	asked := bytes.Contains(r.Program, []byte(triage.StopTarget)) // wants no code
	at := c.cutKnown(ctx, b, r)
	if at.err != nil {
		return worker.Outcome{Status: worker.Infrastructure, Err: at.err}
	}
	into := r.DumpDir
	if !at.fired {
		if w := at.whole; w != nil && into != "" && r.CompileOnly && !r.DumpAll && dumpsPasses(r) && (asked || !stoppable(b)) {
			if err := write(into, &cut{before: w.before, steps: w.steps}, nil, w.after); err != nil {
				return worker.Outcome{Status: worker.Infrastructure, Err: err}
			}
			return w.outcome
		}
		return run(ctx, b, r)
	}
	planted := at.plain
	if asked {
		planted = at.program
	}
	if stage, ok := stages[c.Route]; ok {
		r.Transform = &worker.Transform{Stage: stage, Module: planted}
		return run(ctx, b, r)
	}
	if r.CompileOnly && c.Route == Backend {
		// No pass is left to run.
		if into != "" {
			if err := write(into, at, nil, hloProto(planted)); err != nil {
				return worker.Outcome{Status: worker.Infrastructure, Err: err}
			}
		}
		return at.outcome
	}
	rest := r
	rest.Program = planted
	switch c.Route {
	case Backend:
		rest.BackendOnly = true
	case Resume:
		rest.Options = maps.Clone(r.Options)
		if rest.Options == nil {
			rest.Options = map[string]string{}
		}
		rest.Options["xla_run_hlo_passes_starting_from"] = at.next
	}
	if into == "" {
		return run(ctx, b, rest)
	}
	dir, err := os.MkdirTemp(c.TempDir, "passgate-planted-")
	if err != nil {
		return worker.Outcome{Status: worker.Infrastructure, Err: err}
	}
	defer os.RemoveAll(dir)
	rest.DumpDir = dir
	out := run(ctx, b, rest)
	more, _, after, err := read(dir)
	if err == nil {
		err = write(into, at, more, after)
	}
	if err != nil {
		return worker.Outcome{Status: worker.Infrastructure, Err: err}
	}
	return out
}

// untouched runs a request of the real build, where nothing is planted.
func (c *Composite) untouched(ctx context.Context, b *builds.Build, r worker.Request, fresh bool, run runFunc) worker.Outcome {
	if c.Kept == nil || r.Transform != nil {
		return run(ctx, b, r)
	}
	key := digest(b, r, fresh)
	c.mu.Lock()
	if c.asked == nil {
		c.asked = map[[sha256.Size]byte]int{}
	}
	c.asked[key]++
	n := c.asked[key]
	c.mu.Unlock()
	out, err := c.Kept.answer(digest(b, r, fresh, n), r.DumpDir, func() worker.Outcome { return run(ctx, b, r) })
	if err != nil {
		return worker.Outcome{Status: worker.Infrastructure, Err: err}
	}
	return out
}

// dumpsPasses reports whether a request wants the dumps of all passes.
func dumpsPasses(r worker.Request) bool { _, some := r.Options[dumpFilter]; return !some }

// dumpFilter is the option that chooses the passes that are dumped.
const dumpFilter = "xla_dump_hlo_pass_re"

// stoppable reports whether a build stops behind its passes at a program's
// wish (triage.Stopped).
func stoppable(b *builds.Build) bool { return b.Kind == builds.Executable && b.Python == "" }

// cutKnown takes a program apart, once. Programs with and without the stop are
// the same.
func (c *Composite) cutKnown(ctx context.Context, b *builds.Build, r worker.Request) *cut {
	m, err := hlo.UnmarshalModule(r.Program)
	if err != nil {
		return &cut{} // not ours to complain about
	}
	options := maps.Clone(r.Options)
	delete(options, dumpFilter) // whoever wants no dumps gets none; the cut needs them
	whole := worker.Request{Program: r.Program, Format: r.Format, Options: options, Replicas: r.Replicas, DumpAll: r.DumpAll, CompileOnly: true, Timeout: r.Timeout}
	if stoppable(b) {
		triage.RemoveStop(m)
		if whole.Program, err = hlo.MarshalModule(triage.Stopped(m)); err != nil {
			return &cut{err: err}
		}
	}
	key := digest(b, whole)
	c.mu.Lock()
	at := c.known[key]
	c.mu.Unlock()
	if at != nil {
		return at
	}
	at = c.takeApart(ctx, b, whole)
	if at.err == nil {
		c.mu.Lock()
		if c.known == nil {
			c.known = map[[sha256.Size]byte]*cut{}
		}
		c.known[key] = at
		c.mu.Unlock()
	}
	return at
}

// takeApart compiles a program up to code generation and makes the mistake in
// the module behind the planted step.
func (c *Composite) takeApart(ctx context.Context, b *builds.Build, whole worker.Request) *cut {
	var at *cut
	if stage, ok := stages[c.Route]; ok {
		at = c.look(ctx, b, whole, stage)
	} else {
		at = c.find(ctx, b, whole)
	}
	if at.err != nil || !at.fired {
		return at
	}
	at.plain = at.program
	if stoppable(b) {
		planted, err := hlo.UnmarshalModule(at.program)
		if err != nil {
			return &cut{err: err}
		}
		triage.RemoveStop(planted)
		if at.plain, err = hlo.MarshalModule(planted); err != nil {
			return &cut{err: err}
		}
	}
	return at
}

// look compiles and takes the module at a stage.
func (c *Composite) look(ctx context.Context, b *builds.Build, r worker.Request, stage pjrt.Stage) *cut {
	r.Transform = &worker.Transform{Stage: stage}
	at := &cut{outcome: c.Runner.Do(ctx, b, r)}
	if at.outcome.Status == worker.Infrastructure {
		at.err = at.outcome.Err
		return at
	}
	m, err := hlo.UnmarshalModule(at.outcome.Seen)
	if at.outcome.Seen == nil || err != nil {
		return at
	}
	if planted, ok := c.Change(m); ok {
		at.program, at.err = hlo.MarshalModule(planted)
		at.fired = at.err == nil
	}
	return at
}

// find compiles and looks for the step. Where a pass ran and changed nothing is
// seen with a dump behind every run of that pass.
func (c *Composite) find(ctx context.Context, b *builds.Build, r worker.Request) *cut {
	whole, err := c.compile(ctx, b, r)
	if err != nil {
		return &cut{err: err}
	}
	named := func(s step) bool { return s.pass == c.Pass && s.pipeline == c.Pipeline }
	steps, i := whole.steps, slices.IndexFunc(whole.steps, named)
	if i < 0 && whole.outcome.Status != worker.Infrastructure {
		r.Options = maps.Clone(r.Options)
		if r.Options == nil {
			r.Options = map[string]string{}
		}
		r.Options[dumpFilter] = "^" + strings.ReplaceAll(regexp.QuoteMeta(c.Pass), "_", ".") + "$" // file names have _ for some characters
		runs, err := c.compile(ctx, b, r)
		if err != nil {
			return &cut{err: err}
		}
		if n := slices.IndexFunc(runs.steps, named); n >= 0 {
			steps, i = insert(steps, runs.steps[n])
		}
	}
	at := &cut{outcome: whole.outcome, before: whole.before, whole: whole}
	if whole.outcome.Status == worker.Infrastructure {
		at.err = whole.outcome.Err
		return at
	}
	if i < 0 {
		return at
	}
	at.next = steps[i].next
	m, err := hlo.UnmarshalModule(moduleOf(steps[i].data))
	if err != nil {
		return at
	}
	planted, ok := c.Change(m)
	if !ok {
		return at
	}
	if at.program, err = hlo.MarshalModule(planted); err != nil {
		return &cut{err: err}
	}
	at.fired = true
	at.steps = slices.Clone(steps[:i+1])
	at.steps[i].data = hloProto(at.program)
	return at
}

// insert puts the step of a pass that changed nothing behind the last of the steps
// that led to its module; in front of them if none did.
func insert(steps []step, s step) ([]step, int) {
	same := -1
	if m, err := hlo.UnmarshalModule(moduleOf(s.data)); err == nil {
		sum := triage.SumOf(m)
		for i := len(steps) - 1; i >= 0 && same < 0; i-- {
			if m, err := hlo.UnmarshalModule(moduleOf(steps[i].data)); err == nil && triage.SumOf(m) == sum {
				same = i
			}
		}
	}
	return slices.Insert(slices.Clone(steps), same+1, s), same + 1
}

// read reads the dumped states of the module of a compilation, and those before
// and after all passes (nil if missing).
func read(dir string) (steps []step, before, after []byte, err error) {
	fsys := os.DirFS(dir)
	compilations, err := dump.Read(fsys)
	if err != nil || len(compilations) == 0 {
		return nil, nil, nil, err
	}
	file := func(name string) []byte {
		if name == "" || err != nil {
			return nil
		}
		var data []byte
		data, err = os.ReadFile(filepath.Join(dir, name))
		return data
	}
	first := compilations[0]
	for _, s := range first.Steps {
		if s.Inner == "" {
			steps = append(steps, step{s.Key.Pipeline, s.Key.Pass, s.Next, file(s.File)})
		}
	}
	return steps, file(first.Before), file(first.After), err
}

// write makes one dump of two: the steps of the cut, then more.
func write(dir string, at *cut, more []step, after []byte) error {
	put := func(name string, data []byte) error {
		if data == nil {
			return nil
		}
		return os.WriteFile(filepath.Join(dir, "module_0000.planted."+name+".hlo.pb"), data, 0o644)
	}
	if err := put("before_optimizations", at.before); err != nil {
		return err
	}
	for i, s := range slices.Concat(at.steps, more) {
		if err := put(fmt.Sprintf("%04d.%s.after_%s.before_%s", i, s.pipeline, s.pass, s.next), s.data); err != nil {
			return err
		}
	}
	return put("cpu_after_optimizations", after)
}

// hloProto wraps a module in an xla.HloProto: field 1.
func hloProto(module []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), module)
}

// moduleOf is hlo_module of an xla.HloProto, nil if there is none.
func moduleOf(b []byte) []byte {
	for len(b) > 0 {
		n, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			return nil
		}
		b = b[k:]
		if n == 1 && typ == protowire.BytesType {
			v, k := protowire.ConsumeBytes(b)
			if k < 0 {
				return nil
			}
			return v
		}
		if k = protowire.ConsumeFieldValue(n, typ, b); k < 0 {
			return nil
		}
		b = b[k:]
	}
	return nil
}
