package gate

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/passgate/passgate/gate/statistics"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// WitnessStates executes the states of a compilation one by one.
const WitnessStates = "execution of states"

// Evidence is what one witness says about where a fault lies.
type Evidence struct {
	Witness string `json:"witness"`
	Says    Says   `json:"says"`
	// Pass is the step that it speaks of; nil for all of them.
	Pass   *PassStep `json:"pass,omitempty"`
	Detail string    `json:"detail,omitempty"`
}

// Says is the word of a witness. A probe that crashes is Unknowing, never an
// accusation.
type Says string

const (
	Accuses   Says = "guilty"
	Acquits   Says = "not guilty"
	Unknowing Says = "unknown"
)

// Culprit is one of several faults of a case.
type Culprit struct {
	Pass        PassStep  `json:"pass"`
	Level       Level     `json:"level"`
	Instruction string    `json:"instruction,omitempty"`
	Location    *Location `json:"location,omitempty"`
	// Output, At, Before and After are the first element that the step changed,
	// relative to its own before; Elements counts those judged, Wrong those that
	// changed.
	Output    string     `json:"output"`
	At        []int64    `json:"at"`
	Before    string     `json:"before"`
	After     string     `json:"after"`
	Elements  int64      `json:"elements"`
	Wrong     int64      `json:"wrong"`
	Contested bool       `json:"contested,omitempty"`
	EnabledBy *PassStep  `json:"enabled_by,omitempty"`
	Evidence  []Evidence `json:"evidence,omitempty"`
}

// FailureRate says how often a fault shows that does not show every time.
type FailureRate struct {
	// Failed of Runs executions in one process were wrong.
	Runs   int `json:"runs"`
	Failed int `json:"failed"`
	// Interval is the 95 % interval of the rate (Clopper-Pearson).
	Interval [2]float64 `json:"interval"`
	// Probes is the number of executions of each state in the bisection, and
	// Confidence the probability that a state that fails no less often than the
	// lower end of Interval is caught by so many.
	Probes     int     `json:"probes"`
	Confidence float64 `json:"confidence"`
}

// rateRuns is the number of executions by which the rate of a flaky fault is
// measured: less than a second for a small program (xla-facts.md), and the most
// that a worker does.
const rateRuns = 300

// missed is the probability with which a bisection may take a state that fails
// sometimes for one that does not.
const missed = 0.01

// failureRate is the rate for that many failures.
func failureRate(failed, runs int) *FailureRate {
	r := &FailureRate{Runs: runs, Failed: failed, Interval: statistics.Proportion(int64(failed), int64(runs)), Probes: rateRuns}
	low := r.Interval[0]
	if low > 0 && low < 1 {
		r.Probes = min(rateRuns, max(repeats, int(math.Ceil(math.Log(missed)/math.Log1p(-low)))))
	}
	r.Confidence = r.caught(r.Probes)
	return r
}

// caught is the probability that runs executions show a fault of the lowest
// rate that the measurement allows.
func (r *FailureRate) caught(runs int) float64 {
	return 1 - math.Pow(1-r.Interval[0], float64(runs))
}

// Text is "fails in 12 of 300 executions (rate 2.1 % to 6.9 %); ...".
func (r *FailureRate) Text() string {
	return fmt.Sprintf("fails in %d of %d executions (95 %% interval %.1f %% to %.1f %%); %d executions of a state find it with probability %.3f",
		r.Failed, r.Runs, 100*r.Interval[0], 100*r.Interval[1], r.Probes, r.Confidence)
}

// measureRate repeats a fault that does not show every time; nil if every
// execution, or none, shows it.
func (k *caseRun) measureRate(ctx context.Context, f *observedFinding) *FailureRate {
	q, ok := k.questionOf(f.Stream)
	if !ok || q.reference(f.Flags) == nil {
		return nil
	}
	r := k.request(f.Flags)
	r.Inputs, r.Repeat, r.RepeatFor = [][]worker.Array{q.arguments}, rateRuns, 0
	out := k.pooled(k.guiltySide(f)).try(ctx, r)
	if out.Status != worker.OK || out.Result.Sets[0].Failure != nil {
		return nil
	}
	legal := Leaves(q.reference(f.Flags))
	runs, failed := 0, 0
	for _, d := range out.Result.Sets[0].Distinct {
		runs += d.Count
		if outside(results(d.Outputs), legal) {
			failed += d.Count
		}
	}
	if failed == 0 || failed == runs {
		return nil
	}
	return failureRate(failed, runs)
}

// outside reports whether any element is outside its legal set.
func outside(got []*hlo.Literal, legal []*eval.Array) bool {
	for o := range min(len(got), len(legal)) {
		for i := range min(legal[o].Len(), int(got[o].Shape.Elems())) {
			if legal[o].Legal(i, eval.LiteralScalar(got[o], int64(i))) == eval.Out {
				return true
			}
		}
	}
	return false
}

func passStep(s *triage.State) *PassStep {
	return &PassStep{Pipeline: s.Key.Pipeline, Index: s.Key.Index, Name: s.Key.Pass}
}

// statesOf makes the second witness for a finding; nil where the build cannot
// execute.
func (k *caseRun) statesOf(f *observedFinding, b *builds.Build, t *triage.Trail, inputs []*hlo.Literal, o eval.Options) *triage.Executor {
	if b.Kind != builds.Executable {
		return nil
	}
	e := &triage.Executor{Compiler: k.run.cfg.Runner, Build: b, Trail: t, Inputs: inputs, Options: flagSet(f.Flags), Eval: o, Timeout: k.request(f.Flags).Timeout}
	if f.FailureRate != nil {
		e.Repeat = f.FailureRate.Probes
	}
	return e
}

// guiltySteps are all guilty steps with the index of the state that each was
// given.
func guiltySteps(v *triage.Validation) (steps, before []int) {
	last := -1
	for i, s := range v.Steps {
		if s.Standing == triage.Guilty {
			steps, before = append(steps, i), append(before, last)
		}
		if s.Standing != triage.Unknown {
			last = i
		}
	}
	return steps, before
}

// accusation is what per-pass validation says of a guilty step.
func accusation(s *triage.Step, at *PassStep) Evidence {
	w := s.Where
	return Evidence{WitnessPasses, Accuses, at, fmt.Sprintf("output %d%v may be %s before and %s after", w.Output, w.At, w.Before, w.After)}
}

// testify asks both witnesses about a step that per-pass validation accuses.
// other, if not nil, is another executable build for states that this one
// cannot execute.
func testify(ctx context.Context, k *caseRun, e *triage.Executor, other *builds.Build, s *triage.Step, before, step int) (evidence []Evidence, disagreement string) {
	at := passStep(&e.Trail.States[step])
	evidence = append(evidence, accusation(s, at))
	second := Evidence{Witness: WitnessStates, Pass: at}
	t, b, a := e.Testify(ctx, before, step)
	switch t {
	case triage.Agrees:
		second.Says, second.Detail = Accuses, "the module before runs right, the module after wrong"+k.times(b, a)
	case triage.Disagrees:
		second.Says, second.Detail = Acquits, "the modules before and after both run right"+k.times(b, a)
	default:
		second.Says = Unknowing
		switch {
		case b.Standing == triage.Guilty:
			second.Detail = "the build is wrong about the module before the step, too"
		case b.Standing == triage.Unknown:
			second.Detail = "the module before the step " + b.Detail
		default:
			second.Detail = "the module after the step " + a.Detail
		}
	}
	evidence = append(evidence, second)
	if second.Says == Unknowing && other != nil {
		third := Evidence{Witness: WitnessCross, Pass: at}
		from := e.Trail.Before
		if before >= 0 {
			from = e.Trail.States[before].Module
		}
		t, why := triage.CrossExecute(ctx, k.run.cfg.Runner, other, from, e.Trail.States[step].Module, e.Inputs, e.Eval, e.Options)
		switch t {
		case triage.Agrees:
			third.Says, third.Detail = Accuses, "on "+other.Spec.String()
		case triage.Disagrees:
			third.Says, third.Detail = Acquits, "both modules run right on "+other.Spec.String()
		default:
			third.Says, third.Detail = Unknowing, why
		}
		evidence = append(evidence, third)
	}
	if last := evidence[len(evidence)-1]; last.Says == Acquits {
		disagreement = fmt.Sprintf("per-pass validation accuses %s, %s does not: %s", at, last.Witness, last.Detail)
	}
	return evidence, disagreement
}

// times counts executions where some are right and some wrong; in a bisection only,
// since the counts are chance.
func (k *caseRun) times(b, a triage.StateVerdict) string {
	if !k.thorough || a.Wrong == a.Runs || a.Wrong == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d of %d executions; before: %d of %d)", a.Wrong, a.Runs, b.Wrong, b.Runs)
}

// turn asks the second witness alone: behind which step the value goes wrong
// when the states are executed.
// always says that it is wrong with the passes off, too.
func turn(ctx context.Context, e *triage.Executor, rate *FailureRate) (out Evidence, from *triage.State, always bool) {
	out = Evidence{Witness: WitnessStates, Says: Unknowing}
	t := e.Turn(ctx)
	switch {
	case t.Found:
		s := &e.Trail.States[t.Bad]
		out.Says, out.Pass = Accuses, passStep(s)
		out.Detail = fmt.Sprintf("run step by step, it is right up to the module before %s and wrong from the module after it", out.Pass)
		if n := t.Between(); n > 0 {
			out.Detail += fmt.Sprintf("; %s in between cannot be executed", plural(n, "state"))
		}
		if rate != nil {
			out.Detail += fmt.Sprintf("; the module before was right in %d executions: truly right with confidence %.3f", t.GoodRuns, rate.caught(t.GoodRuns))
		}
		return out, s, false
	case t.First.Standing == triage.Guilty:
		out.Detail, always = "the program is wrong with the passes off, too", true
	case t.First.Standing == triage.Unknown:
		out.Detail = "the program with the passes off " + t.First.Detail
	case t.Last.Standing == triage.Same:
		out.Says, out.Detail = Acquits, "the module after each step, compiled by itself, runs right"
	default:
		out.Detail = "no module between the steps can be run by itself"
	}
	return out, nil, always
}

// otherExecutable is a build, not b, that executes; nil if there is none.
func (k *caseRun) otherExecutable(b *builds.Build) *builds.Build {
	all := []*builds.Build{k.run.cfg.Witness, k.run.cfg.Base, k.run.cfg.Head}
	i := slices.IndexFunc(all, func(o *builds.Build) bool {
		return o != nil && o.ID != b.ID && o.Kind == builds.Executable && o.Python == ""
	})
	if i < 0 {
		return nil
	}
	return all[i]
}

// widen asks whether a guilty step differs by rounding only: in the region that
// it changed, or where there is none, in the whole program.
func (l *Location) widen(ctx context.Context, r *triage.RegionStep, before, after *hlo.Module, args []*eval.Value, o eval.Options) {
	if r == nil || r.Region == nil {
		r, _ = triage.ValidateRegions(ctx, before, after, args, o, "")
	}
	if r != nil && r.Region != nil {
		if w := triage.Widen(ctx, r.Region.Before, r.Region.After, values(r.Region.Inputs), o); w != nil {
			l.because(w)
			return
		}
	}
	l.because(triage.Widen(ctx, before, after, args, o))
}

func (l *Location) because(w *triage.Widening) {
	if w != nil {
		l.Cause, l.Widened, l.WidenedBefore = string(w.Cause), w.Operations, w.Before
	}
}
