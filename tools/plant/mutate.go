package main

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo"
)

var kinds = []string{"logic", "precision", "element"}

// innerSuffix marks the original instruction where it got wrapped.
const innerSuffix = ".planted"

var others = map[hlo.Opcode]hlo.Opcode{
	hlo.OpAdd: hlo.OpSubtract, hlo.OpSubtract: hlo.OpAdd, hlo.OpMultiply: hlo.OpAdd, hlo.OpDivide: hlo.OpMultiply,
	hlo.OpMaximum: hlo.OpMinimum, hlo.OpMinimum: hlo.OpMaximum, hlo.OpTanh: hlo.OpSine, hlo.OpSine: hlo.OpCosine,
	hlo.OpExponential: hlo.OpTanh, hlo.OpNegate: hlo.OpAbs,
}

// mutate plants a wrong operation of a kind at a random place in a copy of a
// module and returns it with the name of the instruction; nil if there is no
// place.
func mutate(m *hlo.Module, rnd *rand.Rand, kind string) (*hlo.Module, string) {
	var names []string
	for _, c := range running(m) {
		for _, in := range c.Instructions {
			if fits(in, kind) {
				names = append(names, in.Name)
			}
		}
	}
	if len(names) == 0 {
		return nil, ""
	}
	name := names[rnd.IntN(len(names))]
	bad := m.Clone()
	for _, c := range bad.Computations {
		for i, in := range c.Instructions {
			if in.Name == name {
				c.Instructions = slices.Insert(c.Instructions, i, wrong(in, kind)...)
				if hlo.Verify(bad) != nil {
					return nil, ""
				}
				return bad, name
			}
		}
	}
	return nil, ""
}

// running are the computations that run by themselves or as part of a kernel.
func running(m *hlo.Module) []*hlo.Computation {
	var out []*hlo.Computation
	var mark func(*hlo.Computation)
	mark = func(c *hlo.Computation) {
		if slices.Contains(out, c) {
			return
		}
		out = append(out, c)
		for _, in := range c.Instructions {
			switch in.Op {
			case hlo.OpFusion, hlo.OpCall, hlo.OpWhile, hlo.OpConditional:
				for _, k := range in.Called {
					mark(k)
				}
			}
		}
	}
	mark(m.Entry)
	return out
}

func fits(in *hlo.Instruction, kind string) bool {
	if kind == "logic" {
		_, ok := others[in.Op]
		return ok && in.Shape.Type.IsFloat()
	}
	switch in.Op {
	case hlo.OpBitcast, hlo.OpGetTupleElement, hlo.OpReshape, hlo.OpBroadcast, hlo.OpCopy:
		return false
	}
	return in.Shape.Type == hlo.F32 && len(in.Operands) > 0 && (kind == "precision" || in.Shape.Elems() > 1)
}

// wrong makes an instruction wrong in place and returns the instructions that
// it needs before it.
func wrong(in *hlo.Instruction, kind string) []*hlo.Instruction {
	if kind == "logic" {
		in.Op = others[in.Op]
		return nil
	}
	inner := *in
	inner.Name, inner.Attr = in.Name+innerSuffix, proto.CloneOf(in.Attr)
	metadata := in.Attr.Metadata
	front := []*hlo.Instruction{&inner}
	var n *hlo.Instruction
	if kind == "precision" {
		s := in.Shape.Clone()
		s.Type = hlo.BF16
		narrow := hlo.NewInstruction(in.Name+innerSuffix+".narrow", hlo.OpConvert, s, &inner)
		front = append(front, narrow)
		n = hlo.NewInstruction(in.Name, hlo.OpConvert, in.Shape, narrow)
	} else {
		one := in.Shape.Clone()
		for i := range one.Dims {
			one.Dims[i] = 1
		}
		value := hlo.NewInstruction(in.Name+innerSuffix+".value", hlo.OpConstant, one)
		value.Literal = hlo.NewLiteral(one.WithoutLayout())
		value.Literal.SetFloat(0, 77)
		front = append(front, value)
		ops := []*hlo.Instruction{&inner, value}
		for i := range one.Dims {
			at := hlo.NewInstruction(fmt.Sprintf("%s%s.at%d", in.Name, innerSuffix, i), hlo.OpConstant, hlo.ArrayShape(hlo.S32))
			at.Literal = hlo.NewLiteral(at.Shape)
			front, ops = append(front, at), append(ops, at)
		}
		n = hlo.NewInstruction(in.Name, hlo.OpDynamicUpdateSlice, in.Shape, ops...)
	}
	n.Attr.Metadata = metadata
	*in = *n
	return front
}

// graft plants at the instruction of a name.
func graft(m *hlo.Module, name, kind string) {
	for _, c := range m.Computations {
		for i, in := range c.Instructions {
			if in.Name == name {
				c.Instructions = slices.Insert(c.Instructions, i, wrong(in, kind)...)
				return
			}
		}
	}
}

// alone is an instruction as a program of one parameter for each operand.
func alone(in *hlo.Instruction) *hlo.Module {
	m := hlo.NewModule("alone")
	m.Entry = hlo.NewComputation("entry")
	root := *in
	root.Operands, root.ControlPredecessors = nil, nil
	for i, o := range in.Operands {
		p := hlo.NewInstruction(fmt.Sprintf("operand.%d", i), hlo.OpParameter, o.Shape.Clone())
		p.Attr.ParameterNumber = int64(i)
		root.Operands = append(root.Operands, p)
	}
	m.Entry.Instructions = append(slices.Clone(root.Operands), &root)
	m.Entry.Root = &root
	var called func(c *hlo.Computation)
	called = func(c *hlo.Computation) {
		if slices.Contains(m.Computations, c) {
			return
		}
		for _, x := range c.Instructions {
			for _, k := range x.Called {
				called(k)
			}
		}
		m.Computations = append(m.Computations, c)
	}
	for _, c := range in.Called {
		called(c)
	}
	m.Computations = append(m.Computations, m.Entry)
	return m.Clone()
}
