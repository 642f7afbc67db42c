package gate

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/xla/worker/workertest"
)

// TestRunOnRealBuilds looks at what a run says beside its findings: the nature of
// a fault in memory, legal differences, the null, and that nothing depends on
// the number of workers.
func TestRunOnRealBuilds(t *testing.T) {
	pool, b := workertest.Open(t, 2, "xla-2026-06", "jax-0.11.2")
	tanh, err := fuzz.ReadCase("tanh.case", []byte("-- module.hlo --\nHloModule m\nENTRY e {\n  x = f32[9] parameter(0)\n  ROOT r = f32[9] tanh(x)\n}\n-- inputs --\nrandom f32[9] seed=1\n"))
	if err != nil {
		t.Fatal(err)
	}
	body := func(workers int) (*Result, string) {
		cfg := Config{Base: b[0], Head: b[1], Runner: pool, Now: time.Now, Seed: 1, Workers: workers, NullCases: 2,
			Cases: []*fuzz.Case{exampleCase(t, "shifted-copy"), tanh, exampleCase(t, "softmax")}}
		cfg.TempDir = func() (string, func(), error) {
			dir, err := os.MkdirTemp(t.TempDir(), "dump")
			return dir, func() { os.RemoveAll(dir) }, err
		}
		res, err := Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		res.Timing = Timing{}
		out, err := json.MarshalIndent(res, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return res, string(out)
	}
	res, one := body(1)
	if _, two := body(3); one != two {
		t.Errorf("3 workers give another result:\n%s", cmp.Diff(one, two))
	}
	if len(res.Findings) != 1 || res.Findings[0].Class != Miscompile || !slices.Contains(res.Findings[0].Witnesses, WitnessPlacement) ||
		!strings.Contains(res.Findings[0].Detail, "in-place update reads its own output") {
		t.Errorf("findings %+v", res.Findings)
	}
	n := res.Statistics.Null
	if n.Cases == 0 || n.Cells < 10 || n.Alarms != 0 || len(n.Variants) != 5 || n.Variants[0].Same || res.Statistics.ExpectedFalseBlocks == nil {
		t.Errorf("null %+v", n)
	}
	legal := false
	for _, c := range res.Cases {
		for _, l := range c.Legal {
			if c.ID == "softmax" && strings.Contains(l.Rule, "exponential of f32 within 15.5 ULP") && l.Bound > 0 && l.Seen <= l.Bound {
				legal = true
			}
		}
	}
	if !legal {
		t.Error("the legal difference of softmax has no rule")
	}
	for _, c := range res.Statistics.Cells {
		if c.Elements == 0 || c.Operation == "" {
			t.Errorf("cell %+v", c)
		}
	}
}
