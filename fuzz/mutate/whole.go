package mutate

import (
	"slices"

	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

// shapes calls f with every array shape of the module, but for those in
// attributes.
func (m *mutant) shapes(f func(in *hlo.Instruction, s *hlo.Shape)) {
	for _, c := range m.m.Computations {
		for _, in := range c.Instructions {
			var visit func(s *hlo.Shape)
			visit = func(s *hlo.Shape) {
				if s.IsArray() {
					f(in, s)
				}
				for _, e := range s.Elements {
					visit(e)
				}
			}
			visit(in.Shape)
		}
	}
}

// size changes a dimension's size wherever it stands: in shapes, constants and
// the limits of slices. Where the program ties that size to another one, the
// verifier discards the mutant.
func (m *mutant) size() bool {
	sizes := map[int64]bool{}
	m.shapes(func(_ *hlo.Instruction, s *hlo.Shape) {
		for _, d := range s.Dims {
			if d > 0 {
				sizes[d] = true
			}
		}
	})
	if len(sizes) == 0 {
		return false
	}
	all := make([]int64, 0, len(sizes))
	for d := range sizes {
		all = append(all, d)
	}
	slices.Sort(all)
	from := all[m.r.IntN(len(all))]
	to := []int64{0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32, 33, from - 1, from + 1, 2 * from}[m.r.IntN(18)]
	if to == from || to > 64 {
		return false
	}
	change := func(ds []int64) {
		for i, d := range ds {
			if d == from {
				ds[i] = to
			}
		}
	}
	m.shapes(func(_ *hlo.Instruction, s *hlo.Shape) { change(s.Dims) })
	for _, c := range m.m.Computations {
		for _, in := range c.Instructions {
			if in.Shape.IsArray() && in.Shape.Elems() > 1<<14 {
				return false
			}
			if in.Literal != nil && in.Literal.Shape.IsArray() {
				in.Literal = resized(in.Literal, in.Shape)
			}
			for _, d := range in.Attr.SliceDimensions {
				if d.Limit == from && in.Operands[0].Shape.Rank() > 0 {
					d.Limit = to
				}
			}
			change(in.Attr.DynamicSliceSizes)
			change(in.Attr.GatherSliceSizes)
			change(in.Attr.FftLength)
		}
	}
	return true
}

// resized repeats the elements of l in another shape.
func resized(l *hlo.Literal, s *hlo.Shape) *hlo.Literal {
	out := hlo.NewLiteral(s.WithoutLayout())
	n := l.Shape.Elems()
	if n == 0 {
		return out
	}
	size := int64(s.Type.Bytes())
	for i := range s.Elems() {
		copy(out.Raw[i*size:(i+1)*size], l.Raw[i%n*size:])
	}
	return out
}

// related are types that a program can be moved to as a whole.
var related = map[hlo.PrimitiveType][]hlo.PrimitiveType{
	hlo.F32:  {hlo.F64, hlo.BF16, hlo.F16},
	hlo.F64:  {hlo.F32, hlo.BF16},
	hlo.BF16: {hlo.F32, hlo.F16},
	hlo.F16:  {hlo.F32, hlo.BF16},
	hlo.S32:  {hlo.S64, hlo.S16, hlo.S8},
	hlo.S64:  {hlo.S32, hlo.S8},
	hlo.S8:   {hlo.S32, hlo.S4, hlo.S16},
	hlo.S16:  {hlo.S32, hlo.S8},
	hlo.U8:   {hlo.U32, hlo.U4, hlo.U16},
	hlo.U16:  {hlo.U32, hlo.U8},
	hlo.U32:  {hlo.U64, hlo.U8, hlo.U16},
	hlo.U64:  {hlo.U32},
	hlo.S4:   {hlo.S8, hlo.S2},
	hlo.U4:   {hlo.U8, hlo.U2},
	hlo.C64:  {hlo.C128},
	hlo.C128: {hlo.C64},
}

// elementType changes an element type wherever it stands.
func (m *mutant) elementType() bool {
	types := map[hlo.PrimitiveType]bool{}
	m.shapes(func(_ *hlo.Instruction, s *hlo.Shape) {
		if related[s.Type] != nil {
			types[s.Type] = true
		}
	})
	if len(types) == 0 {
		return false
	}
	all := make([]hlo.PrimitiveType, 0, len(types))
	for t := range types {
		all = append(all, t)
	}
	slices.Sort(all)
	from := all[m.r.IntN(len(all))]
	to := related[from][m.r.IntN(len(related[from]))]
	for _, c := range m.m.Computations {
		for _, in := range c.Instructions {
			// Their operands' widths carry meaning.
			switch in.Op {
			case hlo.OpBitcastConvert, hlo.OpRngBitGenerator, hlo.OpShiftLeft, hlo.OpShiftRightArithmetic, hlo.OpShiftRightLogical:
				return false
			}
			if in.Literal != nil && in.Literal.Shape.IsArray() && in.Literal.Shape.Type == from {
				l, ok := converted(in.Literal, to)
				if !ok {
					return false
				}
				in.Literal = l
			}
		}
	}
	m.shapes(func(_ *hlo.Instruction, s *hlo.Shape) {
		if s.Type == from {
			s.Type = to
		}
	})
	return true
}

// converted is l in another type; false if an integer does not fit.
func converted(l *hlo.Literal, t hlo.PrimitiveType) (*hlo.Literal, bool) {
	s := l.Shape.Clone()
	s.Type = t
	out := hlo.NewLiteral(s)
	for i := range s.Elems() {
		switch {
		case t.IsComplex():
			out.SetComplex(i, l.Complex(i))
		case t.IsFloat():
			out.SetFloat(i, l.Float(i))
		default:
			v := l.Int(i)
			if t.Canonical(v) != v {
				return nil, false
			}
			out.SetInt(i, v)
		}
	}
	return out, true
}

// wrappable finds an operation that can move into a computation of its own.
func (m *mutant) wrappable() (place, bool) {
	return m.find(func(c *hlo.Computation, in *hlo.Instruction) bool {
		switch in.Op {
		case hlo.OpParameter, hlo.OpConstant, hlo.OpTuple, hlo.OpGetTupleElement, hlo.OpRng, hlo.OpSetDimensionSize:
			return false
		}
		for _, o := range in.Operands {
			if !plain(o.Shape) {
				return false
			}
		}
		return plain(in.Shape) && len(in.Operands) > 0 && !effect(in) && !m.scalarCode(c) && len(in.ControlPredecessors) == 0
	})
}

// moved makes a copy of in that works on other operands.
func (m *mutant) moved(in *hlo.Instruction, operands []*hlo.Instruction) *hlo.Instruction {
	n := m.instruction(in.Op, in.Shape.Clone(), operands...)
	n.Called, n.Literal, n.Attr = in.Called, in.Literal, in.Attr
	return n
}

func operandShapes(in *hlo.Instruction) []*hlo.Shape {
	var out []*hlo.Shape
	for _, o := range in.Operands {
		out = append(out, o.Shape)
	}
	return out
}

// call moves an operation into a call.
func (m *mutant) call() bool {
	p, ok := m.wrappable()
	if !ok {
		return false
	}
	in := p.in()
	c, params := m.computation("called", p.c, operandShapes(in)...)
	c.Root = add(c, m.moved(in, params))
	n := m.instruction(hlo.OpCall, in.Shape.Clone(), in.Operands...)
	n.Called = []*hlo.Computation{c}
	p.c.Instructions[p.at] = n
	p.replace(in, n)
	return true
}

// conditional moves an operation into a branch; the other branch has a
// constant, or the same operation on swapped operands.
func (m *mutant) conditional() bool {
	p, ok := m.wrappable()
	if !ok {
		return false
	}
	in := p.in()
	pred := m.predicate(&p)
	argument := m.instruction(hlo.OpTuple, hlo.TupleShape(clones(operandShapes(in))...), in.Operands...)
	p.insert(argument)
	n := m.instruction(hlo.OpConditional, in.Shape.Clone(), pred, argument, argument)
	for i := range 2 {
		c, params := m.computation("branch", p.c, argument.Shape)
		args := m.elements(c, params[0])
		if i == 1 && m.r.IntN(2) == 0 {
			c.Root = m.fill(c, in.Shape)
		} else {
			if i == 1 {
				slices.Reverse(args)
				if !slices.EqualFunc(args, in.Operands, func(a, b *hlo.Instruction) bool { return a.Shape.Compatible(b.Shape) }) {
					slices.Reverse(args)
				}
			}
			c.Root = add(c, m.moved(in, args))
		}
		n.Called = append(n.Called, c)
	}
	if m.r.IntN(2) == 0 {
		slices.Reverse(n.Called)
	}
	p.c.Instructions[p.at] = n
	p.replace(in, n)
	return true
}

// predicate is a scalar predicate: a new parameter in the entry, a constant
// elsewhere and now and then.
func (m *mutant) predicate(p *place) *hlo.Instruction {
	s := hlo.ArrayShape(hlo.Pred)
	s.Layout = hlo.DefaultLayout(0)
	if p.c == m.m.Entry && m.r.IntN(4) != 0 {
		return m.parameter(p, s)
	}
	n := m.instruction(hlo.OpConstant, s)
	n.Literal = program.Filled(s, float64(m.r.IntN(2)))
	p.insert(n)
	return n
}

// elements takes a tuple apart in c.
func (m *mutant) elements(c *hlo.Computation, t *hlo.Instruction) []*hlo.Instruction {
	var out []*hlo.Instruction
	for i, s := range t.Shape.Elements {
		e := add(c, m.instruction(hlo.OpGetTupleElement, s.Clone(), t))
		e.Attr.TupleIndex = int64(i)
		out = append(out, e)
	}
	return out
}

// fill is a constant broadcast to a shape, in c.
func (m *mutant) fill(c *hlo.Computation, s *hlo.Shape) *hlo.Instruction {
	scalar := hlo.ArrayShape(s.Type)
	scalar.Layout = hlo.DefaultLayout(0)
	v := add(c, m.instruction(hlo.OpConstant, scalar))
	v.Literal = program.Filled(scalar, 1)
	full := s.Clone()
	full.Layout = hlo.DefaultLayout(s.Rank())
	return add(c, m.instruction(hlo.OpBroadcast, full, v))
}

func clones(ss []*hlo.Shape) []*hlo.Shape {
	var out []*hlo.Shape
	for _, s := range ss {
		out = append(out, s.Clone())
	}
	return out
}

// loop moves an operation into a while loop of one to three trips: its
// operands are the state, and its result replaces the first operand of its
// shape, if there is one, for the next trip.
func (m *mutant) loop() bool {
	p, ok := m.wrappable()
	if !ok {
		return false
	}
	in := p.in()
	trips := 1 + m.r.IntN(3)
	counter := hlo.ArrayShape(hlo.S32)
	counter.Layout = hlo.DefaultLayout(0)
	number := func(c *hlo.Computation, v int) *hlo.Instruction {
		n := m.instruction(hlo.OpConstant, counter.Clone())
		n.Literal = program.Filled(counter, float64(v))
		if c != nil {
			add(c, n)
		}
		return n
	}
	// The state: counter, result, operands.
	start := number(nil, 0)
	holder := &hlo.Computation{}
	result := m.fill(holder, in.Shape)
	p.insert(append([]*hlo.Instruction{start}, holder.Instructions...)...)
	state := hlo.TupleShape(append([]*hlo.Shape{counter.Clone(), result.Shape.Clone()}, clones(operandShapes(in))...)...)
	init := m.instruction(hlo.OpTuple, state.Clone(), append([]*hlo.Instruction{start, result}, in.Operands...)...)
	p.insert(init)

	body, params := m.computation("looped", p.c, state)
	es := m.elements(body, params[0])
	next := add(body, m.instruction(hlo.OpAdd, counter.Clone(), es[0], number(body, 1)))
	made := add(body, m.moved(in, slices.Clone(es[2:])))
	if !made.Shape.Compatible(result.Shape) || made.Shape.Type != in.Shape.Type {
		return false
	}
	after := append([]*hlo.Instruction{next, made}, es[2:]...)
	if i := slices.IndexFunc(es[2:], func(e *hlo.Instruction) bool { return e.Shape.Compatible(in.Shape) }); i >= 0 && m.r.IntN(2) == 0 {
		after[2+i] = made
	}
	body.Root = add(body, m.instruction(hlo.OpTuple, state.Clone(), after...))

	cond, params := m.computation("goes_on", p.c, state)
	i := m.elements(cond, params[0])[0]
	s := hlo.ArrayShape(hlo.Pred)
	s.Layout = hlo.DefaultLayout(0)
	cond.Root = add(cond, m.instruction(hlo.OpCompare, s, i, number(cond, trips)))
	cond.Root.Attr.ComparisonDirection, cond.Root.Attr.ComparisonType, cond.Root.Attr.ComparisonOrder = "LT", "SIGNED", "TOTAL"

	w := m.instruction(hlo.OpWhile, state.Clone(), init)
	w.Called = []*hlo.Computation{body, cond}
	p.insert(w)
	n := m.instruction(hlo.OpGetTupleElement, result.Shape.Clone(), w)
	n.Attr.TupleIndex = 1
	p.c.Instructions[p.at] = n
	p.replace(in, n)
	return true
}

// splice calls a donor's program with values of this one where their shapes
// fit, and with new parameters elsewhere; its results are results.
func (m *mutant) splice() bool {
	var donors []*hlo.Module
	for _, d := range m.donors {
		if d.Module != nil && d.Module.ReplicaCount <= 1 && d.Module.NumPartitions <= 1 {
			donors = append(donors, d.Module)
		}
	}
	e := m.m.Entry
	if len(donors) == 0 || e.Root.Shape.IsTuple() && e.Root.Op != hlo.OpTuple {
		return false
	}
	d := donors[m.r.IntN(len(donors))].Clone()
	for _, l := range d.Entry.Root.Shape.Leaves() {
		if !plain(l) {
			return false
		}
	}
	for _, c := range d.Computations {
		c.Name = m.unique(c.Name)
		for _, in := range c.Instructions {
			in.Name = m.unique(in.Name)
		}
	}
	at := slices.Index(m.m.Computations, e)
	m.m.Computations = slices.Insert(m.m.Computations, at, d.Computations...)
	leaves := m.leaves()
	var args []*hlo.Instruction
	for _, p := range d.Entry.Params() {
		end := place{e, len(e.Instructions)}
		values := slices.DeleteFunc(end.before(p.Shape), func(in *hlo.Instruction) bool { return !plain(in.Shape) })
		if len(values) > 0 && m.r.IntN(4) != 0 {
			args = append(args, values[m.r.IntN(len(values))])
			continue
		}
		args = append(args, m.parameter(&end, p.Shape))
	}
	call := add(e, m.instruction(hlo.OpCall, d.Entry.Root.Shape.Clone(), args...))
	call.Called = []*hlo.Computation{d.Entry}
	if !call.Shape.IsTuple() {
		m.setLeaves(append(leaves, call))
		return true
	}
	if slices.ContainsFunc(call.Shape.Elements, (*hlo.Shape).IsTuple) {
		return false
	}
	m.setLeaves(append(leaves, m.elements(e, call)...))
	return true
}
