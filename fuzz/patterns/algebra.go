package patterns

import (
	"slices"

	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

type (
	builder = program.Builder
	value   = program.Value
)

// algebra are the identities of the algebraic simplifier
// (xla/hlo/transforms/simplifiers/algebraic_simplifier.cc).
var algebra = of("algebra", []string{"algsimp"}, []Pattern{
	unary("add-zero", (*builder).Num, func(b *builder, x value) value { return b.Add(x, b.Fill(x, 0)) }),
	unary("zero-add", (*builder).Num, func(b *builder, x value) value { return b.Add(b.Fill(x, 0), x) }),
	unary("subtract-zero", (*builder).Num, func(b *builder, x value) value { return b.Sub(x, b.Fill(x, 0)) }),
	unary("subtract-self", (*builder).Int, func(b *builder, x value) value { return b.Sub(x, x) }),
	unary("multiply-one", (*builder).Num, func(b *builder, x value) value { return b.Mul(x, b.Fill(x, 1)) }),
	unary("multiply-zero", (*builder).Int, func(b *builder, x value) value { return b.Mul(x, b.Fill(x, 0)) }),
	unary("multiply-minus-one", (*builder).Num, func(b *builder, x value) value { return b.Mul(b.Fill(x, -1), x) }),
	unary("divide-one", (*builder).Num, func(b *builder, x value) value { return b.Bin(hlo.OpDivide, x, b.Fill(x, 1)) }),
	unary("divide-power-of-two", (*builder).Num, func(b *builder, x value) value {
		return b.Bin(hlo.OpDivide, x, b.Fill(x, program.Pick(b, 2.0, 4, 8, 16, 32)))
	}),
	unary("remainder-power-of-two", (*builder).Int, func(b *builder, x value) value {
		return b.Bin(hlo.OpRemainder, x, b.Fill(x, program.Pick(b, 2.0, 4, 8, 16, 32)))
	}),
	unary("remainder-of-sum", (*builder).Int, func(b *builder, x value) value {
		n := b.Fill(x, float64(b.Between(2, 9)))
		return b.Bin(hlo.OpRemainder, b.Add(b.Bin(hlo.OpRemainder, x, n), n), n)
	}),
	unary("negate-negate", (*builder).Num, func(b *builder, x value) value { return b.Neg(b.Neg(x)) }),
	unary("not-not", logical, func(b *builder, x value) value { return b.Un(hlo.OpNot, b.Un(hlo.OpNot, x)) }),
	unary("and-self", logical, func(b *builder, x value) value { return b.Bin(hlo.OpAnd, x, x) }),
	unary("and-ones", logical, func(b *builder, x value) value {
		return b.Bin(hlo.OpAnd, x, b.Fill(x, program.Neutral(hlo.OpAnd, x.Shape.Type)))
	}),
	unary("and-zero", logical, func(b *builder, x value) value { return b.Bin(hlo.OpAnd, b.Fill(x, 0), x) }),
	unary("or-zero", logical, func(b *builder, x value) value { return b.Bin(hlo.OpOr, x, b.Fill(x, 0)) }),
	unary("or-ones", logical, func(b *builder, x value) value {
		return b.Bin(hlo.OpOr, x, b.Fill(x, program.Neutral(hlo.OpAnd, x.Shape.Type)))
	}),
	unary("or-self", logical, func(b *builder, x value) value { return b.Bin(hlo.OpOr, x, x) }),
	unary("xor-self", logical, func(b *builder, x value) value { return b.Bin(hlo.OpXor, x, x) }),
	unary("xor-zero", logical, func(b *builder, x value) value { return b.Bin(hlo.OpXor, x, b.Fill(x, 0)) }),
	unary("abs-abs", signed, func(b *builder, x value) value { return b.Un(hlo.OpAbs, b.Un(hlo.OpAbs, x)) }),
	unary("abs-negate", signed, func(b *builder, x value) value { return b.Un(hlo.OpAbs, b.Neg(x)) }),
	unary("abs-of-square", (*builder).Float, func(b *builder, x value) value { return b.Un(hlo.OpAbs, b.Mul(x, x)) }),
	unary("sign-times-abs", signed, func(b *builder, x value) value { return b.Mul(b.Un(hlo.OpSign, x), b.Un(hlo.OpAbs, x)) }),
	unary("negate-of-subtract", (*builder).Num, func(b *builder, x value) value { return b.Neg(b.Sub(x, like(b, x))) }),
	unary("add-negated", (*builder).Num, func(b *builder, x value) value { return b.Add(x, b.Neg(like(b, x))) }),
	unary("subtract-constant", (*builder).Num, func(b *builder, x value) value { return b.Sub(x, b.Fill(x, 3)) }),
	unary("constant-first", (*builder).Num, func(b *builder, x value) value { return b.Mul(b.Fill(x, 3), x) }),
	unary("constants-apart", (*builder).Num, func(b *builder, x value) value {
		op := program.Pick(b, hlo.OpAdd, hlo.OpMultiply)
		return b.Bin(op, b.Bin(op, x, b.Fill(x, 2)), b.Fill(x, 4))
	}),
	unary("sum-of-constants", (*builder).Int, func(b *builder, x value) value {
		y := like(b, x)
		return b.Add(b.Add(x, b.Fill(x, 1)), b.Add(y, b.Fill(y, 2)))
	}),
	unary("distribute", (*builder).Int, func(b *builder, x value) value {
		y, c := like(b, x), b.Fill(x, 3)
		return b.Add(b.Mul(x, c), b.Mul(y, c))
	}),
	unary("factor", (*builder).Float, func(b *builder, x value) value {
		y := like(b, x)
		c := b.Fill(x, program.Pick(b, 0.5, 2.0, 4.0))
		return b.Add(b.Mul(x, c), b.Mul(y, c))
	}),
	unary("minimum-self", (*builder).Num, func(b *builder, x value) value {
		return b.Bin(program.Pick(b, hlo.OpMinimum, hlo.OpMaximum), x, x)
	}),
	unary("minimum-extreme", (*builder).Num, func(b *builder, x value) value {
		t := x.Shape.Type
		return b.Bin(program.Pick(b, hlo.OpMinimum, hlo.OpMaximum), x, b.Fill(x, program.Pick(b, program.Min(t), program.Max(t))))
	}),
	unary("maximum-of-minimum", (*builder).Num, func(b *builder, x value) value {
		return b.Bin(hlo.OpMaximum, b.Bin(hlo.OpMinimum, x, b.Fill(x, 3)), b.Fill(x, 1))
	}),
	unary("minimum-twice", (*builder).Num, func(b *builder, x value) value {
		return b.Bin(hlo.OpMinimum, b.Bin(hlo.OpMinimum, x, b.Fill(x, 5)), b.Fill(x, 2))
	}),
	unary("clamp-of-clamp", (*builder).Num, func(b *builder, x value) value {
		n := func(v float64) value { return b.Fill(x, v) }
		return b.Clamp(n(0), b.Clamp(n(1), x, n(3)), n(4))
	}),
	unary("clamp-empty", (*builder).Num, func(b *builder, x value) value { return b.Clamp(b.Fill(x, 2), x, b.Fill(x, 2)) }),
	unary("clamp-scalar-bounds", (*builder).Num, func(b *builder, x value) value {
		t := x.Shape.Type
		return b.Clamp(b.Number(t, 1), x, b.Number(t, 3))
	}),
	unary("power-constant", (*builder).Float, func(b *builder, x value) value {
		return b.Bin(hlo.OpPower, x, b.Fill(x, program.Pick(b, 0.0, 1, 2, 3, -1, 0.5, -0.5, -2)))
	}),
	unary("power-of-power", (*builder).Float, func(b *builder, x value) value {
		x = b.Un(hlo.OpAbs, x)
		return b.Bin(hlo.OpPower, b.Bin(hlo.OpPower, x, b.Fill(x, 2)), b.Fill(x, 3))
	}),
	unary("multiply-exponentials", (*builder).Float, func(b *builder, x value) value {
		return b.Mul(b.Un(hlo.OpExponential, x), b.Un(hlo.OpExponential, like(b, x)))
	}),
	unary("divide-exponential", (*builder).Float, func(b *builder, x value) value {
		return b.Bin(hlo.OpDivide, like(b, x), b.Un(hlo.OpExponential, x))
	}),
	unary("divide-by-power", (*builder).Float, func(b *builder, x value) value {
		y := b.Add(b.Un(hlo.OpAbs, like(b, x)), b.Fill(x, 1))
		return b.Bin(hlo.OpDivide, x, b.Bin(hlo.OpPower, y, b.Fill(x, 2)))
	}),
	unary("divide-of-divide", (*builder).Float, func(b *builder, x value) value {
		y := like(b, x)
		if b.Chance(2) {
			return b.Bin(hlo.OpDivide, b.Bin(hlo.OpDivide, x, y), b.Fill(x, 3))
		}
		return b.Bin(hlo.OpDivide, x, b.Bin(hlo.OpDivide, y, b.Fill(x, 3)))
	}),
	unary("divide-constants", (*builder).Float, func(b *builder, x value) value {
		return b.Bin(hlo.OpDivide, b.Mul(x, b.Fill(x, 3)), b.Fill(x, 6))
	}),
	unary("divide-square-root", (*builder).Float, func(b *builder, x value) value {
		y := b.Add(b.Un(hlo.OpAbs, like(b, x)), b.Fill(x, 1))
		return b.Bin(hlo.OpDivide, x, b.Un(program.Pick(b, hlo.OpSqrt, hlo.OpRsqrt), y))
	}),
	unary("log-exponential", (*builder).Float, func(b *builder, x value) value { return b.Un(hlo.OpLog, b.Un(hlo.OpExponential, x)) }),
	unary("log-power", (*builder).Float, func(b *builder, x value) value {
		y := b.Add(b.Un(hlo.OpAbs, x), b.Fill(x, 1))
		return b.Un(hlo.OpLog, b.Bin(hlo.OpPower, y, b.Fill(x, 2)))
	}),
	unary("log-square-root", (*builder).Float, func(b *builder, x value) value {
		y := b.Add(b.Un(hlo.OpAbs, x), b.Fill(x, 1))
		return b.Un(hlo.OpLog, b.Un(program.Pick(b, hlo.OpSqrt, hlo.OpRsqrt), y))
	}),
	unary("square-of-square-root", (*builder).Float, func(b *builder, x value) value {
		r := b.Un(program.Pick(b, hlo.OpSqrt, hlo.OpRsqrt), b.Add(b.Un(hlo.OpAbs, x), b.Fill(x, 1)))
		return b.Mul(r, r)
	}),
	unary("square-root-of-square", (*builder).Float, func(b *builder, x value) value { return b.Un(hlo.OpSqrt, b.Mul(x, x)) }),
	unary("square-of-abs", (*builder).Float, func(b *builder, x value) value {
		a := b.Un(hlo.OpAbs, x)
		return b.Mul(a, a)
	}),
	unary("square-of-negated", (*builder).Num, func(b *builder, x value) value { return b.Mul(b.Neg(x), b.Neg(like(b, x))) }),
	unary("rsqrt-inverse", (*builder).Float, func(b *builder, x value) value {
		y := b.Add(b.Un(hlo.OpAbs, x), b.Fill(x, 1))
		return b.Un(hlo.OpRsqrt, b.Bin(hlo.OpDivide, b.Fill(x, 1), y))
	}),
	unary("round-of-round", (*builder).Float, func(b *builder, x value) value {
		ops := []hlo.Opcode{hlo.OpFloor, hlo.OpCeil, hlo.OpRoundNearestEven, hlo.OpRoundNearestAFZ}
		return b.Un(program.Pick(b, ops...), b.Un(program.Pick(b, ops...), x))
	}),
	unary("select-same", (*builder).Num, func(b *builder, x value) value {
		p := b.Source(hlo.Pred, x.Shape.Dims...)
		return b.Select(p, x, x)
	}),
	unary("select-constant", (*builder).Num, func(b *builder, x value) value {
		p := b.Fill(b.Fresh(hlo.Pred, x.Shape.Dims...), float64(b.R.IntN(2)))
		return b.Select(p, x, like(b, x))
	}),
	unary("select-not", (*builder).Num, func(b *builder, x value) value {
		p := b.Source(hlo.Pred, x.Shape.Dims...)
		return b.Select(b.Un(hlo.OpNot, p), x, like(b, x))
	}),
	unary("select-nested", (*builder).Num, func(b *builder, x value) value {
		p, y := b.Source(hlo.Pred, x.Shape.Dims...), like(b, x)
		return b.Select(p, b.Select(p, x, y), y)
	}),
	unary("select-pred", func(*builder) hlo.PrimitiveType { return hlo.Pred }, func(b *builder, p value) value {
		t, f := b.Fill(p, 1), b.Fill(p, 0)
		if b.Chance(2) {
			t, f = f, t
		}
		return b.Select(p, t, f)
	}),
	unary("select-equal", (*builder).Int, func(b *builder, x value) value {
		y := like(b, x)
		return b.Select(b.Compare(program.Pick(b, "EQ", "NE"), x, y), x, y)
	}),
	unary("compare-self", (*builder).Int, func(b *builder, x value) value {
		return b.Compare(program.Pick(b, "EQ", "NE", "LT", "LE", "GT", "GE"), x, x)
	}),
	unary("compare-extreme", (*builder).Int, func(b *builder, x value) value {
		t := x.Shape.Type
		d := program.Pick(b, "LT", "LE", "GT", "GE")
		return b.Compare(d, x, b.Fill(x, program.Pick(b, program.Min(t), program.Max(t), 0)))
	}),
	unary("compare-of-add", (*builder).Int, func(b *builder, x value) value {
		return b.Compare(program.Pick(b, "EQ", "NE"), b.Add(x, b.Fill(x, 2)), b.Fill(x, 5))
	}),
	unary("compare-pred", func(*builder) hlo.PrimitiveType { return hlo.Pred }, func(b *builder, p value) value {
		return b.Compare(program.Pick(b, "EQ", "NE"), p, b.Fill(p, float64(b.R.IntN(2))))
	}),
	unary("compare-iota", (*builder).Int, func(b *builder, x value) value {
		dims := x.Shape.Dims
		i := b.Iota(hlo.S32, 0, append([]int64{b.Size(2)}, dims...)...)
		return b.Compare(program.Pick(b, "LT", "GE", "EQ", "NE", "GT", "LE"), i, b.Fill(i, float64(b.Between(-1, 8))))
	}),
	unary("not-compare", (*builder).Num, func(b *builder, x value) value {
		return b.Un(hlo.OpNot, b.Compare(program.Pick(b, "EQ", "NE", "LT", "LE", "GT", "GE"), x, like(b, x)))
	}),
	unary("and-of-compares", (*builder).Int, func(b *builder, x value) value {
		return b.Bin(program.Pick(b, hlo.OpAnd, hlo.OpOr),
			b.Compare(program.Pick(b, "LT", "GT", "EQ"), x, b.Fill(x, 2)), b.Compare(program.Pick(b, "LT", "GT", "NE"), x, b.Fill(x, 4)))
	}),
	unary("shift-zero", (*builder).Int, func(b *builder, x value) value {
		return b.Bin(program.Pick(b, hlo.OpShiftLeft, hlo.OpShiftRightArithmetic, hlo.OpShiftRightLogical), x, b.Fill(x, 0))
	}),
	unary("shift-of-shift", (*builder).Int, func(b *builder, x value) value {
		return b.Bin(hlo.OpShiftRightLogical, b.Bin(hlo.OpShiftLeft, x, b.Fill(x, 3)), b.Fill(x, 3))
	}),
	unary("and-of-shift", (*builder).Int, func(b *builder, x value) value {
		return b.Bin(hlo.OpAnd, b.Bin(hlo.OpShiftRightLogical, x, b.Fill(x, 2)), b.Fill(x, 3))
	}),
	unary("or-of-masks", (*builder).Int, func(b *builder, x value) value {
		return b.Bin(hlo.OpOr, b.Bin(hlo.OpAnd, x, b.Fill(x, 3)), b.Bin(hlo.OpAnd, x, b.Fill(x, 12)))
	}),
	unary("real-of-complex", realFloat, func(b *builder, x value) value {
		return b.Un(program.Pick(b, hlo.OpReal, hlo.OpImag), b.Bin(hlo.OpComplex, x, like(b, x)))
	}),
	unary("complex-of-parts", func(*builder) hlo.PrimitiveType { return hlo.C64 }, func(b *builder, x value) value {
		return b.Bin(hlo.OpComplex, b.Un(hlo.OpReal, x), b.Un(hlo.OpImag, x))
	}),
	unary("real-of-real", realFloat, func(b *builder, x value) value { return b.Un(hlo.OpReal, x) }),
	unary("popcount", (*builder).Int, func(b *builder, x value) value { return b.Un(hlo.OpPopcnt, b.Bin(hlo.OpAnd, x, b.Fill(x, 7))) }),
	unary("tanh-of-negated", (*builder).Float, func(b *builder, x value) value { return b.Un(hlo.OpTanh, b.Neg(x)) }),
	unary("logistic-by-hand", (*builder).Float, func(b *builder, x value) value {
		one := b.Fill(x, 1)
		return b.Bin(hlo.OpDivide, one, b.Add(one, b.Un(hlo.OpExponential, b.Neg(x))))
	}),
	unary("clamp-index", func(*builder) hlo.PrimitiveType { return hlo.S32 }, func(b *builder, x value) value {
		return b.Bin(hlo.OpMaximum, b.Bin(hlo.OpMinimum, x, b.Fill(x, 7)), b.Fill(x, 0))
	}),
	unary("iota-scaled", (*builder).Int, func(b *builder, x value) value {
		i := b.Iota(x.Shape.Type, 0, append([]int64{b.Size(2)}, x.Shape.Dims...)...)
		return b.Add(b.Mul(i, b.Fill(i, 2)), b.Fill(i, 1))
	}),
	unary("iota-of-size-one", (*builder).Int, func(b *builder, x value) value {
		i := b.Iota(x.Shape.Type, 0, append([]int64{1}, x.Shape.Dims...)...)
		return b.Add(i, b.Constant(x.Shape.Type, i.Shape.Dims...))
	}),
})

// unary is a pattern on one array of a type that pick chooses.
func unary(name string, pick func(b *builder) hlo.PrimitiveType, build func(b *builder, x value) value, passes ...string) Pattern {
	return Pattern{Name: name, Passes: passes, Build: func(b *builder) {
		x := b.Source(pick(b), b.Full(b.Between(0, 3))...)
		b.Out(build(b, x))
	}}
}

// like is another value of x's type and dimensions.
func like(b *builder, x value) value { return b.Source(x.Shape.Type, x.Shape.Dims...) }

func logical(b *builder) hlo.PrimitiveType {
	if b.Chance(2) {
		return hlo.Pred
	}
	return b.Int()
}

func signed(b *builder) hlo.PrimitiveType {
	return program.Pick(b, hlo.F32, hlo.F32, hlo.F64, hlo.BF16, hlo.S32, hlo.S8, hlo.S64)
}

func realFloat(b *builder) hlo.PrimitiveType { return program.Pick(b, hlo.F32, hlo.F64) }

// with replaces element i.
func with(dims []int64, i int, v int64) []int64 {
	out := slices.Clone(dims)
	out[i] = v
	return out
}
