package triage

import (
	"context"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// CountPieces says how much of a program the reference can judge when it is cut
// into single instructions, each on the values that it sees when the program
// runs on args: loops and conditionals count as Computations, all else as
// Operations. Nothing is executed on a build.
func CountPieces(ctx context.Context, m *hlo.Module, args []*eval.Value) (levels [3]PieceTally) {
	f := flatten(m)
	values, _ := f.trace(ctx, args, eval.Options{}, keptElements)
	for c, runs := range values {
		for _, in := range c.Instructions {
			switch in.Op {
			case hlo.OpParameter, hlo.OpTuple, hlo.OpGetTupleElement, hlo.OpConstant:
				continue
			}
			if runs[0][in] == nil || ctx.Err() != nil {
				continue
			}
			levels[levelOf(in, Operations)].add(countPiece(ctx, in, runs[0]))
		}
	}
	return levels
}

// countPiece judges one instruction alone.
func countPiece(ctx context.Context, in *hlo.Instruction, values map[*hlo.Instruction]*eval.Value) PieceTally {
	recorded := map[*hlo.Instruction]*hlo.Literal{}
	for _, o := range in.Operands {
		if v := values[o]; v != nil {
			if l, err := v.Literal(o.Shape.WithoutLayout()); err == nil {
				recorded[o] = l
			}
		}
	}
	p := cutOut(in, recorded)
	if p.Module == nil {
		return PieceTally{Unsupported: 1}
	}
	v, err := eval.Run(ctx, p.Module, literalValues(p.Inputs), eval.Options{Bounds: true, MaxSteps: regionSteps})
	if err != nil {
		return PieceTally{Unsupported: 1}
	}
	t := PieceTally{Pieces: 1, Loose: WideElements(v)}
	for _, a := range leaves(v) {
		for i := range a.Len() {
			if a.Legal(i, a.At(i)) == eval.Undecided {
				t.Undecided++
			} else {
				t.Judged++
			}
		}
	}
	return t
}
