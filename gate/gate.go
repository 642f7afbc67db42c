package gate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate/policy"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
)

type run struct {
	cfg           Config
	reference     Reference
	firm          eval.Contest    // argued semantics that the policy does not contest
	nulls         map[string]bool // the cases of the calibration
	xlaTime       meter
	referenceTime meter

	suspects   answers[bool]
	rewrites   answers[triage.Rewrite]
	signatures []string // of the exploration
	plan       string   // of all shards, see Part.Plan
}

func newRun(cfg Config) *run {
	r := &run{cfg: cfg, reference: cfg.Reference, firm: firm(cfg.Policy)}
	if r.reference == nil {
		r.reference = Interpret
	}
	return r
}

// Run runs the gate. It returns a *ConfigError for settings that make no
// sense, and an error if a build cannot be described at all: an infrastructure
// failure. Otherwise there is a result; when ctx ends early it holds what was
// found until then.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	s, err := Prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return s.Run(ctx, cfg.Shard)
}

// Shards runs the shards of one run, in any order and several at a time: what
// they have in common is worked out once.
type Shards struct {
	cfg        Config
	base, head Build
	nulls      map[string]bool
	plan       string
}

// Prepare makes ready to run the shards of a run: Config.Shards many, or one;
// Config.Shard does not matter. Errors are those of Run.
func Prepare(ctx context.Context, cfg Config) (*Shards, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	base := poisoned(cfg.Base)
	if cfg.Head == cfg.Base {
		cfg.Head = base
	} else {
		cfg.Head = poisoned(cfg.Head)
	}
	cfg.Base = base
	s := &Shards{cfg: cfg}
	for _, side := range []struct {
		build *builds.Build
		out   *Build
	}{{cfg.Base, &s.base}, {cfg.Head, &s.head}} {
		info, err := cfg.Runner.Describe(ctx, side.build)
		if err != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("build %s does not start: %w", side.build.Spec, err)
		}
		*side.out = Build{Spec: side.build.Spec.String(), ID: side.build.ID, Kind: string(side.build.Kind), Platform: info.Platform, API: info.API}
	}
	s.nulls = nullSample(cfg.Cases, cfg.Seed, cfg.NullCases) // of all shards
	s.plan = cfg.plan()
	return s, nil
}

// Plan identifies what the shards have in common: see Part.Plan.
func (s *Shards) Plan() string { return s.plan }

// Run runs one shard, from 1; with a single shard the number does not matter.
func (s *Shards) Run(ctx context.Context, shard int) (*Result, error) {
	cfg := s.cfg
	cfg.Shard = shard
	if err := cfg.check(); err != nil {
		return nil, err
	}
	r := newRun(cfg)
	start := cfg.Now()
	res := &Result{Schema: Schema, Seed: cfg.Seed, Base: s.base, Head: s.head, Reasons: []string{}, Passes: []PassResult{}, Cases: []CaseResult{}, Findings: []Finding{}}
	res.Statistics.Cells = []Cell{}
	cases := cfg.Cases
	if cfg.Shards > 1 {
		res.Shard = fmt.Sprintf("%d/%d", cfg.Shard, cfg.Shards)
		cases = nil
		for i := cfg.Shard - 1; i < len(cfg.Cases); i += cfg.Shards {
			cases = append(cases, cfg.Cases[i])
		}
	}
	r.nulls, r.plan = s.nulls, s.plan
	reports := r.all(ctx, cases)
	for _, f := range cfg.Passes {
		res.Passes = append(res.Passes, PassResult{Name: f.Name, Weight: f.Weight, Reason: f.Reason})
	}
	if cfg.Explore != nil && (cfg.Explore.GoOn || !blocks(reports)) {
		reports = append(reports, r.explore(ctx, start, res)...)
	}
	parts, cells := r.summarise(res, reports)
	var before []Finding
	if cfg.Shards > 1 {
		before = slices.Clone(res.Findings)
	}
	applyPolicy(cfg.Policy, res, start)
	halt := ""
	if ctx.Err() != nil {
		halt = fmt.Sprintf("interrupted: %s of %d not judged", plural(res.Totals.Skipped, "case"), res.Totals.Cases)
	}
	if cfg.Alone && cfg.Shards > 1 && len(res.Passes) > 0 && halt == "" && !res.fired() {
		if res.Census = r.census(ctx); res.Census == nil {
			halt = "interrupted on the way to a program of another shard that the passes in focus change"
		}
	}
	decide(res, parts, halt, cfg.NoPass)
	if cfg.Shards > 1 {
		res.Part = r.part(res, before, len(cases), parts, cells, halt)
	}
	total := cfg.Now().Sub(start).Seconds()
	res.Timing = Timing{Seconds: total, InXLASeconds: r.xlaTime.total.Seconds(), ReferenceSeconds: r.referenceTime.total.Seconds(), Workers: max(1, cfg.Workers)}
	if total > 0 {
		res.Timing.CasesPerSecond = float64(res.judged()) / total
	}
	return res, nil
}

// all works on the cases, Workers at a time.
func (r *run) all(ctx context.Context, cases []*fuzz.Case) []caseReport {
	reports := make([]caseReport, len(cases))
	start := r.cfg.Now()
	next := make(chan int)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var progress Progress
	progress.Total = len(cases)
	fired := newFirings(r)
	for range max(1, r.cfg.Workers) {
		wg.Go(func() {
			for i := range next {
				switch {
				case ctx.Err() != nil:
					reports[i] = skippedCase(cases[i], "interrupted")
				case r.cfg.Budget > 0 && r.cfg.Now().Sub(start) >= r.cfg.Budget:
					reports[i] = skippedCase(cases[i], "the time budget is spent")
				default:
					if r.cfg.passesOnly() {
						reports[i] = r.workPasses(ctx, cases[i])
					} else {
						reports[i] = r.work(ctx, cases[i])
					}
				}
				mu.Lock()
				progress.Done++
				progress.Case = reports[i].result
				for _, f := range reports[i].findings {
					progress.Findings++
					if f.Blocking {
						progress.News++
					}
				}
				if r.cfg.Progress != nil {
					fired.add(reports[i].steps)
					progress.Found, progress.Passes = reports[i].findings, fired.passes()
					r.cfg.Progress(progress)
				}
				mu.Unlock()
			}
		})
	}
	for i := range cases {
		next <- i
	}
	close(next)
	wg.Wait()
	return reports
}

// summarise adds the cases up. It returns the summands.
func (r *run) summarise(res *Result, reports []caseReport) ([]CasePart, *accuracy) {
	parts := make([]CasePart, len(reports))
	cells := &accuracy{}
	for i, k := range reports {
		parts[i] = k.part()
		in := k.passesOf(r.cfg.Passes)
		cells.add(k.result.ID, in, k.samples())
		if len(k.null) > 0 {
			var null []map[sampleKey]*sample
			for _, n := range k.null {
				null = append(null, n.samples)
			}
			cells.addNull(k.result.ID, in, null)
		}
		r.countFirings(res, k.steps)
		if r.cfg.Coverage {
			res.cover(k.steps)
		}
		res.Cases = append(res.Cases, k.result)
		res.Findings = append(res.Findings, k.findings...)
	}
	byName := map[string]*fuzz.Case{}
	for _, c := range r.cfg.Cases {
		byName[c.Name] = c
	}
	res.total(parts, cells, r.cfg.Policy, byName)
	return parts, cells
}

// total fills in the sums over the cases and puts the findings in order. cases
// are the programs by name, for the findings of the accuracy statistics.
func (res *Result) total(parts []CasePart, cells *accuracy, rules *policy.Policy, cases map[string]*fuzz.Case) {
	t := &res.Totals
	var dropped [2]map[string]bool
	for i := range dropped {
		dropped[i] = map[string]bool{}
	}
	for i, p := range parts {
		c := &res.Cases[i]
		t.Cases++
		if p.Executed {
			t.Executed++
		}
		if p.PassesOnly {
			t.PassesOnly++
			if res.Steps == nil {
				res.Steps = &StepCounts{}
			}
			res.Steps.add(c.Steps)
		}
		if c.Cut != nil {
			if res.Cut == nil {
				res.Cut = newCutCounts()
				res.Cut.Cases = 0
			}
			res.Cut.add(c.Cut)
		}
		if m := p.Memory; m != nil {
			if res.Memory == nil {
				res.Memory = &MemoryCounts{}
			}
			res.Memory.add(*m)
		}
		t.SkippedStreams += p.SkippedStreams
		switch c.Outcome {
		case CaseUnsupported:
			t.Unsupported++
		case CaseSkipped:
			t.Skipped++
		case CaseInfrastructure:
			t.Infrastructure++
		case CaseRejected:
			t.Rejected++
		}
		t.JudgedElements += p.JudgedElements
		t.UndecidedElements += p.UndecidedElements
		t.UndecidedDiffering += p.UndecidedDiffering
		for side, flags := range p.Dropped {
			for _, f := range flags {
				dropped[side][f] = true
			}
		}
	}
	var found []Finding
	res.Statistics.Cells, found, res.Statistics.Null.Excluded = cells.finish(rules, cases)
	res.Findings = append(res.Findings, found...)
	slices.SortStableFunc(res.Findings, func(a, b Finding) int { return a.gravity() - b.gravity() })
	countClusters(res.Findings)
	for _, f := range res.Findings {
		if f.Observed != "" {
			if res.Observed == nil {
				res.Observed = map[string]string{}
			}
			res.Observed[f.ID] = f.Observed
		}
	}
	res.Base.Dropped = slices.Sorted(maps.Keys(dropped[0]))
	res.Head.Dropped = slices.Sorted(maps.Keys(dropped[1]))
}

// countFirings adds the pass steps of one program to the passes in focus.
func (r *run) countFirings(res *Result, steps map[string]stepCount) {
	for i, f := range r.cfg.Passes {
		p, fired := &res.Passes[i], false
		for name, n := range steps {
			if f.Matches(name) {
				p.Ran += n.ran
				p.Fired += n.fired
				fired = fired || n.fired > 0
			}
		}
		if fired {
			p.Cases++
		}
	}
}
