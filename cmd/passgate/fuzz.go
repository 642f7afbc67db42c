package main

import (
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/passgate/passgate/fuzz/corpus"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/passes"
	"github.com/passgate/passgate/reports"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/dump"
)

// fuzzCmd explores without a gate.
type fuzzCmd struct {
	runFlags
	passesFlags
	changeFlags
	exploreFlags
	Base   string        `help:"Build to explore." required:"" placeholder:"SPEC" aliases:"build"`
	Head   string        `help:"Build to compare it with; without one, only the reference judges." placeholder:"SPEC"`
	Passes []string      `help:"Passes in focus; without any and without a change, all that the build runs." placeholder:"NAME" xor:"change"`
	Budget time.Duration `help:"Time to explore; 0 is no limit, with --max-cases." default:"1m"`
	Probes int           `help:"Smaller programs to try for each finding." default:"400"`
	Out    string        `help:"Directory for the reports." default:"passgate-out" placeholder:"DIR"`
	Save   string        `help:"Corpus to add the programs to that gave new rewrites." placeholder:"DIR"`
	Firing bool          `help:"Judge nothing: print how often each pass that the build runs fired."`
	JSON   bool          `help:"Print one JSON object per case, or per pass with --firing."`
}

func (c *fuzzCmd) Run(a *app) error {
	if err := c.runFlags.check(); err != nil {
		return err
	}
	if c.Budget <= 0 && c.MaxCases <= 0 {
		return usagef("want a --budget or --max-cases")
	}
	aim, err := c.targeted(a, c.Passes)
	if err != nil {
		return err
	}
	if err := checkOut(c.Out); err != nil {
		return err
	}
	specs := []string{c.Base}
	if c.Head != "" {
		specs = append(specs, c.Head)
	}
	found, err := a.fetch(c.buildFlags, specs...)
	if err != nil {
		return err
	}
	cfg := gate.Config{Seed: c.Seed, Workers: c.workers(), Timeout: c.Timeout, Probes: c.Probes, Now: a.now, Base: found[0], Head: found[len(found)-1]}
	if len(aim.focus) == 0 {
		aim.focus = everyPass(found[0])
	}
	cfg.Passes = aim.focus
	if err := c.passesFlags.fill(a, c.buildFlags, &cfg); err != nil {
		return err
	}
	if err := c.plan(a, aim, c.Checkout, &cfg, c.Budget); err != nil {
		return err
	}
	cfg.Explore.GoOn, cfg.Explore.Unjudged, cfg.Explore.MinFirings = true, c.Firing, 0
	pool, err := a.pool(c.workers(), c.Timeout)
	if err != nil {
		return err
	}
	defer pool.Close()
	cfg.Runner, cfg.Steps = pool, gate.ReadSteps
	report, done := a.caseProgress()
	cfg.Progress = report
	res, err := gate.Run(a.ctx, cfg)
	done()
	if err != nil {
		return err
	}
	if c.Save != "" {
		if err := save(a, c.Save, cfg); err != nil {
			return err
		}
	}
	if c.Firing {
		return c.printFiring(a, cfg, res)
	}
	if err := reports.Write(c.Out, res); err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	if c.JSON {
		for _, k := range res.Cases {
			if err := a.emit(line{Case: k.ID, Outcome: string(k.Outcome), Detail: k.Detail}); err != nil {
				return err
			}
		}
	} else {
		a.printResult(a.stdout, res, c.Out)
	}
	if a.ctx.Err() != nil {
		a.code = exitInconclusive
	}
	return nil
}

// save adds the programs that gave new rewrites to a corpus.
func save(a *app, dir string, cfg gate.Config) error {
	added := 0
	for _, e := range cfg.Explore.Campaign.Pool() {
		entry := corpus.Entry{Case: e.Case, Signatures: e.Signatures, From: "exploration"}
		for _, f := range e.Fired {
			if name := cfg.Passes[f].Name; !slices.Contains(entry.Fired, name) {
				entry.Fired = append(entry.Fired, name)
			}
		}
		fresh, err := corpus.Put(dir, entry, false)
		if err != nil {
			return err
		}
		if fresh {
			added++
		}
	}
	fmt.Fprintf(a.stderr, "%d programs added to %s\n", added, dir)
	return nil
}

// everyPass are the passes that a build is known to run, each name once.
func everyPass(b *builds.Build) []gate.Focus {
	var out []gate.Focus
	add := func(name string, matches func(string) bool, why string) {
		if !slices.ContainsFunc(out, func(f gate.Focus) bool { return f.Name == name }) {
			out = append(out, gate.Focus{Name: name, Weight: 1, Reason: why, Matches: matches})
		}
	}
	platform := platformOf(b.Spec)
	if platform == "tpu" {
		for _, r := range passes.TPUPipeline() {
			if r.Pass != "pipeline-start" {
				add(r.Pass, func(step string) bool { return dump.FileName(step) == dump.FileName(r.Pass) }, "runs in the TPU pipeline")
			}
		}
		return out
	}
	for _, p := range passes.All() {
		if slices.Contains(p.Pipelines, platform) && len(passes.Lookup(p.Name)) > 0 && p.Prefix != "<" {
			add(p.Name, p.Matches, "runs in the "+platform+" pipeline")
		}
	}
	return out
}

// platformOf is the pipeline of a build, as the registry tags it.
func platformOf(s builds.Spec) string {
	switch s.Source {
	case builds.Libtpu:
		return "tpu"
	case builds.CUDA:
		return "gpu"
	}
	return "cpu"
}

// mostUsed is the number of passes of which the most used ones are looked at,
// and aimed the share of the programs made for one that should make it fire.
const (
	mostUsed = 25
	aimed    = 0.9
)

// printFiring prints one line per pass, then the sums: how many fired, and how
// well the programs that were made for the most used ones (those that fire in
// most programs) do.
func (c *fuzzCmd) printFiring(a *app, cfg gate.Config, res *gate.Result) error {
	fired := 0
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(t, "PASS\tFIRED\tPROGRAMS\tMADE FOR IT\tOF THEM FIRED")
	}
	for i, p := range res.Passes {
		made, hit := cfg.Explore.Campaign.Aim(i)
		if p.Fired > 0 {
			fired++
		}
		share := "-"
		if made > 0 {
			share = fmt.Sprintf("%.0f%%", 100*float64(hit)/float64(made))
		}
		if c.JSON {
			outcome := "fired"
			if p.Fired == 0 {
				outcome = "never"
			}
			if err := a.emit(map[string]any{"case": p.Name, "outcome": outcome, "detail": "", "fired": p.Fired, "programs": p.Cases, "made": made, "hit": hit}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\n", p.Name, p.Fired, p.Cases, made, share)
	}
	t.Flush()
	if !c.JSON {
		order := make([]int, len(res.Passes))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int { return res.Passes[j].Cases - res.Passes[i].Cases })
		var made, hit, good int
		below := ""
		for _, i := range order[:min(mostUsed, len(order))] {
			m, h := cfg.Explore.Campaign.Aim(i)
			made, hit = made+m, hit+h
			if float64(h) >= aimed*float64(m) {
				good++
			} else {
				below += fmt.Sprintf(" %s %d of %d,", res.Passes[i].Name, h, m)
			}
		}
		fmt.Fprintf(a.stdout, "the %d most used: %d of %d programs made for them make them fire (%.0f%%); at least %.0f%% for %d of them\n",
			min(mostUsed, len(order)), hit, made, 100*float64(hit)/float64(max(1, made)), 100*aimed, good)
		if below != "" {
			fmt.Fprintf(a.stdout, "  fewer:%s\n", below[:len(below)-1])
		}
		x := res.Exploration
		fmt.Fprintf(a.stdout, "%d of %d passes fired (%.0f%%) in %d programs, %d refused, %.0fs\n", fired, len(res.Passes), 100*float64(fired)/float64(max(1, len(res.Passes))), x.Programs, x.Refused, res.Timing.Seconds)
	}
	return nil
}
