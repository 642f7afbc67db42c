package triage

import (
	"context"
	"fmt"
	"math"
	"regexp"
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
//
// rewrite says what the fault does to a program. Where an operation is put in
// the place of another one, or another type, that must stay the same (see
// like), so that no other fault of the same pass takes over.
func Plainest(ctx context.Context, p Program, fails Fails, rewrite func(context.Context, Program) (Rewrite, bool), probes int) Program {
	r := newReducer(ctx, p, fails, probes)
	r.rewrite = rewrite
	r.small()
	return r.run(func(r *reducer) {
		r.inputs()
		r.roots()
		r.cuts()
		r.operands()
		r.parameters()
		r.types()
		r.parameterTypes()
		r.shapes()
		r.flat()
		r.words()
		r.anything()
		r.numbers()
		r.apart()
	})
}

// guarded makes a change that may only be kept if the fault does the same as
// before to what may be another operation now.
func (r *reducer) guarded(change func(m *hlo.Module, inputs *[]*hlo.Literal) bool) bool {
	if r.rewrite == nil {
		return r.edit(change)
	}
	was, ok := r.rewrite(r.ctx, r.best)
	if !ok {
		return false
	}
	fails := r.fails
	defer func() { r.fails = fails }()
	r.fails = func(ctx context.Context, p Program) bool {
		if !fails(ctx, p) {
			return false
		}
		is, ok := r.rewrite(ctx, p)
		return ok && is.like(was)
	}
	return r.edit(change)
}

// typeName matches element types in the text of a rewrite, direction those of
// comparisons, attributeChanges what it says of attributes.
var (
	direction        = regexp.MustCompile(` (LT|LE|GT|GE|EQ|NE)\b`)
	typeName         = regexp.MustCompile(`\b(pred|[su][0-9]+|f[0-9]+|bf16|c64|c128|f[48]e[0-9]m[0-9][a-z0-9]*)\b`)
	attributeChanges = regexp.MustCompile(` with .*`)
)

// like reports whether two rewrites are the same but for element types, and
// for the operation that is rewritten if that is one of the plain ones now.
func (r Rewrite) like(was Rewrite) bool {
	bare := func(s string) string {
		return direction.ReplaceAllString(typeName.ReplaceAllString(attributeChanges.ReplaceAllString(s, ""), "T"), " D")
	}
	before, after := bare(r.Before), bare(r.After)
	if before == bare(was.Before) {
		return after == bare(was.After)
	}
	switch before {
	case "add T(#0 T; #1 T)", "negate T(#0 T)", "compare T D(#0 T; #1 T)":
	default:
		return false
	}
	// An attribute of the operation cannot have changed with it, and an operand
	// that is left has its number by where it is read.
	return after == bare(was.After)
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
		if from == hlo.C128 && r.guarded(func(m *hlo.Module, inputs *[]*hlo.Literal) bool { return retype(m, *inputs, from, hlo.C64) }) {
			continue
		}
		for _, to := range plainTypes[:max(0, slices.Index(plainTypes, from))] {
			if to.IsFloat() && !from.IsFloat() || from.IsFloat() && !to.IsFloat() && to != hlo.S32 {
				continue
			}
			if r.guarded(func(m *hlo.Module, inputs *[]*hlo.Literal) bool { return retype(m, *inputs, from, to) }) {
				break
			}
		}
	}
}

// parameterTypes tries plainer types for one parameter of the entry at a time,
// where what reads it takes any.
func (r *reducer) parameterTypes() {
	for n := 0; n < len(r.best.Inputs); n++ {
		from := r.best.Inputs[n].Shape.Type
		if !r.best.Inputs[n].Shape.IsArray() || from.IsComplex() {
			continue
		}
		for _, to := range plainTypes {
			if to == from {
				break
			}
			if to.IsFloat() && !from.IsFloat() || from.IsFloat() && !to.IsFloat() && to != hlo.S32 {
				continue
			}
			if r.guarded(func(m *hlo.Module, inputs *[]*hlo.Literal) bool {
				var ok bool
				if (*inputs)[n], ok = converted((*inputs)[n], from, to); !ok {
					return false
				}
				p := m.Entry.Params()[n]
				p.Shape = p.Shape.WithoutLayout()
				p.Shape.Type = to
				m.EntryLayout = nil
				return true
			}) {
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
	r.edit(func(_ *hlo.Module, inputs *[]*hlo.Literal) bool { return plainInputs(*inputs) })
}

func plainInputs(inputs []*hlo.Literal) (changed bool) {
	for n, old := range inputs {
		if !old.Shape.IsArray() || old.Shape.Type.IsComplex() || old.Shape.Type == hlo.Pred {
			continue
		}
		l := plainInput(old.Shape, n)
		l.DynamicSizes = old.DynamicSizes
		changed = changed || !slices.Equal(old.Raw, l.Raw)
		inputs[n] = l
	}
	return changed
}

// plainInput is the plain value of parameter n.
func plainInput(s *hlo.Shape, n int) *hlo.Literal {
	l := hlo.NewLiteral(s)
	for i := range s.Elems() {
		v := float64((i+2*int64(n))%7 + 2)
		if s.Type.IsFloat() || s.Type.IsComplex() {
			v += 1.0 / 3
		}
		setNumber(l, i, v)
	}
	return l
}

// small tries to begin with plain inputs and with no size above 2, in one
// dimension where that does: a program that many others become, so that what
// was found out about it is known.
func (r *reducer) small() {
	shrink := func(flat bool) bool {
		return r.edit(func(m *hlo.Module, inputs *[]*hlo.Literal) bool {
			for _, from := range sizes(m) {
				if from > 2 && !resize(m, *inputs, from, 2, false) {
					return false
				}
			}
			if flat && !oneDimension(m, *inputs) {
				return false
			}
			plainInputs(*inputs)
			return true
		})
	}
	_ = shrink(true) || shrink(false)
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
			r.guarded(func(m *hlo.Module, _ *[]*hlo.Literal) bool {
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

// anything puts the sum of two parameters, or their comparison, in the place of
// an instruction of the entry: what matters may be that there is a value of that
// type.
func (r *reducer) anything() {
	for i := 0; i < len(r.best.Module.Entry.Instructions); i++ {
		r.guarded(func(m *hlo.Module, inputs *[]*hlo.Literal) bool {
			in := m.Entry.Instructions[i]
			if in.Op == hlo.OpParameter || in.Op == hlo.OpConstant || moves(in) || !in.Shape.IsArray() || in.Shape.IsDynamic() {
				return false
			}
			op, of := hlo.OpAdd, in.Shape.WithoutLayout()
			if of.Type == hlo.Pred {
				op, of.Type = hlo.OpCompare, hlo.S32
			}
			if in.Op == op && slices.ContainsFunc(in.Operands, func(o *hlo.Instruction) bool { return o.Op == hlo.OpParameter && o.Shape.Type == of.Type }) {
				return false
			}
			plain := hlo.NewInstruction("plain."+in.Name, op, in.Shape.WithoutLayout())
			if op == hlo.OpCompare {
				plain.Attr.ComparisonDirection, plain.Attr.ComparisonType, plain.Attr.ComparisonOrder = "LT", "SIGNED", "TOTAL"
			}
			for k := range 2 {
				p := hlo.NewInstruction(fmt.Sprintf("plain.%d.%s", k, in.Name), hlo.OpParameter, of.Clone())
				p.Attr.ParameterNumber = int64(len(*inputs))
				*inputs = append(*inputs, plainInput(of, len(*inputs)))
				m.Entry.Instructions = slices.Insert(m.Entry.Instructions, 0, p)
				plain.Operands = append(plain.Operands, p)
			}
			m.Entry.Instructions = append(m.Entry.Instructions, plain)
			replaceUses(m.Entry, in, plain)
			m.EntryLayout = nil
			return true
		})
	}
}

// numbers puts attributes on their defaults, and the precision to which values
// are rounded on one bit less than they have.
func (r *reducer) numbers() {
	r.attributes()
	r.eachInstruction(func(c, i int) {
		r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool {
			in := m.Computations[c].Instructions[i]
			f := in.Shape.Type.Format()
			if in.Op != hlo.OpReducePrecision || f == nil || in.Attr.ExponentBits == int32(f.ExponentBits) && in.Attr.MantissaBits == int32(f.MantissaBits-1) {
				return false
			}
			in.Attr.ExponentBits, in.Attr.MantissaBits = int32(f.ExponentBits), int32(f.MantissaBits-1)
			return true
		})
	})
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
	r.edit(func(m *hlo.Module, inputs *[]*hlo.Literal) bool { return oneDimension(m, *inputs) })
}

func oneDimension(m *hlo.Module, inputs []*hlo.Literal) bool {
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
	one := func(s *hlo.Shape) *hlo.Shape {
		if s.Rank() == 0 {
			return s
		}
		return hlo.ArrayShape(s.Type, n)
	}
	for _, in := range m.Entry.Instructions {
		in.Shape = one(in.Shape)
		if in.Literal != nil {
			in.Literal = &hlo.Literal{Shape: one(in.Literal.Shape), Raw: in.Literal.Raw}
		}
		if in.Op == hlo.OpBroadcast {
			in.Attr.Dimensions = nil
		}
	}
	for i, l := range inputs {
		inputs[i] = &hlo.Literal{Shape: one(l.Shape), Raw: l.Raw}
	}
	m.EntryLayout = nil
	return true
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
