package gate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/dump"
	"github.com/passgate/passgate/xla/worker"
)

// The witnesses of a finding.
const (
	WitnessExecution = "execution"
	WitnessPasses    = "per-pass validation"
	WitnessCross     = "cross-execution"
	WitnessCompiler  = "compilation" // of a crash or hang, where nothing is executed
)

// passSteps is the step limit of the reference on one state of a program that
// is not executed: a trail has up to a hundred states, each evaluated on every
// input stream.
const passSteps = 1 << 21

// passesOnly reports whether programs are compiled up to code generation and
// never executed.
func (c *Config) passesOnly() bool {
	return c.PassesOnly || c.Base.Kind == builds.CompileOnly || c.Head.Kind == builds.CompileOnly
}

// StepCounts counts pass steps that changed a program.
type StepCounts struct {
	// Base and Head are the steps of each build. Aligned of them are the same
	// on both sides, from the first on: the same pass gave the same module.
	Base    int `json:"base"`
	Head    int `json:"head"`
	Aligned int `json:"aligned"`
	// Judged steps (of both builds) were evaluated before and after; Shared led
	// to a module that had been evaluated already. ByRule changed precision as a
	// rule allows. Of Undecided steps no element has a legal set on both sides.
	// Unknown steps could not be evaluated. Judged, Undecided and Unknown sum up
	// to Base and Head.
	Judged    int `json:"judged"`
	Undecided int `json:"undecided"`
	Shared    int `json:"shared"`
	ByRule    int `json:"by_rule"`
	Unknown   int `json:"unknown"`
	// UnknownBy counts the unknown steps by reason.
	UnknownBy map[string]int `json:"unknown_by_reason,omitempty"`
	// Reasons says why steps are unknown: "pass: reason", sorted, each once.
	Reasons []string `json:"reasons,omitempty"`
}

func (s *StepCounts) add(o *StepCounts) {
	s.Base += o.Base
	s.Head += o.Head
	s.Aligned += o.Aligned
	s.Judged += o.Judged
	s.Undecided += o.Undecided
	for why, n := range o.UnknownBy {
		s.because(why, n)
	}
	s.Shared += o.Shared
	s.ByRule += o.ByRule
	s.Unknown += o.Unknown
	s.Reasons = slices.Compact(slices.Sorted(slices.Values(append(s.Reasons, o.Reasons...))))
}

func (s *StepCounts) because(why string, steps int) {
	if s.UnknownBy == nil {
		s.UnknownBy = map[string]int{}
	}
	s.UnknownBy[why] += steps
}

// passSide is what the passes of one build made of a program.
type passSide struct {
	build *builds.Build
	// side says how the compilation ended if the passes did not finish.
	side       side
	trail      *triage.Trail
	validation *triage.Validation
	// unjudged says why there is a trail but no validation.
	unjudged string
}

// guilty are the guilty steps, the first of each pass.
func (p *passSide) guilty() []int {
	var out []int
	if p.validation == nil {
		return nil
	}
	for i, s := range p.validation.Steps {
		if s.Standing == triage.Guilty && !slices.ContainsFunc(out, func(o int) bool { return p.validation.Steps[o].Key.Pass == s.Key.Pass }) {
			out = append(out, i)
		}
	}
	return out
}

// accused is the first guilty step of a pass, -1 if there is none.
func (p *passSide) accused(pass string) int {
	g := p.guilty()
	if i := slices.IndexFunc(g, func(i int) bool { return p.validation.Steps[i].Key.Pass == pass }); i >= 0 {
		return g[i]
	}
	return -1
}

// clean reports whether all passes have run and kept the meaning of output.
func (p *passSide) clean(output int) bool {
	if p.side.behaviour != "" || p.validation == nil || !p.validation.Whole {
		return false
	}
	return !slices.ContainsFunc(p.validation.Steps, func(s triage.Step) bool {
		return s.Standing == triage.Guilty && s.Where.Output == output
	})
}

// fresher compiles in processes of their own.
type fresher struct{ Runner }

func (f fresher) Do(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	return f.DoFresh(ctx, b, r)
}

// passTrail compiles up to code generation; all asks for a state after every
// pass, changed or not.
func (k *caseRun) passTrail(ctx context.Context, c triage.Compiler, b *builds.Build, m *hlo.Module, all bool) (*triage.Trail, error) {
	return k.passTrailUnder(ctx, ComparisonFlags, c, b, m, all)
}

// passTrailUnder is passTrail under a set of flags.
func (k *caseRun) passTrailUnder(ctx context.Context, flags string, c triage.Compiler, b *builds.Build, m *hlo.Module, all bool) (*triage.Trail, error) {
	r := k.request(flags)
	r.DumpAll, r.DumpDir = all, k.run.cfg.DumpRoot
	program := m
	if b.Kind == builds.Executable && b.Python == "" {
		program = triage.Stopped(m)
	}
	var err error
	if r.Program, err = hlo.MarshalModule(program); err != nil {
		return nil, err
	}
	t, err := triage.NewTrail(ctx, c, b, m, r)
	if err == nil && t.Outcome.Status == worker.Infrastructure && ctx.Err() == nil {
		t, err = triage.NewTrail(ctx, c, b, m, r)
	}
	if err == nil {
		k.run.xlaTime.add(t.Outcome.InXLA)
	}
	return t, err
}

// examine compiles the program on both builds and validates every pass step.
// own is the index of the case's own inputs in sets, which o's step limit does
// not bind; -1 if it is none of them.
func (k *caseRun) examine(ctx context.Context, c triage.Compiler, m *hlo.Module, sets [][]*eval.Value, own int, o eval.Options) [2]passSide {
	both := k.compileBoth(ctx, c, m)
	k.judgeBoth(ctx, &both, sets, own, o)
	return both
}

// compileBoth compiles the program on both builds, once if they are one.
func (k *caseRun) compileBoth(ctx context.Context, c triage.Compiler, m *hlo.Module) (both [2]passSide) {
	var wg sync.WaitGroup
	for i, b := range []*builds.Build{k.run.cfg.Base, k.run.cfg.Head} {
		if i == 1 && b == k.run.cfg.Base { // one build is looked at
			break
		}
		wg.Go(func() { both[i] = k.compilePasses(ctx, c, b, m) })
	}
	wg.Wait()
	if k.run.cfg.Base == k.run.cfg.Head {
		both[1] = both[0]
	}
	return both
}

// judgeBoth validates every pass step of both sides.
func (k *caseRun) judgeBoth(ctx context.Context, both *[2]passSide, sets [][]*eval.Value, own int, o eval.Options) {
	known := &triage.Evaluations{}
	for i := range both {
		k.judgePasses(ctx, &both[i], sets, own, o, known)
	}
}

// compilePasses compiles the program on one build.
func (k *caseRun) compilePasses(ctx context.Context, c triage.Compiler, b *builds.Build, m *hlo.Module) passSide {
	p := passSide{build: b}
	t, err := k.passTrail(ctx, c, b, m, false)
	if err != nil {
		p.side = side{behaviour: Infrastructure, detail: firstLine(err.Error())}
		return p
	}
	p.trail = t
	if !t.Complete() {
		p.side = ofOutcome(t.Outcome)
	}
	return p
}

// judgePasses validates every pass step of one side.
func (k *caseRun) judgePasses(ctx context.Context, p *passSide, sets [][]*eval.Value, own int, o eval.Options, known *triage.Evaluations) {
	start := k.run.cfg.Now()
	defer func() { k.run.referenceTime.add(k.run.cfg.Now().Sub(start)) }()
	if p.trail == nil {
		return
	}
	if len(sets) == 0 {
		p.unjudged = cmp.Or(k.unable, "the reference evaluates the program on no input set")
		return
	}
	var err error
	if p.validation, err = p.trail.ValidateKnown(ctx, sets, o, known, own); p.validation == nil {
		p.unjudged = err.Error()
		return
	}
	if p.build.Kind == builds.CompileOnly {
		// No result of the build itself will ever show what its users see.
		p.trail.ContestOverflow(ctx, p.validation, sets, eval.Options{Bounds: true})
	}
}

var passOptions = eval.Options{Bounds: true, MaxSteps: passSteps}

// passSets are the input streams that the reference can evaluate; the first
// stream if there are none, and if all of them are over its step limit, the
// first of these, from now on a stream of the case.
func (k *caseRun) passSets() (streams []*asked, sets [][]*eval.Value) {
	if len(k.asked) == 0 && k.over != nil {
		k.asked = []*asked{k.over}
	}
	for _, a := range k.asked {
		if a.strict != nil {
			streams = append(streams, a)
			sets = append(sets, values(a.Inputs))
		}
	}
	if len(streams) == 0 && len(k.asked) > 0 && k.c.Module != nil { // steps are judged by what they change
		streams, sets = k.asked[:1], [][]*eval.Value{values(k.asked[0].Inputs)}
	}
	return streams, sets
}

// ownOf is the index of the case's own inputs, -1 if there are none.
func ownOf(streams []*asked) int {
	return slices.IndexFunc(streams, func(a *asked) bool { return a.Name == fuzz.OwnStream })
}

// ownFirst is ownOf for the one stream of that name.
func ownFirst(stream string) int {
	if stream == fuzz.OwnStream {
		return 0
	}
	return -1
}

// passLimits are the options of the reference for one stream.
func passLimits(stream string) eval.Options {
	o := passOptions
	if stream == fuzz.OwnStream {
		o.MaxSteps = 0
	}
	return o
}

func values(inputs []*hlo.Literal) []*eval.Value {
	args := make([]*eval.Value, len(inputs))
	for i, l := range inputs {
		args[i] = eval.FromLiteral(l)
	}
	return args
}

// edgeSteps is the step limit of a program that gets the edge streams: some
// milliseconds of the reference, for all of its states and streams together.
const edgeSteps = 1 << 12

// passStreams are the case's streams and, where the reference is fast, the
// edge streams.
func (k *caseRun) passStreams(ctx context.Context) []fuzz.Stream {
	streams := k.c.Streams(k.run.cfg.Seed)
	if len(streams) == 0 {
		return nil
	}
	if _, err := k.run.reference(ctx, k.c.Module, streams[0].Inputs, eval.Options{MaxSteps: edgeSteps}); err != nil {
		return streams
	}
	return append(streams, k.c.EdgeStreams(k.run.cfg.Seed)...)
}

// workPasses judges one case without executing it.
func (r *run) workPasses(ctx context.Context, c *fuzz.Case) caseReport {
	report := caseReport{result: CaseResult{ID: c.Name, Hash: c.Hash(), Streams: []StreamResult{}}}
	stop := func(o Outcome, b Behaviour, detail string) caseReport {
		report.result.Outcome, report.result.Base, report.result.Head, report.result.Detail = o, b, b, detail
		return report
	}
	if c.Module == nil {
		return stop(CaseUnsupported, Unsupported, "per-pass validation does not read StableHLO")
	}
	if why := compilable(c); why != "" {
		return stop(CaseUnsupported, Unsupported, why)
	}
	k := &caseRun{run: r, c: c}
	var err error
	if k.base, err = encode(c); err != nil {
		return stop(CaseUnsupported, Unsupported, "cannot be written as a proto: "+err.Error())
	}
	why := k.ask(ctx, k.passStreams(ctx), &report)
	if ctx.Err() != nil {
		return stop(CaseSkipped, Skipped, "interrupted")
	}
	k.unable = why
	streams, sets := k.passSets()
	both := k.examine(ctx, r.cfg.Runner, c.Module, sets, ownOf(streams), passOptions)
	if ctx.Err() != nil {
		return stop(CaseSkipped, Skipped, "interrupted")
	}
	found := k.passFindings(ctx, both, streams)
	for i := range found {
		k.confirmPasses(ctx, &found[i], both)
		if found[i].Blocking || r.cfg.MinimiseAll {
			k.minimise(ctx, &found[i], r.probes(&found[i]))
		}
		k.identify(ctx, &found[i])
		if len(streams) > 1 {
			k.measureStream(ctx, &found[i])
		}
		k.measureMinimal(ctx, &found[i])
		found[i].leaveChance()
	}
	for i, b := range []*builds.Build{r.cfg.Base, r.cfg.Head} { // compile-only builds go on behind the passes
		if t := both[i].trail; t != nil && b.Kind == builds.CompileOnly {
			k.placements[i] = betweenInstructions(placementIn(t.Final))
		}
	}
	found = k.place(found)
	if base, head := k.placements[0], k.placements[1]; base != nil && head != nil {
		report.result.Buffers = &Buffers{base.Bytes, head.Bytes}
	}
	report.findings = finish(c, k.asked, found)
	report.answers = passAnswers(both, streams, k.asked)
	report.passesOnly = true
	report.memory = MemoryCounts{Placed: k.placed()}
	report.result.Steps = counts(both)
	k.steps = moreFired(stepsOf(both[0].trail), stepsOf(both[1].trail))
	report.steps, report.dropped = k.steps, k.drop
	k.summarise(&report, why)
	return report
}

// stepsOf counts the pass steps by name.
func stepsOf(t *triage.Trail) map[string]stepCount {
	out := map[string]stepCount{}
	if t == nil {
		return out
	}
	// A pass may say that it changed the module and leave no dump of that: where
	// the compiler lists its runs, the list counts as well. It has the passes'
	// own names.
	told, names := map[string]int{}, map[string]string{}
	for _, r := range t.Runs {
		n := out[r.Pass]
		n.ran++
		out[r.Pass] = n
		names[dump.FileName(r.Pass)] = r.Pass
		if r.Changed {
			told[r.Pass]++
		}
	}
	for _, s := range t.States {
		name := cmp.Or(names[s.Key.Pass], s.Key.Pass)
		n := out[name]
		n.fired++
		out[name] = n
	}
	for name, n := range out {
		n.fired = max(n.fired, told[name])
		n.ran = max(n.ran, n.fired)
		out[name] = n
	}
	return out
}

func counts(both [2]passSide) *StepCounts {
	out := &StepCounts{}
	for i, p := range both {
		if p.trail != nil {
			*[]*int{&out.Base, &out.Head}[i] = len(p.trail.States)
		}
		if p.validation == nil {
			if p.trail != nil && len(p.trail.States) > 0 {
				one := &StepCounts{Unknown: len(p.trail.States), Reasons: []string{"the program: " + p.unjudged}}
				one.because(p.unjudged, one.Unknown)
				out.add(one)
			}
			continue
		}
		v := p.validation
		one := &StepCounts{Judged: v.Judged, Undecided: v.Undecided, Shared: v.Shared, ByRule: v.Ruled, Unknown: v.Unknown}
		if left := len(p.trail.States) - len(v.Steps); left > 0 {
			one.Unknown += left
			one.because(outOfTime, left)
		}
		for _, s := range v.Steps {
			if s.Standing == triage.Unknown {
				one.Reasons = append(one.Reasons, s.Key.Pass+": "+s.Detail)
				one.because(s.Detail, 1)
			}
		}
		out.add(one)
	}
	if both[0].trail != nil && both[1].trail != nil {
		out.Aligned = triage.Aligned(both[0].trail, both[1].trail)
	}
	return out
}

// passAnswers are the answers per input stream.
func passAnswers(both [2]passSide, streams, all []*asked) []answer {
	var out []answer
	for _, a := range all {
		set := slices.Index(streams, a)
		one := answer{detail: joinDetails(both[0].side, both[1].side)}
		behaviours := []*Behaviour{&one.base, &one.head}
		for i, p := range both {
			*behaviours[i] = p.behaviour(set)
			if p.validation != nil && set >= 0 {
				one.judged += p.validation.Sets[set].Elements - p.validation.Sets[set].Undecided
				one.undecided += p.validation.Sets[set].Undecided
			}
		}
		out = append(out, one)
	}
	return out
}

// behaviour is what the passes did on one input set; -1 is one that the
// reference cannot evaluate.
func (p *passSide) behaviour(set int) Behaviour {
	switch {
	case p.side.behaviour != "":
		return p.side.behaviour
	case set < 0 || p.validation == nil:
		return Undecided
	case slices.ContainsFunc(p.validation.Steps, func(s triage.Step) bool { return s.Standing == triage.Guilty && s.Where.InputSet == set }):
		return Wrong
	case p.validation.Sets[set].Elements == p.validation.Sets[set].Undecided && len(p.validation.Steps) > 0:
		return Undecided
	}
	return Right
}

// passFindings compares the guilty steps of base and head, pass by pass.
func (k *caseRun) passFindings(ctx context.Context, both [2]passSide, streams []*asked) []observedFinding {
	base, head := &both[0], &both[1]
	var out []observedFinding
	if b := breakage(question{base: base.side, head: head.side}, base.side.behaviour, head.side.behaviour); b != nil {
		if len(k.asked) > 0 { // no inputs are needed to break a compiler
			b.stream = k.asked[0].Name
		}
		b.flags, b.base, b.head = ComparisonFlags, orRight(base.side), orRight(head.side)
		b.baseRight = base.side.ran()
		out = merge(out, *b)
		f := &out[len(out)-1]
		f.Witnesses = []string{WitnessCompiler}
		broken := head
		if !head.side.broke() {
			broken = base
		}
		// Where it broke is exact only if every pass leaves a state.
		if t, err := k.passTrail(ctx, k.run.cfg.Runner, broken.build, k.c.Module, true); err == nil && t.Last != "" {
			f.Level, f.Pass = LevelAbort, &PassStep{Pipeline: t.LastPipeline, Index: unknownIndex, Name: t.Last}
		}
	}
	for _, side := range []*passSide{head, base} {
		for _, i := range side.guilty() {
			other, status := base, side.blames(i, base)
			if side == base {
				if other, status = head, Fixed; side.blames(i, head) == PreExisting {
					continue // said of head already
				}
			}
			out = append(out, k.passFinding(ctx, side, other, i, status, streams))
		}
	}
	return out
}

// blames is what a guilty step says about its build, New, or about both,
// PreExisting: the other build's step of that pass is guilty, or its passes are
// and did not keep the meaning of the same output.
func (p *passSide) blames(step int, other *passSide) Status {
	s := &p.validation.Steps[step]
	if other.accused(s.Key.Pass) >= 0 || !other.clean(s.Where.Output) && len(other.guilty()) > 0 {
		return PreExisting
	}
	return New
}

func orRight(s side) Behaviour {
	if s.ran() {
		return Right
	}
	return s.behaviour
}

// passFinding is the finding of one guilty step.
func (k *caseRun) passFinding(ctx context.Context, p, other *passSide, step int, status Status, streams []*asked) observedFinding {
	s := &p.validation.Steps[step]
	w := s.Where
	f := observedFinding{raw: status, Finding: Finding{
		Class: classOf(w.Type, w.Was, w.Is), Status: status, Stream: streams[w.InputSet].Name, Flags: ComparisonFlags,
		Output: fmt.Sprint(w.Output), Elements: s.Elements, Wrong: s.Wrong, Contest: contestNames(w.Contest),
		First: firstOf(p, other, step, status),
		Pass:  &PassStep{Pipeline: s.Key.Pipeline, Index: s.Key.Index, Name: s.Key.Pass}, Level: LevelHLO,
		Witnesses: []string{WitnessPasses}, Base: Right, Head: Right, Detail: s.Detail,
	}}
	switch status {
	case New:
		f.Head = Wrong
	case Fixed:
		f.Base = Wrong
	default:
		f.Base, f.Head = Wrong, Wrong
	}
	if s.Firm == 0 {
		f.Status = Contested
	}
	if s.Contested != "" {
		f.Contest = append(f.Contest, s.Contested)
		f.Detail = appendDetail(f.Detail, "contested: "+s.Contested+": the module before the step gives head's value when its floats are f64")
	}
	f.seen.contest = w.Contest
	f.seen.baseRight = other.clean(w.Output)
	before, after := p.around(step)
	f.Step = stepText(before, after)
	args := values(streams[w.InputSet].Inputs)
	f.locate(s, func() (*triage.Location, error) {
		return place(ctx, p.trail, other.trail, step, before, args, passLimits(f.Stream))
	})
	if by := p.trail.Enabler(f.Instruction, step); by != nil {
		f.EnabledBy = passStep(by)
	}
	if k.thorough && f.Location != nil {
		f.Location.widen(ctx, s.Regions, before, after, args, passLimits(f.Stream))
	}
	f.Evidence = []Evidence{accusation(s, f.Pass)}
	if k.run.cfg.Witness != nil {
		k.crossExamine(ctx, &f, before, after, streams[w.InputSet].Inputs)
	} else if e := k.statesOf(&f, p.build, p.trail, streams[w.InputSet].Inputs, passLimits(f.Stream)); e != nil {
		f.Evidence, f.Disagreement = testify(ctx, k, e, k.otherExecutable(p.build), s, p.beforeOf(step), step)
		if last := f.Evidence[len(f.Evidence)-1]; last.Says == Accuses {
			f.Witnesses = append(f.Witnesses, last.Witness)
		}
		if f.Disagreement != "" {
			f.disputed = true
			f.Detail = appendDetail(f.Detail, "not blocking: "+f.Disagreement)
		}
	}
	return f
}

// firstOf is the first element that a step changed. A build whose passes keep the
// meaning there gives the value before the step.
func firstOf(p, other *passSide, step int, status Status) First {
	w := p.validation.Steps[step].Where
	out := First{At: w.At, Base: w.Before, Head: w.After, Legal: w.Before}
	switch status {
	case Fixed:
		out.Base, out.Head = w.After, w.Before
	case PreExisting:
		out.Base = w.After
		if i := other.accused(p.validation.Steps[step].Key.Pass); i >= 0 {
			if o := other.validation.Steps[i].Where; o.Output != w.Output || !slices.Equal(o.At, w.At) {
				out.Base = fmt.Sprintf("wrong first at output %d%v: %s", o.Output, o.At, o.After)
			} else {
				out.Base = o.After
			}
		}
	}
	return out
}

// beforeOf is the state that a step is compared with, -1 for the program.
func (p *passSide) beforeOf(step int) int {
	for i := step - 1; i >= 0; i-- {
		if p.validation.Steps[i].Standing != triage.Unknown {
			return i
		}
	}
	return -1
}

// around are the modules before and after a step; before is the last that
// could be evaluated.
func (p *passSide) around(step int) (before, after *hlo.Module) {
	before = p.trail.Before
	if i := p.beforeOf(step); i >= 0 {
		before = p.trail.States[i].Module
	}
	return before, p.trail.States[step].Module
}

// crossExamine asks the third witness.
func (k *caseRun) crossExamine(ctx context.Context, f *observedFinding, before, after *hlo.Module, inputs []*hlo.Literal) {
	w := k.run.cfg.Witness
	testimony, why := triage.CrossExecute(ctx, k.run.cfg.Runner, w, before, after, inputs, passLimits(f.Stream), comparisonFlags)
	e := Evidence{Witness: WitnessCross, Pass: f.Pass, Says: Unknowing, Detail: fmt.Sprintf("on %s: %s", w.Spec, why)}
	switch testimony {
	case triage.Agrees:
		e.Says, e.Detail = Accuses, "on "+w.Spec.String()
		f.Witnesses = append(f.Witnesses, WitnessCross)
	case triage.Disagrees:
		e.Says, e.Detail = Acquits, "both modules give legal values on "+w.Spec.String()
		f.disputed = true
		f.Disagreement = fmt.Sprintf("per-pass validation accuses %s, cross-execution does not: %s", f.Pass, e.Detail)
		f.Detail = appendDetail(f.Detail, fmt.Sprintf("not blocking: cross-execution on %s disagrees, both modules give legal values there", w.Spec))
	default:
		f.Detail = appendDetail(f.Detail, fmt.Sprintf("cross-execution on %s: unknown: %s", w.Spec, why))
	}
	f.Evidence = append(f.Evidence, e)
}

// confirmPasses looks for a finding again in fresh processes; seen is what the
// builds did when it was found. The same states mean the same again: only where a
// fresh process gives others are they judged, on the finding's stream.
func (k *caseRun) confirmPasses(ctx context.Context, f *observedFinding, seen [2]passSide) {
	if f.Status != New && f.Status != Fixed {
		return
	}
	if f.Status == New && !f.seen.baseRight {
		f.Detail = appendDetail(f.Detail, "not blocking: base's passes could not be judged to the end on this program")
		return
	}
	var sets [][]*eval.Value
	if q, ok := k.questionOf(f.Stream); ok { // where the reference cannot evaluate the program, what a step changed is judged
		sets = [][]*eval.Value{values(q.Inputs)}
	}
	headBad, baseBad := 0, 0
	for range confirmations {
		known := &triage.Evaluations{}
		for i, bad := range []*int{&baseBad, &headBad} {
			fresh := k.compilePasses(ctx, fresher{k.run.cfg.Runner}, seen[i].build, k.c.Module)
			p := &fresh
			if s := seen[i]; p.side.behaviour == s.side.behaviour && p.trail != nil && s.trail != nil && sameStates(p.trail, s.trail) {
				p = &s
			} else {
				k.judgePasses(ctx, p, sets, ownFirst(f.Stream), passOptions, known)
			}
			if p.side.behaviour == Infrastructure {
				k.lost = appendDetail(k.lost, "finding could not be confirmed: "+p.side.detail)
				f.Detail = appendDetail(f.Detail, "not confirmed: infrastructure")
				return
			}
			if f.Class == Crash || f.Class == Hang {
				if p.side.broke() {
					*bad++
				}
			} else if p.accused(f.Pass.Name) >= 0 {
				*bad++
			}
		}
	}
	f.conclude(headBad, baseBad)
	f.Blocking = f.Blocking && !f.disputed
}

// sameStates reports whether two compilations gave the same modules in the same
// steps.
func sameStates(a, b *triage.Trail) bool {
	return len(a.States) == len(b.States) && triage.Aligned(a, b) == len(a.States)
}

// passStillFails holds a smaller program to what the finding is: the same pass
// guilty on the same side, the other side clean if it was, and of the same
// class.
func (k *caseRun) passStillFails(f *observedFinding, limit int64) triage.Fails {
	return func(ctx context.Context, p triage.Program) bool {
		guilty := k.passStillAccused(ctx, f, p, limit)
		if guilty == nil {
			return false
		}
		other := *guilty
		if second := k.otherSide(f); guilty.build != second {
			other = k.compilePasses(ctx, k.run.cfg.Runner, second, p.Module)
			k.judgePasses(ctx, &other, [][]*eval.Value{values(p.Inputs)}, -1, probeOptions(f, limit), &triage.Evaluations{})
		}
		s := &guilty.validation.Steps[guilty.accused(f.Pass.Name)]
		return (f.raw == PreExisting) == (other.accused(f.Pass.Name) >= 0) && (f.raw == PreExisting || other.clean(s.Where.Output))
	}
}

// probeOptions are those of the reference on a smaller program.
func probeOptions(f *observedFinding, limit int64) eval.Options {
	o := passLimits(f.Stream)
	if limit > 0 {
		o.MaxSteps = limit
	}
	return o
}

// otherSide is the build that a finding of the passes does not speak of first.
func (k *caseRun) otherSide(f *observedFinding) *builds.Build {
	if f.raw == Fixed {
		return k.run.cfg.Head
	}
	return k.run.cfg.Base
}

// passStillAccused is what the passes of the guilty side made of a smaller program
// if the finding's step is accused there of the same class; nil otherwise.
func (k *caseRun) passStillAccused(ctx context.Context, f *observedFinding, p triage.Program, limit int64) *passSide {
	o := probeOptions(f, limit)
	if limit > 0 { // the whole program could be evaluated: this one must be, too
		if _, err := k.run.reference(ctx, p.Module, p.Inputs, o); err != nil {
			return nil
		}
	}
	build := k.run.cfg.Head
	if f.raw == Fixed {
		build = k.run.cfg.Base
	}
	guilty := k.compilePasses(ctx, k.run.cfg.Runner, build, p.Module)
	if guilty.trail != nil {
		guilty.trail.States = upTo(guilty.trail.States, f.Pass.Name)
	}
	k.judgePasses(ctx, &guilty, [][]*eval.Value{values(p.Inputs)}, -1, o, &triage.Evaluations{})
	i := guilty.accused(f.Pass.Name)
	if i < 0 {
		return nil
	}
	s := guilty.validation.Steps[i]
	if s.Key.Pipeline != f.Pass.Pipeline || classOf(s.Where.Type, s.Where.Was, s.Where.Is) != f.Class || (s.Firm == 0) != (f.Status == Contested) {
		return nil
	}
	return &guilty
}

// passStillBreaks holds a smaller program to a crash or hang in the passes.
func (k *caseRun) passStillBreaks(f *observedFinding, limit int64) triage.Fails {
	return func(ctx context.Context, p triage.Program) bool {
		both := k.examine(ctx, k.run.cfg.Runner, p.Module, [][]*eval.Value{values(p.Inputs)}, -1, probeOptions(f, limit))
		b := breakage(question{base: both[0].side, head: both[1].side}, both[0].side.behaviour, both[1].side.behaviour)
		return b != nil && b.class == f.Class && b.status == f.raw
	}
}

// investigatePasses is Investigate without execution.
func (k *caseRun) investigatePasses(ctx context.Context, probes int) (*Finding, error) {
	streams, sets := k.passSets()
	both := k.examine(ctx, k.run.cfg.Runner, k.c.Module, sets, ownOf(streams), passOptions)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	found := k.passFindings(ctx, both, streams)
	if len(found) == 0 {
		n := counts(both)
		return nil, fmt.Errorf("%w: %d pass steps judged, %d undecided, %d unknown", ErrNoFinding, n.Judged, n.Undecided, n.Unknown)
	}
	best := 0
	for i := range found {
		if found[i].gravity() < found[best].gravity() {
			best = i
		}
	}
	for _, f := range found {
		if len(found) > 1 && f.Pass != nil {
			found[best].Culprits = append(found[best].Culprits, Culprit{Pass: *f.Pass, Level: f.Level, Instruction: f.Instruction, Location: f.Location, Output: f.Output, At: f.First.At,
				Before: f.First.Legal, After: f.got(), Elements: f.Elements, Wrong: f.Wrong, Contested: f.Status == Contested, EnabledBy: f.EnabledBy, Evidence: f.Evidence})
		}
	}
	if probes > 0 {
		k.minimise(ctx, &found[best], probes)
	}
	k.identify(ctx, &found[best])
	k.measureMinimal(ctx, &found[best])
	out := finish(k.c, k.asked, found[best:best+1])
	return &out[0], nil
}

// replayPasses says what the passes of one build make of a case.
func (k *caseRun) replayPasses(ctx context.Context, out *Replayed) {
	streams, sets := k.passSets()
	both := k.examine(ctx, k.run.cfg.Runner, k.c.Module, sets, ownOf(streams), passOptions)
	p := &both[1]
	for _, a := range k.asked {
		b := p.behaviour(slices.Index(streams, a))
		out.Runs = append(out.Runs, ReplayedRun{Stream: a.Name, Flags: ComparisonFlags, Outcome: b, Detail: p.side.detail, Inputs: a.Inputs})
		out.Outcome = worse(out.Outcome, b)
	}
	n := counts([2]passSide{{}, *p})
	detail := fmt.Sprintf("%d pass steps judged, %d undecided, %d unknown", n.Judged, n.Undecided, n.Unknown)
	if p.side.detail != "" {
		detail = p.side.detail
	}
	for _, i := range p.guilty() {
		s := p.validation.Steps[i]
		text := fmt.Sprintf("%s: %d of %d elements changed, first output %d%v: %s, legal %s", s.Key, s.Wrong, s.Elements, s.Where.Output, s.Where.At, s.Where.After, s.Where.Before)
		if s.Firm == 0 {
			text += " (contested)"
		}
		detail = appendDetail(detail, text)
	}
	out.Detail = appendDetail(out.Detail, detail)
	for i := range out.Runs {
		if out.Runs[i].Detail == "" && out.Runs[i].Outcome == Wrong {
			out.Runs[i].Detail = detail
		}
	}
}

// BenchPasses measures passes-only: every case compiled once up to code
// generation in a persistent worker, and every pass step judged on each of the
// case's input streams. Of cfg it uses Runner, Now, CPU, Seed, Timeout,
// Workers and DumpRoot.
func BenchPasses(ctx context.Context, cfg Config, b *builds.Build, cases []*fuzz.Case, rounds int) (Rate, error) {
	cfg.Base, cfg.Head = b, b
	r := newRun(cfg)
	type job struct {
		k    *caseRun
		sets [][]*eval.Value
	}
	var jobs []job
	perRound := 0
	work := func(j job) bool {
		t, err := j.k.passTrail(ctx, cfg.Runner, b, j.k.c.Module, false)
		if err != nil || !t.Complete() {
			return false
		}
		_, err = t.Validate(ctx, j.sets, passOptions)
		return err == nil
	}
	for _, c := range cases {
		if c.Module == nil || runnable(c) != "" {
			continue
		}
		k := &caseRun{run: r, c: c}
		var err error
		if k.base, err = encode(c); err != nil {
			continue
		}
		j := job{k: k}
		for _, s := range c.Streams(cfg.Seed) {
			j.sets = append(j.sets, values(s.Inputs))
		}
		if len(j.sets) > 0 && work(j) {
			jobs = append(jobs, j)
			perRound += len(j.sets)
		}
	}
	if len(jobs) == 0 {
		return Rate{}, &ConfigError{"none of the cases compiles on " + b.Spec.String()}
	}
	r.xlaTime.total = 0
	watch := cfg.stopwatch()
	queue := make(chan job)
	var wg sync.WaitGroup
	for range max(1, cfg.Workers) {
		wg.Go(func() {
			for j := range queue {
				work(j)
			}
		})
	}
	for range rounds {
		for _, j := range jobs {
			queue <- j
		}
	}
	close(queue)
	wg.Wait()
	return watch.rate(rounds*len(jobs), rounds*perRound, r.xlaTime.total), ctx.Err()
}
