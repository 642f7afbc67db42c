package eval

import (
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// lowering evaluates an operation as a few plain HLO operations. The first
// error sticks; after it every result is nil.
type lowering struct {
	e   *Evaluator
	in  *hlo.Instruction
	err error
}

// op evaluates one synthetic instruction with a result of the given shape.
func (l *lowering) op(op hlo.Opcode, shape *hlo.Shape, attr *hlopb.HloInstructionProto, called *hlo.Computation, args ...*Array) *Value {
	if l.err != nil {
		return nil
	}
	in := &hlo.Instruction{Name: l.in.Name, Op: op, Shape: shape, Attr: attr}
	if attr == nil {
		in.Attr = &hlopb.HloInstructionProto{}
	}
	if called != nil {
		in.Called = []*hlo.Computation{called}
	}
	for _, a := range args {
		o := hlo.NewInstruction(l.in.Name, hlo.OpParameter, hlo.ArrayShape(a.Type, a.Dims...))
		in.Operands = append(in.Operands, o)
	}
	v, err := l.e.evalArrays(in, args)
	if err == nil {
		err = fits(v, shape)
	}
	l.err = err
	return v
}

// array is op for an array result of the given type and dimensions.
func (l *lowering) array(op hlo.Opcode, t hlo.PrimitiveType, dims []int64, attr *hlopb.HloInstructionProto, args ...*Array) *Array {
	if v := l.op(op, hlo.ArrayShape(t, dims...), attr, nil, args...); l.err == nil {
		return v.Array
	}
	return nil
}

func (l *lowering) binary(op hlo.Opcode, x, y *Array) *Array {
	if l.err != nil {
		return nil
	}
	return l.array(op, x.Type, x.Dims, nil, x, y)
}

func (l *lowering) unary(op hlo.Opcode, x *Array) *Array {
	if l.err != nil {
		return nil
	}
	return l.array(op, x.Type, x.Dims, nil, x)
}

// spread broadcasts x; its dimensions become dims[at...].
func (l *lowering) spread(x *Array, dims []int64, at ...int64) *Array {
	if l.err != nil {
		return nil
	}
	return l.array(hlo.OpBroadcast, x.Type, dims, &hlopb.HloInstructionProto{Dimensions: at}, x)
}

// number is the constant v, rounded to t, everywhere.
func (l *lowering) number(t hlo.PrimitiveType, v float64, dims ...int64) *Array {
	if t.IsInteger() {
		return Fill(Scalar{I: t.Canonical(int64(v))}, t, dims...)
	}
	return Fill(Scalar{Re: Num{C: t.Real().Format().Round(v)}}, t, dims...)
}

// sumOver reduces x with addition over all dimensions but one.
func (l *lowering) sumOver(x *Array, keep int64) *Array {
	if l.err != nil {
		return nil
	}
	attr := &hlopb.HloInstructionProto{}
	for d := range x.Dims {
		if int64(d) != keep {
			attr.Dimensions = append(attr.Dimensions, int64(d))
		}
	}
	scalar := hlo.ArrayShape(x.Type)
	add := hlo.NewComputation("add")
	p0 := hlo.NewInstruction("x", hlo.OpParameter, scalar)
	p1 := hlo.NewInstruction("y", hlo.OpParameter, scalar)
	p1.Attr.ParameterNumber = 1
	add.Root = hlo.NewInstruction("sum", hlo.OpAdd, scalar, p0, p1)
	add.Instructions = []*hlo.Instruction{p0, p1, add.Root}
	v := l.op(hlo.OpReduce, hlo.ArrayShape(x.Type, x.Dims[keep]), attr, add, x, NewArray(x.Type))
	if l.err != nil {
		return nil
	}
	return v.Array
}
