package hlo

import "slices"

// hasBuffer reports whether a buffer type is inside the shape.
func (s *Shape) hasBuffer() bool {
	return s.Type == Buffer || slices.ContainsFunc(s.Elements, (*Shape).hasBuffer)
}

// buffers checks where buffer types b(T) may stand: in custom-calls that
// alias them from operand to result, dynamic-update-slice, while, tuples, the
// asynchronous operations, and parameters other than the entry's; and that
// no buffer is written twice (VerifyBuffers).
func (v *verifier) buffers(c *Computation) {
	async := false
	for _, caller := range v.callers[c] {
		async = async || caller.Op == OpAsyncStart
	}
	for _, in := range c.Instructions {
		touches := in.Shape.hasBuffer()
		for _, o := range in.Operands {
			touches = touches || o.Shape.hasBuffer()
		}
		if !touches || async && (in != c.Root || in.Op != OpCustomCall) {
			continue
		}
		bad := func(format string, args ...any) { v.report(c, in, RuleBuffer, format, args...) }
		switch in.Op {
		case OpCustomCall:
			v.bufferCall(c, in)
		case OpWhile:
			v.oneWriter(c, in)
		case OpParameter:
			if c == v.m.Entry {
				bad("a parameter of the entry computation is a buffer")
			}
			v.oneWriter(c, in)
		case OpDynamicUpdateSlice:
			if in.operand(0).Type != Buffer || in.Shape.Type != Buffer ||
				slices.ContainsFunc(in.operandShapes()[1:], (*Shape).hasBuffer) {
				bad("dynamic-update-slice of a buffer gives one, and takes no other")
			}
			v.oneWriter(c, in)
		case OpGetTupleElement, OpTuple, OpAsyncStart, OpAsyncUpdate, OpAsyncDone:
		case OpCall:
			if _, ok := in.Attr.GetFrontendAttributes().GetMap()["_xla_stream_annotation"]; !ok {
				bad("call cannot take or give buffers")
			}
		default:
			bad("%v cannot take or give buffers", in.Op)
		}
	}
}

func (v *verifier) bufferCall(c *Computation, in *Instruction) {
	bad := func(format string, args ...any) { v.report(c, in, RuleBuffer, format, args...) }
	n := len(in.Operands)
	switch in.Attr.CustomCallTarget {
	case "Pin":
		if n != 1 || !in.operand(0).IsArray() || in.Shape.Type != Buffer || !in.Shape.Elements[0].Compatible(in.operand(0)) ||
			len(in.Attr.OutputOperandAliasing) != 1 {
			bad("Pin makes a buffer of one array, with one output_to_operand_aliasing")
		}
		v.oneWriter(c, in)
		return
	case "Unpin":
		if n != 1 || in.operand(0).Type != Buffer || !in.Shape.IsArray() || !in.operand(0).Elements[0].Compatible(in.Shape) ||
			len(in.Attr.OutputOperandAliasing) != 1 {
			bad("Unpin makes an array of one buffer, with one output_to_operand_aliasing")
		}
		return
	case "CreateBuffer":
		if n != 0 || in.Shape.Type != Buffer {
			bad("CreateBuffer takes nothing and gives a buffer")
		}
		v.oneWriter(c, in)
		return
	}
	count := func(operand int, index []int64) (n int) {
		for _, a := range in.Attr.OutputOperandAliasing {
			switch {
			case operand < 0:
				if slices.Equal(a.GetOutputShapeIndex(), index) {
					n++
				}
			case a.GetOperandIndex() == int64(operand) && slices.Equal(a.GetOperandShapeIndex(), index):
				n++
			}
		}
		return n
	}
	for i, o := range in.Operands {
		eachBuffer(o.Shape, nil, func(index []int64) {
			if count(i, index) != 1 {
				bad("buffer %v of operand %d is not aliased with one output", index, i)
			}
		})
	}
	eachBuffer(in.Shape, nil, func(index []int64) {
		if count(-1, index) != 1 {
			bad("buffer %v of the result is not aliased with one operand", index)
		}
	})
	v.oneWriter(c, in)
}

func eachBuffer(s *Shape, index []int64, visit func(index []int64)) {
	if s.Type == Buffer {
		visit(index)
		return
	}
	for i, e := range s.Elements {
		eachBuffer(e, append(slices.Clone(index), int64(i)), visit)
	}
}

// oneWriter checks that no buffer in the result is written more than once.
func (v *verifier) oneWriter(c *Computation, in *Instruction) {
	eachBuffer(in.Shape, nil, func(index []int64) {
		if v.writers(in, index, 0) > 1 {
			v.report(c, in, RuleBuffer, "buffer %v has more than one writer", index)
		}
	})
}

// writers counts the users that may write the buffer at an index of a value
// (CountWriters).
func (v *verifier) writers(in *Instruction, index []int64, depth int) (n int) {
	if depth > 100 {
		return 0
	}
	for _, u := range v.users[in] {
		switch u.Op {
		case OpCustomCall, OpFusion, OpCall, OpAsyncStart, OpAsyncUpdate, OpAsyncDone, OpWhile, OpConditional, OpDynamicUpdateSlice:
			n++
		case OpGetTupleElement:
			if len(index) > 0 && u.Attr.TupleIndex == index[0] {
				n += v.writers(u, index[1:], depth+1)
			}
		case OpTuple:
			if c := v.parent[in]; c.Root == u {
				if slices.ContainsFunc(v.callers[c], func(x *Instruction) bool { return x.Op == OpWhile }) {
					n++
				}
				continue
			}
			n += v.writers(u, append([]int64{int64(slices.Index(u.Operands, in))}, index...), depth+1)
		}
	}
	return n
}
