package gate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// Replayed is what one build makes of one case.
type Replayed struct {
	Case, Build string
	// Outcome is the worst over all runs.
	Outcome Behaviour
	Detail  string
	Runs    []ReplayedRun
	// Cut counts the pieces of a program that was judged in pieces, nil if it
	// was not; Wrong describes those that are wrong.
	Cut   *CutCounts
	Wrong []string
}

// ReplayedRun is one input stream under one set of flags.
type ReplayedRun struct {
	Stream, Flags string
	Outcome       Behaviour
	Detail        string
	Inputs        []*hlo.Literal
	// Outputs are there if the program ran.
	Outputs []ReplayedOutput
}

// ReplayedOutput is one leaf of the result.
type ReplayedOutput struct {
	Got *hlo.Literal
	// Reference is the array of legal sets, nil if the reference has none.
	Reference *eval.Array
	// Differing holds one line per class and status of wrong elements.
	Wrong []string
}

// Replay runs a case on one build, under both sets of flags, on the inputs
// that the case brings; a bare program is run on the generated streams. Of
// cfg it uses Runner, Now, Seed, Timeout, Reference, PassesOnly and BackendOnly.
func Replay(ctx context.Context, cfg Config, b *builds.Build, c *fuzz.Case) Replayed {
	out := Replayed{Case: c.Name, Build: b.Spec.String(), Outcome: Skipped}
	b = poisoned(b)
	cfg.Base, cfg.Head = b, b
	why := ""
	if cfg.BackendOnly && c.Module != nil {
		why = cmp.Or(feedable(c), alone(c.Module))
	} else {
		why = runnable(c)
	}
	if !cfg.passesOnly() {
		why = cmp.Or(why, movable(c))
	}
	if why != "" {
		out.Outcome, out.Detail = Unsupported, why
		return out
	}
	k := &caseRun{run: newRun(cfg), c: c}
	var err error
	if k.base, err = encode(c); err != nil {
		out.Outcome, out.Detail = Unsupported, err.Error()
		return out
	}
	k.base.BackendOnly = cfg.BackendOnly
	streams := c.Streams(cfg.Seed)
	if streams[0].Name == fuzz.OwnStream {
		streams = streams[:1]
	}
	why = k.ask(ctx, streams, &caseReport{})
	out.Detail = why
	if cfg.passesOnly() {
		if c.Module == nil {
			out.Outcome, out.Detail = Unsupported, "per-pass validation does not read StableHLO"
		} else {
			k.replayPasses(ctx, &out)
		}
		return out
	}
	var answers []answer
	for _, flags := range []string{ComparisonFlags, DefaultFlags} {
		if len(k.asked) == 0 {
			break
		}
		req := k.request(flags)
		for _, a := range k.under(flags) {
			req.Inputs = append(req.Inputs, a.arguments)
		}
		sides, _ := k.pooled(b).execute(ctx, req)
		for i, a := range k.under(flags) {
			run, answer := k.replayed(a, flags, sides[i])
			answers = append(answers, answer)
			out.Outcome = worse(out.Outcome, run.Outcome)
			if run.Outcome == out.Outcome && run.Detail != "" && (shows(Crash, run.Outcome) || shows(Miscompile, run.Outcome)) && out.Detail == why {
				out.Detail = appendDetail(why, fmt.Sprintf("%s inputs, %s flags: %s", run.Stream, flags, run.Detail))
			}
			out.Runs = append(out.Runs, run)
		}
	}
	pieces, cut := k.cut(ctx, answers, nil)
	out.Cut = cut
	for _, f := range pieces {
		text := fmt.Sprintf("%s %s (%s): output %s%v %s, legal %s", f.Piece, f.Instruction, f.Pass, f.Output, f.First.At, f.First.Head, f.First.Legal)
		if f.Status == Contested {
			text += " (contested)"
		}
		out.Wrong = append(out.Wrong, text)
		out.Outcome = worse(out.Outcome, Wrong)
		out.Detail = appendDetail(out.Detail, text)
	}
	for _, run := range out.Runs {
		if out.Detail == "" {
			out.Detail = run.Detail
		}
	}
	if cut != nil && out.Detail == "" {
		out.Detail = strings.TrimPrefix(cut.text(), "; ")
	}
	return out
}

func (k *caseRun) replayed(a *asked, flags string, s side) (ReplayedRun, answer) {
	q := question{stream: a.Name, flags: flags, reference: a.reference(flags), base: s, head: s, want: a.want, tolerance: a.tolerance}
	j := judge(q)
	run := ReplayedRun{Stream: a.Name, Flags: flags, Outcome: j.head, Detail: s.detail, Inputs: a.Inputs}
	if j.wantDisputed != "" {
		run.Detail = appendDetail(run.Detail, "want and reference disagree: "+j.wantDisputed)
	}
	if s.ran() {
		var refs []*eval.Array
		if q.reference != nil {
			refs = Leaves(q.reference)
		}
		for i, lit := range s.runs[0].leaves {
			o := ReplayedOutput{Got: lit}
			if i < len(refs) {
				o.Reference = refs[i]
			}
			run.Outputs = append(run.Outputs, o)
		}
	}
	for _, o := range j.observations {
		text := fmt.Sprintf("output %s: %d of %d wrong, first at %v: %s, legal %s", o.output, o.wrong, o.elements, o.first.At, o.first.Head, o.first.Legal)
		if o.contest != 0 || o.status == Contested {
			text += " (contested)"
		}
		if o.class == Crash || o.class == Hang {
			continue
		}
		run.Detail = appendDetail(run.Detail, text)
		for i := range run.Outputs {
			if fmt.Sprint(i) == o.output {
				run.Outputs[i].Wrong = append(run.Outputs[i].Wrong, text)
			}
		}
	}
	return run, j
}

// Rate is what Bench measured for one way of running cases. A case is one
// program with one set of inputs.
type Rate struct {
	Programs, Cases int
	Seconds         float64
	CasesPerSecond  float64
	// ProcessorSeconds is the processor time that was used, by Config.CPU, and
	// CasesPerCore the cases per second of it: what a core that is all ours
	// would do. Both are 0 without Config.CPU.
	ProcessorSeconds, CasesPerCore float64
	// InXLA is the share of the workers' wall time that was spent in calls of
	// the build.
	InXLA float64
}

// stopwatch measures a Rate.
type stopwatch struct {
	cfg   *Config
	start time.Time
	used  time.Duration
}

func (c *Config) stopwatch() stopwatch {
	w := stopwatch{cfg: c, start: c.Now()}
	if c.CPU != nil {
		w.used = c.CPU()
	}
	return w
}

// rate is that of programs and cases since the start, inXLA the time in calls
// of the build.
func (w stopwatch) rate(programs, cases int, inXLA time.Duration) Rate {
	s := w.cfg.Now().Sub(w.start).Seconds()
	r := Rate{Programs: programs, Cases: cases, Seconds: s, CasesPerSecond: float64(cases) / s, InXLA: inXLA.Seconds() / s / float64(max(1, w.cfg.Workers))}
	if w.cfg.CPU != nil {
		r.ProcessorSeconds = (w.cfg.CPU() - w.used).Seconds()
		r.CasesPerCore = float64(cases) / r.ProcessorSeconds
	}
	return r
}

// ProgramsPerSecond are the programs per second, each with all its cases.
func (r Rate) ProgramsPerSecond() float64 { return float64(r.Programs) / r.Seconds }

// ProgramsPerCore are the programs per second of processor time.
func (r Rate) ProgramsPerCore() float64 { return float64(r.Programs) / r.ProcessorSeconds }

// Bench is what is compiled and run to measure a build: the cases that run on it,
// as whole programs with all their input streams, and the same one by one.
type Bench struct {
	cfg              Config
	build            *builds.Build
	programs, single []worker.Request
}

// NewBench finds the cases that run on a build, on each of their input streams:
// programs that end in anything but a result are left out. Of cfg it uses Runner,
// Now, CPU, Seed and Timeout.
func NewBench(ctx context.Context, cfg Config, build *builds.Build, cases []*fuzz.Case) (*Bench, error) {
	b := &Bench{cfg: cfg, build: build}
	for _, c := range cases {
		if runnable(c) != "" {
			continue
		}
		r, err := encode(c)
		if err != nil {
			continue
		}
		r.Timeout = cfg.Timeout
		r.Options = comparisonFlags
		for _, s := range c.Streams(cfg.Seed) {
			one := r
			one.Inputs = [][]worker.Array{arguments(s.Inputs)}
			if out := cfg.Runner.Do(ctx, build, one); out.Status == worker.OK && out.Result.Sets[0].Failure == nil {
				b.single = append(b.single, one)
				r.Inputs = append(r.Inputs, one.Inputs[0])
			}
		}
		if len(r.Inputs) > 0 {
			b.programs = append(b.programs, r)
		}
	}
	if len(b.programs) == 0 {
		return nil, &ConfigError{"none of the cases runs on " + build.Spec.String()}
	}
	return b, nil
}

// Persistent measures persistent workers that compile a program once for all its
// input streams, as Run does.
func (b *Bench) Persistent(ctx context.Context, workers, rounds int) (Rate, error) {
	return b.rate(ctx, b.cfg.Runner.Do, b.programs, workers, rounds)
}

// Fresh measures a fresh process for each program and stream, one at a time.
func (b *Bench) Fresh(ctx context.Context, rounds int) (Rate, error) {
	return b.rate(ctx, b.cfg.Runner.DoFresh, b.single, 1, rounds)
}

// rate measures how fast do gets through requests, which are all programs and
// cases, rounds times.
func (b *Bench) rate(ctx context.Context, do func(context.Context, *builds.Build, worker.Request) worker.Outcome, requests []worker.Request, workers, rounds int) (Rate, error) {
	var inXLA meter
	watch := b.cfg.stopwatch()
	queue := make(chan worker.Request)
	var wg sync.WaitGroup
	for range max(1, workers) {
		wg.Go(func() {
			for r := range queue {
				inXLA.add(do(ctx, b.build, r).InXLA)
			}
		})
	}
	for range rounds {
		for _, r := range requests {
			queue <- r
		}
	}
	close(queue)
	wg.Wait()
	return watch.rate(rounds*len(b.programs), rounds*len(b.single), inXLA.total), ctx.Err()
}
