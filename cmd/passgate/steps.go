package main

import (
	"os"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/xla/dump"
)

// readSteps lists the pass steps in a directory of dumps of changed passes:
// from the compiler's own list of pass runs where it writes one, else one step
// per dump.
func readSteps(dir string) ([]gate.Step, error) {
	compilations, err := dump.Read(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	var out []gate.Step
	for _, c := range compilations {
		for _, r := range c.Runs {
			out = append(out, gate.Step{Name: r.Pass, Changed: r.Changed})
		}
		if c.Runs != nil {
			continue
		}
		for _, s := range c.Steps {
			if !s.Start() && s.Inner == "" {
				out = append(out, gate.Step{Name: s.Key.Pass, Changed: true})
			}
		}
	}
	return out, nil
}
