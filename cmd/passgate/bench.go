package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/xla/builds"
)

// benchCmd measures the speed of passes-only and of compile-and-run, on one
// worker and on all, against a fresh process per case and, where it is
// installed, against the fuzzer xlaxiom. A case is one program with one set of
// inputs.
type benchCmd struct {
	runFlags
	Build   string   `help:"Build to measure." default:"jax-0.11.2" placeholder:"SPEC"`
	Rounds  int      `help:"How often every case is run, each way; a fresh process per case only once." default:"10"`
	Xlaxiom string   `help:"Python that has xlaxiom (pip install xlaxiom): measure xlaxiom campaign, too." placeholder:"PYTHON"`
	Count   int      `help:"Programs of xlaxiom." default:"30"`
	Cases   []string `arg:"" name:"case" optional:"" help:"Files or directories of cases." default:"examples/cases"`
	JSON    bool     `help:"Print one JSON object per way."`
}

// way is one way of judging programs and what it was measured to do.
type way struct {
	name    string
	workers int
	gate.Rate
}

func (c *benchCmd) Run(a *app) error {
	if err := c.runFlags.check(); err != nil {
		return err
	}
	if c.Rounds < 1 || c.Count < 1 {
		return usagef("--rounds %d, --count %d: want at least 1", c.Rounds, c.Count)
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
	cfg := gate.Config{Runner: pool, Now: a.now, Seed: c.Seed, Timeout: c.Timeout, CPU: processorTime}
	if err := a.dumps(&cfg); err != nil {
		return err
	}
	counts := []int{1}
	if c.workers() > 1 {
		counts = append(counts, c.workers())
	}
	var ways []way
	for _, n := range counts {
		cfg.Workers = n
		r, err := gate.BenchPasses(a.ctx, cfg, found[0], cases, c.Rounds)
		if err != nil {
			return err
		}
		ways = append(ways, way{"passes only, judged", n, r})
	}
	var yardsticks []way
	if found[0].Kind == builds.Executable {
		b, err := gate.NewBench(a.ctx, cfg, found[0], cases)
		if err != nil {
			return err
		}
		for _, n := range counts {
			r, err := b.Persistent(a.ctx, n, c.Rounds)
			if err != nil {
				return err
			}
			ways = append(ways, way{"persistent workers", n, r})
		}
		r, err := b.Fresh(a.ctx, 1)
		if err != nil {
			return err
		}
		yardsticks = append(yardsticks, way{"process per case", 1, r})
	}
	if c.Xlaxiom != "" {
		r, err := xlaxiom(a.ctx, c.Xlaxiom, c.Count)
		if err != nil {
			return err
		}
		yardsticks = append(yardsticks, way{"xlaxiom campaign", 1, r})
	}
	return c.print(a, ways, yardsticks)
}

// print prints every way, with the ratio of its rates to those of each
// yardstick: of programs to xlaxiom's, which has one set of inputs for each, and
// of cases otherwise.
func (c *benchCmd) print(a *app, ways, yardsticks []way) error {
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprint(t, "WAY\tWORKERS\tPROGRAMS\tCASES\tSECONDS\tPROGRAMS/S\tCASES/S\tPER SECOND OF A CORE\tIN XLA")
		for _, y := range yardsticks {
			fmt.Fprintf(t, "\tTIMES %s", y.name)
		}
		fmt.Fprintln(t)
	}
	for _, w := range append(ways, yardsticks...) {
		times := map[string]any{}
		for _, y := range yardsticks {
			wall, core := w.CasesPerSecond/y.CasesPerSecond, w.CasesPerCore/y.CasesPerCore
			if y.name == "xlaxiom campaign" {
				wall, core = w.ProgramsPerSecond()/y.ProgramsPerSecond(), w.ProgramsPerCore()/y.ProgramsPerCore()
			}
			times[y.name] = map[string]float64{"wall": wall, "core": core}
		}
		if c.JSON {
			if err := a.emit(map[string]any{"case": w.name, "outcome": "ok", "detail": "", "workers": w.workers, "programs": w.Programs, "cases": w.Cases, "seconds": w.Seconds,
				"programs_per_second": w.ProgramsPerSecond(), "programs_per_core": w.ProgramsPerCore(), "cases_per_second": w.CasesPerSecond,
				"processor_seconds": w.ProcessorSeconds, "cases_per_core": w.CasesPerCore, "in_xla": w.InXLA, "times": times}); err != nil {
				return err
			}
			continue
		}
		inXLA := "-"
		if w.InXLA > 0 {
			inXLA = fmt.Sprintf("%.0f%%", 100*w.InXLA)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.2f\t%.1f\t%.1f\t%.1f programs, %.1f cases\t%s", w.name, w.workers, w.Programs, w.Cases, w.Seconds, w.ProgramsPerSecond(), w.CasesPerSecond, w.ProgramsPerCore(), w.CasesPerCore, inXLA)
		for _, y := range yardsticks {
			r := times[y.name].(map[string]float64)
			fmt.Fprintf(t, "\t%.1f (%.1f by core)", r["wall"], r["core"])
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// xlaxiom measures a campaign of n programs in the standard profile. What one
// program takes is measured first and taken off: start, imports, and the first
// compilation.
func xlaxiom(ctx context.Context, python string, n int) (gate.Rate, error) {
	dir, err := os.MkdirTemp("", "passgate-xlaxiom-")
	if err != nil {
		return gate.Rate{}, err
	}
	defer os.RemoveAll(dir)
	campaign := func(n int) (wall, used time.Duration, err error) {
		out := filepath.Join(dir, fmt.Sprint(n))
		cmd := exec.CommandContext(ctx, python, "-m", "xlaxiom", "campaign", "--profile", "standard", "--cases", fmt.Sprint(n), "--seed", "1", "--max-duration-s", "900", "--output", out)
		if text, err := cmd.CombinedOutput(); err != nil {
			return 0, 0, usagef("--xlaxiom %s: %v: %s", python, err, oneLine(string(text)))
		}
		data, err := os.ReadFile(out)
		if err != nil {
			return 0, 0, usagef("--xlaxiom %s: %v", python, err)
		}
		var done struct {
			Completed int     `json:"completed_cases"`
			Seconds   float64 `json:"duration_s"`
		}
		if err := json.Unmarshal(data, &done); err != nil || done.Completed != n {
			return 0, 0, usagef("--xlaxiom %s: %d of %d programs done, %v", python, done.Completed, n, err)
		}
		return time.Duration(done.Seconds * float64(time.Second)), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
	}
	wall1, used1, err := campaign(1)
	if err != nil {
		return gate.Rate{}, err
	}
	wall, used, err := campaign(n + 1)
	if err != nil {
		return gate.Rate{}, err
	}
	s, p := (wall - wall1).Seconds(), (used - used1).Seconds()
	return gate.Rate{Programs: n, Cases: n, Seconds: s, CasesPerSecond: float64(n) / s, ProcessorSeconds: p, CasesPerCore: float64(n) / p}, nil
}
