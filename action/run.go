package action

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/passgate/passgate/action/runner"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
)

// Job is the runner of the job; *runner.Runner is one.
type Job interface {
	SetOutput(name, value string) error
	AddStepSummary(markdown string) error
	Noticef(at runner.Place, format string, args ...any)
	Warningf(at runner.Place, format string, args ...any)
	Errorf(at runner.Place, format string, args ...any)
	Infof(format string, args ...any)
	Foreign(func(io.Writer)) error
}

// Config are the settings of a run. Fields without a comment on their zero
// value are required.
type Config struct {
	Event *Event
	Job   Job
	// GitHub is nil where the job has no token.
	GitHub GitHub
	Git    Git
	// Check runs the gate on a change. log takes what compilers say.
	Check func(ctx context.Context, c Change, log io.Writer) (*gate.Result, error)
	// ExitCode is the exit code of an error of Check.
	ExitCode func(error) int
	// Base and Head are the specs of the builds, for a result without one.
	Base, Head string
	// Shard is I/N, for a result without one; "" is no shard.
	Shard string
	// Out is the directory of the reports.
	Out string
	// Root is the folder of XLA's source tree in the repository.
	Root string
	// Author is the login that comments are written under.
	Author string
	// CheckName is the name of the check run; "" makes none. It differs from
	// the job's name, which is the check that a merge may require.
	CheckName string
	// Comment and SARIF say whether to comment and to upload to code scanning.
	Comment, SARIF bool
	// FailOn are the verdicts that fail the job.
	FailOn []gate.Verdict
	// Saying is a context for what is said after ctx has ended: a job that is
	// cancelled has some seconds left.
	Saying func() (context.Context, context.CancelFunc)
}

// Outcome is what a job ends with.
type Outcome struct {
	Result *gate.Result
	Code   int
}

// Run does the work of one job: finds out what changed, runs the gate, and says
// the verdict in every way that the token allows. There is always a verdict; what
// cannot be said is a warning in the log.
func Run(ctx context.Context, cfg Config) (*Outcome, error) {
	change := Changed(ctx, cfg.Event, cfg.GitHub, cfg.Git, cfg.Root)
	cfg.Job.Infof("passgate on %s, head %s: %s", cfg.Event.Kind, cfg.Event.Head, change.Source)
	var res *gate.Result
	var failed error
	if err := cfg.Job.Foreign(func(log io.Writer) { res, failed = cfg.Check(ctx, change, log) }); err != nil {
		return nil, err
	}
	out := &Outcome{Result: res}
	switch {
	case failed != nil:
		out.Result = lost(cfg.Base, cfg.Head, failed, ctx.Err() != nil)
		out.Result.Shard = cfg.Shard
		out.Code = cfg.ExitCode(failed)
	case slices.Contains(cfg.FailOn, res.Verdict):
		out.Code = res.Verdict.ExitCode()
	}
	if failed == nil {
		out.Result.Reasons = append(out.Result.Reasons, change.Source)
	}
	if err := reports.Write(cfg.Out, out.Result); err != nil {
		return nil, fmt.Errorf("reports: %w", err)
	}
	if !filepath.IsAbs(cfg.Out) { // a path of the runner says nothing to a reader
		out.Result.Dir = cfg.Out
	}
	say := cfg.Saying
	if ctx.Err() == nil {
		say = func() (context.Context, context.CancelFunc) { return ctx, func() {} }
	}
	saying, cancel := say()
	defer cancel()
	if err := cfg.local(out.Result); err != nil {
		return nil, err
	}
	cfg.remote(saying, out.Result, change, ctx.Err() != nil)
	return out, nil
}

// lost is the result of a run that has none.
func lost(base, head string, err error, interrupted bool) *gate.Result {
	why := err.Error()
	if interrupted {
		why = "interrupted: " + why
	}
	return &gate.Result{Schema: gate.Schema, Verdict: gate.Inconclusive, Reasons: []string{why},
		Base: gate.Build{Spec: base, Kind: "executable"}, Head: gate.Build{Spec: head, Kind: "executable"},
		Passes: []gate.PassResult{}, Cases: []gate.CaseResult{}, Findings: []gate.Finding{},
		Statistics: gate.Statistics{Cells: []gate.Cell{}, Null: gate.Null{Interval: [2]float64{0, 1}}}}
}

// local says the verdict on the runner: outputs, job summary.
func (cfg *Config) local(r *gate.Result) error {
	for _, o := range []struct{ name, value string }{
		{"verdict", string(r.Verdict)},
		{"findings", fmt.Sprint(len(r.Findings))},
		{"new-findings", fmt.Sprint(news(r))},
		{"out", cfg.Out},
		{"result", filepath.Join(cfg.Out, "result.json")},
		{"report", filepath.Join(cfg.Out, "report.html")},
		{"sarif", filepath.Join(cfg.Out, "results.sarif")},
		{"junit", filepath.Join(cfg.Out, "junit.xml")},
	} {
		if err := cfg.Job.SetOutput(o.name, o.value); err != nil {
			return err
		}
	}
	summary, err := reports.Render(reports.Summary, r)
	if err != nil {
		return err
	}
	if err := cfg.Job.AddStepSummary(string(summary)); err != nil {
		cfg.Job.Warningf(runner.Place{}, "no job summary: %v", err)
	}
	return nil
}

// remote says the verdict on GitHub. Nothing that fails here changes it.
func (cfg *Config) remote(ctx context.Context, r *gate.Result, change Change, interrupted bool) {
	notes := annotations(r, change)
	checked := false
	if cfg.GitHub != nil {
		checked = cfg.check(ctx, r, notes, interrupted)
		if cfg.Comment && cfg.Event.Kind == PullRequest {
			cfg.try("comment", stick(ctx, cfg.GitHub, cfg.Event, cfg.Author, r))
		}
		if cfg.SARIF {
			cfg.try("upload to code scanning", upload(ctx, cfg.GitHub, cfg.Event, r))
		}
	}
	if !checked {
		cfg.commands(notes)
	}
	text := fmt.Sprintf("passgate: %s: %s", r.Verdict, r.Reasons[0])
	switch r.Verdict {
	case gate.Pass:
		cfg.Job.Infof("%s", text)
	case gate.NotExercised:
		cfg.Job.Warningf(runner.Place{}, "%s", text)
	default:
		cfg.Job.Errorf(runner.Place{}, "%s", text)
	}
}

// try logs what did not work. A token that may only read is no surprise for a
// fork.
func (cfg *Config) try(what string, err error) {
	switch {
	case err == nil:
	case errors.Is(err, errSuperseded):
		cfg.Job.Infof("no %s: %v", what, err)
	case Denied(err) && cfg.Event.Fork:
		cfg.Job.Infof("no %s: the token of a fork's pull request only reads; the publishing half will do it", what)
	case Denied(err):
		cfg.Job.Warningf(runner.Place{}, "no %s: the token may not (%v); give the job the permission or switch it off", what, err)
	default:
		cfg.Job.Warningf(runner.Place{}, "no %s: %v", what, err)
	}
}

func (cfg *Config) check(ctx context.Context, r *gate.Result, notes []Note, interrupted bool) bool {
	if cfg.CheckName == "" {
		return false
	}
	c, err := checkOf(cfg.CheckName, cfg.Event, r, few(notes))
	if err == nil {
		if interrupted && r.Verdict == gate.Inconclusive {
			c.Conclusion = "cancelled"
		}
		err = cfg.GitHub.CreateCheck(ctx, c)
	}
	cfg.try("check", err)
	return err == nil
}

// checkOf is the check run of a result. It is made finished, in one request, so
// it can never be left pending; and never `neutral` or `skipped`, which count as
// success for a merge.
func checkOf(name string, e *Event, r *gate.Result, notes []Note) (Check, error) {
	text, err := reports.Render(reports.Comment, r)
	if err != nil {
		return Check{}, err
	}
	conclusion := map[gate.Verdict]string{gate.Pass: "success", gate.Blocked: "failure"}[r.Verdict]
	if conclusion == "" {
		conclusion = "action_required"
	}
	return Check{Name: name, Head: e.Head, Conclusion: conclusion, Title: reports.Title(r), Summary: string(text), DetailsURL: e.RunURL, Notes: notes}, nil
}

// maxNotes is what GitHub takes in one request
// (docs.github.com/rest/checks, "Create a check run").
const maxNotes = 50

// annotations are notes on the changed lines of the guilty passes: blocking
// findings first.
func annotations(r *gate.Result, change Change) []Note {
	var out []Note
	for _, blocking := range []bool{true, false} {
		for _, f := range r.Findings {
			if f.Blocking != blocking || f.Status != gate.New || f.Pass == nil {
				continue
			}
			file, line, ok := change.place(f.Pass.Name)
			if !ok {
				continue
			}
			level := "warning"
			if f.Blocking {
				level = "failure"
			}
			out = append(out, Note{file, line, level, reports.Neutral(fmt.Sprintf("passgate: %s in %s", f.Class, f.Pass.Name), 200), reports.Neutral(reports.Sentence(&f), 2000)})
		}
	}
	return out
}

// few are as many notes as a check run takes; the last one counts the others.
func few(notes []Note) []Note {
	if len(notes) <= maxNotes {
		return notes
	}
	out := slices.Clone(notes[:maxNotes])
	last := &out[maxNotes-1]
	last.Title = "passgate: more findings"
	last.Message = fmt.Sprintf("%d more findings are in the report: GitHub takes %d annotations.", len(notes)-maxNotes+1, maxNotes)
	return out
}

// maxCommands is how many annotations of one kind a step may make by commands.
const maxCommands = 10

// commands annotates through the log where there is no check run.
func (cfg *Config) commands(notes []Note) {
	for i, n := range notes {
		if i == maxCommands-1 && len(notes) > maxCommands {
			cfg.Job.Warningf(runner.Place{}, "%d more annotations are in the report", len(notes)-i)
			return
		}
		at := runner.Place{File: n.File, Line: n.Line}
		if n.Level == "failure" {
			cfg.Job.Errorf(at, "%s: %s", n.Title, n.Message)
		} else {
			cfg.Job.Warningf(at, "%s: %s", n.Title, n.Message)
		}
	}
}

// upload sends SARIF to code scanning: gzip, then base64.
func upload(ctx context.Context, gh GitHub, e *Event, r *gate.Result) error {
	text, err := reports.Render(reports.SARIF, r)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(text) // to memory
	z.Close()
	return gh.UploadSARIF(ctx, e.Head, e.Ref, base64.StdEncoding.EncodeToString(b.Bytes()))
}
