package gate

import (
	"os"

	"github.com/passgate/passgate/xla/dump"
)

// ReadSteps lists the pass steps in a directory of dumps of changed passes:
// from the compiler's own list of pass runs where it writes one, else one step
// per dump. Config.Steps takes it. An error is one of the file system, or of a
// dump that cannot be read.
func ReadSteps(dir string) ([]Step, error) {
	compilations, err := dump.Read(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	var out []Step
	for _, c := range compilations {
		for _, r := range c.Runs {
			out = append(out, Step{Name: r.Pass, Changed: r.Changed})
		}
		if c.Runs != nil {
			continue
		}
		for _, s := range c.Steps {
			if !s.Start() && s.Inner == "" {
				out = append(out, Step{Name: s.Key.Pass, Changed: true})
			}
		}
	}
	return out, nil
}
