package program

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// Value is the result of an operation.
type Value = *hlo.Instruction

// ErrInvalid says that a program under construction broke a rule of HLO: a bug
// of ours in the pattern or generator that made it.
var ErrInvalid = errors.New("invalid program")

// invalid carries an ErrInvalid out of nested regions to Make.
type invalid struct{ err error }

// Builder is a module under construction. Its methods panic on what is no
// HLO; Make turns that into an error.
type Builder struct {
	// R makes every random choice, so that a seed means a program.
	R *rand.Rand

	m      *hlo.Module
	scopes []*scope
	names  map[string]int
	count  int
	outs   []Value
	// lines are the inputs that parameters ask for; "" is a generated one.
	lines []string
}

// scope is one computation under construction.
type scope struct {
	c *hlo.Computation
	// pool holds the values that Source may hand out.
	pool []Value
	// known is the number of parameters.
	params int
}

// Make builds a program: build appends operations and names the results with
// Out. Without any Out, every value without a user is a result. The case has
// no inputs of its own unless a parameter asked for some (Input), and is named
// name.
//
// An error wraps ErrInvalid: the program does not pass hlo.Verify.
func Make(name string, r *rand.Rand, build func(b *Builder)) (c *fuzz.Case, err error) {
	b := &Builder{R: r, m: hlo.NewModule(hlo.SanitizeName(name)), names: map[string]int{}}
	defer func() {
		if p := recover(); p != nil {
			bad, ok := p.(invalid)
			if !ok {
				panic(p)
			}
			c, err = nil, fmt.Errorf("%w: %s: %w", ErrInvalid, name, bad.err)
		}
	}()
	b.push("main")
	build(b)
	m := b.finish()
	if err := hlo.Verify(m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w\n%s", ErrInvalid, name, err, m)
	}
	c = &fuzz.Case{Name: name, Module: m, Text: m.String()}
	if err := b.inputs(c); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, name, err)
	}
	return c, nil
}

// inputs gives the case the inputs that parameters asked for.
func (b *Builder) inputs(c *fuzz.Case) error {
	if !slices.ContainsFunc(b.lines, func(l string) bool { return l != "" }) {
		return nil
	}
	for i, s := range c.Params() {
		line := b.lines[i]
		if line == "" {
			line = fmt.Sprintf("lattice %s seed=%d", s.WithoutLayout(), i+1)
		}
		lit, err := fuzz.ParseInput(line)
		if err != nil {
			return err
		}
		c.Inputs, c.InputLines = append(c.Inputs, lit), append(c.InputLines, line)
	}
	c.Own = true
	return nil
}

func fail(format string, args ...any) { panic(invalid{fmt.Errorf(format, args...)}) }

// Module is the module under construction, for attributes that no method sets
// (replica counts, aliasing).
func (b *Builder) Module() *hlo.Module { return b.m }

// Len is the number of instructions so far, in all computations.
func (b *Builder) Len() int { return b.count }

func (b *Builder) push(name string) *scope {
	s := &scope{c: hlo.NewComputation(b.unique(name))}
	b.scopes = append(b.scopes, s)
	return s
}

func (b *Builder) scope() *scope { return b.scopes[len(b.scopes)-1] }

// Inner reports whether the current computation is a region: parameters of the
// program cannot be made there.
func (b *Builder) Inner() bool { return len(b.scopes) > 1 }

func (b *Builder) unique(name string) string {
	n := b.names[name]
	b.names[name] = n + 1
	if n == 0 {
		return name
	}
	return name + "." + strconv.Itoa(n)
}

// finish closes the entry computation.
func (b *Builder) finish() *hlo.Module {
	s := b.scope()
	outs := b.outs
	if len(outs) == 0 {
		used := map[Value]bool{}
		for _, in := range s.c.Instructions {
			for _, o := range in.Operands {
				used[o] = true
			}
		}
		for _, in := range s.c.Instructions {
			if !used[in] && in.Op != hlo.OpParameter && (in.Shape.IsArray() || in.Shape.IsTuple()) {
				outs = append(outs, in)
			}
		}
	}
	if len(outs) == 0 {
		outs = s.pool
	}
	switch {
	case len(outs) == 0:
		fail("no result")
	case len(outs) == 1:
		s.c.Root = outs[0]
	default:
		s.c.Root = b.Tuple(outs...)
	}
	b.m.Computations = append(b.m.Computations, s.c)
	b.m.Entry = s.c
	layout := &hlo.ProgramShape{Result: s.c.Root.Shape.Clone()}
	for _, p := range s.c.Params() {
		layout.Params = append(layout.Params, p.Shape.Clone())
	}
	b.m.EntryLayout = layout
	return b.m
}

// Out makes v a result of the program, and a source for later operations. In a
// region it is the latter only.
func (b *Builder) Out(vs ...Value) {
	for _, v := range vs {
		if !b.Inner() && !slices.Contains(b.outs, v) {
			b.outs = append(b.outs, v)
		}
		b.Offer(v)
	}
}

// Results are the values named with Out, in order; of more than one the program
// returns the tuple.
func (b *Builder) Results() []Value { return b.outs }

// Parameters are those of the program so far, by number.
func (b *Builder) Parameters() []Value { return b.scopes[0].c.Params() }

// Offer lets Source hand out v in this computation.
func (b *Builder) Offer(v Value) {
	s := b.scope()
	if v.Shape.IsArray() && !slices.Contains(s.pool, v) {
		s.pool = append(s.pool, v)
	}
}

// Pool are the arrays that were offered in this computation, oldest first.
func (b *Builder) Pool() []Value { return b.scope().pool }

// Op appends an operation whose shape follows from its operands. attr, if not
// nil, sets its attributes.
func (b *Builder) Op(op hlo.Opcode, attr func(a *hlopb.HloInstructionProto), operands ...Value) Value {
	return b.add(op, nil, attr, nil, operands...)
}

// Shaped appends an operation whose shape is given.
func (b *Builder) Shaped(op hlo.Opcode, s *hlo.Shape, attr func(a *hlopb.HloInstructionProto), operands ...Value) Value {
	return b.add(op, s, attr, nil, operands...)
}

func (b *Builder) add(op hlo.Opcode, s *hlo.Shape, attr func(a *hlopb.HloInstructionProto), called []*hlo.Computation, operands ...Value) Value {
	in := hlo.NewInstruction(b.unique(strings.ReplaceAll(op.String(), "-", "_")), op, nil, operands...)
	in.Called = called
	if s != nil {
		in.Shape = withLayout(s)
	}
	if attr != nil {
		attr(in.Attr)
	}
	shape, err := hlo.InferShape(in)
	if err != nil {
		fail("%v: %w", op, err)
	}
	if in.Shape == nil {
		in.Shape = withLayout(shape)
	}
	b.append(in)
	return in
}

func (b *Builder) append(in Value) {
	s := b.scope()
	s.c.Instructions = append(s.c.Instructions, in)
	b.count++
}

// withLayout is a copy in which arrays without a layout get the row-major one.
func withLayout(s *hlo.Shape) *hlo.Shape {
	out := s.Clone()
	var fill func(s *hlo.Shape)
	fill = func(s *hlo.Shape) {
		if s.IsArray() && s.Layout == nil {
			s.Layout = hlo.DefaultLayout(s.Rank())
		}
		for _, e := range s.Elements {
			fill(e)
		}
	}
	fill(out)
	return out
}

// Param is a new parameter of the program with generated inputs.
func (b *Builder) Param(s *hlo.Shape) Value { return b.Input(s, "") }

// Input is a new parameter of the program with an input of its own: a line of
// a case file's inputs section; "" is none.
func (b *Builder) Input(s *hlo.Shape, line string) Value {
	if b.Inner() {
		fail("a parameter in a region")
	}
	b.lines = append(b.lines, line)
	return b.param(s)
}

func (b *Builder) param(s *hlo.Shape) Value {
	sc := b.scope()
	in := hlo.NewInstruction(b.unique("p"), hlo.OpParameter, withLayout(s))
	in.Attr.ParameterNumber = int64(sc.params)
	sc.params++
	b.append(in)
	b.Offer(in)
	return in
}

// Region is a computation of its own with the given parameters; body makes its
// root. Without a root body may return nil for an empty tuple.
func (b *Builder) Region(name string, params []*hlo.Shape, body func(args []Value) Value) *hlo.Computation {
	b.push(name)
	var args []Value
	for _, p := range params {
		args = append(args, b.param(p))
	}
	root := body(args)
	s := b.scope()
	if root == nil {
		root = b.Tuple()
	}
	s.c.Root = root
	b.scopes = b.scopes[:len(b.scopes)-1]
	b.m.Computations = append(b.m.Computations, s.c)
	return s.c
}

// With appends an operation that calls computations; s may be nil where the
// shape follows.
func (b *Builder) With(op hlo.Opcode, s *hlo.Shape, attr func(a *hlopb.HloInstructionProto), called []*hlo.Computation, operands ...Value) Value {
	return b.add(op, s, attr, called, operands...)
}

func shapesOf(vs []Value) []*hlo.Shape {
	out := make([]*hlo.Shape, len(vs))
	for i, v := range vs {
		out[i] = v.Shape
	}
	return out
}
