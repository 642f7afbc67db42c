package main

import (
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/campaign"
	"github.com/passgate/passgate/fuzz/corpus"
	"github.com/passgate/passgate/gate"
)

// corpusAddCmd takes dumps of real jobs.
type corpusAddCmd struct {
	Dir           string `arg:"" help:"Directory of XLA dumps (xla_dump_to), HLO files, snapshots or cases."`
	Corpus        string `help:"Corpus to add to." default:"corpus" placeholder:"DIR"`
	KeepConstants bool   `help:"Keep the values of large constants and of recorded inputs."`
	JSON          bool   `help:"Print one JSON object per file."`
}

func (c *corpusAddCmd) Run(a *app) error {
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return usagef("%s: want a directory of dumps", c.Dir)
	}
	var removed corpus.Removed
	added, known, bad, elided := 0, 0, 0, 0
	for d, err := range corpus.Dumps(os.DirFS(c.Dir)) {
		if a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		out := line{File: d.Path, Outcome: "added"}
		var r corpus.Removed
		if err == nil {
			var e corpus.Entry
			if e, r, err = d.Entry(c.KeepConstants); err == nil {
				removed.Add(r)
				elided += d.Elided
				fresh, putErr := corpus.Put(c.Corpus, e, false)
				if putErr != nil {
					return usagef("--corpus %s: %v", c.Corpus, putErr)
				}
				out.Detail = e.Name() + ": " + r.String()
				if fresh {
					added++
				} else {
					known++
					out.Outcome = "known"
				}
			}
		}
		if err != nil {
			bad++
			out.Outcome, out.Detail = "invalid", oneLine(err.Error())
			if !c.JSON {
				fmt.Fprintf(a.stderr, "%s: %s\n", d.Path, out.Detail)
			}
		}
		if c.JSON {
			if err := a.emit(out); err != nil {
				return err
			}
		}
	}
	if added+known == 0 {
		return usagef("%s: no HLO program that can be read (want .txt, .hlo, .hlo.pb, .case or snapshots)", c.Dir)
	}
	if !c.JSON {
		fmt.Fprintf(a.stdout, "%d programs added to %s, %d were there, %d files cannot be read\n%s\n", added, c.Corpus, known, bad, removed)
		if elided > 0 {
			fmt.Fprintf(a.stdout, "%d constants had no values in the dump and got some (xla_dump_large_constants keeps them)\n", elided)
		}
	}
	return nil
}

// corpusScrubCmd scrubs one program.
type corpusScrubCmd struct {
	File          string `arg:"" help:"Dump, HLO file or snapshot."`
	KeepConstants bool   `help:"Keep the values of large constants and of recorded inputs."`
}

func (c *corpusScrubCmd) Run(a *app) error {
	data, err := readFile(c.File)
	if err != nil {
		return err
	}
	d, err := corpus.ReadDump(filepath.ToSlash(c.File), data)
	if err != nil {
		return &usageError{err}
	}
	e, removed, err := d.Entry(c.KeepConstants)
	if err != nil {
		return &usageError{err}
	}
	a.stdout.Write(e.Case.Format())
	fmt.Fprintln(a.stderr, removed)
	return nil
}

// corpusMergeCmd merges corpora.
type corpusMergeCmd struct {
	Into string   `arg:"" help:"Corpus to add to."`
	From []string `arg:"" help:"Corpora to add: directories of .case and .hlo files."`
}

func (c *corpusMergeCmd) Run(a *app) error {
	for _, dir := range c.From {
		entries, err := loadCorpus(dir)
		if err != nil {
			return err
		}
		added := 0
		for _, e := range entries {
			fresh, err := corpus.Put(c.Into, e, false)
			if err != nil {
				return usagef("%s: %v", c.Into, err)
			}
			if fresh {
				added++
			}
		}
		fmt.Fprintf(a.stdout, "%s: %d programs, %d added to %s\n", dir, len(entries), added, c.Into)
	}
	return nil
}

func loadCorpus(dir string) ([]corpus.Entry, error) {
	entries, err := corpus.Load(os.DirFS(dir))
	if err != nil {
		return nil, usagef("%s: %v", dir, err)
	}
	return entries, nil
}

// corpusStatsCmd sums a corpus up.
type corpusStatsCmd struct {
	Dir  string `arg:"" help:"Corpus."`
	JSON bool   `help:"Print one JSON object."`
}

// statsLines is the number of passes and of opcodes that stats prints.
const statsLines = 20

func (c *corpusStatsCmd) Run(a *app) error {
	entries, err := loadCorpus(c.Dir)
	if err != nil {
		return err
	}
	s := corpus.Sum(entries)
	if c.JSON {
		return a.emit(map[string]any{"file": c.Dir, "outcome": "ok", "detail": "", "stats": s})
	}
	fmt.Fprintf(a.stdout, "%d programs, %d instructions, %d kB, %d with inputs of their own, %d rewrite signatures\n", s.Entries, s.Instructions, (s.Bytes+1023)/1024, s.Inputs, s.Signatures)
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	for _, list := range []struct {
		what string
		of   []corpus.Share
	}{{"fired", s.Fired}, {"holds", s.Opcodes}} {
		for _, f := range list.of[:min(statsLines, len(list.of))] {
			fmt.Fprintf(t, "%s\t%s\t%d\n", list.what, f.Name, f.Entries)
		}
	}
	return t.Flush()
}

// corpusPruneCmd keeps what has new rewrites.
type corpusPruneCmd struct {
	runFlags
	Dir   string `arg:"" help:"Corpus."`
	Build string `help:"Build that runs the programs." required:"" placeholder:"SPEC"`
	Dry   bool   `help:"Say what would go and leave the corpus as it is."`
}

func (c *corpusPruneCmd) Run(a *app) error {
	if err := c.runFlags.check(); err != nil {
		return err
	}
	entries, err := loadCorpus(c.Dir)
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
	var seeds []*fuzz.Case
	byName := map[string]int{}
	for i, e := range entries {
		k := *e.Case
		k.Name = fmt.Sprintf("entry-%d", i)
		byName[k.Name] = i
		seeds = append(seeds, &k)
	}
	focus := everyPass(found[0])
	var named []campaign.Pass
	for _, f := range focus {
		named = append(named, campaign.Pass{Name: f.Name, Weight: 1})
	}
	search := campaign.New(campaign.Config{Passes: named, Seeds: seeds})
	_, err = gate.Run(a.ctx, gate.Config{Base: found[0], Head: found[0], Runner: pool, Now: a.now, Seed: c.Seed, Workers: c.workers(), Timeout: c.Timeout,
		Passes: focus, PassesOnly: true, Explore: &gate.Exploration{Campaign: search, MaxCases: len(seeds), GoOn: true, Unjudged: true}})
	if err != nil {
		return err
	}
	if a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	for i := range entries {
		entries[i].Signatures, entries[i].Fired = nil, nil
	}
	for _, e := range search.Pool() {
		i := byName[e.Case.Name]
		entries[i].Signatures = e.Signatures
		for _, f := range e.Fired {
			entries[i].Fired = append(entries[i].Fired, focus[f].Name)
		}
	}
	kept := corpus.Cover(entries)
	keep := map[string]bool{}
	for _, e := range kept {
		keep[e.Path] = true
		if c.Dry {
			continue
		}
		if filepath.ToSlash(e.Path) != e.Name() {
			keep[e.Path] = false // it moves to its own name
		}
		if _, err := corpus.Put(c.Dir, e, true); err != nil {
			return err
		}
	}
	if !c.Dry {
		for _, e := range entries {
			if !keep[e.Path] {
				if err := os.Remove(filepath.Join(c.Dir, filepath.FromSlash(e.Path))); err != nil {
					return err
				}
			}
		}
	}
	fmt.Fprintf(a.stdout, "%d of %d programs have all %d rewrites\n", len(kept), len(entries), len(search.Signatures()))
	return nil
}
