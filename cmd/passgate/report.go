package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/reports"
)

// reportCmd renders a result, or makes one of the results of all shards.
type reportCmd struct {
	In      string   `help:"result.json of a run." placeholder:"RESULT.json" xor:"of"`
	Merge   bool     `help:"Make one result of those of all shards of a check, and exit with its verdict." xor:"of"`
	Format  string   `help:"comment, summary, html, sarif, junit or json: what to print." enum:",comment,summary,html,sarif,junit,json" default:""`
	Out     string   `help:"Directory for all reports." placeholder:"DIR"`
	Results []string `arg:"" optional:"" help:"With --merge: result.json files, directories of reports, or directories that hold one of these for each shard." placeholder:"RESULT"`
}

func (c *reportCmd) Run(a *app) error {
	switch {
	case c.Merge && len(c.Results) == 0:
		return usagef("--merge: want the results of the shards, files or directories")
	case !c.Merge && c.In == "":
		return usagef("want --in RESULT.json, or --merge and the results of the shards")
	case !c.Merge && len(c.Results) > 0:
		return usagef("%s: results without a flag are for --merge", c.Results[0])
	case !c.Merge && c.Format == "" && c.Out == "":
		return usagef("want --format or --out")
	}
	if c.Out != "" {
		if err := checkOut(c.Out); err != nil {
			return err
		}
	}
	var res *gate.Result
	var err error
	if c.Merge {
		if res, err = mergeShards(c.Results, a.now); err == nil {
			a.code = res.Verdict.ExitCode()
		}
	} else {
		res, err = openResult(c.In)
	}
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err := reports.Write(c.Out, res); err != nil {
			return fmt.Errorf("reports: %w", err)
		}
		res.Dir = c.Out
	}
	switch {
	case c.Format != "":
		return reports.RenderTo(a.stdout, reports.Format(c.Format), res)
	case c.Merge:
		a.printResult(a.stdout, res, c.Out)
	}
	return nil
}

// loadResult reads a result.json and, where its directory has them, the cases
// of its findings.
func loadResult(name string) (*gate.Result, error) {
	res, err := readResult(name, nil)
	if err != nil {
		return nil, err
	}
	return res, readFiles(name, res)
}

// openResult is loadResult without holding the cases: they are read again when
// they are wanted.
func openResult(name string) (*gate.Result, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return loadResult(name) // a pipe can be read once
	}
	count := 0
	res, err := readResult(name, func(*gate.CaseResult) error { count++; return nil })
	if err != nil {
		return nil, err
	}
	res.Stored = func(do func(*gate.CaseResult) error) error {
		again := 0
		_, err := readResult(name, func(c *gate.CaseResult) error { again++; return do(c) })
		if err == nil && again != count {
			err = fmt.Errorf("%s has changed: %d cases, then %d", name, count, again)
		}
		return err
	}
	return res, readFiles(name, res)
}

// readFiles reads the cases of the findings of a result.
func readFiles(name string, res *gate.Result) error {
	res.Dir = filepath.Dir(name)
	for i := range res.Findings {
		f := &res.Findings[i]
		if !filepath.IsLocal(f.ID) || filepath.Base(f.ID) != f.ID {
			return usagef("%s: finding %q: want a plain name", name, f.ID)
		}
		dir := filepath.Join(filepath.Dir(name), "findings", f.ID)
		for file, to := range map[string]*[]byte{"case": &f.CaseFile, "minimal.case": &f.MinimalFile} {
			var err error
			if *to, err = os.ReadFile(filepath.Join(dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return usagef("%v", err)
			}
		}
	}
	return nil
}

// cutError is a file that ends too early.
type cutError struct{ err error }

func (e *cutError) Error() string { return e.err.Error() }
func (e *cutError) Unwrap() error { return e.err }

// readResult reads a result.json: see gate.ReadResult.
func readResult(name string, each func(*gate.CaseResult) error) (*gate.Result, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fileError(name, err)
	}
	defer f.Close()
	res, err := gate.ReadResult(f, each)
	var bad *gate.ResultError
	var path *fs.PathError
	switch {
	case errors.As(err, &bad):
		err := error(&hlo.SyntaxError{File: name, Line: 1, Column: 1, Msg: bad.Reason})
		if again, oerr := os.Open(name); oerr == nil {
			defer again.Close()
			err = place(name, again, bad)
		}
		if bad.Cut {
			return nil, &cutError{err}
		}
		return nil, err
	case errors.As(err, &path):
		return nil, fileError(name, err)
	}
	return res, err
}

// place is bad with its line and column in text.
func place(name string, text io.Reader, bad *gate.ResultError) error {
	out := &hlo.SyntaxError{File: name, Line: 1, Column: 1, Msg: bad.Reason}
	r := bufio.NewReader(io.LimitReader(text, bad.Offset))
	for column := 0; ; {
		c, err := r.ReadByte()
		if err != nil {
			out.Column = max(1, column)
			return out
		}
		column++
		if c == '\n' {
			out.Line++
			column = 0
		}
	}
}
