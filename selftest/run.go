package selftest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/pjrt"
)

// Config are the settings of a self-test. Fields without a comment on their
// zero value are required.
type Config struct {
	Build  *builds.Build
	Runner gate.Runner
	// Cases are the programs to plant in.
	Cases []*fuzz.Case
	// Defects is the number to plant; with 0 no build is taken apart.
	Defects int
	// Kinds are the kinds to plant, by name; none are all.
	Kinds []string
	// Null is the number of programs that run through the same machinery with
	// nothing planted.
	Null int
	// NullCells is the number of cells in which the build is judged against itself
	// and its legal variants, on the programs that Program gives, by number from 0
	// until nil.
	NullCells int64
	Program   func(i int) *fuzz.Case
	// Seed of the choice of places and of the gate's inputs.
	Seed uint64
	// Workers is the number of defects that are worked on at a time; 1 if 0.
	Workers int
	// Budget stops the start of further work, and half of it the choice of
	// defects; 0 is no limit.
	Budget time.Duration
	// Probes bounds the reduction of each finding.
	Probes int
	// PassesOnly never executes; compile-only builds are always used so.
	PassesOnly bool
	// ExecuteEvery executes one defect in so many on an executable build, the
	// others are judged by their passes alone; 0 executes all.
	ExecuteEvery int
	// Resumes says that the build can start in the middle of its pipeline.
	Resumes bool
	// Now is the clock, CPU the processor time used so far by this process and
	// its workers.
	Now func() time.Time
	CPU func() time.Duration
	// TempDir is where dumps come and go; one in memory is faster.
	TempDir string
	// Progress is told after every defect, one at a time; may be nil.
	Progress func(done, total int, o Outcome)
}

// maxInstructions bounds the programs to plant in.
const maxInstructions = 400

type tester struct {
	cfg   Config
	start time.Time
	// transforms says that the build has the extension.
	transforms bool
	mu         sync.Mutex
	// seen are the defects that were planted.
	seen map[string]bool
	// unproved plants changed no legal set, refused ones were not accepted by
	// the build, and undone ones do not show in what it computes.
	unproved, refused, undone int
}

// Run plants the defects and runs the gate on each. An error is ctx's or an
// infrastructure failure.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	start, cpu := cfg.Now(), cfg.CPU()
	t := &tester{cfg: cfg, start: start}
	info, err := cfg.Runner.Describe(ctx, cfg.Build)
	if err != nil {
		return nil, fmt.Errorf("build %s does not start: %w", cfg.Build.Spec, err)
	}
	res := &Result{Schema: Schema, Seed: cfg.Seed, Build: gate.Build{Spec: cfg.Build.Spec.String(), ID: cfg.Build.ID, Kind: string(cfg.Build.Kind), Platform: info.Platform, API: info.API}}
	t.transforms = slices.Contains(info.Extensions, pjrt.XlaTransform)
	var grounds []*ground
	if cfg.Defects > 0 {
		grounds = t.survey(ctx)
	}
	res.Programs = len(grounds)
	planted := t.choose(ctx, grounds, cfg.Defects)
	res.Unproved, res.Refused, res.Undone = t.unproved, t.refused, t.undone
	res.Timing.ChooseSeconds, res.Timing.ChooseCPUSeconds = cfg.Now().Sub(start).Seconds(), (cfg.CPU() - cpu).Seconds()
	// The defects of one program follow each other and share what base does.
	slices.SortStableFunc(planted, func(a, b *Planted) int { return slices.Index(grounds, a.ground) - slices.Index(grounds, b.ground) })
	left := map[*ground]int{}
	for _, p := range planted {
		left[p.ground]++
	}
	outcomes := make([]Outcome, len(planted))
	nulls := t.nullPlaces(grounds, cfg.Null)
	nullOut := make([]NullOutcome, len(nulls))
	var mu sync.Mutex
	done := 0
	order := spread(len(planted), len(nulls))
	t.each(ctx, len(order), func(i int) {
		if j := order[i]; j.null {
			nullOut[j.at] = t.null(ctx, nulls[j.at], j.at)
		} else {
			outcomes[j.at] = t.try(ctx, planted[j.at], j.at)
			mu.Lock()
			defer mu.Unlock()
			done++
			if g := planted[j.at].ground; left[g] > 1 {
				left[g]--
			} else {
				g.kept.forget() // nobody asks any more
			}
			if cfg.Progress != nil {
				cfg.Progress(done, len(planted), outcomes[j.at])
			}
		}
	})
	for _, o := range outcomes {
		if o.Ran {
			res.Defects = append(res.Defects, o)
		}
	}
	for _, o := range nullOut {
		res.Null.add(o)
	}
	if cfg.NullCells > 0 {
		if res.Variants, err = t.variants(ctx, cfg.NullCells); err != nil {
			return nil, err
		}
	}
	res.Timing.Seconds, res.Timing.CPUSeconds = cfg.Now().Sub(start).Seconds(), (cfg.CPU() - cpu).Seconds()
	res.sum(cfg.Defects, cfg.NullCells)
	return res, ctx.Err()
}

// job is a defect, or a run with nothing planted, by its number.
type job struct {
	null bool
	at   int
}

// spread puts the runs with nothing planted evenly among the defects, so that
// a budget cuts both.
func spread(defects, nulls int) []job {
	out := make([]job, 0, defects+nulls)
	for d, n := 0, 0; d+n < defects+nulls; {
		if n >= nulls || d < defects && d*nulls <= n*defects {
			out = append(out, job{false, d})
			d++
		} else {
			out = append(out, job{true, n})
			n++
		}
	}
	return out
}

// chosen reports whether no more time may be spent on choosing.
func (t *tester) chosen(ctx context.Context) bool {
	return ctx.Err() != nil || t.cfg.Budget > 0 && t.cfg.Now().Sub(t.start) >= t.cfg.Budget/2
}

// spent reports whether nothing more may be started.
func (t *tester) spent(ctx context.Context) bool {
	return ctx.Err() != nil || t.cfg.Budget > 0 && t.cfg.Now().Sub(t.start) >= t.cfg.Budget
}

// each calls f for 0 to n-1, Workers at a time, until the budget is spent.
func (t *tester) each(ctx context.Context, n int, f func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(1, t.cfg.Workers) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		if t.spent(ctx) {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
}

// passesOnly reports whether defect i is judged without execution.
func (t *tester) passesOnly(i int) bool {
	return t.cfg.PassesOnly || t.cfg.Build.Kind == builds.CompileOnly || t.cfg.ExecuteEvery > 0 && i%t.cfg.ExecuteEvery != 0
}

// gate is the normal gate on one case.
func (t *tester) gate(ctx context.Context, c *Composite, k *fuzz.Case, i int) (*gate.Result, error) {
	return gate.Run(ctx, gate.Config{
		Base: t.cfg.Build, Head: c.Head, Runner: c, Cases: []*fuzz.Case{k}, Now: t.cfg.Now, Seed: t.cfg.Seed, Workers: 1,
		Probes: t.cfg.Probes, PassesOnly: t.passesOnly(i), DumpRoot: t.cfg.TempDir,
	})
}

// try runs the gate on one defect.
func (t *tester) try(ctx context.Context, p *Planted, i int) Outcome {
	d := p.Defect
	o := Outcome{Ran: true, Defect: d.String(), Kind: d.Kind.Name, Class: string(d.Kind.Class), Exact: d.Kind.Exact, Case: p.Case.Name, Route: p.Route,
		Step: gate.PassStep{Pipeline: d.Pipeline, Name: d.Pass}, Names: p.Names, LegalBefore: p.Before, LegalAfter: p.After, Executed: !t.passesOnly(i)}
	c := NewComposite(t.cfg.Runner, t.cfg.Build, d, p.Route, t.cfg.TempDir)
	c.Kept = p.ground.kept
	start := t.cfg.Now()
	res, err := t.gate(ctx, c, p.Case, i)
	o.Seconds = t.cfg.Now().Sub(start).Seconds()
	if err != nil || ctx.Err() != nil {
		o.Ran = ctx.Err() == nil
		o.Detail = fmt.Sprint(err)
		return o
	}
	o.judge(res)
	return o
}

// judge compares what the gate says with what was planted.
func (o *Outcome) judge(res *gate.Result) {
	o.Verdict = res.Verdict
	for _, f := range res.Findings {
		if f.Status != gate.New {
			continue
		}
		o.Reports++
		if !f.Blocking && o.Detected {
			continue
		}
		if f.Blocking && !o.Detected {
			o.Detected = true
			o.take(f)
		} else if !o.Detected {
			o.take(f)
		}
	}
	if !o.Detected {
		for _, f := range res.Findings {
			o.Detail += fmt.Sprintf("%s %s: %s. ", f.Class, f.Status, f.Detail)
		}
		if len(res.Cases) > 0 {
			o.Detail += fmt.Sprintf("case %s: base %s, head %s %s", res.Cases[0].Outcome, res.Cases[0].Base, res.Cases[0].Head, res.Cases[0].Detail)
		}
	}
}

func (o *Outcome) take(f gate.Finding) {
	o.FoundClass, o.Witnesses, o.Minimal, o.MinimalText = f.Class, f.Witnesses, f.Instructions, f.Minimal
	o.Blamed = f.Pass
	o.RightStep = f.Pass != nil && f.Pass.Name == o.Step.Name && (f.Pass.Pipeline == o.Step.Pipeline || o.Step.Name == transformPass)
	o.BlamedInstruction = []string{f.Instruction}
	if f.Location != nil {
		o.BlamedInstruction = append(o.BlamedInstruction, f.Location.After)
	}
	for _, n := range o.BlamedInstruction {
		o.RightInstruction = o.RightInstruction || n != "" && slices.Contains(o.Names, n)
	}
}

// nullPlace is a step of a program at which a compilation is taken apart and
// put together again with nothing planted.
type nullPlace struct {
	g     *ground
	state int
}

// nullPlaces are n places, or as many as there are: the programs in turn, each
// with another of its steps every time.
func (t *tester) nullPlaces(grounds []*ground, n int) []nullPlace {
	places := make([][]nullPlace, len(grounds))
	most := 0
	for k, g := range grounds {
		for i := range g.trail.States {
			if g.first(i) && len(t.routes(g, i)) > 0 {
				places[k] = append(places[k], nullPlace{g, i})
			}
		}
		most = max(most, len(places[k]))
	}
	var out []nullPlace
	for round := range most {
		for k, all := range places {
			if round < len(all) && len(out) < n {
				out = append(out, all[(round+k)%len(all)])
			}
		}
	}
	return out
}

// null runs the gate on a build that is taken apart and left as it is.
func (t *tester) null(ctx context.Context, p nullPlace, i int) NullOutcome {
	key := p.g.trail.States[p.state].Key
	route := t.routes(p.g, p.state)[0]
	c := &Composite{Runner: t.cfg.Runner, Build: t.cfg.Build, Head: Marked(t.cfg.Build, "nothing after "+key.Pipeline+"/"+key.Pass),
		Pipeline: key.Pipeline, Pass: key.Pass, Route: route, TempDir: t.cfg.TempDir,
		Change: func(m *hlo.Module) (*hlo.Module, bool) { return m, true }}
	if !t.executes() && !t.compiles(ctx, p.g, c) { // as with defects: no place to plant in
		return NullOutcome{}
	}
	res, err := t.gate(ctx, c, p.g.c, i)
	if err != nil {
		return NullOutcome{}
	}
	out := NullOutcome{Ran: true}
	streams := 0
	for _, k := range res.Cases {
		for _, s := range k.Streams {
			if s.Judged > 0 {
				streams++
			}
		}
	}
	out.Cells = streams
	if s := res.Steps; s != nil { // nothing was executed: head's steps were judged on each stream
		out.Cells = streams * max(0, s.Head-s.Unknown-s.Undecided)
	}
	for _, f := range res.Findings {
		if f.Status != gate.New {
			continue
		}
		text := fmt.Sprintf("%s, nothing planted after %s/%s: %s: %s", p.g.c.Name, key.Pipeline, key.Pass, f.Class, f.Detail)
		out.Alarms = append(out.Alarms, text)
		if f.Blocking {
			out.Blocks++
		}
	}
	return out
}
