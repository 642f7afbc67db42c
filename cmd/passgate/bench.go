package main

import (
	"fmt"

	"github.com/passgate/passgate/gate"
)

// benchCmd measures the speed of compile-and-run.
type benchCmd struct {
	runFlags
	Build  string   `help:"Build to measure." default:"jax-0.11.2" placeholder:"SPEC"`
	Rounds int      `help:"How often every case is run, each way." default:"3"`
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
	persistent, fresh, err := gate.Bench(a.ctx, cfg, found[0], cases, c.Rounds)
	if err != nil {
		return err
	}
	for _, r := range []struct {
		name string
		rate gate.Rate
	}{{"persistent workers", persistent}, {"process per case", fresh}} {
		if c.JSON {
			if err := a.emit(map[string]any{"case": r.name, "outcome": "ok", "detail": "", "cases": r.rate.Cases, "seconds": r.rate.Seconds,
				"cases_per_second": r.rate.CasesPerSecond, "in_xla": r.rate.InXLA}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.stdout, "%-18s  %4d cases in %6.2fs: %6.1f cases/s, %3.0f%% of the wall time inside XLA\n", r.name, r.rate.Cases, r.rate.Seconds, r.rate.CasesPerSecond, 100*r.rate.InXLA)
	}
	if !c.JSON {
		fmt.Fprintf(a.stdout, "ratio               %.1f\n", persistent.CasesPerSecond/fresh.CasesPerSecond)
	}
	return nil
}
