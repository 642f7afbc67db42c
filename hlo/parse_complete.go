package hlo

import (
	"slices"

	"github.com/passgate/passgate/hlo/hlopb"
)

// complete finishes an instruction whose text is read: called computations in
// order, defaults of the attributes, the checks that XLA's parser makes, and
// the shape.
func (p *parser) complete(r *reading) {
	p.orderCalls(r)
	p.defaults(r)
	if err := r.checkCounts(); err != nil {
		p.fail(r.pos, "%v", err)
	}
	p.check(r)
	p.setShape(r)
	p.afterShape(r)
}

// orderCalls puts the called computations in the order of the wire.
func (p *parser) orderCalls(r *reading) {
	if r.has("to_apply") && r.has("called_computations") {
		p.fail(r.pos, "%v has both to_apply= and called_computations=", r.Op)
	}
	order := callOrder(r.Op)
	slices.SortStableFunc(r.calls, func(a, b call) int { return slices.Index(order, a.attr) - slices.Index(order, b.attr) })
	for _, c := range r.calls {
		r.Called = append(r.Called, c.comp)
	}
}

// defaults sets what an instruction has whose text leaves it out.
func (p *parser) defaults(r *reading) {
	a := r.Attr
	switch r.Op {
	case OpAllGather, OpAllGatherStart, OpAllReduce, OpAllReduceStart, OpReduceScatter, OpAllToAll, OpRaggedAllToAll, OpCollectiveBroadcast:
		if a.ReplicaGroupList == nil {
			a.ReplicaGroupList = &hlopb.HloInstructionProto_CollectiveDeviceList{CollectiveDeviceList: &hlopb.CollectiveDeviceListProto{}}
		}
		if r.Op == OpRaggedAllToAll {
			p.oneDimension(r, true)
			a.Dimensions = nil // without a place on the wire
		}
	case OpCholesky:
		ensure(&a.CholeskyOptions)
	case OpTriangularSolve:
		ensure(&a.TriangularSolveOptions)
	case OpCompare:
		if err := r.fillComparison(); err != nil {
			p.fail(r.pos, "%v", err)
		}
	case OpConvolution, OpCustomCall:
		if r.Op == OpConvolution {
			ensure(&a.Window)
		}
		if !r.has("feature_group_count") {
			a.FeatureGroupCount = 1
		}
		if !r.has("batch_group_count") {
			a.BatchGroupCount = 1
		}
		if r.Op == OpCustomCall && a.CustomCallApiVersion == 0 {
			a.CustomCallApiVersion = hlopb.CustomCallApiVersion_API_VERSION_ORIGINAL
		}
	case OpDot, OpScaledDot:
		ensure(&a.DotDimensionNumbers)
	case OpReduceWindow, OpSelectAndScatter:
		ensure(&a.Window)
	case OpScan:
		if a.IsAssociative == hlopb.TriState_TRI_STATE_UNSPECIFIED {
			a.IsAssociative = hlopb.TriState_TRI_STATE_FALSE
		}
	case OpTopk:
		a.Largest = a.Largest || !r.has("largest")
		a.IsStable = a.IsStable || !r.has("is_stable")
	case OpReshape:
		if len(a.Dimensions) == 1 && a.Dimensions[0] == -1 {
			a.Dimensions = nil
		}
	case OpAsyncStart:
		if a.AsyncExecutionThread == mainThread {
			a.AsyncExecutionThread = ""
		}
	}
	switch r.Op {
	case OpConvolution, OpCustomCall, OpDot, OpRaggedDot, OpScaledDot:
		if c := ensure(&a.PrecisionConfig); !r.has("operand_precision") {
			c.OperandPrecision = make([]hlopb.PrecisionConfig_Precision, defaultPrecisions(r.Instruction))
		}
	}
}

// oneDimension checks that dimensions= is one dimension.
func (p *parser) oneDimension(r *reading, optional bool) {
	if n := len(r.Attr.Dimensions); n != 1 && !(optional && !r.has("dimensions")) {
		p.fail(r.pos, "%v needs one dimension, found %d", r.Op, n)
	}
}

// check makes the checks of XLA's parser that are none of grammar.
func (p *parser) check(r *reading) {
	bad := func(format string, args ...any) { p.fail(r.pos, format, args...) }
	in, a := r.Instruction, r.Attr
	switch in.Op {
	case OpAllGather, OpAllGatherStart, OpReduceScatter, OpSort, OpConcatenate, OpGetDimensionSize, OpSetDimensionSize:
		p.oneDimension(r, false)
	case OpAllToAll:
		p.oneDimension(r, true)
	case OpBroadcast:
		if !r.has("dimensions") && in.Operands[0].Shape.Rank() > 0 {
			bad("broadcast of %v needs attribute dimensions", in.Operands[0].Shape)
		}
	case OpConditional:
		index := in.Operands[0].Shape
		switch {
		case index.Rank() != 0 || index.Type != Pred && index.Type != S32:
			bad("the first operand of a conditional is a scalar of type pred or s32, found %v", index)
		case (index.Type == Pred) != r.has("true_computation") || r.has("true_computation") != r.has("false_computation") ||
			(index.Type == S32) != r.has("branch_computations"):
			bad("a conditional on pred needs true_computation= and false_computation=, one on s32 branch_computations=")
		}
	case OpCollectivePermute, OpCollectivePermuteStart:
		if r.has("slice_sizes") && len(in.Operands) != 4 {
			bad("%v with slice_sizes= needs 4 operands, found %d", in.Op, len(in.Operands))
		}
	case OpDynamicSlice:
		rank := in.Operands[0].Shape.Rank()
		if n := len(in.Operands); n != 1+rank && !(n == 2 && in.Operands[1].Shape.Rank() == 1) {
			bad("dynamic-slice of %v has %d operands", in.Operands[0].Shape, n)
		}
	case OpDynamicUpdateSlice:
		rank := in.Operands[0].Shape.unwrapped().Rank()
		if n := len(in.Operands); n != 2+rank && !(n == 3 && in.Operands[2].Shape.Rank() == 1) {
			bad("dynamic-update-slice of %v has %d operands", in.Operands[0].Shape, n)
		}
	case OpReshape, OpDynamicReshape:
		from := in.Operands[0].Shape
		same := r.given.IsArray() && from.IsArray() && (staticExtents(from) == staticExtents(r.given) ||
			in.Op == OpReshape && slices.Contains(from.Dims, Unbounded))
		switch {
		case !same:
			bad("%v from %v to %v changes the number of elements", in.Op, from, r.given)
		case in.Op == OpDynamicReshape && len(in.Operands) != 1+r.given.Rank():
			bad("dynamic-reshape to %v needs %d operands, found %d", r.given, 1+r.given.Rank(), len(in.Operands))
		}
	case OpInfeed, OpRecv:
		if len(r.given.Elements) == 0 || !r.given.IsTuple() {
			bad("%v needs a tuple shape with elements, found %v", in.Op, r.given)
		}
	case OpRecvDone, OpSendDone:
		if of := in.Operands[0]; hasChannel(of.Op) && of.Attr.ChannelId != a.ChannelId {
			bad("channel_id %d is not that of %s, %d", a.ChannelId, of.Name, of.Attr.ChannelId)
		}
		if t := in.Operands[0].Shape; in.Op == OpRecvDone && (!t.IsTuple() || len(t.Elements) == 0) {
			bad("recv-done needs the tuple of a recv, found %v", t)
		}
	case OpTuple:
		if r.given != nil && !r.given.IsTuple() {
			bad("a tuple has shape %v", r.given)
		}
	case OpScan:
		p.oneDimension(r, false)
		if n := len(in.Called[0].Params()); n != len(in.Operands) {
			bad("scan has %d operands, its computation %d parameters", len(in.Operands), n)
		}
	case OpCustomCall:
		p.checkOperandLayouts(r)
	}
	switch in.Op {
	case OpAllReduce, OpAllReduceStart, OpReduceScatter:
		if a.UseGlobalDeviceIds && !r.has("channel_id") && !r.has("mode") {
			bad("use_global_device_ids=true needs channel_id=")
		}
	}
	if a.ParameterReplication != nil && in.Op != OpParameter {
		bad("%v has no parameter_replication", in.Op)
	}
}

func hasChannel(op Opcode) bool {
	return findAttr(opcodeAttrs[op], "channel_id") != nil
}

// staticExtents is the product of the dimensions that are not unbounded.
func staticExtents(s *Shape) int64 {
	var dims []int64
	for _, d := range s.Dims {
		if d != Unbounded {
			dims = append(dims, d)
		}
	}
	return product(dims)
}

func (p *parser) checkOperandLayouts(r *reading) {
	if !r.has("operand_layout_constraints") {
		return
	}
	if len(r.OperandLayouts) != len(r.Operands) {
		p.fail(r.pos, "custom-call has %d operands, but %d operand layouts", len(r.Operands), len(r.OperandLayouts))
	}
	for i, s := range r.OperandLayouts {
		if !s.Compatible(r.Operands[i].Shape) {
			p.fail(r.pos, "operand layout %d, %v, is not compatible with the operand's shape %v", i, s, r.Operands[i].Shape)
		}
	}
}

// setShape sets the shape: that of the text, but for opcodes whose shape
// follows from their operands whatever the text says.
func (p *parser) setShape(r *reading) {
	in := r.Instruction
	switch in.Op {
	case OpAddDependency:
		in.Shape = p.sized(in.Operands[0].Shape)
	case OpAfterAll, OpOutfeed, OpSendDone:
		in.Shape = tokenShape()
	case OpInfeed:
		in.Shape = TupleShape(r.given.Elements[0], tokenShape())
	case OpRecv:
		in.Shape = TupleShape(r.given.Elements[0], contextShape(), tokenShape())
	case OpRecvDone:
		in.Shape = TupleShape(p.sized(in.Operands[0].Shape.Elements[0]), tokenShape())
	case OpSend:
		in.Shape = TupleShape(p.sized(in.Operands[0].Shape), contextShape(), tokenShape())
	default:
		if in.Shape = r.given; in.Shape == nil {
			in.Shape = p.inferred(in)
		}
	}
}

func tokenShape() *Shape { return &Shape{Type: Token} }

// contextShape is the shape of the context of a send or recv.
func contextShape() *Shape { return &Shape{Type: U32, Layout: DefaultLayout(0)} }

// afterShape sets the attributes that follow from the shape.
func (p *parser) afterShape(r *reading) {
	a := r.Attr
	switch r.Op {
	case OpMap:
		a.Dimensions = make([]int64, r.Shape.Rank())
		for i := range a.Dimensions {
			a.Dimensions[i] = int64(i)
		}
	case OpOutfeed:
		if a.OutfeedShape == nil {
			a.OutfeedShape = r.Operands[0].Shape.Proto()
		}
	case OpParameter:
		if rep := a.ParameterReplication; rep != nil {
			if n := leafCount(r.Shape); len(rep.ReplicatedAtLeafBuffers) != n {
				p.fail(r.pos, "parameter_replication has %d elements, the parameter %d leaves", len(rep.ReplicatedAtLeafBuffers), n)
			}
		}
	}
	if a.Sharding != nil {
		a.Sharding = p.tupleSharding(a.Sharding, r.Shape)
	}
}

func leafCount(s *Shape) int {
	if !s.IsTuple() {
		return 1
	}
	n := 0
	for _, e := range s.Elements {
		n += leafCount(e)
	}
	return n
}

// inferable reports whether the text may leave out the shape of an
// instruction (CanInferShape in hlo_parser.cc).
func inferable(op Opcode) bool {
	switch op {
	case OpAsyncStart, OpAsyncUpdate, OpAsyncDone, OpAllGather, OpAllGatherStart, OpAllGatherDone, OpAllReduce,
		OpAllReduceStart, OpAllReduceDone, OpAllToAll, OpCollectiveBroadcast, OpCollectivePermute,
		OpCollectivePermuteStart, OpCollectivePermuteDone, OpCopyDone, OpCopyStart, OpDynamicReshape, OpDynamicSlice,
		OpDynamicUpdateSlice, OpRaggedAllToAll, OpRecv, OpRecvDone, OpReduceScatter, OpSend, OpSendDone, OpSlice,
		OpBitcast, OpBitcastConvert, OpConstant, OpConvert, OpCustomCall, OpFusion, OpInfeed, OpIota, OpOutfeed,
		OpParameter, OpReducePrecision, OpReshape, OpRng, OpRngBitGenerator, OpRngGetAndUpdateState, OpStochasticConvert:
		return false
	}
	return true
}

// inferred is the shape of an instruction whose text has none.
func (p *parser) inferred(in *Instruction) *Shape {
	s, err := InferShape(in)
	if err != nil {
		p.fail(p.tok.pos, "the shape of %v does not follow from its operands: %v", in.Op, err)
	}
	s = p.sized(s)
	s.fillLayout()
	return s
}

// fillLayout gives arrays without a layout the default one.
func (s *Shape) fillLayout() {
	if s.IsArray() && s.Layout == nil {
		s.Layout = DefaultLayout(len(s.Dims))
	}
	for _, e := range s.Elements {
		e.fillLayout()
	}
}
