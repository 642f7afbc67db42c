package generate

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

var (
	floatUnary = []hlo.Opcode{
		hlo.OpAbs, hlo.OpCbrt, hlo.OpCeil, hlo.OpCosine, hlo.OpErf, hlo.OpExponential, hlo.OpExponentialMinusOne, hlo.OpFloor,
		hlo.OpLog, hlo.OpLogPlusOne, hlo.OpLogistic, hlo.OpNegate, hlo.OpRoundNearestAFZ, hlo.OpRoundNearestEven, hlo.OpRsqrt,
		hlo.OpSign, hlo.OpSine, hlo.OpSqrt, hlo.OpTan, hlo.OpTanh,
	}
	integerUnary = []hlo.Opcode{hlo.OpNot, hlo.OpPopcnt, hlo.OpCountLeadingZeros, hlo.OpNegate}
	complexUnary = []hlo.Opcode{hlo.OpAbs, hlo.OpReal, hlo.OpImag, hlo.OpNegate, hlo.OpExponential, hlo.OpLog, hlo.OpTanh, hlo.OpSqrt}
	floatBinary  = []hlo.Opcode{hlo.OpAdd, hlo.OpAdd, hlo.OpSubtract, hlo.OpMultiply, hlo.OpMultiply, hlo.OpDivide, hlo.OpMaximum, hlo.OpMinimum, hlo.OpPower, hlo.OpAtan2, hlo.OpRemainder}
	// integerBinary are those that are defined for all operands, but for
	// signed overflow, which XLA wraps.
	integerBinary = []hlo.Opcode{hlo.OpAdd, hlo.OpSubtract, hlo.OpMultiply, hlo.OpMaximum, hlo.OpMinimum, hlo.OpAnd, hlo.OpOr, hlo.OpXor}
	directions    = []string{"EQ", "NE", "LT", "LE", "GT", "GE"}
)

var elementwise = []kind{
	{"unary", 8, nil, func(g *generator) program.Value { x := g.any(); return g.unary(x) }},
	{"binary", 16, nil, func(g *generator) program.Value { x := g.any(); return g.binary(x, g.like(x)) }},
	{"compare", 4, nil, func(g *generator) program.Value {
		x := g.any()
		d := program.Pick(g.Builder, directions...)
		if x.Shape.Type.IsComplex() {
			d = program.Pick(g.Builder, "EQ", "NE")
		}
		if x.Shape.Type.IsFloat() && g.Chance(4) {
			return g.CompareTotal(d, x, g.like(x))
		}
		return g.Compare(d, x, g.like(x))
	}},
	{"select", 4, nil, func(g *generator) program.Value {
		x := g.any()
		p := g.Source(hlo.Pred, x.Shape.Dims...)
		if g.Chance(2) && !x.Shape.Type.IsComplex() {
			p = g.Compare(program.Pick(g.Builder, directions...), x, g.like(x))
		}
		return g.Select(p, x, g.like(x))
	}},
	{"clamp", 2, nil, func(g *generator) program.Value {
		x := g.array(func(s *hlo.Shape) bool { return !s.Type.IsComplex() && s.Type != hlo.Pred && s.Type.Bits() >= 8 }, g.Num, 0)
		t := x.Shape.Type
		lo, hi := g.Small(t), g.Small(t)
		if lo > hi {
			lo, hi = hi, lo
		}
		if g.Chance(2) {
			return g.Clamp(g.Number(t, lo), x, g.Number(t, hi))
		}
		return g.Clamp(g.Fill(x, lo), x, g.Fill(x, hi))
	}},
	{"convert", 5, nil, func(g *generator) program.Value { return g.convert(g.any(), g.Type()) }},
	{"bitcast-convert", 2, nil, func(g *generator) program.Value {
		x := g.any()
		of := map[int][]hlo.PrimitiveType{
			8: {hlo.S8, hlo.U8}, 16: {hlo.S16, hlo.U16, hlo.F16, hlo.BF16}, 32: {hlo.S32, hlo.U32, hlo.F32}, 64: {hlo.S64, hlo.U64, hlo.F64},
		}[x.Shape.Type.Bits()]
		if of == nil || x.Shape.Type.IsComplex() || x.Shape.Type == hlo.Pred { // a predicate has one bit on older builds
			return nil
		}
		return g.BitcastConvert(x, program.Pick(g.Builder, of...), x.Shape.Dims...)
	}},
	{"reduce-precision", 1, nil, func(g *generator) program.Value {
		x := g.float()
		return g.ReducePrecision(x, int32(g.Between(4, 8)), int32(g.Between(2, 12)))
	}},
	{"is-finite", 1, nil, func(g *generator) program.Value { return g.Un(hlo.OpIsFinite, g.float()) }},
	{"complex", 1, nil, func(g *generator) program.Value {
		x := g.Source(program.Pick(g.Builder, hlo.F32, hlo.F32, hlo.F64), g.Dims(g.R.IntN(3))...)
		return g.Bin(hlo.OpComplex, x, g.like(x))
	}},
	{"shift", 2, nil, func(g *generator) program.Value {
		x := g.integer()
		return g.Bin(program.Pick(g.Builder, hlo.OpShiftLeft, hlo.OpShiftRightArithmetic, hlo.OpShiftRightLogical), x, g.Shift(g.like(x)))
	}},
	{"integer-divide", 2, nil, func(g *generator) program.Value {
		x := g.integer()
		return g.Bin(program.Pick(g.Builder, hlo.OpDivide, hlo.OpRemainder), x, g.Safe(g.like(x)))
	}},
	{"opt-barrier", 1, []hlo.Opcode{hlo.OpOptBarrier}, func(g *generator) program.Value { return g.Un(hlo.OpOptBarrier, g.any()) }},
	{"map", 1, nil, func(g *generator) program.Value {
		x := g.any()
		if !x.Shape.Type.IsFloat() && !x.Shape.Type.IsInteger() {
			return nil
		}
		return g.Map([]program.Value{x, g.like(x)}, func(a []program.Value) program.Value { return g.scalarCode(a...) })
	}},
	{"iota", 2, nil, func(g *generator) program.Value {
		dims := g.Dims(1 + g.R.IntN(3))
		return g.Iota(g.Num(), g.R.IntN(len(dims)), dims...)
	}},
	{"constant", 2, nil, func(g *generator) program.Value { return g.Constant(g.Type(), g.Dims(g.R.IntN(3))...) }},
	{"copy", 1, nil, func(g *generator) program.Value { return g.Copy(g.any()) }},
}

func (g *generator) unary(x program.Value) program.Value {
	switch t := x.Shape.Type; {
	case t == hlo.Pred:
		return g.Un(hlo.OpNot, x)
	case t.IsComplex():
		return g.Un(program.Pick(g.Builder, complexUnary...), x)
	case t.IsInteger() && t.IsSigned() && g.Chance(2):
		return g.Un(program.Pick(g.Builder, hlo.OpAbs, hlo.OpSign, hlo.OpNegate), x)
	case t.IsInteger():
		return g.Un(program.Pick(g.Builder, integerUnary...), x)
	case t.Bits() < 16:
		return g.Un(program.Pick(g.Builder, hlo.OpAbs, hlo.OpNegate, hlo.OpTanh, hlo.OpFloor), x)
	}
	return g.Un(program.Pick(g.Builder, floatUnary...), x)
}

func (g *generator) binary(x, y program.Value) program.Value {
	switch t := x.Shape.Type; {
	case t == hlo.Pred:
		return g.Bin(program.Pick(g.Builder, hlo.OpAnd, hlo.OpOr, hlo.OpXor), x, y)
	case t.IsComplex():
		return g.Bin(program.Pick(g.Builder, hlo.OpAdd, hlo.OpSubtract, hlo.OpMultiply), x, y)
	case t.IsInteger():
		return g.Bin(program.Pick(g.Builder, integerBinary...), x, y)
	case t.Bits() < 16:
		return g.Bin(program.Pick(g.Builder, hlo.OpAdd, hlo.OpMultiply, hlo.OpMaximum), x, y)
	}
	return g.Bin(program.Pick(g.Builder, floatBinary...), x, y)
}

// convert changes the type, away from complex by its real part.
func (g *generator) convert(x program.Value, t hlo.PrimitiveType) program.Value {
	if x.Shape.Type.IsComplex() && !t.IsComplex() {
		x = g.Un(hlo.OpReal, x)
	}
	return g.Convert(x, t)
}

// scalarCode is a small expression of scalars of one type, of its result's
// type, in a region.
func (g *generator) scalarCode(a ...program.Value) program.Value {
	v := a[0]
	for _, w := range a[1:] {
		v = g.binary(v, w)
	}
	if g.Chance(2) && v.Shape.Type.Bits() >= 16 && v.Shape.Type.IsFloat() {
		v = g.binary(v, g.Number(v.Shape.Type, g.Small(v.Shape.Type)))
	}
	return v
}
