package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
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
	Class       gate.Class     `json:"class,omitempty"`
	Pass        *gate.PassStep `json:"pass,omitempty"`
	Instruction string         `json:"instruction,omitempty"`
	Location    *gate.Location `json:"location,omitempty"`
}

func (c *bisectCmd) Run(a *app) error {
	return a.investigate(c.runFlags, c.passesFlags, c.Cases, []string{c.Build, c.Build}, 0, func(k *fuzz.Case, f *gate.Finding, err error) error {
		l := bisectLine{line: line{Case: k.Name, Build: c.Build}}
		if err != nil {
			l.Outcome, l.Detail = "right", err.Error()
		} else {
			l.Outcome, l.Detail, l.Class = string(f.Level), f.Detail, f.Class
			l.Pass, l.Instruction, l.Location = f.Pass, f.Instruction, f.Location
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
		if f.Pass != nil {
			fmt.Fprintf(a.stdout, "  pass:        %s\n", f.Pass)
		}
		if loc := f.Location; loc != nil {
			note := ""
			if loc.InPlace {
				note = ", updates a buffer in place"
			}
			fmt.Fprintf(a.stdout, "  instruction: %s (%s%s) in %s\n", f.Instruction, loc.Opcode, note, loc.Computation)
			if loc.After != "" {
				fmt.Fprintf(a.stdout, "  became:      %s (%s)\n", loc.After, loc.AfterOpcode)
			}
			if loc.LegalBefore != "" {
				fmt.Fprintf(a.stdout, "  value:       %s, should be %s\n", loc.LegalAfter, loc.LegalBefore)
			}
			if loc.Source != "" {
				fmt.Fprintf(a.stdout, "  source:      %s\n", loc.Source)
			}
		}
		fmt.Fprintf(a.stdout, "  %s\n", oneLine(f.Detail))
		return nil
	})
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
}

func (c *reduceCmd) Run(a *app) error {
	if c.Probes < 1 {
		return usagef("--probes %d: want a number from 1", c.Probes)
	}
	return a.investigate(c.runFlags, c.passesFlags, []string{c.Case}, []string{c.Base, c.Head}, c.Probes, func(k *fuzz.Case, f *gate.Finding, err error) error {
		if err != nil {
			return usagef("%s: %v", k.Path, err)
		}
		fmt.Fprintf(a.stderr, "%s: %s, %s; %d instructions of %d\n", k.Name, f.Class, f.Status, f.Instructions, k.Module.NumInstructions())
		if c.Out == "" {
			_, err := a.stdout.Write(f.MinimalFile)
			return err
		}
		return os.WriteFile(c.Out, f.MinimalFile, 0o644)
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
