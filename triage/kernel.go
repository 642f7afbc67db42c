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

	program Program
}

// FindKernel takes the optimised module apart: every instruction of the entry
// computation that code generation compiles by itself is run alone, with
// run_backend_only, on the values that the reference computes for its
// operands. It returns the first one whose result is outside its legal set; if
// none is, nil, and the fault needs the neighbours (buffers, scheduling,
// aliasing). A probe that crashes is skipped: it says nothing. Each instruction
// is executed repeat times.
func FindKernel(ctx context.Context, c Compiler, b *builds.Build, optimised *hlo.Module, args []*eval.Value, options map[string]string, repeat int) (*Kernel, error) {
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
		if d := wrong(ctx, c, b, p, options, repeat); d != nil {
			return &Kernel{in, true, library(in), inPlace(in), *d, p}, nil
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
func wrong(ctx context.Context, c Compiler, b *builds.Build, p Program, options map[string]string, repeat int) *Divergence {
	ref, err := eval.Run(ctx, p.Module, literalValues(p.Inputs), eval.Options{Bounds: true})
	if err != nil {
		return nil
	}
	d, _ := wrongAgainst(ctx, c, b, p, leaves(ref), options, repeat)
	return d
}

// wrongAgainst is wrong with given legal sets; ran says that the probe tells
// something.
func wrongAgainst(ctx context.Context, c Compiler, b *builds.Build, p Program, refs []*eval.Array, options map[string]string, repeat int) (d *Divergence, ran bool) {
	data, err := hlo.MarshalModule(p.Module)
	if err != nil {
		return nil, false
	}
	out := c.Do(ctx, b, worker.Request{Program: data, Format: worker.HLO, Options: options, BackendOnly: true, Inputs: [][]worker.Array{workerArrays(p.Inputs)}, Repeat: max(repeat, 2)})
	if out.Status != worker.OK || len(out.Result.Sets) != 1 {
		return nil, false
	}
	for _, run := range out.Result.Sets[0].Distinct {
		if len(run.Outputs) != len(refs) {
			return nil, false
		}
		for o, got := range run.Outputs {
			lit := literalOf(got)
			if lit.Shape.Type != refs[o].Type || lit.Shape.Elems() != int64(refs[o].Len()) {
				return nil, false
			}
			for i := range refs[o].Len() {
				s := eval.LiteralScalar(lit, int64(i))
				if refs[o].Legal(i, s) == eval.Out {
					return &Divergence{Output: o, At: unravel(i, refs[o].Dims), Type: refs[o].Type, Was: refs[o].At(i), Is: s, Before: refs[o].LegalSet(i), After: eval.ScalarString(refs[o].Type, s)}, true
				}
			}
		}
	}
	return nil, true
}

// insideOperations bounds the operations of a kernel that are looked at.
const insideOperations = 64

// Inside looks for the operation inside a wrong fusion: the first one, in order
// of execution, that is wrong when the fusion ends there. nil if the kernel is
// no fusion or only its whole is wrong.
func (k *Kernel) Inside(ctx context.Context, c Compiler, b *builds.Build, options map[string]string, repeat int) *hlo.Instruction {
	fusion := k.program.Module.Entry.Root
	if fusion.Op != hlo.OpFusion || len(fusion.Called[0].Instructions) > insideOperations {
		return nil
	}
	for i, in := range fusion.Called[0].Instructions {
		if !in.Shape.IsArray() || !compiled(in) {
			continue
		}
		if in == fusion.Called[0].Root {
			return in
		}
		m := k.program.Module.Clone()
		call := m.Entry.Root
		body := call.Called[0]
		body.Root = body.Instructions[i]
		call.Shape = body.Root.Shape.Clone()
		orderAll(body)
		m.EntryLayout = nil
		if wrong(ctx, c, b, Program{m, k.program.Inputs}, options, repeat) != nil {
			return in
		}
	}
	return nil
}

// Widen asks whether a wrong kernel is wrong by rounding: its operations are
// compiled in f64 by the build itself, all together, and then without one after
// the other (see Widen). nil where nothing can be said: the kernel has no
// narrower float, or the probes tell nothing.
func (k *Kernel) Widen(ctx context.Context, c Compiler, b *builds.Build, options map[string]string, repeat int) *Widening {
	ref, err := eval.Run(ctx, k.program.Module, literalValues(k.program.Inputs), eval.Options{Bounds: true})
	if err != nil {
		return nil
	}
	root := k.program.Module.Entry.Root
	operations := []*hlo.Instruction{root}
	if root.Op == hlo.OpFusion {
		operations = root.Called[0].Instructions
	}
	var candidates []string
	for _, in := range operations {
		if widens(in) {
			candidates = append(candidates, in.Name)
		}
	}
	if len(candidates) == 0 {
		if k.Where.Type.IsFloat() || k.Where.Type.IsComplex() {
			return nil // f64 has no wider type on the build
		}
		return &Widening{Cause: Logic}
	}
	ran := false
	w := minimalWidening(ctx, candidates, func(names []string) bool {
		d, ok := wrongAgainst(ctx, c, b, Program{widened(k.program.Module, names), k.program.Inputs}, leaves(ref), options, repeat)
		ran = ran || ok
		return ok && d == nil
	})
	if !ran {
		return nil
	}
	return w
}
