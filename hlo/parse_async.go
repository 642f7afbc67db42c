package hlo

import (
	"slices"

	"google.golang.org/protobuf/proto"
)

// async reads an async-start, -update or -done. wrapped is the opcode of the
// short form (`add-start`), which makes the wrapped computation itself, or
// OpInvalid.
func (p *parser) async(r *reading, wrapped Opcode, attrs bool) {
	p.operands(r)
	if r.Op != OpAsyncDone && (!r.given.IsTuple() || len(r.given.Elements) < 2 || !r.given.Elements[0].IsTuple()) {
		p.fail(r.pos, "%v needs a shape ((operands), result, ...), found %v", r.Op, r.given)
	}
	if wrapped != OpInvalid && r.Op == OpAsyncStart {
		p.wrap(r, wrapped, attrs)
	} else {
		if r.Op != OpAsyncStart {
			p.checkChain(r, wrapped)
		}
		allowed := opcodeAttrs[r.Op]
		if wrapped != OpInvalid { // without calls=
			allowed = slices.DeleteFunc(slices.Clone(allowed), func(u attrUse) bool { return u.name == "calls" })
		}
		p.attributes(r, allowed, attrs)
		p.orderCalls(r)
	}
	r.Shape = r.given
	switch r.Op {
	case OpAsyncStart:
		p.defaults(r)
		p.setThread(r.Called[0], r.Attr.AsyncExecutionThread)
	default:
		p.inherit(r, wrapped)
	}
	if err := r.checkCounts(); err != nil {
		p.fail(r.pos, "%v", err)
	}
	p.afterShape(r)
	if c := p.chains.wrapped(r.Instruction); c != nil {
		for _, name := range sharedWithWrapped {
			if r.has(name) && !slices.Contains(p.rootAttrs[c], name) {
				shareAttr(name, c.Root.Attr, r.Attr)
			}
		}
	}
}

// sharedWithWrapped are the attributes that an asynchronous instruction gives
// to the wrapped one. XLA's parser does so always; here the text of the
// wrapped instruction has the last word, so that both can be said: where they
// differ in that the wrapped one has none, the printer writes it empty.
var sharedWithWrapped = []string{"metadata", "origin", "backend_config", "frontend_attributes", "statistics"}

func shareAttr(name string, to, from *pbInstr) {
	switch name {
	case "metadata":
		to.Metadata = proto.CloneOf(from.Metadata)
	case "origin":
		to.OriginalValue = proto.CloneOf(from.OriginalValue)
	case "backend_config":
		to.BackendConfig = slices.Clone(from.BackendConfig)
	case "frontend_attributes":
		to.FrontendAttributes = proto.CloneOf(from.FrontendAttributes)
	case "statistics":
		to.StatisticsViz = proto.CloneOf(from.StatisticsViz)
	}
}

// wrap reads the attributes of `op-start` and makes the computation that it
// calls: parameters, and an instruction of the wrapped opcode with its
// attributes.
func (p *parser) wrap(r *reading, op Opcode, attrs bool) {
	if op == OpParameter || op == OpConstant {
		p.fail(r.pos, "%v cannot be asynchronous", op)
	}
	c := NewComputation("async_wrapped")
	w := &reading{Instruction: NewInstruction(op.String(), op, nil), pos: r.pos, given: r.given.Elements[1]}
	w.prepare()
	shapes := r.given.Elements[0].Elements
	for i := range max(op.Arity(), len(shapes)) {
		s := &Shape{Type: F32, Dims: []int64{1}, Layout: DefaultLayout(1)} // stands for an operand that is bound later
		if i < len(shapes) {
			s = shapes[i]
		}
		w.Operands = append(w.Operands, c.addParam(p.sized(s)))
	}
	own := opcodeAttrs[op]
	var outer []attrUse
	for _, u := range opcodeAttrs[OpAsyncStart] {
		if u.name != "calls" && findAttr(own, u.name) == nil {
			outer = append(outer, u)
		}
	}
	p.attributesOf(func(name string) (*attribute, *reading) {
		if a := findAttr(own, name); a != nil {
			return a, w
		}
		if a := findAttr(outer, name); a != nil {
			return a, r
		}
		return findAttr(commonAttrs, name), r
	}, w, own, attrs)
	p.complete(w)
	c.Instructions = append(c.Instructions, w.Instruction)
	c.Root = w.Instruction
	if op == OpFusion || op == OpCall {
		var shapes []*Shape
		for _, in := range w.Called[0].Params() {
			shapes = append(shapes, in.Shape)
		}
		p.rebind(c, shapes, w.Called[0].Root.Shape)
	}
	p.m.Computations = append(p.m.Computations, c)
	r.Called = []*Computation{c}
}

func (c *Computation) addParam(s *Shape) *Instruction {
	in := NewInstruction("async_param", OpParameter, s)
	for _, other := range c.Instructions {
		if other.Op == OpParameter {
			in.Attr.ParameterNumber++
		}
	}
	c.Instructions = append(c.Instructions, in)
	return in
}

// rebind fits a wrapped computation to operands and a result that a later
// instruction of the chain binds.
func (p *parser) rebind(c *Computation, operands []*Shape, result *Shape) {
	params := c.Params()
	for i, s := range operands {
		switch {
		case i >= len(params):
			c.Root.Operands = append(c.Root.Operands, c.addParam(p.sized(s)))
			last := len(c.Instructions) - 1 // operands come before their users
			c.Instructions[last-1], c.Instructions[last] = c.Instructions[last], c.Instructions[last-1]
		case !params[i].Shape.Compatible(s):
			params[i].Shape = p.sized(s)
		}
	}
	if !c.Root.Shape.Compatible(result) {
		c.Root.Shape = p.sized(result)
	}
}

// checkChain checks the operand of an async-update or async-done.
func (p *parser) checkChain(r *reading, wrapped Opcode) {
	if len(r.Operands) == 0 {
		p.fail(r.pos, "%v needs the operation before it as operand", r.Op)
	}
	if r.Operands[0].Op == OpAsyncDone {
		p.fail(r.pos, "%v cannot follow an async-done", r.Op)
	}
	if start := p.chains.start(r.Operands[0]); start != nil && wrapped != OpInvalid && start.Called[0].Root.Op != wrapped {
		p.fail(r.pos, "%v-%s follows an async-start of %v", wrapped, r.Op.String()[len("async-"):], start.Called[0].Root.Op)
	}
}

// inherit checks what an async-update or async-done says about its chain. It
// keeps a called computation only where the chain does not have it.
func (p *parser) inherit(r *reading, wrapped Opcode) {
	start := p.chains.start(r.Operands[0])
	if start != nil {
		thread := start.Attr.AsyncExecutionThread
		if own := r.Attr.AsyncExecutionThread; r.has("async_execution_thread") && own != thread && !(own == mainThread && thread == "") {
			p.fail(r.pos, "async_execution_thread %q is not that of the async-start, %q", own, thread)
		}
		if len(r.Called) > 0 && r.Called[0] != start.Called[0] {
			p.fail(r.pos, "calls=%s is not that of the async-start, %s", r.Called[0].Name, start.Called[0].Name)
		}
	}
	if len(r.Called) > 0 && r.Called[0] == p.chains.upstream(r.Operands[0]) {
		r.Called = nil
	}
	r.Attr.AsyncExecutionThread = ""
	c := p.chains.wrapped(r.Instruction)
	if wrapped == OpInvalid || c == nil {
		return
	}
	if r.Op == OpAsyncUpdate {
		p.rebind(c, r.Shape.Elements[0].Elements, r.Shape.Elements[1])
		return
	}
	bound := r.Operands[0].Shape
	if start != nil {
		bound = start.Shape
	}
	if !bound.IsTuple() || len(bound.Elements) == 0 {
		p.fail(r.pos, "async-done follows an operation of shape %v", bound)
	}
	p.rebind(c, bound.Elements[0].Elements, r.Shape)
}

// asyncChains remembers the async-start of asynchronous instructions, nil
// where it is unknown.
type asyncChains map[*Instruction]*Instruction

// maxIntermediates bounds the instructions between two asynchronous ones of
// a chain that are looked through.
const maxIntermediates = 256

// asyncProducer follows the data of an operand back to the async-start or
// async-update that it comes from; nil if there is none in the computation.
func asyncProducer(in *Instruction) *Instruction {
	for range maxIntermediates {
		switch in.Op {
		case OpAsyncStart, OpAsyncUpdate:
			return in
		case OpOptBarrier, OpCopy:
			in = in.Operands[0]
		case OpGetTupleElement:
			of := in.Operands[0]
			i := in.Attr.TupleIndex
			if of.Op != OpTuple || i < 0 || i >= int64(len(of.Operands)) {
				return nil
			}
			in = of.Operands[i]
		default:
			return nil
		}
	}
	return nil
}

// start is the async-start of the chain that an operand belongs to, nil if it
// is unknown.
func (cs asyncChains) start(operand *Instruction) *Instruction {
	var path []*Instruction
	in := asyncProducer(operand)
	for in != nil && in.Op != OpAsyncStart {
		if s, ok := cs[in]; ok {
			in = s
			break
		}
		path = append(path, in)
		if len(in.Operands) == 0 {
			in = nil
			break
		}
		in = asyncProducer(in.Operands[0])
	}
	for _, p := range path {
		cs[p] = in
	}
	return in
}

// wrapped is the computation that an asynchronous instruction runs: its own,
// that of its start, or that of the instruction before it; nil if unknown.
func (cs asyncChains) wrapped(in *Instruction) *Computation {
	if len(in.Called) > 0 {
		return in.Called[0]
	}
	if len(in.Operands) == 0 {
		return nil
	}
	if start := cs.start(in.Operands[0]); start != nil && len(start.Called) > 0 {
		return start.Called[0]
	}
	for range maxIntermediates {
		in = asyncProducer(in.Operands[0])
		if in == nil || len(in.Operands) == 0 {
			return nil
		}
		if len(in.Called) > 0 {
			return in.Called[0]
		}
	}
	return nil
}

// upstream is the wrapped computation of the next asynchronous
// instruction up the first operands.
func (cs asyncChains) upstream(in *Instruction) *Computation {
	for range maxUpstream {
		switch {
		case in.Op == OpAsyncStart, in.Op == OpAsyncUpdate:
			return cs.wrapped(in)
		case len(in.Operands) == 0:
			return nil
		}
		in = in.Operands[0]
	}
	return nil
}

// maxUpstream bounds the way to the next asynchronous instruction.
const maxUpstream = 1 << 12

// setThread sets the execution thread of a computation and of all that it
// calls.
func (p *parser) setThread(c *Computation, thread string) {
	if t, done := p.threads[c]; done && t == thread {
		return
	}
	p.threads[c] = thread
	c.ExecutionThread = thread
	for _, in := range c.Instructions {
		if in.Op == OpAsyncStart {
			in.Attr.AsyncExecutionThread = thread
		}
		for _, callee := range in.Called {
			p.setThread(callee, thread)
		}
	}
}
