package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
)

// checkCmd is the gate.
type checkCmd struct {
	runFlags
	passesFlags
	changeFlags
	policyFlags
	exploreFlags
	storeFlags
	Base        string        `help:"Build before the change." required:"" placeholder:"SPEC"`
	Head        string        `help:"Build after the change." required:"" placeholder:"SPEC"`
	Cases       []string      `help:"Files or directories of cases (.case, .hlo). With passes in focus they may be left out." sep:"none" placeholder:"DIR"`
	Passes      []string      `help:"Passes in focus, instead of a change." placeholder:"NAME" xor:"change"`
	Budget      time.Duration `help:"Time for the cases and, with passes in focus, for exploring programs that make them fire; 0 is no limit and, with cases given, no exploration." default:"0s"`
	Probes      int           `help:"Smaller programs to try for each blocking finding." default:"400"`
	MinimiseAll bool          `help:"Try smaller programs for every finding, blocking or not."`
	Null        int           `help:"Cases on which legal variants of base are judged against base, for the false-alarm rate." default:"10"`
	Shard       string        `help:"Run only every Nth case, from the Ith." placeholder:"I/N"`
	Cut         bool          `help:"Judge programs in pieces where the whole leaves too much open." default:"true" negatable:""`
	CutLimit    int           `help:"Largest program, in instructions, that is judged in pieces; 0 is no limit." default:"0" placeholder:"N"`
	CutWork     int64         `help:"Work on the pieces of one program, in steps of the reference; what it leaves out is counted and named. 0 is no limit." default:"16777216" placeholder:"N"`
	Out         string        `help:"Directory for the reports." default:"passgate-out" placeholder:"DIR"`
	JSON        bool          `help:"Print one JSON object per case."`
	// keep picks cases by name; nil keeps all.
	keep func(name string) bool
	// replay leaves out exploration, whatever the budget: the cases are all.
	replay bool
	// alone says that no merge follows on a shard.
	alone bool
}

func (c *checkCmd) Run(a *app) error {
	if err := c.prepare(a.ctx); err != nil {
		return err
	}
	res, err := c.run(a)
	if err != nil {
		return err
	}
	if err := c.record(a.ctx, a.now(), res); err != nil {
		return err
	}
	if err := reports.Write(c.Out, res); err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	if !c.JSON {
		a.printResult(a.stdout, res, c.Out)
	}
	a.code = res.Verdict.ExitCode()
	return nil
}

// run runs the gate; nothing is written.
func (c *checkCmd) run(a *app) (*gate.Result, error) {
	if err := c.runFlags.check(); err != nil {
		return nil, err
	}
	rules, err := c.policy()
	if err != nil {
		return nil, err
	}
	c.limits(rules)
	cfg := gate.Config{Policy: rules, Seed: c.Seed, Workers: c.workers(), Timeout: c.Timeout, Budget: c.Budget, Probes: c.Probes, MinimiseAll: c.MinimiseAll, NullCases: c.Null, NoCut: !c.Cut, CutLimit: c.CutLimit, CutWork: c.CutWork, Now: a.now}
	if cfg.Shard, cfg.Shards, err = parseShard(c.Shard); err != nil {
		return nil, err
	}
	cfg.Alone = c.alone
	aim, err := c.targeted(a, c.Passes)
	if err != nil {
		return nil, err
	}
	cfg.Passes, cfg.NoPass = aim.focus, aim.changed && len(aim.focus) == 0
	if len(c.Cases) == 0 && len(aim.focus) == 0 {
		return nil, usagef("want --cases, or a change to explore for: --diff, --changed-files, --from or --passes")
	}
	if cfg.Cases, err = loadCases(c.Cases); err != nil {
		return nil, err
	}
	if c.keep != nil {
		cfg.Cases = slices.DeleteFunc(cfg.Cases, func(k *fuzz.Case) bool { return !c.keep(k.Name) })
		if len(cfg.Cases) == 0 {
			return nil, usagef("no case has a name that was asked for")
		}
	}
	if rules != nil && rules.Limits.Cases > 0 && len(cfg.Cases) > rules.Limits.Cases {
		cfg.Cases = cfg.Cases[:rules.Limits.Cases]
	}
	if err := checkOut(c.Out); err != nil {
		return nil, err
	}
	found, err := a.fetch(c.buildFlags, c.Base, c.Head)
	if err != nil {
		return nil, err
	}
	cfg.Base, cfg.Head = found[0], found[1]
	if err := c.passesFlags.fill(a, c.buildFlags, &cfg); err != nil {
		return nil, err
	}
	if !c.replay && len(aim.focus) > 0 && (c.Budget > 0 || c.MaxCases > 0 || len(c.Cases) == 0) {
		budget := c.Budget
		if budget == 0 && c.MaxCases == 0 {
			budget = exploreBudget
		}
		if err := c.plan(a, aim, c.Checkout, &cfg, budget); err != nil {
			return nil, err
		}
	}
	pool, err := a.pool(c.workers(), c.Timeout)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	cfg.Runner = pool
	cfg.Steps = gate.ReadSteps
	report, done := a.caseProgress()
	cfg.Progress = func(p gate.Progress) {
		if c.JSON {
			a.emit(line{Case: p.Case.ID, Outcome: string(p.Case.Outcome), Detail: p.Case.Detail})
		}
		report(p)
	}
	res, err := gate.Run(a.ctx, cfg)
	done()
	return res, err
}

func parseShard(s string) (i, n int, err error) {
	if s == "" {
		return 0, 0, nil
	}
	left, right, ok := strings.Cut(s, "/")
	i, err1 := strconv.Atoi(left)
	n, err2 := strconv.Atoi(right)
	if !ok || err1 != nil || err2 != nil || i < 1 || i > n {
		return 0, 0, usagef("--shard %s: want I/N with 1 <= I <= N", s)
	}
	return i, n, nil
}

// exploreBudget is the time of a check that gets neither cases nor a limit.
const exploreBudget = 5 * time.Minute

// checkOut finds out before the run whether the reports can be written: it makes
// the directory and a file in it, and removes both if they were not there.
func checkOut(dir string) error {
	var made []string
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return usagef("--out %s: %s is not a directory", dir, at)
		}
		if err == nil || at == filepath.Dir(at) {
			break
		}
		made = append(made, at)
	}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(dir, ".passgate-"); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	for _, at := range made {
		_ = os.Remove(at) // one that was not made
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return usagef("--out %s: %v", dir, path.Err)
	}
	return err
}

// printResult prints the findings and the verdict.
func (a *app) printResult(w io.Writer, r *gate.Result, out string) {
	colours := a.paint(w)
	if len(r.Findings) > 0 {
		var table strings.Builder
		t := tabwriter.NewWriter(&table, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "CASE\tCLASS\tSTATUS\tINPUTS\tWRONG\tFIRST")
		for _, f := range r.Findings {
			status := string(f.Status)
			if f.Blocking {
				status += " (blocks)"
			}
			inputs := f.Stream
			if f.Flags == gate.DefaultFlags {
				inputs += ", default flags"
			}
			wrong, first := "", f.Said()
			if f.Elements > 0 {
				wrong = fmt.Sprintf("%d/%d", f.Wrong, f.Elements)
				first = fmt.Sprintf("%s%v base %s, head %s, legal %s", f.Output, f.First.At, f.First.Base, f.First.Head, f.First.Legal)
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", oneLine(f.Case), f.Class, status, inputs, wrong, shorten(first, 100))
		}
		t.Flush()
		for i, l := range strings.Split(table.String(), "\n") {
			colour := 0
			if i > 0 && i <= len(r.Findings) {
				colour = findingColour(&r.Findings[i-1])
			}
			fmt.Fprintln(w, colours.in(colour, l))
		}
	}
	t := r.Totals
	if s := r.Steps; s != nil {
		fmt.Fprintf(w, "pass steps: base %d, head %d, of which %d aligned at the start are the same; %d judged (%d without a second evaluation), %d legal by rule, %d undecided, %d unknown\n",
			s.Base, s.Head, s.Aligned, s.Judged, s.Shared, s.ByRule, s.Undecided, s.Unknown)
		for _, why := range slices.Sorted(maps.Keys(s.UnknownBy)) {
			fmt.Fprintf(w, "  %d unknown: %s\n", s.UnknownBy[why], oneLine(why))
		}
		for _, why := range s.Reasons {
			fmt.Fprintf(w, "  unknown: %s\n", oneLine(why))
		}
	}
	printExploration(w, r)
	judged := ""
	if t.PassesOnly > 0 {
		judged = fmt.Sprintf("%d passes only, ", t.PassesOnly)
	}
	fmt.Fprintf(w, "%d cases: %d executed, %s%d unsupported, %d rejected, %d skipped, %d lost to the machine\n", t.Cases, t.Executed, judged, t.Unsupported, t.Rejected, t.Skipped, t.Infrastructure)
	fmt.Fprintf(w, "%d elements judged, %d undecided, in %.1fs with %d workers (%.0f%% inside XLA)\n", t.JudgedElements, t.UndecidedElements, r.Timing.Seconds, r.Timing.Workers,
		100*r.Timing.InXLASeconds/max(1e-9, r.Timing.Seconds*float64(r.Timing.Workers)))
	if m := r.Memory; m != nil {
		fmt.Fprintf(w, "memory: buffer assignments of %d programs checked, runs of %d examined (%d arguments between guard pages), %d run after others and in fresh processes; %d alarms\n",
			m.Placed, m.Programs, m.Arguments, m.Past, r.MemoryAlarms())
	}
	printCut(w, r.Cut)
	for _, s := range r.Reasons {
		fmt.Fprintf(w, "- %s\n", oneLine(s))
	}
	if out != "" {
		fmt.Fprintf(w, "reports in %s\n", out)
	}
	fmt.Fprintf(w, "verdict: %s\n", colours.in(verdictColour(r.Verdict), string(r.Verdict)))
}

// printCut prints what was judged in pieces, level by level.
func printCut(w io.Writer, c *gate.CutCounts) {
	if c == nil {
		return
	}
	fmt.Fprintf(w, "judged in pieces: %d programs; %d of %d pass steps by what they changed\n", c.InPieces(), c.JudgedSteps, c.Steps)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, l := range c.Levels {
		fmt.Fprintf(t, "  %s\t%d pieces\t%d elements judged\t%d with wide bounds\t%d undecided\t%d wrong\t%d pieces unsupported\n",
			l.Level, l.Pieces, l.JudgedElements, l.WideElements, l.UndecidedElements, l.WrongElements, l.Unsupported)
	}
	t.Flush()
	for _, why := range c.Reasons {
		fmt.Fprintf(w, "  not judged: %s\n", oneLine(why))
	}
}

// oneLine is foreign text on one line, with nothing in it that a terminal obeys.
func oneLine(s string) string { return reports.Neutral(s, math.MaxInt) }

func shorten(s string, n int) string {
	s = oneLine(s)
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}
