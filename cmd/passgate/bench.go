package main

import (
	"fmt"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/xla/builds"
)

// benchCmd measures the speed of passes-only and of compile-and-run. A case is
// one program with one set of inputs.
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
	cfg := gate.Config{Runner: pool, Now: a.now, Seed: c.Seed, Timeout: c.Timeout, Workers: c.workers(), CPU: processorTime}
	if err := a.dumps(&cfg); err != nil {
		return err
	}
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
		times := 0.0
		if fresh.CasesPerSecond > 0 {
			times = r.rate.CasesPerSecond / fresh.CasesPerSecond
		}
		if c.JSON {
			if err := a.emit(map[string]any{"case": r.name, "outcome": "ok", "detail": "", "programs": r.rate.Programs, "cases": r.rate.Cases, "seconds": r.rate.Seconds,
				"cases_per_second": r.rate.CasesPerSecond, "processor_seconds": r.rate.ProcessorSeconds, "cases_per_core": r.rate.CasesPerCore,
				"in_xla": r.rate.InXLA, "times_process_per_case": times}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.stdout, "%-19s  %4d cases (%d programs) in %6.2fs: %6.1f cases/s, %6.1f per second of a core, %3.0f%% of the wall time inside XLA", r.name, r.rate.Cases, r.rate.Programs, r.rate.Seconds, r.rate.CasesPerSecond, r.rate.CasesPerCore, 100*r.rate.InXLA)
		if times > 0 {
			fmt.Fprintf(a.stdout, ", %.1f times a process per case", times)
		}
		fmt.Fprintln(a.stdout)
	}
	return nil
}
