package gate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/worker"
	"github.com/passgate/passgate/xla/worker/workertest"
)

func TestMain(m *testing.M) { workertest.Main(m) }

func exampleCase(t *testing.T, name string) *fuzz.Case {
	t.Helper()
	file := filepath.Join("..", "examples", "cases", name+".case")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := fuzz.ReadCase(file, data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestInvestigate bisects what real builds get wrong: the pass step, the level
// and the instruction.
func TestInvestigate(t *testing.T) {
	t.Parallel()
	pool, found := workertest.Open(t, 2, "xla-2026-06", "jax-0.11.2")
	for _, tc := range []struct {
		name, build string
		level       Level
		pass        string // pipeline/name
		opcode      string
		inPlace     bool
	}{
		{name: "slice-of-slice", build: "jax-0.11.2", level: LevelHLO, pass: "simplification/algsimp", opcode: "dynamic-slice"},
		{name: "window-cropped", build: "jax-0.11.2", level: LevelAbort, pass: "simplification/algsimp"},
		{name: "scatter-narrow-index", build: "jax-0.11.2", level: LevelHLO, pass: "HLO_passes_through_layout_assignment/scatter_expander", opcode: "scatter"},
		{name: "exponentials-overflow", build: "xla-2026-06", level: LevelHLO, pass: "simplification/algsimp"},
		{name: "shifted-copy", build: "jax-0.11.2", level: LevelEmitter, pass: "/code generation", opcode: "fusion", inPlace: true},
		{name: "log1p-double", build: "xla-2026-06", level: LevelEmitter, pass: "/code generation", opcode: "fusion"},
		{name: "pool-dilated-min", build: "jax-0.11.2", level: LevelLibrary, pass: "dot-library-passes/dot-library-rewriter", opcode: "fusion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := found[0]
			if tc.build == "jax-0.11.2" {
				b = found[1]
			}
			f, err := Investigate(t.Context(), Config{Base: b, Head: b, Runner: pool, Now: time.Now, Seed: 1}, exampleCase(t, tc.name), 0)
			if err != nil {
				t.Fatal(err)
			}
			if f.Pass == nil || f.Location == nil && tc.opcode != "" {
				t.Fatalf("pass %v, location %v", f.Pass, f.Location)
			}
			if got := f.Pass.Pipeline + "/" + f.Pass.Name; f.Level != tc.level || got != tc.pass {
				t.Errorf("level %s, pass %s; want %s, %s", f.Level, got, tc.level, tc.pass)
			}
			if tc.opcode != "" && (f.Location.Opcode != tc.opcode || f.Location.InPlace != tc.inPlace) {
				t.Errorf("location %+v, want opcode %s, in place %v", f.Location, tc.opcode, tc.inPlace)
			}
		})
	}
	t.Run("right", func(t *testing.T) {
		t.Parallel()
		_, err := Investigate(t.Context(), Config{Base: found[1], Head: found[1], Runner: pool, Now: time.Now, Seed: 1}, exampleCase(t, "matmul"), 0)
		if !errors.Is(err, ErrNoFinding) {
			t.Errorf("error %v, want ErrNoFinding", err)
		}
	})
}

// TestReduceKeepsTheGuiltyStep reduces a real finding inside a program with
// unrelated instructions and a second fault of another pass: the small program
// holds the first fault only.
func TestReduceKeepsTheGuiltyStep(t *testing.T) {
	t.Parallel()
	pool, found := workertest.Open(t, 2, "jax-0.11.2")
	const text = `HloModule padded

ENTRY e {
  x = s32[12] parameter(0)
  inner = s32[] parameter(1)
  outer = s32[] parameter(2)
  y = s32[12] parameter(3)
  n = s32[12] negate(x)
  m = s32[12] multiply(n, y)
  s = s32[12] subtract(m, y)
  a = s32[6] dynamic-slice(s, inner), dynamic_slice_sizes={6}
  b = s32[3] dynamic-slice(a, outer), dynamic_slice_sizes={3}
  d = s32[3] add(b, b)
  c = s32[12] add(s, y)
  ROOT r = (s32[3], s32[12]) tuple(d, c)
}
`
	archive := "-- module.hlo --\n" + text + "-- inputs --\niota s32[12]\ns32[] 2\ns32[] 9\nlattice s32[12] seed=3\n"
	c, err := fuzz.ReadCase("padded.case", []byte(archive))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Investigate(t.Context(), Config{Base: found[0], Head: found[0], Runner: pool, Now: time.Now, Seed: 1}, c, 500)
	if err != nil {
		t.Fatal(err)
	}
	small, err := fuzz.ReadCase("small.case", f.MinimalFile)
	if err != nil {
		t.Fatalf("%v in\n%s", err, f.MinimalFile)
	}
	// x, two starts, two dynamic-slices.
	if f.Instructions > 5 || small.Module.NumInstructions() != f.Instructions {
		t.Errorf("%d instructions, want at most 5:\n%s", f.Instructions, f.MinimalFile)
	}
	again, err := Investigate(t.Context(), Config{Base: found[0], Head: found[0], Runner: pool, Now: time.Now, Seed: 1}, small, 0)
	if err != nil || again.Pass == nil || *again.Pass != *f.Pass {
		t.Errorf("the small program gives %v, %v; want pass %v", again, err, f.Pass)
	}
}

// TestValidatePlantedStep: a trail with a planted wrong state is guilty at that
// step and at no other, and the location is the planted instruction.
func TestValidatePlantedStep(t *testing.T) {
	t.Parallel()
	pool, found := workertest.Open(t, 2, "jax-0.11.2")
	c := exampleCase(t, "softmax")
	data, err := hlo.MarshalModule(c.Module)
	if err != nil {
		t.Fatal(err)
	}
	trail, err := triage.NewTrail(t.Context(), pool, found[0], c.Module, worker.Request{Program: data, Format: worker.HLO, Options: flagSet(ComparisonFlags)})
	if err != nil {
		t.Fatal(err)
	}
	if len(trail.States) < 3 || trail.Optimised == nil {
		t.Fatalf("%d states", len(trail.States))
	}
	var args []*eval.Value
	for _, l := range c.Inputs {
		args = append(args, eval.FromLiteral(l))
	}
	o := eval.Options{Bounds: true}
	clean, err := trail.Validate(t.Context(), [][]*eval.Value{args}, o)
	if err != nil {
		t.Fatal(err)
	}
	if g := clean.Guilty(); g != nil || clean.Unknown > 0 {
		t.Fatalf("guilty %+v, %d unknown in a right compilation", g, clean.Unknown)
	}
	const at = 1
	planted := ""
	bad := trail.States[at].Module.Clone()
	for _, comp := range bad.Computations {
		for _, in := range comp.Instructions {
			if in.Op == hlo.OpDivide && planted == "" {
				in.Op, planted = hlo.OpMultiply, in.Name
			}
		}
	}
	if planted == "" {
		t.Fatal("no divide to change")
	}
	trail.States[at].Module = bad
	v, err := trail.Validate(t.Context(), [][]*eval.Value{args}, o)
	if err != nil {
		t.Fatal(err)
	}
	g := v.Guilty()
	if g == nil || g.Key != trail.States[at].Key {
		t.Fatalf("guilty %+v, want step %v", g, trail.States[at].Key)
	}
	loc, err := triage.Localize(t.Context(), trail.States[at-1].Module, bad, args, o)
	if err != nil || loc == nil || !strings.HasPrefix(loc.After.Name, planted) {
		t.Errorf("location %+v, %v; want %s", loc, err, planted)
	}
}
