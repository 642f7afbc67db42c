package main

import (
	"errors"
	"io"
	"path/filepath"
	"runtime/debug"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/swarm/mcp"
)

// mcpCmd serves the gate's operations to a coding agent on standard input and
// output.
type mcpCmd struct {
	runFlags
	passesFlags
	Base   string `help:"Build before the change; without builds only what needs none is served." placeholder:"SPEC"`
	Head   string `help:"Build after the change." placeholder:"SPEC"`
	Probes int    `help:"Smaller programs to try for each reduction." default:"400"`
	Out    string `help:"Directory of a check's reports, to serve its findings." default:"passgate-out" placeholder:"DIR"`
}

func (c *mcpCmd) Run(a *app) error {
	if err := c.runFlags.check(); err != nil {
		return err
	}
	if (c.Base == "") != (c.Head == "") {
		return usagef("want --base and --head, or neither")
	}
	cfg := mcp.Config{Seed: c.Seed, Version: version()}
	cfg.Result = func() (*gate.Result, error) {
		name := filepath.Join(c.Out, "result.json")
		if !exists(name) {
			return &gate.Result{Schema: gate.Schema, Verdict: gate.Inconclusive, Reasons: []string{"no check has written " + name}}, nil
		}
		return readResult(name, nil)
	}
	if c.Base != "" {
		g, stop, err := a.gateOf(c.runFlags, c.passesFlags, c.Base, c.Head, c.Probes)
		if err != nil {
			return err
		}
		defer stop()
		cfg.Gate = g
	}
	err := mcp.NewServer(cfg).Run(a.ctx, &sdk.IOTransport{Reader: io.NopCloser(a.stdin), Writer: nopCloser{a.stdout}})
	if a.ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil // the client ended it
	}
	return err
}

// nopCloser keeps standard output open.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// version is that of the module, "(devel)" in a checkout.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
