package patterns

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

// converts change types: chains that collapse, types that the target lacks,
// bits that are reinterpreted, values packed below a byte.
var converts = of("convert", nil, []Pattern{
	unary("there-and-back", program.Type(hlo.F32, hlo.S32, hlo.S8, hlo.BF16), func(b *builder, x value) value {
		w := map[hlo.PrimitiveType][]hlo.PrimitiveType{hlo.F32: {hlo.F64}, hlo.S32: {hlo.S64, hlo.F64}, hlo.S8: {hlo.S32, hlo.F32, hlo.S16}, hlo.BF16: {hlo.F32, hlo.F64}}[x.Shape.Type]
		return b.Convert(b.Convert(x, program.Pick(b, w...)), x.Shape.Type)
	}, "algsimp", "simplify-fp-conversions"),
	unary("chain", (*builder).Num, func(b *builder, x value) value {
		return b.Convert(b.Convert(b.Convert(x, hlo.F32), hlo.BF16), hlo.F32)
	}, "algsimp", "simplify-fp-conversions"),
	unary("same", (*builder).Num, func(b *builder, x value) value { return b.Convert(x, x.Shape.Type) }, "algsimp"),
	unary("down-and-up", program.Type(hlo.F32, hlo.F64), func(b *builder, x value) value {
		return b.Add(b.Convert(b.Convert(x, program.Pick(b, hlo.BF16, hlo.F16)), x.Shape.Type), x)
	}, "simplify-fp-conversions", "convert-mover"),
	unary("of-broadcast", (*builder).Num, func(b *builder, x value) value {
		return b.Convert(b.Splat(b.Source(x.Shape.Type), 3, 4), b.Float())
	}, "algsimp", "convert-mover"),
	unary("moves-up", program.Type(hlo.S8, hlo.BF16), func(b *builder, x value) value {
		w := map[hlo.PrimitiveType]hlo.PrimitiveType{hlo.S8: hlo.S32, hlo.BF16: hlo.F32}[x.Shape.Type]
		y := b.Convert(x, w)
		return b.Reshape(b.Concat(0, b.Reshape(y, y.Shape.Elems()), b.Reshape(b.Convert(like(b, x), w), y.Shape.Elems())), 2*y.Shape.Elems())
	}, "convert-mover"),
	unary("bfloat-arithmetic", program.Type(hlo.BF16), func(b *builder, x value) value {
		return b.Mul(b.Add(x, like(b, x)), b.Un(hlo.OpTanh, x))
	}, "float-normalization-bf16", "bfloat16-propagation", "bfloat16-fold"),
	unary("bfloat-reduce", program.Type(hlo.BF16), func(b *builder, x value) value {
		y := b.Broadcast(x, append([]int64{4}, x.Shape.Dims...), iotas(x.Shape.Rank(), 1)...)
		return b.Reduce(program.Pick(b, hlo.OpAdd, hlo.OpMaximum), b.Add(y, b.Source(hlo.BF16, y.Shape.Dims...)), 0)
	}, "float-normalization-bf16", "bfloat16-propagation"),
	unary("bfloat-from-float", program.Type(hlo.F32), func(b *builder, x value) value {
		y := b.Convert(b.Add(x, x), hlo.BF16)
		return b.Convert(b.Reshape(y, y.Shape.Elems()), hlo.F32)
	}, "bfloat16-propagation", "bfloat16-fold"),
	float8("e5m2", hlo.F8E5M2), float8("e4m3fn", hlo.F8E4M3FN), float8("e4m3b11fnuz", hlo.F8E4M3B11FNUZ),
	float8("e5m2fnuz", hlo.F8E5M2FNUZ), float8("e4m3fnuz", hlo.F8E4M3FNUZ), float8("e4m3", hlo.F8E4M3), float8("e3m4", hlo.F8E3M4),
	unary("f4", program.Type(hlo.F32), func(b *builder, x value) value {
		y := b.Convert(x, hlo.F4E2M1FN)
		return b.Convert(b.Mul(y, y), hlo.F32)
	}, "float-normalization-f4e2m1fn"),
	unary("f8e8m0", program.Type(hlo.F32), func(b *builder, x value) value {
		y := b.Convert(b.Add(b.Un(hlo.OpAbs, x), b.Fill(x, 1)), hlo.F8E8M0FNU)
		return b.Convert(b.Mul(y, y), hlo.F32)
	}, "float-normalization-f8e8m0fnu"),
	unary("four-bits", program.Type(hlo.S4, hlo.U4), func(b *builder, x value) value {
		y := b.Add(b.Convert(x, hlo.S8), b.Convert(like(b, x), hlo.S8))
		return b.Convert(b.Bin(hlo.OpAnd, y, b.Fill(y, 3)), x.Shape.Type)
	}, "sub-byte-size-setter"),
	narrow("s4-arithmetic", hlo.S4), narrow("u4-arithmetic", hlo.U4), narrow("s2-arithmetic", hlo.S2), narrow("u2-arithmetic", hlo.U2),
	unary("two-bits", program.Type(hlo.S2, hlo.U2), func(b *builder, x value) value {
		return b.Convert(b.Reshape(x, x.Shape.Elems()), hlo.S32)
	}, "sub-byte-size-setter", "tpu-int2-auto-up-down-caster"),
	unary("four-bit-move", program.Type(hlo.S4, hlo.U4), func(b *builder, x value) value {
		y := b.Concat(0, b.Reshape(x, x.Shape.Elems()), b.Reshape(like(b, x), x.Shape.Elems()))
		return b.Reverse(y, 0)
	}, "sub-byte-size-setter"),
	unary("bits-narrower", program.Type(hlo.S32, hlo.F32, hlo.U64, hlo.S16), func(b *builder, x value) value {
		t := map[hlo.PrimitiveType][]hlo.PrimitiveType{hlo.S32: {hlo.U8, hlo.S16, hlo.BF16}, hlo.F32: {hlo.S8, hlo.U16}, hlo.U64: {hlo.U32, hlo.F32, hlo.S8}, hlo.S16: {hlo.U8}}[x.Shape.Type]
		to := program.Pick(b, t...)
		return b.BitcastConvert(x, to, append(append([]int64{}, x.Shape.Dims...), int64(x.Shape.Type.Bits()/to.Bits()))...)
	}, "bitcast_dtypes_expander"),
	unary("bits-wider", program.Type(hlo.U8, hlo.S16, hlo.U32), func(b *builder, x value) value {
		to := map[hlo.PrimitiveType]hlo.PrimitiveType{hlo.U8: hlo.S32, hlo.S16: hlo.F32, hlo.U32: hlo.U64}[x.Shape.Type]
		n := int64(to.Bits() / x.Shape.Type.Bits())
		y := b.Source(x.Shape.Type, append(append([]int64{}, x.Shape.Dims...), n)...)
		return b.BitcastConvert(y, to, x.Shape.Dims...)
	}, "bitcast_dtypes_expander"),
	unary("stochastic", program.Type(hlo.F32, hlo.F16, hlo.BF16), func(b *builder, x value) value {
		r := map[hlo.PrimitiveType]hlo.PrimitiveType{hlo.F32: hlo.U32, hlo.F16: hlo.U16, hlo.BF16: hlo.U16}[x.Shape.Type]
		return b.Shaped(hlo.OpStochasticConvert, hlo.ArrayShape(program.Pick(b, hlo.S8, hlo.S16, hlo.S32), x.Shape.Dims...), nil, x, b.Source(r, x.Shape.Dims...))
	}, "stochastic_convert_decomposer"),
	unary("reduce-precision", program.Type(hlo.F32, hlo.F64), func(b *builder, x value) value {
		return b.ReducePrecision(b.ReducePrecision(x, 8, 7), int32(b.Between(5, 8)), int32(b.Between(5, 10)))
	}, "algsimp", "simplify-fp-conversions"),
	unary("complex-arithmetic", program.Type(hlo.C64, hlo.C128), func(b *builder, x value) value {
		return b.Mul(b.Add(x, like(b, x)), b.Un(program.Pick(b, hlo.OpExponential, hlo.OpNegate, hlo.OpSqrt, hlo.OpTanh), x))
	}, "complex-rewriter"),
	unary("logistic", program.Type(hlo.F32, hlo.F64, hlo.BF16, hlo.F16, hlo.C64), func(b *builder, x value) value { return b.Un(hlo.OpLogistic, x) }, "logistic-expander", "elementary-function-expander"),
	unary("elementary", program.Type(hlo.F32, hlo.F64), func(b *builder, x value) value {
		return b.Un(program.Pick(b, hlo.OpErf, hlo.OpTan, hlo.OpCbrt, hlo.OpLogPlusOne, hlo.OpExponentialMinusOne), x)
	}, "elementary-function-expander"),
	unary("total-order", program.Type(hlo.F32, hlo.F64, hlo.BF16, hlo.F16), func(b *builder, x value) value {
		return b.CompareTotal(program.Pick(b, "LT", "GE", "EQ", "NE", "GT", "LE"), x, like(b, x))
	}, "comparison-expander"),
	unary("compare-complex", program.Type(hlo.C64), func(b *builder, x value) value { return b.Compare(program.Pick(b, "EQ", "NE"), x, like(b, x)) }, "comparison-expander"),
})

func float8(name string, t hlo.PrimitiveType) Pattern {
	return unary(name, program.Type(t), func(b *builder, x value) value {
		y := b.Source(hlo.F32, x.Shape.Dims...)
		switch b.R.IntN(3) {
		case 0:
			return b.Add(x, like(b, x))
		case 1:
			return b.Mul(b.Convert(y, t), x)
		}
		return b.Bin(hlo.OpMaximum, x, b.Neg(x))
	}, "float-normalization-"+t.String())
}

// narrow is arithmetic below a byte.
func narrow(name string, t hlo.PrimitiveType) Pattern {
	return unary(name, program.Type(t), func(b *builder, x value) value {
		return b.Bin(program.Pick(b, hlo.OpAdd, hlo.OpMultiply, hlo.OpMaximum, hlo.OpSubtract), x, like(b, x))
	}, "float-normalization-"+t.String(), "sub-byte-size-setter", "tpu-int2-auto-up-down-caster")
}
