package triage

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo"
)

// trimLoops brings the loops of a flat module into a normal form: their state
// holds what the condition, the next iterations and the readers of the result
// need, and no more. What an iteration passes on as it is has the value that it
// had before the loop: readers behind the loop get that one; if it is constant,
// so does the loop; and two elements that started with the same value are one.
//
// XLA's while simplifiers do the same, a piece at a time (TryRemoveDeadWhileParams
// and others in while_loop_simplifier.cc): afterwards nothing changed.
func (f *flatModule) trimLoops() {
	called := map[*hlo.Computation]int{}
	names := map[string]bool{}
	loops := false
	for _, c := range f.module.Computations {
		for _, in := range c.Instructions {
			names[in.Name] = true
			loops = loops || in.Op == hlo.OpWhile
			for _, k := range in.Called {
				called[k]++
			}
		}
	}
	if !loops {
		return
	}
	for changed := true; changed; {
		changed = false
		for _, c := range f.module.Computations {
			for _, w := range c.Instructions {
				if w.Op == hlo.OpWhile && called[w.Called[0]] == 1 && called[w.Called[1]] == 1 {
					l := loop{f: f, in: c, while: w, body: w.Called[0], condition: w.Called[1], names: names}
					changed = l.trim() || changed
				}
			}
		}
		if changed {
			for _, c := range f.module.Computations {
				orderAll(c)
			}
		}
	}
}

// loop is a while of a flat module, with the state a tuple.
type loop struct {
	f               *flatModule
	in              *hlo.Computation // holds while
	while           *hlo.Instruction
	body, condition *hlo.Computation
	names           map[string]bool

	init                []*hlo.Instruction
	param, conditioning *hlo.Instruction // parameters of body and condition
}

// trim reports whether it changed the loop.
func (l *loop) trim() bool {
	n := len(l.while.Shape.Elements)
	start, root := l.while.Operands[0], l.body.Root
	if !l.while.Shape.IsTuple() || start.Op != hlo.OpTuple || root.Op != hlo.OpTuple || len(l.while.ControlPredecessors) > 0 {
		return false
	}
	l.param, l.conditioning = onlyParam(l.body), onlyParam(l.condition)
	if l.param == nil || l.conditioning == nil || !takenApart(l.body, l.param) || !takenApart(l.condition, l.conditioning) ||
		slices.ContainsFunc(l.body.Instructions, func(x *hlo.Instruction) bool { return slices.Contains(x.Operands, root) }) {
		return false
	}
	l.init = start.Operands
	changed := l.invariants(root)

	live := make([]bool, n)
	var work []int
	mark := func(k int) {
		if !live[k] {
			live[k] = true
			work = append(work, k)
		}
	}
	whole := l.in.Root == l.while
	for _, x := range l.in.Instructions {
		if slices.Contains(x.Operands, l.while) {
			if x.Op != hlo.OpGetTupleElement {
				whole = true
			} else {
				mark(int(x.Attr.TupleIndex))
			}
		}
	}
	if whole {
		return changed
	}
	for _, x := range needed(l.condition) {
		if x.Op == hlo.OpGetTupleElement && x.Operands[0] == l.conditioning {
			mark(int(x.Attr.TupleIndex))
		}
	}
	for len(work) > 0 {
		k := work[len(work)-1]
		work = work[:len(work)-1]
		for _, x := range neededBy(root.Operands[k]) {
			if x.Op == hlo.OpGetTupleElement && x.Operands[0] == l.param {
				mark(int(x.Attr.TupleIndex))
			}
		}
	}
	if !slices.Contains(live, true) {
		live[0] = true
	}
	if !slices.Contains(live, false) {
		return changed
	}
	l.keep(live, root)
	return true
}

// onlyParam is the parameter of a computation that has one.
func onlyParam(c *hlo.Computation) *hlo.Instruction {
	if p := c.Params(); len(p) == 1 {
		return p[0]
	}
	return nil
}

// takenApart reports whether a tuple is used by its elements only.
func takenApart(c *hlo.Computation, of *hlo.Instruction) bool {
	return c.Root != of && !slices.ContainsFunc(c.Instructions, func(x *hlo.Instruction) bool {
		return x.Op != hlo.OpGetTupleElement && slices.Contains(x.Operands, of)
	})
}

// neededBy are the instructions that in is computed from, in itself among them.
func neededBy(in *hlo.Instruction) []*hlo.Instruction {
	return needed(&hlo.Computation{Root: in})
}

// invariants replaces uses of the elements that an iteration passes on as they
// are, and reports whether there were any.
func (l *loop) invariants(root *hlo.Instruction) bool {
	changed := false
	firsts := map[*hlo.Instruction]int{} // initial value -> its first invariant element
	for k, x := range root.Operands {
		if x.Op != hlo.OpGetTupleElement || x.Operands[0] != l.param || x.Attr.TupleIndex != int64(k) {
			continue
		}
		from := l.init[k]
		changed = l.replace(l.in, l.while, k, func() *hlo.Instruction { return from }) || changed
		first, seen := firsts[from]
		if !seen {
			firsts[from] = k
		}
		for _, side := range []struct {
			c *hlo.Computation
			p *hlo.Instruction
		}{{l.body, l.param}, {l.condition, l.conditioning}} {
			switch {
			case closed(from):
				changed = l.replace(side.c, side.p, k, func() *hlo.Instruction { return l.copied(side.c, from) }) || changed
			case seen:
				changed = l.replace(side.c, side.p, k, func() *hlo.Instruction { return l.element(side.c, side.p, first) }) || changed
			}
		}
	}
	return changed
}

// replace gives the readers of element k of a tuple in c something else. The
// element that the body passes on is no reader.
func (l *loop) replace(c *hlo.Computation, of *hlo.Instruction, k int, with func() *hlo.Instruction) bool {
	var n *hlo.Instruction
	for _, g := range slices.Clone(c.Instructions) {
		if g.Op != hlo.OpGetTupleElement || g.Operands[0] != of || g.Attr.TupleIndex != int64(k) {
			continue
		}
		for _, x := range c.Instructions {
			for i, o := range x.Operands {
				if o != g || x == l.body.Root && i == k {
					continue
				}
				if n == nil {
					n = with()
				}
				x.Operands[i] = n
			}
		}
		if c.Root == g {
			if n == nil {
				n = with()
			}
			c.Root = n
		}
	}
	return n != nil
}

// copied copies a closed instruction into a computation.
func (l *loop) copied(c *hlo.Computation, in *hlo.Instruction) *hlo.Instruction {
	n := *in
	n.Name, n.Attr = unique(l.names, in.Name), proto.CloneOf(in.Attr)
	n.Operands, n.ControlPredecessors = nil, nil
	for _, o := range in.Operands {
		n.Operands = append(n.Operands, l.copied(c, o))
	}
	c.Instructions = append(c.Instructions, &n)
	l.f.origin[&n], l.f.home[&n] = l.f.origin[in], l.f.home[in]
	return &n
}

// element is element k of a tuple in c.
func (l *loop) element(c *hlo.Computation, of *hlo.Instruction, k int) *hlo.Instruction {
	for _, x := range c.Instructions {
		if x.Op == hlo.OpGetTupleElement && x.Operands[0] == of && x.Attr.TupleIndex == int64(k) {
			return x
		}
	}
	g := hlo.NewInstruction(unique(l.names, of.Name+".element"), hlo.OpGetTupleElement, of.Shape.Elements[k], of)
	g.Attr.TupleIndex = int64(k)
	c.Instructions = append(c.Instructions, g)
	l.f.origin[g], l.f.home[g] = l.f.origin[of], l.f.home[of]
	return g
}

// keep drops the elements of the state that are not live.
func (l *loop) keep(live []bool, root *hlo.Instruction) {
	at := make([]int64, len(live))
	shape := &hlo.Shape{Type: l.while.Shape.Type}
	var init, next []*hlo.Instruction
	for k, is := range live {
		at[k] = int64(len(init))
		if is {
			shape.Elements = append(shape.Elements, l.while.Shape.Elements[k])
			init, next = append(init, l.init[k]), append(next, root.Operands[k])
		}
	}
	for _, side := range []struct {
		c  *hlo.Computation
		of *hlo.Instruction
	}{{l.in, l.while}, {l.body, l.param}, {l.condition, l.conditioning}} {
		side.c.Instructions = slices.DeleteFunc(side.c.Instructions, func(x *hlo.Instruction) bool {
			return x.Op == hlo.OpGetTupleElement && x.Operands[0] == side.of && !live[x.Attr.TupleIndex]
		})
		for _, x := range side.c.Instructions {
			if x.Op == hlo.OpGetTupleElement && x.Operands[0] == side.of {
				x.Attr.TupleIndex = at[x.Attr.TupleIndex]
			}
		}
		side.of.Shape = shape
	}
	root.Operands, root.Shape = next, shape
	start := hlo.NewInstruction(unique(l.names, l.while.Operands[0].Name), hlo.OpTuple, shape, init...)
	l.f.origin[start], l.f.home[start] = l.f.origin[l.while.Operands[0]], l.f.home[l.while.Operands[0]]
	l.in.Instructions = append(l.in.Instructions, start)
	l.while.Operands = []*hlo.Instruction{start}
}
