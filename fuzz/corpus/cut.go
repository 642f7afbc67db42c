package corpus

import (
	"context"
	"fmt"
	"slices"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// recordSteps is the step limit of the run that records the inputs of pieces.
const recordSteps = 1 << 22

// maxRecorded is the largest input in bytes that is recorded as it is; larger
// ones are generated.
const maxRecorded = 1 << 14

// Cut cuts connected pieces of about size instructions out of a program, each
// around an instruction that is wanted, at most limit of them and spread over
// the program. What a piece uses from outside becomes a parameter, small
// constants come along, and what the outside uses of it is its result.
//
// A piece of the entry computation has the inputs that it had in the program,
// where the program has inputs of its own and the reference can run it;
// otherwise its inputs are generated. The error is ctx's.
func Cut(ctx context.Context, c *fuzz.Case, wanted func(hlo.Opcode) bool, size, limit int) ([]*fuzz.Case, error) {
	var centres []*hlo.Instruction
	home := map[*hlo.Instruction]*hlo.Computation{}
	for _, comp := range reachable(c.Module.Entry) {
		for _, in := range comp.Instructions {
			if wanted(in.Op) && cuttable(in) {
				centres = append(centres, in)
				home[in] = comp
			}
		}
	}
	if len(centres) > limit {
		var spread []*hlo.Instruction
		for i := range limit {
			spread = append(spread, centres[i*len(centres)/limit])
		}
		centres = spread
	}
	var out []*fuzz.Case
	seen := map[string]bool{}
	for i, in := range centres {
		p := grow(home[in], in, size)
		if p == nil {
			continue
		}
		k, err := p.program(ctx, c, fmt.Sprintf("%s.%d", c.Name, i))
		if err != nil {
			return nil, err
		}
		if k == nil || seen[k.Text] {
			continue
		}
		seen[k.Text] = true
		out = append(out, k)
	}
	return out, ctx.Err()
}

// reachable are the computations that run as parts of the program, the entry
// and the bodies of its loops, branches and calls; reducers, comparators and
// fusions are not cut.
func reachable(entry *hlo.Computation) []*hlo.Computation {
	out := []*hlo.Computation{entry}
	for i := 0; i < len(out); i++ {
		for _, in := range out[i].Instructions {
			switch in.Op {
			case hlo.OpWhile, hlo.OpConditional, hlo.OpCall:
				for _, c := range in.Called {
					if !slices.Contains(out, c) {
						out = append(out, c)
					}
				}
			}
		}
	}
	return out
}

// cuttable instructions can stand in a piece: their value is an array, or a
// tuple of arrays that is taken apart beside them, and they have no effects.
func cuttable(in *hlo.Instruction) bool {
	switch in.Op {
	case hlo.OpParameter, hlo.OpInfeed, hlo.OpOutfeed, hlo.OpSend, hlo.OpRecv, hlo.OpSendDone, hlo.OpRecvDone, hlo.OpAfterAll,
		hlo.OpCustomCall, hlo.OpDomain, hlo.OpPartitionId, hlo.OpReplicaId:
		return false
	}
	if in.Attr.GetChannelId() != 0 || len(in.ControlPredecessors) > 0 {
		return false
	}
	if in.Shape.IsTuple() {
		return in.Op == hlo.OpTuple || !slices.ContainsFunc(in.Shape.Elements, func(s *hlo.Shape) bool { return !s.IsArray() })
	}
	return in.Shape.IsArray()
}

// piece is a set of instructions of one computation.
type piece struct {
	home    *hlo.Computation
	inside  map[*hlo.Instruction]bool
	inputs  []*hlo.Instruction // outside, used inside
	results []*hlo.Instruction // inside, arrays, used outside or by nobody
}

// grow takes the nearest neighbours of an instruction, breadth first over
// operands and users; nil if the piece would need a tuple from outside that
// cannot be one of its parameters.
func grow(home *hlo.Computation, centre *hlo.Instruction, size int) *piece {
	users := map[*hlo.Instruction][]*hlo.Instruction{}
	for _, in := range home.Instructions {
		for _, o := range in.Operands {
			users[o] = append(users[o], in)
		}
	}
	p := &piece{home: home, inside: map[*hlo.Instruction]bool{}}
	queue := []*hlo.Instruction{centre}
	asked := map[*hlo.Instruction]bool{} // elements whose tuple was put first
	for len(queue) > 0 && len(p.inside) < size {
		in := queue[0]
		queue = queue[1:]
		if p.inside[in] || !cuttable(in) {
			continue
		}
		if in.Op == hlo.OpGetTupleElement && !p.inside[in.Operands[0]] {
			if asked[in] || !cuttable(in.Operands[0]) {
				continue // becomes a parameter
			}
			asked[in] = true
			queue = append(queue, in.Operands[0], in)
			continue
		}
		p.inside[in] = true
		queue = append(queue, in.Operands...)
		queue = append(queue, users[in]...)
	}
	// Whatever needs a tuple from outside goes out again, and its users' inputs
	// with it, until nothing does.
	for changed := true; changed; {
		changed = false
		for in := range p.inside {
			if slices.ContainsFunc(in.Operands, func(o *hlo.Instruction) bool { return !p.inside[o] && !o.Shape.IsArray() }) {
				delete(p.inside, in)
				changed = true
			}
		}
	}
	if !p.inside[centre] {
		return nil
	}
	for _, in := range home.Instructions {
		if !p.inside[in] {
			continue
		}
		for _, o := range in.Operands {
			if !p.inside[o] && !slices.Contains(p.inputs, o) {
				p.inputs = append(p.inputs, o)
			}
		}
		if !in.Shape.IsArray() {
			continue
		}
		used, outside := len(users[in]) > 0, in == home.Root
		for _, u := range users[in] {
			outside = outside || !p.inside[u]
		}
		if outside || !used {
			p.results = append(p.results, in)
		}
	}
	if len(p.results) == 0 {
		return nil
	}
	return p
}

// small constants come along instead of becoming parameters.
func small(in *hlo.Instruction) bool {
	return in.Op == hlo.OpConstant && in.Literal != nil && len(in.Literal.Raw) <= 256 || in.Op == hlo.OpIota
}

// program makes the piece a program of its own; nil if it does not verify.
func (p *piece) program(ctx context.Context, c *fuzz.Case, name string) (*fuzz.Case, error) {
	m := hlo.NewModule("piece")
	copied := map[*hlo.Computation]*hlo.Computation{}
	var clone func(*hlo.Computation) *hlo.Computation
	entry := hlo.NewComputation("entry")
	body := map[*hlo.Instruction]*hlo.Instruction{}
	put := func(in *hlo.Instruction, to map[*hlo.Instruction]*hlo.Instruction) *hlo.Instruction {
		k := *in
		k.Attr = cloneAttr(in.Attr)
		k.Attr.Metadata, k.Attr.Sharding = nil, nil
		k.ControlPredecessors = nil
		k.Shape = in.Shape.WithoutLayout()
		k.Operands, k.Called = nil, nil
		for _, o := range in.Operands {
			k.Operands = append(k.Operands, to[o])
		}
		for _, f := range in.Called {
			k.Called = append(k.Called, clone(f))
		}
		to[in] = &k
		return &k
	}
	clone = func(f *hlo.Computation) *hlo.Computation {
		if copied[f] != nil {
			return copied[f]
		}
		n := hlo.NewComputation(f.Name)
		inner := map[*hlo.Instruction]*hlo.Instruction{}
		for _, in := range f.Instructions {
			n.Instructions = append(n.Instructions, put(in, inner))
		}
		n.Root = inner[f.Root]
		copied[f] = n
		m.Computations = append(m.Computations, n)
		return n
	}
	var params []*hlo.Instruction
	for _, in := range p.inputs {
		if small(in) {
			entry.Instructions = append(entry.Instructions, put(in, body))
			continue
		}
		q := hlo.NewInstruction(fmt.Sprintf("p%d", len(params)), hlo.OpParameter, in.Shape.WithoutLayout())
		q.Attr.ParameterNumber = int64(len(params))
		params = append(params, in)
		body[in] = q
		entry.Instructions = append(entry.Instructions, q)
	}
	for _, in := range p.home.Instructions {
		if p.inside[in] {
			entry.Instructions = append(entry.Instructions, put(in, body))
		}
	}
	entry.Root = body[p.results[0]]
	if len(p.results) > 1 {
		var shapes []*hlo.Shape
		var operands []*hlo.Instruction
		for _, in := range p.results {
			shapes, operands = append(shapes, in.Shape.WithoutLayout()), append(operands, body[in])
		}
		entry.Root = hlo.NewInstruction("results", hlo.OpTuple, hlo.TupleShape(shapes...), operands...)
		entry.Instructions = append(entry.Instructions, entry.Root)
	}
	m.Computations = append(m.Computations, entry)
	m.Entry = entry
	rename(m)
	if hlo.Verify(m) != nil {
		return nil, nil
	}
	k, err := fuzz.ReadModule(name, []byte(m.String()))
	if err != nil {
		return nil, nil // what prints and does not parse is no seed
	}
	k.Name = name
	if c.Own && p.home == c.Module.Entry {
		inputs := record(ctx, c, params)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if inputs != nil {
			var lines []string
			for _, l := range inputs {
				lines = append(lines, l.String())
			}
			k = k.WithInputs(inputs, lines, "")
		}
	}
	return k, nil
}

// record runs the program on its own inputs up to the given instructions of
// its entry and returns their values; nil where the reference cannot tell.
func record(ctx context.Context, c *fuzz.Case, at []*hlo.Instruction) []*hlo.Literal {
	if len(at) == 0 {
		return []*hlo.Literal{}
	}
	m := c.Module.Clone()
	var shapes []*hlo.Shape
	var operands []*hlo.Instruction
	for _, in := range at {
		if in.Shape.Elems()*int64(in.Shape.Type.Bytes()) > maxRecorded {
			return nil
		}
		i := slices.Index(c.Module.Entry.Instructions, in)
		shapes, operands = append(shapes, in.Shape.WithoutLayout()), append(operands, m.Entry.Instructions[i])
	}
	root := hlo.NewInstruction("recorded", hlo.OpTuple, hlo.TupleShape(shapes...), operands...)
	needed := map[*hlo.Instruction]bool{root: true}
	for _, o := range operands {
		needed[o] = true
	}
	for i := len(m.Entry.Instructions) - 1; i >= 0; i-- {
		if in := m.Entry.Instructions[i]; needed[in] {
			for _, o := range in.Operands {
				needed[o] = true
			}
		}
	}
	m.Entry.Instructions = slices.DeleteFunc(m.Entry.Instructions, func(in *hlo.Instruction) bool { return !needed[in] && in.Op != hlo.OpParameter })
	m.Entry.Instructions = append(m.Entry.Instructions, root)
	m.Entry.Root, m.EntryLayout = root, nil
	var args []*eval.Value
	for _, l := range c.Inputs {
		args = append(args, eval.FromLiteral(l))
	}
	v, err := eval.Run(ctx, m, args, eval.Options{MaxSteps: recordSteps})
	if err != nil {
		return nil
	}
	var out []*hlo.Literal
	for _, e := range v.Elements {
		l := literal(e.Array)
		if l == nil {
			return nil
		}
		out = append(out, l)
	}
	return out
}

// literal is an array's values, without bounds; nil for what has none.
func literal(a *eval.Array) *hlo.Literal {
	if a == nil || a.Sizes != nil {
		return nil
	}
	l := hlo.NewLiteral(hlo.ArrayShape(a.Type, a.Dims...))
	for i := range int64(a.Len()) {
		s := a.At(int(i))
		switch {
		case a.Type.IsComplex():
			l.SetComplex(i, complex(s.Re.C, s.Im.C))
		case a.Type.IsFloat():
			l.SetFloat(i, s.Re.C)
		default:
			l.SetInt(i, s.I)
		}
	}
	return l
}
