package gate

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
	"github.com/passgate/passgate/xla/worker/workertest"
)

// onlyPasses is set in requests that execute a state by itself.
const onlyPasses = "xla_enable_hlo_passes_only"

// hooked passes requests to a real build through a function of the test.
type hooked struct {
	Runner
	hook func(r worker.Request, do func(worker.Request) worker.Outcome) worker.Outcome
}

func (h hooked) Do(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	return h.hook(r, func(r worker.Request) worker.Outcome { return h.Runner.Do(ctx, b, r) })
}

func bisect(t *testing.T, r Runner, b *builds.Build, c *fuzz.Case) *Finding {
	t.Helper()
	f, err := Investigate(t.Context(), Config{Base: b, Head: b, Runner: r, Now: time.Now, Seed: 1}, c, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func says(f *Finding) string {
	var out []string
	for _, e := range f.Evidence {
		s := e.Witness + " " + string(e.Says)
		if e.Pass != nil {
			s += " " + e.Pass.Name
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// TestWitnesses: both witnesses speak on real faults, and a step that only
// makes what code generation gets wrong is named as that.
func TestWitnesses(t *testing.T) {
	t.Parallel()
	pool, found := workertest.Open(t, 2, "xla-2026-06", "jax-0.11.2")
	const passes, states = WitnessPasses + " ", ", " + WitnessStates + " "
	for _, tc := range []struct {
		name                          string
		build                         int
		evidence, by, inside, because string
	}{
		{"slice-of-slice", 1, passes + "guilty algsimp" + states + "guilty algsimp", "", "", "logic"},
		{"scatter-narrow-index", 0, passes + "guilty scatter_expander" + states + "guilty scatter_expander", "", "", "logic"},
		{"exponentials-overflow", 0, passes + "guilty algsimp" + states + "guilty algsimp", "", "", "precision"},
		{"shifted-copy", 1, passes + "not guilty" + states + "guilty fusion", "fusion", "dynamic-update-slice", "logic"},
		{"pool-dilated-min", 1, passes + "not guilty" + states + "guilty dot-library-rewriter", "", "reduce-window", "logic"},
		{"log1p-double", 0, passes + "not guilty" + states + "unknown", "", "log-plus-one", "precision"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := bisect(t, pool, found[tc.build], exampleCase(t, tc.name))
			by := ""
			if f.EnabledBy != nil {
				by = f.EnabledBy.Name
			}
			if f.Location == nil {
				t.Fatal("no location")
			}
			if got := says(f); got != tc.evidence || by != tc.by || f.Location.InsideOpcode != tc.inside || f.Location.Cause != tc.because {
				t.Errorf("evidence %q, enabled by %q, inside %q, cause %q; want %q, %q, %q, %q", got, by, f.Location.InsideOpcode, f.Location.Cause, tc.evidence, tc.by, tc.inside, tc.because)
			}
			if f.Disagreement != "" || len(f.Culprits) != 0 || f.FailureRate != nil {
				t.Errorf("disagreement %q, %d culprits, rate %v", f.Disagreement, len(f.Culprits), f.FailureRate)
			}
		})
	}
}

// TestWitnessesDisagree: a second witness that sees nothing wrong is said to
// contradict the first, and one that dies is unknown, never guilty.
func TestWitnessesDisagree(t *testing.T) {
	t.Parallel()
	pool, found := workertest.Open(t, 2, "jax-0.11.2")
	c := exampleCase(t, "slice-of-slice")
	original, err := hlo.MarshalModule(c.Module)
	if err != nil {
		t.Fatal(err)
	}
	right := hooked{pool, func(r worker.Request, do func(worker.Request) worker.Outcome) worker.Outcome {
		if r.Options[onlyPasses] != "" {
			r.Program = original // whatever state was to be run
		}
		return do(r)
	}}
	f := bisect(t, right, found[0], c)
	if got, want := says(f), "per-pass validation guilty algsimp, execution of states not guilty algsimp"; got != want || f.Disagreement == "" {
		t.Errorf("evidence %q, disagreement %q; want %q and a disagreement", got, f.Disagreement, want)
	}
	if slices.Contains(f.Witnesses, WitnessStates) {
		t.Errorf("witnesses %q", f.Witnesses)
	}
	for _, name := range []string{"slice-of-slice", "shifted-copy"} {
		dead := hooked{pool, func(r worker.Request, do func(worker.Request) worker.Outcome) worker.Outcome {
			if r.Options[onlyPasses] != "" || r.BackendOnly {
				return worker.Outcome{Status: worker.Crashed, Crash: &worker.Crash{Signal: "SIGSEGV"}}
			}
			return do(r)
		}}
		f := bisect(t, dead, found[0], exampleCase(t, name))
		last := f.Evidence[len(f.Evidence)-1]
		if last.Witness != WitnessStates || last.Says != Unknowing || f.Disagreement != "" || slices.Contains(f.Witnesses, WitnessStates) {
			t.Errorf("%s: evidence %q, disagreement %q, witnesses %q", name, says(f), f.Disagreement, f.Witnesses)
		}
	}
}

// spliced is a program with a fault of algsimp, one of the scatter expander and
// one of code generation.
const spliced = `HloModule spliced

add {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b)
}

ENTRY e {
  x = s32[12] parameter(0)
  inner = s32[] parameter(1)
  outer = s32[] parameter(2)
  a = s32[6] dynamic-slice(x, inner), dynamic_slice_sizes={6}
  b = s32[3] dynamic-slice(a, outer), dynamic_slice_sizes={3}
  y = s32[400] parameter(3)
  i = u8[1,1] parameter(4)
  u = s32[1] parameter(5)
  s = s32[400] scatter(y, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  z = s32[6,1] parameter(6)
  two = s32[] constant(2)
  twos = s32[6,1] broadcast(two), dimensions={}
  base = s32[6,1] add(z, twos)
  part = s32[5,1] slice(base), slice={[0:5], [0:1]}
  one = s32[] constant(1)
  zero = s32[] constant(0)
  moved = s32[6,1] dynamic-update-slice(base, part, one, zero)
  m = s32[1,6] reshape(moved)
  ROOT r = (s32[3], s32[400], s32[1,6]) tuple(b, s, m)
}
`

// TestSeveralCulprits: each fault of a program is reported, relative to what
// its step was given, with its elements and both witnesses.
func TestSeveralCulprits(t *testing.T) {
	t.Parallel()
	pool, found := workertest.Open(t, 2, "jax-0.11.2")
	c, err := fuzz.ReadCase("spliced.case", []byte("-- module.hlo --\n"+spliced+"-- inputs --\niota s32[12]\ns32[] 2\ns32[] 9\niota s32[400]\nu8[1,1] {{200}}\ns32[1] {5000}\ns32[6,1] {{10}, {20}, {30}, {40}, {50}, {60}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := bisect(t, pool, found[0], c)
	type culprit struct {
		pass        string
		level       Level
		instruction string
		output      string
		wrong       int64
	}
	want := []culprit{{"algsimp", LevelHLO, "b.1", "0", 3}, {"scatter_expander", LevelHLO, "s", "1", 1}, {codeGeneration, LevelEmitter, "", "", 0}}
	var got []culprit
	for _, k := range f.Culprits {
		one := culprit{k.Pass.Name, k.Level, k.Instruction, k.Output, k.Wrong}
		if k.Level == LevelEmitter {
			if k.Location == nil || !k.Location.InPlace || k.Location.InsideOpcode != "dynamic-update-slice" {
				t.Errorf("code generation: location %+v", k.Location)
			}
			one.instruction = ""
		} else if len(k.Evidence) != 2 || k.Evidence[0].Says != Accuses || k.Evidence[1].Says != Accuses {
			t.Errorf("%s: evidence %+v", one.pass, k.Evidence)
		}
		got = append(got, one)
	}
	if !slices.Equal(got, want) {
		t.Errorf("culprits %+v, want %+v", got, want)
	}
}

// TestFixPoint: of a pass that runs several times, the run that is wrong is
// accused by its own index, by both witnesses.
func TestFixPoint(t *testing.T) {
	t.Parallel()
	pool, found := workertest.Open(t, 2, "jax-0.11.2")
	c := exampleCase(t, "scatter-narrow-index")
	c.Inputs[1].Raw[0] = 20 // no fault of the build
	data, err := hlo.MarshalModule(c.Module)
	if err != nil {
		t.Fatal(err)
	}
	trail, err := triage.NewTrail(t.Context(), pool, found[0], c.Module, worker.Request{Program: data, Format: worker.HLO, Options: comparisonFlags})
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string][]int{}
	for i, s := range trail.States {
		runs[s.Key.Pass] = append(runs[s.Key.Pass], i)
	}
	if len(runs["algsimp"]) < 2 {
		t.Fatalf("algsimp ran %d times", len(runs["algsimp"]))
	}
	for _, at := range runs["algsimp"] {
		// From this run on, the updates are subtracted.
		planted := *trail
		planted.States = slices.Clone(trail.States)
		changed := false
		for i := at; i < len(planted.States); i++ {
			m := planted.States[i].Module.Clone()
			for _, k := range m.Computations {
				for _, in := range k.Instructions {
					if in.Op == hlo.OpAdd && strings.HasPrefix(in.Name, "r.") {
						in.Op, changed = hlo.OpSubtract, true
					}
				}
			}
			planted.States[i].Module, planted.States[i].Sum = m, triage.SumOf(m)
		}
		if !changed {
			t.Fatalf("step %v: no update", planted.States[at].Key)
		}
		args := values(c.Inputs)
		o := eval.Options{Bounds: true}
		v, err := planted.Validate(t.Context(), [][]*eval.Value{args}, o)
		if err != nil {
			t.Fatal(err)
		}
		steps, before := guiltySteps(v)
		if len(steps) != 1 || steps[0] != at || before[0] != at-1 {
			t.Fatalf("guilty steps %v (before %v), want %d only", steps, before, at)
		}
		e := &triage.Executor{Compiler: pool, Build: found[0], Trail: &planted, Inputs: c.Inputs, Options: comparisonFlags, Eval: o}
		if got, b, a := e.Testify(t.Context(), at-1, at); got != triage.Agrees {
			t.Errorf("step %v: %s, before %+v, after %+v", planted.States[at].Key, got, b, a)
		}
		if turn := e.Turn(t.Context()); !turn.Found || turn.Good != at-1 || turn.Bad != at {
			t.Errorf("step %v: turn %+v, want %d", planted.States[at].Key, turn, at)
		}
	}
}

// TestFlaky: a kernel that goes wrong in one execution of six is measured and
// found in spite of that.
func TestFlaky(t *testing.T) {
	t.Parallel()
	pool, found := workertest.Open(t, 2, "jax-0.11.2")
	c := exampleCase(t, "softmax")
	var mu sync.Mutex
	executions := 0
	flaky := hooked{pool, func(r worker.Request, do func(worker.Request) worker.Outcome) worker.Outcome {
		out := do(r)
		m, err := hlo.UnmarshalModule(r.Program)
		if out.Status != worker.OK || len(out.Result.Sets) == 0 || err != nil {
			return out
		}
		fused := slices.ContainsFunc(m.Entry.Instructions, func(in *hlo.Instruction) bool { return in.Op == hlo.OpFusion })
		if r.Options[onlyPasses] != "" && !fused || r.BackendOnly {
			return out
		}
		mu.Lock()
		defer mu.Unlock()
		for i, set := range out.Result.Sets {
			d := set.Distinct[0]
			bad := 0
			for range d.Count {
				if executions++; executions%6 == 0 {
					bad++
				}
			}
			if bad == 0 || len(set.Distinct) != 1 || bad == d.Count {
				continue
			}
			wrong := worker.Distinct{Count: bad, First: 1}
			for _, a := range d.Outputs {
				a.Data = slices.Clone(a.Data)
				a.Data[len(a.Data)-1] ^= 0x7f
				wrong.Outputs = append(wrong.Outputs, a)
			}
			d.Count -= bad
			out.Result.Sets[i].Distinct = []worker.Distinct{d, wrong}
		}
		return out
	}}
	f := bisect(t, flaky, found[0], c)
	r := f.FailureRate
	if r == nil {
		t.Fatalf("no rate; class %s, base %s, head %s, unstable %v", f.Class, f.Base, f.Head, f.Unstable)
	}
	if r.Runs != rateRuns || r.Failed != rateRuns/6 || r.Interval[0] > 1.0/6 || r.Interval[1] < 1.0/6 || r.Confidence < 1-missed {
		t.Errorf("rate %+v", r)
	}
	if f.Level != LevelEmitter || f.EnabledBy == nil || !strings.HasPrefix(f.EnabledBy.Name, "fusion") {
		t.Errorf("level %s, enabled by %v; evidence %+v", f.Level, f.EnabledBy, f.Evidence)
	}
	if !strings.Contains(f.Evidence[1].Detail, "truly right with confidence 0.99") {
		t.Errorf("detail %q", f.Evidence[1].Detail)
	}
}

// The number of probes catches a fault of the lowest rate with the promised
// probability, and is no larger than needed.
func TestFailureRate(t *testing.T) {
	for _, tc := range [][2]int{{1, 300}, {3, 300}, {12, 300}, {120, 300}, {299, 300}, {40, 300}} {
		r := failureRate(tc[0], tc[1])
		low := float64(tc[0]) / float64(tc[1])
		if r.Interval[0] >= low || r.Interval[1] <= low {
			t.Errorf("%v: interval %v", tc, r.Interval)
		}
		miss := math.Pow(1-r.Interval[0], float64(r.Probes))
		if math.Abs(1-miss-r.Confidence) > 1e-12 {
			t.Errorf("%v: confidence %v, want %v", tc, r.Confidence, 1-miss)
		}
		if r.Probes < rateRuns && (miss > missed || r.Probes > repeats && math.Pow(1-r.Interval[0], float64(r.Probes-1)) <= missed) {
			t.Errorf("%v: %d probes miss with probability %v", tc, r.Probes, miss)
		}
	}
}
