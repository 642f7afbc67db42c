package gate_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/passgate/passgate/defects"
	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/campaign"
	"github.com/passgate/passgate/fuzz/generate"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/selftest"
	"github.com/passgate/passgate/xla/worker/workertest"
)

// TestWorkersExplore explores a build with a planted defect, with and without
// execution: the result's body does not depend on the number of workers, down to
// the reduced programs.
func TestWorkersExplore(t *testing.T) {
	t.Parallel()
	pool, found := workertest.Open(t, 2, "xla-2026-06")
	kind, ok := defects.ByName("operands-swapped")
	if !ok {
		t.Fatal("no such kind")
	}
	d := defects.Defect{Kind: kind, Pipeline: "simplification", Pass: "algsimp", Op: hlo.OpSubtract, Type: hlo.S32}
	makers := []campaign.Maker{
		{Name: "planted in", Make: func(r *rand.Rand, name string) *fuzz.Case {
			c, err := fuzz.ReadModule(name+".hlo", fmt.Appendf(nil, "HloModule m\nENTRY e {\n  x = s32[%d] parameter(0)\n  z = s32[] constant(0)\n  b = s32[%[1]d] broadcast(z), dimensions={}\n  a = s32[%[1]d] add(x, b)\n  m = s32[%[1]d] multiply(a, x)\n  ROOT d = s32[%[1]d] subtract(m, x)\n}\n", 2+r.IntN(4)))
			if err != nil {
				return nil
			}
			c.Name = name
			return c
		}},
		{Name: "generator", Make: func(r *rand.Rand, name string) *fuzz.Case {
			c, err := generate.Program(name, r, generate.Options{Size: 6})
			if err != nil {
				return nil
			}
			return c
		}},
	}
	for _, tt := range []struct {
		name       string
		passesOnly bool
	}{{"executed", false}, {"passes only", true}} {
		t.Run(tt.name, func(t *testing.T) {
			body := func(workers int) (*gate.Result, string) {
				planted := selftest.NewComposite(pool, found[0], d, selftest.Again, t.TempDir())
				res, err := gate.Run(t.Context(), gate.Config{Base: found[0], Head: planted.Head, Runner: planted, Now: time.Now, Seed: 5, Workers: workers, Probes: 4, PassesOnly: tt.passesOnly,
					Passes:  []gate.Focus{{Name: "algsimp", Weight: 6, Matches: func(step string) bool { return strings.HasPrefix(step, "algsimp") }}},
					Steps:   func(string) ([]gate.Step, error) { return nil, nil },
					TempDir: func() (string, func(), error) { return t.TempDir(), func() {}, nil },
					Explore: &gate.Exploration{MaxCases: 12, GoOn: true,
						Campaign: campaign.New(campaign.Config{Seed: 5, Passes: []campaign.Pass{{Name: "algsimp", Weight: 6}}, Makers: makers})}})
				if err != nil {
					t.Fatal(err)
				}
				res.Timing = gate.Timing{}
				out, err := json.MarshalIndent(res, "", " ")
				if err != nil {
					t.Fatal(err)
				}
				return res, string(out)
			}
			res, one := body(1)
			if _, three := body(3); one != three {
				t.Errorf("3 workers give another result:\n%s", cmp.Diff(one, three))
			}
			if res.Exploration.Programs != 12 || len(res.Findings) == 0 || res.Exploration.Repeats == 0 {
				t.Errorf("%d programs, %d findings, %d repeats", res.Exploration.Programs, len(res.Findings), res.Exploration.Repeats)
			}
		})
	}
}
