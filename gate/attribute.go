package gate

import (
	"context"
	"slices"

	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// codeGeneration is the name of everything behind the HLO passes.
const codeGeneration = "code generation"

// attribute says which pass step and which instruction a finding comes from:
// the first witness, per-pass validation, on the side that is wrong. What it
// cannot tell it leaves empty.
func (k *caseRun) attribute(ctx context.Context, f *observedFinding) {
	if k.c.Module == nil || f.Class == Nondeterminism || f.Class == Hang {
		return
	}
	q, ok := k.questionOf(f.Stream)
	if !ok {
		return
	}
	build := k.guiltySide(f)
	r := k.request(f.Flags)
	r.DumpAll, r.DumpDir = f.Class == Crash, k.run.cfg.DumpRoot
	trail, err := triage.NewTrail(ctx, k.run.cfg.Runner, build, k.c.Module, r)
	if err != nil {
		return
	}
	if f.Class == Crash {
		f.Level = LevelAbort
		switch {
		case trail.Last != "" && trail.Last != "pipeline-end":
			f.Pass = &PassStep{Pipeline: trail.LastPipeline, Index: unknownIndex, Name: trail.Last}
		case trail.Optimised != nil:
			f.Pass = &PassStep{Name: codeGeneration}
		}
		return
	}
	args := make([]*eval.Value, len(q.Inputs))
	for i, l := range q.Inputs {
		args[i] = eval.FromLiteral(l)
	}
	o := eval.Options{Bounds: true, ExcessPrecision: f.Flags == DefaultFlags}
	v, err := trail.Validate(ctx, [][]*eval.Value{args}, o)
	if err != nil {
		return
	}
	f.Witness(v, trail, func(before, after *triage.State) {
		from := trail.Before
		if before != nil {
			from = before.Module
		}
		f.Step = stepText(from, after.Module)
		step := slices.IndexFunc(trail.States, func(s triage.State) bool { return s.Number == after.Number && s.Key == after.Key })
		f.locate(v.Guilty(), func() (*triage.Location, error) {
			return place(ctx, trail, k.otherTrail(ctx, f, r), step, from, args, o)
		})
	})
	if f.Pass != nil || v.Unknown > 0 || trail.Optimised == nil {
		return
	}
	// Every step keeps the meaning: the fault lies behind the passes.
	f.Pass, f.Level = &PassStep{Name: codeGeneration}, LevelEmitter
	kernel, err := triage.FindKernel(ctx, k.run.cfg.Runner, build, trail.Optimised, args, flagSet(f.Flags))
	switch {
	case err != nil:
	case kernel != nil:
		f.kernel = triage.KernelKind(kernel.Instruction)
		f.Instruction = kernel.Instruction.Name
		f.Location = &Location{Computation: trail.Optimised.Entry.Name, Opcode: kernel.Instruction.Op.String(), InPlace: kernel.InPlace,
			LegalBefore: kernel.Where.Before, LegalAfter: kernel.Where.After}
		if kernel.Library {
			// Named by the step that handed the work to the library.
			f.Level = LevelLibrary
			if by := trail.Introduced(f.Instruction); by != nil {
				f.Pass = &PassStep{Pipeline: by.Key.Pipeline, Index: by.Key.Index, Name: by.Key.Pass}
			}
		}
	default:
		if in := triage.InPlace(trail.Optimised); in != nil {
			f.kernel = triage.KernelKind(in)
			f.Instruction = in.Name
			f.Location = &Location{Computation: trail.Optimised.Entry.Name, Opcode: in.Op.String(), InPlace: true}
		}
	}
}

// locate names the instruction of a guilty step: the place inside the changed
// region if that is what the step was judged by.
func (f *Finding) locate(s *triage.Step, whole func() (*triage.Location, error)) {
	var loc *triage.Location
	if s.Regions != nil {
		loc = s.Regions.Location
	}
	if loc == nil {
		var err error
		if loc, err = whole(); err != nil || loc == nil {
			return
		}
	}
	f.Instruction = loc.Before.Name
	f.Location = &Location{
		Computation: loc.Computation.Name, Opcode: loc.Before.Op.String(), After: loc.After.Name, AfterOpcode: loc.After.Op.String(),
		Source: loc.Source, LegalBefore: loc.Where.Before, LegalAfter: loc.Where.After,
	}
}

// otherTrail is what the passes of the build that is right made of the program;
// nil if there is none.
func (k *caseRun) otherTrail(ctx context.Context, f *observedFinding, r worker.Request) *triage.Trail {
	right := k.run.cfg.Base
	if k.guiltySide(f) == right {
		right = k.run.cfg.Head
	}
	if f.Status != New && f.Status != Fixed || k.guiltySide(f) == right {
		return nil
	}
	t, err := triage.NewTrail(ctx, k.run.cfg.Runner, right, k.c.Module, r)
	if err != nil {
		return nil
	}
	return t
}

// guiltySide is the build that shows the finding.
func (k *caseRun) guiltySide(f *observedFinding) *builds.Build {
	switch f.Head {
	case Wrong, Flaky, Crashed, Hung:
		return k.run.cfg.Head
	}
	return k.run.cfg.Base
}

// Witness records what per-pass validation says; locate is called with the
// states around a guilty step.
func (f *Finding) Witness(v *triage.Validation, t *triage.Trail, locate func(before, after *triage.State)) {
	var before *triage.State
	for i, s := range v.Steps {
		switch s.Standing {
		case triage.Guilty:
			f.Pass, f.Level = &PassStep{Pipeline: s.Key.Pipeline, Index: s.Key.Index, Name: s.Key.Pass}, LevelHLO
			f.Witnesses = append(f.Witnesses, "per-pass validation")
			locate(before, &t.States[i])
			return
		case triage.Same:
			before = &t.States[i]
		}
	}
}

// foldContested makes a contested finding a duplicate of a firm one of the same
// class that comes from the same pass step and instruction: wrong rewrites show
// on overflowing inputs too.
func foldContested(in []observedFinding) []observedFinding {
	host := func(f observedFinding) int {
		if f.Status != Contested || f.Pass == nil {
			return -1
		}
		return slices.IndexFunc(in, func(g observedFinding) bool {
			return g.Status != Contested && g.Status != ReferenceDisputed && g.Class == f.Class &&
				g.Pass != nil && *g.Pass == *f.Pass && g.Instruction == f.Instruction
		})
	}
	var out []observedFinding
	duplicates := make([]int, len(in))
	for _, f := range in {
		if h := host(f); h >= 0 {
			duplicates[h] += 1 + f.Duplicates
		}
	}
	for i, f := range in {
		if host(f) < 0 {
			f.Duplicates += duplicates[i]
			out = append(out, f)
		}
	}
	return out
}
