package eval

import (
	"slices"

	"github.com/passgate/passgate/hlo"
)

// callee is a computation on scalars (the to_apply of reduce, sort, scatter,
// map, ...) prepared for many calls. One whose instructions are all
// elementwise is compiled to straight code; any other is evaluated by the
// evaluator with scalars as arrays.
type callee struct {
	e     *Evaluator
	comp  *hlo.Computation
	types []hlo.PrimitiveType // of the parameters
	roots []hlo.PrimitiveType // of the results (the elements of a tuple root)
	tuple bool
	kinds []bodyKind // of the results

	simple   bool // compiled
	code     []scalarStep
	params   []int               // registers of the parameters
	outs     []int               // registers of the results
	consts   []Scalar            // initial values of the registers
	regTypes []hlo.PrimitiveType // of the registers
	regs     []Scalar
	arg      []Scalar
	result   []Scalar
}

type scalarStep struct {
	dst    int
	args   []int
	scalar scalarFunc
	column columnFunc
}

// callee prepares a computation whose parameters and results are scalars;
// other computations are malformed as to_apply of in.
func (e *Evaluator) callee(in *hlo.Instruction, c *hlo.Computation) (*callee, error) {
	if k := e.callees[c]; k != nil {
		return k, nil
	}
	k := &callee{e: e, comp: c}
	for i, p := range c.Params() {
		if p == nil || !p.Shape.IsArray() || p.Shape.Rank() != 0 {
			return nil, malformed(in, "parameter %d of %s is not a scalar", i, c.Name)
		}
		k.types = append(k.types, p.Shape.Type)
	}
	k.tuple = c.Root.Shape.IsTuple()
	for _, s := range c.Root.Shape.Leaves() {
		if !s.IsArray() || s.Rank() != 0 {
			return nil, malformed(in, "the result of %s is not made of scalars", c.Name)
		}
		k.roots = append(k.roots, s.Type)
	}
	k.compile()
	k.kinds = bodyKinds(c)
	k.result = make([]Scalar, len(k.roots))
	e.callees[c] = k
	return k, nil
}

// compile sets code, params and outs if every instruction is elementwise.
func (k *callee) compile() {
	c := &scalarCompiler{callee: k}
	args := make([][]int, len(k.types))
	for i, t := range k.types {
		args[i] = []int{c.register(t, Scalar{})}
	}
	outs, ok := c.computation(k.comp, args)
	if !ok {
		return
	}
	k.simple, k.code, k.outs = true, c.code, outs
	for _, a := range args {
		k.params = append(k.params, a[0])
	}
	k.regs = slices.Clone(k.consts)
	most := 0
	for _, s := range k.code {
		most = max(most, len(s.args))
	}
	k.arg = make([]Scalar, most)
}

type scalarCompiler struct {
	*callee
	code []scalarStep
}

// register makes a register with an initial value (that of a constant).
func (c *scalarCompiler) register(t hlo.PrimitiveType, s Scalar) int {
	c.consts = append(c.consts, s)
	c.regTypes = append(c.regTypes, t)
	return len(c.consts) - 1
}

// computation compiles a computation whose parameters lie in the given
// registers (one per leaf) and returns those of its result.
func (c *scalarCompiler) computation(comp *hlo.Computation, args [][]int) ([]int, bool) {
	p, err := c.e.program(comp)
	if err != nil {
		return nil, false
	}
	regs := make([][]int, len(p.instructions))
	for i, in := range p.instructions {
		var operands []int
		for _, o := range p.operands[i] {
			operands = append(operands, regs[o]...)
		}
		switch in.Op {
		case hlo.OpParameter:
			n := int(in.Attr.ParameterNumber)
			if n >= len(args) {
				return nil, false
			}
			regs[i] = args[n]
			continue
		case hlo.OpTuple:
			regs[i] = operands
			continue
		case hlo.OpGetTupleElement:
			n := int(in.Attr.TupleIndex)
			// Only tuples of scalars: one register per element.
			if n >= len(operands) || len(in.Operands[0].Shape.Elements) != len(operands) {
				return nil, false
			}
			regs[i] = operands[n : n+1]
			continue
		case hlo.OpCall, hlo.OpFusion, hlo.OpMap:
			if len(in.Called) != 1 || !scalarLeaves(in.Shape) {
				return nil, false
			}
			var nested [][]int
			for _, o := range p.operands[i] {
				nested = append(nested, regs[o])
			}
			outs, ok := c.computation(in.Called[0], nested)
			if !ok {
				return nil, false
			}
			regs[i] = outs
			continue
		}
		if !in.Shape.IsArray() || in.Shape.Rank() != 0 {
			return nil, false
		}
		switch in.Op {
		case hlo.OpConstant:
			regs[i] = []int{c.register(in.Shape.Type, LiteralScalar(in.Literal, 0))}
			continue
		case hlo.OpCopy, hlo.OpReshape, hlo.OpBroadcast, hlo.OpTranspose, hlo.OpOptBarrier:
			if s := in.Operands[0].Shape; !s.IsArray() || s.Rank() != 0 {
				return nil, false
			}
			regs[i] = operands
			continue
		}
		if !slices.ContainsFunc(in.Operands, func(o *hlo.Instruction) bool { return o.Shape.Rank() != 0 }) {
			if s, f := elementwiseScalar(in), elementwise(in); s != nil && f != nil {
				dst := c.register(in.Shape.Type, Scalar{})
				c.code = append(c.code, scalarStep{dst, operands, s, f})
				regs[i] = []int{dst}
				continue
			}
		}
		return nil, false
	}
	return regs[p.root], true
}

func scalarLeaves(s *hlo.Shape) bool {
	for _, l := range s.Leaves() {
		if !l.IsArray() || l.Rank() != 0 {
			return false
		}
	}
	return true
}

// call evaluates the computation on one scalar per parameter. The result is
// valid until the next call.
func (k *callee) call(args ...Scalar) ([]Scalar, error) {
	if k.simple {
		for i, p := range k.params {
			k.regs[p] = args[i]
		}
		for i := range k.code {
			s := &k.code[i]
			a := k.arg[:len(s.args)]
			for j, r := range s.args {
				a[j] = k.regs[r]
			}
			k.regs[s.dst] = s.scalar(&k.e.num, a)
		}
		for i, r := range k.outs {
			k.result[i] = k.regs[r]
		}
		return k.result, nil
	}
	values := make([]*Value, len(args))
	for i, s := range args {
		values[i] = arrayValue(Fill(s, k.types[i]))
	}
	v, err := k.e.call(k.comp, values)
	if err != nil {
		return nil, err
	}
	for i, a := range leaves(v) {
		k.result[i] = a.At(0)
	}
	return k.result, nil
}

// columns evaluates the computation elementwise on one array per parameter,
// all of the same dimensions, and returns one array per result.
func (k *callee) columns(args []*Array) ([]*Array, error) {
	n := args[0].Len()
	if k.simple {
		if err := k.e.spend(int64(n) * int64(len(k.code))); err != nil {
			return nil, err
		}
		regs := make([]*Array, len(k.regs))
		for i, p := range k.params {
			regs[p] = args[i]
		}
		last := make([]int, len(k.regs)) // 1 + the last step that reads a register
		for i, s := range k.code {
			for _, r := range s.args {
				last[r] = i + 1
			}
		}
		for _, r := range k.outs {
			last[r] = len(k.code) + 1
		}
		var a []*Array
		for i, s := range k.code {
			a = a[:0]
			for _, r := range s.args {
				if regs[r] == nil { // a constant
					regs[r] = Fill(k.consts[r], k.regTypes[r], args[0].Dims...)
				}
				a = append(a, regs[r])
			}
			regs[s.dst] = s.column(&k.e.num, a)
			for _, r := range s.args {
				if last[r] == i+1 {
					regs[r] = nil
				}
			}
		}
		out := make([]*Array, len(k.outs))
		for i, r := range k.outs {
			if regs[r] == nil {
				regs[r] = Fill(k.consts[r], k.regTypes[r], args[0].Dims...)
			}
			out[i] = regs[r]
		}
		return out, nil
	}
	out := make([]*Array, len(k.roots))
	for i, t := range k.roots {
		out[i] = NewArray(t, args[0].Dims...)
	}
	in := make([]Scalar, len(args))
	for i := range n {
		for j, a := range args {
			in[j] = a.At(i)
		}
		r, err := k.call(in...)
		if err != nil {
			return nil, err
		}
		for j, s := range r {
			out[j].Set(i, s)
		}
	}
	return out, nil
}

// leaves are the arrays of a value in depth-first order; tokens are left out.
func leaves(v *Value) []*Array {
	if v.Array != nil {
		return []*Array{v.Array}
	}
	var out []*Array
	for _, x := range v.Elements {
		out = append(out, leaves(x)...)
	}
	return out
}
