package selftest_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/passgate/passgate/defects"
	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/selftest"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
	"github.com/passgate/passgate/xla/worker/workertest"
)

func TestMain(m *testing.M) { workertest.Main(m) }

func realBuild(t *testing.T, spec string) (*worker.Pool, *builds.Build) {
	t.Helper()
	pool, b := workertest.Open(t, 2, spec)
	return pool, b[0]
}

func readCase(t *testing.T, text string) *fuzz.Case {
	t.Helper()
	c, err := fuzz.ReadCase("p.case", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// difference has a rewrite for algsimp (x+0), so that the pass fires, and a
// subtraction whose operands a faulty pass can swap.
const difference = `-- module.hlo --
HloModule p
ENTRY e {
  x = s32[4] parameter(0)
  y = s32[4] parameter(1)
  z = s32[] constant(0)
  b = s32[4] broadcast(z), dimensions={}
  a = s32[4] add(x, b)
  m = s32[4] multiply(a, a)
  ROOT d = s32[4] subtract(m, y)
}
-- inputs --
s32[4] {1, 2, 3, 4}
s32[4] {10, 20, 30, 40}
`

func swapped(t *testing.T, pipeline, pass string) defects.Defect {
	t.Helper()
	kind, ok := defects.ByName("operands-swapped")
	if !ok {
		t.Fatal("no such kind")
	}
	return defects.Defect{Kind: kind, Pipeline: pipeline, Pass: pass, Op: hlo.OpSubtract, Type: hlo.S32}
}

// A composite shows the mistake as part of the planted pass, computes what the
// wrong module says, and is told apart by its name; the real build beside it
// stays right. Every route does the same.
func TestComposite(t *testing.T) {
	tests := []struct {
		spec, pass string
		route      selftest.Route
	}{
		{"xla-2026-06", "algsimp", selftest.Again},
		{"xla-2026-06", "layout-assignment", selftest.Backend},
		{"jax-0.11.2", "layout-assignment", selftest.Resume},
		{"jax-0.11.2", "apply-xla-transforms", selftest.BeforeScheduler},
		{"jax-0.11.2", "apply-xla-transforms", selftest.AfterScheduler},
	}
	c := readCase(t, difference)
	data, err := hlo.MarshalModule(c.Module)
	if err != nil {
		t.Fatal(err)
	}
	var inputs []worker.Array
	for _, l := range c.Inputs {
		inputs = append(inputs, worker.Array{Type: int32(l.Shape.Type), Dims: l.Shape.Dims, Data: l.Raw})
	}
	for _, tt := range tests {
		t.Run(tt.spec+" "+string(tt.route), func(t *testing.T) {
			pool, b := realBuild(t, tt.spec)
			plain, err := triage.NewTrail(t.Context(), pool, b, c.Module, worker.Request{Program: data, Format: worker.HLO})
			if err != nil {
				t.Fatal(err)
			}
			pipeline := string(tt.route)
			if i := slices.IndexFunc(plain.States, func(s triage.State) bool { return s.Key.Pass == tt.pass }); i >= 0 {
				pipeline = plain.States[i].Key.Pipeline
			}
			p := selftest.NewComposite(pool, b, swapped(t, pipeline, tt.pass), tt.route, t.TempDir())
			if !strings.HasPrefix(p.Head.Spec.String(), "injected-fault(") || !strings.HasPrefix(p.Head.ID, "injected-fault:") {
				t.Errorf("the build is named %s, %s", p.Head.Spec, p.Head.ID)
			}
			if _, err := builds.Parse(p.Head.Spec.String()); err == nil {
				t.Errorf("%s can be named on a command line", p.Head.Spec)
			}
			first := func(b *builds.Build) int64 {
				o := p.Do(t.Context(), b, worker.Request{Program: data, Format: worker.HLO, Inputs: [][]worker.Array{inputs}})
				if o.Status != worker.OK {
					t.Fatalf("%s: %v %v", b.Spec, o.Status, o.Failure)
				}
				l := &hlo.Literal{Shape: hlo.ArrayShape(hlo.S32, 4), Raw: o.Result.Sets[0].Distinct[0].Outputs[0].Data}
				return l.Int(0)
			}
			if got := first(p.Head); got != 9 {
				t.Errorf("planted: %d, want 10-1", got)
			}
			if got := first(b); got != -9 {
				t.Errorf("the real build: %d, want 1-10", got)
			}
			trail, err := triage.NewTrail(t.Context(), p, p.Head, c.Module, worker.Request{Program: data, Format: worker.HLO})
			if err != nil {
				t.Fatal(err)
			}
			wrong := func(s triage.State) bool {
				return slices.ContainsFunc(s.Module.Computations, func(c *hlo.Computation) bool {
					return slices.ContainsFunc(c.Instructions, func(in *hlo.Instruction) bool {
						return in.Op == hlo.OpSubtract && in.Operands[1].Op == hlo.OpMultiply
					})
				})
			}
			i := slices.IndexFunc(trail.States, wrong)
			if i < 0 || trail.States[i].Key.Pass != tt.pass {
				for _, s := range trail.States {
					t.Log(s.Key)
				}
				t.Fatalf("the swapped subtraction shows first at step %d", i)
			}
			if tt.route == selftest.Again && i == len(trail.States)-1 {
				t.Error("no pass ran behind the planted step")
			}
		})
	}
}

// crashes is a program that the build's passes take and its code generation
// does not survive: nothing may be planted there.
func crashes(t *testing.T) *fuzz.Case {
	t.Helper()
	data, err := os.ReadFile("../examples/cases/sort-odd-comparator.case")
	if err != nil {
		t.Fatal(err)
	}
	return readCase(t, string(data))
}

// The whole experiment on a few defects: every one is seen, blamed on its
// step, and nothing is seen where nothing is planted; with another number of
// workers it is the same.
func TestRun(t *testing.T) {
	pool, b := realBuild(t, "xla-2026-06")
	cases := []*fuzz.Case{readCase(t, difference), crashes(t)}
	run := func(workers int) *selftest.Result {
		res, err := selftest.Run(t.Context(), selftest.Config{Build: b, Runner: pool, Cases: cases, Defects: 4, Null: 2, Seed: 3, Workers: workers,
			Probes: 20, ExecuteEvery: 3, Now: time.Now, CPU: func() time.Duration { return 0 }, TempDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	res := run(2)
	if res.Programs != 1 || len(res.Defects) != 4 || !res.Complete || res.Null.Runs == 0 {
		t.Fatalf("%d programs, %d defects, %d null runs", res.Programs, len(res.Defects), res.Null.Runs)
	}
	for _, o := range res.Defects {
		if !o.Detected || !o.RightStep || o.Reports != 1 || o.Minimal < 1 {
			t.Errorf("%s in %s: detected %v, step %v (%v), %d reports, %d instructions: %s", o.Defect, o.Case, o.Detected, o.RightStep, o.Blamed, o.Reports, o.Minimal, o.Detail)
		}
	}
	if res.Null.Blocks != 0 || len(res.Null.Alarms) != 0 {
		t.Errorf("nothing planted: %d blocks, %v", res.Null.Blocks, res.Null.Alarms)
	}
	if res.Failed || res.Trusted || len(res.Why) == 0 {
		t.Errorf("failed %v, trusted %v with 4 defects: %v", res.Failed, res.Trusted, res.Why)
	}
	again := run(1)
	for i, o := range again.Defects {
		first := res.Defects[i]
		o.Seconds, first.Seconds = 0, 0
		if o.Defect != first.Defect || o.Case != first.Case || o.Detected != first.Detected || o.MinimalText != first.MinimalText {
			t.Errorf("defect %d with one worker: %+v, with two: %+v", i, o, first)
		}
	}
}

// updated shares memory with an input until copies are inserted.
const updated = `-- module.hlo --
HloModule p
ENTRY e {
  x = s16[5] parameter(0)
  y = s16[4] parameter(1)
  k = s32[] parameter(2)
  u = s16[5] dynamic-update-slice(x, y, k)
  ROOT s = s16[4] slice(u), slice={[1:5]}
}
`

// Where a build is taken apart and nothing is planted, nothing is wrong, at
// whatever step.
func TestNothingPlanted(t *testing.T) {
	pool, b := realBuild(t, "xla-2026-06")
	res, err := selftest.Run(t.Context(), selftest.Config{Build: b, Runner: pool, Cases: []*fuzz.Case{readCase(t, updated)}, Defects: 1, Null: 20, Seed: 1, Workers: 2,
		Now: time.Now, CPU: func() time.Duration { return 0 }, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if res.Null.Runs == 0 || res.Null.Blocks != 0 || len(res.Null.Alarms) != 0 {
		t.Errorf("%d runs, %d blocks, %v", res.Null.Runs, res.Null.Blocks, res.Null.Alarms)
	}
}

// offByOne is a pool in which code from level 1 of the code generator is wrong.
type offByOne struct{ gate.Runner }

func (p offByOne) Do(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	o := p.Runner.Do(ctx, b, r)
	if r.Options["xla_backend_optimization_level"] == "1" && o.Status == worker.OK {
		for _, s := range o.Result.Sets {
			s.Distinct[0].Outputs[0].Data[0]++
		}
	}
	return o
}

// The build against itself and its legal variants: quiet, until a variant is
// wrong. It stops when there are cells enough, or no more programs.
func TestVariants(t *testing.T) {
	pool, b := realBuild(t, "xla-2026-06")
	programs := []*fuzz.Case{readCase(t, difference), readCase(t, updated)}
	programs[0].Name, programs[1].Name = "a", "b"
	program := func(i int) *fuzz.Case {
		if i < len(programs) {
			return programs[i]
		}
		return nil
	}
	run := func(r gate.Runner, cells int64) *selftest.Result {
		res, err := selftest.Run(t.Context(), selftest.Config{Build: b, Runner: r, NullCells: cells, Program: program, Seed: 1, Workers: 2,
			Now: time.Now, CPU: func() time.Duration { return 0 }, TempDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	res := run(pool, 20)
	v := res.Variants
	if v.Cells < 20 || v.Alarms != 0 || v.Interval[1] > 0.2 || len(v.Alarmed)+len(v.Corruption) != 0 || len(v.Of) < 4 || v.Programs != 2 || !res.Complete || res.Failed {
		t.Errorf("complete %v, failed %v: %+v", res.Complete, res.Failed, v)
	}
	if res := run(pool, 1000); res.Complete {
		t.Errorf("complete with %d cells", res.Variants.Cells)
	}
	res = run(offByOne{pool}, 20)
	for _, one := range res.Variants.Of {
		if wrong := one.Name == "code generator at level 1"; wrong != (one.Alarms > 0) {
			t.Errorf("%s: %d alarms in %d cells", one.Name, one.Alarms, one.Cells)
		}
	}
	if !res.Failed || res.Variants.Alarms == 0 || len(res.Variants.Alarmed) == 0 {
		t.Errorf("failed %v: %+v", res.Failed, res.Variants)
	}
}

// rarely is wrong where an operand is NaN, which four elements of the executed
// streams are not likely to be.
const rarely = `-- module.hlo --
HloModule p
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] multiply(x, y)
  ROOT n = f32[4] negate(a)
}
`

// What only edge inputs show in the passes is executed on them, and blocks.
func TestEdgesAreExecuted(t *testing.T) {
	pool, b := realBuild(t, "xla-2026-06")
	kind, ok := defects.ByName("nan-lost")
	if !ok {
		t.Fatal("no such kind")
	}
	c := readCase(t, rarely)
	trail, err := triage.NewTrail(t.Context(), pool, b, c.Module, worker.Request{Program: marshal(t, c.Module), Format: worker.HLO})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(trail.States, func(s triage.State) bool { return s.Key.Pass == "layout-assignment" })
	if i < 0 {
		t.Fatal("no layout assignment")
	}
	d := defects.Defect{Kind: kind, Pipeline: trail.States[i].Key.Pipeline, Pass: "layout-assignment", Op: hlo.OpNegate, Type: hlo.F32}
	head := selftest.NewComposite(pool, b, d, selftest.Backend, t.TempDir())
	res, err := gate.Run(t.Context(), gate.Config{Base: b, Head: head.Head, Runner: head, Cases: []*fuzz.Case{c}, Now: time.Now, Seed: 1, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range res.Cases[0].Streams {
		if s.Head != gate.Right {
			t.Errorf("stream %s shows it already: find another seed", s.Name)
		}
	}
	if len(res.Findings) != 1 {
		t.Fatalf("%d findings: %+v", len(res.Findings), res.Findings)
	}
	f := res.Findings[0]
	if !f.Blocking || !strings.HasPrefix(f.Stream, fuzz.EdgeStream) || f.Pass == nil || f.Pass.Name != "layout-assignment" || f.Confirmed != "3 of 3" {
		t.Errorf("blocking %v, stream %s, by %v, confirmed %s", f.Blocking, f.Stream, f.Pass, f.Confirmed)
	}
	again, err := fuzz.ReadCase("again.case", f.CaseFile)
	if err != nil || len(again.Inputs) != 2 {
		t.Errorf("the finding's case has no inputs: %v\n%s", err, f.CaseFile)
	}
}

func marshal(t *testing.T, m *hlo.Module) []byte {
	t.Helper()
	data, err := hlo.MarshalModule(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
