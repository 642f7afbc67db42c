package gate_test

import (
	"testing"
	"time"

	"github.com/passgate/passgate/defects"
	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/selftest"
	"github.com/passgate/passgate/xla/worker/workertest"
)

// TestInvestigatePlanted bisects builds with a mistake behind a step of their
// own pipeline, wherever it sits: both witnesses accuse that step, and the
// build's own fault in the same program is found beside it.
func TestInvestigatePlanted(t *testing.T) {
	t.Parallel()
	pool, found := workertest.Open(t, 2, "xla-2026-06", "jax-0.11.2")
	const text = `-- module.hlo --
HloModule p
ENTRY e {
  x = s32[12] parameter(0)
  y = s32[12] parameter(1)
  z = s32[] constant(0)
  b = s32[12] broadcast(z), dimensions={}
  a = s32[12] add(x, b)
  m = s32[12] multiply(a, a)
  d = s32[12] subtract(m, y)
  inner = s32[] parameter(2)
  outer = s32[] parameter(3)
  i = s32[6] dynamic-slice(x, inner), dynamic_slice_sizes={6}
  o = s32[3] dynamic-slice(i, outer), dynamic_slice_sizes={3}
  ROOT r = (s32[12], s32[3]) tuple(d, o)
}
-- inputs --
iota s32[12]
s32[12] {10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120}
s32[] 2
`
	kind, ok := defects.ByName("operands-swapped")
	if !ok {
		t.Fatal("no such kind")
	}
	for _, tc := range []struct {
		name, pipeline, pass string
		build                int
		route                selftest.Route
		// outer is the second start: 9 shows the build's own fault, 1 does not.
		outer    string
		culprits []string
	}{
		{"before layouts", "simplification", "algsimp", 0, selftest.Again, "1", nil},
		{"layouts", "HLO_passes_through_layout_assignment", "layout-assignment", 1, selftest.Resume, "1", nil},
		{"by the build itself", "", "apply-xla-transforms", 1, selftest.BeforeScheduler, "1", nil},
		{"beside its own fault", "HLO_passes_through_layout_assignment", "layout-assignment", 1, selftest.Resume, "9", []string{"algsimp", "layout-assignment"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, err := fuzz.ReadCase("p.case", []byte(text+"s32[] "+tc.outer+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			d := defects.Defect{Kind: kind, Pipeline: tc.pipeline, Pass: tc.pass, Op: hlo.OpSubtract, Type: hlo.S32}
			planted := selftest.NewComposite(pool, found[tc.build], d, tc.route, t.TempDir())
			f, err := gate.Investigate(t.Context(), gate.Config{Base: planted.Head, Head: planted.Head, Runner: planted, Now: time.Now, Seed: 1}, c, 0)
			if err != nil {
				t.Fatal(err)
			}
			var culprits []string
			for _, k := range f.Culprits {
				culprits = append(culprits, k.Pass.Name)
			}
			want := tc.pass
			if len(tc.culprits) > 0 {
				want = tc.culprits[0]
			}
			if f.Pass == nil || f.Pass.Name != want || f.Level != gate.LevelHLO {
				t.Fatalf("pass %v, level %s; want %s; evidence %+v", f.Pass, f.Level, want, f.Evidence)
			}
			if len(culprits) != len(tc.culprits) || len(culprits) > 0 && culprits[len(culprits)-1] != tc.pass {
				t.Errorf("culprits %v, want %v", culprits, tc.culprits)
			}
			if len(tc.culprits) == 0 && (f.Location == nil || f.Location.Opcode != "subtract" || f.Location.Cause != "logic") {
				t.Errorf("location %+v", f.Location)
			}
			if len(f.Evidence) != 2 || f.Evidence[1].Witness != gate.WitnessStates || f.Evidence[1].Says != gate.Accuses || *f.Evidence[1].Pass != *f.Pass {
				t.Errorf("evidence %+v", f.Evidence)
			}
		})
	}
}
