package gate

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/worker"
)

// DefaultProbes bounds the work of minimising one finding in a check: a count,
// not a time, so that the result does not depend on the machine. A probe runs
// both builds once, 30 to 100 ms for a small program.
const DefaultProbes = 400

// minimise looks for the smallest program that shows a blocking finding.
func (k *caseRun) minimise(ctx context.Context, f *observedFinding, probes int) {
	q, ok := k.questionOf(f.Stream)
	if !ok || k.c.Module == nil || probes <= 0 {
		return
	}
	whole := triage.Program{Module: k.c.Module, Inputs: q.Inputs}
	limit := probeLimit(ctx, whole)
	var small triage.Program
	switch {
	case k.run.cfg.passesOnly() && (f.Class == Crash || f.Class == Hang):
		small = triage.Reduce(ctx, whole, k.passStillBreaks(f, limit), probes)
	case k.run.cfg.passesOnly():
		small = reduceOnTheWay(ctx, whole, func(ctx context.Context, p triage.Program) bool {
			return k.passStillAccused(ctx, f, p, limit) != nil
		}, k.passStillFails(f, limit), probes)
	case f.byPass():
		small = reduceOnTheWay(ctx, whole, func(ctx context.Context, p triage.Program) bool {
			return isComparable(p.Module) && k.legal(ctx, f, p, limit) != nil && k.passAccused(ctx, f, p, limit)
		}, k.stillFails(f, limit), probes)
	default:
		small = triage.Reduce(ctx, whole, k.stillFails(f, limit), probes)
	}
	if small.Module == k.c.Module {
		return
	}
	c := &fuzz.Case{Name: k.c.Name, Module: small.Module, Text: small.Module.String(), Own: true, Inputs: small.Inputs,
		Notes: "reduced from case " + k.c.Name + ", " + f.Stream + " inputs\n"}
	for _, l := range small.Inputs {
		c.InputLines = append(c.InputLines, l.String())
	}
	f.reduced = c
}

// reduceOnTheWay reduces by a cheap condition that fails implies, such as that the
// guilty pass is accused: what it leads to nearly always fails, too, and to see that
// costs several times as much (an execution, the other build's compilation). Only
// the program that it ends with is held to fails. If that does not fail, a larger
// one on the way to it does, and the reduction goes on from there by fails alone.
// What no change keeps suspect, no change keeps failing: the result is as small.
func reduceOnTheWay(ctx context.Context, whole triage.Program, suspect, fails triage.Fails, probes int) triage.Program {
	way := []triage.Program{whole}
	asked := 0
	triage.Reduce(ctx, whole, func(ctx context.Context, p triage.Program) bool {
		asked++
		ok := suspect(ctx, p)
		if ok {
			way = append(way, p)
		}
		return ok
	}, probes)
	at, back := len(way)-1, 1
	for at > 0 && !fails(ctx, way[at]) {
		at, back = max(0, at-back), 2*back
	}
	if at == len(way)-1 || asked >= probes || ctx.Err() != nil {
		return way[at]
	}
	return triage.Reduce(ctx, way[at], fails, probes-asked)
}

// isComparable reports whether a module can be executed and its results be compared:
// not one with dimensions of run-time size in its parameters or results.
func isComparable(m *hlo.Module) bool {
	return feedable(&fuzz.Case{Module: m}) == "" && !slices.ContainsFunc(m.Entry.Root.Shape.Leaves(), (*hlo.Shape).IsDynamic)
}

// byPass reports whether per-pass validation accuses a pass step of the finding.
func (f *observedFinding) byPass() bool {
	return f.Pass != nil && f.Level == LevelHLO && f.Class != Crash && !f.byValue
}

// legal is what the reference makes of a smaller program; nil if it cannot tell.
func (k *caseRun) legal(ctx context.Context, f *observedFinding, p triage.Program, limit int64) *eval.Value {
	v, err := k.run.reference(ctx, p.Module, p.Inputs, eval.Options{MaxSteps: limit, ExcessPrecision: f.Flags == DefaultFlags})
	if err != nil {
		return nil
	}
	return v
}

// probeLimit is the step limit of the reference for programs made from p: what
// p itself takes, a few times over. A change that takes more has made a loop
// that does not end, and is no smaller program whatever it shows.
func probeLimit(ctx context.Context, p triage.Program) int64 {
	e := eval.NewEvaluator(ctx, eval.Options{Bounds: true})
	if _, err := e.RunComputation(p.Module.Entry, values(p.Inputs)); err != nil {
		return 0 // nothing is known: the default
	}
	return max(minProbeSteps, probeFactor*e.Steps())
}

// Room for the wrong side of a finding, whose loops may take more trips than
// the right ones, and for what layouts, copies and padding add to a state
// behind the passes.
const (
	probeFactor   = 8
	minProbeSteps = 1 << 12
)

// probeTimeout is the deadline of a probe that is not to hang, beside
// perInstruction. Small programs take a thousandth of it.
const probeTimeout = 10 * time.Second

// stillFails holds a smaller program to what the finding is: class, status,
// and the guilty step. Most programs do not show it, so the cheapest witness
// is asked first: the passes of the guilty side where a pass is guilty, then
// that side's execution, or its compilation where that broke, then the other
// side's if it is another build.
func (k *caseRun) stillFails(f *observedFinding, limit int64) triage.Fails {
	first, second := k.guiltySide(f), k.run.cfg.Base
	site := crashSite(f.First.Head)
	if first == second {
		second = k.run.cfg.Head
		site = crashSite(f.First.Base)
	}
	byPass := f.byPass()
	compiles := f.Pass != nil && f.Class == Crash
	return func(ctx context.Context, p triage.Program) bool {
		if !compiles && feedable(&fuzz.Case{Module: p.Module}) != "" {
			return false
		}
		data, err := hlo.MarshalModule(p.Module)
		if err != nil {
			return false
		}
		r := k.request(f.Flags)
		r.RepeatFor = 0
		if f.Class != Hang {
			r.Timeout = min(r.Timeout, probeTimeout+perInstruction*time.Duration(p.Module.NumInstructions()))
		}
		r.Program, r.Inputs = data, [][]worker.Array{arguments(p.Inputs)}
		q := question{stream: f.Stream, flags: f.Flags, firm: k.run.firm}
		if q.reference = k.legal(ctx, f, p, limit); q.reference == nil {
			return false
		}
		if byPass && !k.passAccused(ctx, f, p, limit) {
			return false
		}
		var one side
		if compiles {
			one = k.dies(ctx, f, p, r)
		} else {
			sides, _ := k.pooled(first).execute(ctx, r)
			one = sides[0]
		}
		q.base, q.head = one, one
		if !shows(f.Class, judge(q).head) || f.Class == Crash && f.Pass != nil && f.Pass.Name != codeGeneration && crashSite(one.detail) != site {
			return false
		}
		if first.ID != second.ID {
			other, _ := k.pooled(second).execute(ctx, r)
			if q.base = other[0]; second == k.run.cfg.Head {
				q.base, q.head = one, other[0]
			}
		}
		if !slices.ContainsFunc(judge(q).observations, func(o observation) bool { return o.class == f.Class && o.status == f.raw }) {
			return false
		}
		if f.Pass == nil || byPass || compiles {
			return true
		}
		return k.behindPasses(ctx, f, p, limit) || f.byValue && k.passAccused(ctx, f, p, limit)
	}
}

// crashSite is the part of a crash's message that says where the compiler died
// or what kind of error it gave, without the names of the program.
func crashSite(detail string) string {
	if at := checkSite.FindString(detail); at != "" {
		return at
	}
	kind, _, _ := strings.Cut(detail, ":")
	return kind
}

// checkSite matches a failed check, as crashText writes it.
var checkSite = regexp.MustCompile(`^[^:]+: [^: ]+:[0-9]+: `)

// dies compiles a program with the build that died in the finding's pass, or
// behind all of them. One that dies elsewhere counts as one that does not.
func (k *caseRun) dies(ctx context.Context, f *observedFinding, p triage.Program, r worker.Request) side {
	behind := f.Pass.Name == codeGeneration
	r.DumpAll, r.DumpDir = !behind, k.run.cfg.DumpRoot
	if behind { // only the optimised module
		r.Options["xla_dump_hlo_pass_re"] = "^$"
	}
	t, err := triage.NewTrail(ctx, k.run.cfg.Runner, k.guiltySide(f), p.Module, r)
	switch {
	case err != nil:
		return side{behaviour: Infrastructure, detail: err.Error()}
	case behind && t.Optimised == nil, !behind && (t.Last != f.Pass.Name || t.LastPipeline != f.Pass.Pipeline):
		return side{}
	}
	return ofOutcome(t.Outcome)
}

// behindPasses reports whether every pass of a smaller program kept the meaning,
// and a library still does the work if one did.
func (k *caseRun) behindPasses(ctx context.Context, f *observedFinding, p triage.Program, limit int64) bool {
	t, err := k.passTrailUnder(ctx, f.Flags, k.run.cfg.Runner, k.guiltySide(f), p.Module, false)
	if err != nil || !t.Complete() || f.Level == LevelLibrary && t.Optimised != nil && !triage.CallsLibrary(t.Optimised) {
		return false
	}
	v, err := t.Validate(ctx, [][]*eval.Value{values(p.Inputs)}, eval.Options{Bounds: true, MaxSteps: limit, ExcessPrecision: f.Flags == DefaultFlags})
	return err == nil && v.Guilty() == nil
}

// passAccused reports whether the first guilty step of a smaller program is
// that of the finding. A program that never ends behind it computes no wrong value.
func (k *caseRun) passAccused(ctx context.Context, f *observedFinding, p triage.Program, limit int64) bool {
	t, err := k.passTrailUnder(ctx, f.Flags, k.run.cfg.Runner, k.guiltySide(f), p.Module, false)
	if err != nil {
		return false
	}
	t.States = upTo(t.States, f.Pass.Name)
	v, err := t.Validate(ctx, [][]*eval.Value{values(p.Inputs)}, eval.Options{Bounds: true, MaxSteps: limit, ExcessPrecision: f.Flags == DefaultFlags})
	if err != nil {
		return false
	}
	g := v.Guilty()
	return g != nil && g.Key.Pass == f.Pass.Name && g.Key.Pipeline == f.Pass.Pipeline && !g.Where.Endless
}

// upTo are the states up to the last one of a pass.
func upTo(states []triage.State, pass string) []triage.State {
	n := len(states)
	for n > 0 && states[n-1].Key.Pass != pass {
		n--
	}
	return states[:n]
}
