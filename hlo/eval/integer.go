package eval

import (
	"math"
	"math/bits"

	"github.com/passgate/passgate/hlo"
)

// Integer and pred semantics follow HloEvaluator
// (xla/hlo/evaluator/hlo_evaluator_typed_visitor.h) and the LLVM emitter
// (xla/service/elemental_ir_emitter.cc), which agree.

// maxInt and minInt are the range of an integer type; for u64, whose values
// are kept as bit patterns, they are those of the pattern.
func maxInt(t hlo.PrimitiveType) int64 {
	switch {
	case t == hlo.Pred:
		return 1
	case t.IsSigned():
		return 1<<(t.Bits()-1) - 1
	case t == hlo.U64:
		return -1
	default:
		return 1<<t.Bits() - 1
	}
}

func minInt(t hlo.PrimitiveType) int64 {
	if t.IsSigned() {
		return -1 << (t.Bits() - 1)
	}
	return 0
}

// less orders two canonical values of an integer type or pred.
func less(t hlo.PrimitiveType, x, y int64) bool {
	if t == hlo.U64 {
		return uint64(x) < uint64(y)
	}
	return x < y
}

// mask is the bit pattern of v in the width of t.
func mask(t hlo.PrimitiveType, v int64) uint64 {
	if t == hlo.Pred {
		return uint64(v & 1)
	}
	return uint64(v) & (1<<t.Bits() - 1) // a shift by 64 gives 0, minus 1 all ones
}

func intUnary(op hlo.Opcode, t hlo.PrimitiveType, x Scalar) Scalar {
	if x.Undecided {
		return rangeUnary(op, t, x)
	}
	r := Scalar{Contest: x.Contest}
	v := x.I
	switch op {
	case hlo.OpAbs:
		if t.IsSigned() && v < 0 {
			if v == minInt(t) {
				r.Contest |= SignedOverflow
			}
			v = -v
		}
	case hlo.OpNegate:
		if t.IsSigned() && v == minInt(t) {
			r.Contest |= SignedOverflow
		}
		v = -v
	case hlo.OpNot:
		if t == hlo.Pred {
			v ^= 1
		} else {
			v = ^v
		}
	case hlo.OpSign:
		switch {
		case v == 0:
		case v < 0 && t.IsSigned():
			v = -1
		default:
			v = 1
		}
	case hlo.OpPopcnt:
		v = int64(bits.OnesCount64(mask(t, v)))
	case hlo.OpCountLeadingZeros:
		v = int64(bits.LeadingZeros64(mask(t, v)) - (64 - t.Bits()))
	case hlo.OpReal:
	default:
		panic("eval: no integer operation " + op.String())
	}
	r.I = t.Canonical(v)
	return r
}

func intBinary(op hlo.Opcode, t hlo.PrimitiveType, x, y Scalar) Scalar {
	r := Scalar{Undecided: x.Undecided || y.Undecided, Contest: x.Contest | y.Contest}
	if r.Undecided {
		// An absorbing operand decides the result.
		for _, z := range [2]Scalar{x, y} {
			switch {
			case z.Undecided:
			case z.I == 0 && (op == hlo.OpAnd || op == hlo.OpMultiply),
				z.I == t.Canonical(-1) && op == hlo.OpOr,
				t == hlo.Pred && z.I == 0 && op == hlo.OpMinimum,
				t == hlo.Pred && z.I == 1 && (op == hlo.OpMaximum || op == hlo.OpAdd):
				return Scalar{I: z.I, Contest: r.Contest}
			}
		}
		return rangeBinary(op, t, x, y)
	}
	v, contest := intOp(op, t, x.I, y.I)
	r.I = v
	r.Contest |= contest
	return r
}

// intOp is the canonical result of an integer operation on decided operands.
func intOp(op hlo.Opcode, t hlo.PrimitiveType, x, y int64) (int64, Contest) {
	if t == hlo.Pred {
		switch op { // arithmetic on pred is logical
		case hlo.OpAdd:
			op = hlo.OpOr
		case hlo.OpMultiply:
			op = hlo.OpAnd
		case hlo.OpSubtract:
			op = hlo.OpXor
		}
	}
	var c Contest
	switch op {
	case hlo.OpAdd:
		s := x + y
		r := t.Canonical(s)
		if t.IsSigned() && (r != s || (x^s)&(y^s) < 0) {
			c = SignedOverflow
		}
		return r, c
	case hlo.OpSubtract:
		d := x - y
		r := t.Canonical(d)
		if t.IsSigned() && (r != d || (x^y)&(x^d) < 0) {
			c = SignedOverflow
		}
		return r, c
	case hlo.OpMultiply:
		p := x * y
		r := t.Canonical(p)
		if t.IsSigned() && (r != p || signedMulOverflows(x, y)) {
			c = SignedOverflow
		}
		return r, c
	case hlo.OpMulhi:
		return mulhi(t, x, y), 0
	case hlo.OpDivide:
		switch {
		case y == 0:
			return t.Canonical(-1), DivideByZero
		case t.IsSigned() && y == -1 && x == minInt(t):
			return x, DivideByZero
		case t == hlo.U64:
			return int64(uint64(x) / uint64(y)), 0
		}
		return x / y, 0
	case hlo.OpRemainder:
		switch {
		case y == 0:
			return x, DivideByZero
		case t.IsSigned() && y == -1:
			if x == minInt(t) {
				c = DivideByZero
			}
			return 0, c
		case t == hlo.U64:
			return int64(uint64(x) % uint64(y)), 0
		}
		return x % y, 0
	case hlo.OpPower:
		return intPower(t, x, y)
	case hlo.OpMaximum:
		if less(t, x, y) {
			return y, 0
		}
		return x, 0
	case hlo.OpMinimum:
		if less(t, y, x) {
			return y, 0
		}
		return x, 0
	case hlo.OpAnd:
		return x & y, 0
	case hlo.OpOr:
		return x | y, 0
	case hlo.OpXor:
		return x ^ y, 0
	case hlo.OpShiftLeft, hlo.OpShiftRightLogical, hlo.OpShiftRightArithmetic:
		// The amount is compared as unsigned.
		s := mask(t, y)
		out := s >= uint64(t.Bits())
		if out {
			c = OutOfRangeShift
		}
		switch {
		case op == hlo.OpShiftRightArithmetic:
			n := 64 - t.Bits()
			signed := x << n >> n
			if out {
				s = 63
			}
			return t.Canonical(signed >> s), c
		case out:
			return 0, c
		case op == hlo.OpShiftLeft:
			return t.Canonical(x << s), c
		default:
			return t.Canonical(int64(mask(t, x) >> s)), c
		}
	}
	panic("eval: no integer operation " + op.String())
}

// signedMulOverflows reports whether x*y leaves the range of int64.
func signedMulOverflows(x, y int64) bool {
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	h := int64(hi) - x>>63&y - y>>63&x
	return h != int64(lo)>>63
}

func mulhi(t hlo.PrimitiveType, x, y int64) int64 {
	if t.Bits() < 64 {
		if t.Bits() <= 32 {
			if t.IsSigned() {
				return t.Canonical(x * y >> t.Bits())
			}
			return t.Canonical(int64(uint64(x) * uint64(y) >> t.Bits()))
		}
	}
	hi, _ := bits.Mul64(uint64(x), uint64(y))
	if t.IsSigned() {
		return int64(hi) - x>>63&y - y>>63&x
	}
	return int64(hi)
}

// intPower is x**y modulo the width; a negative exponent gives 0, 1 for base 1.
func intPower(t hlo.PrimitiveType, x, y int64) (int64, Contest) {
	if t == hlo.Pred {
		return x | (y ^ 1), 0
	}
	if t.IsSigned() && y < 0 {
		if x == 1 {
			return 1, 0
		}
		return 0, Implementation
	}
	r := int64(1)
	for base, e := x, uint64(y); e != 0; e >>= 1 {
		if e&1 != 0 {
			r *= base
		}
		base *= base
	}
	var c Contest
	if t.IsSigned() && (y > 1 || t.Bits() == 1) {
		size := math.Pow(math.Abs(float64(x)), float64(y))
		limit := -float64(minInt(t))
		if size > limit || size == limit && !(x < 0 && y&1 == 1) {
			c = SignedOverflow
		}
	}
	return t.Canonical(r), c
}

// intCompare compares decided values of an integer type or pred.
func intCompare(direction string, t hlo.PrimitiveType, x, y int64) bool {
	switch direction {
	case "EQ":
		return x == y
	case "NE":
		return x != y
	case "LT":
		return less(t, x, y)
	case "LE":
		return !less(t, y, x)
	case "GT":
		return less(t, y, x)
	case "GE":
		return !less(t, x, y)
	}
	panic("eval: no comparison direction " + direction)
}
