package triage

import (
	"context"
	"slices"
	"sort"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// Program is a module with one input per entry parameter.
type Program struct {
	Module *hlo.Module
	Inputs []*hlo.Literal
}

// Fails says whether a program still shows the finding that is being reduced:
// the same class, status and guilty step, so that a reduction cannot slip into
// another bug. A program that cannot be judged does not fail.
type Fails func(ctx context.Context, p Program) bool

// Reduce returns a smaller program that still fails. It works until no single
// change of the kinds below keeps the failure (1-minimal), or ctx ends or fails
// was asked probes times (0: no limit); then it returns the smallest program so
// far.
//
// Kinds, in the order of what they save: make an inner instruction the root;
// keep one element of a root tuple; replace an instruction by a parameter that
// holds the value the reference saw there, or by an operand, in called
// computations by a constant; make one turn of a loop and one branch of a
// conditional of it; inline a called computation; drop what a loop carries;
// make an element type plainer and a dimension smaller, everywhere; put an
// attribute on its default; drop layouts, metadata and module attributes; make
// inputs and constants simpler.
//
// Delta debugging: Zeller and Hildebrandt, Simplifying and isolating
// failure-inducing input, IEEE TSE 28(2), 2002.
func Reduce(ctx context.Context, p Program, fails Fails, probes int) Program {
	return newReducer(ctx, p, fails, probes).run(func(r *reducer) {
		r.roots()
		r.cuts()
		r.operands()
		r.bodies()
		r.unroll()
		r.inline()
		r.constants()
		r.states()
		r.types()
		r.shapes()
		r.attributes()
		r.decoration()
		r.values()
	})
}

// run repeats a round of changes until one changes nothing, or the probes are
// spent, and returns the best program.
func (r *reducer) run(round func(*reducer)) Program {
	defer r.cancel()
	for r.ctx.Err() == nil {
		before := r.done
		round(r)
		if r.done == before {
			break
		}
	}
	return r.best
}

// CallsLibrary reports whether a module has work done by code that no emitter of
// the compiler wrote: a custom-call or a custom fusion.
func CallsLibrary(m *hlo.Module) bool {
	return slices.ContainsFunc(m.Computations, func(c *hlo.Computation) bool { return slices.ContainsFunc(c.Instructions, library) })
}

// newReducer reduces p, once; its context ends when the probes are spent.
func newReducer(ctx context.Context, p Program, fails Fails, probes int) *reducer {
	r := &reducer{best: p, seen: map[string]bool{}, combines: combines(p.Module)}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.seen[keyOf(p)] = true // a change that changes nothing is none
	r.fails = func(ctx context.Context, p Program) bool {
		if r.probes++; probes > 0 && r.probes > probes {
			r.cancel()
			return false
		}
		return fails(ctx, p)
	}
	return r
}

type reducer struct {
	ctx    context.Context
	cancel func()
	fails  Fails
	best   Program
	seen   map[string]bool // programs already tried
	done   int             // accepted changes
	probes int             // calls of fails
	// combines says that smaller programs go on combining the elements of reductions:
	// the program to start from does.
	combines bool
	// rewrite is what the fault does to a program (Plainest).
	rewrite func(context.Context, Program) (Rewrite, bool)
}

// try keeps a candidate if it is a valid program, was not tried before and
// fails.
func (r *reducer) try(p Program) bool {
	if r.ctx.Err() != nil || p.Module == nil {
		return false
	}
	p = tidy(p)
	if hlo.Verify(p.Module) != nil || r.combines && !combines(p.Module) {
		return false
	}
	key := keyOf(p)
	if r.seen[key] {
		return false
	}
	r.seen[key] = true
	if !r.fails(r.ctx, p) {
		return false
	}
	r.best = p
	r.done++
	return true
}

// combines reports whether each reduction of a module combines elements: a body that
// gives back one of two elements, or a constant, has a result that hangs on the order,
// which no reduction promises.
func combines(m *hlo.Module) bool {
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			body := 0
			switch in.Op {
			case hlo.OpReduce, hlo.OpReduceWindow, hlo.OpAllReduce, hlo.OpReduceScatter:
			case hlo.OpSelectAndScatter:
				body = 1
			default:
				continue
			}
			if root := in.Called[body].Root.Op; root == hlo.OpParameter || root == hlo.OpConstant {
				return false
			}
		}
	}
	return true
}

func keyOf(p Program) string {
	key := p.Module.String()
	for _, l := range p.Inputs {
		key += "\n" + l.String()
	}
	return key
}

// edit clones the best program and changes the clone; change returns false to
// give up.
func (r *reducer) edit(change func(m *hlo.Module, inputs *[]*hlo.Literal) bool) bool {
	m, inputs := r.best.Module.Clone(), slices.Clone(r.best.Inputs)
	if !change(m, &inputs) {
		return false
	}
	return r.try(Program{m, inputs})
}

// roots makes inner instructions of the entry the root, smallest first.
func (r *reducer) roots() {
	entry := r.best.Module.Entry
	if entry.Root.Op == hlo.OpTuple {
		for i := range entry.Root.Operands {
			if r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool {
				m.Entry.Root = m.Entry.Root.Operands[i]
				return true
			}) {
				break
			}
		}
	}
	// A tuple root that needs all its elements to fail may need only some.
	for i := 0; r.best.Module.Entry.Root.Op == hlo.OpTuple && i < len(r.best.Module.Entry.Root.Operands) && len(r.best.Module.Entry.Root.Operands) > 1; {
		if !r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool {
			root := m.Entry.Root
			ops := slices.Delete(slices.Clone(root.Operands), i, i+1)
			n := hlo.NewInstruction(root.Name, hlo.OpTuple, tupleOf(ops), ops...)
			m.Entry.Instructions = append(m.Entry.Instructions, n)
			m.Entry.Root = n
			return true
		}) {
			i++
		}
	}
	// Binary search by prefix is wrong here (failure is not monotone), but
	// most failures show at the culprit itself: try from the front.
	for i := 0; i < len(r.best.Module.Entry.Instructions); i++ {
		in := r.best.Module.Entry.Instructions[i]
		if in == r.best.Module.Entry.Root || in.Op == hlo.OpParameter || in.Op == hlo.OpConstant || !in.Shape.IsArray() {
			continue
		}
		if r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool { m.Entry.Root = m.Entry.Instructions[i]; return true }) {
			break
		}
	}
}

// cuts replaces instructions of the entry by parameters with the value that
// the reference computes there; those with the most instructions above first.
func (r *reducer) cuts() {
	for progress := true; progress; {
		progress = false
		values := r.trace()
		entry := r.best.Module.Entry
		var candidates []int
		above := ancestors(entry)
		for i, in := range entry.Instructions {
			if in != entry.Root && in.Op != hlo.OpParameter && in.Op != hlo.OpConstant && in.Shape.IsArray() && values[in] != nil {
				candidates = append(candidates, i)
			}
		}
		sort.SliceStable(candidates, func(a, b int) bool {
			return above[entry.Instructions[candidates[a]]] > above[entry.Instructions[candidates[b]]]
		})
		for _, i := range candidates {
			value, err := values[entry.Instructions[i]].Literal(entry.Instructions[i].Shape.WithoutLayout())
			if err != nil {
				continue
			}
			if r.edit(func(m *hlo.Module, inputs *[]*hlo.Literal) bool {
				in := m.Entry.Instructions[i]
				p := hlo.NewInstruction("p."+in.Name, hlo.OpParameter, in.Shape.WithoutLayout())
				p.Attr.ParameterNumber = int64(len(*inputs))
				*inputs = append(*inputs, value)
				m.Entry.Instructions = slices.Insert(m.Entry.Instructions, 0, p)
				replaceUses(m.Entry, in, p)
				return true
			}) {
				progress = true
				break
			}
		}
	}
}

// operands replaces instructions by one of their operands of the same shape.
func (r *reducer) operands() {
	for i := 0; i < len(r.best.Module.Entry.Instructions); i++ {
		for k := 0; i < len(r.best.Module.Entry.Instructions) && k < len(r.best.Module.Entry.Instructions[i].Operands); k++ {
			r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool { return bypass(m.Entry, i, k) })
		}
	}
}

// bodies simplifies called computations: an instruction becomes one of its
// operands of the same shape.
func (r *reducer) bodies() {
	for c := 0; c < len(r.best.Module.Computations); c++ {
		if r.best.Module.Computations[c] == r.best.Module.Entry {
			continue
		}
		name := r.best.Module.Computations[c].Name
		for i := 0; ; i++ {
			comp := r.best.Module.Computation(name)
			if comp == nil || i >= len(comp.Instructions) {
				break
			}
			for k := 0; k < len(comp.Instructions[i].Operands); k++ {
				if r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool { return bypass(m.Computation(name), i, k) }) {
					break
				}
			}
		}
	}
}

// bypass replaces instruction i of c by its operand k.
func bypass(c *hlo.Computation, i, k int) bool {
	in := c.Instructions[i]
	if in.Op == hlo.OpParameter || !in.Shape.Compatible(in.Operands[k].Shape) {
		return false
	}
	replaceUses(c, in, in.Operands[k])
	return true
}

// inline puts the bodies of calls and fusions in place of the instruction.
func (r *reducer) inline() {
	r.eachInstruction(func(c, i int) {
		if op := r.best.Module.Computations[c].Instructions[i].Op; op != hlo.OpCall && op != hlo.OpFusion {
			return
		}
		r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool {
			comp := m.Computations[c]
			in := comp.Instructions[i]
			if len(in.Called) != 1 {
				return false
			}
			body := m.Clone().Computation(in.Called[0].Name) // a copy of its own
			params := body.Params()
			var moved []*hlo.Instruction
			for _, b := range body.Instructions {
				if b.Op != hlo.OpParameter {
					b.Name = in.Name + "." + b.Name
					b.Called = originals(m, b.Called)
					moved = append(moved, b)
				}
			}
			root := body.Root
			for n, p := range params {
				if p == root {
					root = in.Operands[n]
				}
				replaceUses(body, p, in.Operands[n])
			}
			comp.Instructions = slices.Insert(comp.Instructions, i, moved...)
			replaceUses(comp, in, root)
			return true
		})
	})
}

func originals(m *hlo.Module, comps []*hlo.Computation) []*hlo.Computation {
	var out []*hlo.Computation
	for _, c := range comps {
		out = append(out, m.Computation(c.Name))
	}
	return out
}

// decoration drops what rarely matters: metadata, sharding, layouts,
// aliasing, schedules, module attributes.
func (r *reducer) decoration() {
	r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool {
		for _, c := range m.Computations {
			for _, in := range c.Instructions {
				in.Attr.Metadata, in.Attr.FrontendAttributes, in.Attr.StatisticsViz, in.Attr.OriginalValue = nil, nil, nil, nil
			}
		}
		m.Attr.StackFrameIndex, m.Attr.FrontendAttributes, m.Attr.OriginalValueRecoveryTable = nil, nil, nil
		return true
	})
	r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool {
		if m.EntryLayout == nil {
			return false
		}
		m.EntryLayout = nil
		return true
	})
	r.edit(func(m *hlo.Module, _ *[]*hlo.Literal) bool {
		for _, c := range m.Computations {
			for _, in := range c.Instructions {
				if in.Op == hlo.OpBitcast {
					return false // its meaning rests on the layouts
				}
				in.Shape = in.Shape.WithoutLayout()
			}
		}
		m.EntryLayout = nil
		return true
	})
}

// trace gives the reference's value of every instruction of the entry.
func (r *reducer) trace() map[*hlo.Instruction]*eval.Value {
	args := make([]*eval.Value, len(r.best.Inputs))
	for i, l := range r.best.Inputs {
		args[i] = eval.FromLiteral(l)
	}
	rec, err := record(r.ctx, r.best.Module, args, eval.Options{})
	if err != nil {
		return nil
	}
	return rec.values
}

// ancestors counts the instructions of c above each one.
func ancestors(c *hlo.Computation) map[*hlo.Instruction]int {
	n := map[*hlo.Instruction]int{}
	for _, in := range c.Instructions {
		seen := map[*hlo.Instruction]bool{}
		var walk func(*hlo.Instruction)
		walk = func(x *hlo.Instruction) {
			for _, o := range x.Operands {
				if !seen[o] {
					seen[o] = true
					walk(o)
				}
			}
		}
		if len(c.Instructions) > 2000 { // quadratic; position is good enough
			n[in] = len(n)
			continue
		}
		walk(in)
		n[in] = len(seen)
	}
	return n
}

func replaceUses(c *hlo.Computation, old, with *hlo.Instruction) {
	for _, in := range c.Instructions {
		if in == with {
			continue
		}
		for i, o := range in.Operands {
			if o == old {
				in.Operands[i] = with
			}
		}
		in.ControlPredecessors = slices.DeleteFunc(in.ControlPredecessors, func(p *hlo.Instruction) bool { return p == old })
	}
	if c.Root == old {
		c.Root = with
	}
}

func tupleOf(ops []*hlo.Instruction) *hlo.Shape {
	s := hlo.TupleShape()
	for _, o := range ops {
		s.Elements = append(s.Elements, o.Shape)
	}
	return s
}

// tidy drops dead instructions, computations and parameters of a program,
// renumbers parameters with their inputs, and orders instructions.
func tidy(p Program) Program {
	m := p.Module
	order(m.Entry)
	// Parameters that nothing uses.
	var inputs []*hlo.Literal
	used := map[*hlo.Instruction]bool{m.Entry.Root: true}
	for _, in := range m.Entry.Instructions {
		for _, o := range in.Operands {
			used[o] = true
		}
	}
	changed := false
	next := int64(0)
	for n, param := range m.Entry.Params() {
		if param == nil || !used[param] {
			changed = true
			m.Entry.Instructions = slices.DeleteFunc(m.Entry.Instructions, func(in *hlo.Instruction) bool { return in == param })
			continue
		}
		param.Attr.ParameterNumber = next
		inputs = append(inputs, p.Inputs[n])
		next++
	}
	if changed || m.EntryLayout != nil && (len(m.EntryLayout.Params) != len(inputs) || !m.EntryLayout.Result.Compatible(m.Entry.Root.Shape)) {
		m.EntryLayout = nil
		m.Attr.InputOutputAlias, m.Attr.BufferDonor = nil, nil
		m.TextAttrs = nil
	}
	m.Scheduled = false
	// Computations that nothing calls.
	live := map[*hlo.Computation]bool{}
	var mark func(*hlo.Computation)
	mark = func(c *hlo.Computation) {
		if live[c] {
			return
		}
		live[c] = true
		order(c)
		for _, in := range c.Instructions {
			for _, k := range in.Called {
				mark(k)
			}
		}
	}
	mark(m.Entry)
	m.Computations = slices.DeleteFunc(m.Computations, func(c *hlo.Computation) bool { return !live[c] })
	return Program{m, inputs}
}

// order keeps the parameters and what the root needs, operands first.
func order(c *hlo.Computation) {
	var out []*hlo.Instruction
	seen := map[*hlo.Instruction]bool{}
	var visit func(*hlo.Instruction)
	visit = func(in *hlo.Instruction) {
		if seen[in] {
			return
		}
		seen[in] = true
		for _, o := range in.Operands {
			visit(o)
		}
		for _, o := range in.ControlPredecessors {
			visit(o)
		}
		out = append(out, in)
	}
	for _, in := range c.Instructions {
		if in.Op == hlo.OpParameter {
			visit(in)
		}
	}
	visit(c.Root)
	c.Instructions = out
}
