package eval

import (
	"math"

	"github.com/passgate/passgate/hlo"
)

// bodyKind is a recognised way in which a reducer combines an accumulator and
// a value. The recognised kinds are associative and commutative, apart from
// rounding, and are evaluated by column loops whose bounds cover every order.
type bodyKind uint8

const (
	bodyOther bodyKind = iota
	bodyAdd
	bodyMultiply
	bodyMaximum
	bodyMinimum
	bodyAnd
	bodyOr
	bodyXor
	bodyFirst  // the accumulator
	bodySecond // the value
)

var kindOfOpcode = map[hlo.Opcode]bodyKind{
	hlo.OpAdd: bodyAdd, hlo.OpMultiply: bodyMultiply, hlo.OpMaximum: bodyMaximum, hlo.OpMinimum: bodyMinimum,
	hlo.OpAnd: bodyAnd, hlo.OpOr: bodyOr, hlo.OpXor: bodyXor,
}

var opcodeOfKind = map[bodyKind]hlo.Opcode{
	bodyAdd: hlo.OpAdd, bodyMultiply: hlo.OpMultiply, bodyMaximum: hlo.OpMaximum, bodyMinimum: hlo.OpMinimum,
	bodyAnd: hlo.OpAnd, bodyOr: hlo.OpOr, bodyXor: hlo.OpXor,
}

// bodyKinds recognises a reducer of n accumulators (parameters 0..n-1) and n
// values (parameters n..2n-1): the kind of each of its n results.
func bodyKinds(c *hlo.Computation) []bodyKind {
	roots := []*hlo.Instruction{c.Root}
	if c.Root.Op == hlo.OpTuple {
		roots = c.Root.Operands
	}
	n := int64(len(roots))
	kinds := make([]bodyKind, n)
	if int64(len(c.Params())) != 2*n {
		return kinds
	}
	for i, r := range roots {
		kinds[i] = kindOfRoot(r, int64(i), int64(i)+n)
	}
	return kinds
}

// kindOfRoot recognises an instruction that combines parameters a and b:
// op(a, b) in either order, the same between a widening and a narrowing
// convert (as the CPU pipeline's float normalisation writes it for bf16), and
// calls of such computations.
func kindOfRoot(r *hlo.Instruction, a, b int64) bodyKind {
	t := r.Shape.Type
	if r.Op == hlo.OpConvert && len(r.Operands) == 1 && t.IsFloat() && r.Operands[0].Shape.Type.IsFloat() &&
		r.Operands[0].Shape.Type.Bits() > t.Bits() {
		r = r.Operands[0]
	}
	if r.Op == hlo.OpParameter && r.Shape.Type == t {
		switch r.Attr.ParameterNumber {
		case a:
			return bodyFirst
		case b:
			return bodySecond
		}
		return bodyOther
	}
	if (r.Op == hlo.OpCall || r.Op == hlo.OpFusion) && len(r.Called) == 1 && len(r.Operands) == 2 && r.Shape.Type == t {
		x, okx := parameterOf(r.Operands[0], t)
		y, oky := parameterOf(r.Operands[1], t)
		switch {
		case !okx || !oky:
		case x == a && y == b:
			return kindOfRoot(r.Called[0].Root, 0, 1)
		case x == b && y == a:
			return kindOfRoot(r.Called[0].Root, 1, 0)
		}
		return bodyOther
	}
	// An operation that its type does not have, as a maximum of complex numbers,
	// is left to the evaluation of the computation, which says so.
	kind, ok := kindOfOpcode[r.Op]
	if _, typed := BinaryType(r.Op, t); !ok || !typed || len(r.Operands) != 2 {
		return bodyOther
	}
	x, okx := parameterOf(r.Operands[0], t)
	y, oky := parameterOf(r.Operands[1], t)
	if !okx || !oky || !(x == a && y == b || x == b && y == a) {
		return bodyOther
	}
	return kind
}

// parameterOf is the parameter of type t that an instruction is, or widens.
func parameterOf(in *hlo.Instruction, t hlo.PrimitiveType) (int64, bool) {
	if in.Op == hlo.OpConvert && len(in.Operands) == 1 && in.Shape.Type.IsFloat() && in.Shape.Type.Bits() > t.Bits() {
		in = in.Operands[0]
	}
	return in.Attr.GetParameterNumber(), in.Op == hlo.OpParameter && in.Shape.Type == t
}

// identity is the neutral element of a recognised kind for type t.
func identity(kind bodyKind, t hlo.PrimitiveType) (Scalar, bool) {
	switch kind {
	case bodyAdd:
		return Scalar{}, true
	case bodyOr, bodyXor:
		return Scalar{}, !t.IsFloat() && !t.IsComplex()
	case bodyMultiply:
		if t.IsFloat() || t.IsComplex() {
			return Scalar{Re: Num{C: 1}}, true
		}
		return Scalar{I: 1}, true
	case bodyAnd:
		return Scalar{I: t.Canonical(-1)}, !t.IsFloat() && !t.IsComplex()
	case bodyMaximum, bodyMinimum:
		low := kind == bodyMaximum
		switch {
		case t.IsFloat():
			if f := t.Format(); !f.HasInf {
				if low {
					return Scalar{Re: Num{C: -f.Max()}}, f.Signed
				}
				return Scalar{Re: Num{C: f.Max()}}, true
			}
			if low {
				return Scalar{Re: Num{C: math.Inf(-1)}}, true
			}
			return Scalar{Re: Num{C: math.Inf(1)}}, true
		case t.IsComplex():
			return Scalar{}, false
		case t == hlo.Pred:
			if low {
				return Scalar{}, true
			}
			return Scalar{I: 1}, true
		case t.IsSigned():
			v := int64(-1) << (t.Bits() - 1)
			if low {
				return Scalar{I: v}, true
			}
			return Scalar{I: ^v}, true
		default:
			if low {
				return Scalar{}, true
			}
			return Scalar{I: t.Canonical(-1)}, true
		}
	}
	return Scalar{}, false
}

// isIdentity says whether s is exactly the neutral element of the kind (a zero
// of either sign for addition).
func isIdentity(kind bodyKind, t hlo.PrimitiveType, s Scalar) bool {
	id, ok := identity(kind, t)
	return ok && !s.Undecided && s.I == id.I && s.Re.C == id.Re.C && s.Im.C == id.Im.C &&
		s.Re.E == 0 && s.Im.E == 0 && s.Re.Lo == 0 && s.Im.Lo == 0 && (s.Re.K|s.Im.K)&^AnyZeroSign == 0
}
