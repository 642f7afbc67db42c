package gate

import (
	"cmp"
	"context"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
)

// outOfTime is why the steps are unknown that were not judged before a context
// ended.
const outOfTime = "not judged in the time given"

// JudgedSteps is what per-pass validation says about one program on one build.
type JudgedSteps struct {
	// Counts has the build as base.
	Counts *StepCounts
	// Open are the steps that are undecided or unknown.
	Open []OpenStep
	// Guilty are the guilty ones, as text.
	Guilty []string
	// Build says how the compilation ended, with Detail: Right if all passes
	// have run. Unsupported programs are not compiled.
	Build  Behaviour
	Detail string
}

// OpenStep is a pass step that is not judged.
type OpenStep struct {
	Pass string
	// Why is the reason of an unknown step; "" for an undecided one.
	Why string
}

// JudgeSteps compiles a program up to code generation on one build and judges
// every pass step that changed it, on the streams that check asks. When ctx
// ends before that, the steps that are left are unknown. Of cfg it uses Runner, Now, Seed, Timeout, Reference and
// DumpRoot.
func JudgeSteps(ctx context.Context, cfg Config, b *builds.Build, c *fuzz.Case) JudgedSteps {
	b = poisoned(b)
	cfg.Base, cfg.Head, cfg.PassesOnly = b, b, true
	out := JudgedSteps{Counts: &StepCounts{}, Build: Unsupported}
	if c.Module == nil {
		out.Detail = "per-pass validation does not read StableHLO"
		return out
	}
	if out.Detail = compilable(c); out.Detail != "" {
		return out
	}
	k := &caseRun{run: newRun(cfg), c: c}
	var err error
	if k.base, err = encode(c); err != nil {
		out.Detail = "cannot be written as a proto: " + err.Error()
		return out
	}
	p := k.compilePasses(ctx, cfg.Runner, b, c.Module)
	k.unable = k.ask(ctx, k.passStreams(ctx), &caseReport{})
	streams, sets := k.passSets()
	k.judgePasses(ctx, &p, sets, ownOf(streams), passOptions, &triage.Evaluations{})
	out.Build, out.Detail = cmp.Or(p.side.behaviour, Right), p.side.detail
	out.Counts = counts([2]passSide{p, {}})
	if p.trail == nil {
		return out
	}
	for i, s := range p.trail.States {
		switch {
		case p.validation == nil:
			out.Open = append(out.Open, OpenStep{s.Key.Pass, p.unjudged})
		case i >= len(p.validation.Steps):
			out.Open = append(out.Open, OpenStep{s.Key.Pass, outOfTime})
		case p.validation.Steps[i].Standing == triage.Unknown:
			out.Open = append(out.Open, OpenStep{s.Key.Pass, p.validation.Steps[i].Detail})
		case p.validation.Steps[i].Open():
			out.Open = append(out.Open, OpenStep{s.Key.Pass, ""})
		}
	}
	for _, i := range p.guilty() {
		s := p.validation.Steps[i]
		text := s.Key.String() + ": " + s.Where.After + ", legal " + s.Where.Before
		if s.Firm == 0 {
			text += " (contested)"
		}
		out.Guilty = append(out.Guilty, text)
	}
	return out
}
