package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
	"github.com/passgate/passgate/triage/versions"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// bisectVersionsCmd finds the version in which a case began or stopped to fail.
type bisectVersionsCmd struct {
	runFlags
	PassesOnly bool     `help:"Compile up to code generation and judge every pass step; execute nothing. Compile-only builds are always used so."`
	Case       string   `help:"The case." required:"" placeholder:"CASE"`
	From       string   `help:"First build, e.g. jaxlib:0.4.30." required:"" placeholder:"SPEC"`
	To         string   `help:"Last build." required:"" placeholder:"SPEC"`
	Through    []string `help:"The builds between, in order; without it the released versions that pip knows of." placeholder:"SPEC" sep:"none"`
	Cached     bool     `help:"Only versions that are on this machine already."`
	Every      bool     `help:"Try every version and name every change."`
	Runs       int      `help:"Fresh processes per version." default:"3"`
	MaxRuns    int      `help:"Most processes for a version that looks good, if the fault does not show every time." default:"30"`
	Confidence float64  `help:"Probability that a bad version is seen, at which a flaky fault gets no more runs." default:"0.99"`
	JSON       bool     `help:"Print one JSON object per version, and one for the answer."`
}

// versionLine is the --json line of a version.
type versionLine struct {
	line
	Right  int `json:"right"`
	Wrong  int `json:"wrong"`
	Broken int `json:"crashed"`
}

// changeLine is the --json line of a change: outcome is first-bad or first-good.
type changeLine struct {
	line
	// Before is the last build known before the change, Candidates those in one
	// of which it came.
	Before     string   `json:"before"`
	Candidates []string `json:"candidates"`
	Confidence float64  `json:"confidence"`
}

func (c *bisectVersionsCmd) Run(a *app) error {
	if err := c.runFlags.check(); err != nil {
		return err
	}
	if c.Runs < 1 || c.MaxRuns < c.Runs {
		return usagef("--runs %d --max-runs %d: want 1 <= runs <= max-runs", c.Runs, c.MaxRuns)
	}
	if !(c.Confidence > 0 && c.Confidence < 1) {
		return usagef("--confidence %g: want a number between 0 and 1", c.Confidence)
	}
	cases, err := loadCases([]string{c.Case})
	if err != nil {
		return err
	}
	if len(cases) != 1 {
		return usagef("--case %s: %d cases, want one", c.Case, len(cases))
	}
	specs, store, err := c.specs(a)
	if err != nil {
		return err
	}
	pool, err := a.pool(c.workers(), c.Timeout)
	if err != nil {
		return err
	}
	defer pool.Close()
	cfg := gate.Config{Runner: freshRunner{pool}, Now: a.now, Seed: c.Seed, Timeout: c.Timeout, PassesOnly: c.PassesOnly}
	if err := a.dumps(&cfg); err != nil {
		return err
	}
	try := func(ctx context.Context, i, runs int) (versions.Observation, error) {
		var o versions.Observation
		b, err := store.Fetch(ctx, specs[i])
		var terms *builds.TermsError
		switch {
		case ctx.Err() != nil:
			return o, ctx.Err()
		case errors.As(err, &terms):
			return o, err
		case err != nil:
			o.Unknown = err.Error()
			return o, nil
		}
		for range runs {
			r := gate.Replay(ctx, cfg, b, cases[0])
			if ctx.Err() != nil {
				return o, ctx.Err()
			}
			switch {
			case r.Outcome == gate.Right:
				o.Right++
			case r.Outcome == gate.Crashed || r.Outcome == gate.Hung:
				o.Broken++
			case r.Outcome.Bad():
				o.Wrong++
			default:
				o.Unknown = strings.TrimSuffix(string(r.Outcome)+": "+r.Detail, ": ")
			}
		}
		a.say(c.JSON, "%s: %s\n", specs[i].Text, tally(o))
		return o, nil
	}
	found, err := versions.Search(a.ctx, len(specs), try, versions.Options{Runs: c.Runs, MaxRuns: c.MaxRuns, Confidence: c.Confidence, Every: c.Every})
	if errors.Is(err, versions.ErrNothing) {
		return fmt.Errorf("%s: %w", c.Case, err)
	}
	if err != nil {
		return err
	}
	return c.print(a, cases[0].Name, specs, found)
}

// freshRunner gives every request a process of its own: a version's runs are
// independent of each other.
type freshRunner struct{ *worker.Pool }

func (r freshRunner) Do(ctx context.Context, b *builds.Build, q worker.Request) worker.Outcome {
	return r.DoFresh(ctx, b, q)
}

// say prints a line of progress to standard error unless quiet.
func (a *app) say(quiet bool, format string, args ...any) {
	if !quiet {
		fmt.Fprintf(a.stderr, format, args...)
	}
}

// specs are the builds from From to To.
func (c *bisectVersionsCmd) specs(a *app) ([]builds.Spec, *builds.Store, error) {
	out, store, err := a.specs(append(append([]string{c.From}, c.Through...), c.To), c.AcceptTerms)
	if err != nil {
		return nil, nil, err
	}
	if len(c.Through) > 0 {
		return out, store, nil
	}
	out, err = store.Versions(a.ctx, out[0], out[1], c.Cached)
	var spec *builds.SpecError
	if errors.As(err, &spec) {
		err = usagef("%w; name the builds between with --through", err)
	}
	return out, store, err
}

// tally says what a version's runs gave.
func tally(o versions.Observation) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{o.Right, "right"}, {o.Wrong, "wrong"}, {o.Broken, "crashed"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if o.Unknown != "" {
		parts = append(parts, reports.Neutral(shorten(o.Unknown, 120), 200))
	}
	return strings.Join(parts, ", ")
}

func (c *bisectVersionsCmd) print(a *app, name string, specs []builds.Spec, found *versions.Answer) error {
	untried := 0
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	for i, v := range found.Versions {
		if v.State == versions.Untried {
			untried++
			continue
		}
		if !c.JSON {
			fmt.Fprintf(t, "%s\t%s\t%s\n", specs[i].Text, v.State, tally(v.Observation))
			continue
		}
		l := versionLine{line: line{Case: name, Build: specs[i].Text, Outcome: string(v.State), Detail: v.Unknown}, Right: v.Right, Wrong: v.Wrong, Broken: v.Broken}
		if err := a.emit(l); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if !c.JSON && untried > 0 {
		what := "versions were"
		if untried == 1 {
			what = "version was"
		}
		fmt.Fprintf(a.stdout, "%d %s not needed\n", untried, what)
	}
	if len(found.Changes) == 0 {
		text := "every version that was tried is right"
		if found.Symptom != "" {
			text = "every version that was tried is bad"
		}
		if c.JSON {
			return a.emit(line{Case: name, Outcome: "no-change", Detail: text})
		}
		fmt.Fprintf(a.stdout, "%s: no change: %s\n", name, text)
		return nil
	}
	for _, ch := range found.Changes {
		l := changeLine{line: line{Case: name, Build: specs[ch.After].Text, Outcome: "first-good"}, Before: specs[ch.Before].Text, Confidence: ch.Confidence}
		if ch.Bad {
			l.Outcome = "first-bad"
		}
		for i := ch.Before + 1; i <= ch.After; i++ {
			l.Candidates = append(l.Candidates, specs[i].Text)
		}
		l.Detail = fmt.Sprintf("the change is between %s and %s", l.Before, l.Build)
		if c.JSON {
			if err := a.emit(l); err != nil {
				return err
			}
			continue
		}
		what := strings.ReplaceAll(l.Outcome, "-", " ")
		if len(l.Candidates) > 1 {
			what += " is one of"
		}
		fmt.Fprintf(a.stdout, "%s: %s: %s (before: %s), confidence %.3f\n", name, what, strings.Join(l.Candidates, ", "), l.Before, l.Confidence)
	}
	return nil
}
