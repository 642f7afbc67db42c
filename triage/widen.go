package triage

import (
	"context"
	"slices"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// Cause says whether a difference is one of rounding.
type Cause string

const (
	// Precision: the difference vanishes when some operations are computed, and
	// their results kept, in f64.
	Precision Cause = "precision"
	// Logic: it stays, whatever is widened.
	Logic Cause = "logic"
)

// Widening is the answer of Widen.
type Widening struct {
	Cause Cause
	// Operations are the names of the smallest set found that has to be widened
	// for the difference to vanish; nil for Logic. Before says that they are
	// operations of the module before the step: the step is more precise, or
	// wider in range, than what the program says.
	Operations []string
	Before     bool
	// Tried counts the sets of operations that were widened.
	Tried int
}

// maxWidened bounds the operations that are widened one at a time.
const maxWidened = 128

// Widen asks whether what a pass step changed differs by rounding only. The
// operations that are not on the other side are computed by the reference in
// f64 instead of their own type: all those after the step together, and if the
// difference vanishes, without one after the other; then those before it. It
// returns nil where the modules cannot be evaluated, or do not differ.
//
// before and after are a region (see Region), or whole states of a program.
func Widen(ctx context.Context, before, after *hlo.Module, args []*eval.Value, o eval.Options) *Widening {
	before, after = flatten(before).module, flatten(after).module
	if o.MaxSteps == 0 {
		o.MaxSteps = regionSteps
	}
	was, err := eval.Run(ctx, before, args, o)
	if err != nil {
		return nil
	}
	is, err := eval.Run(ctx, after, args, o)
	if err != nil || !differ(was, is) {
		return nil
	}
	w := minimalWidening(ctx, changedRounding(after, before), func(names []string) bool {
		v, err := eval.Run(ctx, widened(after, names), args, o)
		return err == nil && !differ(was, v)
	})
	if w == nil || w.Cause == Precision {
		return w
	}
	wb := minimalWidening(ctx, changedRounding(before, after), func(names []string) bool {
		v, err := eval.Run(ctx, widened(before, names), args, o)
		return err == nil && !differ(v, is)
	})
	if wb != nil {
		wb.Tried += w.Tried
		wb.Before = wb.Cause == Precision
	}
	return wb
}

// differ reports whether two values do not meet, or cannot be compared.
func differ(a, b *eval.Value) bool {
	s := Step{Standing: Same}
	compare(&s, 0, a, b, nil)
	return s.Standing != Same
}

// changedRounding are the operations of m that round and are not in other: what
// both have is the program's own rounding.
func changedRounding(m, other *hlo.Module) []string {
	var out []string
	for _, in := range m.Entry.Instructions {
		if old := other.Instruction(in.Name); old != nil && old.Op == in.Op && old.Shape.Compatible(in.Shape) {
			continue
		}
		if widens(in) {
			out = append(out, in.Name)
		}
	}
	return out
}

// minimalWidening finds the smallest set of operations for which vanishes
// still holds, in the manner of delta debugging.
func minimalWidening(ctx context.Context, all []string, vanishes func([]string) bool) *Widening {
	w := &Widening{Cause: Logic}
	if len(all) == 0 || len(all) > maxWidened {
		return w
	}
	try := func(names []string) bool {
		w.Tried++
		return ctx.Err() == nil && vanishes(names)
	}
	if !try(all) {
		if ctx.Err() != nil {
			return nil
		}
		return w
	}
	best := all
	for size := (len(best) + 1) / 2; size > 0; size /= 2 {
		for i := 0; i < len(best); {
			end := min(i+size, len(best))
			less := slices.Concat(best[:i], best[end:])
			if len(less) > 0 && try(less) {
				best = less
			} else {
				i = end
			}
		}
	}
	w.Cause, w.Operations = Precision, best
	return w
}

// widens reports whether an operation rounds, and can be computed in f64.
func widens(in *hlo.Instruction) bool {
	if !in.Shape.IsArray() || !in.Shape.Type.IsFloat() && !in.Shape.Type.IsComplex() || doubleType(in.Shape.Type) == in.Shape.Type {
		return false
	}
	switch in.Op {
	case hlo.OpParameter, hlo.OpConstant, hlo.OpBitcastConvert, hlo.OpCustomCall, hlo.OpRng, hlo.OpFusion, hlo.OpCall, hlo.OpWhile,
		hlo.OpConditional, hlo.OpGetTupleElement, hlo.OpBitcast, hlo.OpInfeed, hlo.OpRecv, hlo.OpAsyncDone, hlo.OpAsyncUpdate, hlo.OpDomain:
		return false
	}
	return true
}

// widened is m with the named operations computed in f64 (c128): their operands
// are converted, and so are their results where another operation reads them,
// or they are a result of the computation. An operation that does nothing but
// round becomes a copy.
func widened(m *hlo.Module, names []string) *hlo.Module {
	m = m.Clone()
	var added []*hlo.Computation
	for _, c := range m.Computations {
		var out []*hlo.Instruction
		wide := map[*hlo.Instruction]bool{}
		converts := map[*hlo.Instruction]map[hlo.PrimitiveType]*hlo.Instruction{}
		as := func(in *hlo.Instruction, t hlo.PrimitiveType) *hlo.Instruction {
			if in.Shape.Type == t || !in.Shape.IsArray() {
				return in
			}
			if k := converts[in][t]; k != nil {
				return k
			}
			shape := in.Shape.Clone()
			shape.Type = t
			k := hlo.NewInstruction(in.Name+".as."+t.String(), hlo.OpConvert, shape, in)
			if converts[in] == nil {
				converts[in] = map[hlo.PrimitiveType]*hlo.Instruction{}
			}
			converts[in][t] = k
			out = append(out, k)
			return k
		}
		narrow := map[*hlo.Instruction]hlo.PrimitiveType{}
		for _, in := range c.Instructions {
			mine := slices.Contains(names, in.Name) && widens(in)
			for i, o := range in.Operands {
				switch {
				case mine && in.Op != hlo.OpConvert && o.Shape.IsArray() && (o.Shape.Type.IsFloat() || o.Shape.Type.IsComplex()):
					in.Operands[i] = as(o, doubleType(o.Shape.Type))
				case !mine && wide[o]:
					in.Operands[i] = as(o, narrow[o])
				}
			}
			if mine {
				wide[in], narrow[in] = true, in.Shape.Type
				in.Shape = doubleShape(in.Shape)
				if in.Op == hlo.OpReducePrecision {
					in.Op, in.Attr.ExponentBits, in.Attr.MantissaBits = hlo.OpCopy, 0, 0
				}
				for i, k := range in.Called {
					wide := doubleComputation(k)
					in.Called[i] = wide[len(wide)-1]
					added = append(added, wide...)
				}
			}
			out = append(out, in)
			if in == c.Root && mine {
				c.Root = as(in, narrow[in])
			}
		}
		c.Instructions = out
	}
	m.Computations = append(added, m.Computations...)
	return m.Clone()
}

// doubleComputation is a computation, the last one, with what it calls, and
// every float in f64.
func doubleComputation(c *hlo.Computation) []*hlo.Computation {
	one := hlo.NewModule("wide")
	one.Entry, one.Computations = c, callees([]*hlo.Computation{c}, nil)
	wide := inDoubles(one)
	if wide == nil {
		wide = one.Clone()
	}
	for _, k := range wide.Computations {
		k.Name += ".wide"
	}
	return wide.Computations
}
