package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/generate"
	"github.com/passgate/passgate/fuzz/patterns"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/release"
	"github.com/passgate/passgate/reports"
	"github.com/passgate/passgate/xla/builds"
)

// jobFlags describe a run over a corpus.
type jobFlags struct {
	policyFlags
	Base      string   `help:"The last release." required:"" placeholder:"SPEC"`
	Head      string   `help:"The candidate." required:"" placeholder:"SPEC"`
	Cases     []string `help:"The corpus: files or directories of cases (.case, .hlo)." sep:"none" placeholder:"DIR"`
	Programs  int      `help:"Generate this many programs beside them; their number and the seed say what they are." default:"0"`
	Probes    int      `help:"Smaller programs to try for each blocking finding." default:"400"`
	Null      int      `help:"Cases on which legal variants of base are judged against base." default:"50"`
	Cut       bool     `help:"Judge programs in pieces where the whole leaves too much open." default:"true" negatable:""`
	CutLimit  int      `help:"Largest program, in instructions, that is judged in pieces; 0 is no limit." default:"500" placeholder:"N"`
	CostRuns  int      `help:"Compilations of each case by each build that measure the time of a compilation; 0 for none." default:"3"`
	UnitCases int      `help:"Cases that are finished together; 0 is one, or as many as make 20,000 units." default:"0" name:"unit"`
}

// releaseCmd compares two builds over a corpus.
type releaseCmd struct {
	runFlags
	passesFlags
	jobFlags
	storeFlags
	Previous string `help:"release.json of the last release run, to compare with." placeholder:"FILE"`
	Restart  bool   `help:"Forget what an interrupted run has done."`
	Out      string `help:"Directory for the journal and the reports; run the same command again to go on after an interruption." default:"passgate-release" placeholder:"DIR"`
}

// journalName is the file of finished units in the directory of a release run.
const journalName = "journal"

func (c *releaseCmd) Run(a *app) error {
	previous, err := readPrevious(c.Previous)
	if err != nil {
		return err
	}
	if err := checkOut(c.Out); err != nil {
		return err
	}
	if err := c.prepare(a.ctx); err != nil {
		return err
	}
	job, found, err := c.job(a, c.runFlags, c.passesFlags)
	if err != nil {
		return err
	}
	run, err := a.openRun(job, found, c.workers(), c.Out, c.Restart)
	if err != nil {
		return err
	}
	defer run.close()
	report, end := a.unitProgress()
	err = run.work.Local(a.ctx, run.tally, run.journal, c.workers(), report)
	end()
	if err != nil {
		return err
	}
	return a.publish(run.tally, previous, c.Out, c.storeFlags)
}

// openRelease is a run with its journal.
type openRelease struct {
	work    *release.Work
	tally   *release.Tally
	journal *release.Journal
	done    []func()
}

func (r *openRelease) close() {
	for _, f := range slices.Backward(r.done) {
		f()
	}
}

// openRun makes a job ready in its directory and reads what was done before.
func (a *app) openRun(job *release.Job, found [3]*builds.Build, workers int, out string, restart bool) (*openRelease, error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	name := filepath.Join(out, journalName)
	if restart {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	r := &openRelease{}
	work, done, err := a.work(job, found, workers)
	if err != nil {
		r.close()
		return nil, err
	}
	r.done = append(r.done, done)
	r.work, r.tally = work, work.NewTally()
	r.journal, err = work.Resume(name, r.tally)
	if err != nil {
		r.close()
		var damaged *release.JournalError
		if errors.As(err, &damaged) {
			err = usagef("%v; --restart begins anew", damaged)
		}
		return nil, err
	}
	r.done = append(r.done, func() { r.journal.Close() }) // every record is on disk
	if n := r.tally.Progress.Resumed; n > 0 {
		fmt.Fprintf(a.stderr, "%d of %d units were done before\n", n, r.tally.Progress.Units)
	}
	return r, nil
}

// job makes the job of the flags and puts its builds on this machine: base, head
// and the witness, which may be nil.
func (f jobFlags) job(a *app, run runFlags, only passesFlags) (*release.Job, [3]*builds.Build, error) {
	var found [3]*builds.Build
	if err := run.check(); err != nil {
		return nil, found, err
	}
	if f.Programs < 0 || f.CostRuns < 0 || f.UnitCases < 0 || f.Null < 0 || f.Probes < 0 {
		return nil, found, usagef("--programs, --cost-runs, --null, --probes and --unit want numbers from 0")
	}
	rules, err := f.policy()
	if err != nil {
		return nil, found, err
	}
	if len(f.Cases) == 0 && f.Programs == 0 {
		return nil, found, usagef("want --cases or --programs")
	}
	cases, err := loadCases(f.Cases)
	if err != nil {
		return nil, found, err
	}
	if found, err = a.releaseBuilds(run.buildFlags, only, f.Base, f.Head); err != nil {
		return nil, found, err
	}
	made, err := programs(f.Programs, run.Seed, platformOf(found[0].Spec))
	if err != nil {
		return nil, found, err
	}
	j := release.NewJob(found[0], found[1], found[2], append(cases, made...))
	j.Seed, j.Timeout, j.Probes, j.NullCases, j.NoCut, j.CutLimit, j.PassesOnly = run.Seed, run.Timeout, f.Probes, f.Null, !f.Cut, f.CutLimit, only.PassesOnly
	j.UnitCases, j.CostRuns = cmp.Or(f.UnitCases, release.UnitOf(len(cases)+len(made))), f.CostRuns
	if rules != nil {
		j.PolicyFile, j.PolicyText = f.Policy, rules.Text
	}
	return j, found, nil
}

// releaseBuilds fetches base, head and, where nothing is executed, the witness.
func (a *app) releaseBuilds(terms buildFlags, only passesFlags, base, head string) (out [3]*builds.Build, err error) {
	specs := []string{base, head}
	if base == head {
		specs = specs[:1]
	}
	found, err := a.fetch(terms, specs...)
	if err != nil {
		return out, err
	}
	out[0], out[1] = found[0], found[len(found)-1]
	cfg := gate.Config{Base: out[0], Head: out[1]}
	if err := only.fill(a, terms, &cfg); err != nil {
		return out, err
	}
	out[2] = cfg.Witness
	return out, nil
}

// programs generates programs: in turns free ones and each trigger pattern of the
// platform inside a program. A number and a seed make the same programs.
func programs(n int, seed uint64, platform string) ([]*fuzz.Case, error) {
	all := patterns.On(platform)
	var out []*fuzz.Case
	for i := range n {
		o := generate.Options{Platform: platform}
		if i%2 == 1 && len(all) > 0 {
			o.Patterns = all[i/2%len(all) : i/2%len(all)+1]
		}
		c, err := generate.Program(fmt.Sprintf("generated-%06d", i), rand.New(rand.NewPCG(seed, uint64(i))), o)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// work makes a job ready on this machine; done releases what it holds.
func (a *app) work(job *release.Job, found [3]*builds.Build, workers int) (w *release.Work, done func(), err error) {
	cfg, err := job.Config(found[0], found[1], found[2])
	if err != nil {
		return nil, nil, err
	}
	if err := a.dumps(&cfg); err != nil {
		return nil, nil, err
	}
	pool, err := a.pool(workers, job.Timeout)
	if err != nil {
		return nil, nil, err
	}
	cfg.Runner, cfg.Now, cfg.Steps = pool, a.now, gate.ReadSteps
	if w, err = release.Prepare(a.ctx, job, cfg); err != nil {
		pool.Close()
		return nil, nil, err
	}
	return w, func() { pool.Close() }, nil
}

func readPrevious(name string) (*release.Report, error) {
	if name == "" {
		return nil, nil
	}
	data, err := readFile(name)
	if err != nil {
		return nil, err
	}
	r, err := release.ReadReport(name, data)
	if err != nil {
		return nil, &usageError{err}
	}
	return r, nil
}

// publish writes all reports on what is in the tally, remembers the findings, and
// sets the exit code.
func (a *app) publish(t *release.Tally, previous *release.Report, out string, remember storeFlags) error {
	res, report, err := t.Result(a.now(), previous)
	if err != nil {
		return err
	}
	if err := remember.record(context.WithoutCancel(a.ctx), a.now(), res); err != nil {
		return err
	}
	if err := reports.Write(out, res); err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	data, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"release.json": append(data, '\n'), "release.md": []byte(report.Markdown())} {
		if err := os.WriteFile(filepath.Join(out, name), text, 0o644); err != nil {
			return err
		}
	}
	a.printResult(a.stdout, res, out)
	a.code = res.Verdict.ExitCode()
	return nil
}

// unitProgress returns a function to call after every unit and one for the end.
func (a *app) unitProgress() (report func(release.Progress), done func()) {
	cases, done := a.caseProgress()
	return func(p release.Progress) {
		cases(gate.Progress{Done: p.Done, Total: p.Units, Findings: p.Findings, News: p.News})
	}, done
}
