package triage

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// Kernel is one instruction of an optimised module that the build computes
// wrongly although every pass kept the program's meaning.
type Kernel struct {
	Instruction *hlo.Instruction
	// Alone says that the instruction is wrong when it is compiled and run by
	// itself on the values that it sees in the program. Otherwise it is the
	// first place where no smaller one could be found.
	Alone bool
	// Library says that it is a custom fusion or a custom-call: code that no
	// emitter of the compiler wrote.
	Library bool
	// InPlace says that it updates a buffer in place (dynamic-update-slice or
	// scatter, bare or as the root of a fusion).
	InPlace bool
	Where   Divergence
}

// FindKernel takes the optimised module apart: every instruction of the entry
// computation that code generation compiles by itself is run alone, with
// run_backend_only, on the values that the reference computes for its
// operands. It returns the first one whose result is outside its legal set; if
// none is, nil, and the fault needs the neighbours (buffers, scheduling,
// aliasing). A probe that crashes is skipped: it says nothing.
func FindKernel(ctx context.Context, c Compiler, b *builds.Build, optimised *hlo.Module, args []*eval.Value, options map[string]string) (*Kernel, error) {
	rec, err := record(ctx, optimised, args, eval.Options{})
	if err != nil {
		return nil, err
	}
	for _, in := range optimised.Entry.Instructions {
		if !compiled(in) || ctx.Err() != nil {
			continue
		}
		p, ok := alone(in, rec)
		if !ok {
			continue
		}
		if d := wrong(ctx, c, b, p, options); d != nil {
			return &Kernel{in, true, library(in), inPlace(in), *d}, nil
		}
	}
	return nil, ctx.Err()
}

// InPlace returns the first instruction of the entry that updates a buffer in
// place, nil if there is none.
func InPlace(m *hlo.Module) *hlo.Instruction {
	i := slices.IndexFunc(m.Entry.Instructions, inPlace)
	if i < 0 {
		return nil
	}
	return m.Entry.Instructions[i]
}

// compiled reports whether an instruction becomes code of its own.
func compiled(in *hlo.Instruction) bool {
	switch in.Op {
	case hlo.OpParameter, hlo.OpConstant, hlo.OpTuple, hlo.OpGetTupleElement, hlo.OpBitcast, hlo.OpAfterAll, hlo.OpPartitionId, hlo.OpReplicaId, hlo.OpRng, hlo.OpInfeed, hlo.OpOutfeed:
		return false
	}
	return true
}

func library(in *hlo.Instruction) bool {
	return in.Op == hlo.OpCustomCall || in.Op == hlo.OpFusion && in.Attr.FusionKind == "kCustom"
}

// Introduced returns the first state in which an instruction of that name
// exists, nil if the program had it from the start.
func (t *Trail) Introduced(name string) *State {
	if t.Before.Instruction(name) != nil {
		return nil
	}
	for i := range t.States {
		if m := t.States[i].Module; m != nil && m.Instruction(name) != nil {
			return &t.States[i]
		}
	}
	return nil
}

func inPlace(in *hlo.Instruction) bool {
	root := in
	for root.Op == hlo.OpBitcast || root.Op == hlo.OpFusion || root.Op == hlo.OpCall {
		if root.Op == hlo.OpBitcast {
			root = root.Operands[0]
		} else {
			root = root.Called[0].Root
		}
	}
	return root.Op == hlo.OpDynamicUpdateSlice || root.Op == hlo.OpScatter
}

// alone makes a program of one instruction: its operands become parameters
// with the recorded values.
func alone(in *hlo.Instruction, rec *recording) (Program, bool) {
	m := hlo.NewModule("alone")
	entry := hlo.NewComputation("entry")
	one := *in
	one.Operands, one.ControlPredecessors = nil, nil
	one.Attr = proto.CloneOf(in.Attr)
	p := Program{Module: m}
	at := map[*hlo.Instruction]*hlo.Instruction{}
	for _, o := range in.Operands {
		if at[o] == nil {
			if !o.Shape.IsArray() || rec.values[o] == nil {
				return Program{}, false
			}
			lit, err := rec.values[o].Literal(o.Shape)
			if err != nil {
				return Program{}, false
			}
			param := hlo.NewInstruction("p."+o.Name, hlo.OpParameter, o.Shape.Clone())
			param.Attr.ParameterNumber = int64(len(p.Inputs))
			p.Inputs = append(p.Inputs, lit)
			entry.Instructions = append(entry.Instructions, param)
			at[o] = param
		}
		one.Operands = append(one.Operands, at[o])
	}
	entry.Instructions = append(entry.Instructions, &one)
	entry.Root = &one
	m.Entry = entry
	m.Computations = append(callees(in.Called, nil), entry)
	m.Scheduled = true
	m = m.Clone()
	return Program{m, p.Inputs}, true
}

// callees are the computations below, callees before callers.
func callees(roots []*hlo.Computation, out []*hlo.Computation) []*hlo.Computation {
	for _, c := range roots {
		if slices.Contains(out, c) {
			continue
		}
		for _, in := range c.Instructions {
			out = callees(in.Called, out)
		}
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

// wrong runs a program behind the HLO passes and returns the first element
// outside its legal set; nil if there is none or the probe tells nothing.
func wrong(ctx context.Context, c Compiler, b *builds.Build, p Program, options map[string]string) *Divergence {
	args := make([]*eval.Value, len(p.Inputs))
	var arrays []worker.Array
	for i, l := range p.Inputs {
		args[i] = eval.FromLiteral(l)
		arrays = append(arrays, worker.Array{Type: int32(l.Shape.Type), Dims: l.Shape.Dims, Data: l.Raw})
	}
	ref, err := eval.Run(ctx, p.Module, args, eval.Options{Bounds: true})
	if err != nil {
		return nil
	}
	data, err := hlo.MarshalModule(p.Module)
	if err != nil {
		return nil
	}
	out := c.Do(ctx, b, worker.Request{Program: data, Format: worker.HLO, Options: options, BackendOnly: true, Inputs: [][]worker.Array{arrays}, Repeat: 2})
	if out.Status != worker.OK || len(out.Result.Sets) != 1 {
		return nil
	}
	refs := leaves(ref)
	for _, run := range out.Result.Sets[0].Distinct {
		if len(run.Outputs) != len(refs) {
			return nil
		}
		for o, got := range run.Outputs {
			lit := &hlo.Literal{Shape: hlo.ArrayShape(hlo.PrimitiveType(got.Type), got.Dims...), Raw: got.Data}
			if lit.Shape.Type != refs[o].Type || lit.Shape.Elems() != int64(refs[o].Len()) {
				return nil
			}
			for i := range refs[o].Len() {
				s := eval.LiteralScalar(lit, int64(i))
				if refs[o].Legal(i, s) == eval.Out {
					return &Divergence{Output: o, At: unravel(i, refs[o].Dims), Type: refs[o].Type, Before: refs[o].LegalSet(i), After: eval.ScalarString(refs[o].Type, s)}
				}
			}
		}
	}
	return nil
}
