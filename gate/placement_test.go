package gate

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo/hlopb"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
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

// overlapping is a runner whose head gives all values of an allocation the same
// place.
type overlapping struct {
	Runner
	head string
}

func (p overlapping) Do(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	o := p.Runner.Do(ctx, b, r)
	files, _ := filepath.Glob(filepath.Join(r.DumpDir, "*after_optimizations.hlo.pb"))
	if b.ID != p.head || r.DumpDir == "" || len(files) != 1 {
		return o
	}
	var dump hlopb.HloProto
	data, err := os.ReadFile(files[0])
	if err == nil {
		err = proto.Unmarshal(data, &dump)
	}
	if err == nil {
		for _, a := range dump.GetBufferAssignment().GetBufferAllocations() {
			for _, v := range a.Assigned {
				v.Offset = 0
			}
		}
		data, err = proto.Marshal(&dump)
	}
	if err == nil {
		err = os.WriteFile(files[0], data, 0o600)
	}
	if err != nil {
		panic(err)
	}
	return o
}

const twoLive = `-- module.hlo --
HloModule two
ENTRY e {
  x = f32[8,8] parameter(0)
  y = f32[8,8] parameter(1)
  a = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[8,8] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
`

// The buffer assignment of a compile-only build is checked between its
// instructions; it does not block, since nothing is executed.
func TestPlacementOfCompileOnlyBuilds(t *testing.T) {
	pool, b := workertest.Open(t, 2, "xla-2026-06", "jax-0.11.2")
	for _, one := range b {
		one.Kind = builds.CompileOnly // as if there were no device
	}
	c, err := fuzz.ReadCase("two.case", []byte(twoLive))
	if err != nil {
		t.Fatal(err)
	}
	run := func(r Runner, c *fuzz.Case) *Result {
		res, err := Run(t.Context(), Config{Base: b[0], Head: b[1], Runner: r, Now: time.Now, Seed: 1, Cases: []*fuzz.Case{c}})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for _, c := range []*fuzz.Case{c, exampleCase(t, "shifted-copy")} {
		if res := run(pool, c); len(res.Findings) != 0 || res.Cases[0].Buffers == nil {
			t.Errorf("%s: buffers %+v, findings %+v", c.Name, res.Cases[0].Buffers, res.Findings)
		}
	}
	res := run(overlapping{pool, b[1].ID}, c)
	if len(res.Findings) != 1 {
		t.Fatalf("findings %+v", res.Findings)
	}
	f := res.Findings[0]
	if f.Class != BufferCorruption || f.Status != New || f.Blocking || !slices.Equal(f.Witnesses, []string{WitnessPlacement}) || !strings.Contains(f.Detail, "nothing is executed") {
		t.Errorf("%+v", f)
	}
}
