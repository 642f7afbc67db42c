package triage_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/pjrt"
	"github.com/passgate/passgate/xla/worker"
	"github.com/passgate/passgate/xla/worker/workertest"
)

func TestMain(m *testing.M) { workertest.Main(m) }

func exampleCases(t *testing.T) []*fuzz.Case {
	t.Helper()
	files, err := filepath.Glob("../examples/cases/*.case")
	if err != nil || len(files) == 0 {
		t.Fatalf("no example cases: %v", err)
	}
	var out []*fuzz.Case
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		c, err := fuzz.ReadCase(f, data)
		if err != nil {
			t.Fatal(err)
		}
		if c.Module != nil {
			out = append(out, c)
		}
	}
	return out
}

// The instruction that stops a build behind the passes must not change what
// they do: every state is the one of a whole compilation.
func TestStoppedChangesNoState(t *testing.T) {
	store, err := builds.NewStore(builds.Config{Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := worker.NewPool(worker.Config{Command: []string{os.Args[0], "worker"}, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, name := range []string{"xla-2025-11", "xla-2026-06", "jax-0.11.2"} {
		spec, err := builds.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := store.Fetch(context.Background(), spec)
		if err != nil {
			t.Fatal(err)
		}
		compared := 0
		for _, c := range exampleCases(t) {
			trail := func(m *hlo.Module) *triage.Trail {
				data, err := hlo.MarshalModule(m)
				if err != nil {
					t.Fatal(err)
				}
				out, err := triage.NewTrail(context.Background(), pool, b, c.Module, worker.Request{Program: data, Format: worker.HLO})
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			whole, stopped := trail(c.Module), trail(triage.Stopped(c.Module))
			if whole.Outcome.Status == worker.Crashed && len(whole.States) == 0 { // in the first pass: the stop must not help
				if stopped.Complete() {
					t.Errorf("%s on %s: a crash is stopped", c.Name, name)
				}
				continue
			}
			compared++
			if stopped.Outcome.Status != worker.Rejected || !stopped.Complete() {
				t.Errorf("%s on %s: not stopped behind the passes: %v %v", c.Name, name, stopped.Outcome.Status, stopped.Outcome.Failure)
			}
			if n := triage.Aligned(whole, stopped); n == 0 || n != len(whole.States) || n != len(stopped.States) {
				t.Errorf("%s on %s: %d states, %d with the stop, of which %d are the same", c.Name, name, len(whole.States), len(stopped.States), n)
			}
		}
		if compared < 10 {
			t.Errorf("%s: only %d cases compile", name, compared)
		}
	}
}

func TestCompleteTellsWhereACompilerFailed(t *testing.T) {
	rejected := func(message string) worker.Outcome {
		return worker.Outcome{Status: worker.Rejected, Failure: &worker.Failure{Stage: worker.StageCompile, Code: pjrt.Internal, Message: message}}
	}
	tests := []struct {
		name  string
		trail triage.Trail
		want  bool
	}{
		{"compiled", triage.Trail{Outcome: worker.Outcome{Status: worker.OK}}, true},
		{"died in a pass", triage.Trail{Outcome: worker.Outcome{Status: worker.Crashed}}, false},
		{"died in code generation", triage.Trail{Outcome: worker.Outcome{Status: worker.Crashed}, Optimised: hlo.NewModule("m")}, true},
		{"refused by a pass", triage.Trail{Outcome: rejected("not supported")}, false},
		{"no assembler", triage.Trail{Outcome: rejected("No PTX compilation provider is available.")}, true},
	}
	for _, tt := range tests {
		if got := tt.trail.Complete(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func module(t *testing.T, text string) *hlo.Module {
	t.Helper()
	c, err := fuzz.ReadModule("m.hlo", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c.Module
}

// A precision rule excuses finite floats and nothing else, and only in its own
// pass.
func TestPrecisionRules(t *testing.T) {
	const before = `HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  n = s32[2] parameter(1)
  ROOT t = (f32[2], s32[2]) tuple(x, n)
}
`
	const rounded = `HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  n = s32[2] parameter(1)
  h = bf16[2] convert(x)
  f = f32[2] convert(h)
  ROOT t = (f32[2], s32[2]) tuple(f, n)
}
`
	const integers = `HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  n = s32[2] parameter(1)
  h = bf16[2] convert(x)
  f = f32[2] convert(h)
  o = s32[2] negate(n)
  ROOT t = (f32[2], s32[2]) tuple(f, o)
}
`
	tests := []struct {
		name, pass, after string
		want              triage.Standing
		rule              string
	}{
		{"propagation", "bfloat16-propagation", rounded, triage.Ruled, "bf16 propagation"},
		{"another pass", "algsimp", rounded, triage.Guilty, ""},
		{"integers change too", "bfloat16-propagation", integers, triage.Guilty, "bf16 propagation"},
		{"nothing changes", "bfloat16-propagation", before, triage.Same, ""},
	}
	args := []*eval.Value{
		eval.FromLiteral(literal(t, "f32[2] {1.0009765625, 3}")),
		eval.FromLiteral(literal(t, "s32[2] {5, 6}")),
	}
	for _, tt := range tests {
		m := module(t, tt.after)
		trail := &triage.Trail{Before: module(t, before), States: []triage.State{{Module: m, Sum: triage.SumOf(m)}}}
		trail.States[0].Key.Pass = tt.pass
		v, err := trail.Validate(context.Background(), [][]*eval.Value{args}, eval.Options{Bounds: true})
		if err != nil {
			t.Fatal(err)
		}
		if s := v.Steps[0]; s.Standing != tt.want || s.Rule != tt.rule {
			t.Errorf("%s: %s by rule %q, want %s by %q", tt.name, s.Standing, s.Rule, tt.want, tt.rule)
		}
	}
}

func literal(t *testing.T, text string) *hlo.Literal {
	t.Helper()
	l, err := hlo.ParseLiteral(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// States that two trails share are evaluated once, and judged alike.
func TestValidateKnownSharesEvaluations(t *testing.T) {
	const text = "HloModule m\nENTRY e {\n  x = s32[2] parameter(0)\n  ROOT r = s32[2] add(x, x)\n}\n"
	const after = "HloModule m\nENTRY e {\n  y = s32[2] parameter(0)\n  c = s32[2] constant({2, 3})\n  ROOT r = s32[2] multiply(y, c)\n}\n"
	args := [][]*eval.Value{{eval.FromLiteral(literal(t, "s32[2] {5, 6}"))}}
	known := &triage.Evaluations{}
	var shared []int
	var guilty []int64
	for range 2 {
		m := module(t, after)
		trail := &triage.Trail{Before: module(t, text), States: []triage.State{{Module: m, Sum: triage.SumOf(m)}}}
		v, err := trail.ValidateKnown(context.Background(), args, eval.Options{Bounds: true}, known, -1)
		if err != nil {
			t.Fatal(err)
		}
		shared = append(shared, v.Shared)
		guilty = append(guilty, v.Guilty().Wrong)
	}
	if diff := cmp.Diff([]int{0, 1}, shared); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int64{1, 1}, guilty); diff != "" {
		t.Error(diff)
	}
}

// A step is judged, undecided or unknown, and an author's own inputs are
// evaluated although they take longer than generated ones may.
func TestValidationCountsEveryStepOnce(t *testing.T) {
	const head = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n"
	const plain = head + "  ROOT r = f32[2] add(x, x)\n}\n"
	const scaled = head + "  c = f32[2] constant({2, 2})\n  ROOT r = f32[2] multiply(x, c)\n}\n"
	const foreign = head + "  q = f32[2] custom-call(x), custom_call_target=\"SomethingElse\"\n"
	const random = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  z = f32[] constant(0)\n  o = f32[] constant(1)\n  ROOT r = f32[2] rng(z, o), distribution=rng_uniform\n}\n"
	const renamed = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  z = f32[] constant(0)\n  o = f32[] constant(1)\n  q = f32[2] rng(z, o), distribution=rng_uniform\n  ROOT r = f32[2] negate(q)\n}\n"
	tests := []struct {
		name, before, after        string
		steps                      int64
		own                        int
		judged, undecided, unknown int
	}{
		{name: "decided", before: plain, after: scaled, own: -1, judged: 1},
		{name: "undecided", before: random, after: renamed, own: -1, undecided: 1},
		{name: "over the limit", before: plain, after: scaled, steps: 1, own: -1, unknown: 1},
		{name: "a program that cannot be evaluated", before: foreign + "  ROOT r = f32[2] add(q, q)\n}\n", after: foreign + "  c = f32[2] constant({2, 2})\n  ROOT r = f32[2] multiply(q, c)\n}\n", own: -1, judged: 1},
		{name: "a change that cannot be evaluated", before: plain, after: foreign + "  ROOT r = f32[2] add(q, q)\n}\n", own: -1, unknown: 1},
		{name: "own inputs over the limit", before: plain, after: scaled, steps: 1, own: 0, judged: 1},
	}
	for _, tt := range tests {
		m := module(t, tt.after)
		trail := &triage.Trail{Before: module(t, tt.before), States: []triage.State{{Module: m, Sum: triage.SumOf(m)}}}
		args := [][]*eval.Value{{eval.FromLiteral(literal(t, "f32[2] {5, 6}"))}}
		v, err := trail.ValidateKnown(context.Background(), args, eval.Options{Bounds: true, MaxSteps: tt.steps}, &triage.Evaluations{}, tt.own)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if v.Judged != tt.judged || v.Undecided != tt.undecided || v.Unknown != tt.unknown {
			t.Errorf("%s: %d judged, %d undecided, %d unknown; %+v %+v", tt.name, v.Judged, v.Undecided, v.Unknown, v.Steps[0], v.Steps[0].Regions)
		}
	}
}

// Where an evaluation is dear, a step that changes no data flow is judged
// without another; one that does is evaluated.
func TestValidateSharesWhatIsTheSameByConstruction(t *testing.T) {
	const text = `HloModule m
fused {
  x = f32[2] parameter(0)
  ROOT y = f32[2] negate(x)
}
body {
  s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[2] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[2] %s
  ROOT t = (s32[], f32[2]) tuple(j, y)
}
condition {
  s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2001)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[2] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[2]) tuple(z, x)
  w = (s32[], f32[2]) while(t), condition=condition, body=body
  ROOT r = f32[2] get-tuple-element(w), index=1
}
`
	for _, tt := range []struct {
		name, body string
		shared     int
		guilty     bool
	}{
		{"fused", "fusion(x), kind=kLoop, calls=fused", 1, false},
		{"a copy for a negation", "copy(x)", 0, true},
		{"another operation", "subtract(x, x)", 0, true},
	} {
		before, after := module(t, fmt.Sprintf(text, "negate(x)")), module(t, fmt.Sprintf(text, tt.body))
		trail := &triage.Trail{Before: before, States: []triage.State{{Module: after, Sum: triage.SumOf(after)}}}
		v, err := trail.Validate(context.Background(), [][]*eval.Value{{eval.FromLiteral(literal(t, "f32[2] {5, 6}"))}}, eval.Options{Bounds: true})
		if err != nil {
			t.Fatal(err)
		}
		if v.Shared != tt.shared || v.Judged != 1 || (v.Guilty() != nil) != tt.guilty || v.Sets[0].Elements != 2 {
			t.Errorf("%s: %d shared, %d judged, guilty %v, %d elements", tt.name, v.Shared, v.Judged, v.Guilty() != nil, v.Sets[0].Elements)
		}
	}
}

// What a step that changes no data flow shares with the state before it is its
// own: what later steps give is not what the next trail takes it for.
func TestSharedEvaluationsStandStill(t *testing.T) {
	text := func(loop, root string) *hlo.Module {
		return module(t, `HloModule m
one {
  y = s32[] parameter(0)
  c = s32[] constant(1)
  ROOT r = s32[] add(y, c)
}
body {
  i = s32[] parameter(0)
  c = s32[] constant(1)
  ROOT j = s32[] `+loop+`
}
condition {
  i = s32[] parameter(0)
  n = s32[] constant(3000)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = s32[] parameter(0)
  w = s32[] while(x), condition=condition, body=body
  two = s32[] constant(2)
  ROOT r = s32[] `+root+`(w, two)
}
`)
	}
	program, called, wrong := text("add(i, c)", "add"), text("call(i), to_apply=one", "add"), text("call(i), to_apply=one", "subtract")
	args := [][]*eval.Value{{eval.FromLiteral(literal(t, "s32[] 5"))}}
	known := &triage.Evaluations{}
	for _, build := range []string{"base", "head"} {
		trail := &triage.Trail{Before: program, States: []triage.State{{Module: called, Sum: triage.SumOf(called)}, {Module: wrong, Sum: triage.SumOf(wrong)}}}
		v, err := trail.ValidateKnown(context.Background(), args, eval.Options{Bounds: true}, known, -1)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := v.Steps[0].Standing, v.Steps[1].Standing; a != triage.Same || b != triage.Guilty || v.Shared == 0 {
			t.Errorf("%s: the step that only outlines is %s, the one that subtracts %s, %d shared", build, a, b, v.Shared)
		}
	}
}

// What only an instruction needs that the reference cannot evaluate is still
// what the program computes: here the mask, which the pass reads in the place of
// another.
func TestValidateSeesWhatUnsupportedOperationsRead(t *testing.T) {
	const head = `HloModule m
ENTRY e {
  x = f32[3,3] parameter(0)
  i = s32[3,3] iota(), iota_dimension=0
  j = s32[3,3] iota(), iota_dimension=1
  m = pred[3,3] compare(i, j), direction=%s
  f = f32[3,3] convert(m)
  s = f32[3,3] add(x, f)
  c = f32[3,3] custom-call(s), custom_call_target="SomethingElse"
  z = f32[] constant(0)
  b = f32[3,3] broadcast(z), dimensions={}
`
	const plain = `  k = s32[3] iota(), iota_dimension=0
  p = s32[3,3] broadcast(k), dimensions={0}
  q = s32[3,3] broadcast(k), dimensions={1}
  n = pred[3,3] compare(p, q), direction=EQ
  ROOT r = f32[3,3] select(n, c, b)
}
`
	const rewritten = `  n = pred[3,3] transpose(m), dimensions={0,1}
  ROOT r = f32[3,3] select(n, c, b)
}
`
	for direction, guilty := range map[string]bool{"EQ": false, "LT": true} {
		before, after := module(t, fmt.Sprintf(head, direction)+plain), module(t, fmt.Sprintf(head, direction)+rewritten)
		trail := &triage.Trail{Before: before, States: []triage.State{{Module: after, Sum: triage.SumOf(after)}}}
		v, err := trail.Validate(context.Background(), [][]*eval.Value{{eval.FromLiteral(literal(t, "f32[3,3] {{1,2,3},{4,5,6},{7,8,9}}"))}}, eval.Options{Bounds: true})
		if err != nil {
			t.Fatal(err)
		}
		if (v.Guilty() != nil) != guilty || v.Judged != 1 {
			t.Errorf("%s: %d judged, %+v", direction, v.Judged, v.Steps[0])
		}
	}
}
