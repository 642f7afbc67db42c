package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/passgate/passgate/gate/policy"
)

// The defaults of the command line, in place of which a policy's limits stand.
const (
	defaultProbes  = 400
	defaultTimeout = time.Minute
)

// policyFlags choose the policy of a run.
type policyFlags struct {
	Policy string `help:"Policy file; passgate.yaml if there is one, empty for none." default:"passgate.yaml" placeholder:"FILE"`
}

// policy reads the policy; nil if there is none. A file that was named must
// exist.
func (f policyFlags) policy() (*policy.Policy, error) {
	if f.Policy == "" {
		return nil, nil
	}
	if _, err := os.Stat(f.Policy); f.Policy == policy.FileName && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	data, err := readFile(f.Policy)
	if err != nil {
		return nil, err
	}
	return policy.Parse(f.Policy, data)
}

// limits fills in the policy's limits where the command line says nothing.
func (c *checkCmd) limits(p *policy.Policy) {
	if p == nil {
		return
	}
	if d, err := time.ParseDuration(p.Budget); err == nil && c.Budget == 0 {
		c.Budget = d
	}
	if d, err := time.ParseDuration(p.Limits.Timeout); err == nil && c.Timeout == defaultTimeout {
		c.Timeout = d
	}
	if p.Limits.Probes != nil && c.Probes == defaultProbes {
		c.Probes = *p.Limits.Probes
	}
	if p.Limits.Workers > 0 && c.Workers == 0 {
		c.Workers = p.Limits.Workers
	}
}

// policyCheckCmd checks policy files.
type policyCheckCmd struct {
	Files []string `arg:"" help:"Policy files."`
	JSON  bool     `help:"Print one JSON object per file."`
}

func (c *policyCheckCmd) Run(a *app) error {
	var first error
	for _, name := range c.Files {
		data, err := readFile(name)
		if err != nil {
			return err
		}
		p, err := policy.Parse(name, data)
		switch {
		case err != nil && c.JSON:
			a.emit(line{File: name, Outcome: "invalid", Detail: err.Error()})
		case c.JSON:
			a.emit(line{File: name, Outcome: "ok", Detail: about(p, a.now())})
		case err == nil:
			fmt.Fprintf(a.stdout, "%s: ok: %s\n", name, about(p, a.now()))
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// about says what is in force on a day.
func about(p *policy.Policy, now time.Time) string {
	expired := 0
	for _, k := range p.KnownIssues {
		if policy.Expired(k.Expires, now) {
			expired++
		}
	}
	for _, o := range p.Overrides {
		if policy.Expired(o.Expires, now) {
			expired++
		}
	}
	return fmt.Sprintf("%d known issues, %d overrides, of which %d have expired", len(p.KnownIssues), len(p.Overrides), expired)
}
