package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
	"github.com/passgate/passgate/triage/store"
)

// storeFlags are the flags of commands that write to a store.
type storeFlags struct {
	Store string `help:"Remember the findings in this file (SQLite): when and in which builds each was seen, and where it was fixed." placeholder:"FILE"`
}

// openStore opens a store; what is wrong with the file is bad input.
func openStore(ctx context.Context, file string, create bool) (*store.Store, error) {
	s, err := store.Open(ctx, file, create)
	var format *store.FormatError
	var path *fs.PathError
	switch {
	case err == nil:
		return s, nil
	case errors.As(err, &format):
		return nil, usagef("%v", format)
	case errors.As(err, &path):
		return nil, usagef("%s: %v", file, path.Err)
	}
	return nil, usagef("%v", err)
}

// prepare finds out before a run whether the store can be written.
func (f storeFlags) prepare(ctx context.Context) error {
	if f.Store == "" {
		return nil
	}
	if _, err := os.Stat(f.Store); errors.Is(err, fs.ErrNotExist) {
		// record creates it: bad input leaves nothing behind.
		if dir, err := os.Stat(filepath.Dir(f.Store)); err != nil || !dir.IsDir() {
			return usagef("--store %s: %s is not a directory", f.Store, filepath.Dir(f.Store))
		}
		return nil
	}
	s, err := openStore(ctx, f.Store, true)
	if err != nil {
		return err
	}
	return s.Close()
}

// record puts a result into the store, also where the run was interrupted.
func (f storeFlags) record(ctx context.Context, now time.Time, r *gate.Result) error {
	if f.Store == "" {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	s, err := openStore(ctx, f.Store, true)
	if err != nil {
		return err
	}
	defer s.Close()
	run, seen := sightings(r)
	if err := s.Record(ctx, now, run); err != nil {
		return fmt.Errorf("%s: %w", f.Store, err)
	}
	one := store.Run{At: now, Base: r.Base.Spec, Head: r.Head.Spec, Verdict: string(r.Verdict), Cases: len(r.Cases)}
	for _, f := range r.Findings {
		switch f.Status {
		case gate.New:
			one.New++
		case gate.Fixed:
			one.Fixed++
		case gate.PreExisting:
			one.Existing++
		default:
			one.Contested++
		}
	}
	var cases []store.CaseResult
	for _, c := range r.Cases {
		cases = append(cases, store.CaseResult{Name: c.ID, Outcome: string(c.Outcome), Base: string(c.Base), Head: string(c.Head)})
	}
	if err := s.AddRun(ctx, one, cases); err != nil {
		return fmt.Errorf("%s: %w", f.Store, err)
	}
	base, head := storeBuild(&r.Base), storeBuild(&r.Head)
	var passed []store.Passed
	for _, c := range r.Cases {
		p := store.Passed{Hash: c.Hash}
		if c.Base == gate.Right {
			p.Right = append(p.Right, base)
		}
		if c.Head == gate.Right && head != base {
			p.Right = append(p.Right, head)
		}
		passed = append(passed, p)
	}
	if err := s.Clear(ctx, now, passed, seen, base, head); err != nil {
		return fmt.Errorf("%s: %w", f.Store, err)
	}
	return nil
}

func storeBuild(b *gate.Build) store.Build { return store.Build{ID: b.ID, Spec: b.Spec} }

// sightings are the clusters of a result, the gravest finding first, and their
// ids.
func sightings(r *gate.Result) (run []store.Sighting, ids []string) {
	base, head := storeBuild(&r.Base), storeBuild(&r.Head)
	hash := map[string]string{}
	for _, c := range r.Cases {
		hash[c.ID] = c.Hash
	}
	for _, c := range reports.Clusters(r.Findings) {
		f := c.Findings[0]
		s := store.Sighting{ID: c.ID, Class: string(f.Class), Level: string(f.Level), Instruction: f.Instruction, Status: string(f.Status),
			Case: f.Case, Minimal: string(f.MinimalFile), Count: len(c.Cases), Cases: map[string]string{}}
		if f.Pass != nil {
			s.Pass = f.Pass.Name
		}
		bad := map[store.Build]bool{}
		for _, f := range c.Findings {
			if h := hash[f.Case]; h != "" {
				s.Cases[h] = f.Case
			}
			s.Findings = append(s.Findings, f.ID)
			bad[base] = bad[base] || f.Base.Bad()
			bad[head] = bad[head] || f.Head.Bad()
			if f.Instructions < c.Findings[0].Instructions && len(f.MinimalFile) < len(s.Minimal) {
				s.Minimal, s.Instruction = string(f.MinimalFile), f.Instruction
			}
		}
		for _, b := range []store.Build{base, head} {
			if bad[b] {
				s.Bad = append(s.Bad, b)
			} else {
				s.Good = append(s.Good, b)
			}
			if base == head {
				break
			}
		}
		if bad[base] && !bad[head] && f.Status == gate.Fixed {
			s.FixedIn = &head
		}
		run, ids = append(run, s), append(ids, c.ID)
	}
	return run, ids
}

// findingsListCmd lists what a store knows.
type findingsListCmd struct {
	Store string `help:"The store." required:"" placeholder:"FILE"`
	JSON  bool   `help:"Print one JSON object per finding."`
}

func (c *findingsListCmd) Run(a *app) error {
	s, err := openStore(a.ctx, c.Store, false)
	if err != nil {
		return err
	}
	defer s.Close()
	all, err := s.All(a.ctx)
	if err != nil {
		return usagef("%s: %v", c.Store, err)
	}
	if c.JSON {
		for _, f := range all {
			if err := a.emit(f); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "FINDING\tCLASS\tSTATUS\tSTATE\tPASS\tFIRST SEEN\tLAST SEEN\tRUNS\tCASES\tFIXED IN")
	for _, f := range all {
		fixed := ""
		if f.FixedIn != nil {
			fixed = f.FixedIn.Spec
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", f.ID, f.Class, f.Status, f.State, reports.Neutral(f.Pass, 60), f.FirstSeen.Format(time.DateOnly), f.LastSeen.Format(time.DateOnly), f.Runs, f.Cases, reports.Neutral(fixed, 80))
	}
	return t.Flush()
}

// findingsSetCmd moves a finding on in its life.
type findingsSetCmd struct {
	ID    string `arg:"" name:"finding" help:"Id of the finding, or one that a run gave it in a case."`
	Store string `help:"The store." required:"" placeholder:"FILE"`
	State string `help:"new, triaged or reported; runs of check set fixed and reopened." enum:"new,triaged,reported,fixed,reopened" required:""`
	Note  string `help:"What to remember about it, e.g. the issue's address."`
}

func (c *findingsSetCmd) Run(a *app) error {
	s, err := openStore(a.ctx, c.Store, false)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.SetState(a.ctx, c.ID, store.State(c.State), c.Note); err != nil {
		return usagef("%s: %v", c.Store, err)
	}
	return nil
}

// findingsShowCmd shows one finding of a store.
type findingsShowCmd struct {
	ID    string `arg:"" name:"finding" help:"Id of the finding, or one that a run gave it in a case."`
	Store string `help:"The store." required:"" placeholder:"FILE"`
	JSON  bool   `help:"Print it as JSON."`
}

func (c *findingsShowCmd) Run(a *app) error {
	s, err := openStore(a.ctx, c.Store, false)
	if err != nil {
		return err
	}
	defer s.Close()
	f, err := s.Get(a.ctx, c.ID)
	if err != nil {
		return usagef("%s: %v", c.Store, err)
	}
	if c.JSON {
		return a.emit(f)
	}
	list := func(builds []store.Build) string {
		var out []string
		for _, b := range builds {
			out = append(out, reports.Neutral(b.Spec, 80))
		}
		return strings.Join(out, ", ")
	}
	in := func(b *store.Build) string {
		if b == nil {
			return ""
		}
		return " in " + reports.Neutral(b.Spec, 80)
	}
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s:\t%s\n", name, value)
		}
	}
	row("finding", f.ID)
	row("class", f.Class+", "+f.Status)
	row("state", string(f.State))
	row("note", reports.Neutral(f.Note, 400))
	row("pass", reports.Neutral(f.Pass, 80))
	row("level", f.Level)
	row("instruction", reports.Neutral(f.Instruction, 120))
	row("first seen", f.FirstSeen.Format(time.RFC3339)+in(f.FirstSeenIn))
	row("last seen", f.LastSeen.Format(time.RFC3339)+in(f.LastSeenIn))
	row("seen in", fmt.Sprintf("%d runs, %d cases", f.Runs, f.Cases))
	row("cases", reports.Neutral(strings.Join(f.Witnesses, ", "), 400))
	row("builds that show it", list(f.Affected))
	row("builds that do not", list(f.Clean))
	if f.FixedIn != nil {
		row("fixed in", reports.Neutral(f.FixedIn.Spec, 80))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	for _, l := range strings.Split(strings.TrimRight(f.Minimal, "\n"), "\n") {
		fmt.Fprintln(a.stdout, reports.Visible(l))
	}
	return nil
}
