package patterns

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// expanders are operations that the compiler spells out: factorisations,
// normalisations, random numbers, transforms.
var expanders = of("expander", nil, []Pattern{
	loop("cholesky", []string{"cholesky_expander", "tpu_cholesky_expander"}, func(b *builder) {
		m := b.Positive(program.Pick(b, hlo.F32, hlo.F32, hlo.F64), int64(b.Between(1, 6)))
		b.Out(b.Cholesky(m, b.Chance(2)))
	}),
	loop("cholesky-batched", []string{"cholesky_expander", "tpu_cholesky_expander"}, func(b *builder) {
		m := b.Positive(hlo.F32, 3)
		b.Out(b.Cholesky(b.Broadcast(m, []int64{2, 3, 3}, 1, 2), true))
	}),
	loop("triangular-solve", []string{"triangular_solve_expander", "tpu_triangular_solve_expander"}, func(b *builder) {
		t, n := program.Pick(b, hlo.F32, hlo.F32, hlo.F64), int64(b.Between(1, 6))
		o := &hlopb.TriangularSolveOptions{LeftSide: b.Chance(2), Lower: b.Chance(2), UnitDiagonal: b.Chance(3), TransposeA: program.Pick(b, hlopb.TriangularSolveOptions_NO_TRANSPOSE, hlopb.TriangularSolveOptions_TRANSPOSE)}
		rhs := []int64{n, 3}
		if !o.LeftSide {
			rhs = []int64{3, n}
		}
		b.Out(b.TriangularSolve(b.Positive(t, n), b.Source(t, rhs...), o))
	}),
	loop("qr", []string{"qr_expander", "tpu_qr_expander"}, func(b *builder) {
		n := int64(b.Between(2, 4))
		x := b.Positive(hlo.F32, n)
		r := b.Custom("Qr", hlo.TupleShape(x.Shape, hlo.ArrayShape(hlo.F32, n)), nil, nil, x)
		b.Out(b.Elements(r)...)
	}),
	loop("householder", []string{"qr_expander", "tpu_qr_expander"}, func(b *builder) {
		n := int64(b.Between(2, 4))
		x := b.Positive(hlo.F32, n)
		r := b.Custom("Qr", hlo.TupleShape(x.Shape, hlo.ArrayShape(hlo.F32, n)), nil, nil, x)
		b.Out(b.Custom("ProductOfElementaryHouseholderReflectors", x.Shape, nil, nil, b.Element(r, 0), b.Element(r, 1)))
	}),
	loop("eigen", []string{"eigh_expander", "tpu_eigh_expander"}, func(b *builder) {
		n := int64(b.Between(2, 4))
		x := b.Positive(hlo.F32, n)
		r := b.Custom("Eigh", hlo.TupleShape(x.Shape, hlo.ArrayShape(hlo.F32, n)), func(a *program.Attr) { a.BackendConfig = []byte("1,1,100,1e-6") }, nil, x)
		b.Out(b.Elements(r)...)
	}),
	tpu("lu", []string{"lu_decomposition_expander"}, func(b *builder) {
		x := b.Positive(hlo.F32, 3)
		r := b.Custom("LuDecomposition", hlo.TupleShape(x.Shape, hlo.ArrayShape(hlo.S32, 3), hlo.ArrayShape(hlo.S32, 3)), nil, nil, x)
		b.Out(b.Elements(r)...)
	}),
	loop("batch-norm-training", []string{"batchnorm_expander"}, func(b *builder) {
		x := b.Source(program.Pick(b, hlo.F32, hlo.F32, hlo.F64), int64(b.Between(2, 5)), 3)
		c := func() value { return b.Source(x.Shape.Type, 3) }
		b.Out(b.Elements(b.Op(hlo.OpBatchNormTraining, norm, x, c(), c()))...)
	}),
	loop("batch-norm-inference", []string{"batchnorm_expander"}, func(b *builder) {
		x := b.Source(hlo.F32, int64(b.Between(1, 5)), 3, 2)
		c := func() value { return b.Source(hlo.F32, 3) }
		b.Out(b.Op(hlo.OpBatchNormInference, norm, x, c(), c(), c(), b.Un(hlo.OpAbs, c())))
	}),
	loop("batch-norm-gradient", []string{"batchnorm_expander"}, func(b *builder) {
		x := b.Source(hlo.F32, int64(b.Between(2, 5)), 3)
		c := func() value { return b.Source(hlo.F32, 3) }
		b.Out(b.Elements(b.Op(hlo.OpBatchNormGrad, norm, x, c(), c(), b.Un(hlo.OpAbs, c()), like(b, x)))...)
	}),
	loop("random-bits", []string{"rng-bit-generator-expander", "tpu-rng-bit-generator-expander"}, func(b *builder) {
		a := program.Pick(b, hlopb.RandomAlgorithm_RNG_PHILOX, hlopb.RandomAlgorithm_RNG_THREE_FRY, hlopb.RandomAlgorithm_RNG_DEFAULT)
		words := int64(2)
		if a != hlopb.RandomAlgorithm_RNG_THREE_FRY {
			words = 3
		}
		state := b.Source(hlo.U64, words)
		s := hlo.TupleShape(state.Shape, hlo.ArrayShape(program.Pick(b, hlo.U32, hlo.U64, hlo.U16, hlo.U8), b.Full(b.Between(1, 2))...))
		b.Out(b.Elements(b.Shaped(hlo.OpRngBitGenerator, s, func(at *program.Attr) { at.RngAlgorithm = a }, state))...)
	}),
	only("random", []string{"rng-expander"}, func(b *builder) {
		t := program.Pick(b, hlo.F32, hlo.F32, hlo.S32, hlo.F64)
		d := program.Pick(b, hlopb.RandomDistribution_RNG_UNIFORM, hlopb.RandomDistribution_RNG_NORMAL)
		if t == hlo.S32 {
			d = hlopb.RandomDistribution_RNG_UNIFORM
		}
		r := b.Shaped(hlo.OpRng, hlo.ArrayShape(t, 4, 3), func(a *program.Attr) { a.Distribution = d }, b.Number(t, 0), b.Number(t, 8))
		b.Out(b.Un(hlo.OpAbs, r))
	}),
	loop("fft", []string{"fft_expander"}, func(b *builder) {
		n := int64(b.Between(2, 12))
		if b.Chance(2) {
			b.Out(b.Fft(hlopb.FftType_RFFT, b.Source(hlo.F32, 2, n), n))
			return
		}
		b.Out(b.Fft(program.Pick(b, hlopb.FftType_FFT, hlopb.FftType_IFFT), b.Source(hlo.C64, 2, n), n))
	}),
	only("ragged-dot", []string{"ragged-dot-expander"}, func(b *builder) {
		x, y := b.Source(hlo.F32, 6, 4), b.Source(hlo.F32, 2, 4, 3)
		sizes := b.Numbers(hlo.S32, 2, 4)
		b.Out(b.Shaped(hlo.OpRaggedDot, hlo.ArrayShape(hlo.F32, 6, 3), func(a *program.Attr) {
			a.RaggedDotDimensionNumbers = &hlopb.RaggedDotDimensionNumbers{
				DotDimensionNumbers: &hlopb.DotDimensionNumbers{LhsContractingDimensions: []int64{1}, RhsContractingDimensions: []int64{1}},
				LhsRaggedDimensions: []int64{0}, RhsGroupDimensions: []int64{0},
			}
			a.PrecisionConfig = &hlopb.PrecisionConfig{OperandPrecision: make([]hlopb.PrecisionConfig_Precision, 2)}
		}, x, y, sizes))
	}),
})

func norm(a *program.Attr) { a.Epsilon, a.FeatureIndex = 0.25, 1 }

// dynamics are sizes known at run time only.
var dynamics = of("dynamic", []string{"dynamic_padder"}, []Pattern{
	loop("sum", []string{"algsimp"}, func(b *builder) {
		x := dynamic(b, program.Pick(b, hlo.F32, hlo.S32), 6)
		b.Out(b.Reduce(program.Pick(b, hlo.OpAdd, hlo.OpMaximum, hlo.OpMultiply), x, 0))
	}),
	loop("sum-of-rows", nil, func(b *builder) {
		x := dynamic(b, hlo.F32, 4, 5)
		b.Out(b.Reduce(hlo.OpAdd, b.Mul(x, x), int64(b.R.IntN(2))))
	}),
	loop("size", []string{"algsimp"}, func(b *builder) {
		x := dynamic(b, hlo.F32, 6)
		b.Out(b.Add(b.GetSize(b.Neg(x), 0), b.Number(hlo.S32, 1)), b.Reduce(hlo.OpAdd, x, 0))
	}),
	loop("static-again", []string{"dynamic-dimension-simplifier"}, func(b *builder) {
		x := dynamic(b, hlo.F32, 6)
		y := b.Add(x, x)
		b.Out(b.SetSize(y, b.Number(hlo.S32, 6), 0))
	}),
	loop("dot", nil, func(b *builder) {
		x := dynamic(b, hlo.F32, 4, 5)
		b.Out(b.Reduce(hlo.OpAdd, b.Dot(hlo.F32, x, b.Source(hlo.F32, 5, 3), program.Contraction{Left: []int64{1}, Right: []int64{0}}), 0))
	}),
	loop("concatenate", nil, func(b *builder) {
		x := dynamic(b, hlo.S32, 5)
		b.Out(b.Reduce(hlo.OpAdd, b.Concat(0, x, b.Source(hlo.S32, 3)), 0))
	}),
	loop("sort", nil, func(b *builder) {
		x := dynamic(b, hlo.S32, 6)
		b.Out(b.Reduce(hlo.OpMaximum, b.Sort(0, true, []value{x}, lessThan(b)), 0))
	}),
	loop("pad", nil, func(b *builder) {
		x := dynamic(b, hlo.F32, 5)
		b.Out(b.Reduce(hlo.OpAdd, b.Pad(x, b.Number(hlo.F32, 2), program.Padding{Low: 1, High: 2}), 0))
	}),
	loop("reduce-window", nil, func(b *builder) {
		x := dynamic(b, hlo.F32, 6)
		b.Out(b.Reduce(hlo.OpAdd, b.ReduceWindow(hlo.OpAdd, x, program.Window{Size: 2, Stride: 2}), 0))
	}),
	loop("broadcast", []string{"dynamic-dimension-simplifier"}, func(b *builder) {
		x := dynamic(b, hlo.F32, 5)
		b.Out(b.Reduce(hlo.OpMaximum, b.Add(x, b.Splat(b.Source(hlo.F32), 5)), 0))
	}),
	loop("nested-concatenates", []string{"dynamic-dimension-simplifier"}, func(b *builder) {
		x := b.Source(hlo.S32, 3)
		c := b.Concat(0, b.Concat(0, x, like(b, x)), like(b, x))
		b.Out(b.Slice(c, []int64{3}, []int64{6}, nil), b.Reshape(b.Reshape(b.Neg(x), 3, 1), 3))
		b.Out(b.Reduce(hlo.OpAdd, dynamic(b, hlo.S32, 4), 0))
	}),
})

// dynamic is an array whose dimension 0 has a run-time size.
func dynamic(b *builder, t hlo.PrimitiveType, dims ...int64) value {
	n := b.Clamp(b.Number(hlo.S32, 0), b.Fresh(hlo.S32), b.Number(hlo.S32, float64(dims[0])))
	return b.SetSize(b.Source(t, dims...), n, 0)
}

// only is a pattern that not every program may hold: see Pattern.Narrow.
func only(name string, passes []string, build func(b *builder)) Pattern {
	return Pattern{Name: name, Passes: passes, Build: build, Narrow: true}
}
