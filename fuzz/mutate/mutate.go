// Package mutate makes new programs out of old ones: operands, opcodes,
// shapes, layouts and types change, constants become parameters and back,
// operations move into loops, branches and calls, two programs grow together,
// values are shared.
//
// What comes out passes hlo.Verify; what does not is discarded, and the caller
// counts the error.
package mutate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
)

// ErrNothing says that no mutation fitted the program.
var ErrNothing = errors.New("no mutation fits")

// maxInstructions bounds what grows by mutation.
const maxInstructions = 500

// attempts is how many mutations are tried before Mutate gives up.
const attempts = 12

// Kinds are the names of the mutations.
func Kinds() []string {
	var out []string
	for _, k := range kinds {
		out = append(out, k.name)
	}
	return out
}

// Mutate changes a program once and returns the new one with the kind of the
// change. donors are programs to splice in; they may be nil. Programs without
// HLO (Case.Module is nil) cannot be mutated. The case keeps its own inputs
// where its parameters are the same as before. The error is ErrNothing when
// every attempt was discarded.
//
// The new case has c's name: whoever keeps many renames them.
func Mutate(r *rand.Rand, c *fuzz.Case, donors []*fuzz.Case) (*fuzz.Case, string, error) {
	out, kind, _, err := Try(r, c, donors)
	return out, kind, err
}

// Try is Mutate that also says which kinds were discarded on the way, since
// they did not fit the program or broke a rule of HLO.
func Try(r *rand.Rand, c *fuzz.Case, donors []*fuzz.Case) (out *fuzz.Case, kind string, discarded []string, err error) {
	if c.Module == nil {
		return nil, "", nil, ErrNothing
	}
	for range attempts {
		k := pick(r)
		m := newMutant(r, c.Module, donors)
		if !k.change(m) || !m.valid() {
			discarded = append(discarded, k.name)
			continue
		}
		n := &fuzz.Case{Name: c.Name, Module: m.m, Text: m.m.String()}
		if n.Text == c.Text {
			continue
		}
		if c.Own && sameParams(c.Params(), n.Params()) {
			n.Own, n.Inputs, n.InputLines = true, c.Inputs, c.InputLines
		}
		return n, k.name, discarded, nil
	}
	return nil, "", discarded, ErrNothing
}

func sameParams(a, b []*hlo.Shape) bool {
	return slices.EqualFunc(a, b, func(x, y *hlo.Shape) bool { return x.Compatible(y) })
}

// kind is one kind of mutation. change returns false where it fits nowhere.
type kind struct {
	name   string
	weight int
	change func(m *mutant) bool
}

var kinds = []kind{
	{"operand", 5, (*mutant).operand},
	{"opcode", 5, (*mutant).opcode},
	{"shape", 4, (*mutant).size},
	{"layout", 2, (*mutant).layout},
	{"type", 4, (*mutant).elementType},
	{"constant-to-parameter", 2, (*mutant).constantToParameter},
	{"parameter-to-constant", 2, (*mutant).parameterToConstant},
	{"constant-value", 2, (*mutant).constantValue},
	{"loop", 2, (*mutant).loop},
	{"conditional", 2, (*mutant).conditional},
	{"call", 2, (*mutant).call},
	{"splice", 3, (*mutant).splice},
	{"sharing", 3, (*mutant).share},
	{"output", 2, (*mutant).output},
	{"identity", 3, (*mutant).identity},
	{"drop", 2, (*mutant).drop},
}

func pick(r *rand.Rand) kind {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := r.IntN(total)
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			return k
		}
	}
	panic("unreachable: the weights add up")
}

// mutant is a copy of a program under mutation.
type mutant struct {
	r      *rand.Rand
	m      *hlo.Module
	donors []*fuzz.Case
	names  map[string]bool
}

func newMutant(r *rand.Rand, m *hlo.Module, donors []*fuzz.Case) *mutant {
	out := &mutant{r: r, m: m.Clone(), donors: donors, names: map[string]bool{}}
	for _, c := range out.m.Computations {
		out.names[c.Name] = true
		for _, in := range c.Instructions {
			out.names[in.Name] = true
		}
	}
	return out
}

func (m *mutant) unique(name string) string {
	for n := 0; ; n++ {
		s := name
		if n > 0 {
			s = name + ".m" + strconv.Itoa(n)
		}
		if !m.names[s] {
			m.names[s] = true
			return s
		}
	}
}

// valid takes away dead code, brings the module's header in line and verifies.
func (m *mutant) valid() bool {
	if m.r.IntN(8) != 0 {
		m.prune()
	}
	n := 0
	for _, c := range m.m.Computations {
		n += len(c.Instructions)
	}
	if n > maxInstructions {
		return false
	}
	m.header()
	m.promises()
	return hlo.Verify(m.m) == nil
}

// prune removes what the roots do not need, but for parameters and side
// effects, and computations that nobody calls.
func (m *mutant) prune() {
	for _, c := range m.m.Computations {
		needed := map[*hlo.Instruction]bool{}
		var visit func(in *hlo.Instruction)
		visit = func(in *hlo.Instruction) {
			if needed[in] {
				return
			}
			needed[in] = true
			for _, o := range slices.Concat(in.Operands, in.ControlPredecessors) {
				visit(o)
			}
		}
		visit(c.Root)
		for _, in := range c.Instructions {
			if in.Op == hlo.OpParameter || effect(in) {
				visit(in)
			}
		}
		c.Instructions = slices.DeleteFunc(c.Instructions, func(in *hlo.Instruction) bool { return !needed[in] })
	}
	called := map[*hlo.Computation]bool{m.m.Entry: true}
	for i := len(m.m.Computations) - 1; i >= 0; i-- { // callers come after callees
		if c := m.m.Computations[i]; called[c] {
			for _, in := range c.Instructions {
				for _, k := range in.Called {
					called[k] = true
				}
			}
		}
	}
	m.m.Computations = slices.DeleteFunc(m.m.Computations, func(c *hlo.Computation) bool { return !called[c] })
}

func effect(in *hlo.Instruction) bool {
	switch in.Op {
	case hlo.OpInfeed, hlo.OpOutfeed, hlo.OpSend, hlo.OpRecv, hlo.OpSendDone, hlo.OpRecvDone, hlo.OpRng, hlo.OpRngGetAndUpdateState:
		return true
	case hlo.OpCustomCall:
		return in.Attr.GetCustomCallHasSideEffect()
	}
	return slices.ContainsFunc(in.Called, func(c *hlo.Computation) bool { return slices.ContainsFunc(c.Instructions, effect) })
}

// promises takes back what scatters and gathers say of indices that are no
// longer seen to keep it: equal indices under unique_indices have no meaning.
func (m *mutant) promises() {
	for _, c := range m.m.Computations {
		for _, in := range c.Instructions {
			in.Attr.IndicesAreSorted = false
			if in.Op == hlo.OpScatter && in.Attr.UniqueIndices && !distinct(in.Operands[len(in.Operands)/2]) {
				in.Attr.UniqueIndices = false
			}
		}
	}
}

// distinct reports whether a value is a constant vector without equal elements,
// or holds one index only.
func distinct(in *hlo.Instruction) bool {
	if in.Op != hlo.OpConstant || in.Shape.Rank() > 1 {
		return in.Shape.Rank() == 1 && in.Shape.Dims[0] <= 1
	}
	seen := map[int64]bool{}
	for i := range in.Shape.Elems() {
		seen[in.Literal.Int(i)] = true
	}
	return int64(len(seen)) == in.Shape.Elems()
}

// fixed reports whether an instruction must stay as it is: reducers and
// comparators have laws to keep (associative, a strict order), and counters and
// conditions of loops decide whether a program ends.
func (m *mutant) fixed(c *hlo.Computation, in *hlo.Instruction) bool {
	if m.scalarCode(c) {
		return true
	}
	for _, d := range m.m.Computations {
		for _, w := range d.Instructions {
			if w.Op == hlo.OpWhile && (w.Condition() == c || w.Body() == c && counts(in)) {
				return true
			}
		}
	}
	return false
}

// counts reports whether in may be part of what a loop counts with.
func counts(in *hlo.Instruction) bool {
	return in.Shape.IsTuple() || in.Shape.Rank() == 0 && !in.Shape.Type.IsFloat()
}

// header makes the entry layout that of the parameters and the root, and drops
// aliases where their places changed.
func (m *mutant) header() {
	layout := &hlo.ProgramShape{Result: m.m.Entry.Root.Shape.Clone()}
	for _, p := range m.m.Entry.Params() {
		if p == nil {
			return // Verify complains
		}
		layout.Params = append(layout.Params, p.Shape.Clone())
	}
	old := m.m.EntryLayout
	if old == nil {
		return
	}
	if !sameParams(old.Params, layout.Params) || !old.Result.Compatible(layout.Result) {
		m.m.EntryLayout = layout
		m.m.Attr.InputOutputAlias, m.m.Attr.BufferDonor = nil, nil
	}
}

// place is an instruction and where it stands.
type place struct {
	c  *hlo.Computation
	at int
}

func (p place) in() *hlo.Instruction { return p.c.Instructions[p.at] }

// find is one of the instructions for which ok holds.
func (m *mutant) find(ok func(c *hlo.Computation, in *hlo.Instruction) bool) (place, bool) {
	var out []place
	for _, c := range m.m.Computations {
		for i, in := range c.Instructions {
			if ok(c, in) {
				out = append(out, place{c, i})
			}
		}
	}
	if len(out) == 0 {
		return place{}, false
	}
	return out[m.r.IntN(len(out))], true
}

// before are values that stand before p in its computation and have the shape.
func (p place) before(s *hlo.Shape) []*hlo.Instruction {
	var out []*hlo.Instruction
	for _, in := range p.c.Instructions[:p.at] {
		if in.Shape.Compatible(s) && !in.Shape.IsDynamic() {
			out = append(out, in)
		}
	}
	return out
}

// insert puts instructions before p and moves p along.
func (p *place) insert(ins ...*hlo.Instruction) {
	p.c.Instructions = slices.Insert(p.c.Instructions, p.at, ins...)
	p.at += len(ins)
}

// replace makes users of old, and the root, take in instead; those in skip
// keep it.
func (p place) replace(old, in *hlo.Instruction, skip ...*hlo.Instruction) {
	for _, u := range p.c.Instructions {
		if slices.Contains(skip, u) {
			continue
		}
		for i, o := range u.Operands {
			if o == old {
				u.Operands[i] = in
			}
		}
		for i, o := range u.ControlPredecessors {
			if o == old {
				u.ControlPredecessors[i] = in
			}
		}
	}
	if p.c.Root == old {
		p.c.Root = in
	}
}

// instruction makes a new instruction with a name of its own.
func (m *mutant) instruction(op hlo.Opcode, s *hlo.Shape, operands ...*hlo.Instruction) *hlo.Instruction {
	return hlo.NewInstruction(m.unique(fmt.Sprintf("m_%s", hlo.SanitizeName(op.String()))), op, s, operands...)
}

// computation makes a new computation with parameters of the shapes, before
// the computation c.
func (m *mutant) computation(name string, before *hlo.Computation, params ...*hlo.Shape) (*hlo.Computation, []*hlo.Instruction) {
	c := hlo.NewComputation(m.unique(name))
	for i, s := range params {
		p := m.instruction(hlo.OpParameter, s.Clone())
		p.Attr.ParameterNumber = int64(i)
		c.Instructions = append(c.Instructions, p)
	}
	at := slices.Index(m.m.Computations, before)
	m.m.Computations = slices.Insert(m.m.Computations, at, c)
	return c, slices.Clone(c.Instructions)
}

// add appends an instruction to a computation.
func add(c *hlo.Computation, in *hlo.Instruction) *hlo.Instruction {
	c.Instructions = append(c.Instructions, in)
	return in
}

func plain(s *hlo.Shape) bool { return s.IsArray() && !s.IsDynamic() }
