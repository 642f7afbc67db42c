package triage

import (
	"slices"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// StopTarget is the custom-call target that nobody registers.
const StopTarget = "passgate_stop_behind_the_passes"

// Stopped is the module with one more instruction, on which code generation of
// a CPU build fails before it has done anything: a custom-call with side
// effects and without operands or users, of an unregistered target of the
// typed FFI (xla/service/cpu/thunk_emitter.cc looks the handler up). The HLO
// passes and the scheduler run as without it. It comes first: the scheduler
// keeps it there, so that no kernel is emitted before it. NewTrail takes it out
// of the states again.
func Stopped(m *hlo.Module) *hlo.Module {
	m = m.Clone()
	in := hlo.NewInstruction(StopTarget, hlo.OpCustomCall, hlo.TupleShape())
	target := StopTarget
	in.Attr.CustomCallTarget = target
	in.Attr.CustomCallHasSideEffect = true
	in.Attr.CustomCallApiVersion = hlopb.CustomCallApiVersion_API_VERSION_TYPED_FFI
	m.Entry.Instructions = slices.Insert(m.Entry.Instructions, 0, in)
	return m
}

// RemoveStop takes the instruction that Stopped added out of a module.
func RemoveStop(m *hlo.Module) {
	for _, c := range m.Computations {
		c.Instructions = slices.DeleteFunc(c.Instructions, func(in *hlo.Instruction) bool {
			return in.Op == hlo.OpCustomCall && in != c.Root && in.Attr.GetCustomCallTarget() == StopTarget
		})
		for _, in := range c.Instructions {
			in.ControlPredecessors = slices.DeleteFunc(in.ControlPredecessors, func(p *hlo.Instruction) bool {
				return p.Op == hlo.OpCustomCall && p.Attr.GetCustomCallTarget() == StopTarget
			})
		}
	}
}
