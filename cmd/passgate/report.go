package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/reports"
)

// reportCmd renders a result.
type reportCmd struct {
	In     string `help:"result.json of a run." required:"" placeholder:"RESULT.json"`
	Format string `help:"comment, summary, html, sarif, junit or json." required:"" enum:"comment,summary,html,sarif,junit,json"`
}

func (c *reportCmd) Run(a *app) error {
	data, err := readFile(c.In)
	if err != nil {
		return err
	}
	res, err := readResult(c.In, data)
	if err != nil {
		return err
	}
	out, err := reports.Render(reports.Format(c.Format), res)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(out)
	return err
}

// readResult reads result.json. What a newer version adds is ignored.
func readResult(name string, data []byte) (*gate.Result, error) {
	bad := func(offset int64, format string, args ...any) error {
		before := data[:min(int(offset), len(data))]
		lineStart := bytes.LastIndexByte(before, '\n') + 1
		return &hlo.SyntaxError{File: name, Line: 1 + bytes.Count(before, []byte("\n")), Column: max(1, len(before)-lineStart), Msg: fmt.Sprintf(format, args...)}
	}
	var res gate.Result
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&res); err != nil {
		return nil, bad(dec.InputOffset(), "%v; want a result.json of passgate", err)
	}
	if res.Schema != gate.Schema {
		return nil, bad(0, "schema is %q, want %q", res.Schema, gate.Schema)
	}
	return &res, nil
}
