package hlo

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo/hlopb"
)

// Clone is a deep copy of the module. Literals are shared: nothing changes one
// in place.
func (m *Module) Clone() *Module {
	c := *m
	c.Attr = proto.Clone(m.Attr).(*hlopb.HloModuleProto)
	c.TextAttrs = slices.Clone(m.TextAttrs)
	c.EntryLayout = m.EntryLayout.clone()
	comps := map[*Computation]*Computation{}
	for _, old := range m.Computations {
		comps[old] = &Computation{Name: old.Name, ExecutionThread: old.ExecutionThread, Attr: proto.Clone(old.Attr).(*hlopb.HloComputationProto)}
	}
	ins := map[*Instruction]*Instruction{}
	for _, old := range m.Computations {
		for _, in := range old.Instructions {
			ins[in] = &Instruction{Name: in.Name, Op: in.Op, Shape: in.Shape.Clone(), Literal: in.Literal, Attr: proto.Clone(in.Attr).(*hlopb.HloInstructionProto)}
		}
	}
	c.Computations = nil
	for _, old := range m.Computations {
		nc := comps[old]
		nc.Root = ins[old.Root]
		for _, in := range old.Instructions {
			n := ins[in]
			for _, o := range in.Operands {
				n.Operands = append(n.Operands, ins[o])
			}
			for _, p := range in.ControlPredecessors {
				n.ControlPredecessors = append(n.ControlPredecessors, ins[p])
			}
			for _, k := range in.Called {
				n.Called = append(n.Called, comps[k])
			}
			for _, s := range in.OperandLayouts {
				n.OperandLayouts = append(n.OperandLayouts, s.Clone())
			}
			nc.Instructions = append(nc.Instructions, n)
		}
		c.Computations = append(c.Computations, nc)
	}
	c.Entry = comps[m.Entry]
	return &c
}

func (p *ProgramShape) clone() *ProgramShape {
	if p == nil {
		return nil
	}
	c := &ProgramShape{Result: p.Result.Clone()}
	for _, s := range p.Params {
		c.Params = append(c.Params, s.Clone())
	}
	return c
}
