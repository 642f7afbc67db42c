package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate/memory"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// caseRun is the work on one case.
type caseRun struct {
	run   *run
	c     *fuzz.Case
	base  worker.Request // program and format, without inputs
	asked []*asked
	// over is the first generated stream on which the reference goes over its step
	// limit. Nothing is executed on it; what a pass step changed can be judged
	// (see passSets).
	over *asked
	// edges are the edge streams of a program that is executed: they are, where
	// head's passes are accused on them.
	edges []*asked
	// sides is what base and head made of the streams, by flags; strict is that of
	// the comparison flags.
	sides  map[string][2][]side
	strict [2][]side
	// placements are the checked buffer assignments of base and head.
	placements [2]*memory.Report
	steps      map[string]stepCount // by step name, on the side where it fired more
	unable     string               // what the reference could not do
	lost       string               // what the machine took from us
	drop       [2]map[string]bool   // flags that base and head do not have
	// thorough asks for all culprits, rates and causes: a bisection.
	thorough bool
}

// asked is one input stream with everything to judge it.
type asked struct {
	fuzz.Stream
	index     int // among the streams of the case
	arguments []worker.Array
	strict    *eval.Value // nil: no reference
	relaxed   *eval.Value // with excess precision; made when needed
	relax     func() *eval.Value
	want      []*hlo.Literal
	tolerance float64
}

func (a *asked) reference(flags string) *eval.Value {
	if flags == ComparisonFlags || a.strict == nil {
		return a.strict
	}
	if a.relaxed == nil {
		a.relaxed = a.relax()
	}
	return a.relaxed
}

type stepCount struct{ ran, fired int }

// caseReport is what a case contributes to the result.
type caseReport struct {
	result         CaseResult
	findings       []Finding
	answers        []answer
	null           []nullAnswer
	memory         MemoryCounts
	executed       bool
	passesOnly     bool // nothing was executed; result.Steps is set
	skippedStreams int
	wantDisputed   string
	steps          map[string]stepCount
	dropped        [2]map[string]bool
	refused        bool   // head refuses what base accepts
	lost           string // what the machine took from us
}

// skippedCase is a case that was not started.
func skippedCase(c *fuzz.Case, why string) caseReport {
	return caseReport{result: CaseResult{ID: c.Name, Hash: c.Hash(), Outcome: CaseSkipped, Base: Skipped, Head: Skipped, Detail: why, Streams: []StreamResult{}}}
}

// work runs and judges one case.
func (r *run) work(ctx context.Context, c *fuzz.Case) caseReport {
	report := caseReport{result: CaseResult{ID: c.Name, Hash: c.Hash(), Streams: []StreamResult{}}}
	stop := func(o Outcome, b Behaviour, detail string) caseReport {
		report.result.Outcome, report.result.Base, report.result.Head, report.result.Detail = o, b, b, detail
		return report
	}
	if why := cmp.Or(runnable(c), movable(c)); why != "" {
		return stop(CaseUnsupported, Unsupported, why)
	}
	k := &caseRun{run: r, c: c}
	var err error
	if k.base, err = encode(c); err != nil {
		return stop(CaseUnsupported, Unsupported, "cannot be written as a proto: "+err.Error())
	}
	why := k.ask(ctx, c.Streams(r.cfg.Seed), &report)
	if len(k.asked) == 0 {
		if ctx.Err() != nil {
			return stop(CaseSkipped, Skipped, "interrupted")
		}
		return stop(CaseSkipped, Skipped, why)
	}
	for i, a := range k.asked {
		a.index = i
	}
	report.answers = k.answer(ctx)
	if ctx.Err() != nil {
		report.answers = nil
		return stop(CaseSkipped, Skipped, "interrupted")
	}
	if r.nulls[c.Name] {
		report.null = k.null(ctx, report.answers)
	}
	found := gather(c, report.answers)
	for i := range found {
		k.confirm(ctx, &found[i])
	}
	k.lookAgain(ctx, report.answers, found)
	for i := range found {
		k.attribute(ctx, &found[i])
	}
	found = foldContested(found)
	for i := range found {
		if found[i].Blocking || r.cfg.MinimiseAll {
			k.minimise(ctx, &found[i], r.probes(&found[i]))
		}
	}
	pieces, cut := k.cut(ctx, report.answers, found)
	found = append(found, pieces...)
	found = append(found, k.passWitness(ctx, found)...)
	found = k.place(found)
	found = append(found, k.corruption(ctx, report.answers, found)...)
	for i := range found {
		f := &found[i]
		k.identify(ctx, f)
		k.measureMinimal(ctx, f)
		f.settle()
		f.leaveChance()
	}
	report.result.Cut = cut
	if base, head := k.placements[0], k.placements[1]; base != nil && head != nil {
		report.result.Buffers = &Buffers{base.Bytes, head.Bytes}
	}
	for _, a := range report.answers {
		if a.wantDisputed != "" {
			report.wantDisputed = a.wantDisputed
		}
	}
	if report.wantDisputed != "" {
		for i := range found {
			found[i].Blocking = false
			if found[i].Status == New {
				found[i].Status = ReferenceDisputed
			}
		}
	}
	report.findings = finish(c, slices.Concat(k.asked, k.edges), found)
	report.steps, report.dropped, report.executed = k.steps, k.drop, true
	report.memory = k.memoryCounts()
	k.summarise(&report, why)
	return report
}

// ask evaluates the reference on each stream. It returns what the reference
// could not do.
func (k *caseRun) ask(ctx context.Context, streams []fuzz.Stream, report *caseReport) string {
	why := ""
	for _, s := range streams {
		a := &asked{Stream: s, arguments: arguments(s.Inputs)}
		if s.Name == fuzz.OwnStream {
			a.want, a.tolerance = k.c.Want, k.c.Tolerance
		}
		if k.c.Module == nil {
			if a.strict = wanted(a.want, a.tolerance); a.strict == nil {
				why = "the reference does not read StableHLO"
			}
			a.relax = func() *eval.Value { return a.strict }
			k.asked = append(k.asked, a)
			continue
		}
		o := eval.Options{}
		if s.Name != fuzz.OwnStream {
			o.MaxSteps = generatedSteps
		}
		evaluate := func(excess bool) (*eval.Value, error) {
			start := k.run.cfg.Now()
			o.ExcessPrecision = excess
			v, err := k.run.reference(ctx, k.c.Module, s.Inputs, o)
			k.run.referenceTime.add(k.run.cfg.Now().Sub(start))
			return v, err
		}
		v, err := evaluate(false)
		switch {
		case errors.Is(err, eval.ErrStepLimit):
			why = "the reference gave up: " + err.Error()
			if s.Name == fuzz.OwnStream {
				// The builds may hang on it, too: that is worth seeing.
				k.asked = []*asked{a}
				return why
			}
			report.skippedStreams++
			if k.over == nil {
				k.over = a
			}
			continue
		case ctx.Err() != nil:
			k.asked = nil
			return "interrupted"
		case err != nil:
			// Nothing can be judged but crashes and hangs: one stream tells. Which
			// stream does not matter, but it must be one that ends: the first.
			why = err.Error()
			k.asked = []*asked{a}
			if a.strict = wanted(a.want, a.tolerance); a.strict != nil {
				a.relax = func() *eval.Value { return a.strict }
				why = ""
			}
			return why
		}
		a.strict = v
		a.relax = func() *eval.Value {
			if !narrows(k.c.Module) {
				return a.strict
			}
			v, err := evaluate(true)
			if err != nil {
				return nil
			}
			return v
		}
		k.asked = append(k.asked, a)
	}
	return why
}

// wantUlps is the slack of a float in a case's want that declares no tolerance,
// in units of the last place: wants are written from another implementation,
// rounded to the type.
const wantUlps = 64

// wanted makes a reference of a case's own expected values where the
// interpreter has none: nil without a want. A float has the declared relative
// tolerance, or wantUlps.
func wanted(want []*hlo.Literal, tolerance float64) *eval.Value {
	if len(want) == 0 {
		return nil
	}
	out := &eval.Value{}
	for _, lit := range want {
		v := eval.FromLiteral(lit)
		for _, p := range []*eval.Plane{v.Array.Re, v.Array.Im} {
			if p == nil {
				continue
			}
			format := v.Array.Type.Real().Format()
			p.E, p.K = make([]float64, len(p.C)), make([]eval.Class, len(p.C))
			for i, c := range p.C {
				switch {
				case c == 0:
					p.K[i] = eval.AnyZeroSign
				case !finite(c):
				case tolerance > 0:
					p.E[i] = tolerance * math.Abs(c)
				default:
					p.E[i] = wantUlps * format.Ulp(c)
				}
			}
		}
		out.Elements = append(out.Elements, v)
	}
	if len(out.Elements) == 1 {
		return out.Elements[0]
	}
	return out
}

func (k *caseRun) questionOf(stream string) (*asked, bool) {
	all := slices.Concat(k.asked, k.edges)
	i := slices.IndexFunc(all, func(a *asked) bool { return a.Name == stream })
	if i < 0 {
		return nil, false
	}
	return all[i], true
}

func (k *caseRun) request(flags string) worker.Request {
	r := k.base
	r.Options = maps.Clone(flagSet(flags))
	r.Repeat = repeats
	if flags == ComparisonFlags {
		r.RepeatFor = repeatFor
	}
	r.Timeout = k.run.cfg.Timeout
	if r.Timeout == 0 {
		r.Timeout = defaultTimeout
	}
	if k.c.Module != nil {
		r.Timeout += perInstruction * time.Duration(k.c.Module.NumInstructions())
	}
	return r
}

// narrows reports whether a program rounds floats to a narrower type by an
// explicit operation: only there excess precision can make a difference.
func narrows(m *hlo.Module) bool {
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			switch in.Op {
			case hlo.OpReducePrecision, hlo.OpStochasticConvert:
				return true
			case hlo.OpConvert:
				to, from := in.Shape.Type.Real().Format(), in.Operands[0].Shape.Type.Real().Format()
				if to != nil && (from == nil || to.MantissaBits < from.MantissaBits || to.ExponentBits < from.ExponentBits) {
					return true
				}
			}
		}
	}
	return false
}

func (k *caseRun) pooled(b *builds.Build) executor {
	return executor{k.run.cfg.Runner.Do, b, &k.run.xlaTime}
}

func (k *caseRun) fresh(b *builds.Build) executor {
	return executor{k.run.cfg.Runner.DoFresh, b, &k.run.xlaTime}
}

// flagSets are the flags in the order in which they are run.
var flagSets = []string{ComparisonFlags, DefaultFlags}

// under are the streams that run under a set of flags. The default flags trade
// NaNs in minimum and maximum for speed: every program with such an operation
// would be contested on generated special values, which is no news.
func (k *caseRun) under(flags string) []*asked {
	if n := len(k.asked); flags == DefaultFlags && n > 1 && k.asked[n-1].Name == fuzz.SpecialStream {
		return k.asked[:n-1]
	}
	return k.asked
}

// answer runs both builds on all streams under both sets of flags and judges.
func (k *caseRun) answer(ctx context.Context) []answer {
	sides := map[string][2][]side{}
	for _, flags := range flagSets {
		if k.run.cfg.Policy.Runs(flags) {
			sides[flags] = k.executeBoth(ctx, flags)
		}
	}
	k.sides, k.strict = sides, sides[ComparisonFlags]
	var out []answer
	from := sources(k.c.Module)
	for _, flags := range flagSets {
		if !k.run.cfg.Policy.Runs(flags) {
			continue
		}
		for s, a := range k.under(flags) {
			base, head := sides[flags][0][s], sides[flags][1][s]
			strict := sides[ComparisonFlags]
			if flags == DefaultFlags && sameResults(base, strict[0][s]) && sameResults(head, strict[1][s]) {
				// The flags made no difference: what was said stands.
				prior := out[s]
				prior.observations, prior.samples, prior.legal, prior.repeated = nil, nil, nil, true
				out = append(out, prior)
				continue
			}
			out = append(out, judge(question{stream: a.Name, flags: flags, reference: a.reference(flags), base: base, head: head, want: a.want, tolerance: a.tolerance, firm: k.run.firm, sources: from}))
		}
	}
	return out
}

// executeBoth runs all streams on base and head under one set of flags.
func (k *caseRun) executeBoth(ctx context.Context, flags string) (sides [2][]side) {
	r := k.request(flags)
	for _, a := range k.under(flags) {
		r.Inputs = append(r.Inputs, a.arguments)
	}
	r.CheckMemory = flags == ComparisonFlags && k.examined()
	var wg sync.WaitGroup
	var dumps [2]dumped
	for i, b := range []*builds.Build{k.run.cfg.Base, k.run.cfg.Head} {
		wg.Go(func() {
			r := r
			var count func()
			if flags == ComparisonFlags && k.run.cfg.TempDir != nil {
				r.DumpDir, count = k.dump(&dumps[i])
				if !k.run.countsSteps() { // the buffer assignment is all that is read
					r.Options = maps.Clone(r.Options)
					r.Options["xla_dump_hlo_pass_re"] = "^$"
				}
			}
			var dropped []string
			sides[i], dropped = k.pooled(b).execute(ctx, r)
			if count != nil {
				count()
			}
			for _, name := range dropped {
				if k.drop[i] == nil {
					k.drop[i] = map[string]bool{}
				}
				k.drop[i][name] = true
			}
		})
	}
	wg.Wait()
	for i, d := range dumps {
		if flags == ComparisonFlags {
			k.placements[i] = d.placement
		}
		if d.steps != nil {
			k.steps = moreFired(k.steps, d.steps)
		}
		if d.lost != "" {
			k.lost = appendDetail(k.lost, d.lost)
		}
	}
	return sides
}

// sameResults reports whether two sides ended in the same way with the same
// results.
func sameResults(a, b side) bool {
	if a.behaviour != b.behaviour || len(a.runs) != 1 && a.ran() || len(a.runs) != len(b.runs) {
		return false
	}
	for i := range a.runs {
		if !slices.EqualFunc(a.runs[i].leaves, b.runs[i].leaves, func(x, y *hlo.Literal) bool {
			return string(x.Raw) == string(y.Raw) && x.Shape.Compatible(y.Shape)
		}) {
			return false
		}
	}
	return true
}

// countsSteps reports whether somebody wants to know which passes ran.
func (r *run) countsSteps() bool { return len(r.cfg.Passes) > 0 || r.cfg.Coverage }

// dump asks for per-pass dumps and returns their directory and the function
// that reads and removes them.
func (k *caseRun) dump(d *dumped) (dir string, count func()) {
	dir, remove, err := k.run.cfg.TempDir()
	if err != nil {
		d.lost = "no directory for dumps: " + err.Error()
		return "", nil
	}
	return dir, func() {
		defer remove()
		d.placement = placementOf(dir)
		if !k.run.countsSteps() {
			return
		}
		steps, err := k.run.cfg.Steps(dir)
		if err != nil {
			d.lost = "dumps cannot be read: " + err.Error()
			return
		}
		d.steps = map[string]stepCount{}
		for _, s := range steps {
			n := d.steps[s.Name]
			n.ran++
			if s.Changed {
				n.fired++
			}
			d.steps[s.Name] = n
		}
	}
}

// dumped is what the per-pass dumps of one side tell.
type dumped struct {
	placement *memory.Report
	steps     map[string]stepCount
	lost      string
}

// moreFired merges the step counts of base and head: a change that adds a
// rewrite fires on head, one that removes a rewrite on base, and both are
// exercised.
func moreFired(a, b map[string]stepCount) map[string]stepCount {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]stepCount{}
	}
	for name, n := range b {
		o := out[name]
		out[name] = stepCount{max(o.ran, n.ran), max(o.fired, n.fired)}
	}
	return out
}

// severity orders behaviours, the worst last.
var severity = []Behaviour{Skipped, Rejected, Unsupported, Undecided, Right, Infrastructure, Flaky, Wrong, Hung, Crashed}

func worse(a, b Behaviour) Behaviour {
	if slices.Index(severity, a) >= slices.Index(severity, b) {
		return a
	}
	return b
}

// summarise fills the case's result from its answers.
func (k *caseRun) summarise(report *caseReport, why string) {
	res := &report.result
	res.Base, res.Head, res.Detail = Skipped, Skipped, why
	judged := int64(0)
	lost := k.lost
	details := map[string]bool{}
	for i, a := range report.answers {
		flags := ComparisonFlags
		if i >= len(k.asked) {
			flags = DefaultFlags
		}
		s := StreamResult{Name: k.asked[i%len(k.asked)].Name, Flags: flags, Base: a.base, Head: a.head,
			Judged: a.judged, Undecided: a.undecided, Differing: a.differing, Detail: a.plain}
		if a.unstable {
			s.Detail = appendDetail(s.Detail, "executions differ")
		}
		res.Streams = append(res.Streams, s)
		res.Base, res.Head = worse(res.Base, a.base), worse(res.Head, a.head)
		judged += a.judged
		if (a.base == Infrastructure || a.head == Infrastructure) && lost == "" {
			lost = appendDetail(a.detail, fmt.Sprintf("in stream %s, %s flags", s.Name, flags))
		}
		if a.plain != "" && !details[a.plain] {
			details[a.plain] = true
			res.Detail = appendDetail(res.Detail, a.plain)
		}
		res.Legal = append(res.Legal, a.legal...)
		report.refused = report.refused || a.base != a.head && (a.head == Rejected || a.head == Unsupported)
	}
	switch {
	case len(report.findings) > 0:
		res.Outcome, res.Finding = CaseFinding, report.findings[0].ID
		if res.Detail == "" {
			res.Detail = report.findings[0].brief()
		}
	case lost != "":
		res.Outcome = CaseInfrastructure
		res.Detail = appendDetail(res.Detail, lost)
	case report.wantDisputed != "":
		res.Outcome = CaseUndecided
	case res.Base == Rejected || res.Head == Rejected:
		res.Outcome = CaseRejected
	case res.Base == Unsupported || res.Head == Unsupported || judged == 0 && why != "":
		res.Outcome = CaseUnsupported
	case judged == 0:
		res.Outcome = CaseUndecided
	default:
		res.Outcome = CaseOK
	}
	if report.wantDisputed != "" {
		res.Detail = appendDetail(res.Detail, "want and reference disagree: "+report.wantDisputed)
	}
	report.lost = lost
}

// meter adds up time from many goroutines.
type meter struct {
	mu    sync.Mutex
	total time.Duration
}

func (m *meter) add(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total += d
}
