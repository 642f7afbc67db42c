package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/campaign"
	"github.com/passgate/passgate/fuzz/corpus"
	"github.com/passgate/passgate/fuzz/generate"
	"github.com/passgate/passgate/fuzz/mutate"
	"github.com/passgate/passgate/fuzz/patterns"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/passes"
	"github.com/passgate/passgate/xla/builds"
)

// exploreFlags are the flags of commands that look for programs of their own.
type exploreFlags struct {
	Corpus     []string `help:"Corpora: programs to start from (see passgate corpus)." sep:"none" placeholder:"DIR"`
	Shipped    bool     `help:"Start from the programs that passgate ships for these passes, too." default:"true" negatable:""`
	MaxCases   int      `help:"Explore this many programs at most; with a limit and no budget, the same report every time." default:"0"`
	MinFirings int      `help:"Programs in which a changed pass must fire; below, the verdict is not-exercised." default:"10"`
	Execute    string   `help:"Run every explored program, and not only its passes: yes, no, or auto (where the change may show only so)." enum:"auto,yes,no" default:"auto"`
}

// target is what to explore for.
type target struct {
	changed bool // a change was given, whatever it reaches
	focus   []gate.Focus
	changes passes.Plan
	execute string // why every program must run, "" if not
}

// targeted turns names or a change into passes to look for.
func (f changeFlags) targeted(a *app, names []string) (target, error) {
	var out target
	for _, name := range names {
		found := passes.Lookup(name)
		if len(found) == 0 {
			return out, usagef("unknown pass %q; see `passgate passes list`", name)
		}
		out.focus = append(out.focus, gate.Focus{Name: name, Weight: 6, Reason: "named on the command line", Matches: func(step string) bool {
			return slices.ContainsFunc(found, func(p passes.Pass) bool { return p.Matches(step) })
		}})
		for i := range found {
			out.changes.Focus = append(out.changes.Focus, passes.Focus{Pass: found[i], Weight: 6, Tier: passes.OwnFile, Reason: "named on the command line"})
		}
	}
	changes, ok, err := f.changes(a)
	if err != nil {
		return out, err
	}
	if ok {
		out.changed = true
		out.changes = passes.Affected(changes)
		for _, f := range out.changes.Focus {
			out.focus = append(out.focus, gate.Focus{Name: f.Pass.Name, Weight: f.Weight, Reason: f.Reason, Matches: f.Pass.Matches})
		}
	}
	if yes, why := out.changes.NeedsExecution(); yes {
		out.execute = why
	}
	return out, nil
}

// plan makes the exploration of a run. It says on standard error what it
// starts from.
func (f exploreFlags) plan(a *app, t target, checkout string, cfg *gate.Config, budget time.Duration) error {
	if f.MaxCases < 0 || f.MinFirings < 0 {
		return usagef("--max-cases %d, --min-firings %d: want numbers from 0", f.MaxCases, f.MinFirings)
	}
	seeds, err := f.seeds(a.ctx, t, checkout, platformOf(cfg.Base.Spec))
	if err != nil {
		return err
	}
	if cfg.Shards > 1 {
		var mine []*fuzz.Case
		for i := cfg.Shard - 1; i < len(seeds); i += cfg.Shards {
			mine = append(mine, seeds[i])
		}
		seeds = mine
	}
	if len(seeds) > 0 {
		fmt.Fprintf(a.stderr, "%d programs to start from\n", len(seeds))
	}
	cfg.Explore = &gate.Exploration{
		Campaign: newCampaign(exploredName(cfg.Shard, cfg.Shards), cfg.Seed<<16+uint64(max(0, cfg.Shard-1)), platformOf(cfg.Base.Spec), t.focus, seeds),
		Budget:   budget, MaxCases: f.MaxCases, MinFirings: f.MinFirings,
		Execute: executes(*cfg) && (f.Execute == "yes" || f.Execute != "no" && t.execute != ""),
	}
	if len(cfg.Passes) == 0 {
		cfg.Explore.MinFirings = 0
	}
	return nil
}

// exploredName begins the names of the programs that a shard makes: no two
// shards make programs of one name.
func exploredName(shard, shards int) string {
	if shards < 2 {
		return "explored"
	}
	return fmt.Sprintf("explored-%d", shard)
}

// newCampaign puts a platform's patterns, generator and mutators behind a campaign.
func newCampaign(name string, seed uint64, platform string, focus []gate.Focus, seeds []*fuzz.Case) *campaign.Campaign {
	cfg := campaign.Config{Name: name, Seed: seed, Seeds: seeds, Mutate: mutated}
	runs := func(f gate.Focus) bool {
		known := passes.Lookup(f.Name)
		return len(known) == 0 || slices.ContainsFunc(known, func(p passes.Pass) bool { return slices.Contains(p.Pipelines, platform) })
	}
	some := slices.ContainsFunc(focus, runs)
	for _, f := range focus {
		p := campaign.Pass{Name: f.Name, Weight: f.Weight}
		if some && !runs(f) {
			p.Weight = 0 // a change in the core reaches passes of every platform
		}
		cfg.Passes = append(cfg.Passes, p)
	}
	fires := patterns.Fires(platform)
	among := func(names []string) (out []int) {
		for i, f := range focus {
			if slices.ContainsFunc(names, func(n string) bool { return n == f.Name || f.Matches(n) }) {
				out = append(out, i)
			}
		}
		return out
	}
	for _, p := range patterns.On(platform) {
		meant, sure := among(p.Passes), among(fires[p.Name])
		if len(meant)+len(sure) == 0 && len(focus) > 0 {
			continue
		}
		cfg.Makers = append(cfg.Makers, campaign.Maker{Name: p.Name, For: meant, Sure: sure, Make: func(r *rand.Rand, name string) *fuzz.Case {
			c, err := p.Program(name, r)
			if err != nil {
				return nil
			}
			return c
		}})
		if p.Alone {
			continue
		}
		cfg.Makers = append(cfg.Makers, campaign.Maker{Name: p.Name + " in a program", For: meant, Sure: sure, Make: func(r *rand.Rand, name string) *fuzz.Case {
			c, err := generate.Program(name, r, generate.Options{Patterns: []patterns.Pattern{p}})
			if err != nil {
				return nil
			}
			return c
		}})
	}
	cfg.Makers = append(cfg.Makers, campaign.Maker{Name: "generator", Make: func(r *rand.Rand, name string) *fuzz.Case {
		c, err := generate.Program(name, r, generate.Options{})
		if err != nil {
			return nil
		}
		return c
	}})
	return campaign.New(cfg)
}

// mutated is a mutation of a with b as donor.
func mutated(r *rand.Rand, name string, a, b *fuzz.Case) *fuzz.Case {
	c, _, err := mutate.Mutate(r, a, []*fuzz.Case{b})
	if err != nil {
		return nil
	}
	c.Name = name
	return c
}

// seeds gathers the programs to start from, best first: the unit tests of the
// passes in focus, the corpora given, then the programs that passgate ships.
func (f exploreFlags) seeds(ctx context.Context, t target, checkout, platform string) ([]*fuzz.Case, error) {
	var out []*fuzz.Case
	if checkout != "" {
		out = append(out, corpus.Tests(os.DirFS(checkout), t.changes.Focus)...)
	}
	var opcodes []string
	for _, f := range t.changes.Focus {
		if f.Weight >= 6 {
			opcodes = append(opcodes, f.Pass.Opcodes...)
		}
	}
	var names []string
	for _, p := range t.focus {
		names = append(names, p.Name)
	}
	for _, dir := range f.Corpus {
		entries, err := corpus.Load(os.DirFS(dir))
		if err != nil {
			return nil, usagef("--corpus %s: %s", dir, strings.TrimPrefix(err.Error(), "corpus: "))
		}
		found, err := corpus.Pieces(ctx, entries, names, opcodes)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	if f.Shipped {
		found, err := corpus.ShippedSeeds(platform, func(step string) bool {
			return slices.ContainsFunc(t.focus, func(p gate.Focus) bool { return p.Matches(step) })
		})
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	used := map[string]bool{}
	return slices.DeleteFunc(out, func(c *fuzz.Case) bool {
		seen := used[c.Name]
		used[c.Name] = true
		return seen
	}), nil
}

// executes reports whether a run can execute programs.
func executes(cfg gate.Config) bool {
	return !cfg.PassesOnly && cfg.Base.Kind == builds.Executable && cfg.Head.Kind == builds.Executable
}

// printExploration prints what was explored.
func printExploration(w io.Writer, r *gate.Result) {
	x := r.Exploration
	if x == nil {
		return
	}
	fmt.Fprintf(w, "explored %d programs: a pass in focus fired in %d (%.0f%%), %d different rewrites, %d pass steps judged, %d executed, %d the same on both builds at every step\n",
		x.Programs, x.Fired, 100*float64(x.Fired)/float64(max(1, x.Programs)), x.Signatures, x.Steps, x.Executed, x.Identical)
	fmt.Fprintf(w, "  %d refused, %d not changed by a pass in focus and not judged, %d without a reference, %d lost, %d suspicious, of which %d repeat others\n", x.Refused, x.Unfired, x.Unjudged, x.Lost, x.Suspicious, x.Repeats)
	heaviest := 0
	for _, p := range r.Passes {
		heaviest = max(heaviest, p.Weight)
	}
	for _, p := range r.Passes {
		if p.Weight == heaviest {
			fmt.Fprintf(w, "  %s fired %d times in %d programs\n", p.Name, p.Fired, p.Cases)
		}
	}
}
