package triage

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/passgate/passgate/hlo"
)

// Plainest turns a failing program into the plainest of its kind that still
// fails, so that programs that fail for one reason become one program: smaller
// as Reduce makes it, but for input values; then constants that do not matter
// become parameters, element types the usual ones, comparisons LT, operations
// negate and add, arrays of several dimensions arrays of one, and a value that
// is read twice two values. What stays is what the fault needs. It asks
// fails at most probes times.
func Plainest(ctx context.Context, p Program, fails Fails, probes int) Program {
	return newReducer(ctx, p, fails, probes).run(func(r *reducer) {
		r.inputs()
		r.roots()
		r.cuts()
		r.operands()
		r.parameters()
		r.types()
		r.shapes()
		r.flat()
		r.words()
		r.apart()
	})
}

// plainTypes are element types, the plainest first.
var plainTypes = []hlo.PrimitiveType{hlo.S32, hlo.F32, hlo.U32, hlo.S8, hlo.U8, hlo.BF16, hlo.F16, hlo.S16, hlo.U16, hlo.S64, hlo.U64, hlo.F64}

// types tries plainer types in the place of others, one type at a time: where
// values are only moved, and where the width does not matter, s32 does.
func (r *reducer) types() {
	var seen []hlo.PrimitiveType
	for _, c := range r.best.Module.Computations {
		for _, in := range c.Instructions {
			for _, l := range in.Shape.Leaves() {
				if l.IsArray() && !slices.Contains(seen, l.Type) {
					seen = append(seen, l.Type)
				}
			}
		}
	}
	slices.Sort(seen)
	for _, from := range seen {
		if from == hlo.C128 && r.edit(func(m *hlo.Module, inputs *[]*hlo.Literal) bool { return retype(m, *inputs, from, hlo.C64) }) {
			continue
		}
		for _, to := range plainTypes[:max(0, slices.Index(plainTypes, from))] {
			if to.IsFloat() && !from.IsFloat() || from.IsFloat() && !to.IsFloat() && to != hlo.S32 {
				continue
			}
			if r.edit(func(m *hlo.Module, inputs *[]*hlo.Literal) bool { return retype(m, *inputs, from, to) }) {
				break
			}
		}
	}
}

// retype makes every array of one element type one of another.
func retype(m *hlo.Module, inputs []*hlo.Literal, from, to hlo.PrimitiveType) bool {
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			for _, l := range in.Shape.Leaves() {
				if l.IsArray() && l.Type == from {
					l.Type, l.Layout = to, nil
				}
			}
			if in.Literal != nil {
				var ok bool
				if in.Literal, ok = converted(in.Literal, from, to); !ok {
					return false
				}
			}
			if in.Op == hlo.OpCompare && len(in.Operands) > 0 && in.Operands[0].Shape.Type == to {
				switch {
				case to.IsFloat():
					in.Attr.ComparisonType, in.Attr.ComparisonOrder = "FLOAT", "PARTIAL"
				case to.IsSigned():
					in.Attr.ComparisonType, in.Attr.ComparisonOrder = "SIGNED", "TOTAL"
				default:
					in.Attr.ComparisonType, in.Attr.ComparisonOrder = "UNSIGNED", "TOTAL"
				}
			}
			if in.Op == hlo.OpReducePrecision || in.Op == hlo.OpBitcastConvert || in.Op == hlo.OpBitcast {
				return false // about the bits of the type
			}
		}
	}
	for i := range inputs {
		var ok bool
		if inputs[i], ok = converted(inputs[i], from, to); !ok {
			return false
		}
	}
	m.EntryLayout = nil
	return true
}

// converted is a literal with other elements; ok is false if one has no place
// in the new type.
func converted(l *hlo.Literal, from, to hlo.PrimitiveType) (*hlo.Literal, bool) {
	if !l.Shape.IsArray() {
		return l, !slices.ContainsFunc(l.Shape.Leaves(), func(s *hlo.Shape) bool { return s.Type == from })
	}
	if l.Shape.Type != from {
		return l, true
	}
	shape := l.Shape.WithoutLayout()
	shape.Type = to
	out := hlo.NewLiteral(shape)
	for i := range l.Shape.Elems() {
		switch {
		case from.IsComplex():
			out.SetComplex(i, l.Complex(i))
		case from.IsFloat() && to.IsFloat():
			out.SetFloat(i, l.Float(i))
		case from.IsFloat():
			v := math.Max(-1<<30, math.Min(l.Float(i), 1<<30)) // NaN stays NaN
			switch n := int64(math.Round(v)); {
			case v != v:
			case n == 0 && v != 0: // what is not zero stays so
				out.SetInt(i, int64(math.Copysign(1, v)))
			default:
				out.SetInt(i, n)
			}
		default:
			out.SetInt(i, l.Int(i))
			if out.Int(i) != l.Int(i) {
				return nil, false
			}
		}
	}
	return out, true
}

// inputs gives every input plain values: whole numbers from 2 on, with a third
// added where the type has fractions.
func (r *reducer) inputs() {
	r.edit(func(m *hlo.Module, inputs *[]*hlo.Literal) bool {
		changed := false
		for n, old := range *inputs {
			t := old.Shape.Type
			if !old.Shape.IsArray() || t.IsComplex() || t == hlo.Pred {
				continue
			}
			l := &hlo.Literal{Shape: old.Shape, Raw: slices.Clone(old.Raw), DynamicSizes: old.DynamicSizes}
			for i := range l.Shape.Elems() {
				if v := (i+2*int64(n))%7 + 2; t.IsFloat() {
					l.SetFloat(i, float64(v)+1.0/3)
				} else {
					l.SetInt(i, v)
				}
			}
			changed = changed || !slices.Equal(old.Raw, l.Raw)
			(*inputs)[n] = l
		}
		return changed
	})
}

// parameters makes constants of the entry parameters, with their value or with
// zero.
func (r *reducer) parameters() {
	for i := 0; i < len(r.best.Module.Entry.Instructions); i++ {
		in := r.best.Module.Entry.Instructions[i]
		if in.Op != hlo.OpConstant || !in.Shape.IsArray() || in.Literal == nil {
			continue
		}
		for _, value := range []*hlo.Literal{in.Literal, hlo.NewLiteral(in.Literal.Shape.WithoutLayout())} {
			if r.edit(func(m *hlo.Module, inputs *[]*hlo.Literal) bool {
				in := m.Entry.Instructions[i]
				p := hlo.NewInstruction("p."+in.Name, hlo.OpParameter, in.Shape.WithoutLayout())
				p.Attr.ParameterNumber = int64(len(*inputs))
				*inputs = append(*inputs, value)
				m.Entry.Instructions = slices.Insert(m.Entry.Instructions, 0, p)
				replaceUses(m.Entry, in, p)
				return true
			}) {
				break
			}
		}
	}
}

// words makes comparisons LT, and element-wise operations of one and two
// operands negate and add: in the entry and where a reduction combines.
func (r *reducer) words() {
	for c := 0; c < len(r.best.Module.Computations); c++ {
		r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool {
			k := m.Computations[c]
			p := k.Params()
			if k == m.Entry || len(p) != 2 || p[0] == nil || p[1] == nil || p[0].Shape.Rank() != 0 || !p[0].Shape.IsArray() || p[0].Shape.Type == hlo.Pred ||
				!p[0].Shape.Compatible(p[1].Shape) || !p[0].Shape.Compatible(k.Root.Shape) || k.Root.Op == hlo.OpAdd && k.Root.Operands[0] == p[0] && k.Root.Operands[1] == p[1] {
				return false
			}
			k.Root = hlo.NewInstruction("plain."+k.Name, hlo.OpAdd, k.Root.Shape.Clone(), p[0], p[1])
			k.Instructions = append(k.Instructions, k.Root)
			return true
		})
		for i := 0; c < len(r.best.Module.Computations) && i < len(r.best.Module.Computations[c].Instructions); i++ {
			r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool {
				in := m.Computations[c].Instructions[i]
				switch {
				case in.Op == hlo.OpCompare && in.Attr.ComparisonDirection != "LT":
					in.Attr.ComparisonDirection = "LT"
				case in.Op == hlo.OpCompare || in.Op == hlo.OpConvert || in.Op == hlo.OpCopy || in.Op == hlo.OpBroadcast || in.Op == hlo.OpReducePrecision || !elementwise(in) ||
					slices.ContainsFunc(in.Operands, func(o *hlo.Instruction) bool { return o.Shape.Type != in.Shape.Type }):
					return false
				case len(in.Operands) == 1 && in.Op != hlo.OpNegate:
					in.Op = hlo.OpNegate
				case len(in.Operands) == 2 && in.Op != hlo.OpAdd:
					in.Op = hlo.OpAdd
				default:
					return false
				}
				return true
			})
		}
	}
}

// apart gives every use of a parameter of the entry a parameter of its own.
func (r *reducer) apart() {
	for i := 0; i < len(r.best.Module.Entry.Instructions); i++ {
		for k := 0; k < len(r.best.Module.Entry.Instructions[i].Operands); k++ {
			r.edit(func(m *hlo.Module, inputs *[]*hlo.Literal) bool {
				in := m.Entry.Instructions[i]
				p := in.Operands[k]
				uses := 0
				for _, o := range m.Entry.Instructions {
					for _, q := range o.Operands {
						if q == p {
							uses++
						}
					}
				}
				if p.Op != hlo.OpParameter || uses < 2 {
					return false
				}
				one := hlo.NewInstruction(fmt.Sprintf("%s.%d", p.Name, len(*inputs)), hlo.OpParameter, p.Shape.Clone())
				one.Attr.ParameterNumber = int64(len(*inputs))
				*inputs = append(*inputs, (*inputs)[p.Attr.ParameterNumber])
				m.Entry.Instructions = slices.Insert(m.Entry.Instructions, 0, one)
				in.Operands[k] = one
				m.EntryLayout = nil
				return true
			})
		}
	}
}

// flat gives the arrays of a program of element-wise operations one dimension.
func (r *reducer) flat() {
	r.edit(func(m *hlo.Module, inputs *[]*hlo.Literal) bool {
		var dims []int64
		for _, in := range m.Entry.Instructions {
			if len(in.Called) > 0 || !in.Shape.IsArray() || in.Shape.IsDynamic() || in.Op != hlo.OpParameter && in.Op != hlo.OpConstant && !elementwise(in) {
				return false
			}
			if in.Shape.Rank() == 0 {
				continue
			}
			if dims == nil {
				dims = in.Shape.Dims
			}
			if !slices.Equal(dims, in.Shape.Dims) {
				return false
			}
		}
		if len(dims) < 2 {
			return false
		}
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		flatten := func(s *hlo.Shape) *hlo.Shape {
			if s.Rank() == 0 {
				return s
			}
			return hlo.ArrayShape(s.Type, n)
		}
		for _, in := range m.Entry.Instructions {
			in.Shape = flatten(in.Shape)
			if in.Literal != nil {
				in.Literal = &hlo.Literal{Shape: flatten(in.Literal.Shape), Raw: in.Literal.Raw}
			}
			if in.Op == hlo.OpBroadcast {
				in.Attr.Dimensions = nil
			}
		}
		for i, l := range *inputs {
			(*inputs)[i] = &hlo.Literal{Shape: flatten(l.Shape), Raw: l.Raw}
		}
		m.EntryLayout = nil
		return true
	})
}

// elementwise reports whether the elements of an instruction come from those at
// the same place of its operands, or from one value.
func elementwise(in *hlo.Instruction) bool {
	switch in.Op {
	case hlo.OpBroadcast:
		return in.Operands[0].Shape.Rank() == 0
	case hlo.OpAbs, hlo.OpAdd, hlo.OpAnd, hlo.OpAtan2, hlo.OpCbrt, hlo.OpCeil, hlo.OpClamp, hlo.OpCompare, hlo.OpComplex, hlo.OpConvert, hlo.OpCopy,
		hlo.OpCosine, hlo.OpCountLeadingZeros, hlo.OpDivide, hlo.OpErf, hlo.OpExponential, hlo.OpExponentialMinusOne, hlo.OpFloor, hlo.OpImag,
		hlo.OpIsFinite, hlo.OpLog, hlo.OpLogPlusOne, hlo.OpLogistic, hlo.OpMaximum, hlo.OpMinimum, hlo.OpMultiply, hlo.OpNegate, hlo.OpNot, hlo.OpOr,
		hlo.OpPopcnt, hlo.OpPower, hlo.OpReal, hlo.OpReducePrecision, hlo.OpRemainder, hlo.OpRoundNearestAFZ, hlo.OpRoundNearestEven, hlo.OpRsqrt,
		hlo.OpSelect, hlo.OpShiftLeft, hlo.OpShiftRightArithmetic, hlo.OpShiftRightLogical, hlo.OpSign, hlo.OpSine, hlo.OpSqrt, hlo.OpSubtract,
		hlo.OpTan, hlo.OpTanh, hlo.OpXor:
		return true
	}
	return false
}
