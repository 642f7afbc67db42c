package main

import (
	"bytes"
	"encoding/json"
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
		res, err = loadResult(c.In)
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
		out, err := reports.Render(reports.Format(c.Format), res)
		if err != nil {
			return err
		}
		_, err = a.stdout.Write(out)
		return err
	case c.Merge:
		a.printResult(a.stdout, res, c.Out)
	}
	return nil
}

// loadResult reads a result.json and, where its directory has them, the cases
// of its findings.
func loadResult(name string) (*gate.Result, error) {
	data, err := readFile(name)
	if err != nil {
		return nil, err
	}
	res, err := readResult(name, data)
	if err != nil {
		return nil, err
	}
	res.Dir = filepath.Dir(name)
	for i := range res.Findings {
		f := &res.Findings[i]
		if !filepath.IsLocal(f.ID) || filepath.Base(f.ID) != f.ID {
			return nil, usagef("%s: finding %q: want a plain name", name, f.ID)
		}
		dir := filepath.Join(filepath.Dir(name), "findings", f.ID)
		for file, to := range map[string]*[]byte{"case": &f.CaseFile, "minimal.case": &f.MinimalFile} {
			if *to, err = os.ReadFile(filepath.Join(dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, usagef("%v", err)
			}
		}
	}
	return res, nil
}

// cutError is a file that ends too early.
type cutError struct{ err error }

func (e *cutError) Error() string { return e.err.Error() }
func (e *cutError) Unwrap() error { return e.err }

// readResult reads result.json. What a newer version adds is ignored.
func readResult(name string, data []byte) (*gate.Result, error) {
	bad := func(offset int64, format string, args ...any) error {
		before := data[:min(int(offset), len(data))]
		lineStart := bytes.LastIndexByte(before, '\n') + 1
		return &hlo.SyntaxError{File: name, Line: 1 + bytes.Count(before, []byte("\n")), Column: max(1, len(before)-lineStart), Msg: fmt.Sprintf(format, args...)}
	}
	var res gate.Result
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&res); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return nil, &cutError{bad(int64(len(data)), "the file ends too early; want a result.json of passgate")}
	} else if err != nil {
		return nil, bad(dec.InputOffset(), "%v; want a result.json of passgate", err)
	}
	if res.Schema != gate.Schema {
		return nil, bad(0, "schema is %q, want %q", res.Schema, gate.Schema)
	}
	return &res, nil
}
