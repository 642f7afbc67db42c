package hlo

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo/hlopb"
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
	if c := wrappedComputation(r.Instruction); c != nil {
		r.shareWith(c.Root)
	}
}

// shareWith gives the wrapped instruction the attributes that XLA's parser
// sets on both.
func (r *reading) shareWith(root *Instruction) {
	if r.has("metadata") {
		root.Attr.Metadata = proto.Clone(r.Attr.Metadata).(*hlopb.OpMetadata)
	}
	if r.has("origin") {
		root.Attr.OriginalValue = proto.Clone(r.Attr.OriginalValue).(*hlopb.OriginalValueProto)
	}
	if r.has("backend_config") {
		root.Attr.BackendConfig = slices.Clone(r.Attr.BackendConfig)
	}
	if r.has("frontend_attributes") {
		root.Attr.FrontendAttributes = proto.Clone(r.Attr.FrontendAttributes).(*hlopb.FrontendAttributes)
	}
	if r.has("statistics") {
		root.Attr.StatisticsViz = proto.Clone(r.Attr.StatisticsViz).(*hlopb.StatisticsViz)
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
	if start := asyncStart(r.Operands[0]); start != nil && wrapped != OpInvalid && start.Called[0].Root.Op != wrapped {
		p.fail(r.pos, "%v-%s follows an async-start of %v", wrapped, r.Op.String()[len("async-"):], start.Called[0].Root.Op)
	}
}

// inherit checks what an async-update or async-done says about its chain. It
// keeps a called computation only where the start of the chain is unknown.
func (p *parser) inherit(r *reading, wrapped Opcode) {
	start := asyncStart(r.Operands[0])
	if start != nil {
		thread := start.Attr.AsyncExecutionThread
		if own := r.Attr.AsyncExecutionThread; r.has("async_execution_thread") && own != thread && !(own == mainThread && thread == "") {
			p.fail(r.pos, "async_execution_thread %q is not that of the async-start, %q", own, thread)
		}
		if len(r.Called) > 0 && r.Called[0] != start.Called[0] {
			p.fail(r.pos, "calls=%s is not that of the async-start, %s", r.Called[0].Name, start.Called[0].Name)
		}
		r.Called = nil
	}
	r.Attr.AsyncExecutionThread = ""
	c := wrappedComputation(r.Instruction)
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

// asyncProducer follows the data of an operand back to the async-start or
// async-update that it comes from; nil if there is none in the computation.
func asyncProducer(in *Instruction) *Instruction {
	for {
		switch in.Op {
		case OpAsyncStart, OpAsyncUpdate:
			return in
		case OpOptBarrier, OpCopy:
			in = in.Operands[0]
		case OpGetTupleElement:
			of := in.Operands[0]
			for of.Op == OpOptBarrier {
				of = of.Operands[0]
			}
			i := in.Attr.TupleIndex
			if of.Op != OpTuple || i < 0 || i >= int64(len(of.Operands)) {
				return nil
			}
			in = of.Operands[i]
		default:
			return nil
		}
	}
}

// asyncStart is the async-start of the chain that an operand belongs to, nil
// if it is unknown.
func asyncStart(in *Instruction) *Instruction {
	for in != nil {
		in = asyncProducer(in)
		if in == nil || in.Op == OpAsyncStart {
			return in
		}
		in = in.Operands[0]
	}
	return nil
}

// wrappedComputation is the computation that an asynchronous instruction
// runs, its own or that of its chain.
func wrappedComputation(in *Instruction) *Computation {
	if len(in.Called) > 0 {
		return in.Called[0]
	}
	if len(in.Operands) == 0 {
		return nil
	}
	if start := asyncStart(in.Operands[0]); start != nil {
		return start.Called[0]
	}
	for pre := asyncProducer(in.Operands[0]); pre != nil; pre = asyncProducer(pre.Operands[0]) {
		if len(pre.Called) > 0 {
			return pre.Called[0]
		}
		if len(pre.Operands) == 0 {
			return nil
		}
	}
	return nil
}

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
