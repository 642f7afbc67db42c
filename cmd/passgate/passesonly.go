package main

import (
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/xla/builds"
)

// passesFlags are the flags of commands that can do without execution.
type passesFlags struct {
	PassesOnly bool   `help:"Compile up to code generation and judge every pass step; execute nothing. Compile-only builds are always used so."`
	Witness    string `help:"Build that runs the modules before and after an accused pass step where nothing else is executed; empty for none." default:"jax-0.11.2" placeholder:"SPEC"`
}

// fill sets the configuration; cfg.Base and cfg.Head must be set.
func (f passesFlags) fill(a *app, terms buildFlags, cfg *gate.Config) error {
	cfg.PassesOnly = f.PassesOnly
	if err := a.dumps(cfg); err != nil {
		return err
	}
	if !f.PassesOnly && cfg.Base.Kind == builds.Executable && cfg.Head.Kind == builds.Executable || f.Witness == "" {
		return nil
	}
	found, err := a.fetch(terms, f.Witness)
	if err != nil {
		return err
	}
	cfg.Witness = found[0]
	return nil
}
