package gate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/worker/workertest"
)

// TestReduceIsOneMinimal reduces faults of a real build of every level: a loop
// that a pass removes, a rewrite of indices, a wrong kernel. The reducer run
// again on the small program changes nothing, and no instruction can be taken
// out by hand: none can be replaced by an operand, by a zero or by a parameter's
// value, and no other instruction can be the root.
func TestReduceIsOneMinimal(t *testing.T) {
	t.Parallel()
	pool, found := workertest.Open(t, 2, "jax-0.11.2")
	// What stands beside a checkout of the project is reduced where it is there.
	for _, path := range []string{"../examples/cases/slice-of-slice.case", "../examples/cases/shifted-copy.case", "../../shared/cases/c14e.case", "../../shared/cases/c01.case"} {
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) && strings.HasPrefix(path, "../../shared") {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			c, err := fuzz.ReadCase(path, data)
			if err != nil {
				t.Fatal(err)
			}
			b := poisoned(found[0])
			k := &caseRun{run: newRun(Config{Base: b, Head: b, Runner: pool, Now: time.Now, Seed: 1}), c: c}
			if k.base, err = encode(c); err != nil {
				t.Fatal(err)
			}
			k.ask(t.Context(), c.Streams(1), &caseReport{})
			all := gather(c, k.answer(t.Context()))
			if len(all) == 0 {
				t.Fatal("nothing wrong was seen")
			}
			f := &all[0]
			k.attribute(t.Context(), f)
			q, _ := k.questionOf(f.Stream)
			whole := triage.Program{Module: c.Module, Inputs: q.Inputs}
			fails := k.stillFails(f, probeLimit(t.Context(), whole))

			small := triage.Reduce(t.Context(), whole, fails, 0)
			if n := small.Module.NumInstructions(); n >= c.Module.NumInstructions() && strings.Contains(path, "c14e") || n > c.Module.NumInstructions() {
				t.Errorf("%d instructions of %d", n, c.Module.NumInstructions())
			}
			if again := triage.Reduce(t.Context(), small, fails, 0); again.Module.String() != small.Module.String() {
				t.Errorf("reduced again:\n%s\nbefore:\n%s", again.Module, small.Module)
			}
			if !fails(t.Context(), small) {
				t.Errorf("the small program does not fail:\n%s", small.Module)
			}
			for _, m := range without(small.Module) {
				if hlo.Verify(m) == nil && fails(t.Context(), triage.Program{Module: m, Inputs: small.Inputs}) {
					t.Errorf("fails as well:\n%s\nreduced program:\n%s", m, small.Module)
				}
			}
		})
	}
}

// without are the module with one instruction taken out, in every way that does
// not need the reducer.
func without(m *hlo.Module) []*hlo.Module {
	var out []*hlo.Module
	change := func(c, i int, f func(comp *hlo.Computation, in *hlo.Instruction) *hlo.Instruction) {
		n := m.Clone()
		comp := n.Computations[c]
		in := comp.Instructions[i]
		with := f(comp, in)
		for _, user := range comp.Instructions {
			for k, o := range user.Operands {
				if o == in && user != with {
					user.Operands[k] = with
				}
			}
		}
		if comp.Root == in {
			comp.Root = with
		}
		// A root that is read no more would be a result that nobody asked for.
		for dead := true; dead; {
			dead = false
			comp.Instructions = slices.DeleteFunc(comp.Instructions, func(x *hlo.Instruction) bool {
				used := x == comp.Root || x.Op == hlo.OpParameter || slices.ContainsFunc(comp.Instructions, func(u *hlo.Instruction) bool { return slices.Contains(u.Operands, x) })
				dead = dead || !used
				return !used
			})
		}
		n.EntryLayout = nil
		out = append(out, n)
	}
	for c, comp := range m.Computations {
		for i, in := range comp.Instructions {
			if in.Op == hlo.OpParameter || in.Op == hlo.OpConstant {
				continue
			}
			for k, o := range in.Operands {
				if o.Shape.Compatible(in.Shape) {
					change(c, i, func(_ *hlo.Computation, in *hlo.Instruction) *hlo.Instruction { return in.Operands[k] })
				}
			}
			if in.Shape.IsArray() && comp != m.Entry {
				change(c, i, func(comp *hlo.Computation, in *hlo.Instruction) *hlo.Instruction {
					zero := hlo.NewInstruction("zero", hlo.OpConstant, in.Shape.WithoutLayout())
					zero.Literal = hlo.NewLiteral(zero.Shape)
					comp.Instructions = slices.Insert(comp.Instructions, 0, zero)
					return zero
				})
			}
			if comp == m.Entry && in != comp.Root && in.Shape.IsArray() {
				n := m.Clone()
				n.Entry.Root, n.EntryLayout = n.Entry.Instructions[i], nil
				n.Entry.Instructions = n.Entry.Instructions[:i+1]
				out = append(out, n)
			}
		}
	}
	return out
}
