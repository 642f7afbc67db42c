package triage

import (
	"math"
	"slices"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// numberAt is an element as a number, without its imaginary part.
func numberAt(l *hlo.Literal, i int64) float64 {
	switch t := l.Shape.Type; {
	case t.IsComplex():
		return real(l.Complex(i))
	case t.IsFloat():
		return l.Float(i)
	}
	return float64(l.Int(i))
}

func setNumber(l *hlo.Literal, i int64, v float64) {
	switch t := l.Shape.Type; {
	case t.IsComplex():
		l.SetComplex(i, complex(v, 0))
	case t.IsFloat():
		l.SetFloat(i, v)
	case math.IsNaN(v) || math.Abs(v) >= 1<<62:
		l.SetInt(i, 0)
	default:
		l.SetInt(i, int64(v))
	}
}

// attributes puts attributes on what they are where nobody gives them, one at a
// time, in every computation.
func (r *reducer) attributes() {
	for c := 0; c < len(r.best.Module.Computations); c++ {
		for i := 0; c < len(r.best.Module.Computations) && i < len(r.best.Module.Computations[c].Instructions); i++ {
			for k := range plainer(r.best.Module.Computations[c].Instructions[i]) {
				r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool {
					if c >= len(m.Computations) || i >= len(m.Computations[c].Instructions) {
						return false
					}
					edits := plainer(m.Computations[c].Instructions[i])
					return k < len(edits) && edits[k]() && reinfer(m)
				})
			}
		}
	}
}

// plainer are the changes that put an attribute of in on its default, always
// the same ones in the same order; each is false if it was there already.
func plainer(in *hlo.Instruction) []func() bool {
	var out []func() bool
	number := func(at *int64, v int64) {
		out = append(out, func() bool {
			was := *at
			*at = v
			return was != v
		})
	}
	flag := func(at *bool) {
		out = append(out, func() bool {
			was := *at
			*at = false
			return was
		})
	}
	a := in.Attr
	for _, d := range a.GetWindow().GetDimensions() {
		number(&d.Stride, 1)
		number(&d.PaddingLow, 0)
		number(&d.PaddingHigh, 0)
		number(&d.WindowDilation, 1)
		number(&d.BaseDilation, 1)
		flag(&d.WindowReversal)
		if in.Op != hlo.OpConvolution {
			number(&d.Size, 1)
			number(&d.Size, max(1, d.Size/2))
			number(&d.Size, max(1, d.Size-1))
		}
	}
	for _, d := range a.SliceDimensions {
		number(&d.Start, 0)
		number(&d.Stride, 1)
		number(&d.Limit, d.Start+1)
	}
	for _, d := range a.GetPaddingConfig().GetDimensions() {
		number(&d.EdgePaddingLow, 0)
		number(&d.EdgePaddingHigh, 0)
		number(&d.InteriorPadding, 0)
	}
	for i := range a.DynamicSliceSizes {
		number(&a.DynamicSliceSizes[i], 1)
	}
	for i := range a.GatherSliceSizes {
		number(&a.GatherSliceSizes[i], 1)
	}
	if (in.Op == hlo.OpIota || in.Op == hlo.OpConcatenate) && len(a.Dimensions) == 1 {
		number(&a.Dimensions[0], 0)
	}
	if a.FeatureGroupCount > 1 {
		number(&a.FeatureGroupCount, 1)
	}
	if a.BatchGroupCount > 1 {
		number(&a.BatchGroupCount, 1)
	}
	flag(&a.IndicesAreSorted)
	flag(&a.UniqueIndices)
	flag(&a.IsStable)
	out = append(out,
		func() bool { was := a.PrecisionConfig; a.PrecisionConfig = nil; return was != nil },
		func() bool { was := a.ResultAccuracy; a.ResultAccuracy = nil; return was != nil },
		func() bool { was := a.Sharding; a.Sharding = nil; return was != nil },
		func() bool { was := a.ParameterReplication; a.ParameterReplication = nil; return was != nil },
		func() bool { was := in.ControlPredecessors; in.ControlPredecessors = nil; return len(was) > 0 })
	if in.Op != hlo.OpCustomCall {
		out = append(out, func() bool { was := a.BackendConfig; a.BackendConfig = nil; return len(was) > 0 })
	}
	return out
}

// reinfer gives instructions the shapes that follow from their operands; false
// if one has none. Shapes that do not follow stay.
func reinfer(m *hlo.Module) bool {
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			if free(in.Op) {
				continue
			}
			s, err := hlo.InferShape(in)
			if err != nil {
				return false
			}
			if !s.Compatible(in.Shape) {
				in.Shape = s.WithoutLayout()
			}
		}
	}
	return true
}

// free reports whether the shape of an instruction does not follow from its
// operands and attributes.
func free(op hlo.Opcode) bool {
	switch op {
	case hlo.OpParameter, hlo.OpIota, hlo.OpBroadcast, hlo.OpReshape, hlo.OpRng, hlo.OpConstant, hlo.OpBitcast, hlo.OpRngBitGenerator, hlo.OpConvert, hlo.OpBitcastConvert, hlo.OpCustomCall:
		return true
	}
	return false
}

// unroll makes straight code of loops and branches, in every computation: one
// turn of a loop, one branch of a conditional. inline goes on from there.
func (r *reducer) unroll() {
	r.eachInstruction(func(c, i int) {
		in := r.best.Module.Computations[c].Instructions[i]
		bodies := 0
		switch in.Op {
		case hlo.OpWhile:
			bodies = 1
		case hlo.OpConditional:
			bodies = len(in.Called)
		}
		for k := range bodies {
			if r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool {
				in := m.Computations[c].Instructions[i]
				if in.Op == hlo.OpConditional {
					in.Operands = in.Operands[k+1 : k+2]
				}
				in.Op, in.Called, in.Attr = hlo.OpCall, []*hlo.Computation{in.Called[k]}, &hlopb.HloInstructionProto{}
				return true
			}) {
				break
			}
		}
	})
}

// eachInstruction visits the instructions of all computations by their
// indices, which the visit may shorten.
func (r *reducer) eachInstruction(visit func(c, i int)) {
	for c := 0; c < len(r.best.Module.Computations); c++ {
		for i := 0; c < len(r.best.Module.Computations) && i < len(r.best.Module.Computations[c].Instructions); i++ {
			visit(c, i)
		}
	}
}

// constants replaces instructions of called computations by zeros or ones; in
// the entry, cuts does better.
func (r *reducer) constants() {
	r.eachInstruction(func(c, i int) {
		comp := r.best.Module.Computations[c]
		in := comp.Instructions[i]
		if comp == r.best.Module.Entry || len(in.Operands) == 0 || !in.Shape.IsArray() || in.Shape.IsDynamic() || in.Shape.Elems() > maxLaterElements {
			return
		}
		for _, v := range []float64{0, 1} {
			if r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool {
				in := m.Computations[c].Instructions[i]
				l := hlo.NewLiteral(in.Shape.WithoutLayout())
				for e := range l.Shape.Elems() {
					setNumber(l, e, v)
				}
				in.Op, in.Operands, in.Called, in.Literal, in.Attr = hlo.OpConstant, nil, nil, l, &hlopb.HloInstructionProto{}
				return true
			}) {
				return
			}
		}
	})
}

// states drops elements of the state that a loop carries.
func (r *reducer) states() {
	r.eachInstruction(func(c, i int) {
		for k := 0; ; {
			if c >= len(r.best.Module.Computations) || i >= len(r.best.Module.Computations[c].Instructions) {
				return
			}
			in := r.best.Module.Computations[c].Instructions[i]
			if in.Op != hlo.OpWhile || !in.Shape.IsTuple() || k >= len(in.Shape.Elements) {
				return
			}
			if !r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool { return dropState(m, m.Computations[c], i, k) }) {
				k++
			}
		}
	})
}

// dropState takes element k out of the state of loop i of c: the loop reads its
// first value if that is a constant and zero otherwise, and what comes behind
// the loop reads the first value. false where the state is used as a whole.
func dropState(m *hlo.Module, c *hlo.Computation, i, k int) bool {
	w := c.Instructions[i]
	init, body, cond := w.Operands[0], w.Body(), w.Condition()
	if init.Op != hlo.OpTuple || body.Root.Op != hlo.OpTuple || len(init.Operands) < 2 || c.Root == w || !w.Shape.Elements[k].IsArray() || body == cond {
		return false
	}
	callers := 0
	for _, o := range m.Computations {
		for _, in := range o.Instructions {
			if slices.Contains(in.Called, body) || slices.Contains(in.Called, cond) {
				callers++
			}
		}
	}
	params := [2]*hlo.Instruction{body.Params()[0], cond.Params()[0]}
	if callers != 1 || !byElement(c, w) || !byElement(body, params[0]) || !byElement(cond, params[1]) {
		return false
	}
	shape := w.Shape.WithoutLayout()
	shape.Elements = slices.Delete(shape.Elements, k, k+1)
	first := init.Operands[k]
	for n, comp := range []*hlo.Computation{body, cond} {
		l := first.Literal
		if first.Op != hlo.OpConstant {
			l = hlo.NewLiteral(first.Shape.WithoutLayout())
		}
		constant := hlo.NewInstruction("dropped."+params[n].Name, hlo.OpConstant, l.Shape.Clone())
		constant.Literal = l
		comp.Instructions = slices.Insert(comp.Instructions, 0, constant)
		withoutElement(comp, params[n], k, constant)
		params[n].Shape = shape.Clone()
	}
	withoutElement(c, w, k, first)
	root := body.Root
	root.Operands, root.Shape = slices.Delete(slices.Clone(root.Operands), k, k+1), shape.Clone()
	// Others may read the initial tuple.
	start := hlo.NewInstruction("start."+w.Name, hlo.OpTuple, shape.Clone(), slices.Delete(slices.Clone(init.Operands), k, k+1)...)
	at := slices.Index(c.Instructions, w)
	c.Instructions = slices.Insert(c.Instructions, at, start)
	w.Operands, w.Shape = []*hlo.Instruction{start}, shape
	return true
}

// byElement reports whether a tuple is read by get-tuple-element only.
func byElement(c *hlo.Computation, tuple *hlo.Instruction) bool {
	return c.Root != tuple && !slices.ContainsFunc(c.Instructions, func(in *hlo.Instruction) bool {
		return in.Op != hlo.OpGetTupleElement && slices.Contains(in.Operands, tuple)
	})
}

// withoutElement renumbers the readers of a tuple that loses element k, whose
// readers get with instead.
func withoutElement(c *hlo.Computation, tuple *hlo.Instruction, k int, with *hlo.Instruction) {
	for _, in := range c.Instructions {
		if in.Op != hlo.OpGetTupleElement || in.Operands[0] != tuple {
			continue
		}
		switch n := int(in.Attr.TupleIndex); {
		case n == k:
			replaceUses(c, in, with)
		case n > k:
			in.Attr.TupleIndex--
		}
	}
}

// slot says where a literal of a program stands: an input, or a constant.
type slot struct{ input, computation, instruction int }

func (s slot) of(m *hlo.Module, inputs []*hlo.Literal) **hlo.Literal {
	if s.input >= 0 {
		return &inputs[s.input]
	}
	return &m.Computations[s.computation].Instructions[s.instruction].Literal
}

// values makes inputs and constants simpler: all zero, all one, 0, 1, 2, ...;
// then as many elements as possible zero, halves of the array first, then one
// by one; the others small whole numbers.
func (r *reducer) values() {
	var slots []slot
	for n := range r.best.Inputs {
		slots = append(slots, slot{input: n})
	}
	for c, comp := range r.best.Module.Computations {
		for i, in := range comp.Instructions {
			if in.Op == hlo.OpConstant && in.Literal != nil {
				slots = append(slots, slot{-1, c, i})
			}
		}
	}
	for _, s := range slots {
		lit := *s.of(r.best.Module, r.best.Inputs)
		if !lit.Shape.IsArray() {
			continue
		}
		size := lit.Shape.Elems()
		if r.fill(s, 0, size, func(int64, float64) float64 { return 0 }) || isFill(lit, func(int64) float64 { return 0 }) ||
			r.fill(s, 0, size, func(int64, float64) float64 { return 1 }) || isFill(lit, func(int64) float64 { return 1 }) {
			continue
		}
		if isFill(lit, func(i int64) float64 { return float64(i) }) || r.fill(s, 0, size, func(i int64, _ float64) float64 { return float64(i) }) {
			continue
		}
		for chunk := size / 2; chunk >= 1 && size/chunk <= 64; chunk /= 2 {
			for at := int64(0); at < size; at += chunk {
				r.fill(s, at, min(at+chunk, size), func(int64, float64) float64 { return 0 })
			}
		}
		var left []int64
		for i, l := int64(0), *s.of(r.best.Module, r.best.Inputs); i < size; i++ {
			if !plainAt(l, i) {
				left = append(left, i)
			}
		}
		if len(left) > 64 {
			r.fill(s, 0, size, func(_ int64, was float64) float64 { return nearer(was) })
			continue
		}
		for _, i := range left {
			_ = r.fill(s, i, i+1, func(int64, float64) float64 { return 0 }) ||
				r.fill(s, i, i+1, func(int64, float64) float64 { return 1 }) ||
				r.fill(s, i, i+1, func(int64, float64) float64 { return 2 }) ||
				r.fill(s, i, i+1, func(_ int64, was float64) float64 { return nearer(was) })
		}
	}
}

// plainAt reports whether an element is 0 or 1.
func plainAt(l *hlo.Literal, i int64) bool {
	v := numberAt(l, i)
	return v == 0 && !math.Signbit(v) || v == 1
}

// nearer is a whole number nearer to zero, in the order in which values get
// simpler: positive, whole, smaller.
func nearer(v float64) float64 {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return v
	case v < 0:
		return -v
	case v != math.Trunc(v):
		return math.Ceil(v)
	}
	return math.Trunc(v / 2)
}

func isFill(l *hlo.Literal, f func(int64) float64) bool {
	for i := range l.Shape.Elems() {
		if numberAt(l, i) != f(i) {
			return false
		}
	}
	return true
}

// fill sets elements [from, to) of a literal to f of their index and value, if
// that changes any of them and the type has these values.
func (r *reducer) fill(s slot, from, to int64, f func(i int64, was float64) float64) bool {
	return r.edit(func(m *hlo.Module, inputs *[]*hlo.Literal) bool {
		at := s.of(m, *inputs)
		old := *at
		lit := &hlo.Literal{Shape: old.Shape, Raw: slices.Clone(old.Raw), DynamicSizes: old.DynamicSizes}
		for i := from; i < to; i++ {
			was := numberAt(old, i)
			v := f(i, was)
			if v == was && !math.Signbit(was) && !old.Shape.Type.IsComplex() {
				continue
			}
			setNumber(lit, i, v)
			if numberAt(lit, i) != v {
				return false
			}
		}
		if slices.Equal(old.Raw, lit.Raw) {
			return false
		}
		*at = lit
		return true
	})
}
