package gate

import (
	"context"
	"slices"

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
	if !ok || k.c.Module == nil {
		return
	}
	whole := triage.Program{Module: k.c.Module, Inputs: q.Inputs}
	limit := probeLimit(ctx, whole)
	fails := k.stillFails(f, limit)
	if k.run.cfg.passesOnly() {
		fails = k.passStillFails(f, limit)
	}
	small := triage.Reduce(ctx, whole, fails, probes)
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

// stillFails holds a smaller program to what the finding is: class, status,
// and the guilty step. Most programs do not show it, so the cheapest witness
// is asked first: the passes of the guilty side where a pass is guilty, then
// that side's execution, then the other side's.
func (k *caseRun) stillFails(f *observedFinding, limit int64) triage.Fails {
	first, second := k.run.cfg.Head, k.run.cfg.Base
	if f.raw == Fixed {
		first, second = second, first
	}
	byPass := f.Pass != nil && f.Level == LevelHLO && f.Class != Crash
	return func(ctx context.Context, p triage.Program) bool {
		data, err := hlo.MarshalModule(p.Module)
		if err != nil {
			return false
		}
		r := k.request(f.Flags)
		r.RepeatFor = 0
		r.Program, r.Inputs = data, [][]worker.Array{arguments(p.Inputs)}
		q := question{stream: f.Stream, flags: f.Flags, firm: k.run.firm}
		if q.reference, err = k.run.reference(ctx, p.Module, p.Inputs, eval.Options{MaxSteps: limit, ExcessPrecision: f.Flags == DefaultFlags}); err != nil {
			return false
		}
		if byPass && !k.passAccused(ctx, f, p, limit) {
			return false
		}
		one, _ := k.pooled(first).execute(ctx, r)
		q.base, q.head = one[0], one[0]
		if !shows(f.Class, judge(q).head) {
			return false
		}
		other, _ := k.pooled(second).execute(ctx, r)
		if q.base = other[0]; first != k.run.cfg.Head {
			q.base, q.head = one[0], other[0]
		}
		if !slices.ContainsFunc(judge(q).observations, func(o observation) bool { return o.class == f.Class && o.status == f.raw }) {
			return false
		}
		if f.Pass == nil || byPass {
			return true
		}
		r.DumpAll, r.DumpDir = f.Class == Crash, k.run.cfg.DumpRoot
		trail, err := triage.NewTrail(ctx, k.run.cfg.Runner, k.guiltySide(f), p.Module, r)
		if err != nil {
			return false
		}
		if f.Class == Crash {
			return f.Pass.Name == codeGeneration || trail.Last == f.Pass.Name && trail.LastPipeline == f.Pass.Pipeline
		}
		v, err := trail.Validate(ctx, [][]*eval.Value{values(p.Inputs)}, eval.Options{Bounds: true, MaxSteps: limit, ExcessPrecision: f.Flags == DefaultFlags})
		return err == nil && v.Guilty() == nil
	}
}

// passAccused reports whether the first guilty step of a smaller program is
// that of the finding.
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
	return g != nil && g.Key.Pass == f.Pass.Name && g.Key.Pipeline == f.Pass.Pipeline
}

// upTo are the states up to the last one of a pass.
func upTo(states []triage.State, pass string) []triage.State {
	n := len(states)
	for n > 0 && states[n-1].Key.Pass != pass {
		n--
	}
	return states[:n]
}
