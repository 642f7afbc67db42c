package triage

import (
	"context"
	"fmt"
	"maps"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// Testimony is what cross-execution says about a pass step.
type Testimony string

const (
	// Agrees: the build gives legal values for the module before the step, and
	// a value outside their legal sets for the module after it.
	Agrees Testimony = "agrees"
	// Disagrees: both modules give values that are legal before the step.
	Disagrees Testimony = "disagrees"
	// Silent: one of the modules cannot be executed by the build, or the build
	// is wrong about the module before the step.
	Silent Testimony = "unknown"
)

// lowering are the passes that a CPU build needs to be able to compile a
// module at all; all others would change what is tested.
const lowering = "layout-assignment,copy-insertion,flatten-call-graph,fusion-wrapper,scatter_simplifier,batched_gather_scatter_normalizer"

// CrossExecute runs the modules before and after a pass step, dumps of any
// compiler, on an executable build: first with nothing but the passes that it
// cannot do without, then, for modules behind layout assignment, with code
// generation alone. The detail says why it is Silent. A probe that crashes is
// silent, not guilty.
func CrossExecute(ctx context.Context, c Compiler, b *builds.Build, before, after *hlo.Module, inputs []*hlo.Literal, o eval.Options, options map[string]string) (Testimony, string) {
	arrays := workerArrays(inputs)
	legal, err := eval.Run(ctx, before, literalValues(inputs), o)
	if err != nil {
		return Silent, err.Error()
	}
	outside, why := crossRun(ctx, c, b, before, arrays, legal, options)
	switch {
	case why != "":
		return Silent, "the module before the step: " + why
	case outside:
		return Silent, "the build is wrong about the module before the step"
	}
	outside, why = crossRun(ctx, c, b, after, arrays, legal, options)
	switch {
	case why != "":
		return Silent, "the module after the step: " + why
	case outside:
		return Agrees, ""
	}
	return Disagrees, ""
}

// crossRun executes a module; outside says that a value is outside its legal
// set, why that nothing could be learnt.
func crossRun(ctx context.Context, c Compiler, b *builds.Build, m *hlo.Module, inputs []worker.Array, legal *eval.Value, options map[string]string) (outside bool, why string) {
	data, err := hlo.MarshalModule(portable(m))
	if err != nil {
		return false, err.Error()
	}
	r := worker.Request{Program: data, Format: worker.HLO, Options: maps.Clone(options), Inputs: [][]worker.Array{inputs}}
	if r.Options == nil {
		r.Options = map[string]string{}
	}
	r.Options["xla_enable_hlo_passes_only"] = lowering
	for _, r.BackendOnly = range []bool{false, true} {
		out := c.Do(ctx, b, r)
		if out.Status != worker.OK {
			why = "cannot be compiled there: " + statusText(out)
			continue
		}
		set := out.Result.Sets[0]
		if set.Failure != nil || len(set.Distinct) != 1 {
			return false, "cannot be run there"
		}
		return compareRun(set.Distinct[0].Outputs, leaves(legal))
	}
	return false, why
}

func statusText(o worker.Outcome) string {
	if o.Failure != nil {
		return fmt.Sprint(o.Failure.Code)
	}
	return o.Status.String()
}

func compareRun(outputs []worker.Array, legal []*eval.Array) (outside bool, why string) {
	if len(outputs) != len(legal) {
		return false, errShapes.Error()
	}
	for o, got := range outputs {
		lit := literalOf(got)
		if lit.Shape.Type != legal[o].Type || lit.Shape.Elems() != int64(legal[o].Len()) {
			return false, errShapes.Error()
		}
		for i := range legal[o].Len() {
			if legal[o].Legal(i, eval.LiteralScalar(lit, int64(i))) == eval.Out {
				outside = true
			}
		}
	}
	return outside, ""
}

// literalOf is a worker's output as a literal; narrow signed integers come
// without their sign bits.
func literalOf(a worker.Array) *hlo.Literal {
	lit := &hlo.Literal{Shape: hlo.ArrayShape(hlo.PrimitiveType(a.Type), a.Dims...), Raw: a.Data}
	if t := lit.Shape.Type; t.IsSigned() && t.Bits() < 8 {
		for i := range int64(len(a.Data)) {
			lit.SetInt(i, lit.Int(i))
		}
	}
	return lit
}

func workerArrays(inputs []*hlo.Literal) []worker.Array {
	var out []worker.Array
	for _, l := range inputs {
		out = append(out, worker.Array{Type: int32(l.Shape.Type), Dims: l.Shape.Dims, Data: l.Raw})
	}
	return out
}

// portable is a module without what belongs to one target: tilings, memory
// spaces, backend configurations, and layouts unless a bitcast rests on them.
func portable(m *hlo.Module) *hlo.Module {
	m = m.Clone()
	m.Scheduled = false
	m.EntryLayout = nil
	keep := anyInstruction(func(in *hlo.Instruction) bool { return in.Op == hlo.OpBitcast })(m)
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			plain(in.Shape, keep)
			for _, s := range in.OperandLayouts {
				plain(s, keep)
			}
			in.Attr.BackendConfig = nil
		}
	}
	return m
}

func plain(s *hlo.Shape, keep bool) {
	for _, e := range s.Elements {
		plain(e, keep)
	}
	switch {
	case s.Layout == nil:
	case keep:
		s.Layout = &hlo.Layout{MinorToMajor: s.Layout.MinorToMajor}
	default:
		s.Layout = nil
	}
}
