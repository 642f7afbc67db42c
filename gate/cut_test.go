package gate

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
	"github.com/passgate/passgate/xla/worker/workertest"
)

// deepCase is a program of depth layers in which errors grow tenfold per layer:
// nothing can be said of its result as a whole.
func deepCase(t *testing.T, depth int) *fuzz.Case {
	t.Helper()
	var b strings.Builder
	b.WriteString("-- module.hlo --\nHloModule deep\n\nENTRY e {\n  xx0 = f32[8] parameter(0)\n  w = f32[8,8] parameter(1)\n  g = f32[] constant(37)\n  gs = f32[8] broadcast(g), dimensions={}\n")
	for i := range depth {
		fmt.Fprintf(&b, "  dd%d = f32[8] dot(xx%d, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n", i, i)
		fmt.Fprintf(&b, "  mm%d = f32[8] multiply(dd%d, gs)\n", i, i)
		fmt.Fprintf(&b, "  sn%d = f32[8] sine(mm%d), metadata={op_name=\"layer%d\" source_file=\"model.py\" source_line=%d}\n", i, i, i, i)
		root := ""
		if i == depth-1 {
			root = "ROOT "
		}
		fmt.Fprintf(&b, "  %sxx%d = f32[8] add(sn%d, xx%d)\n", root, i+1, i, i)
	}
	b.WriteString("}\n-- inputs --\nrandom f32[8] seed=1\nrandom f32[8,8] seed=2\n")
	c, err := fuzz.ReadCase("deep.case", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// planter makes one build wrong: the sine of one layer becomes a cosine, in
// programs that go through the passes or behind them.
type planter struct {
	*worker.Pool
	head   string // ID
	layer  string
	behind bool
}

func (p planter) plant(b *builds.Build, r worker.Request) worker.Request {
	if b.ID != p.head || r.BackendOnly != p.behind {
		return r
	}
	m, err := hlo.UnmarshalModule(r.Program)
	if err != nil {
		return r
	}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			if in.Op == hlo.OpSine && in.Attr.GetMetadata().GetOpName() == p.layer {
				in.Op = hlo.OpCosine
			}
		}
	}
	r.Program, _ = hlo.MarshalModule(m)
	return r
}

func (p planter) Do(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	return p.Pool.Do(ctx, b, p.plant(b, r))
}

func (p planter) DoFresh(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	return p.Pool.DoFresh(ctx, b, p.plant(b, r))
}

// TestCut: a wrong operation deep in a program that cannot be judged as a whole
// is found, named, and blocks; a right build raises no alarm.
func TestCut(t *testing.T) {
	t.Parallel()
	pool, found := workertest.Open(t, 2, "xla-2026-06", "jax-0.11.2")
	base, head := found[0], found[1]
	for _, tc := range []struct {
		name    string
		runner  Runner
		noCut   bool
		verdict Verdict
		level   Level
		piece   string
		opcode  string
	}{
		{name: "right", runner: pool, verdict: Pass},
		{name: "in the passes", runner: planter{pool, head.ID, "layer17", false}, verdict: Blocked, level: LevelHLO, piece: "region", opcode: "sine"},
		{name: "in a kernel", runner: planter{pool, head.ID, "layer5", true}, verdict: Blocked, level: LevelEmitter, piece: "fusion", opcode: "fusion"},
		{name: "not looked for", runner: planter{pool, head.ID, "layer17", false}, noCut: true, verdict: Pass},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			res, err := Run(t.Context(), Config{Base: base, Head: head, Runner: tc.runner, Now: time.Now, Seed: 1, NoCut: tc.noCut, Cases: []*fuzz.Case{deepCase(t, 30)}})
			if err != nil {
				t.Fatal(err)
			}
			if res.Verdict != tc.verdict {
				t.Fatalf("verdict %s (%v), want %s; findings %+v", res.Verdict, res.Reasons, tc.verdict, res.Findings)
			}
			if tc.noCut {
				if res.Cut != nil {
					t.Errorf("counts %+v of a cut that was not to be made", res.Cut)
				}
				return
			}
			if res.Cut == nil || res.Cut.Cases != 1 || res.Cut.JudgedSteps != res.Cut.Steps || res.Cut.Steps == 0 {
				t.Fatalf("counts %+v", res.Cut)
			}
			for _, l := range res.Cut.Levels[levelRegions:] {
				if l.UndecidedElements > 0 || l.Unsupported > 0 || l.WrongElements > 0 != (l.Level == tc.piece+"s") {
					t.Errorf("level %+v", l)
				}
			}
			if tc.verdict == Pass {
				return
			}
			f := res.Findings[0]
			if f.Status != New || f.Level != tc.level || f.Piece != tc.piece || f.Location == nil || f.Location.Opcode != tc.opcode || f.Confirmed != "3 of 3" {
				t.Errorf("finding %+v, location %+v", f, f.Location)
			}
			if tc.level == LevelHLO && (f.Location.Source != "model.py:17" || f.Instruction != "sn17") {
				t.Errorf("at %s, %s", f.Instruction, f.Location.Source)
			}
			if f.Instructions > 12 || !strings.Contains(f.Minimal, "sine") {
				t.Errorf("the minimal program has %d instructions:\n%s", f.Instructions, f.Minimal)
			}
		})
	}
}

// TestCutWork: what the limit on work leaves out is counted and named, and passes
// in focus come first; without one, and from run to run, the counts are the same.
func TestCutWork(t *testing.T) {
	t.Parallel()
	pool, found := workertest.Open(t, 1, "jax-0.11.2")
	judge := func(work int64) *CutCounts {
		t.Helper()
		res, err := Run(t.Context(), Config{Base: found[0], Head: found[0], Runner: pool, Now: time.Now, Seed: 1, CutWork: work,
			Passes: []Focus{{Name: "fusion", Weight: 6, Matches: func(s string) bool { return s == "fusion" }}}, Cases: []*fuzz.Case{deepCase(t, 30)}})
		if err != nil {
			t.Fatal(err)
		}
		return res.Cut
	}
	all, little, again := judge(0), judge(2), judge(2)
	if all.UnreachedSteps+all.UnreachedPieces > 0 || len(all.UnreachedPasses) > 0 || all.JudgedSteps != all.Steps {
		t.Errorf("without a limit: %+v", all)
	}
	if little.Steps != all.Steps || little.JudgedSteps != 1 || little.UnreachedSteps != all.Steps-1 || little.UnreachedPieces == 0 {
		t.Errorf("with a limit: %+v", little)
	}
	if slices.Contains(little.UnreachedPasses, "fusion") || len(little.UnreachedPasses) == 0 {
		t.Errorf("passes not reached: %v", little.UnreachedPasses)
	}
	if !reflect.DeepEqual(little, again) {
		t.Errorf("%+v, and then %+v", little, again)
	}
}
