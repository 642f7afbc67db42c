package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
	"github.com/passgate/passgate/xla/builds"
)

// bisectCmd names the guilty pass step of what one build gets wrong.
type bisectCmd struct {
	runFlags
	passesFlags
	Build string   `help:"Build to bisect." required:"" placeholder:"SPEC"`
	Cases []string `arg:"" name:"case" help:"Files or directories of cases."`
	JSON  bool     `help:"Print one JSON object per case."`
}

// bisectLine is what bisect says of a case: outcome is the level (hlo, emitter,
// library, abort), "unknown" or "right".
type bisectLine struct {
	line
	Class        gate.Class        `json:"class,omitempty"`
	Pass         *gate.PassStep    `json:"pass,omitempty"`
	EnabledBy    *gate.PassStep    `json:"enabled_by,omitempty"`
	Instruction  string            `json:"instruction,omitempty"`
	Location     *gate.Location    `json:"location,omitempty"`
	Evidence     []gate.Evidence   `json:"evidence,omitempty"`
	Disagreement string            `json:"disagreement,omitempty"`
	Culprits     []gate.Culprit    `json:"culprits,omitempty"`
	FailureRate  *gate.FailureRate `json:"failure_rate,omitempty"`
}

func (c *bisectCmd) Run(a *app) error {
	return a.investigate(c.runFlags, c.passesFlags, c.Cases, []string{c.Build, c.Build}, 0, func(k *fuzz.Case, f *gate.Finding, err error) error {
		l := bisectLine{line: line{Case: k.Name, Build: c.Build}}
		if err != nil {
			l.Outcome, l.Detail = "right", err.Error()
		} else {
			l.Outcome, l.Detail, l.Class = string(f.Level), f.Detail, f.Class
			l.Pass, l.EnabledBy, l.Instruction, l.Location = f.Pass, f.EnabledBy, f.Instruction, f.Location
			l.Evidence, l.Disagreement, l.Culprits, l.FailureRate = f.Evidence, f.Disagreement, f.Culprits, f.FailureRate
			if l.Outcome == "" {
				l.Outcome = "unknown"
			}
		}
		if c.JSON {
			return a.emit(l)
		}
		fmt.Fprintf(a.stdout, "%s: %s", k.Name, l.Outcome)
		if f != nil {
			fmt.Fprintf(a.stdout, " (%s)", f.Class)
		}
		fmt.Fprintln(a.stdout)
		if err != nil {
			return nil
		}
		printBisection(a.stdout, f)
		return nil
	})
}

func printBisection(w io.Writer, f *gate.Finding) {
	if f.Pass != nil {
		fmt.Fprintf(w, "  pass:        %s\n", f.Pass)
	}
	if f.EnabledBy != nil {
		fmt.Fprintf(w, "  enabled by:  %s\n", f.EnabledBy)
	}
	printLocation(w, f.Instruction, f.Location)
	fmt.Fprintf(w, "  blame:       %s\n", reports.Blame(f))
	if f.Disagreement != "" {
		fmt.Fprintf(w, "  DISAGREE:    %s\n", oneLine(f.Disagreement))
	}
	if f.FailureRate != nil {
		fmt.Fprintf(w, "  flaky:       %s\n", f.FailureRate.Text())
	}
	fmt.Fprintf(w, "  %s\n", oneLine(f.Detail))
	for i, c := range f.Culprits {
		fmt.Fprintf(w, "  culprit %d of %d: %s (%s)\n", i+1, len(f.Culprits), c.Pass.String(), c.Level)
		if c.Elements > 0 {
			fmt.Fprintf(w, "    %d of %d elements changed, first output %s%v: %s, should be %s\n", c.Wrong, c.Elements, c.Output, c.At, c.After, c.Before)
		}
		if i == 0 {
			continue // said above
		}
		if c.EnabledBy != nil {
			fmt.Fprintf(w, "    enabled by:  %s\n", c.EnabledBy)
		}
		printLocation(prefixed{w, "  "}, c.Instruction, c.Location)
		for _, e := range c.Evidence {
			fmt.Fprintf(w, "    witness:     %s\n", reports.Testimony(&e, oneLine))
		}
	}
}

func printLocation(w io.Writer, instruction string, loc *gate.Location) {
	if loc == nil {
		return
	}
	note := ""
	if loc.InPlace {
		note = ", updates a buffer in place"
	}
	fmt.Fprintf(w, "  instruction: %s (%s%s) in %s\n", instruction, loc.Opcode, note, loc.Computation)
	if loc.Inside != "" {
		fmt.Fprintf(w, "  inside:      %s (%s)\n", loc.Inside, loc.InsideOpcode)
	}
	if loc.After != "" {
		fmt.Fprintf(w, "  became:      %s (%s)\n", loc.After, loc.AfterOpcode)
	}
	if loc.LegalBefore != "" {
		fmt.Fprintf(w, "  value:       %s, should be %s\n", loc.LegalAfter, loc.LegalBefore)
	}
	if cause := reports.Cause(loc); cause != "" {
		fmt.Fprintf(w, "  cause:       %s\n", oneLine(cause))
	}
	if loc.Source != "" {
		fmt.Fprintf(w, "  source:      %s\n", loc.Source)
	}
}

// prefixed puts a text before each line that is written; each Write is one line.
type prefixed struct {
	io.Writer
	prefix string
}

func (p prefixed) Write(b []byte) (int, error) {
	_, err := p.Writer.Write(append([]byte(p.prefix), b...))
	return len(b), err
}

// reduceCmd finds the smallest failing program.
type reduceCmd struct {
	runFlags
	passesFlags
	Base   string `help:"Build before the change." required:"" placeholder:"SPEC"`
	Head   string `help:"Build after the change." required:"" placeholder:"SPEC"`
	Case   string `arg:"" name:"case" help:"The case."`
	Probes int    `help:"Most programs to try." default:"2000"`
	Out    string `help:"File for the small case; standard output if not given." placeholder:"FILE"`
	JSON   bool   `help:"Print one JSON object; it holds the small case if --out is not given."`
}

// reduceLine is what reduce says of a case: outcome is the status of its finding.
type reduceLine struct {
	line
	Class gate.Class `json:"class"`
	// Instructions of the small program, From those of the case.
	Instructions int    `json:"instructions"`
	From         int    `json:"from"`
	Minimal      string `json:"minimal_case,omitempty"`
}

func (c *reduceCmd) Run(a *app) error {
	if c.Probes < 1 {
		return usagef("--probes %d: want a number from 1", c.Probes)
	}
	if c.Out != "" { // noticed before the work
		if info, err := os.Stat(filepath.Dir(c.Out)); err != nil || !info.IsDir() {
			return usagef("--out %s: %s is not a directory", c.Out, filepath.Dir(c.Out))
		}
		if err := checkOut(filepath.Dir(c.Out)); err != nil {
			return err
		}
	}
	return a.investigate(c.runFlags, c.passesFlags, []string{c.Case}, []string{c.Base, c.Head}, c.Probes, func(k *fuzz.Case, f *gate.Finding, err error) error {
		if err != nil {
			return usagef("%s: %v", k.Path, err)
		}
		if c.Out != "" {
			if err := os.WriteFile(c.Out, f.MinimalFile, 0o644); err != nil {
				return err
			}
		}
		if c.JSON {
			l := reduceLine{line{File: c.Out, Case: k.Name, Outcome: string(f.Status), Detail: f.Detail}, f.Class, f.Instructions, k.Module.NumInstructions(), ""}
			if c.Out == "" {
				l.Minimal = string(f.MinimalFile)
			}
			return a.emit(l)
		}
		fmt.Fprintf(a.stderr, "%s: %s, %s; %d instructions of %d\n", k.Name, f.Class, f.Status, f.Instructions, k.Module.NumInstructions())
		if c.Out == "" {
			_, err := a.stdout.Write(f.MinimalFile)
			return err
		}
		return nil
	})
}

// investigate runs gate.Investigate on cases; specs are base and head.
func (a *app) investigate(flags runFlags, only passesFlags, files, specs []string, probes int, say func(*fuzz.Case, *gate.Finding, error) error) error {
	if err := flags.check(); err != nil {
		return err
	}
	cases, err := loadCases(files)
	if err != nil {
		return err
	}
	found := make([]*builds.Build, 2)
	if specs[0] == specs[1] {
		one, err := a.fetch(flags.buildFlags, specs[0])
		if err != nil {
			return err
		}
		found[0], found[1] = one[0], one[0]
	} else if found, err = a.fetch(flags.buildFlags, specs...); err != nil {
		return err
	}
	pool, err := a.pool(flags.workers(), flags.Timeout)
	if err != nil {
		return err
	}
	defer pool.Close()
	cfg := gate.Config{Base: found[0], Head: found[1], Runner: pool, Now: a.now, Seed: flags.Seed, Timeout: flags.Timeout}
	if err := only.fill(a, flags.buildFlags, &cfg); err != nil {
		return err
	}
	for _, k := range cases {
		f, err := gate.Investigate(a.ctx, cfg, k, probes)
		var config *gate.ConfigError
		switch {
		case err == nil, errors.Is(err, gate.ErrNoFinding):
			err = say(k, f, err)
		case errors.As(err, &config):
			err = usagef("%s: %s", k.Path, strings.TrimPrefix(config.Reason, k.Name+": "))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
