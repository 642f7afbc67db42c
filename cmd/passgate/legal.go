package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/gate/legal"
)

// legalCmd runs the pack of legal changes.
type legalCmd struct {
	runFlags
	Build string   `help:"Build to put the changes into." required:"" placeholder:"SPEC"`
	Kinds []string `help:"Only these kinds of changes." sep:"," placeholder:"KIND"`
	JSON  bool     `help:"Print one JSON object per change."`
}

func (c *legalCmd) Run(a *app) error {
	if err := c.runFlags.check(); err != nil {
		return err
	}
	changes, err := legal.Pack()
	if err != nil {
		return err
	}
	if len(c.Kinds) > 0 {
		want := map[string]bool{}
		for _, k := range c.Kinds {
			want[k] = true
		}
		var kept []legal.Change
		for _, ch := range changes {
			if want[ch.Kind] {
				kept = append(kept, ch)
			}
		}
		if changes = kept; len(changes) == 0 {
			return usagef("--kinds: no change of these kinds")
		}
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
	report, done := a.caseProgress()
	res, err := legal.Run(a.ctx, legal.Config{Build: found[0], Runner: pool, Now: a.now, Seed: c.Seed, Workers: c.workers(), Progress: func(p gate.Progress) { report(p) }}, changes)
	done()
	if err != nil {
		return err
	}
	if c.JSON {
		for _, o := range res.Outcomes {
			a.emit(o)
		}
	} else {
		printLegal(a, res)
	}
	switch {
	case res.Blocks > 0:
		a.code = exitBlocked
	case res.Skipped > 0:
		a.code = exitInconclusive
	}
	return nil
}

func printLegal(a *app, res *legal.Result) {
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "KIND\tCHANGE\tDIFFERING\tRULE")
	for _, o := range res.Outcomes {
		rule := "no bit differs"
		switch {
		case o.Blocked:
			rule = "BLOCKED: " + o.Detail
		case o.Rule != "":
			d := gate.LegalDifference{Rule: o.Rule, Bound: o.Bound, Seen: o.Seen}
			rule = d.String()
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", o.Kind, o.Name, o.Differing, oneLine(rule))
	}
	t.Flush()
	for _, o := range res.Outcomes {
		for _, f := range o.Faults {
			fmt.Fprintf(a.stdout, "%s contradicts its declared budget: %s\n", o.Name, oneLine(f))
		}
	}
	fmt.Fprintf(a.stdout, "%d legal changes, %d of them show in the bits, %d blocked\n", len(res.Outcomes), res.Changed, res.Blocks)
	if res.Skipped > 0 {
		fmt.Fprintf(a.stdout, "interrupted: %d more not judged\n", res.Skipped)
	}
}
