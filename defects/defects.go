// Package defects plants wrong rewrites into HLO modules: the mistakes that a
// compiler pass makes, one at a time and in one place, to measure what the
// gate sees.
//
// A Kind is one mistake (a slice that starts one element late). A Defect is a
// Kind bound to a pass step and to what the broken pass matches there (an
// opcode and an element type), so that it behaves like a faulty rewrite: it
// fires in every program in which it finds its match, smaller ones included.
// Nothing here knows whether a plant changes the meaning of a program: package
// selftest proves that before it counts one.
package defects

import (
	"fmt"
	"slices"

	"github.com/passgate/passgate/hlo"
)

// Class groups kinds in the report.
type Class string

// The classes of issue "the gate's own measured sensitivity".
const (
	Operands   Class = "operand dropped or swapped"
	Axes       Class = "wrong axis, permutation or order"
	Offsets    Class = "off-by-one slice, window or padding"
	Fills      Class = "wrong padding value, identity or constant"
	Directions Class = "wrong comparison, opcode or branch"
	Converts   Class = "lost convert or wrong round trip"
	Specials   Class = "NaN, infinity or -0 lost"
	Elements   Class = "one wrong element"
	Indices    Class = "gather, scatter or dynamic index wrong"
	Dots       Class = "dot or convolution numbers wrong"
	Precision  Class = "precision lost"
	Aliases    Class = "update or alias lost"
)

// Classes lists all classes in the order of reports.
var Classes = []Class{Operands, Axes, Offsets, Fills, Directions, Converts, Specials, Elements, Indices, Dots, Aliases, Precision}

// Kind is one mistake.
type Kind struct {
	Name  string
	Class Class
	// Exact says that the mistake puts other values in place of the right ones,
	// not less accurate ones.
	Exact bool
	// ops are the opcodes at which it can be made; nil is any.
	ops []hlo.Opcode
	// plant makes the mistake at a site; false if it cannot be made there, and
	// then the module is as it was.
	plant func(s *site) bool
}

// ByName returns a kind of the catalogue.
func ByName(name string) (Kind, bool) {
	for _, k := range Catalogue {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// Defect is a mistake of one pass.
type Defect struct {
	Kind Kind
	// Pipeline and Pass name the step after which the mistake is made, the
	// first run of that pass (as in dumps: '_' for blanks).
	Pipeline, Pass string
	// Op and Type are what the broken rewrite matches: the first instruction
	// of that opcode and result element type at which the mistake can be made.
	Op   hlo.Opcode
	Type hlo.PrimitiveType
}

// String is a name for reports: unique within a run.
func (d Defect) String() string {
	return fmt.Sprintf("%s at %v %v after %s/%s", d.Kind.Name, d.Type, d.Op, d.Pipeline, d.Pass)
}

// Plant is one mistake made in one module.
type Plant struct {
	Module *hlo.Module
	// Names are the instructions that are wrong now: the one at which the
	// mistake was made and those that it added; where it is gone, those that
	// read it.
	Names []string
	// Callers are the instructions that call the computation of the site,
	// where that is the scalar computation of a reduction, scatter or the like,
	// whose inside no trace shows.
	Callers []string
}

// Apply makes the mistake at the first place of the module where the defect
// matches; ok is false if there is none. The module itself is not changed, and
// the planted one passes hlo.Verify.
func (d Defect) Apply(m *hlo.Module) (p Plant, ok bool) { return NewPlanter(m).Apply(d) }

// At makes the mistake at one instruction, given by the index of its
// computation and its own; ok is false if it cannot be made there.
func At(m *hlo.Module, k Kind, computation, instruction int) (p Plant, ok bool) {
	return NewPlanter(m).at(k, computation, instruction)
}

// Planter makes mistakes in copies of one module. A copy in which no place was
// found serves the next mistake: most defects find none in most modules.
type Planter struct {
	of *hlo.Module
	// copy is equal to of, or nil.
	copy *hlo.Module
}

// NewPlanter makes a planter for a module, which it never changes.
func NewPlanter(m *hlo.Module) *Planter { return &Planter{of: m} }

// Apply is Defect.Apply for the planter's module.
func (t *Planter) Apply(d Defect) (p Plant, ok bool) {
	for ci, c := range t.of.Computations {
		for ii, in := range c.Instructions {
			if in.Op != d.Op || in.Shape.Type != d.Type {
				continue
			}
			if p, ok := t.at(d.Kind, ci, ii); ok {
				return p, true
			}
		}
	}
	return Plant{}, false
}

func (t *Planter) at(k Kind, computation, instruction int) (p Plant, ok bool) {
	if op := t.of.Computations[computation].Instructions[instruction].Op; k.ops != nil && !slices.Contains(k.ops, op) {
		return Plant{}, false
	}
	if t.copy == nil {
		t.copy = t.of.Clone()
	}
	m := t.copy
	s := &site{m: m, c: m.Computations[computation]}
	s.in = s.c.Instructions[instruction]
	if s.in.Op == hlo.OpParameter || s.in.Op == hlo.OpCustomCall && s.in != s.c.Root && !s.used() {
		return Plant{}, false
	}
	s.names = []string{s.in.Name}
	if !k.plant(s) {
		return Plant{}, false
	}
	t.copy = nil
	if hlo.Verify(m) != nil {
		return Plant{}, false
	}
	p = Plant{Module: m, Names: s.names}
	if m.Instruction(s.names[0]) == nil {
		p.Names = append(p.Names, s.rewired...)
	}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			for _, called := range in.Called {
				if called == s.c && in.Op != hlo.OpFusion && in.Op != hlo.OpCall && in.Op != hlo.OpWhile && in.Op != hlo.OpConditional {
					p.Callers = append(p.Callers, in.Name)
				}
			}
		}
	}
	return p, true
}
