package eval

import (
	"math"

	"github.com/passgate/passgate/hlo"
)

// UnaryType is the result type of a unary operation on type t; ok is false
// where Unary does not know the combination.
func UnaryType(op hlo.Opcode, t hlo.PrimitiveType) (result hlo.PrimitiveType, ok bool) {
	switch op {
	case hlo.OpAbs, hlo.OpReal:
		return t.Real(), t.IsArray() && (t != hlo.Pred || op == hlo.OpReal)
	case hlo.OpImag:
		return t.Real(), t.IsFloat() || t.IsComplex()
	case hlo.OpNegate, hlo.OpSign:
		return t, t.IsArray() && t != hlo.Pred
	case hlo.OpNot:
		return t, t == hlo.Pred || t.IsInteger()
	case hlo.OpPopcnt, hlo.OpCountLeadingZeros:
		return t, t.IsInteger()
	case hlo.OpFloor, hlo.OpCeil, hlo.OpRoundNearestAFZ, hlo.OpRoundNearestEven:
		return t, t.IsFloat()
	case hlo.OpIsFinite:
		return hlo.Pred, t.IsFloat()
	}
	if t.IsComplex() {
		return t, complexFunctions[op] != nil || moreComplexFunctions[op] != nil
	}
	return t, t.IsFloat() && functions[op] != nil
}

// BinaryType is the result type of a binary operation on two operands of type
// t; ok is false where Binary does not know the combination.
func BinaryType(op hlo.Opcode, t hlo.PrimitiveType) (result hlo.PrimitiveType, ok bool) {
	switch op {
	case hlo.OpAdd, hlo.OpMultiply, hlo.OpSubtract, hlo.OpPower:
		return t, t.IsArray()
	case hlo.OpDivide:
		return t, t.IsArray() && t != hlo.Pred
	case hlo.OpRemainder:
		return t, t.IsInteger() || t.IsFloat()
	case hlo.OpMaximum, hlo.OpMinimum:
		return t, t.IsArray() && !t.IsComplex()
	case hlo.OpAnd, hlo.OpOr, hlo.OpXor:
		return t, t == hlo.Pred || t.IsInteger()
	case hlo.OpShiftLeft, hlo.OpShiftRightArithmetic, hlo.OpShiftRightLogical, hlo.OpMulhi:
		return t, t.IsInteger()
	case hlo.OpAtan2:
		return t, t.IsFloat() || t.IsComplex()
	case hlo.OpComplex:
		switch t {
		case hlo.F32:
			return hlo.C64, true
		case hlo.F64:
			return hlo.C128, true
		}
	}
	return t, false
}

// Unary applies an elementwise operation of one operand of type t.
// The result has type UnaryType(op, t).
func (n *Numerics) Unary(op hlo.Opcode, t hlo.PrimitiveType, x Scalar) Scalar {
	switch {
	case t.IsComplex():
		return n.complexUnary(op, t, x)
	case !t.IsFloat():
		return intUnary(op, t, x)
	}
	if op == hlo.OpIsFinite {
		return n.isFinite(x)
	}
	r := Scalar{Re: n.unary(op, floatTypes[t], x.Re), Contest: x.Contest}
	if n.Bounds && steepAtZero(op) && floatTypes[t].subnormal(x.Re.C) {
		r.Contest |= Denormal
	}
	return r
}

// withoutInf replaces infinities in types that have none: by NaN, or by the
// largest value where conversions saturate.
func (f *floatType) withoutInf(x Num) Num {
	k := x.class()
	if f.HasInf || k&(MayPosInf|MayNegInf) == 0 || !(x.E < inf) {
		return x
	}
	if f.HasNaN {
		if !finite(x.C) {
			return special(MayNaN)
		}
		x.K = x.K&AnyZeroSign | MayNaN
		return x
	}
	var r Num
	for i, p := range x.members(nil) {
		if math.IsInf(p.C, 0) {
			p = Num{C: math.Copysign(f.max, p.C)}
		}
		if i == 0 {
			r = p
		} else {
			r = hull(r, p)
		}
	}
	return r
}

// unary is Unary on real floats with a float result.
func (n *Numerics) unary(op hlo.Opcode, f *floatType, x Num) Num {
	r := n.unaryAny(op, f, x)
	if !f.HasInf && n.Bounds {
		return f.withoutInf(r)
	}
	return r
}

func (n *Numerics) unaryAny(op hlo.Opcode, f *floatType, x Num) Num {
	switch op {
	case hlo.OpAbs:
		return abs(x)
	case hlo.OpNegate:
		x = neg(x)
		if !f.NegZero && x.C == 0 {
			x.C = 0
		}
		return x
	case hlo.OpReal:
		return x
	case hlo.OpImag:
		return Num{}
	case hlo.OpSign:
		return n.step(f, sign, x)
	case hlo.OpFloor:
		return n.step(f, math.Floor, x)
	case hlo.OpCeil:
		return n.step(f, math.Ceil, x)
	case hlo.OpRoundNearestAFZ:
		return n.step(f, math.Round, x)
	case hlo.OpRoundNearestEven:
		return n.step(f, math.RoundToEven, x)
	}
	return n.elementary(f, op, x)
}

func (n *Numerics) isFinite(x Scalar) Scalar {
	r := Scalar{Contest: x.Contest}
	isFinite := finite(x.Re.C)
	if isFinite {
		r.I = 1
	}
	r.Undecided = !(x.Re.E < inf) || isFinite && x.Re.K&specials != 0
	if r.Undecided {
		r.I = 0
	}
	return r
}

// Binary applies an elementwise operation of two operands of type t (for
// complex: the type of the two parts). The result has type BinaryType(op, t).
func (n *Numerics) Binary(op hlo.Opcode, t hlo.PrimitiveType, x, y Scalar) Scalar {
	switch {
	case t.IsComplex():
		return n.complexBinary(op, t, x, y)
	case !t.IsFloat():
		return intBinary(op, t, x, y)
	case op == hlo.OpComplex:
		return Scalar{Re: x.Re, Im: y.Re, Contest: x.Contest | y.Contest}
	}
	r := Scalar{Re: n.binary(op, floatTypes[t], x.Re, y.Re), Contest: x.Contest | y.Contest}
	if (op == hlo.OpMaximum || op == hlo.OpMinimum) && ((x.Re.class()|y.Re.class())&MayNaN != 0) {
		r.Contest |= NaNMinMax
	}
	return r
}

// binary is Binary on real floats.
func (n *Numerics) binary(op hlo.Opcode, f *floatType, x, y Num) Num {
	r := n.binaryAny(op, f, x, y)
	if !f.HasInf && n.Bounds {
		return f.withoutInf(r)
	}
	return r
}

func (n *Numerics) binaryAny(op hlo.Opcode, f *floatType, x, y Num) Num {
	switch op {
	case hlo.OpAdd:
		return n.add(f, x, y)
	case hlo.OpSubtract:
		return n.sub(f, x, y)
	case hlo.OpMultiply:
		return n.mul(f, x, y)
	case hlo.OpDivide:
		return n.div(f, x, y)
	case hlo.OpRemainder:
		return n.rem(f, x, y)
	case hlo.OpMaximum:
		return n.max(f, x, y)
	case hlo.OpMinimum:
		return n.min(f, x, y)
	case hlo.OpPower:
		return n.power(f, x, y)
	case hlo.OpAtan2:
		return n.atan2(f, x, y)
	}
	panic("eval: no float operation " + op.String())
}
