package triage

import (
	"math"
	"slices"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/xla/dump"
)

// precisionRules name what a compiler for an accelerator may do to the
// precision of floats although the program does not say so. A rule covers
// finite floats only: a pass that changes an integer, a NaN or an infinity is
// guilty all the same.
var precisionRules = []struct {
	name string
	// passes may do it.
	passes []string
	// after says whether the module after the step shows that it was done.
	after func(*hlo.Module) bool
}{
	// The TPU has no f64: X64 elimination computes on pairs of f32 (sum of both,
	// 48 bits of significand at most, and the exponents of f32).
	{"f64 as a pair of f32", []string{"bitcast_dtypes_expander", "xprecision-rewriter", "x64-rewriter", "X64 elimination"}, calls("X64SplitLow", "X64SplitHigh", "X64Combine")},
	// xla/service/bfloat16_propagation.h: f32 that is only read by operations
	// that take bf16 anyway is stored in bf16.
	{"bf16 propagation", []string{"bfloat16-propagation", "bf16-normalization", "bfloat16-conversion-folding", "multi_output_fusion_and_bf16_folding"}, holds(hlo.BF16)},
	// xla_data.proto, PrecisionConfig: DEFAULT is the fastest precision of the
	// target; on TPU one pass of bf16 products.
	{"dot of f32 at DEFAULT precision", []string{"dot-precision-rewriter", "convolution-precision-rewriter"}, holds(hlo.BF16)},
}

// ruleFor is the name of the rule under which a step falls, "" if none.
func ruleFor(k dump.Key, after *hlo.Module) string {
	for _, r := range precisionRules {
		if slices.Contains(r.passes, k.Pass) && r.after(after) {
			return r.name
		}
	}
	return ""
}

// ruled reports whether a precision rule covers an element that changed.
func ruled(t hlo.PrimitiveType, was, is eval.Scalar) bool {
	if !t.IsFloat() && !t.IsComplex() {
		return false
	}
	for _, x := range []float64{was.Re.C, was.Im.C, is.Re.C, is.Im.C} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

// calls finds custom-calls of the targets.
func calls(targets ...string) func(*hlo.Module) bool {
	return anyInstruction(func(in *hlo.Instruction) bool {
		return in.Op == hlo.OpCustomCall && slices.Contains(targets, in.Attr.GetCustomCallTarget())
	})
}

// holds finds instructions of an element type.
func holds(t hlo.PrimitiveType) func(*hlo.Module) bool {
	return anyInstruction(func(in *hlo.Instruction) bool { return in.Shape.Type == t })
}

func anyInstruction(is func(*hlo.Instruction) bool) func(*hlo.Module) bool {
	return func(m *hlo.Module) bool {
		return slices.ContainsFunc(m.Computations, func(c *hlo.Computation) bool { return slices.ContainsFunc(c.Instructions, is) })
	}
}
