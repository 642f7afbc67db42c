package memory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// Kind is what is wrong with a placement.
type Kind string

const (
	// Clobbered: an instruction reads a value whose bytes hold another one.
	Clobbered Kind = "overwritten before its last use"
	// Hazard: an instruction writes over an operand of its own that it may still
	// have to read.
	Hazard Kind = "in-place update reads its own output"
	// Input: a parameter that is not donated is overwritten.
	Input Kind = "input overwritten"
	// Output: at the end the result is not where the caller looks for it.
	Output Kind = "result not in its buffer"
	// LostAlias: an output that must share the buffer of an input does not.
	LostAlias Kind = "lost alias"
)

// Violation is a fault of a placement.
type Violation struct {
	Kind Kind
	// At is the instruction that reads or writes wrongly, in Computation.
	At          string
	Computation string
	Opcode      string
	// Value is what is lost, By what overwrote it; "" if nothing did.
	Value, By string
	Place     Place
}

func (v *Violation) String() string {
	s := fmt.Sprintf("%s: %s at %s (%s)", v.Kind, v.Value, v.At, v.Place)
	if v.By != "" {
		s += ", overwritten by " + v.By
	}
	return s
}

// Report is the outcome of Check.
type Report struct {
	Violations []Violation
	// Reads counts the operands that were looked up; Unplaced those whose place
	// the assignment does not tell; Trusted the values of instructions that the
	// checker has no rule for.
	Reads, Unplaced, Trusted int
	// Bytes is the size of all allocations but constants.
	Bytes int64
}

// maxViolations ends a check that finds no end of them.
const maxViolations = 32

// token names a value; 0 is unknown: nothing is checked.
type token int

// mixed is what bytes hold that differ between the branches of a conditional.
const mixed token = -1

type segment struct {
	start, end int64
	value      token
}

// memory is what every byte holds, by allocation: sorted, disjoint segments.
type memory map[int64][]segment

func (m memory) write(p Place, v token) {
	if p.Size == 0 {
		return
	}
	var out []segment
	for _, s := range m[p.Allocation] {
		if s.end <= p.Offset || s.start >= p.Offset+p.Size {
			out = append(out, s)
			continue
		}
		if s.start < p.Offset {
			out = append(out, segment{s.start, p.Offset, s.value})
		}
		if s.end > p.Offset+p.Size {
			out = append(out, segment{p.Offset + p.Size, s.end, s.value})
		}
	}
	out = append(out, segment{p.Offset, p.Offset + p.Size, v})
	slices.SortFunc(out, func(a, b segment) int { return int(a.start - b.start) })
	m[p.Allocation] = out
}

// other is the first value in a place that is not v; ok is false if there is
// none. Bytes that nothing was written to hold the value 0.
func (m memory) other(p Place, v token) (token, bool) {
	at := p.Offset
	for _, s := range m[p.Allocation] {
		if s.end <= p.Offset || s.start >= p.Offset+p.Size {
			continue
		}
		if s.start > at {
			return 0, true
		}
		if s.value != v {
			return s.value, true
		}
		at = s.end
	}
	return 0, at < p.Offset+p.Size
}

func (m memory) clone() memory {
	out := memory{}
	for k, v := range m {
		out[k] = slices.Clone(v)
	}
	return out
}

// merge keeps what all of the memories agree on.
func merge(all []memory) memory {
	out := all[0].clone()
	for _, m := range all[1:] {
		for a, segs := range m {
			for _, s := range segs {
				p := Place{a, s.start, s.end - s.start}
				if s.value != mixed {
					out.mix(p, s.value)
				} else {
					out.write(p, mixed)
				}
			}
		}
		for a, segs := range out { // written on one side only
			for _, s := range segs {
				if s.value == mixed {
					continue
				}
				if _, differs := m.other(Place{a, s.start, s.end - s.start}, s.value); differs {
					out.mixFrom(m, a, s)
				}
			}
		}
	}
	return out
}

// mix marks the bytes of a place that do not hold v.
func (m memory) mix(p Place, v token) {
	for _, s := range slices.Clone(m[p.Allocation]) {
		lo, hi := max(s.start, p.Offset), min(s.end, p.Offset+p.Size)
		if lo < hi && s.value != v {
			m.write(Place{p.Allocation, lo, hi - lo}, mixed)
		}
	}
	// Bytes without a segment held nothing on the other side.
	at := p.Offset
	for _, s := range slices.Clone(m[p.Allocation]) {
		if s.start > at && s.start < p.Offset+p.Size {
			m.write(Place{p.Allocation, at, s.start - at}, mixed)
		}
		at = max(at, s.end)
	}
	if at < p.Offset+p.Size {
		m.write(Place{p.Allocation, at, p.Offset + p.Size - at}, mixed)
	}
}

// mixFrom marks the bytes of a segment where other does not hold its value.
func (m memory) mixFrom(other memory, allocation int64, s segment) {
	at := s.start
	for _, o := range other[allocation] {
		if o.end <= s.start || o.start >= s.end {
			continue
		}
		lo, hi := max(o.start, s.start), min(o.end, s.end)
		if lo > at {
			m.write(Place{allocation, at, lo - at}, mixed)
		}
		if o.value != s.value {
			m.write(Place{allocation, lo, hi - lo}, mixed)
		}
		at = hi
	}
	if at < s.end {
		m.write(Place{allocation, at, s.end - at}, mixed)
	}
}

type checker struct {
	*Program
	report  *Report
	memory  memory
	names   []string // by token
	byConst map[*hlo.Instruction]token
	seen    map[string]bool
}

// Check looks for values that lose their bytes. While loops run twice, so that
// what one iteration overwrites is missed by the next; the branches of a
// conditional run one by one from the same state.
func Check(p *Program) *Report {
	c := &checker{Program: p, report: &Report{}, memory: memory{}, names: []string{"nothing"}, byConst: map[*hlo.Instruction]token{}, seen: map[string]bool{}}
	for _, a := range p.Allocations {
		if !a.Constant {
			c.report.Bytes += a.Size
		}
	}
	for at, place := range p.Places {
		if at.Instruction.Op == hlo.OpConstant && p.Allocations[place.Allocation].Constant {
			c.memory.write(place, c.constant(at.Instruction))
		}
	}
	entry := p.Module.Entry
	var args [][]token
	for _, in := range entry.Params() {
		leaves, _ := leavesOf(in.Shape)
		var tokens []token
		for _, l := range leaves {
			t := c.fresh("parameter " + Location{in, l.path}.String())
			tokens = append(tokens, t)
			if place, ok := c.place(in, l); ok {
				c.memory.write(place, t)
			}
		}
		args = append(args, tokens)
	}
	root := c.run(entry, args)
	leaves, _ := leavesOf(entry.Root.Shape)
	for i, l := range leaves {
		c.read(entry, entry.Root, Output, entry.Root, l, root[i])
	}
	c.inputs(entry, args)
	c.aliases(entry)
	return c.report
}

func (c *checker) fresh(name string) token {
	c.names = append(c.names, name)
	return token(len(c.names) - 1)
}

func (c *checker) constant(in *hlo.Instruction) token {
	if c.byConst[in] == 0 {
		c.byConst[in] = c.fresh("constant %" + in.Name)
	}
	return c.byConst[in]
}

func (c *checker) name(t token) string {
	if t == mixed {
		return "different values in different branches"
	}
	return c.names[t]
}

// place is where a leaf lies; tokens and empty arrays have no place.
func (c *checker) place(in *hlo.Instruction, l leaf) (Place, bool) {
	p, ok := c.at(Location{in, l.path})
	return p, ok && p.Size > 0 && l.shape.IsArray()
}

// at is the place of a location. Those at which no value starts have none of
// their own in the dump: they are where the value is that they hand on.
func (p *Program) at(l Location) (Place, bool) {
	for {
		if place, ok := p.Places[l]; ok {
			return place, true
		}
		in, index := l.Instruction, strings.Trim(l.Path, "{}")
		switch in.Op {
		case hlo.OpGetTupleElement:
			n := fmt.Sprint(in.Attr.GetTupleIndex())
			if index != "" {
				n += "," + index
			}
			l = Location{in.Operands[0], "{" + n + "}"}
		case hlo.OpTuple:
			first, rest, _ := strings.Cut(index, ",")
			n, err := strconv.Atoi(first)
			if err != nil || n >= len(in.Operands) {
				return Place{}, false
			}
			l = Location{in.Operands[n], "{" + rest + "}"}
		case hlo.OpBitcast, hlo.OpOptBarrier, hlo.OpDomain, hlo.OpAddDependency:
			l.Instruction = in.Operands[0]
		case hlo.OpCall:
			l.Instruction = in.Called[0].Root
		default:
			return Place{}, false
		}
	}
}

func (c *checker) violate(v Violation) {
	key := string(v.Kind) + v.Computation + v.At + v.Value
	if !c.seen[key] && len(c.report.Violations) < maxViolations {
		c.seen[key] = true
		c.report.Violations = append(c.report.Violations, v)
	}
}

// read checks that the leaf of an operand holds its value.
func (c *checker) read(comp *hlo.Computation, at *hlo.Instruction, kind Kind, operand *hlo.Instruction, l leaf, t token) {
	if !l.shape.IsArray() || l.shape.Elems() == 0 || t == 0 {
		return
	}
	c.report.Reads++
	p, ok := c.place(operand, l)
	if !ok {
		c.report.Unplaced++
		return
	}
	if got, differs := c.memory.other(p, t); differs {
		c.violate(Violation{Kind: kind, At: "%" + at.Name, Computation: comp.Name, Opcode: at.Op.String(), Value: c.name(t), By: c.name(got), Place: p})
	}
}

// run executes a computation and returns the tokens of its root's leaves.
func (c *checker) run(comp *hlo.Computation, args [][]token) []token {
	env := map[*hlo.Instruction][]token{}
	for _, in := range comp.Instructions {
		env[in] = c.step(comp, in, env, args)
	}
	return env[comp.Root]
}

func (c *checker) step(comp *hlo.Computation, in *hlo.Instruction, env map[*hlo.Instruction][]token, args [][]token) []token {
	readAll := func() {
		for _, o := range in.Operands {
			leaves, _ := leavesOf(o.Shape)
			for i, l := range leaves {
				c.read(comp, in, Clobbered, o, l, env[o][i])
			}
		}
	}
	switch in.Op {
	case hlo.OpParameter:
		return args[in.Attr.GetParameterNumber()]
	case hlo.OpConstant:
		t := c.constant(in)
		leaves, _ := leavesOf(in.Shape)
		if p, ok := c.place(in, leaves[0]); ok && !c.Allocations[p.Allocation].Constant {
			c.memory.write(p, t)
		}
		return slices.Repeat([]token{t}, len(leaves))
	case hlo.OpTuple:
		var out []token
		for _, o := range in.Operands {
			out = append(out, env[o]...)
		}
		c.table(in)
		return out
	case hlo.OpGetTupleElement:
		n := int(in.Attr.GetTupleIndex())
		skip := 0
		for _, e := range in.Operands[0].Shape.Elements[:n] {
			skip += len(e.Leaves())
		}
		return env[in.Operands[0]][skip : skip+len(in.Shape.Leaves())]
	case hlo.OpBitcast, hlo.OpOptBarrier, hlo.OpDomain, hlo.OpAddDependency:
		return env[in.Operands[0]]
	case hlo.OpWhile:
		return c.loop(comp, in, env[in.Operands[0]])
	case hlo.OpConditional:
		return c.branch(comp, in, env)
	case hlo.OpCall:
		var inner [][]token
		for _, o := range in.Operands {
			inner = append(inner, env[o])
		}
		return c.run(in.Called[0], inner)
	case hlo.OpCopyStart: // (destination, source, context)
		readAll()
		out := c.outputs(comp, in, env)
		out[1] = env[in.Operands[0]][0]
		return out
	case hlo.OpCopyDone:
		leaves, _ := leavesOf(in.Operands[0].Shape)
		c.read(comp, in, Clobbered, in.Operands[0], leaves[1], env[in.Operands[0]][1])
		return env[in.Operands[0]][:1]
	}
	readAll()
	return c.outputs(comp, in, env)
}

// table writes the pointers of a tuple where the compiler keeps them.
func (c *checker) table(in *hlo.Instruction) {
	_, inner := leavesOf(in.Shape)
	for _, at := range inner {
		l := Location{in, at}
		if p, ok := c.Places[l]; ok && c.Defined[l] {
			c.memory.write(p, c.fresh("the pointers of "+l.String()))
		}
	}
}

// outputs writes the results of an instruction that computes.
func (c *checker) outputs(comp *hlo.Computation, in *hlo.Instruction, env map[*hlo.Instruction][]token) []token {
	leaves, _ := leavesOf(in.Shape)
	c.table(in)
	out := make([]token, len(leaves))
	var written []Place
	for i, l := range leaves {
		at := Location{in, l.path}
		p, ok := c.place(in, l)
		if !ok || !c.Defined[at] {
			c.report.Trusted++
			continue // whatever is there: 0 is not checked
		}
		for _, w := range written {
			if w.overlaps(p) {
				c.violate(Violation{Kind: Clobbered, At: "%" + in.Name, Computation: comp.Name, Opcode: in.Op.String(), Value: "one output of " + at.String(), By: "another output of the same instruction", Place: p})
			}
		}
		written = append(written, p)
		for k, o := range in.Operands {
			inside, _ := leavesOf(o.Shape)
			for j, from := range inside {
				q, ok := c.place(o, from)
				if !ok || !q.overlaps(p) || env[o][j] == 0 {
					continue
				}
				if q != p || shares(in, i, k, j) == unsafeShare {
					c.violate(Violation{Kind: Hazard, At: "%" + in.Name, Computation: comp.Name, Opcode: in.Op.String(), Value: c.name(env[o][j]), By: at.String(), Place: p})
				}
			}
		}
	}
	for i, l := range leaves {
		at := Location{in, l.path}
		if p, ok := c.place(in, l); ok && c.Defined[at] {
			out[i] = c.fresh(at.String())
			c.memory.write(p, out[i])
		}
	}
	return out
}

// iterations of a while loop: the second misses what the first overwrites.
const iterations = 2

func (c *checker) loop(comp *hlo.Computation, in *hlo.Instruction, state []token) []token {
	leaves, _ := leavesOf(in.Shape)
	here := func(at *hlo.Instruction, kind Kind, state []token) {
		for i, l := range leaves {
			c.read(comp, in, kind, at, l, state[i])
		}
	}
	// A loop that does not run leaves its operand as the result.
	here(in, Clobbered, state)
	for range iterations {
		here(in.Condition().Params()[0], Clobbered, state)
		c.run(in.Condition(), [][]token{state})
		here(in.Body().Params()[0], Clobbered, state)
		state = c.run(in.Body(), [][]token{state})
	}
	here(in.Condition().Params()[0], Clobbered, state)
	c.run(in.Condition(), [][]token{state})
	here(in, Clobbered, state)
	return state
}

func (c *checker) branch(comp *hlo.Computation, in *hlo.Instruction, env map[*hlo.Instruction][]token) []token {
	first, _ := leavesOf(in.Operands[0].Shape)
	c.read(comp, in, Clobbered, in.Operands[0], first[0], env[in.Operands[0]][0])
	leaves, _ := leavesOf(in.Shape)
	before := c.memory
	var after []memory
	var roots [][]token
	for k, b := range in.Called {
		c.memory = before.clone()
		root := c.run(b, [][]token{env[in.Operands[k+1]]})
		for i, l := range leaves {
			c.read(comp, in, Clobbered, in, l, root[i])
		}
		roots, after = append(roots, root), append(after, c.memory)
	}
	out := make([]token, len(leaves))
	for i, l := range leaves {
		if out[i] = roots[0][i]; !slices.ContainsFunc(roots, func(r []token) bool { return r[i] != out[i] }) {
			continue // every branch hands the same value through
		}
		out[i] = c.fresh(Location{in, l.path}.String())
		if p, ok := c.place(in, l); ok {
			for _, m := range after {
				m.write(p, out[i])
			}
		}
	}
	c.memory = merge(after)
	return out
}

// inputs checks that parameters which are not donated are as they were.
func (c *checker) inputs(entry *hlo.Computation, args [][]token) {
	donated := map[string]bool{}
	for _, e := range c.Module.Attr.GetInputOutputAlias().GetEntries() {
		donated[fmt.Sprint(e.GetParameterNumber(), path(e.GetParameterShapeIndex()))] = true
	}
	for _, e := range c.Module.Attr.GetBufferDonor().GetEntries() {
		donated[fmt.Sprint(e.GetParameterNumber(), path(e.GetParameterShapeIndex()))] = true
	}
	for n, in := range entry.Params() {
		leaves, _ := leavesOf(in.Shape)
		for i, l := range leaves {
			if !donated[fmt.Sprint(n, l.path)] {
				c.read(entry, in, Input, in, l, args[n][i])
			}
		}
	}
}

// aliases checks that outputs which must share a parameter's buffer do.
func (c *checker) aliases(entry *hlo.Computation) {
	for _, e := range c.Module.Attr.GetInputOutputAlias().GetEntries() {
		if e.GetKind() != hlopb.Kind_MUST_ALIAS || int(e.GetParameterNumber()) >= len(entry.Params()) {
			continue
		}
		in := entry.Params()[e.GetParameterNumber()]
		from, ok := c.at(Location{in, path(e.GetParameterShapeIndex())})
		to, ok2 := c.at(Location{entry.Root, path(e.GetOutputShapeIndex())})
		if ok && ok2 && from != to {
			c.violate(Violation{Kind: LostAlias, At: "%" + entry.Root.Name, Computation: entry.Name, Opcode: entry.Root.Op.String(),
				Value: fmt.Sprintf("output %s must share the buffer of parameter %d%s", path(e.GetOutputShapeIndex()), e.GetParameterNumber(), strings.TrimSuffix(path(e.GetParameterShapeIndex()), "{}")), Place: to})
		}
	}
}
