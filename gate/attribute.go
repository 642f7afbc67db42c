package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
)

// codeGeneration is the name of everything behind the HLO passes.
const codeGeneration = "code generation"

// attribute says which pass step and which instruction a finding comes from:
// the first witness, per-pass validation, on the side that is wrong. What it
// cannot tell it leaves empty.
func (k *caseRun) attribute(ctx context.Context, f *observedFinding) {
	if k.c.Module == nil || f.Class == Hang {
		return
	}
	q, ok := k.questionOf(f.Stream)
	if !ok {
		return
	}
	build := k.guiltySide(f)
	if f.Class == Crash {
		k.whereDied(ctx, f)
		return
	}
	trail, err := k.passTrailUnder(ctx, f.Flags, k.run.cfg.Runner, build, k.c.Module, false)
	if err != nil {
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
	states := k.statesOf(f, build, trail, q.Inputs, o)
	if v.Guilty() != nil {
		k.blame(ctx, f, v, trail, states, args, o)
		if k.thorough {
			k.behind(ctx, f, trail, states, args)
		}
		return
	}
	if states == nil {
		return
	}
	admitted := states.Admitted(ctx, f.seen.got)
	if admitted.Standing == triage.Guilty {
		k.admit(ctx, f, admitted, trail, args, o)
		return
	}
	first := Evidence{WitnessPasses, Acquits, nil, kept(len(v.Steps))}
	open := len(f.seen.got) > 0 && admitted.Standing == triage.Unknown
	// Legal values, but not what the case wants, are legal for every module. Where
	// that is the same computation all along, no pass is to blame.
	unwanted := open && trail.SameFlow()
	open = open && !unwanted
	if open {
		first.Says, first.Detail = Unknowing, "the legal sets of the modules do not tell where the value came from"
	}
	if v.Unknown > 0 {
		first.Says, first.Detail = Unknowing, fmt.Sprintf("%d of %s cannot be judged", v.Unknown, plural(len(v.Steps), "pass step"))
	}
	var enabler *triage.State
	second, always := Evidence{WitnessStates, Unknowing, nil, "the values are legal for every module"}, false
	if !unwanted {
		second, enabler, always = turn(ctx, states, f.FailureRate)
	}
	f.Evidence = []Evidence{first, second}
	if v.Unknown > 0 || open || trail.Optimised == nil {
		if enabler != nil {
			f.Pass = passStep(enabler) // one witness: the level stays unknown
			f.Witnesses = append(f.Witnesses, WitnessStates)
		}
		return
	}
	// Every step keeps the meaning: the fault lies behind the passes.
	f.Pass, f.Level = &PassStep{Name: codeGeneration}, LevelEmitter
	if enabler != nil {
		f.EnabledBy = passStep(enabler)
		f.Witnesses = append(f.Witnesses, WitnessStates)
	}
	k.findKernel(ctx, f, trail, states, args)
	if always { // whatever made the kernel, it is wrong without it
		f.EnabledBy = nil
	}
}

// admit blames the step behind which the value that the build computed is legal.
// The sets before and after the step have other values in common, so the step is
// guilty of this value alone.
func (k *caseRun) admit(ctx context.Context, f *observedFinding, a triage.Admission, trail *triage.Trail, args []*eval.Value, o eval.Options) {
	s := &trail.States[a.State]
	before := trail.StateBefore(a.State)
	f.Pass, f.Level, f.byValue = passStep(s), LevelHLO, true
	f.Step = stepText(before, s.Module)
	if loc, err := place(ctx, trail, k.otherTrail(ctx, f), a.State, before, args, o); err == nil && loc != nil {
		f.locate(&triage.Step{}, func() (*triage.Location, error) { return loc, nil })
	}
	f.Witnesses = append(f.Witnesses, WitnessPasses)
	f.Evidence = []Evidence{{WitnessPasses, Accuses, f.Pass, fmt.Sprintf("output %d%v may be %s for the program; the module after the step allows %s, and so do all behind it", a.Where.Output, a.Where.At, a.Where.Before, a.Where.After)}}
}

// whereDied names the pass in which a compiler died, or code generation.
func (k *caseRun) whereDied(ctx context.Context, f *observedFinding) {
	r := k.request(f.Flags)
	r.DumpAll, r.DumpDir = true, k.run.cfg.DumpRoot
	trail, err := triage.NewTrail(ctx, k.run.cfg.Runner, k.guiltySide(f), k.c.Module, r)
	if err != nil {
		return
	}
	f.Level = LevelAbort
	switch {
	case trail.Last != "" && trail.Last != "pipeline-end":
		f.Pass = &PassStep{Pipeline: trail.LastPipeline, Index: unknownIndex, Name: trail.Last}
	case trail.Optimised != nil:
		f.Pass = &PassStep{Name: codeGeneration}
	}
}

// kept says that steps are right.
func kept(steps int) string {
	switch steps {
	case 0:
		return "no pass changed the program"
	case 1:
		return "the one pass step keeps the program's meaning"
	}
	return fmt.Sprintf("each of %d pass steps keeps the program's meaning", steps)
}

// blame files the guilty steps of a validation: the first as the finding's,
// and all of them if there are several.
func (k *caseRun) blame(ctx context.Context, f *observedFinding, v *triage.Validation, trail *triage.Trail, states *triage.Executor, args []*eval.Value, o eval.Options) {
	steps, before := guiltySteps(v)
	build := k.guiltySide(f)
	other := sync.OnceValue(func() *triage.Trail { return k.otherTrail(ctx, f) })
	for n, i := range steps {
		if n > 0 && !k.thorough {
			break
		}
		s := &v.Steps[i]
		from := trail.Before
		if before[n] >= 0 {
			from = trail.States[before[n]].Module
		}
		one := Finding{}
		one.locate(s, func() (*triage.Location, error) { return place(ctx, trail, other(), i, from, args, o) })
		c := Culprit{Pass: *passStep(&trail.States[i]), Level: LevelHLO, Instruction: one.Instruction, Location: one.Location,
			Output: fmt.Sprint(s.Where.Output), At: s.Where.At, Before: s.Where.Before, After: s.Where.After, Elements: s.Elements, Wrong: s.Wrong, Contested: s.Firm == 0}
		if by := trail.Enabler(one.Instruction, i); by != nil {
			c.EnabledBy = passStep(by)
		}
		if k.thorough && one.Location != nil {
			one.Location.widen(ctx, s.Regions, from, trail.States[i].Module, args, o)
		}
		disagreement := ""
		ask := func() { c.Evidence, disagreement = testify(ctx, k, states, k.otherExecutable(build), s, before[n], i) }
		switch {
		case states == nil:
		case f.Blocking && !k.thorough:
			c.Evidence = []Evidence{accusation(s, &c.Pass)}
			f.ask = func() {
				ask()
				f.hear(c.Evidence)
				f.Evidence, f.Disagreement = c.Evidence, disagreement
			}
		default:
			ask()
		}
		if len(steps) > 1 && k.thorough {
			f.Culprits = append(f.Culprits, c)
		}
		if n > 0 {
			continue
		}
		f.Pass, f.Level, f.Instruction, f.Location, f.EnabledBy = &c.Pass, LevelHLO, c.Instruction, c.Location, c.EnabledBy
		f.Witnesses = append(f.Witnesses, WitnessPasses)
		f.Step = stepText(from, trail.States[i].Module)
		f.Evidence, f.Disagreement = c.Evidence, disagreement
		f.hear(c.Evidence)
	}
}

// hear adds the witnesses behind the first that accuse.
func (f *Finding) hear(all []Evidence) {
	for _, e := range all[min(1, len(all)):] {
		if e.Says == Accuses {
			f.Witnesses = append(f.Witnesses, e.Witness)
		}
	}
}

// settle asks the witnesses of a step that execute: of the smallest program
// where it shows the fault of that step, else of the case. They say the same of
// a few instructions as of hundreds, for a small part of the compilation.
func (f *observedFinding) settle() {
	if f.ask == nil {
		return
	}
	if m := f.InMinimal; m != nil && m.Pass != nil && m.Pass.Name == f.Pass.Name && len(m.Evidence) > 1 {
		f.hear(m.Evidence)
	} else {
		f.ask()
	}
}

// behind looks for a fault of code generation behind guilty passes: what the
// build computes from the module that the passes left.
func (k *caseRun) behind(ctx context.Context, f *observedFinding, trail *triage.Trail, states *triage.Executor, args []*eval.Value) {
	if states == nil || trail.Optimised == nil {
		return
	}
	g := observedFinding{Finding: Finding{Stream: f.Stream, Flags: f.Flags, Base: f.Base, Head: f.Head, FailureRate: f.FailureRate}}
	if !k.findKernel(ctx, &g, trail, states, args) {
		return
	}
	if len(f.Culprits) == 0 {
		f.Culprits = []Culprit{{Pass: *f.Pass, Level: f.Level, Instruction: f.Instruction, Location: f.Location, Output: f.Output, At: f.First.At,
			Before: f.First.Legal, After: f.got(), Elements: f.Elements, Wrong: f.Wrong, Contested: f.Status == Contested, EnabledBy: f.EnabledBy, Evidence: f.Evidence}}
	}
	c := Culprit{Level: g.Level, Pass: PassStep{Name: codeGeneration}, Instruction: g.Instruction, Location: g.Location, At: []int64{}}
	if g.Pass != nil {
		c.Pass = *g.Pass
	}
	c.Before, c.After = g.Location.LegalBefore, g.Location.LegalAfter
	f.Culprits = append(f.Culprits, c)
}

// got is the first wrong value.
func (f *Finding) got() string {
	if f.Head == Wrong || f.Head == Flaky {
		return f.First.Head
	}
	return f.First.Base
}

// findKernel names the kernel that computes wrong values from right operands;
// false if none does by itself.
func (k *caseRun) findKernel(ctx context.Context, f *observedFinding, trail *triage.Trail, states *triage.Executor, args []*eval.Value) bool {
	c, build, flags := k.run.cfg.Runner, states.Build, states.Options
	kernel, err := triage.FindKernel(ctx, c, build, trail.Optimised, args, flags, states.Repeat)
	switch {
	case err != nil:
	case kernel != nil:
		f.kernel = triage.KernelKind(kernel.Instruction, kernel.Library && f.Nature == Unwritten)
		f.Level = LevelEmitter
		f.Instruction = kernel.Instruction.Name
		f.Location = &Location{Computation: trail.Optimised.Entry.Name, Opcode: kernel.Instruction.Op.String(), InPlace: kernel.InPlace,
			Source: triage.Source(kernel.Instruction), LegalBefore: kernel.Where.Before, LegalAfter: kernel.Where.After}
		if kernel.Library {
			// Named by the step that handed the work to the library.
			f.Level = LevelLibrary
			if by := trail.Introduced(f.Instruction); by != nil {
				f.Pass, f.EnabledBy = passStep(by), nil
			}
		} else if by := trail.Introduced(f.Instruction); by != nil && f.EnabledBy == nil {
			f.EnabledBy = passStep(by)
		}
		if k.thorough {
			if in := kernel.Inside(ctx, c, build, flags, states.Repeat); in != nil {
				f.Location.Inside, f.Location.InsideOpcode = in.Name, in.Op.String()
				if s := triage.Source(in); s != "" {
					f.Location.Source = s
				}
			}
			f.Location.because(kernel.Widen(ctx, c, build, flags, states.Repeat))
			w := kernel.Where
			if f.Location.Cause == "" && classOf(w.Type, w.Was, w.Is) == NumericDegradation {
				// No wider type than f64 on the build: the reference computes the kernel
				// in twice the digits, and half of those of f64 agree.
				f.Location.Cause = string(triage.Precision)
			}
		}
		return true
	default:
		if in := triage.InPlace(trail.Optimised); in != nil {
			f.kernel = triage.KernelKind(in, false)
			f.Instruction = in.Name
			f.Location = &Location{Computation: trail.Optimised.Entry.Name, Opcode: in.Op.String(), InPlace: true, Source: triage.Source(in)}
		}
	}
	return false
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
func (k *caseRun) otherTrail(ctx context.Context, f *observedFinding) *triage.Trail {
	right := k.run.cfg.Base
	if k.guiltySide(f) == right {
		right = k.run.cfg.Head
	}
	if f.Status != New && f.Status != Fixed || k.guiltySide(f) == right {
		return nil
	}
	t, err := k.passTrailUnder(ctx, f.Flags, k.run.cfg.Runner, right, k.c.Module, false)
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
