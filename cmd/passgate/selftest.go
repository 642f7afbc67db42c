package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/passgate/passgate/defects"
	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/generate"
	"github.com/passgate/passgate/fuzz/patterns"
	"github.com/passgate/passgate/selftest"
)

// selftestCmd measures the gate on planted defects.
type selftestCmd struct {
	runFlags
	Build      string        `help:"Build to plant defects into." required:"" placeholder:"SPEC"`
	Cases      []string      `help:"Files or directories of cases to plant in, besides the built-in ones." sep:"none" placeholder:"DIR"`
	Defects    int           `help:"Defects to plant; 0 with --null-cells." default:"200"`
	Kinds      []string      `help:"Kinds of defects to plant; all if not given." placeholder:"NAME"`
	Null       int           `help:"Runs with nothing planted." default:"100"`
	NullCells  int64         `help:"Cells (judged input streams) in which to judge the build against itself and legal variants of itself: other threads, vectors, code-generator level, libraries." default:"0"`
	Generated  int           `help:"Generated programs to plant in." default:"100"`
	Probes     int           `help:"Smaller programs to try for each finding." default:"400"`
	PassesOnly bool          `help:"Execute nothing."`
	Every      int           `help:"Execute one defect in so many; the others are judged by their passes alone." default:"1"`
	Budget     time.Duration `help:"Start no further defect after this time, and choose no more after half of it; 0 is no limit." default:"0s"`
	Out        string        `help:"Directory for the report." default:"passgate-selftest" placeholder:"DIR"`
	JSON       bool          `help:"Print one JSON object per defect."`
}

func (c *selftestCmd) Run(a *app) error {
	if err := c.runFlags.check(); err != nil {
		return err
	}
	fewest := 1
	if c.NullCells > 0 {
		fewest = 0
	}
	for _, n := range []struct {
		flag          string
		value, lowest int
	}{{"defects", c.Defects, fewest}, {"null", c.Null, 0}, {"null-cells", int(c.NullCells), 0}, {"generated", c.Generated, 0}, {"probes", c.Probes, 0}, {"every", c.Every, 1}} {
		if n.value < n.lowest {
			return usagef("--%s %d: want a number from %d", n.flag, n.value, n.lowest)
		}
	}
	for _, name := range c.Kinds {
		if _, ok := defects.ByName(name); !ok {
			return usagef("--kinds: no kind %q in the catalogue", name)
		}
	}
	var cases []*fuzz.Case
	if len(c.Cases) > 0 {
		var err error
		if cases, err = loadCases(c.Cases); err != nil {
			return err
		}
	}
	cases = append(cases, builtinPrograms(c.Seed, c.Generated)...)
	if err := checkOut(c.Out); err != nil {
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
	options, err := pool.SupportedOptions(a.ctx, found[0], []string{"xla_run_hlo_passes_starting_from"})
	if err != nil {
		return err
	}
	temp, err := a.scratch.dir()
	if err != nil {
		return err
	}
	res, err := selftest.Run(a.ctx, selftest.Config{
		Build: found[0], Runner: pool, Cases: cases, Defects: c.Defects, Kinds: c.Kinds, Null: c.Null, NullCells: c.NullCells, Seed: c.Seed, Workers: c.workers(), Budget: c.Budget,
		Probes: c.Probes, PassesOnly: c.PassesOnly, ExecuteEvery: c.Every, Resumes: options["xla_run_hlo_passes_starting_from"], Now: a.now, CPU: processorTime, TempDir: temp,
		Program: func(i int) *fuzz.Case {
			if i < len(cases) {
				return cases[i]
			}
			return nullProgram(c.Seed, i)
		},
		Progress: func(done, total int, o selftest.Outcome) {
			if c.JSON {
				said := "missed"
				if o.Detected {
					said = "detected"
				}
				a.emit(struct {
					Said string `json:"outcome"`
					selftest.Outcome
				}{said, o})
			} else if !o.Detected || done%20 == 0 {
				fmt.Fprintf(a.stderr, "%d of %d defects\n", done, total)
			}
		},
	})
	if res == nil {
		return err
	}
	if werr := writeSelftest(c.Out, res); werr != nil {
		return werr
	}
	if !c.JSON {
		printSelftest(a, res, c.Defects)
	}
	switch {
	case res.Failed:
		a.code = exitBlocked
	case err != nil || !res.Complete || !res.Trusted && c.Defects > 0:
		a.code = exitInconclusive
	}
	return nil
}

// builtinPrograms are the trigger patterns and generated programs.
func builtinPrograms(seed uint64, n int) []*fuzz.Case {
	var out []*fuzz.Case
	r := rand.New(rand.NewPCG(seed, 1))
	for _, p := range patterns.All() {
		if c, err := p.Program("pattern-"+p.Name, r); err == nil {
			out = append(out, c)
		}
	}
	for i := range n {
		if c, err := generate.Program(fmt.Sprintf("generated-%d", i), r, generate.Options{Size: 6 + i%20}); err == nil {
			out = append(out, c)
		}
	}
	return out
}

// nullProgram is generated program number i of the null.
func nullProgram(seed uint64, i int) *fuzz.Case {
	for again := uint64(2); ; again++ { // the generator gives up now and then
		r := rand.New(rand.NewPCG(seed+uint64(i)<<32, again))
		if c, err := generate.Program(fmt.Sprintf("null-%d", i), r, generate.Options{Size: 6 + i%20}); err == nil {
			return c
		}
	}
}

func writeSelftest(dir string, res *selftest.Result) error {
	data, err := json.MarshalIndent(res, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "selftest.json"), append(data, '\n'), 0o644)
}

func printSelftest(a *app, r *selftest.Result, asked int) {
	if asked > 0 {
		printDefects(a, r)
	}
	if v := r.Variants; v != nil {
		fmt.Fprintf(a.stdout, "the build against itself and legal variants of itself: %d programs, %d cells, %d alarms (95 %% interval %.3g to %.3g %%)\n", v.Programs, v.Cells, v.Alarms, 100*v.Interval[0], 100*v.Interval[1])
		for _, one := range v.Of {
			same := ""
			if one.Same {
				same = " (the build has none of its options)"
			}
			fmt.Fprintf(a.stdout, "  %s: %d cells, %d alarms%s\n", one.Name, one.Cells, one.Alarms, same)
		}
		for _, s := range v.Alarmed {
			fmt.Fprintf(a.stdout, "  alarm: %s\n", oneLine(s))
		}
		for _, s := range v.Corruption {
			fmt.Fprintf(a.stdout, "  memory: %s\n", oneLine(s))
		}
	}
	switch {
	case r.Trusted:
		fmt.Fprintln(a.stdout, "the gate can be trusted on this build")
	case r.Failed || asked > 0:
		fmt.Fprintf(a.stdout, "not enough to trust the gate on this build: %s\n", strings.Join(r.Why, "; "))
	}
	fmt.Fprintf(a.stdout, "%.1fs, of which %.1fs to choose and prove; processor time %.1fs, of which %.1fs\n", r.Timing.Seconds, r.Timing.ChooseSeconds, r.Timing.CPUSeconds, r.Timing.ChooseCPUSeconds)
}

// printDefects says what became of each class of defects, and names those that
// were missed or blamed wrongly.
func printDefects(a *app, r *selftest.Result) {
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "CLASS\tDETECTED\tRECALL\t95 % INTERVAL")
	row := func(name string, n selftest.Rate) {
		fmt.Fprintf(t, "%s\t%d/%d\t%.1f %%\t%.1f to %.1f %%\n", name, n.Hits, n.Of, 100*n.Share(), 100*n.Interval[0], 100*n.Interval[1])
	}
	for _, c := range r.Classes {
		row(c.Class, c.Recall)
	}
	row("all", r.Recall)
	row("exact", r.Exact)
	row("blamed on the right step", r.Step)
	row("blamed on the right instruction", r.Instruction)
	t.Flush()
	for _, o := range r.Defects {
		switch {
		case !o.Detected:
			fmt.Fprintf(a.stdout, "missed: %s in %s: %s\n", o.Defect, o.Case, oneLine(o.Detail))
		case !o.RightStep:
			fmt.Fprintf(a.stdout, "wrong step: %s in %s: blamed %v\n", o.Defect, o.Case, o.Blamed)
		case !o.RightInstruction:
			fmt.Fprintf(a.stdout, "wrong instruction: %s in %s: %v, planted %v\n", o.Defect, o.Case, o.BlamedInstruction, o.Names)
		}
	}
	fmt.Fprintf(a.stdout, "\n%d defects in %d programs (%d more changed no legal set, %d were refused by the build, %d made good by it)\n", len(r.Defects), r.Programs, r.Unproved, r.Refused, r.Undone)
	fmt.Fprintf(a.stdout, "median minimal program: %g instructions; reports per defect: %.2f; median time to detection: %.2fs\n", r.MedianMinimal, r.ReportsPerDefect, r.MedianSeconds)
	fmt.Fprintf(a.stdout, "nothing planted: %d runs, %d cells, %d false blocks, %d alarms\n", r.Null.Runs, r.Null.Cells, r.Null.Blocks, len(r.Null.Alarms))
	for _, s := range r.Null.Alarms {
		fmt.Fprintf(a.stdout, "  alarm: %s\n", oneLine(s))
	}
}
