package eval

import "github.com/passgate/passgate/hlo"

// columnFunc evaluates an elementwise instruction on whole arrays.
type columnFunc func(n *Numerics, a []*Array) *Array

// scalarFunc evaluates an elementwise instruction on one element.
type scalarFunc func(n *Numerics, a []Scalar) Scalar

// elementwise is the column form of an elementwise instruction, nil for other
// opcodes and for operand types that it is not defined on.
//
// Operands of mixed float types are converted to the instruction's type first,
// as shape inference allows them (xla/service/shape_inference.cc,
// SameElementTypeIgnoringFpPrecision).
func elementwise(in *hlo.Instruction) columnFunc {
	types, ok := operandTypes(in)
	if !ok {
		return nil
	}
	to := in.Shape.Type
	switch in.Op {
	case hlo.OpCompare:
		direction, total := comparison(in, types[0])
		t := wider(types[0], types[1])
		return func(n *Numerics, a []*Array) *Array {
			return n.CompareArray(direction, total, n.as(t, a[0]), n.as(t, a[1]))
		}
	case hlo.OpSelect:
		return func(n *Numerics, a []*Array) *Array { return n.SelectArray(a[0], n.as(to, a[1]), n.as(to, a[2])) }
	case hlo.OpClamp:
		return func(n *Numerics, a []*Array) *Array {
			return n.ClampArray(n.as(to, a[0]), n.as(to, a[1]), n.as(to, a[2]))
		}
	case hlo.OpConvert:
		return func(n *Numerics, a []*Array) *Array { return n.ConvertArray(to, a[0]) }
	case hlo.OpBitcastConvert:
		return func(n *Numerics, a []*Array) *Array { return n.BitcastConvertArray(to, a[0]) }
	case hlo.OpReducePrecision:
		e, m := int(in.Attr.ExponentBits), int(in.Attr.MantissaBits)
		return func(n *Numerics, a []*Array) *Array { return n.ReducePrecisionArray(e, m, a[0]) }
	case hlo.OpStochasticConvert:
		return func(n *Numerics, a []*Array) *Array { return n.StochasticConvertArray(to, a[0], a[1]) }
	}
	op := in.Op
	switch op.Arity() {
	case 1:
		if t, ok := UnaryType(op, types[0]); ok && t == to {
			return func(n *Numerics, a []*Array) *Array { return n.UnaryArray(op, a[0]) }
		}
	case 2:
		t := binaryOperandType(to, types)
		if r, ok := BinaryType(op, t); ok && r == to {
			reassociation := reassociationOf(in)
			return func(n *Numerics, a []*Array) *Array {
				return n.reassociated(n.BinaryArray(op, n.as(t, a[0]), n.as(t, a[1])), reassociation)
			}
		}
	}
	return nil
}

// elementwiseScalar is the scalar form of elementwise.
func elementwiseScalar(in *hlo.Instruction) scalarFunc {
	types, ok := operandTypes(in)
	if !ok {
		return nil
	}
	to := in.Shape.Type
	switch in.Op {
	case hlo.OpCompare:
		direction, total := comparison(in, types[0])
		t := wider(types[0], types[1])
		return func(n *Numerics, a []Scalar) Scalar {
			return n.Compare(direction, total, t, n.asScalar(types[0], t, a[0]), n.asScalar(types[1], t, a[1]))
		}
	case hlo.OpSelect:
		return func(n *Numerics, a []Scalar) Scalar {
			return n.Select(a[0], to, n.asScalar(types[1], to, a[1]), n.asScalar(types[2], to, a[2]))
		}
	case hlo.OpClamp:
		return func(n *Numerics, a []Scalar) Scalar {
			return n.Clamp(to, n.asScalar(types[0], to, a[0]), n.asScalar(types[1], to, a[1]), n.asScalar(types[2], to, a[2]))
		}
	case hlo.OpConvert:
		return func(n *Numerics, a []Scalar) Scalar { return n.Convert(types[0], to, a[0]) }
	case hlo.OpBitcastConvert:
		if types[0].Bits() != to.Bits() {
			return nil
		}
		return func(n *Numerics, a []Scalar) Scalar { return n.BitcastConvert(types[0], to, a[0]) }
	case hlo.OpReducePrecision:
		e, m := int(in.Attr.ExponentBits), int(in.Attr.MantissaBits)
		return func(n *Numerics, a []Scalar) Scalar { return n.ReducePrecision(to, e, m, a[0]) }
	case hlo.OpStochasticConvert:
		return func(n *Numerics, a []Scalar) Scalar { return n.StochasticConvert(types[0], to, a[0], a[1]) }
	}
	op := in.Op
	switch op.Arity() {
	case 1:
		if t, ok := UnaryType(op, types[0]); ok && t == to {
			return func(n *Numerics, a []Scalar) Scalar { return n.Unary(op, types[0], a[0]) }
		}
	case 2:
		t := binaryOperandType(to, types)
		if r, ok := BinaryType(op, t); ok && r == to {
			reassociation := reassociationOf(in)
			same := in.Operands[0] == in.Operands[1] && t == r && t.IsFloat()
			return func(n *Numerics, a []Scalar) Scalar {
				x := n.asScalar(types[0], t, a[0])
				s := n.Binary(op, t, x, n.asScalar(types[1], t, a[1]))
				if same && n.Bounds {
					s.Re = n.same(op, floatTypes[t], s.Re, x.Re)
				}
				return n.reassociatedScalar(s, reassociation)
			}
		}
	}
	return nil
}

// operandTypes are the element types of the operands of an instruction on
// arrays.
func operandTypes(in *hlo.Instruction) ([]hlo.PrimitiveType, bool) {
	types := make([]hlo.PrimitiveType, len(in.Operands))
	for i, o := range in.Operands {
		if !o.Shape.IsArray() {
			return nil, false
		}
		types[i] = o.Shape.Type
	}
	return types, in.Shape.IsArray()
}

// binaryOperandType is the type in which a binary operation is taken: that of
// its result where both are floats, else that of its operands.
func binaryOperandType(result hlo.PrimitiveType, operands []hlo.PrimitiveType) hlo.PrimitiveType {
	if operands[0] != operands[1] && result.IsFloat() && operands[0].IsFloat() && operands[1].IsFloat() {
		return result
	}
	return operands[0]
}

// wider is the type in which two operands of a comparison are compared.
func wider(a, b hlo.PrimitiveType) hlo.PrimitiveType {
	if b.Bits() > a.Bits() {
		return b
	}
	return a
}

// as converts an array where its type differs.
func (n *Numerics) as(t hlo.PrimitiveType, a *Array) *Array {
	if a.Type == t {
		return a
	}
	return n.ConvertArray(t, a)
}

func (n *Numerics) asScalar(from, to hlo.PrimitiveType, x Scalar) Scalar {
	if from == to {
		return x
	}
	return n.Convert(from, to, x)
}

// comparison is the direction of a compare instruction on operands of type t,
// and whether it is a total order comparison of floats. Writers of different
// age say TOTALORDER in comparison_type or TOTAL in comparison_order
// (xla/service/hlo.proto).
func comparison(in *hlo.Instruction, t hlo.PrimitiveType) (direction string, total bool) {
	total = in.Attr.ComparisonType == "TOTALORDER" || in.Attr.ComparisonOrder == "TOTAL"
	return in.Attr.ComparisonDirection, total && (t.IsFloat() || t.IsComplex())
}
