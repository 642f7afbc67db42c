package gate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/campaign"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
)

// Exploration are the settings of the search for programs that no case file
// holds. It runs after the cases.
type Exploration struct {
	// Campaign chooses the programs. Its passes in focus are Config.Passes, in
	// the same order.
	Campaign *campaign.Campaign
	// Budget is the time for the cases and the exploration together, MaxCases
	// the number of programs explored; 0 is no limit. One of the two is
	// required. A run that MaxCases ends is the same wherever it is repeated.
	Budget   time.Duration
	MaxCases int
	// Execute runs every program; without it programs are compiled up to code
	// generation, their pass steps judged, and one program in sampleEvery runs.
	// For a change in code generation, a library or the runtime.
	Execute bool
	// MinFirings is the number of programs in which some pass in focus must
	// have fired; below it the verdict is not-exercised.
	MinFirings int
	// Unjudged only looks which passes fire.
	Unjudged bool
	// GoOn explores on after a finding that blocks.
	GoOn bool
}

// ExplorationResult says what the exploration did.
type ExplorationResult struct {
	// Programs were explored; Refused of them were refused by a build or had no
	// reference; Fired made at least one pass in focus fire.
	Programs int `json:"programs"`
	Refused  int `json:"refused"`
	Fired    int `json:"fired"`
	// Unjudged programs have no reference; only crashes and hangs show on them.
	// Lost ones the machine took from us. Unfired ones no pass in focus changed:
	// they were compiled and not judged.
	Unjudged int `json:"unjudged"`
	Lost     int `json:"lost"`
	Unfired  int `json:"unfired"`
	// Identical programs became the same module on both builds at every step.
	Identical int `json:"identical"`
	// Executed programs were run as well.
	Executed int `json:"executed"`
	// Suspicious programs were judged again as cases; Repeats of them showed
	// what an earlier one had shown already and were left at that.
	Suspicious int `json:"suspicious"`
	Repeats    int `json:"repeats"`
	// Signatures counts the different rewrites of passes in focus.
	Signatures int `json:"signatures"`
	// Steps counts the pass steps that were judged.
	Steps int `json:"steps"`
	// MinFirings is what was asked for.
	MinFirings int `json:"min_firings"`
	// Sources are the origins of the programs.
	Sources []campaign.Tally `json:"sources"`
}

// batchSize is the number of programs between two decisions. It does not
// depend on the number of workers: the choice of the next programs rests on
// the outcomes of all earlier batches.
const batchSize = 32

// sampleEvery is the share of programs that are also executed when nothing but
// HLO passes changed: one in so many, about as much time as all the others
// take (compile-and-run costs five to ten times a run of the passes).
const sampleEvery = 16

// repeatsPerKind is the number of programs with the same kind of finding that
// are judged in full; later ones are counted.
const repeatsPerKind = 3

func (e *Exploration) check(c *Config) error {
	switch {
	case e.Campaign == nil:
		return &ConfigError{"exploration without a campaign"}
	case e.Budget <= 0 && e.MaxCases <= 0:
		return &ConfigError{"exploration without an end: want a budget or a number of programs"}
	case e.Execute && c.passesOnly():
		return &ConfigError{"exploration by execution needs builds that run programs"}
	}
	return nil
}

// explored is what came of one program.
type explored struct {
	outcome    campaign.Outcome
	fired      map[string]stepCount
	suspicious string // the kind of what was seen; "" for nothing
	identical  bool
	executed   bool
	steps      int
	unjudged   bool
	lost       bool
	unfired    bool
}

// explore runs the campaign and returns the reports of the suspicious
// programs and the sum. Reports come in the order of the programs.
func (r *run) explore(ctx context.Context, start time.Time, res *Result) []caseReport {
	x := r.cfg.Explore
	sum := &ExplorationResult{Sources: []campaign.Tally{}, MinFirings: x.MinFirings}
	res.Exploration = sum
	r.cfg.MinimiseAll = true
	var reports []caseReport
	kinds := map[string]int{}
	spent := func() bool { return x.Budget > 0 && r.cfg.Now().Sub(start) >= x.Budget }
	var progress Progress
	progress.Total = x.MaxCases
	fired := newFirings(r)
	for ctx.Err() == nil && !spent() {
		n := batchSize
		if x.MaxCases > 0 {
			n = min(n, x.MaxCases-sum.Programs)
		}
		batch := x.Campaign.Batch(n)
		if len(batch) == 0 {
			break
		}
		results := r.screenAll(ctx, batch, sum.Programs)
		if ctx.Err() != nil {
			break
		}
		outcomes := make([]campaign.Outcome, len(batch))
		blocked := false
		progress.Found = nil
		for i, e := range results {
			outcomes[i] = e.outcome
			sum.add(e)
			r.countFirings(res, e.fired)
			fired.add(e.fired)
			if e.suspicious == "" || x.Unjudged {
				continue
			}
			sum.Suspicious++
			if kinds[e.suspicious]++; kinds[e.suspicious] > repeatsPerKind {
				sum.Repeats++
				continue
			}
			report := r.judgeInFull(ctx, batch[i].Case)
			report.steps = nil // counted already
			reports = append(reports, report)
			for _, f := range report.findings {
				progress.Findings++
				if f.Blocking {
					progress.News++
					blocked = true
				}
			}
			progress.Case = report.result
			progress.Found = append(progress.Found, report.findings...)
		}
		x.Campaign.Learn(batch, outcomes)
		progress.Done = sum.Programs
		if r.cfg.Progress != nil {
			progress.Passes = fired.passes()
			r.cfg.Progress(progress)
		}
		if blocked && !x.GoOn {
			break
		}
	}
	r.signatures = x.Campaign.Signatures()
	sum.Signatures = len(r.signatures)
	sum.Sources = append(sum.Sources, x.Campaign.Tallies()...)
	return reports
}

func (s *ExplorationResult) add(e explored) {
	s.Programs++
	s.Steps += e.steps
	for _, c := range []struct {
		is bool
		n  *int
	}{{e.outcome.Refused, &s.Refused}, {len(e.outcome.Fired) > 0, &s.Fired}, {e.identical, &s.Identical}, {e.executed, &s.Executed}, {e.unjudged, &s.Unjudged}, {e.lost, &s.Lost}, {e.unfired, &s.Unfired}} {
		if c.is {
			*c.n++
		}
	}
}

// screenAll screens a batch, Workers at a time. first is the number of the
// batch's first program.
func (r *run) screenAll(ctx context.Context, batch []campaign.Program, first int) []explored {
	out := make([]explored, len(batch))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(max(1, r.cfg.Workers), len(batch)) {
		wg.Go(func() {
			for i := range next {
				out[i] = r.screen(ctx, batch[i], first+i)
			}
		})
	}
	for i := range batch {
		next <- i
	}
	close(next)
	wg.Wait()
	return out
}

// judgeInFull judges a suspicious program like a case.
func (r *run) judgeInFull(ctx context.Context, c *fuzz.Case) caseReport {
	if r.cfg.passesOnly() {
		return r.workPasses(ctx, c)
	}
	return r.work(ctx, c)
}

// crashProbes bounds the probes of a crash or hang that blocks nothing: each
// that still fails costs a worker process, or a deadline, on each side, several
// seconds on a busy machine.
const crashProbes = 12

// probes is how many smaller programs are tried for a finding.
func (r *run) probes(f *observedFinding) int {
	if !f.Blocking && (f.Class == Crash || f.Class == Hang) {
		return min(r.cfg.Probes, crashProbes)
	}
	return r.cfg.Probes
}

// compiles reports whether nothing is ever executed: then programs for several
// devices, or for a host that speaks to them, show which passes fire, and
// crashes.
func (r *run) compiles() bool {
	return r.cfg.Base.Kind == builds.CompileOnly && r.cfg.Head.Kind == builds.CompileOnly
}

// screen looks at one program in the cheapest way that shows a fault.
func (r *run) screen(ctx context.Context, p campaign.Program, number int) explored {
	c := p.Case
	if c.Module == nil {
		return explored{outcome: campaign.Outcome{Refused: true}}
	}
	k := &caseRun{run: r, c: c}
	if k.unable = runnable(c); k.unable != "" && !r.compiles() {
		return explored{outcome: campaign.Outcome{Refused: true}}
	}
	var err error
	if k.base, err = encode(c); err != nil {
		return explored{outcome: campaign.Outcome{Refused: true}}
	}
	if k.unable == "" && !r.cfg.Explore.Unjudged {
		streams := c.Streams(r.cfg.Seed)
		if more := c.EdgeStreams(r.cfg.Seed); len(more) > 0 { // one in turn: what is suspicious gets all of them
			streams = append(streams, more[number%len(more)])
		}
		for _, s := range streams {
			k.asked = append(k.asked, &asked{Stream: s, arguments: arguments(s.Inputs)})
		}
		if len(k.asked) == 0 {
			return explored{outcome: campaign.Outcome{Refused: true}}
		}
	}
	out := k.screenPasses(ctx)
	if out.suspicious != "" || out.outcome.Refused || r.cfg.PassesOnly || r.cfg.Explore.Unjudged {
		return out
	}
	execute := r.cfg.Explore.Execute || number%sampleEvery == 0
	if execute && r.cfg.Base.Kind == builds.Executable && r.cfg.Head.Kind == builds.Executable {
		k.screenExecution(ctx, &out)
	}
	return out
}

// screenPasses compiles up to code generation and judges the pass steps.
func (k *caseRun) screenPasses(ctx context.Context) (out explored) {
	var sets [][]*eval.Value
	for _, a := range k.asked {
		if !k.run.cfg.Explore.Unjudged {
			sets = append(sets, values(a.Inputs))
		}
	}
	both := k.compileBoth(ctx, k.run.cfg.Runner, k.c.Module)
	out.fired = moreFired(stepsOf(both[0].trail), stepsOf(both[1].trail))
	for i, f := range k.run.cfg.Passes {
		for name, n := range out.fired {
			if n.fired > 0 && f.Matches(name) {
				out.outcome.Fired = append(out.outcome.Fired, i)
				break
			}
		}
	}
	// What no pass in focus changed is not judged: that costs several times as much
	// as to compile it. A program that runs may show what is looked for all the same.
	if len(out.outcome.Fired) == 0 && len(k.run.cfg.Passes) > 0 && !k.run.cfg.Explore.Execute && both[0].trail != nil && both[1].trail != nil && both[0].trail.Complete() && both[1].trail.Complete() {
		out.unfired = true
		return out
	}
	k.judgeBoth(ctx, &both, sets, -1, passOptions)
	if ctx.Err() != nil {
		return out
	}
	for _, p := range both {
		switch {
		case p.side.behaviour == Infrastructure:
			out.lost = true
		case p.side.behaviour == Rejected || p.side.behaviour == Unsupported || p.trail == nil:
			out.outcome.Refused = true
		}
		if p.validation != nil {
			out.steps += p.validation.Judged
		} else if p.trail != nil && len(p.trail.States) > 0 {
			out.unjudged = true
		}
	}
	seen := map[string]bool{}
	for i, p := range both {
		if i == 1 && both[0].trail == both[1].trail {
			break
		}
		k.signatures(p.trail, seen)
	}
	out.outcome.Signatures = slices.Sorted(maps.Keys(seen))
	if a, b := both[0].trail, both[1].trail; a != nil && b != nil && a != b {
		out.identical = a.Complete() && b.Complete() && len(a.States) == len(b.States) && triage.Aligned(a, b) == len(a.States)
	}
	for _, f := range k.passFindings(ctx, both, k.asked) {
		if f.Status != Contested && f.Status != Fixed {
			out.suspicious = kindOf(&f.Finding)
			break
		}
	}
	return out
}

// signatures adds the rewrite signatures of the passes in focus.
func (k *caseRun) signatures(t *triage.Trail, seen map[string]bool) {
	if t == nil {
		return
	}
	var before campaign.Ops
	module := t.Before
	for _, s := range t.States {
		if s.Err != nil {
			before, module = nil, nil
			continue
		}
		focused := slices.ContainsFunc(k.run.cfg.Passes, func(f Focus) bool { return f.Matches(s.Key.Pass) })
		if focused && module != nil {
			if before == nil {
				before = campaign.Count(module)
			}
			after := campaign.Count(s.Module)
			seen[campaign.Signature(s.Key.Pass, before, after)] = true
			before, module = after, s.Module
			continue
		}
		before, module = nil, s.Module
	}
}

// screenExecution runs the program once on every input stream.
func (k *caseRun) screenExecution(ctx context.Context, out *explored) {
	var report caseReport
	all := k.asked
	k.asked = nil
	var streams []fuzz.Stream
	for _, a := range all {
		streams = append(streams, a.Stream)
	}
	k.ask(ctx, streams, &report)
	if len(k.asked) == 0 || ctx.Err() != nil {
		return
	}
	r := k.request(ComparisonFlags)
	r.Repeat, r.RepeatFor, r.CheckMemory = 1, 0, k.examined()
	for _, a := range k.asked {
		r.Inputs = append(r.Inputs, a.arguments)
	}
	var sides [2][]side
	var wg sync.WaitGroup
	for i, b := range []*builds.Build{k.run.cfg.Base, k.run.cfg.Head} {
		if i == 1 && b == k.run.cfg.Base {
			break
		}
		wg.Go(func() { sides[i], _ = k.pooled(b).execute(ctx, r) })
	}
	wg.Wait()
	if sides[1] == nil {
		sides[1] = sides[0]
	}
	out.executed = true
	for s, a := range k.asked {
		answer := judge(question{stream: a.Name, flags: ComparisonFlags, reference: a.strict, base: sides[0][s], head: sides[1][s]})
		for _, o := range answer.observations {
			if o.status == New || o.status == PreExisting {
				out.suspicious = fmt.Sprintf("execution %s %s %s", o.class, o.status, rootKind(k.c))
				return
			}
		}
		for i := range sides {
			if c := sides[i][s].objections(); len(c) > 0 {
				out.suspicious = fmt.Sprintf("memory %s %s", c[0].kind, rootKind(k.c))
				return
			}
		}
	}
}

// kindOf tells findings apart that are worth a judgement of their own: class,
// status, pass, and what was rewritten into what.
func kindOf(f *Finding) string {
	kind := fmt.Sprintf("%s %s", f.Class, f.Status)
	if f.Pass != nil {
		kind += " " + f.Pass.Name
	}
	if f.Location != nil {
		kind += " " + f.Location.Opcode + " " + f.Location.AfterOpcode
	}
	return kind
}

// rootKind is a rough word for what a program computes: the opcodes and types
// of the instructions that make its results.
func rootKind(c *fuzz.Case) string {
	root := c.Module.Entry.Root
	kind := root.Op.String()
	for _, o := range root.Operands {
		kind += " " + o.Op.String()
		if o.Shape.IsArray() {
			kind += "/" + o.Shape.Type.String()
		}
	}
	return kind
}

// blocks reports whether a finding blocks already.
func blocks(reports []caseReport) bool {
	return slices.ContainsFunc(reports, func(k caseReport) bool {
		return slices.ContainsFunc(k.findings, func(f Finding) bool { return f.Blocking })
	})
}

// judged counts the programs that were judged, cases and explored ones.
func (r *Result) judged() int {
	n := r.Totals.Executed + r.Totals.PassesOnly
	if x := r.Exploration; x != nil {
		n += x.Programs - x.Refused - x.Unjudged - x.Unfired - x.Lost - (x.Suspicious - x.Repeats)
	}
	return n
}

// heaviestCases is the number of programs in which one of the passes that the
// change reaches first (those of the greatest weight) fired: the most of them.
func (r *Result) heaviestCases() int {
	weight, n := 0, 0
	for _, p := range r.Passes {
		if p.Weight > weight {
			weight, n = p.Weight, 0
		}
		if p.Weight == weight {
			n = max(n, p.Cases)
		}
	}
	return n
}
