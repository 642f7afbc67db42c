package triage

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// PieceLevel is how far a program was cut.
type PieceLevel int

const (
	// Computations are loops, conditionals, calls and their bodies.
	Computations PieceLevel = iota
	// Fusions are what code generation compiles as one kernel.
	Fusions
	// Operations stand alone, or were taken out of a fusion.
	Operations
	pieceLevels
)

func (l PieceLevel) String() string {
	return [...]string{"computations", "fusions", "operations"}[l]
}

// PieceTally counts the pieces of one level.
type PieceTally struct {
	// Pieces were executed and judged, Unsupported could not be, by the build or
	// by the reference.
	Pieces, Unsupported int
	// Elements of the pieces' results. Loose ones are among Judged: their bounds
	// leave less than half of the digits.
	Judged, Undecided, Loose, Wrong int64
}

func (t *PieceTally) add(u PieceTally) {
	t.Pieces += u.Pieces
	t.Unsupported += u.Unsupported
	t.Judged += u.Judged
	t.Undecided += u.Undecided
	t.Loose += u.Loose
	t.Wrong += u.Wrong
}

// Replay is the judgement of an optimised module piece by piece.
type Replay struct {
	Levels [pieceLevels]PieceTally
	// Why says why pieces are unsupported: texts and how often each came.
	Why map[string]int
	// Faults are the pieces with values outside their legal sets, in the order
	// of execution.
	Faults []PieceFault
}

// PieceFault is a piece that the build computes wrongly on the values that it
// saw.
type PieceFault struct {
	Level       PieceLevel
	Instruction *hlo.Instruction
	Computation *hlo.Computation
	// Program is the piece alone. It is behind the HLO passes.
	Program  Program
	InPlace  bool
	Library  bool
	Elements int64
	Wrong    int64
	Where    Divergence
}

// ReplayLimits bound a replay.
type ReplayLimits struct {
	// Iterations of each loop whose body is judged: the first and last ones.
	Iterations int
	// Faults is where a replay stops; 0 is no limit.
	Faults int
	// Steps of the reference, on all pieces together, behind which further ones
	// are not judged but counted as Unsupported, by NotReached; 0 is no limit.
	Steps int64
	// Timeout of one request.
	Timeout time.Duration
}

// NotReached is why a piece was not judged that the limit on work left out.
const NotReached = "not reached within the work limit"

// ReplayPieces executes an optimised module behind the HLO passes with every
// intermediate value of the entry computation as a further result, copied where
// it is computed, so that kernels, schedule and buffers stay as they are. Each
// instruction is then judged by itself: its legal set comes from the values that
// it really read. Loops, conditionals, calls and fusions that cannot be judged
// so are cut further: their bodies are executed in the same way, loops on the
// states that the reference sees in the first and last iterations.
func ReplayPieces(ctx context.Context, c Compiler, b *builds.Build, optimised *hlo.Module, inputs []*hlo.Literal, options map[string]string, limits ReplayLimits) *Replay {
	r := &replayer{ctx: ctx, c: c, b: b, options: options, limits: limits, out: &Replay{Why: map[string]int{}}}
	r.program(optimised, optimised.Entry, [][]*hlo.Literal{inputs}, Operations, 0)
	return r.out
}

type replayer struct {
	ctx     context.Context
	c       Compiler
	b       *builds.Build
	options map[string]string
	limits  ReplayLimits
	out     *Replay
	steps   int64 // of the reference
}

// maxCutDepth bounds nested loops.
const maxCutDepth = 8

func (r *replayer) unsupported(l PieceLevel, why string) {
	r.out.Levels[l].Unsupported++
	r.out.Why[why]++
}

func (r *replayer) full() bool {
	return r.ctx.Err() != nil || r.limits.Faults > 0 && len(r.out.Faults) >= r.limits.Faults
}

// program executes a module and judges the instructions of its entry, which
// stands for home in the whole module. bare is the level of instructions that
// call nothing.
func (r *replayer) program(m *hlo.Module, home *hlo.Computation, sets [][]*hlo.Literal, bare PieceLevel, depth int) {
	probed, probes := instrument(m)
	data, err := hlo.MarshalModule(probed)
	if err != nil {
		r.unsupported(Computations, err.Error())
		return
	}
	req := worker.Request{Program: data, Format: worker.HLO, Options: r.options, BackendOnly: true, Timeout: r.limits.Timeout}
	for _, inputs := range sets {
		var arrays []worker.Array
		for _, l := range inputs {
			arrays = append(arrays, worker.Array{Type: int32(l.Shape.Type), Dims: l.Shape.Dims, Data: l.Raw})
		}
		req.Inputs = append(req.Inputs, arrays)
	}
	out := r.c.Do(r.ctx, r.b, req)
	if out.Status != worker.OK {
		// A probe that does not run says nothing about the compiler.
		r.unsupported(Computations, "the program with probes: "+probeText(out))
		return
	}
	for s, inputs := range sets {
		set := out.Result.Sets[s]
		if set.Failure != nil || len(set.Distinct) == 0 {
			r.unsupported(Computations, "the program with probes does not run")
			continue
		}
		values, ok := probes.values(m, inputs, set.Distinct[0].Outputs)
		if !ok {
			r.unsupported(Computations, "the program with probes gives other results")
			continue
		}
		for _, in := range m.Entry.Instructions {
			if r.full() {
				return
			}
			if compiled(in) && values[in] != nil {
				r.piece(home, in, values, bare, depth)
			}
		}
	}
}

func probeText(o worker.Outcome) string {
	if o.Failure != nil {
		text := o.Failure.Message
		if len(text) > 120 {
			text = text[:120]
		}
		return fmt.Sprintf("%s: %s", o.Failure.Code, text)
	}
	return o.Status.String()
}

// levelOf says at which level an instruction stands.
func levelOf(in *hlo.Instruction, bare PieceLevel) PieceLevel {
	switch in.Op {
	case hlo.OpWhile, hlo.OpConditional, hlo.OpCall:
		return Computations
	case hlo.OpFusion:
		return Fusions
	}
	return bare
}

// piece judges one instruction on the values that it read, and cuts it further
// where that leaves something open.
func (r *replayer) piece(home *hlo.Computation, in *hlo.Instruction, values map[*hlo.Instruction]*hlo.Literal, bare PieceLevel, depth int) {
	level := levelOf(in, bare)
	if r.limits.Steps > 0 && r.steps >= r.limits.Steps {
		r.unsupported(level, NotReached)
		return
	}
	p := cutOut(in, values)
	if p.Module == nil {
		r.unsupported(level, "a value that it reads is not to be had")
		return
	}
	e := eval.NewEvaluator(r.ctx, eval.Options{Bounds: true, MaxSteps: regionSteps})
	ref, err := e.RunComputation(p.Module.Entry, literalValues(p.Inputs))
	r.steps += e.Steps()
	if r.ctx.Err() != nil {
		return
	}
	got := eval.FromLiteral(values[in])
	if err != nil {
		if !r.descend(in, p, depth) {
			r.unsupported(level, err.Error())
		}
		return
	}
	t := PieceTally{Pieces: 1}
	var where *Divergence
	gots := leaves(got)
	for o, legal := range leaves(ref) {
		if legal.Type != gots[o].Type || legal.Len() != gots[o].Len() {
			r.unsupported(level, errShapes.Error())
			return
		}
		if legal.Sizes != nil {
			t.Undecided += int64(legal.Len())
			continue
		}
		scale := largest(legal)
		for i := range legal.Len() {
			s := gots[o].At(i)
			switch legal.Legal(i, s) {
			case eval.Undecided:
				t.Undecided++
				continue
			case eval.Out:
				if where == nil {
					where = &Divergence{Output: o, At: unravel(i, legal.Dims), Type: legal.Type, Before: legal.LegalSet(i), After: eval.ScalarString(legal.Type, s), Was: legal.At(i), Is: s, Contest: legal.At(i).Contest}
				}
				t.Wrong++
			case eval.In:
				if scale > 0 && loose(legal, gots[o], i, scale) {
					t.Loose++
				}
			}
			t.Judged++
		}
	}
	r.out.Levels[level].add(t)
	wrongBelow := len(r.out.Faults)
	if t.Undecided+t.Loose > 0 || where != nil && level == Computations {
		r.descend(in, p, depth)
	}
	if where != nil && len(r.out.Faults) == wrongBelow {
		r.out.Faults = append(r.out.Faults, PieceFault{Level: level, Instruction: in, Computation: home, Program: p, InPlace: inPlace(in), Library: library(in),
			Elements: t.Judged, Wrong: t.Wrong, Where: *where})
	}
}

// descend cuts an instruction that calls computations. It reports whether
// there was anything to cut.
func (r *replayer) descend(in *hlo.Instruction, p Program, depth int) bool {
	if depth >= maxCutDepth {
		return false
	}
	switch in.Op {
	case hlo.OpFusion, hlo.OpCall, hlo.OpWhile, hlo.OpConditional:
	default:
		return false
	}
	root := p.Module.Entry.Root
	runs := bodyRuns(r.ctx, p, root, r.limits.Iterations)
	for k, body := range root.Called {
		if sets := runs[body]; len(sets) > 0 {
			m, inputs, ok := asProgram(p.Module, body, sets)
			if !ok {
				r.unsupported(levelOf(in, Operations), "a body with a state that cannot be handed over")
				continue
			}
			r.program(m, in.Called[k], inputs, Operations, depth+1)
		}
	}
	return true
}

// bodyRuns are the arguments with which the computations that root calls run in
// a program: for each the first and the last ones, at most n.
func bodyRuns(ctx context.Context, p Program, root *hlo.Instruction, n int) map[*hlo.Computation][][]*eval.Value {
	n = max(n, 1)
	of := map[*hlo.Instruction]*hlo.Computation{}
	runs := map[*hlo.Computation][][]*eval.Value{}
	params := map[*hlo.Computation]int{}
	for _, c := range root.Called {
		for _, in := range c.Params() {
			if in != nil {
				of[in] = c
			}
		}
		params[c] = len(c.Params())
	}
	add := func(c *hlo.Computation, args []*eval.Value) {
		rs := runs[c]
		if len(rs) >= n {
			rs = append(slices.Clone(rs[:(n+1)/2]), rs[(n+1)/2+1:]...)
		}
		runs[c] = append(rs, args)
	}
	open := map[*hlo.Computation][]*eval.Value{}
	o := eval.Options{MaxSteps: regionSteps}
	o.Trace = func(in *hlo.Instruction, v *eval.Value) {
		c := of[in]
		if c == nil {
			return
		}
		k := in.Attr.ParameterNumber
		if open[c] == nil || open[c][k] != nil {
			open[c] = make([]*eval.Value, params[c])
			add(c, open[c])
		}
		open[c][k] = v
	}
	_, _ = eval.Run(ctx, p.Module, literalValues(p.Inputs), o) // as far as it gets
	return runs
}

// asProgram makes a program of a computation. Its parameters are the arrays in
// the computation's parameters, copied, so that updates in place stay so.
func asProgram(m *hlo.Module, c *hlo.Computation, runs [][]*eval.Value) (*hlo.Module, [][]*hlo.Literal, bool) {
	m = m.Clone()
	c = m.Computation(c.Name)
	inputs := make([][]*hlo.Literal, len(runs))
	var front, made []*hlo.Instruction
	ok := true
	var open func(s *hlo.Shape, name string, at func(run int) *eval.Value) *hlo.Instruction
	open = func(s *hlo.Shape, name string, at func(run int) *eval.Value) *hlo.Instruction {
		if s.IsTuple() {
			var ops []*hlo.Instruction
			for i, e := range s.Elements {
				ops = append(ops, open(e, fmt.Sprintf("%s.%d", name, i), func(run int) *eval.Value {
					if v := at(run); v != nil && i < len(v.Elements) {
						return v.Elements[i]
					}
					return nil
				}))
			}
			t := hlo.NewInstruction("tuple."+name, hlo.OpTuple, s.Clone(), ops...)
			made = append(made, t)
			return t
		}
		if !s.IsArray() || s.IsDynamic() {
			ok = false
			return nil
		}
		p := hlo.NewInstruction("arg."+name, hlo.OpParameter, s.Clone())
		p.Attr.ParameterNumber = int64(len(front))
		for run := range runs {
			lit := hloLiteral(at(run), s)
			inputs[run] = append(inputs[run], lit)
		}
		front = append(front, p)
		cp := hlo.NewInstruction("copy."+name, hlo.OpCopy, s.Clone(), p)
		made = append(made, cp)
		return cp
	}
	for k, p := range c.Params() {
		if p == nil {
			return nil, nil, false
		}
		with := open(p.Shape, p.Name, func(run int) *eval.Value { return runs[run][k] })
		if !ok {
			return nil, nil, false
		}
		replaceUses(c, p, with)
	}
	var rest []*hlo.Instruction
	for _, in := range c.Instructions {
		if in.Op != hlo.OpParameter {
			rest = append(rest, in)
		}
	}
	c.Instructions = slices.Concat(front, made, rest)
	c.Attr.IsFusionComputation = false
	m.Entry = c
	m.EntryLayout = nil
	m.Attr.InputOutputAlias, m.Attr.BufferDonor = nil, nil
	m.Computations = callees([]*hlo.Computation{c}, nil)
	m.Scheduled = true
	return m, inputs, true
}

// hloLiteral is a value in the storage type; a parameter that nothing reads has
// none, and gets a made-up one.
func hloLiteral(v *eval.Value, s *hlo.Shape) *hlo.Literal {
	if v != nil {
		if l, err := v.Literal(s.WithoutLayout()); err == nil {
			return l
		}
	}
	return made(s, 0)
}

// probeSet says where the results of a module with probes hold what.
type probeSet struct {
	root   int // leaves of the root come first
	leaves []probe
}

type probe struct {
	in   *hlo.Instruction // of the module without probes
	leaf int
}

// instrument adds a copy of every array that the entry computes to the results
// of a scheduled module, right behind the instruction that computes it.
func instrument(m *hlo.Module) (*hlo.Module, *probeSet) {
	n := m.Clone()
	set := &probeSet{root: len(m.Entry.Root.Shape.Leaves())}
	var copies, body []*hlo.Instruction
	names := map[string]bool{}
	for _, c := range n.Computations {
		for _, in := range c.Instructions {
			names[in.Name] = true
		}
	}
	for i, in := range n.Entry.Instructions {
		body = append(body, in)
		old := m.Entry.Instructions[i]
		if !compiled(old) {
			continue
		}
		leaf := 0
		var probes func(x *hlo.Instruction)
		probes = func(x *hlo.Instruction) {
			if x.Shape.IsTuple() {
				for k, e := range x.Shape.Elements {
					g := hlo.NewInstruction(unique(names, "probe.element"), hlo.OpGetTupleElement, e.Clone(), x)
					g.Attr.TupleIndex = int64(k)
					body = append(body, g)
					probes(g)
				}
				return
			}
			if x.Shape.IsArray() && !x.Shape.IsDynamic() {
				s := x.Shape.WithoutLayout()
				s.Layout = hlo.DefaultLayout(s.Rank())
				c := hlo.NewInstruction(unique(names, "probe"), hlo.OpCopy, s, x)
				body = append(body, c)
				copies = append(copies, c)
				set.leaves = append(set.leaves, probe{old, leaf})
			}
			leaf++
		}
		probes(in)
	}
	root := n.Entry.Root
	ops := []*hlo.Instruction{root}
	if root.Op == hlo.OpTuple {
		ops = slices.Clone(root.Operands)
	} else if root.Shape.IsTuple() {
		ops = nil
		for k, e := range root.Shape.Elements {
			g := hlo.NewInstruction(unique(names, "result"), hlo.OpGetTupleElement, e.Clone(), root)
			g.Attr.TupleIndex = int64(k)
			body = append(body, g)
			ops = append(ops, g)
		}
	}
	ops = append(ops, copies...)
	t := hlo.NewInstruction(unique(names, "probes"), hlo.OpTuple, tupleOf(ops), ops...)
	t.Shape = t.Shape.Clone()
	n.Entry.Instructions = append(body, t)
	n.Entry.Root = t
	if n.EntryLayout != nil {
		n.EntryLayout.Result = t.Shape.Clone()
	}
	n.Attr.InputOutputAlias, n.Attr.BufferDonor = nil, nil
	n.Scheduled = true
	return n, set
}

// values are the recorded values of the instructions of m's entry, parameters
// included.
func (s *probeSet) values(m *hlo.Module, inputs []*hlo.Literal, outputs []worker.Array) (map[*hlo.Instruction]*hlo.Literal, bool) {
	if len(outputs) != s.root+len(s.leaves) {
		return nil, false
	}
	out := map[*hlo.Instruction]*hlo.Literal{}
	for k, p := range m.Entry.Params() {
		if p != nil && k < len(inputs) {
			out[p] = inputs[k]
		}
	}
	parts := map[*hlo.Instruction]map[int]*hlo.Literal{}
	for i, p := range s.leaves {
		a := outputs[s.root+i]
		lit := &hlo.Literal{Shape: hlo.ArrayShape(hlo.PrimitiveType(a.Type), a.Dims...), Raw: a.Data}
		if t := lit.Shape.Type; t.IsSigned() && t.Bits() < 8 {
			for e := range int64(len(a.Data)) {
				lit.SetInt(e, lit.Int(e)) // sign-extends
			}
		}
		if parts[p.in] == nil {
			parts[p.in] = map[int]*hlo.Literal{}
		}
		parts[p.in][p.leaf] = lit
	}
	for in, of := range parts {
		leaf := 0
		if lit := assemble(in.Shape, of, &leaf); lit != nil {
			out[in] = lit
		}
	}
	return out, true
}

// assemble puts the leaves of a shape together; nil if one is missing.
func assemble(s *hlo.Shape, of map[int]*hlo.Literal, leaf *int) *hlo.Literal {
	if !s.IsTuple() {
		*leaf++
		return of[*leaf-1]
	}
	t := &hlo.Literal{Shape: s.WithoutLayout()}
	for _, e := range s.Elements {
		x := assemble(e, of, leaf)
		if x == nil {
			return nil
		}
		t.Elements = append(t.Elements, x)
	}
	return t
}

// cutOut makes a program of one instruction of m's entry: what it reads are
// parameters with the recorded values, taken apart where they are tuples. Moves
// without code of their own (bitcasts, tuples) go with it.
func cutOut(in *hlo.Instruction, values map[*hlo.Instruction]*hlo.Literal) Program {
	b := newPiece("piece")
	var inputs []*hlo.Literal
	var params []*hlo.Instruction
	array := func(name string, s *hlo.Shape, lit *hlo.Literal) *hlo.Instruction {
		p := hlo.NewInstruction(unique(b.names, "p."+name), hlo.OpParameter, s.Clone())
		p.Attr.ParameterNumber = int64(len(params))
		params = append(params, p)
		inputs = append(inputs, lit)
		return p
	}
	var whole func(x *hlo.Instruction, name string, s *hlo.Shape, lit *hlo.Literal) *hlo.Instruction
	whole = func(x *hlo.Instruction, name string, s *hlo.Shape, lit *hlo.Literal) *hlo.Instruction {
		if !s.IsTuple() {
			return array(name, s, lit)
		}
		var ops []*hlo.Instruction
		for i, e := range s.Elements {
			ops = append(ops, whole(x, fmt.Sprintf("%s.%d", name, i), e, lit.Elements[i]))
		}
		t := hlo.NewInstruction(unique(b.names, "t."+name), hlo.OpTuple, s.Clone(), ops...)
		b.body = append(b.body, t)
		return t
	}
	ok := true
	var read func(x *hlo.Instruction) *hlo.Instruction
	read = func(x *hlo.Instruction) *hlo.Instruction {
		if n := b.is[x]; n != nil {
			return n
		}
		lit := values[x]
		switch {
		case x.Op == hlo.OpConstant, lit == nil && !compiled(x) && x.Op != hlo.OpParameter:
			n := *x
			n.Attr = proto.CloneOf(x.Attr)
			n.Name = unique(b.names, x.Name)
			n.Operands, n.ControlPredecessors = nil, nil
			if x.Op == hlo.OpGetTupleElement && values[x.Operands[0]] != nil && x.Shape.IsArray() {
				b.is[x] = array(x.Name, x.Shape, values[x.Operands[0]].Elements[x.Attr.TupleIndex])
				return b.is[x]
			}
			for _, o := range x.Operands {
				n.Operands = append(n.Operands, read(o))
			}
			b.body = append(b.body, &n)
			b.is[x] = &n
		case lit == nil:
			ok = false
			return nil
		default:
			b.is[x] = whole(x, x.Name, x.Shape, lit)
		}
		return b.is[x]
	}
	root := *in
	root.Attr = proto.CloneOf(in.Attr)
	root.Operands, root.ControlPredecessors = nil, nil
	for _, o := range in.Operands {
		root.Operands = append(root.Operands, read(o))
	}
	if !ok {
		return Program{}
	}
	root.Name = unique(b.names, in.Name)
	out := hlo.NewModule("piece")
	out.Entry = hlo.NewComputation("entry")
	out.Entry.Instructions = slices.Concat(params, b.body, []*hlo.Instruction{&root})
	out.Entry.Root = &root
	out.Computations = append(callees(in.Called, nil), out.Entry)
	out.Scheduled = true
	return Program{out.Clone(), inputs}
}

// Plain is a piece of an optimised module as a program that can go through all
// passes: fusions, copies and layouts are gone. It has no module if the piece
// is nothing without them.
func Plain(p Program) Program {
	m := flatten(p.Module).module
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			if in.Op == hlo.OpBitcast {
				return Program{} // rests on layouts
			}
		}
	}
	m.Name = "piece"
	// Bodies come before what calls them.
	m.Computations = callees([]*hlo.Computation{m.Entry}, nil)
	if hlo.Verify(m) != nil {
		return Program{}
	}
	return Program{m, p.Inputs}
}

// WideElements counts the elements of a value that are decided, but with
// bounds that leave less than half of the digits of their type.
func WideElements(v *eval.Value) int64 {
	n := int64(0)
	for _, a := range leaves(v) {
		if scale := largest(a); scale > 0 {
			for i := range a.Len() {
				if x := a.At(i); !math.IsInf(x.Re.E, 0) && !math.IsInf(x.Im.E, 0) && loose(a, a, i, 2*scale) {
					n++
				}
			}
		}
	}
	return n
}

// Source is the line of the user's program that an instruction came from,
// "file:line"; "" if it has none.
func Source(in *hlo.Instruction) string { return source(in) }
