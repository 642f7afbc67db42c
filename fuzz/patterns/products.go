package patterns

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

// products are dots: forms that are decomposed, folded, widened, merged or
// sent to libraries.
var products = of("dot", nil, []Pattern{
	dot("many-dimensions", []string{"dot_decomposer", "dot_canonicalizer", "algsimp"}, func(b *builder) value {
		t := dotType(b)
		m, k, l, n := b.Size(1), b.Size(1), b.Size(1), b.Size(1)
		return b.Dot(t, b.Source(t, m, k, l), b.Source(t, k, l, n), program.Contraction{Left: []int64{1, 2}, Right: []int64{0, 1}})
	}),
	dot("batch-in-the-middle", []string{"dot_decomposer", "dot_canonicalizer"}, func(b *builder) value {
		t := dotType(b)
		m, k, n, s := b.Size(1), b.Size(1), b.Size(1), int64(b.Between(2, 3))
		return b.Dot(t, b.Source(t, m, s, k), b.Source(t, k, n, s), program.Contraction{Left: []int64{2}, Right: []int64{0}, LeftBatch: []int64{1}, RightBatch: []int64{2}})
	}),
	dot("contract-first", []string{"dot_decomposer", "transpose-folding"}, func(b *builder) value {
		t := dotType(b)
		m, k, n := b.Size(1), b.Size(1), b.Size(1)
		return b.Dot(t, b.Source(t, k, m), b.Source(t, n, k), program.Contraction{Left: []int64{0}, Right: []int64{1}})
	}),
	dot("two-free-dimensions", []string{"dot_decomposer", "dot_canonicalizer"}, func(b *builder) value {
		t := dotType(b)
		k := b.Size(1)
		return b.Dot(t, b.Source(t, int64(b.Between(1, 3)), int64(b.Between(1, 3)), k), b.Source(t, k, int64(b.Between(1, 3)), 2), program.Contraction{Left: []int64{2}, Right: []int64{0}})
	}),
	dot("degenerate-batch", []string{"batch-dot-simplification", "algsimp"}, func(b *builder) value {
		t := dotType(b)
		m, k, n := b.Size(2), b.Size(2), b.Size(2)
		return b.MatMul(b.Source(t, 1, m, k), b.Source(t, 1, k, n))
	}),
	dot("degenerate-of-two-batches", []string{"batch-dot-simplification"}, func(b *builder) value {
		t := dotType(b)
		m, k, n := b.Size(2), b.Size(2), b.Size(2)
		return b.MatMul(b.Source(t, 2, 1, m, k), b.Source(t, 2, 1, k, n))
	}),
	dot("transposed-operand", []string{"transpose-folding", "dot_decomposer", "algsimp"}, func(b *builder) value {
		t := program.Pick(b, hlo.F32, hlo.F32, hlo.F64)
		m, k, n := int64(b.Between(2, 70)), int64(b.Between(2, 40)), int64(b.Between(2, 40))
		x := b.Source(t, m, k)
		y := b.Transpose(b.Source(t, n, k), 1, 0)
		if b.Chance(2) {
			x = b.Transpose(b.Source(t, k, m), 1, 0)
		}
		return b.MatMul(x, y)
	}),
	dot("transposed-batch", []string{"transpose-folding", "dot_decomposer"}, func(b *builder) value {
		t := program.Pick(b, hlo.F32, hlo.F64)
		m, k, n := b.Size(2), b.Size(2), b.Size(2)
		return b.MatMul(b.Transpose(b.Source(t, 2, k, m), 0, 2, 1), b.Source(t, 2, k, n))
	}),
	dot("transposed-result", []string{"algsimp", "transpose-folding"}, func(b *builder) value {
		t := dotType(b)
		return b.Transpose(b.MatMul(b.Source(t, 3, 4), b.Source(t, 4, 5)), 1, 0)
	}),
	dot("vector-matrix", []string{"algsimp", "gemv-rewriter", "dot_decomposer"}, func(b *builder) value {
		t := dotType(b)
		k, n := int64(b.Between(1, 40)), int64(b.Between(1, 40))
		if b.Chance(2) {
			return b.Dot(t, b.Source(t, n, k), b.Source(t, k), program.Contraction{Left: []int64{1}, Right: []int64{0}})
		}
		return b.Dot(t, b.Source(t, k), b.Source(t, k, n), program.Contraction{Left: []int64{0}, Right: []int64{0}})
	}),
	dot("inner", []string{"algsimp", "dot_decomposer", "batch-dot-simplification"}, func(b *builder) value {
		t := dotType(b)
		k := int64(b.Between(1, 40))
		return b.Dot(t, b.Source(t, k), b.Source(t, k), program.Contraction{Left: []int64{0}, Right: []int64{0}})
	}),
	dot("outer", []string{"algsimp", "dot_decomposer"}, func(b *builder) value {
		t := dotType(b)
		return b.Dot(t, b.Source(t, b.Size(1)), b.Source(t, b.Size(1)), program.Contraction{})
	}),
	dot("by-zero", []string{"algsimp", "zero_sized_hlo_elimination"}, func(b *builder) value {
		t := dotType(b)
		return b.MatMul(b.Source(t, 3, 0), b.Source(t, 0, 4))
	}),
	dot("of-ones", []string{"algsimp"}, func(b *builder) value {
		t := dotType(b)
		x := b.Source(t, b.Size(2), b.Size(2))
		return b.MatMul(x, b.Splat(b.Number(t, 1), x.Shape.Dims[1], 3))
	}),
	dot("of-concat", []string{"algsimp"}, func(b *builder) value {
		x := b.Source(hlo.F32, 4, 6)
		y := b.Concat(0, b.Source(hlo.F32, 2, 3), b.Source(hlo.F32, 4, 3))
		if b.Chance(2) {
			y = b.Constant(hlo.F32, 6, 3)
			x = b.Concat(1, b.Source(hlo.F32, 4, 2), b.Source(hlo.F32, 4, 4))
		}
		return b.MatMul(x, y)
	}),
	dot("of-gather", []string{"algsimp"}, func(b *builder) value {
		x := b.Constant(hlo.F32, 3, 4)
		y := b.Constant(hlo.F32, 4, 6)
		d := b.DynamicSlice(y, []int64{4, 1}, b.Number(hlo.S32, 0), b.IndexOf(hlo.S32, 6))
		return b.MatMul(x, d)
	}),
	dot("of-reordered", []string{"algsimp"}, func(b *builder) value {
		x, y := b.Source(hlo.F32, 3, 8), b.Source(hlo.F32, 8, 5)
		return b.MatMul(b.Reverse(x, 1), b.Reverse(y, 0))
	}),
	dot("sum-of-two", []string{"algsimp", "dot-merger"}, func(b *builder) value {
		x := b.Source(hlo.F32, 4, 6)
		return b.Add(b.MatMul(x, b.Source(hlo.F32, 6, 5)), b.MatMul(x, b.Source(hlo.F32, 6, 5)))
	}),
	dot("narrow-integers", []string{"operand_upcaster", "result_caster"}, func(b *builder) value {
		t := program.Pick(b, hlo.S8, hlo.U8, hlo.S16, hlo.U16)
		k := b.Size(1)
		return b.Dot(program.Pick(b, hlo.S32, hlo.S32, hlo.S64), b.Source(t, 3, k), b.Source(t, k, 2), program.Contraction{Left: []int64{1}, Right: []int64{0}})
	}),
	dot("half", []string{"change-op-data-type", "operand_upcaster"}, func(b *builder) value {
		x, y := b.Source(hlo.F16, b.Size(1), 8), b.Source(hlo.F16, 8, b.Size(1))
		return b.Dot(program.Pick(b, hlo.F16, hlo.F32), x, y, program.Contraction{Left: []int64{1}, Right: []int64{0}})
	}),
	dot("bfloat", []string{"float-normalization-bf16", "operand_upcaster"}, func(b *builder) value {
		x, y := b.Source(hlo.BF16, b.Size(1), 8), b.Source(hlo.BF16, 8, b.Size(1))
		return b.Dot(program.Pick(b, hlo.BF16, hlo.F32), x, y, program.Contraction{Left: []int64{1}, Right: []int64{0}})
	}),
	dot("result-narrower", []string{"result_caster", "operand_upcaster"}, func(b *builder) value {
		t := program.Pick(b, hlo.S32, hlo.S16, hlo.F32)
		r := map[hlo.PrimitiveType]hlo.PrimitiveType{hlo.S32: hlo.S16, hlo.S16: hlo.S8, hlo.F32: hlo.BF16}[t]
		return b.Dot(r, b.Source(t, 3, 4), b.Source(t, 4, 2), program.Contraction{Left: []int64{1}, Right: []int64{0}})
	}),
	dot("convert-operands", []string{"algsimp", "convert_operand_folding"}, func(b *builder) value {
		t := program.Pick(b, hlo.S8, hlo.BF16, hlo.F16)
		w := map[hlo.PrimitiveType]hlo.PrimitiveType{hlo.S8: hlo.S32, hlo.BF16: hlo.F32, hlo.F16: hlo.F32}[t]
		return b.MatMul(b.Convert(b.Source(t, 4, 5), w), b.Convert(b.Source(t, 5, 3), w))
	}),
	dot("large", []string{"dot-library-rewriter", "cpu-parallel-task-assigner", "fusion"}, func(b *builder) value {
		n := program.Pick[int64](b, 32, 48, 64)
		d := b.MatMul(b.Source(hlo.F32, n, n), b.Source(hlo.F32, n, n))
		return b.Add(d, b.Splat(b.Source(hlo.F32), n, n))
	}),
	dot("batch-large", []string{"dot-library-rewriter", "cpu-parallel-task-assigner"}, func(b *builder) value {
		d := b.MatMul(b.Source(hlo.F32, 4, 16, 32), b.Source(hlo.F32, 4, 32, 16))
		return b.Bin(hlo.OpMaximum, d, b.Fill(d, 0))
	}),
	dot("chain", []string{"dot-library-rewriter", "algsimp"}, func(b *builder) value {
		return b.MatMul(b.MatMul(b.Source(hlo.F32, 2, 16), b.Source(hlo.F32, 16, 16)), b.Source(hlo.F32, 16, 2))
	}),
})

func dot(name string, passes []string, build func(b *builder) value) Pattern {
	return Pattern{Name: name, Passes: passes, Build: func(b *builder) { b.Out(build(b)) }}
}

func dotType(b *builder) hlo.PrimitiveType {
	return program.Pick(b, hlo.F32, hlo.F32, hlo.F32, hlo.F64, hlo.S32, hlo.C64, hlo.BF16, hlo.F16)
}
