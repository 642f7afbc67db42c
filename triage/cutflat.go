package triage

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo"
)

// flatModule is a module as plain data flow: calls and fusions are inlined,
// what only moves values in memory (copies, layouts, tuples that are taken
// apart at once) is gone, and what no root needs is gone. Passes that only
// fuse, outline, copy or lay out leave it as it was.
//
// Loops and conditionals stay, with flat bodies; the state of loops is what they
// need (see trimLoops). Bodies of reductions, sorts
// and the like stay as they are: they are part of the operation.
type flatModule struct {
	module *hlo.Module
	// origin is the instruction of the original module behind each one.
	origin map[*hlo.Instruction]*hlo.Instruction
	// home is the computation of the original module that holds the origin.
	home map[*hlo.Instruction]*hlo.Computation
}

// flatten makes the flat form of a module, which it leaves alone.
func flatten(m *hlo.Module) *flatModule {
	f := &flattener{
		out:   &flatModule{hlo.NewModule("flat"), map[*hlo.Instruction]*hlo.Instruction{}, map[*hlo.Instruction]*hlo.Computation{}},
		done:  map[*hlo.Computation]*hlo.Computation{},
		kept:  map[*hlo.Computation]*hlo.Computation{},
		names: map[string]bool{},
		comps: map[string]bool{},
		tuple: map[tupleElement]*hlo.Instruction{},
	}
	// The names of the entry come first: they are kept where two are the same.
	f.out.module.Entry = f.control(m.Entry)
	f.out.trimLoops()
	return f.out
}

type tupleElement struct {
	of    *hlo.Instruction
	index int64
}

type flattener struct {
	out   *flatModule
	done  map[*hlo.Computation]*hlo.Computation // entry, bodies, branches
	kept  map[*hlo.Computation]*hlo.Computation // copies of the others
	names map[string]bool
	comps map[string]bool
	tuple map[tupleElement]*hlo.Instruction // get-tuple-elements that exist
	into  *hlo.Computation                  // being built
	home  *hlo.Computation                  // being read
}

// control flattens a computation that runs by itself.
func (f *flattener) control(c *hlo.Computation) *hlo.Computation {
	if n := f.done[c]; n != nil {
		return n
	}
	into, home := f.into, f.home
	n := hlo.NewComputation(unique(f.comps, c.Name))
	f.into = n
	args := map[int64]*hlo.Instruction{}
	for _, p := range c.Instructions {
		if p.Op == hlo.OpParameter {
			f.home = c
			q := f.add(p, p.Op, p.Shape.WithoutLayout())
			args[p.Attr.ParameterNumber] = q
		}
	}
	n.Root = f.inline(c, args)
	orderAll(n)
	f.into, f.home = into, home
	f.done[c] = n
	f.out.module.Computations = append(f.out.module.Computations, n)
	return n
}

// inline adds the instructions of c that its root needs and returns what the
// root became.
func (f *flattener) inline(c *hlo.Computation, args map[int64]*hlo.Instruction) *hlo.Instruction {
	home := f.home
	is := map[*hlo.Instruction]*hlo.Instruction{}
	for _, in := range needed(c) {
		f.home = c
		ops := make([]*hlo.Instruction, len(in.Operands))
		for i, o := range in.Operands {
			ops[i] = is[o]
		}
		is[in] = f.instruction(in, ops, args)
	}
	f.home = home
	return is[c.Root]
}

func (f *flattener) instruction(in *hlo.Instruction, ops []*hlo.Instruction, args map[int64]*hlo.Instruction) *hlo.Instruction {
	switch in.Op {
	case hlo.OpParameter:
		return args[in.Attr.ParameterNumber]
	case hlo.OpCopy, hlo.OpOptBarrier, hlo.OpDomain:
		return ops[0]
	case hlo.OpGetTupleElement:
		return f.element(in, ops[0], in.Attr.TupleIndex)
	case hlo.OpTuple:
		// A tuple of all the elements of another is that tuple.
		if len(ops) > 0 && ops[0].Op == hlo.OpGetTupleElement {
			whole := ops[0].Operands[0]
			same := len(whole.Shape.Elements) == len(ops)
			for i, o := range ops {
				same = same && o.Op == hlo.OpGetTupleElement && o.Operands[0] == whole && o.Attr.TupleIndex == int64(i)
			}
			if same {
				return whole
			}
		}
	case hlo.OpCall, hlo.OpFusion:
		if len(in.Called) == 1 {
			inner := map[int64]*hlo.Instruction{}
			for i, o := range ops {
				inner[int64(i)] = o
			}
			return f.inline(in.Called[0], inner)
		}
	case hlo.OpCopyDone:
		if ops[0].Op == hlo.OpCopyStart {
			return ops[0].Operands[0]
		}
	case hlo.OpAsyncDone:
		start := ops[0]
		for start.Op == hlo.OpAsyncUpdate {
			start = start.Operands[0]
		}
		if wrapped := f.out.origin[start].Called; start.Op == hlo.OpAsyncStart && len(wrapped) == 1 {
			inner := map[int64]*hlo.Instruction{}
			for i, o := range start.Operands {
				inner[int64(i)] = o
			}
			return f.inline(wrapped[0], inner)
		}
	case hlo.OpBitcast:
		return f.bitcast(in, ops[0])
	case hlo.OpReshape:
		return f.reshape(in, ops[0], in.Shape)
	case hlo.OpTranspose:
		return f.transpose(in, ops[0], in.Dimensions(), in.Shape)
	}
	shape := in.Shape.WithoutLayout()
	if in.Op == hlo.OpCustomCall {
		shape = in.Shape.Clone()
	}
	n := f.add(in, in.Op, shape, ops...)
	n.Literal = in.Literal
	for _, s := range in.OperandLayouts {
		n.OperandLayouts = append(n.OperandLayouts, s.Clone())
	}
	for _, k := range in.Called {
		if in.Op == hlo.OpWhile || in.Op == hlo.OpConditional {
			n.Called = append(n.Called, f.control(k))
		} else {
			n.Called = append(n.Called, f.keep(k))
		}
	}
	return n
}

// add makes an instruction that stands for in.
func (f *flattener) add(in *hlo.Instruction, op hlo.Opcode, shape *hlo.Shape, ops ...*hlo.Instruction) *hlo.Instruction {
	n := hlo.NewInstruction(unique(f.names, in.Name), op, shape, ops...)
	if op == in.Op {
		n.Attr = proto.CloneOf(in.Attr)
		n.Attr.Sharding, n.Attr.FrontendAttributes, n.Attr.OriginalValue, n.Attr.StatisticsViz = nil, nil, nil, nil
		if op != hlo.OpCustomCall {
			n.Attr.BackendConfig, n.Attr.BackendConfigPayload = nil, nil
		}
	} else {
		n.Attr.Metadata = in.Attr.GetMetadata()
	}
	f.into.Instructions = append(f.into.Instructions, n)
	f.out.origin[n], f.out.home[n] = in, f.home
	return n
}

// element takes a tuple apart.
func (f *flattener) element(in, of *hlo.Instruction, index int64) *hlo.Instruction {
	if of.Op == hlo.OpTuple && index >= 0 && index < int64(len(of.Operands)) {
		return of.Operands[index]
	}
	key := tupleElement{of, index}
	if f.tuple[key] == nil {
		n := f.add(in, hlo.OpGetTupleElement, in.Shape.WithoutLayout(), of)
		n.Attr.TupleIndex = index
		f.tuple[key] = n
	}
	return f.tuple[key]
}

func (f *flattener) reshape(in, of *hlo.Instruction, to *hlo.Shape) *hlo.Instruction {
	if to.IsDynamic() || of.Shape.IsDynamic() {
		return f.add(in, hlo.OpReshape, to.WithoutLayout(), of)
	}
	if slices.Equal(to.Dims, of.Shape.Dims) {
		return of
	}
	if of.Op == hlo.OpReshape && !of.Operands[0].Shape.IsDynamic() {
		return f.reshape(in, of.Operands[0], to)
	}
	n := f.add(in, hlo.OpReshape, hlo.ArrayShape(to.Type, slices.Clone(to.Dims)...), of)
	n.Attr.Dimensions = nil
	return n
}

// transpose moves dimensions; where only dimensions of one element move, it is
// a reshape.
func (f *flattener) transpose(in, of *hlo.Instruction, dims []int64, to *hlo.Shape) *hlo.Instruction {
	if to.IsDynamic() || of.Shape.IsDynamic() || len(dims) != len(of.Shape.Dims) {
		n := f.add(in, hlo.OpTranspose, to.WithoutLayout(), of)
		n.Attr.Dimensions = dims
		return n
	}
	last, moves := int64(-1), false
	for _, d := range dims {
		if of.Shape.Dims[d] != 1 {
			moves = moves || d < last
			last = d
		}
	}
	if !moves {
		return f.reshape(in, of, to)
	}
	if of.Op == hlo.OpTranspose && !of.Operands[0].Shape.IsDynamic() {
		through := make([]int64, len(dims))
		for i, d := range dims {
			through[i] = of.Attr.Dimensions[d]
		}
		return f.transpose(in, of.Operands[0], through, to)
	}
	n := f.add(in, hlo.OpTranspose, hlo.ArrayShape(to.Type, slices.Clone(to.Dims)...), of)
	n.Attr.Dimensions = slices.Clone(dims)
	return n
}

// bitcast writes a bitcast between plain layouts as what it does to the
// elements: to the order in memory, reshaped, and back. Others keep the layouts
// that they rest on.
func (f *flattener) bitcast(in, of *hlo.Instruction) *hlo.Instruction {
	from, to := in.Operands[0].Shape, in.Shape
	if from.Type == to.Type && plainLayout(from) && plainLayout(to) {
		memory := func(s *hlo.Shape) (major, dims []int64) {
			if s.Layout == nil {
				return hlo.DefaultLayout(s.Rank()).MinorToMajor, s.Dims
			}
			for _, d := range slices.Backward(s.Layout.MinorToMajor) {
				major = append(major, d)
				dims = append(dims, s.Dims[d])
			}
			return major, dims
		}
		majorFrom, dimsFrom := memory(from)
		majorTo, dimsTo := memory(to)
		if from.Layout == nil {
			slices.Reverse(majorFrom)
		}
		if to.Layout == nil {
			slices.Reverse(majorTo)
		}
		x := f.transpose(in, of, majorFrom, hlo.ArrayShape(to.Type, dimsFrom...))
		x = f.reshape(in, x, hlo.ArrayShape(to.Type, dimsTo...))
		back := make([]int64, len(majorTo))
		for i, d := range majorTo {
			back[d] = int64(i)
		}
		return f.transpose(in, x, back, hlo.ArrayShape(to.Type, to.Dims...))
	}
	laid := f.add(in, hlo.OpCopy, from.Clone(), of)
	return f.add(in, hlo.OpBitcast, to.Clone(), laid)
}

func plainLayout(s *hlo.Shape) bool {
	l := s.Layout
	return s.IsArray() && !s.IsDynamic() && (l == nil || len(l.Tiles) == 0 && len(l.DimLevelTypes) == 0 && l.TailPaddingAlignment <= 1 && l.PhysicalShape == nil && len(l.MinorToMajor) == s.Rank())
}

// keep copies a computation that belongs to an operation, with its calls and
// fusions inlined.
func (f *flattener) keep(c *hlo.Computation) *hlo.Computation {
	if n := f.kept[c]; n != nil {
		return n
	}
	n := hlo.NewComputation(unique(f.comps, c.Name))
	names := map[string]bool{}
	add := func(in *hlo.Instruction, ops []*hlo.Instruction) *hlo.Instruction {
		k := hlo.NewInstruction(unique(names, in.Name), in.Op, in.Shape.Clone(), ops...)
		k.Attr, k.Literal = proto.CloneOf(in.Attr), in.Literal
		for _, s := range in.OperandLayouts {
			k.OperandLayouts = append(k.OperandLayouts, s.Clone())
		}
		for _, called := range in.Called {
			k.Called = append(k.Called, f.keep(called))
		}
		n.Instructions = append(n.Instructions, k)
		return k
	}
	var body func(c *hlo.Computation, is map[*hlo.Instruction]*hlo.Instruction) *hlo.Instruction
	body = func(c *hlo.Computation, is map[*hlo.Instruction]*hlo.Instruction) *hlo.Instruction {
		for _, in := range needed(c) {
			if is[in] != nil {
				continue // a parameter
			}
			ops := make([]*hlo.Instruction, len(in.Operands))
			for i, o := range in.Operands {
				ops[i] = is[o]
			}
			switch {
			case (in.Op == hlo.OpCall || in.Op == hlo.OpFusion) && len(in.Called) == 1 && len(in.Called[0].Params()) == len(ops):
				inner := map[*hlo.Instruction]*hlo.Instruction{}
				for i, p := range in.Called[0].Params() {
					inner[p] = ops[i]
				}
				is[in] = body(in.Called[0], inner)
			case in.Op == hlo.OpGetTupleElement && ops[0].Op == hlo.OpTuple:
				is[in] = ops[0].Operands[in.Attr.TupleIndex]
			default:
				is[in] = add(in, ops)
			}
		}
		return is[c.Root]
	}
	params := map[*hlo.Instruction]*hlo.Instruction{}
	for _, p := range c.Instructions {
		if p.Op == hlo.OpParameter {
			params[p] = add(p, nil)
		}
	}
	n.Root = body(c, params)
	orderAll(n)
	f.kept[c] = n
	f.out.module.Computations = append(f.out.module.Computations, n)
	return n
}

// needed are the instructions of c that its root needs, operands first.
func needed(c *hlo.Computation) []*hlo.Instruction {
	var out []*hlo.Instruction
	const open, done = 1, 2
	state := map[*hlo.Instruction]int{}
	stack := []*hlo.Instruction{c.Root}
	for len(stack) > 0 {
		in := stack[len(stack)-1]
		if state[in] == 0 {
			state[in] = open
			for _, o := range slices.Backward(in.Operands) {
				if state[o] == 0 {
					stack = append(stack, o)
				}
			}
			continue
		}
		if state[in] == open {
			state[in] = done
			out = append(out, in)
		}
		stack = stack[:len(stack)-1]
	}
	return out
}

// orderAll drops what the root of c does not need, parameters excepted.
func orderAll(c *hlo.Computation) {
	var out []*hlo.Instruction
	for _, in := range c.Instructions {
		if in.Op == hlo.OpParameter {
			out = append(out, in)
		}
	}
	for _, in := range needed(c) {
		if in.Op != hlo.OpParameter {
			out = append(out, in)
		}
	}
	c.Instructions = out
}

func unique(taken map[string]bool, name string) string {
	n := name
	for i := 1; taken[n]; i++ {
		n = fmt.Sprintf("%s.%d", name, i)
	}
	taken[n] = true
	return n
}
