package gate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/pjrt"
	"github.com/passgate/passgate/xla/worker"
)

// program is a module with one s32[4] parameter and a body that ends in root.
func program(body string) string {
	return "HloModule p\nENTRY e {\n  x = s32[4] parameter(0)\n" + body + "}\n"
}

const (
	doubles = "  ROOT r = s32[4] add(x, x)\n"
	twice   = "  c = s32[] constant(2)\n  b = s32[4] broadcast(c), dimensions={}\n  ROOT r = s32[4] multiply(x, b)\n"
	triples = "  c = s32[] constant(3)\n  b = s32[4] broadcast(c), dimensions={}\n  ROOT r = s32[4] multiply(x, b)\n"
	zero    = "  ROOT r = s32[4] subtract(x, x)\n"
)

type dumped struct{ pass, body string }

// dumps writes what a compiler's per-pass dump of the steps looks like.
func dumps(t *testing.T, dir string, steps []dumped) {
	t.Helper()
	for i, s := range steps {
		c, err := fuzz.ReadModule("p.hlo", []byte(program(s.body)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := hlo.MarshalModule(c.Module)
		if err != nil {
			t.Fatal(err)
		}
		data := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), m)
		next := "pipeline-end"
		if i+1 < len(steps) {
			next = steps[i+1].pass
		}
		name := fmt.Sprintf("module_0000.p.%04d.main.after_%s.before_%s.hlo.pb", i, s.pass, next)
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// small are inputs on which nothing overflows, large others.
const (
	small = "s32[4] {1, 2, 3, 4}"
	large = "s32[4] {2147483647, 2147483646, 2147483645, 2147483644}"
)

func passCase(t *testing.T, body, inputs string) *fuzz.Case {
	t.Helper()
	c, err := fuzz.ReadCase("p.case", []byte("-- module.hlo --\n"+program(body)+"-- inputs --\n"+inputs+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPassesOnlyCompareThePassesOfBaseAndHead(t *testing.T) {
	right := []dumped{{"rewrite", twice}, {"cse", twice}}
	wrong := []dumped{{"rewrite", triples}}
	tests := []struct {
		name       string
		base, head []dumped
		headCrash  bool
		status     gate.Status
		class      gate.Class
		blocking   bool
		pass       string
	}{
		{name: "same", base: right, head: right},
		{name: "new", base: right, head: wrong, status: gate.New, class: gate.Miscompile, blocking: true, pass: "main/0/rewrite"},
		{name: "fixed", base: wrong, head: right, status: gate.Fixed, class: gate.Miscompile, pass: "main/0/rewrite"},
		{name: "pre-existing", base: wrong, head: wrong, status: gate.PreExisting, class: gate.Miscompile, pass: "main/0/rewrite"},
		{name: "the same fault in another pass", base: []dumped{{"earlier", triples}}, head: wrong, status: gate.PreExisting, class: gate.Miscompile, pass: "main/0/rewrite"},
		{name: "second step", base: right, head: append(slices.Clone(right), dumped{"zero", zero}), status: gate.New, class: gate.Miscompile, blocking: true, pass: "main/2/zero"},
		{name: "crash in a pass", base: right, head: right[:1], headCrash: true, status: gate.New, class: gate.Crash, blocking: true, pass: "main/pipeline-end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			runner := &fake{answer: func(c call) worker.Outcome {
				if !c.CompileOnly || len(c.Inputs) > 0 {
					t.Error("the program was executed")
				}
				steps := tt.base
				if c.build == "head" {
					steps = tt.head
				}
				dumps(t, c.DumpDir, steps)
				if c.build == "head" && tt.headCrash {
					return worker.Outcome{Status: worker.Crashed, Crash: &worker.Crash{Signal: "SIGABRT"}}
				}
				return worker.Outcome{Status: worker.OK, Result: &worker.Result{}}
			}}
			res, err := gate.Run(context.Background(), gate.Config{
				Base: &builds.Build{Spec: builds.Spec{Text: "base"}, ID: "b", Kind: builds.CompileOnly}, Head: &builds.Build{Spec: builds.Spec{Text: "head"}, ID: "h", Kind: builds.CompileOnly},
				Cases: []*fuzz.Case{passCase(t, doubles, small)}, Runner: runner, Now: func() time.Time { return time.Time{} }, Seed: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			if res.Totals.PassesOnly != 1 || res.Totals.Executed != 0 || res.Base.Kind != "compile-only" {
				t.Errorf("totals %+v, base %+v", res.Totals, res.Base)
			}
			if want := len(tt.base) + len(tt.head); !tt.headCrash && (res.Steps == nil || res.Steps.Judged != want || res.Steps.Unknown != 0) {
				t.Errorf("steps %+v, want %d judged", res.Steps, want)
			}
			if tt.status == "" {
				if len(res.Findings) != 0 || res.Verdict != gate.Pass || res.Steps.Aligned != 2 || res.Steps.Shared == 0 {
					t.Errorf("verdict %s, findings %+v, steps %+v", res.Verdict, res.Findings, res.Steps)
				}
				return
			}
			if len(res.Findings) != 1 {
				t.Fatalf("findings %+v", res.Findings)
			}
			f := res.Findings[0]
			if f.Status != tt.status || f.Class != tt.class || f.Blocking != tt.blocking || f.Pass.String() != tt.pass {
				t.Errorf("got %s %s blocking %v pass %s (%s)", f.Status, f.Class, f.Blocking, f.Pass, f.Detail)
			}
			if f.Class == gate.Miscompile && (!slices.Equal(f.Witnesses, []string{gate.WitnessPasses}) || f.Level != gate.LevelHLO || f.Instruction == "") {
				t.Errorf("witnesses %v, level %s, instruction %q", f.Witnesses, f.Level, f.Instruction)
			}
		})
	}
}

func TestPassesOnlyContestIsThatOfTheProgram(t *testing.T) {
	run := func(body, inputs string, head []dumped) gate.Finding {
		t.Helper()
		runner := &fake{answer: func(c call) worker.Outcome {
			if c.build == "head" {
				dumps(t, c.DumpDir, head)
			}
			return worker.Outcome{Status: worker.OK, Result: &worker.Result{}}
		}}
		b := func(s string) *builds.Build {
			return &builds.Build{Spec: builds.Spec{Text: s}, ID: s, Kind: builds.CompileOnly}
		}
		f, err := gate.Investigate(context.Background(), gate.Config{Base: b("base"), Head: b("head"), Runner: runner, Now: func() time.Time { return time.Time{} }}, passCase(t, body, inputs), 0)
		if err != nil {
			t.Fatal(err)
		}
		return *f
	}
	// x+x overflows in the program itself.
	onlyOverflowing := "  c = s32[] constant(1073741823)\n  b = s32[4] broadcast(c), dimensions={}\n  m = s32[4] minimum(x, b)\n  ROOT r = s32[4] add(m, m)\n"
	if f := run(doubles, large, []dumped{{"clamp", onlyOverflowing}}); f.Stream == fuzz.OwnStream && f.Status != gate.Contested {
		t.Errorf("a fault on overflow is %s", f.Status)
	}
	// Only the wrong module overflows: that is no excuse.
	overflows := "  c = s32[] constant(2147483647)\n  b = s32[4] broadcast(c), dimensions={}\n  ROOT r = s32[4] add(x, b)\n"
	if f := run("  ROOT r = s32[4] copy(x)\n", small, []dumped{{"clamp", overflows}}); f.Status != gate.New {
		t.Errorf("a wrong rewrite that overflows is %s", f.Status)
	}
}

func TestPassesOnlyOfACompilerThatFailsBehindThePasses(t *testing.T) {
	for _, failure := range []worker.Outcome{
		{Status: worker.Rejected, Failure: &worker.Failure{Stage: worker.StageCompile, Code: pjrt.Unimplemented, Message: "No PTX compilation provider"}},
		{Status: worker.Crashed, Crash: &worker.Crash{Signal: "SIGSEGV"}},
	} {
		runner := &fake{answer: func(c call) worker.Outcome {
			dumps(t, c.DumpDir, []dumped{{"rewrite", twice}})
			m, err := os.ReadFile(filepath.Join(c.DumpDir, "module_0000.p.0000.main.after_rewrite.before_pipeline-end.hlo.pb"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(c.DumpDir, "module_0000.p.after_optimizations.hlo.pb"), m, 0o644); err != nil {
				t.Fatal(err)
			}
			return failure
		}}
		b := func(s string) *builds.Build {
			return &builds.Build{Spec: builds.Spec{Text: s}, ID: s, Kind: builds.CompileOnly}
		}
		res, err := gate.Run(context.Background(), gate.Config{Base: b("base"), Head: b("head"), Cases: []*fuzz.Case{passCase(t, doubles, small)},
			Runner: runner, Now: func() time.Time { return time.Time{} }, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if res.Verdict != gate.Pass || len(res.Findings) != 0 || res.Cases[0].Outcome != gate.CaseOK {
			t.Errorf("%v: verdict %s, case %+v", failure.Status, res.Verdict, res.Cases[0])
		}
	}
}

// A real regression between two real CPU builds, seen without executing
// anything, and the third witness on one of them.
// A real regression between two real CPU builds, seen without executing
// anything, and the third witness on one of them.
func TestPassesOnlyOnRealBuilds(t *testing.T) {
	store, err := builds.NewStore(builds.Config{Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(name string) *builds.Build {
		spec, err := builds.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := store.Fetch(context.Background(), spec)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	pool, err := worker.NewPool(worker.Config{Command: []string{os.Args[0], "worker"}, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var cases []*fuzz.Case
	for _, name := range []string{"exponentials-overflow", "scatter-narrow-index", "softmax", "matmul"} {
		data, err := os.ReadFile(filepath.Join("..", "examples", "cases", name+".case"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := fuzz.ReadCase(name+".case", data)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	cfg := gate.Config{Base: fetch("jax-0.11.2"), Head: fetch("xla-2026-06"), Witness: fetch("jax-0.11.2"), Cases: cases, Runner: pool, Now: time.Now, Seed: 1, PassesOnly: true, Probes: 20}
	res, err := gate.Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]gate.Finding{}
	for _, f := range res.Findings {
		status[f.Case] = f
	}
	f := status["exponentials-overflow"]
	if f.Status != gate.New || !f.Blocking || f.Pass == nil || f.Pass.Name != "algsimp" || !slices.Contains(f.Witnesses, gate.WitnessCross) {
		t.Errorf("exponentials-overflow: %s, blocking %v, pass %v, witnesses %v: %s", f.Status, f.Blocking, f.Pass, f.Witnesses, f.Detail)
	}
	f = status["scatter-narrow-index"]
	if f.Status != gate.PreExisting || f.Pass == nil || f.Pass.Name != "scatter_expander" || !slices.Contains(f.Witnesses, gate.WitnessCross) {
		t.Errorf("scatter-narrow-index: %s, pass %v, witnesses %v: %s", f.Status, f.Pass, f.Witnesses, f.Detail)
	}
	if len(res.Findings) != 2 || res.Totals.PassesOnly != 4 || res.Steps.Unknown != 0 {
		t.Errorf("%d findings, totals %+v, steps %+v", len(res.Findings), res.Totals, res.Steps)
	}
}

// In a program that the reference cannot evaluate, a step that changes what
// cannot be evaluated is unknown, with the reason counted; the next one is
// judged by what it changed.
func TestPassesOnlyCountStepsOfUnreadablePrograms(t *testing.T) {
	runner := &fake{answer: func(c call) worker.Outcome {
		dumps(t, c.DumpDir, []dumped{{"rewrite", twice}, {"cse", doubles}})
		return worker.Outcome{Status: worker.OK, Result: &worker.Result{}}
	}}
	res, err := gate.Run(context.Background(), gate.Config{
		Base: &builds.Build{Spec: builds.Spec{Text: "base"}, ID: "b", Kind: builds.CompileOnly}, Head: &builds.Build{Spec: builds.Spec{Text: "head"}, ID: "h", Kind: builds.CompileOnly},
		Cases:  []*fuzz.Case{passCase(t, "  ROOT r = s32[4] custom-call(x), custom_call_target=\"SomethingElse\"\n", small)},
		Runner: runner, Now: func() time.Time { return time.Time{} }, Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := res.Steps
	if s == nil || s.Judged != 2 || s.Unknown != 2 || s.Base+s.Head != 4 || len(s.UnknownBy) != 1 {
		t.Fatalf("steps %+v", s)
	}
	for why, n := range s.UnknownBy {
		if n != 2 || why == "" {
			t.Errorf("%d unknown because %q", n, why)
		}
	}
}

// A compiler breaks without inputs, too: here the reference ends no input set.
func TestPassesOnlyCrashWithoutInputs(t *testing.T) {
	runner := &fake{answer: func(c call) worker.Outcome {
		if c.build == "head" {
			return worker.Outcome{Status: worker.Crashed, Crash: &worker.Crash{Signal: "SIGABRT"}}
		}
		dumps(t, c.DumpDir, []dumped{{"rewrite", doubles}})
		return worker.Outcome{Status: worker.OK, Result: &worker.Result{}}
	}}
	c, err := fuzz.ReadModule("p.hlo", []byte(program(doubles)))
	if err != nil {
		t.Fatal(err)
	}
	b := func(s string) *builds.Build {
		return &builds.Build{Spec: builds.Spec{Text: s}, ID: s, Kind: builds.CompileOnly}
	}
	res, err := gate.Run(context.Background(), gate.Config{Base: b("base"), Head: b("head"), Cases: []*fuzz.Case{c}, Runner: runner,
		Now: func() time.Time { return time.Time{} }, Seed: 1,
		Reference: func(context.Context, *hlo.Module, []*hlo.Literal, eval.Options) (*eval.Value, error) {
			return nil, eval.ErrStepLimit
		}})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Findings) != 1 || res.Findings[0].Class != gate.Crash || res.Findings[0].Status != gate.New || res.Cases[0].Outcome != gate.CaseFinding {
		t.Errorf("findings %+v, case %+v", res.Findings, res.Cases[0])
	}
}

// A program on which the reference goes over its step limit on every generated
// input is judged by what its pass steps change, on one of them.
func TestPassesOnlyJudgeStepsOfEndlessPrograms(t *testing.T) {
	for _, tt := range []struct {
		body   string
		status gate.Status
	}{{twice, ""}, {triples, gate.New}} {
		runner := &fake{answer: func(c call) worker.Outcome {
			steps := []dumped{{"rewrite", twice}}
			if c.build == "head" {
				steps[0].body = tt.body
			}
			dumps(t, c.DumpDir, steps)
			return worker.Outcome{Status: worker.OK, Result: &worker.Result{}}
		}}
		c, err := fuzz.ReadModule("p.hlo", []byte(program(doubles)))
		if err != nil {
			t.Fatal(err)
		}
		b := func(s string) *builds.Build {
			return &builds.Build{Spec: builds.Spec{Text: s}, ID: s, Kind: builds.CompileOnly}
		}
		res, err := gate.Run(context.Background(), gate.Config{Base: b("base"), Head: b("head"), Cases: []*fuzz.Case{c}, Runner: runner,
			Now: func() time.Time { return time.Time{} }, Seed: 1,
			Reference: func(context.Context, *hlo.Module, []*hlo.Literal, eval.Options) (*eval.Value, error) {
				return nil, eval.ErrStepLimit
			}})
		if err != nil {
			t.Fatal(err)
		}
		if s := res.Steps; s == nil || s.Judged != 2 || s.Unknown != 0 || len(res.Cases[0].Streams) != 1 || res.Cases[0].Streams[0].Name != fuzz.LatticeStream {
			t.Errorf("steps %+v, case %+v", s, res.Cases[0])
		}
		if (len(res.Findings) == 1) != (tt.status != "") || len(res.Findings) == 1 && (res.Findings[0].Status != tt.status || !res.Findings[0].Blocking) {
			t.Errorf("findings %+v", res.Findings)
		}
	}
}
