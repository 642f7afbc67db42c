// Package memory checks where a compiler puts values. Check executes the
// schedule of a compiled module on tokens: every byte of every allocation
// remembers which value it holds, every instruction looks whether its operands
// are still where the buffer assignment says. It uses the compiler's placement
// and none of its reasons: no liveness, no alias analysis, no interference
// graph of XLA's.
package memory

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// Place is a range of bytes of an allocation.
type Place struct{ Allocation, Offset, Size int64 }

func (p Place) overlaps(q Place) bool {
	return p.Allocation == q.Allocation && p.Offset < q.Offset+q.Size && q.Offset < p.Offset+p.Size
}

func (p Place) String() string {
	return fmt.Sprintf("allocation %d, bytes %d to %d", p.Allocation, p.Offset, p.Offset+p.Size)
}

// Location is a leaf, or an inner node, of an instruction's result.
type Location struct {
	Instruction *hlo.Instruction
	Path        string // "{}", "{1}", "{1,0}"
}

func (l Location) String() string {
	if l.Path == "{}" {
		return "%" + l.Instruction.Name
	}
	return "%" + l.Instruction.Name + l.Path
}

// Allocation is a block of memory.
type Allocation struct {
	Size     int64
	Constant bool
	// Parameter is the entry parameter whose leaf at Path the block is, -1 if
	// none.
	Parameter int64
	Path      string
}

// Program is a scheduled module with the places of its values.
type Program struct {
	Module      *hlo.Module
	Allocations map[int64]Allocation
	// Places of every position of every value.
	Places map[Location]Place
	// Defined are the locations at which the compiler starts a new value.
	Defined map[Location]bool
}

// ErrNoAssignment is a dump without buffer assignment.
var ErrNoAssignment = errors.New("the dump holds no buffer assignment")

// Read reads an xla.HloProto with a buffer assignment, as XLA dumps it after
// the optimisations (*after_optimizations.hlo.pb; xla/service/hlo.proto,
// BufferAssignmentProto).
func Read(data []byte) (*Program, error) {
	var p hlopb.HloProto
	if err := proto.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("buffer assignment: %w", err)
	}
	return FromProto(&p)
}

// FromProto is Read of a parsed message.
func FromProto(p *hlopb.HloProto) (*Program, error) {
	a := p.GetBufferAssignment()
	if len(a.GetBufferAllocations()) == 0 {
		return nil, ErrNoAssignment
	}
	m, err := hlo.FromProto(p.GetHloModule())
	if err != nil {
		return nil, fmt.Errorf("buffer assignment: %w", err)
	}
	out := &Program{Module: m, Allocations: map[int64]Allocation{}, Places: map[Location]Place{}, Defined: map[Location]bool{}}
	find := byID(p.GetHloModule(), m)
	placed := map[int64]Place{}
	for _, alloc := range a.GetBufferAllocations() {
		block := Allocation{Size: alloc.GetSize(), Constant: alloc.GetIsConstant(), Parameter: -1}
		if alloc.GetIsEntryComputationParameter() {
			block.Parameter, block.Path = alloc.GetParameterNumber(), path(alloc.GetParameterShapeIndex())
		}
		out.Allocations[alloc.GetIndex()] = block
		for _, s := range alloc.GetAssigned() {
			if s.GetOffset() < 0 || s.GetSize() < 0 || s.GetOffset()+s.GetSize() > alloc.GetSize() {
				return nil, fmt.Errorf("buffer assignment: buffer %d lies outside its allocation %d", s.GetLogicalBufferId(), alloc.GetIndex())
			}
			placed[s.GetLogicalBufferId()] = Place{alloc.GetIndex(), s.GetOffset(), s.GetSize()}
		}
	}
	locate := func(l *hlopb.LogicalBufferProto_Location) (Location, bool) {
		in := find(l)
		return Location{in, path(l.GetShapeIndex())}, in != nil
	}
	for _, b := range a.GetLogicalBuffers() {
		if at, ok := locate(b.GetDefinedAt()); ok {
			out.Defined[at] = true
			if s, ok := placed[b.GetId()]; ok {
				out.Places[at] = s
			}
		}
	}
	for _, b := range a.GetBufferAliases() {
		if at, ok := locate(b.GetLocation()); ok {
			if s, ok := placed[b.GetSourceBufferId()]; ok && !out.Defined[at] {
				out.Places[at] = s
			}
		}
	}
	return out, nil
}

// byID finds the instruction of a location. Builds write the id that the
// instruction has in the module or, newer ones, the computation's id in the
// upper 32 bits of it; old ones write the name.
func byID(p *hlopb.HloModuleProto, m *hlo.Module) func(*hlopb.LogicalBufferProto_Location) *hlo.Instruction {
	ids := map[int64]*hlo.Instruction{}
	for _, c := range p.GetComputations() {
		comp := m.Computation(c.GetName())
		if comp == nil {
			continue
		}
		names := map[string]*hlo.Instruction{}
		for _, in := range comp.Instructions {
			names[in.Name] = in
		}
		for _, in := range c.GetInstructions() {
			ids[in.GetId()] = names[in.GetName()]
			ids[c.GetId()<<32|in.GetId()&0xffffffff] = names[in.GetName()]
		}
	}
	return func(l *hlopb.LogicalBufferProto_Location) *hlo.Instruction {
		if l.GetInstructionName() != "" {
			return m.Instruction(l.GetInstructionName())
		}
		return ids[l.GetInstructionId()]
	}
}

func path(index []int64) string {
	b := []byte{'{'}
	for i, n := range index {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Append(b, n)
	}
	return string(append(b, '}'))
}

// leaf is an array leaf of a shape.
type leaf struct {
	path  string
	shape *hlo.Shape
}

// leavesOf lists the leaves of a shape that hold data, and all inner nodes.
func leavesOf(s *hlo.Shape) (leaves []leaf, inner []string) {
	var walk func(s *hlo.Shape, at []int64)
	walk = func(s *hlo.Shape, at []int64) {
		if s.IsTuple() {
			inner = append(inner, path(at))
			for i, e := range s.Elements {
				walk(e, append(slices.Clone(at), int64(i)))
			}
			return
		}
		leaves = append(leaves, leaf{path(at), s})
	}
	walk(s, nil)
	return leaves, inner
}
