package gate

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
	"github.com/passgate/passgate/xla/worker/workertest"
)

// tampering injects a memory fault into the examined runs of some builds.
type tampering struct {
	*worker.Pool
	kind string
	on   map[string]bool // by build spec
}

func (p *tampering) with(b *builds.Build, r worker.Request) worker.Request {
	if r.CheckMemory && p.on[b.Spec.String()] {
		r.Options = maps.Clone(r.Options)
		r.Options[worker.FaultOption] = p.kind
	}
	return r
}

func (p *tampering) Do(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	return p.Pool.Do(ctx, b, p.with(b, r))
}

func (p *tampering) DoFresh(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	return p.Pool.DoFresh(ctx, b, p.with(b, r))
}

// TestFaultsInMemoryBecomeFindings injects faults into the runs of head, and of
// both builds.
func TestFaultsInMemoryBecomeFindings(t *testing.T) {
	pool, b := workertest.Open(t, 2, "fault:0:xla-2026-06", "fault:0:jax-0.11.2")
	base, head := b[0].Spec.String(), b[1].Spec.String()
	read := func(text string) *fuzz.Case {
		c, err := fuzz.ReadCase("update.case", []byte("-- module.hlo --\n"+text+"-- inputs --\nrandom f32[32] seed=1\nrandom f32[16] seed=2\n"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	body := "{\n  x = f32[32] parameter(0)\n  u = f32[16] parameter(1)\n  i = s32[] constant(3)\n  d = f32[32] dynamic-update-slice(x, u, i)\n  c = f32[] constant(0.3)\n  b = f32[32] broadcast(c), dimensions={}\n  s = f32[32] add(d, b)\n  ROOT r = f32[32] tanh(s)\n}\n"
	plain, aliased := read("HloModule m\nENTRY e "+body), read("HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\nENTRY e "+body)
	for _, c := range []struct {
		kind             string
		c                *fuzz.Case
		class            Class
		nature, detail   string
		blocks, both     bool
		confirmedByFresh string
	}{
		{kind: "change", c: plain, class: BufferCorruption, nature: "input changed", detail: "input changed: argument 0, 2 bytes from byte 1", blocks: true, confirmedByFresh: "3 of 3"},
		{kind: "change", c: plain, class: BufferCorruption, nature: "input changed", both: true},
		{kind: "overwrite", c: plain, class: BufferCorruption, nature: "input overwritten", detail: "the program writes to argument 0, which is not donated", blocks: true, confirmedByFresh: "3 of 3"},
		{kind: "overrun on a thread", c: plain, class: BufferCorruption, nature: "memory beside an argument touched", detail: "1 bytes behind the end of argument 0", blocks: true, confirmedByFresh: "3 of 3"},
		{kind: "race", c: plain, class: Nondeterminism, nature: "executions differ", detail: "not blocking: every result is legal; seen in this run: 2 different results: in concurrent executions, in 3 of 3 fresh processes"},
		{kind: "place", c: aliased, class: Nondeterminism, nature: "executions differ", detail: "2 different results: with guarded arguments"},
		{c: plain}, {c: aliased},
	} {
		name := c.kind
		if c.both {
			name += " on both"
		}
		t.Run(name, func(t *testing.T) {
			runner := &tampering{pool, c.kind, map[string]bool{head: c.kind != "", base: c.both}}
			res, err := Run(t.Context(), Config{Base: b[0], Head: b[1], Runner: runner, Now: time.Now, Seed: 1, Workers: 2, Cases: []*fuzz.Case{c.c}})
			if err != nil {
				t.Fatal(err)
			}
			if m := res.Memory; m == nil || m.Programs != 1 || m.Arguments == 0 {
				t.Errorf("memory %+v", m)
			}
			if c.kind == "" {
				if len(res.Findings) != 0 {
					t.Errorf("findings %+v", res.Findings)
				}
				return
			}
			if len(res.Findings) != 1 {
				t.Fatalf("%d findings, first %s", len(res.Findings), res.Findings[0].Detail)
			}
			f := res.Findings[0]
			status := New
			if c.both {
				status = PreExisting
			}
			if f.Class != c.class || f.Status != status || f.Blocking != c.blocks || f.Nature != c.nature || !strings.Contains(f.Said(), c.detail) || f.Confirmed != c.confirmedByFresh {
				t.Errorf("%s %s %t %q %q %s", f.Class, f.Status, f.Blocking, f.Nature, f.Said(), f.Confirmed)
			}
			if (res.Verdict == Blocked) != c.blocks {
				t.Errorf("verdict %s", res.Verdict)
			}
		})
	}
}

// TestResultsAndThePast compares what a case gives in a process of its own,
// after other programs, and in the pool.
func TestResultsAndThePast(t *testing.T) {
	pool, b := workertest.Open(t, 2, "xla-2026-06")
	cases := []*fuzz.Case{exampleCase(t, "softmax"), exampleCase(t, "shifted-copy")}
	seed := uint64(0)
	for ; ; seed++ { // in which the first case is one of those that are looked at
		k := &caseRun{run: newRun(Config{Seed: seed}), c: cases[0]}
		if k.share(pastEvery, "past") {
			break
		}
	}
	seen := 0
	runner := &watching{Pool: pool, seen: &seen}
	res, err := Run(t.Context(), Config{Base: b[0], Head: b[0], Runner: runner, Now: time.Now, Seed: seed, Workers: 1, Cases: cases[:2]})
	if err != nil {
		t.Fatal(err)
	}
	if res.Memory == nil || res.Memory.Past == 0 || seen == 0 {
		t.Errorf("memory %+v, %d runs after others", res.Memory, seen)
	}
	// A build whose results depend on what ran before.
	runner.spoil = true
	res, err = Run(t.Context(), Config{Base: b[0], Head: b[0], Runner: runner, Now: time.Now, Seed: seed, Workers: 1, Cases: cases[:1]})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Findings) != 1 || res.Findings[0].Class != Nondeterminism || res.Findings[0].Status != PreExisting || !strings.Contains(res.Findings[0].Said(), "other results after other programs") {
		t.Errorf("findings %+v", res.Findings)
	}
}

// watching counts the runs after others, and spoils them on demand.
type watching struct {
	*worker.Pool
	seen  *int
	spoil bool
}

func (p *watching) DoFresh(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	o := p.Pool.DoFresh(ctx, b, r)
	if len(r.Before) == 0 || o.Result == nil {
		return o
	}
	*p.seen++
	if p.spoil {
		for _, s := range o.Result.Sets {
			s.Distinct[0].Outputs[0].Data[0] ^= 1
		}
	}
	return o
}
