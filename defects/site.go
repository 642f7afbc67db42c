package defects

import (
	"fmt"
	"slices"

	"github.com/passgate/passgate/hlo"
)

// site is the place of a mistake in a module that may be changed.
type site struct {
	m     *hlo.Module
	c     *hlo.Computation
	in    *hlo.Instruction
	last  *hlo.Instruction // the last one added behind in
	names []string         // in's, then those of the added ones
	// rewired read something else in in's place.
	rewired []string
}

// used reports whether another instruction reads the site's.
func (s *site) used() bool {
	return slices.ContainsFunc(s.c.Instructions, func(in *hlo.Instruction) bool { return slices.Contains(in.Operands, s.in) })
}

// add puts a new instruction right behind the site's instruction and those
// added before it.
func (s *site) add(op hlo.Opcode, shape *hlo.Shape, operands ...*hlo.Instruction) *hlo.Instruction {
	n := hlo.NewInstruction(s.fresh(), op, shape.Clone(), operands...)
	last := s.last
	if last == nil {
		last = s.in
	}
	s.insert(n, slices.Index(s.c.Instructions, last)+1)
	s.last = n
	return n
}

// before puts a new instruction right before the site's.
func (s *site) before(op hlo.Opcode, shape *hlo.Shape, operands ...*hlo.Instruction) *hlo.Instruction {
	n := hlo.NewInstruction(s.fresh(), op, shape.Clone(), operands...)
	s.insert(n, slices.Index(s.c.Instructions, s.in))
	return n
}

func (s *site) insert(n *hlo.Instruction, at int) {
	s.c.Instructions = slices.Insert(s.c.Instructions, at, n)
	s.names = append(s.names, n.Name)
}

// fresh is a name that the module does not have yet.
func (s *site) fresh() string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("%s.r%d", s.in.Name, i); s.m.Instruction(name) == nil {
			return name
		}
	}
}

// replace lets everything that read the site's instruction read with, and
// drops the instruction where nothing needs it.
func (s *site) replace(with *hlo.Instruction) bool {
	if with.Shape.String() != s.in.Shape.String() { // layouts included
		return false
	}
	for _, in := range s.c.Instructions {
		if in == with || slices.Contains(s.names[1:], in.Name) {
			continue
		}
		for i, o := range in.Operands {
			if o == s.in {
				in.Operands[i] = with
				s.rewired = append(s.rewired, in.Name)
			}
		}
	}
	if s.c.Root == s.in {
		s.c.Root = with
	}
	if s.used() || s.in.Op == hlo.OpParameter {
		return true
	}
	for _, in := range s.c.Instructions {
		in.ControlPredecessors = slices.DeleteFunc(in.ControlPredecessors, func(p *hlo.Instruction) bool { return p == s.in })
	}
	s.c.Instructions = slices.DeleteFunc(s.c.Instructions, func(in *hlo.Instruction) bool { return in == s.in })
	return true
}

// scalar adds a constant of the site's element type (or another) before it.
func (s *site) scalar(t hlo.PrimitiveType, set func(l *hlo.Literal)) *hlo.Instruction {
	shape := hlo.ArrayShape(t)
	if s.in.Shape.Layout != nil {
		shape.Layout = hlo.DefaultLayout(0)
	}
	n := s.before(hlo.OpConstant, shape)
	n.Literal = hlo.NewLiteral(hlo.ArrayShape(t))
	set(n.Literal)
	return n
}

// spread adds a broadcast of a scalar to the dimensions and layout of shape.
func (s *site) spread(scalar *hlo.Instruction, shape *hlo.Shape) *hlo.Instruction {
	if shape.Rank() == 0 {
		return scalar
	}
	return s.add(hlo.OpBroadcast, s.like(shape, scalar.Shape.Type), scalar)
}

// like is a shape with other elements.
func (s *site) like(shape *hlo.Shape, t hlo.PrimitiveType) *hlo.Shape {
	out := shape.Clone()
	out.Type = t
	if out.Layout != nil {
		out.Layout = &hlo.Layout{MinorToMajor: slices.Clone(shape.Layout.MinorToMajor)}
		if t.Bits() == shape.Type.Bits() {
			out.Layout = shape.Layout.Clone()
		}
	}
	return out
}

// compare adds a comparison.
func (s *site) compare(direction string, a, b *hlo.Instruction) *hlo.Instruction {
	n := s.add(hlo.OpCompare, s.like(a.Shape, hlo.Pred), a, b)
	n.Attr.ComparisonDirection = direction
	switch t := a.Shape.Type; {
	case t.IsFloat():
		n.Attr.ComparisonType, n.Attr.ComparisonOrder = "FLOAT", "PARTIAL"
	case t.IsSigned():
		n.Attr.ComparisonType, n.Attr.ComparisonOrder = "SIGNED", "TOTAL"
	default:
		n.Attr.ComparisonType, n.Attr.ComparisonOrder = "UNSIGNED", "TOTAL"
	}
	return n
}

// array reports whether the site's value is an array with at least one element
// and static dimensions.
func (s *site) array() bool {
	return s.in.Shape.IsArray() && !s.in.Shape.IsDynamic() && s.in.Shape.Elems() > 0
}

// number sets a scalar literal to v, rounded to its type.
func number(v float64) func(*hlo.Literal) {
	return func(l *hlo.Literal) {
		switch t := l.Shape.Type; {
		case t.IsComplex():
			l.SetComplex(0, complex(v, 0))
		case t.IsFloat():
			l.SetFloat(0, v)
		default:
			l.SetInt(0, int64(v))
		}
	}
}
