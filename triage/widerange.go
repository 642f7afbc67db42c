package triage

import (
	"context"
	"math"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// HiddenOverflow names the rule of Validation.ContestOverflow.
const HiddenOverflow = "an algebraic identity hides an overflow"

// ContestOverflow contests guilty steps that are right in exact arithmetic:
// XLA's algebraic simplifier merges exp(a)*exp(b), exp(a)/exp(b) and
// power(exp(a), b) although an intermediate value may overflow
// (xla/hlo/transforms/simplifiers/algebraic_simplifier.cc), and its maintainers
// argue about that. A step falls under the rule if each element on which it is
// wrong admits only infinities and NaNs before, is finite after, and the state
// before, evaluated with all floats in f64, agrees there with the state after
// within the bounds of both and half a unit in the last place. Elements that
// overflow in f64 as well say nothing. Where all do, the step is asked again on the
// same inputs cut down to what overflows the narrow types alone.
//
// A contested step has no firm element, and Contested names the rule. inputs
// and o are those of Validate.
func (t *Trail) ContestOverflow(ctx context.Context, v *Validation, inputs [][]*eval.Value, o eval.Options) {
	before := t.Before
	for i := range v.Steps {
		s := &v.Steps[i]
		if s.Standing == Guilty && s.Firm > 0 && hidesOverflow(ctx, before, t.States[i].Module, inputs, o) {
			s.Firm, s.Contested = 0, HiddenOverflow
		}
		if s.Standing != Unknown {
			before = t.States[i].Module
		}
	}
}

// moderate are the magnitudes to which inputs are cut down: their exponentials
// overflow f16 (from 11.1), or bf16 and f32 (from 88.8), but not f64 (from 709.8).
// Every type that reaches them has them.
var moderate = []float64{20, 192}

// within is v with larger finite floats cut down to a magnitude.
func within(v *eval.Value, magnitude float64) *eval.Value {
	w := &eval.Value{Token: v.Token}
	if v.Array != nil {
		w.Array = v.Array.Clone()
		for _, plane := range []*eval.Plane{w.Array.Re, w.Array.Im} {
			if plane == nil {
				continue
			}
			for i, x := range plane.C {
				if finite(x) {
					plane.C[i] = max(-magnitude, min(magnitude, x))
				}
			}
		}
	}
	for _, e := range v.Elements {
		w.Elements = append(w.Elements, within(e, magnitude))
	}
	return w
}

func hidesOverflow(ctx context.Context, before, after *hlo.Module, inputs [][]*eval.Value, o eval.Options) bool {
	wide := inDoubles(before)
	if wide == nil {
		return false
	}
	all := overflows{ctx: ctx, before: before, after: after, wide: wide, o: o}
	for _, args := range inputs {
		if !all.ask(args) {
			return false
		}
	}
	if all.explained || !all.beyond {
		return all.explained
	}
	for _, limit := range moderate {
		for _, args := range inputs {
			less := make([]*eval.Value, len(args))
			for i, a := range args {
				less[i] = within(a, limit)
			}
			if !all.ask(less) {
				return false
			}
		}
	}
	return all.explained
}

// overflows are the elements on which a step is wrong.
type overflows struct {
	ctx                 context.Context
	before, after, wide *hlo.Module
	o                   eval.Options
	// explained: some are an overflow that an identity hides; beyond: some
	// overflow in f64, too.
	explained, beyond bool
}

// ask looks at the elements of one input set; false if one is wrong otherwise.
func (all *overflows) ask(args []*eval.Value) bool {
	was, err := eval.Run(all.ctx, all.before, args, all.o)
	if err != nil {
		return true // nothing was said on these inputs
	}
	is, err := eval.Run(all.ctx, all.after, args, all.o)
	if err != nil {
		return true
	}
	wideArgs := make([]*eval.Value, len(args))
	for i, a := range args {
		wideArgs[i] = doubles(a)
	}
	exact, err := eval.Run(all.ctx, all.wide, wideArgs, all.o)
	if err != nil {
		return false
	}
	a, b, c := leaves(was), leaves(is), leaves(exact)
	if len(a) != len(b) || len(a) != len(c) {
		return false
	}
	for out := range a {
		if a[out].Type != b[out].Type || a[out].Len() != b[out].Len() || a[out].Len() != c[out].Len() {
			return false
		}
		for i := range a[out].Len() {
			if a[out].Meets(b[out], i) != eval.Out {
				continue
			}
			if !a[out].Type.IsFloat() {
				return false
			}
			x, y, z := a[out].At(i).Re, b[out].At(i).Re, c[out].At(i).Re
			switch {
			case finite(x.C) || !finite(y.C):
				return false
			case !finite(z.C):
				all.beyond = true
			case !near(a[out].Type, y, z):
				return false
			default:
				all.explained = true
			}
		}
	}
	return true
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// near reports whether y, of type t, is z within the bounds of both and half a
// unit of t in the last place.
func near(t hlo.PrimitiveType, y, z eval.Num) bool {
	half := math.Ldexp(max(math.Abs(y.C), math.Abs(z.C)), -t.Format().MantissaBits-1)
	return math.Abs(y.C+y.Lo-z.C-z.Lo) <= y.E+z.E+half
}

// inDoubles is m with every float in f64; nil where an operation rests on the
// bits of the narrow type or on a library.
func inDoubles(m *hlo.Module) *hlo.Module {
	m = m.Clone()
	m.EntryLayout = nil
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			switch in.Op {
			case hlo.OpReducePrecision, hlo.OpCustomCall, hlo.OpRng:
				return nil
			case hlo.OpBitcastConvert:
				for _, t := range []hlo.PrimitiveType{in.Operands[0].Shape.Type, in.Shape.Type} {
					if t.IsFloat() || t.IsComplex() {
						return nil
					}
				}
			}
			in.Shape = doubleShape(in.Shape)
			if in.Literal != nil {
				in.Literal = doubleLiteral(in.Literal)
			}
		}
	}
	return m
}

func doubleType(t hlo.PrimitiveType) hlo.PrimitiveType {
	switch {
	case t.IsFloat():
		return hlo.F64
	case t.IsComplex():
		return hlo.C128
	}
	return t
}

func doubleShape(s *hlo.Shape) *hlo.Shape {
	s = s.Clone()
	s.Type = doubleType(s.Type)
	for i, e := range s.Elements {
		s.Elements[i] = doubleShape(e)
	}
	return s
}

func doubleLiteral(l *hlo.Literal) *hlo.Literal {
	t := l.Shape.Type
	if len(l.Elements) == 0 && !t.IsFloat() && !t.IsComplex() {
		return l
	}
	out := hlo.NewLiteral(doubleShape(l.Shape))
	out.DynamicSizes = l.DynamicSizes
	for i, e := range l.Elements {
		out.Elements[i] = doubleLiteral(e)
	}
	for i := range l.Shape.Elems() {
		switch {
		case t.IsFloat():
			out.SetFloat(i, l.Float(i))
		case t.IsComplex():
			out.SetComplex(i, l.Complex(i))
		}
	}
	return out
}

// doubles is v with its floats in f64; the columns are shared.
func doubles(v *eval.Value) *eval.Value {
	w := &eval.Value{Token: v.Token}
	if v.Array != nil {
		a := *v.Array
		a.Type = doubleType(a.Type)
		w.Array = &a
	}
	for _, e := range v.Elements {
		w.Elements = append(w.Elements, doubles(e))
	}
	return w
}
