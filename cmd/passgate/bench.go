package main

import (
	"fmt"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/xla/builds"
)

// benchCmd measures the speed of passes-only and of compile-and-run.
type benchCmd struct {
	runFlags
	Build  string   `help:"Build to measure." default:"jax-0.11.2" placeholder:"SPEC"`
	Rounds int      `help:"How often every case is run, each way." default:"2"`
	Cases  []string `arg:"" name:"case" optional:"" help:"Files or directories of cases." default:"examples/cases"`
	JSON   bool     `help:"Print one JSON object per way."`
}

func (c *benchCmd) Run(a *app) error {
	if err := c.runFlags.check(); err != nil {
		return err
	}
	if c.Rounds < 1 {
		return usagef("--rounds %d: want at least 1", c.Rounds)
	}
	cases, err := loadCases(c.Cases)
	if err != nil {
		return err
	}
	found, err := a.fetch(c.buildFlags, c.Build)
	if err != nil {
		return err
	}
	pool, err := a.pool(c.workers(), c.Timeout)
	if err != nil {
		return err
	}
	defer pool.Close()
	cfg := gate.Config{Runner: pool, Now: a.now, Seed: c.Seed, Timeout: c.Timeout, Workers: c.workers()}
	type way struct {
		name string
		rate gate.Rate
	}
	passes, err := gate.BenchPasses(a.ctx, cfg, found[0], cases, c.Rounds)
	if err != nil {
		return err
	}
	ways := []way{{"passes only, judged", passes}}
	var fresh gate.Rate
	if found[0].Kind == builds.Executable {
		var persistent gate.Rate
		if persistent, fresh, err = gate.Bench(a.ctx, cfg, found[0], cases, c.Rounds); err != nil {
			return err
		}
		ways = append(ways, way{"persistent workers", persistent}, way{"process per case", fresh})
	}
	for _, r := range ways {
		if c.JSON {
			if err := a.emit(map[string]any{"case": r.name, "outcome": "ok", "detail": "", "cases": r.rate.Cases, "seconds": r.rate.Seconds,
				"cases_per_second": r.rate.CasesPerSecond, "in_xla": r.rate.InXLA}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.stdout, "%-19s  %4d cases in %6.2fs: %6.1f cases/s, %3.0f%% of the wall time inside XLA\n", r.name, r.rate.Cases, r.rate.Seconds, r.rate.CasesPerSecond, 100*r.rate.InXLA)
	}
	if !c.JSON && fresh.Cases > 0 {
		for _, r := range ways[:2] {
			fmt.Fprintf(a.stdout, "%-19s  %.1f times a process per case\n", r.name, r.rate.CasesPerSecond/fresh.CasesPerSecond)
		}
	}
	return nil
}
