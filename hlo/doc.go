// Package hlo is XLA's HLO module as Go data: types, shapes, layouts,
// literals, instructions, computations and modules.
//
// It reads and prints HLO text (Parse, Module.String), converts to and from
// the wire protos (FromProto, Module.ToProto) and verifies modules with shape
// inference for every opcode (Verify).
//
// The graph (operands, called computations, control edges, shapes, literals)
// is Go data; every other attribute of an instruction stays in the wire
// message hlopb.HloInstructionProto (Instruction.Attr), so that nothing that
// the wire can carry is lost, unknown fields included.
package hlo
