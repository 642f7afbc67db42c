package mutate

import (
	"slices"

	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

// operand swaps two operands, or takes another value of the same shape.
func (m *mutant) operand() bool {
	p, ok := m.find(func(c *hlo.Computation, in *hlo.Instruction) bool { return len(in.Operands) > 0 && !m.fixed(c, in) })
	if !ok {
		return false
	}
	in := p.in()
	i := m.r.IntN(len(in.Operands))
	if j := m.r.IntN(len(in.Operands)); i != j && m.r.IntN(2) == 0 && in.Operands[i].Shape.Compatible(in.Operands[j].Shape) {
		in.Operands[i], in.Operands[j] = in.Operands[j], in.Operands[i]
		return true
	}
	values := p.before(in.Operands[i].Shape)
	if len(values) == 0 {
		return false
	}
	in.Operands[i] = values[m.r.IntN(len(values))]
	return true
}

// families are opcodes that take the place of each other. Division and shifts
// stay out: generators guard their operands.
var families = [][]hlo.Opcode{
	{hlo.OpAdd, hlo.OpSubtract, hlo.OpMultiply, hlo.OpMaximum, hlo.OpMinimum},
	{hlo.OpAnd, hlo.OpOr, hlo.OpXor},
	{hlo.OpNegate, hlo.OpAbs, hlo.OpSign},
	{hlo.OpSine, hlo.OpCosine, hlo.OpTanh, hlo.OpExponential, hlo.OpLogistic, hlo.OpErf, hlo.OpExponentialMinusOne, hlo.OpTan},
	{hlo.OpSqrt, hlo.OpRsqrt, hlo.OpCbrt, hlo.OpLog, hlo.OpLogPlusOne},
	{hlo.OpFloor, hlo.OpCeil, hlo.OpRoundNearestEven, hlo.OpRoundNearestAFZ},
	{hlo.OpPower, hlo.OpAtan2, hlo.OpDivide},
	{hlo.OpShiftLeft, hlo.OpShiftRightArithmetic, hlo.OpShiftRightLogical},
	{hlo.OpPopcnt, hlo.OpCountLeadingZeros, hlo.OpNot},
	{hlo.OpReal, hlo.OpImag},
}

// guarded are families whose members are defined for some operands only where
// the type is an integer.
func guarded(op hlo.Opcode, t hlo.PrimitiveType) bool { return op == hlo.OpDivide && t.IsInteger() }

// opcode changes an opcode within its family, or a comparison's direction.
func (m *mutant) opcode() bool {
	p, ok := m.find(func(c *hlo.Computation, in *hlo.Instruction) bool {
		return !m.fixed(c, in) && (in.Op == hlo.OpCompare || slices.ContainsFunc(families, func(f []hlo.Opcode) bool { return slices.Contains(f, in.Op) }))
	})
	if !ok {
		return false
	}
	in := p.in()
	if in.Op == hlo.OpCompare {
		d := []string{"EQ", "NE", "LT", "LE", "GT", "GE"}
		in.Attr.ComparisonDirection = d[m.r.IntN(len(d))]
		return true
	}
	for _, f := range families {
		if slices.Contains(f, in.Op) {
			in.Op = f[m.r.IntN(len(f))]
			return !guarded(in.Op, in.Shape.Type)
		}
	}
	return false
}

// constantToParameter makes a constant of the entry a parameter.
func (m *mutant) constantToParameter() bool {
	p, ok := m.find(func(c *hlo.Computation, in *hlo.Instruction) bool {
		return c == m.m.Entry && in.Op == hlo.OpConstant && plain(in.Shape)
	})
	if !ok {
		return false
	}
	n := m.parameter(&p, p.in().Shape)
	p.replace(p.in(), n)
	return true
}

// parameter appends a parameter of the entry, placed before p.
func (m *mutant) parameter(p *place, s *hlo.Shape) *hlo.Instruction {
	n := m.instruction(hlo.OpParameter, s.Clone())
	n.Attr.ParameterNumber = int64(len(m.m.Entry.Params()))
	p.insert(n)
	return n
}

// parameterToConstant makes a parameter of the entry a small constant.
func (m *mutant) parameterToConstant() bool {
	p, ok := m.find(func(c *hlo.Computation, in *hlo.Instruction) bool {
		return c == m.m.Entry && in.Op == hlo.OpParameter && plain(in.Shape) && in.Shape.Elems() <= 256
	})
	if !ok {
		return false
	}
	old := p.in()
	in := m.instruction(hlo.OpConstant, old.Shape.Clone())
	in.Literal = m.literal(old.Shape)
	p.c.Instructions[p.at] = in
	p.replace(old, in)
	for _, q := range m.m.Entry.Instructions {
		if q.Op == hlo.OpParameter && q.Attr.ParameterNumber > old.Attr.ParameterNumber {
			q.Attr.ParameterNumber--
		}
	}
	return true
}

// literal is of small values.
func (m *mutant) literal(s *hlo.Shape) *hlo.Literal {
	l := hlo.NewLiteral(s.WithoutLayout())
	b := &program.Builder{R: m.r}
	for i := range l.Shape.Elems() {
		program.SetNumber(l, i, b.Small(s.Type))
	}
	return l
}

// constantValue gives a constant other values: 0, 1, or small ones.
func (m *mutant) constantValue() bool {
	p, ok := m.find(func(c *hlo.Computation, in *hlo.Instruction) bool {
		return in.Op == hlo.OpConstant && plain(in.Shape) && in.Shape.Elems() <= 256 && !m.fixed(c, in)
	})
	if !ok {
		return false
	}
	in := p.in()
	switch m.r.IntN(3) {
	case 0:
		in.Literal = program.Filled(in.Shape, float64(m.r.IntN(2)))
	default:
		in.Literal = m.literal(in.Shape)
	}
	return true
}

// layout changes the layout of a value on its way to a user.
func (m *mutant) layout() bool {
	p, ok := m.find(func(c *hlo.Computation, in *hlo.Instruction) bool {
		return in.Shape.Rank() >= 2 && plain(in.Shape) && in != c.Root && in.Op != hlo.OpParameter && !m.scalarCode(c)
	})
	if !ok {
		return false
	}
	in := p.in()
	s := in.Shape.Clone()
	s.Layout = &hlo.Layout{}
	for _, d := range m.r.Perm(s.Rank()) {
		s.Layout.MinorToMajor = append(s.Layout.MinorToMajor, int64(d))
	}
	c := m.instruction(hlo.OpCopy, s, in)
	p.c.Instructions = slices.Insert(p.c.Instructions, p.at+1, c)
	p.replace(in, c, c)
	return true
}

// scalarCode reports whether a computation is applied to elements: a reducer,
// a comparator, and the like.
func (m *mutant) scalarCode(c *hlo.Computation) bool {
	for _, d := range m.m.Computations {
		for _, in := range d.Instructions {
			switch in.Op {
			case hlo.OpWhile, hlo.OpConditional, hlo.OpCall, hlo.OpFusion:
			default:
				if slices.Contains(in.Called, c) {
					return true
				}
			}
		}
	}
	return false
}

// share makes two parameters one, or gives an operation one value twice.
func (m *mutant) share() bool {
	if m.r.IntN(2) == 0 {
		p, ok := m.find(func(c *hlo.Computation, in *hlo.Instruction) bool {
			return len(in.Operands) >= 2 && !m.fixed(c, in) && in.Operands[0] != in.Operands[1] && in.Operands[0].Shape.Compatible(in.Operands[1].Shape)
		})
		if !ok {
			return false
		}
		in := p.in()
		in.Operands[1] = in.Operands[0]
		return true
	}
	p, ok := m.find(func(c *hlo.Computation, in *hlo.Instruction) bool { return c == m.m.Entry && in.Op == hlo.OpParameter })
	if !ok {
		return false
	}
	values := p.before(p.in().Shape)
	if len(values) == 0 {
		return false
	}
	p.replace(p.in(), values[m.r.IntN(len(values))])
	return true
}

// leaves are the values that the entry returns.
func (m *mutant) leaves() []*hlo.Instruction {
	if r := m.m.Entry.Root; r.Op == hlo.OpTuple {
		return slices.Clone(r.Operands)
	}
	return []*hlo.Instruction{m.m.Entry.Root}
}

// setLeaves makes the entry return the values.
func (m *mutant) setLeaves(values []*hlo.Instruction) {
	e := m.m.Entry
	var shapes []*hlo.Shape
	for _, v := range values {
		shapes = append(shapes, v.Shape.Clone())
	}
	e.Root = add(e, m.instruction(hlo.OpTuple, hlo.TupleShape(shapes...), values...))
}

// output returns one more value, so that it has another user.
func (m *mutant) output() bool {
	p, ok := m.find(func(c *hlo.Computation, in *hlo.Instruction) bool {
		return c == m.m.Entry && plain(in.Shape) && in.Op != hlo.OpParameter && in.Op != hlo.OpConstant && in != c.Root
	})
	if !ok || m.m.Entry.Root.Shape.IsTuple() && m.m.Entry.Root.Op != hlo.OpTuple {
		return false
	}
	m.setLeaves(append(m.leaves(), p.in()))
	return true
}

// drop returns less: one value fewer, or an operand in the place of a value.
func (m *mutant) drop() bool {
	leaves := m.leaves()
	i := m.r.IntN(len(leaves))
	if len(leaves) > 1 && m.r.IntN(2) == 0 {
		m.setLeaves(slices.Delete(leaves, i, i+1))
		return true
	}
	var inner []*hlo.Instruction
	for _, o := range leaves[i].Operands {
		if plain(o.Shape) {
			inner = append(inner, o)
		}
	}
	if len(inner) == 0 {
		return false
	}
	leaves[i] = inner[m.r.IntN(len(inner))]
	m.setLeaves(leaves)
	return true
}

// identity sends a value through operations that change nothing.
func (m *mutant) identity() bool {
	p, ok := m.find(func(c *hlo.Computation, in *hlo.Instruction) bool {
		return plain(in.Shape) && in != c.Root && !m.scalarCode(c)
	})
	if !ok {
		return false
	}
	in := p.in()
	s := in.Shape
	var chain []*hlo.Instruction
	link := func(op hlo.Opcode, shape *hlo.Shape, set func(a *program.Attr), operands ...*hlo.Instruction) *hlo.Instruction {
		n := m.instruction(op, shape.Clone(), operands...)
		if set != nil {
			set(n.Attr)
		}
		chain = append(chain, n)
		return n
	}
	flat := hlo.ArrayShape(s.Type, s.Elems())
	flat.Layout = hlo.DefaultLayout(1)
	same := s.Clone()
	same.Layout = hlo.DefaultLayout(s.Rank())
	switch m.r.IntN(5) {
	case 0:
		link(hlo.OpReshape, same, nil, link(hlo.OpReshape, flat, nil, in))
	case 1:
		link(hlo.OpOptBarrier, same, nil, in)
	case 2:
		link(hlo.OpCopy, same, nil, in)
	case 3:
		if s.Rank() == 0 {
			return false
		}
		rev := func(a *program.Attr) { a.Dimensions = []int64{0} }
		link(hlo.OpReverse, same, rev, link(hlo.OpReverse, same, rev, in))
	case 4:
		if s.Type == hlo.Pred || s.Type.IsComplex() || s.Type.Bits() < 8 {
			return false
		}
		zero := m.instruction(hlo.OpConstant, hlo.ArrayShape(s.Type))
		zero.Shape.Layout = hlo.DefaultLayout(0)
		zero.Literal = program.Filled(zero.Shape, 0)
		chain = append(chain, zero)
		link(hlo.OpAdd, same, nil, in, link(hlo.OpBroadcast, same, nil, zero))
	}
	p.c.Instructions = slices.Insert(p.c.Instructions, p.at+1, chain...)
	p.replace(in, chain[len(chain)-1], chain...)
	return true
}
