package main

import (
	"os"
	"regexp"
	"strings"

	"github.com/passgate/passgate/gate"
)

// stepName matches the name of a per-pass dump (xla/service/dump.cc).
var stepName = regexp.MustCompile(`\.\d{4}\.[^.]+\.after_(.+)\.before_.+\.hlo\.pb$`)

// readSteps lists the pass steps of a dump directory that was asked for with
// the filter `.*`: a build then writes one file per pass that changed the
// module, and one per start of a pipeline.
func readSteps(dir string) ([]gate.Step, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []gate.Step
	for _, e := range entries {
		if m := stepName.FindStringSubmatch(e.Name()); m != nil && !strings.HasPrefix(m[1], "pipeline-start") {
			out = append(out, gate.Step{Name: m[1], Changed: true})
		}
	}
	return out, nil
}
