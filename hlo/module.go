package hlo

import (
	"slices"

	"github.com/passgate/passgate/hlo/hlopb"
)

// Module is one HLO program.
type Module struct {
	Name string
	// Computations are in text order: callees before callers. Schedules and
	// printing follow it.
	Computations []*Computation
	Entry        *Computation
	// EntryLayout is the shape of parameters and result with their layouts
	// (entry_computation_layout); nil when the program leaves it to the
	// compiler.
	EntryLayout *ProgramShape
	// Scheduled says that the order of Instructions in each computation is
	// the schedule (is_scheduled=true).
	Scheduled bool
	// ReplicaCount and NumPartitions are text-only attributes; 0 means absent.
	ReplicaCount, NumPartitions int64
	// Attr holds every other module field of the wire (input_output_alias,
	// buffer_donor, frontend_attributes, stack_frame_index, ...), unknown
	// fields included. Name, computations, entry ids, host_program_shape and
	// schedule inside it are unused. Never nil.
	Attr *hlopb.HloModuleProto
	// TextAttrs keeps header attributes that only the text form has, in
	// order, as written ("alias_passthrough_params=true").
	TextAttrs []TextAttr
}

// TextAttr is a header attribute without a place in the wire format.
type TextAttr struct{ Key, Value string }

// ProgramShape is the type of a computation.
type ProgramShape struct {
	Params []*Shape
	Result *Shape
}

// Computation is a list of instructions with one root.
type Computation struct {
	Name string
	// Instructions are in text order; operands come before their users.
	Instructions []*Instruction
	Root         *Instruction
	// ExecutionThread is "" for the main thread.
	ExecutionThread string
	// Attr keeps the computation fields of the wire that have no place here
	// (is_fusion_computation), and unknown fields. Never nil.
	Attr *hlopb.HloComputationProto
}

// Params are the parameter instructions by parameter number; a missing number
// is a nil entry.
func (c *Computation) Params() []*Instruction {
	var ps []*Instruction
	for _, in := range c.Instructions {
		if in.Op != OpParameter {
			continue
		}
		n := int(in.Attr.ParameterNumber)
		for len(ps) <= n && n < len(c.Instructions) {
			ps = append(ps, nil)
		}
		if n >= 0 && n < len(ps) {
			ps[n] = in
		}
	}
	return ps
}

// Instruction is one operation.
type Instruction struct {
	Name     string
	Op       Opcode
	Shape    *Shape
	Operands []*Instruction
	// Called are the called computations in the order of the wire's
	// called_computation_ids: while is body, condition; conditional its
	// branches; select-and-scatter select, scatter; the others to_apply,
	// calls, or called_computations.
	Called              []*Computation
	ControlPredecessors []*Instruction
	// Literal is the value of a constant (and the optional literal of a
	// custom-call); nil otherwise.
	Literal *Literal
	// OperandLayouts are the operand_layout_constraints of a custom-call.
	OperandLayouts []*Shape
	// Attr holds every other field of the wire message, unknown fields
	// included: dimensions, window, dimension numbers, metadata, sharding,
	// backend_config, ... The fields that the struct above replaces (name,
	// opcode, shape, literal, id, operand_ids, called_computation_ids,
	// control_predecessor_ids, operand_shapes_with_layout) are unset. Never nil.
	Attr *hlopb.HloInstructionProto
}

// NewInstruction makes an instruction with an empty Attr.
func NewInstruction(name string, op Opcode, shape *Shape, operands ...*Instruction) *Instruction {
	return &Instruction{Name: name, Op: op, Shape: shape, Operands: operands, Attr: &hlopb.HloInstructionProto{}}
}

// NewComputation makes an empty computation.
func NewComputation(name string) *Computation {
	return &Computation{Name: name, Attr: &hlopb.HloComputationProto{}}
}

// NewModule makes an empty module.
func NewModule(name string) *Module { return &Module{Name: name, Attr: &hlopb.HloModuleProto{}} }

// Body is the body of a while, Condition its condition.
func (in *Instruction) Body() *Computation      { return in.Called[0] }
func (in *Instruction) Condition() *Computation { return in.Called[1] }

// Dimensions is the `dimensions` attribute: of broadcast, transpose, reduce,
// concatenate, reverse, iota (iota_dimension), sort, map, collectives.
func (in *Instruction) Dimensions() []int64 { return in.Attr.GetDimensions() }

// NumInstructions counts the instructions of all computations.
func (m *Module) NumInstructions() int {
	n := 0
	for _, c := range m.Computations {
		n += len(c.Instructions)
	}
	return n
}

// Computation returns the computation with the given name, or nil.
func (m *Module) Computation(name string) *Computation {
	i := slices.IndexFunc(m.Computations, func(c *Computation) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return m.Computations[i]
}

// Instruction returns the first instruction with the given name, or nil.
func (m *Module) Instruction(name string) *Instruction {
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			if in.Name == name {
				return in
			}
		}
	}
	return nil
}
