package defects

import (
	"fmt"
	"math"
	"slices"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// Catalogue are all kinds. Most are mistakes that public reports of XLA faults
// tell of; the others are their neighbours.
var Catalogue = append([]Kind{
	{"operands-swapped", Operands, true, nil, swapOperands},
	{"left-operand-dropped", Operands, true, nil, func(s *site) bool { return s.binary() && s.replace(s.in.Operands[1]) }},
	{"right-operand-dropped", Operands, true, nil, func(s *site) bool { return s.binary() && s.replace(s.in.Operands[0]) }},
	{"operation-dropped", Operands, true, nil, dropUnary},
	{"operand-repeated", Operands, true, nil, repeatOperand},
	{"select-swapped", Operands, true, on(hlo.OpSelect), func(s *site) bool { return s.in.Op == hlo.OpSelect && s.swap(1, 2) }},
	{"clamp-bounds-swapped", Operands, true, on(hlo.OpClamp), func(s *site) bool { return s.in.Op == hlo.OpClamp && s.swap(0, 2) }},
	{"tuple-element-wrong", Operands, true, on(hlo.OpGetTupleElement), wrongElement},

	{"transpose-permutation", Axes, true, on(hlo.OpTranspose), permute(hlo.OpTranspose)},
	{"broadcast-dimensions", Axes, true, on(hlo.OpBroadcast), permute(hlo.OpBroadcast)},
	{"reduce-dimension", Axes, true, on(hlo.OpReduce), otherDimension(hlo.OpReduce)},
	{"reverse-dimension", Axes, true, on(hlo.OpReverse), otherDimension(hlo.OpReverse)},
	{"sort-dimension", Axes, true, on(hlo.OpSort), otherDimension(hlo.OpSort)},
	{"iota-dimension", Axes, true, on(hlo.OpIota), otherDimension(hlo.OpIota)},
	{"iota-reversed", Axes, true, on(hlo.OpIota), reverseIota},
	{"concatenate-order", Axes, true, on(hlo.OpConcatenate), concatenateOrder},
	{"reverse-added", Axes, true, on(hlo.OpReverse, hlo.OpSlice, hlo.OpConcatenate, hlo.OpPad, hlo.OpTranspose), addReverse},
	{"transposed", Axes, true, on(hlo.OpDot, hlo.OpReshape, hlo.OpGather, hlo.OpReduce, hlo.OpConvolution), addTranspose},

	{"slice-start", Offsets, true, on(hlo.OpSlice), sliceStart},
	{"slice-stride", Offsets, true, on(hlo.OpSlice), sliceStride},
	{"pad-shifted", Offsets, true, on(hlo.OpPad), shiftPadding},
	{"window-shifted", Offsets, true, on(hlo.OpReduceWindow, hlo.OpConvolution, hlo.OpSelectAndScatter), shiftWindow},
	{"rotated", Offsets, true, on(hlo.OpReshape, hlo.OpGather, hlo.OpDynamicSlice, hlo.OpConcatenate, hlo.OpReduce), rotate},

	{"padding-value", Fills, true, on(hlo.OpPad), wrongFill(hlo.OpPad, 1)},
	{"reduce-identity", Fills, true, on(hlo.OpReduce), wrongFill(hlo.OpReduce, -1)},
	{"window-identity", Fills, true, on(hlo.OpReduceWindow), wrongFill(hlo.OpReduceWindow, -1)},
	{"constant-off-by-one", Fills, true, on(hlo.OpConstant), wrongConstant},

	{"comparison-strict", Directions, true, on(hlo.OpCompare), direction(map[string]string{"LT": "LE", "LE": "LT", "GT": "GE", "GE": "GT"})},
	{"comparison-reversed", Directions, true, on(hlo.OpCompare), direction(map[string]string{"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "EQ": "NE", "NE": "EQ"})},
	{"opcode-wrong", Directions, true, nil, wrongOpcode},
	{"branches-swapped", Directions, true, on(hlo.OpConditional), swapBranches},
	{"reduction-wrong", Directions, true, on(hlo.OpReduce, hlo.OpReduceWindow), wrongReduction},

	{"convert-lost", Converts, true, on(hlo.OpConvert), loseConvert},
	{"narrow-round-trip", Converts, true, nil, narrowTrip},
	{"signedness-lost", Converts, true, on(hlo.OpConvert, hlo.OpCompare), wrongSign},
	{"rounded-first", Converts, true, on(hlo.OpConvert), roundFirst},

	{"nan-lost", Specials, true, nil, loseNaN},
	{"infinity-lost", Specials, true, nil, loseInfinity},
	{"negative-zero-lost", Specials, true, nil, loseNegativeZero},

	{"one-in-ten-thousand", Elements, true, nil, func(s *site) bool { return s.in.Shape.Elems() >= 10000 && wrongAt(s, s.in.Shape.Elems()/3) }},
	{"tail-element", Elements, true, nil, func(s *site) bool { return s.in.Shape.Elems() >= 2 && wrongAt(s, s.in.Shape.Elems()-1) }},
	{"first-element", Elements, true, nil, func(s *site) bool { return s.in.Shape.Elems() >= 2 && wrongAt(s, 0) }},

	{"dynamic-start-off-by-one", Indices, true, on(hlo.OpDynamicSlice, hlo.OpDynamicUpdateSlice), dynamicStart},
	{"dynamic-clamp-lost", Indices, true, on(hlo.OpDynamicSlice, hlo.OpDynamicUpdateSlice), loseClamp},
	{"gather-index-map", Indices, true, on(hlo.OpGather), gatherMap},
	{"gather-offset-dimensions", Indices, true, on(hlo.OpGather), gatherOffsets},
	{"scatter-index-map", Indices, true, on(hlo.OpScatter), scatterMap},
	{"scatter-combiner", Indices, true, on(hlo.OpScatter), scatterCombiner},

	{"dot-contracting", Dots, true, on(hlo.OpDot), dotContracting},
	{"convolution-kernel-dimensions", Dots, true, on(hlo.OpConvolution), convolutionKernel},
	{"window-reversal", Dots, true, on(hlo.OpConvolution), reverseWindow},

	{"update-lost", Aliases, true, on(hlo.OpDynamicUpdateSlice, hlo.OpScatter), loseUpdate},
	{"update-replaces-all", Aliases, true, on(hlo.OpDynamicUpdateSlice), swapUpdate},
}, precisionKinds()...)

func on(ops ...hlo.Opcode) []hlo.Opcode { return ops }

// precisionKinds lose 1 to 8 bits of the significand.
func precisionKinds() []Kind {
	var out []Kind
	for bits := range 8 {
		out = append(out, Kind{fmt.Sprintf("%d-bits-lost", bits+1), Precision, false, nil, func(s *site) bool { return losePrecision(s, bits+1) }})
	}
	return out
}

// binary reports whether the site is an element-wise operation of two arrays.
func (s *site) binary() bool {
	return len(s.in.Operands) == 2 && (commutative[s.in.Op] || ordered[s.in.Op]) && s.in.Shape.IsArray() && s.in.Op != hlo.OpCompare
}

var commutative = map[hlo.Opcode]bool{hlo.OpAdd: true, hlo.OpMultiply: true, hlo.OpMaximum: true, hlo.OpMinimum: true, hlo.OpAnd: true, hlo.OpOr: true, hlo.OpXor: true}

var ordered = map[hlo.Opcode]bool{
	hlo.OpSubtract: true, hlo.OpDivide: true, hlo.OpRemainder: true, hlo.OpPower: true, hlo.OpAtan2: true, hlo.OpComplex: true,
	hlo.OpShiftLeft: true, hlo.OpShiftRightArithmetic: true, hlo.OpShiftRightLogical: true, hlo.OpCompare: true,
}

func (s *site) swap(i, j int) bool {
	ops := s.in.Operands
	if ops[i] == ops[j] || ops[i].Shape.String() != ops[j].Shape.String() {
		return false
	}
	ops[i], ops[j] = ops[j], ops[i]
	return true
}

func swapOperands(s *site) bool { return ordered[s.in.Op] && s.swap(0, 1) }

// dropUnary lets an element-wise operation or move of one operand of the same
// shape pass its operand through.
func dropUnary(s *site) bool {
	switch s.in.Op {
	case hlo.OpCopy, hlo.OpBitcast, hlo.OpReshape, hlo.OpConvert, hlo.OpOptBarrier, hlo.OpTuple, hlo.OpCustomCall, hlo.OpFusion, hlo.OpCall, hlo.OpWhile:
		return false
	}
	return len(s.in.Operands) == 1 && s.in.Shape.IsArray() && s.replace(s.in.Operands[0])
}

// repeatOperand reads the first operand twice.
func repeatOperand(s *site) bool {
	if !s.binary() || s.in.Operands[0] == s.in.Operands[1] || s.in.Operands[0].Shape.String() != s.in.Operands[1].Shape.String() {
		return false
	}
	s.in.Operands[1] = s.in.Operands[0]
	return true
}

// wrongElement takes a neighbour of the same shape out of a tuple.
func wrongElement(s *site) bool {
	if s.in.Op != hlo.OpGetTupleElement {
		return false
	}
	elements := s.in.Operands[0].Shape.Elements
	at := int(s.in.Attr.TupleIndex)
	for i := range elements {
		if j := (at + 1 + i) % len(elements); j != at && elements[j].String() == elements[at].String() {
			s.in.Attr.TupleIndex = int64(j)
			return true
		}
	}
	return false
}

// permute exchanges two entries of dimensions that leave the shape as it is.
func permute(op hlo.Opcode) func(*site) bool {
	return func(s *site) bool {
		if s.in.Op != op {
			return false
		}
		d := s.in.Attr.Dimensions
		from := s.in.Operands[0].Shape
		for i := range d {
			for j := range i {
				if d[i] < int64(s.in.Shape.Rank()) && s.in.Operands[0].Shape.Rank() == len(d) && from.Dims[i] == from.Dims[j] && from.Dims[i] > 1 {
					if op == hlo.OpTranspose && from.Dims[d[i]] != from.Dims[d[j]] {
						continue
					}
					d[i], d[j] = d[j], d[i]
					return true
				}
			}
		}
		if op == hlo.OpBroadcast && len(d) == 1 { // a vector along the other axis of a square
			for k := range int64(s.in.Shape.Rank()) {
				if k != d[0] && s.in.Shape.Dims[k] == s.in.Shape.Dims[d[0]] && s.in.Shape.Dims[k] > 1 {
					d[0] = k
					return true
				}
			}
		}
		return false
	}
}

// otherDimension moves one dimension to another one of the same size.
func otherDimension(op hlo.Opcode) func(*site) bool {
	return func(s *site) bool {
		if s.in.Op != op || len(s.in.Attr.Dimensions) == 0 {
			return false
		}
		shape := s.in.Shape
		if len(s.in.Operands) > 0 {
			shape = s.in.Operands[0].Shape
		}
		d := s.in.Attr.Dimensions
		for i := range d {
			for k := range int64(shape.Rank()) {
				if !slices.Contains(d, k) && shape.Dims[k] > 1 && (shape.Dims[k] == shape.Dims[d[i]] || op == hlo.OpReverse || op == hlo.OpSort || op == hlo.OpIota) {
					d[i] = k
					return true
				}
			}
		}
		return false
	}
}

// reverseIota counts down.
func reverseIota(s *site) bool {
	if s.in.Op != hlo.OpIota || s.in.Shape.Dims[s.in.Attr.Dimensions[0]] < 2 {
		return false
	}
	top := s.scalar(s.in.Shape.Type, number(float64(s.in.Shape.Dims[s.in.Attr.Dimensions[0]]-1)))
	return s.replace(s.add(hlo.OpSubtract, s.in.Shape, s.spread(top, s.in.Shape), s.in))
}

func concatenateOrder(s *site) bool {
	ops := s.in.Operands
	if s.in.Op != hlo.OpConcatenate || len(ops) < 2 || ops[0] == ops[1] {
		return false
	}
	ops[0], ops[1] = ops[1], ops[0]
	return true
}

// dataflow reports whether a wrapper may stand behind the site: an array that
// some operation of the program computes.
func (s *site) dataflow() bool {
	switch s.in.Op {
	case hlo.OpConstant, hlo.OpBitcast, hlo.OpGetTupleElement, hlo.OpCustomCall, hlo.OpCopyStart, hlo.OpCopyDone, hlo.OpAsyncDone:
		return false
	}
	return s.array()
}

func addReverse(s *site) bool {
	if !s.dataflow() {
		return false
	}
	d := slices.IndexFunc(s.in.Shape.Dims, func(n int64) bool { return n > 1 })
	if d < 0 || s.in.Op != hlo.OpReverse && s.in.Op != hlo.OpSlice && s.in.Op != hlo.OpConcatenate && s.in.Op != hlo.OpPad && s.in.Op != hlo.OpTranspose {
		return false
	}
	n := s.add(hlo.OpReverse, s.in.Shape, s.in)
	n.Attr.Dimensions = []int64{int64(d)}
	return s.replace(n)
}

// addTranspose exchanges two axes of the same size of a dot, broadcast, reduce,
// reshape or gather.
func addTranspose(s *site) bool {
	switch s.in.Op {
	case hlo.OpDot, hlo.OpReshape, hlo.OpGather, hlo.OpReduce, hlo.OpConvolution:
	default:
		return false
	}
	if !s.dataflow() || s.in.Shape.Rank() < 2 {
		return false
	}
	for i := range s.in.Shape.Dims {
		for j := range i {
			if s.in.Shape.Dims[i] == s.in.Shape.Dims[j] && s.in.Shape.Dims[i] > 1 {
				n := s.add(hlo.OpTranspose, s.in.Shape, s.in)
				for k := range s.in.Shape.Rank() {
					n.Attr.Dimensions = append(n.Attr.Dimensions, int64(k))
				}
				n.Attr.Dimensions[i], n.Attr.Dimensions[j] = int64(j), int64(i)
				return s.replace(n)
			}
		}
	}
	return false
}

// sliceStart moves a slice by one element.
func sliceStart(s *site) bool {
	if s.in.Op != hlo.OpSlice {
		return false
	}
	for k, d := range s.in.Attr.SliceDimensions {
		size := s.in.Operands[0].Shape.Dims[k]
		switch {
		case d.Limit < size && d.Limit > d.Start:
			d.Start, d.Limit = d.Start+1, d.Limit+1
			return true
		case d.Start > 0 && d.Limit > d.Start:
			d.Start, d.Limit = d.Start-1, d.Limit-1
			return true
		}
	}
	return false
}

// sliceStride takes neighbours instead of every second element.
func sliceStride(s *site) bool {
	if s.in.Op != hlo.OpSlice {
		return false
	}
	for k, d := range s.in.Attr.SliceDimensions {
		if n := s.in.Shape.Dims[k]; d.Stride > 1 && n > 1 {
			d.Stride, d.Limit = 1, d.Start+n
			return true
		}
	}
	return false
}

func shiftPadding(s *site) bool {
	if s.in.Op != hlo.OpPad {
		return false
	}
	for _, d := range s.in.Attr.PaddingConfig.GetDimensions() {
		if d.EdgePaddingLow != 0 || d.EdgePaddingHigh != 0 {
			step := int64(1)
			if d.EdgePaddingHigh <= 0 && d.EdgePaddingLow > 0 {
				step = -1
			}
			d.EdgePaddingLow, d.EdgePaddingHigh = d.EdgePaddingLow+step, d.EdgePaddingHigh-step
			return true
		}
	}
	return false
}

func shiftWindow(s *site) bool {
	switch s.in.Op {
	case hlo.OpReduceWindow, hlo.OpConvolution, hlo.OpSelectAndScatter:
	default:
		return false
	}
	for _, d := range s.in.Attr.Window.GetDimensions() {
		if d.Size > 1 || d.Stride > 1 {
			step := int64(1)
			if d.PaddingHigh == 0 && d.PaddingLow > 0 {
				step = -1
			}
			d.PaddingLow, d.PaddingHigh = d.PaddingLow+step, d.PaddingHigh-step
			return true
		}
	}
	return false
}

// rotate shifts a value by one element along its last axis, cyclically.
func rotate(s *site) bool {
	switch s.in.Op {
	case hlo.OpReshape, hlo.OpGather, hlo.OpDynamicSlice, hlo.OpConcatenate, hlo.OpReduce:
	default:
		return false
	}
	if !s.dataflow() || s.in.Shape.Rank() == 0 {
		return false
	}
	axis := s.in.Shape.Rank() - 1
	n := s.in.Shape.Dims[axis]
	if n < 2 {
		return false
	}
	part := func(from, to int64) *hlo.Instruction {
		shape := s.in.Shape.Clone()
		shape.Dims[axis] = to - from
		p := s.add(hlo.OpSlice, shape, s.in)
		for k, d := range s.in.Shape.Dims {
			one := &hlopb.HloInstructionProto_SliceDimensions{Limit: d, Stride: 1}
			if k == axis {
				one.Start, one.Limit = from, to
			}
			p.Attr.SliceDimensions = append(p.Attr.SliceDimensions, one)
		}
		return p
	}
	a, b := part(1, n), part(0, 1)
	whole := s.add(hlo.OpConcatenate, s.in.Shape, a, b)
	whole.Attr.Dimensions = []int64{int64(axis)}
	return s.replace(whole)
}

// wrongFill puts another value in the place of a fill value or identity; at is
// its operand, -1 the first initial value.
func wrongFill(op hlo.Opcode, at int) func(*site) bool {
	return func(s *site) bool {
		if s.in.Op != op {
			return false
		}
		i := at
		if i < 0 {
			i = len(s.in.Operands) / 2
		}
		old := s.in.Operands[i]
		wrong := 1.0
		if old.Literal != nil && old.Literal.Shape.IsArray() && !old.Shape.Type.IsComplex() {
			switch t := old.Shape.Type; {
			case t.IsFloat() && old.Literal.Float(0) == 1, !t.IsFloat() && old.Literal.Int(0) == 1:
				wrong = 0
			case t.IsFloat() && math.IsInf(old.Literal.Float(0), 0):
				wrong = 0
			}
		}
		s.in.Operands[i] = s.scalar(old.Shape.Type, number(wrong))
		return true
	}
}

// wrongConstant adds one to the last element of a constant.
func wrongConstant(s *site) bool {
	if s.in.Op != hlo.OpConstant || !s.array() || s.in.Literal == nil || s.in.Shape.Type.IsComplex() {
		return false
	}
	l := &hlo.Literal{Shape: s.in.Literal.Shape, Raw: slices.Clone(s.in.Literal.Raw)}
	i := s.in.Shape.Elems() - 1
	switch t := s.in.Shape.Type; {
	case t.IsFloat():
		v := l.Float(i) + 1
		if v == l.Float(i) || math.IsNaN(v) {
			v = 0
		}
		l.SetFloat(i, v)
	case t == hlo.Pred:
		l.SetInt(i, 1-l.Int(i))
	default:
		l.SetInt(i, l.Int(i)+1)
	}
	s.in.Literal = l
	return true
}

func direction(to map[string]string) func(*site) bool {
	return func(s *site) bool {
		d, ok := to[s.in.Attr.GetComparisonDirection()]
		if s.in.Op != hlo.OpCompare || !ok {
			return false
		}
		s.in.Attr.ComparisonDirection = d
		return true
	}
}

// sibling is the opcode for which each is easily mistaken.
var sibling = map[hlo.Opcode]hlo.Opcode{
	hlo.OpAdd: hlo.OpSubtract, hlo.OpSubtract: hlo.OpAdd, hlo.OpMultiply: hlo.OpAdd, hlo.OpDivide: hlo.OpMultiply,
	hlo.OpMaximum: hlo.OpMinimum, hlo.OpMinimum: hlo.OpMaximum, hlo.OpAnd: hlo.OpOr, hlo.OpOr: hlo.OpXor, hlo.OpXor: hlo.OpOr,
	hlo.OpShiftRightArithmetic: hlo.OpShiftRightLogical, hlo.OpShiftRightLogical: hlo.OpShiftRightArithmetic, hlo.OpShiftLeft: hlo.OpShiftRightLogical,
	hlo.OpFloor: hlo.OpCeil, hlo.OpCeil: hlo.OpFloor, hlo.OpRoundNearestAFZ: hlo.OpRoundNearestEven, hlo.OpRoundNearestEven: hlo.OpRoundNearestAFZ,
	hlo.OpAbs: hlo.OpNegate, hlo.OpNegate: hlo.OpAbs, hlo.OpSine: hlo.OpCosine, hlo.OpCosine: hlo.OpSine, hlo.OpExponential: hlo.OpExponentialMinusOne,
	hlo.OpExponentialMinusOne: hlo.OpExponential, hlo.OpLog: hlo.OpLogPlusOne, hlo.OpLogPlusOne: hlo.OpLog, hlo.OpSqrt: hlo.OpRsqrt, hlo.OpRsqrt: hlo.OpSqrt,
	hlo.OpTanh: hlo.OpLogistic, hlo.OpRemainder: hlo.OpDivide, hlo.OpPopcnt: hlo.OpCountLeadingZeros, hlo.OpCountLeadingZeros: hlo.OpPopcnt,
}

func wrongOpcode(s *site) bool {
	to, ok := sibling[s.in.Op]
	if !ok {
		return false
	}
	s.in.Op = to
	return true
}

func swapBranches(s *site) bool {
	if s.in.Op != hlo.OpConditional || len(s.in.Called) < 2 {
		return false
	}
	p := func(i int) string { return s.in.Called[i].Params()[0].Shape.String() }
	if p(0) != p(1) {
		return false
	}
	s.in.Called[0], s.in.Called[1] = s.in.Called[1], s.in.Called[0]
	return true
}

// associative pairs operations that a reduction can combine with in any order.
var associative = map[hlo.Opcode]hlo.Opcode{
	hlo.OpAdd: hlo.OpMaximum, hlo.OpMultiply: hlo.OpAdd, hlo.OpMaximum: hlo.OpMinimum, hlo.OpMinimum: hlo.OpMaximum, hlo.OpAnd: hlo.OpOr, hlo.OpOr: hlo.OpAnd,
}

// wrongReduction combines with another operation.
func wrongReduction(s *site) bool {
	if s.in.Op != hlo.OpReduce && s.in.Op != hlo.OpReduceWindow || len(s.in.Called) != 1 {
		return false
	}
	to, ok := associative[s.in.Called[0].Root.Op]
	if !ok {
		return false
	}
	body := s.ownBody(0)
	body.Root.Op = to
	s.names = append(s.names, body.Root.Name)
	return true
}

// ownBody gives the site's instruction a copy of the computation that it calls,
// so that other callers keep theirs.
func (s *site) ownBody(i int) *hlo.Computation {
	old := s.in.Called[i]
	n := 0
	for _, c := range s.m.Computations {
		for _, in := range c.Instructions {
			if slices.Contains(in.Called, old) {
				n++
			}
		}
	}
	if n == 1 {
		return old
	}
	c := s.m.Clone().Computation(old.Name)
	c.Name = s.fresh() + "." + old.Name
	for _, in := range c.Instructions {
		in.Name = s.fresh() + "." + in.Name
		for k, called := range in.Called {
			in.Called[k] = s.m.Computation(called.Name)
		}
	}
	s.m.Computations = slices.Insert(s.m.Computations, slices.Index(s.m.Computations, old), c)
	s.in.Called[i] = c
	return c
}

// loseConvert drops a conversion to another type and back, or takes the bits
// for the value.
func loseConvert(s *site) bool {
	if s.in.Op != hlo.OpConvert {
		return false
	}
	inner := s.in.Operands[0]
	if inner.Op == hlo.OpConvert && inner.Operands[0].Shape.String() == s.in.Shape.String() {
		return s.replace(inner.Operands[0])
	}
	if inner.Shape.Type.Bits() != s.in.Shape.Type.Bits() || inner.Shape.Type == s.in.Shape.Type {
		return false
	}
	s.in.Op = hlo.OpBitcastConvert
	return true
}

// narrower is the type through which a value goes by mistake.
var narrower = map[hlo.PrimitiveType]hlo.PrimitiveType{hlo.F64: hlo.F32, hlo.F32: hlo.BF16, hlo.F16: hlo.BF16, hlo.S32: hlo.S8, hlo.U32: hlo.U8, hlo.S64: hlo.S32, hlo.U64: hlo.U32, hlo.S16: hlo.S8}

func narrowTrip(s *site) bool {
	to, ok := narrower[s.in.Shape.Type]
	if !ok || !s.dataflow() || s.in.Op == hlo.OpConvert {
		return false
	}
	n := s.add(hlo.OpConvert, s.like(s.in.Shape, to), s.in)
	return s.replace(s.add(hlo.OpConvert, s.in.Shape, n))
}

// wrongSign widens or compares as if the type had the other signedness.
func wrongSign(s *site) bool {
	from, to := hlo.InvalidType, hlo.InvalidType
	if len(s.in.Operands) == 0 {
		return false
	}
	other := map[hlo.PrimitiveType]hlo.PrimitiveType{hlo.S8: hlo.U8, hlo.U8: hlo.S8, hlo.S16: hlo.U16, hlo.U16: hlo.S16, hlo.S32: hlo.U32, hlo.U32: hlo.S32, hlo.S64: hlo.U64, hlo.U64: hlo.S64}
	from = s.in.Operands[0].Shape.Type
	if to = other[from]; to == hlo.InvalidType {
		return false
	}
	switch {
	case s.in.Op == hlo.OpConvert && (s.in.Shape.Type.IsFloat() || s.in.Shape.Type.Bits() > from.Bits()):
		s.in.Operands[0] = s.before(hlo.OpBitcastConvert, s.like(s.in.Operands[0].Shape, to), s.in.Operands[0])
		return true
	case s.in.Op == hlo.OpCompare && s.in.Operands[0] != s.in.Operands[1]:
		for i, o := range s.in.Operands {
			s.in.Operands[i] = s.before(hlo.OpBitcastConvert, s.like(o.Shape, to), o)
		}
		s.in.Attr.ComparisonType = "UNSIGNED"
		if to.IsSigned() {
			s.in.Attr.ComparisonType = "SIGNED"
		}
		return true
	}
	return false
}

// roundFirst rounds to the nearest integer where a conversion truncates.
func roundFirst(s *site) bool {
	if s.in.Op != hlo.OpConvert || !s.in.Shape.Type.IsInteger() || !s.in.Operands[0].Shape.Type.IsFloat() {
		return false
	}
	s.in.Operands[0] = s.before(hlo.OpRoundNearestAFZ, s.in.Operands[0].Shape, s.in.Operands[0])
	return true
}

// loseNaN turns NaN into zero.
func loseNaN(s *site) bool {
	if !s.dataflow() || !s.in.Shape.Type.IsFloat() {
		return false
	}
	zero := s.scalar(s.in.Shape.Type, number(0))
	same := s.compare("EQ", s.in, s.in)
	return s.replace(s.add(hlo.OpSelect, s.in.Shape, same, s.in, s.spread(zero, s.in.Shape)))
}

// loseInfinity keeps values within the finite range of the type.
func loseInfinity(s *site) bool {
	t := s.in.Shape.Type
	if !s.dataflow() || !t.IsFloat() || t.Bits() < 16 {
		return false
	}
	inf := s.scalar(t, func(l *hlo.Literal) { l.SetFloat(0, math.Inf(1)) })
	large := s.scalar(t, func(l *hlo.Literal) {
		l.SetFloat(0, math.Inf(1))
		l.SetBits(0, l.Bits(0)-1) // the largest finite value
	})
	is := s.compare("EQ", s.in, s.spread(inf, s.in.Shape))
	return s.replace(s.add(hlo.OpSelect, s.in.Shape, is, s.spread(large, s.in.Shape), s.in))
}

// loseNegativeZero turns -0 into +0.
func loseNegativeZero(s *site) bool {
	if !s.dataflow() || !s.in.Shape.Type.IsFloat() {
		return false
	}
	zero := s.spread(s.scalar(s.in.Shape.Type, number(0)), s.in.Shape)
	is := s.compare("EQ", s.in, zero)
	return s.replace(s.add(hlo.OpSelect, s.in.Shape, is, zero, s.in))
}

// wrongAt changes the element with the row-major index flat: integers and
// floats get one more, predicates their opposite.
func wrongAt(s *site, flat int64) bool {
	t := s.in.Shape.Type
	if !s.dataflow() || t.IsComplex() || t.Bits() < 8 && t != hlo.Pred || s.in.Shape.Rank() == 0 {
		return false
	}
	dims := s.in.Shape.Dims
	var hit *hlo.Instruction
	for k := len(dims) - 1; k >= 0; k-- {
		at := flat % dims[k]
		flat /= dims[k]
		iota := s.add(hlo.OpIota, s.like(s.in.Shape, hlo.S32))
		iota.Attr.Dimensions = []int64{int64(k)}
		is := s.compare("EQ", iota, s.spread(s.scalar(hlo.S32, number(float64(at))), iota.Shape))
		if hit == nil {
			hit = is
		} else {
			hit = s.add(hlo.OpAnd, is.Shape, hit, is)
		}
	}
	var wrong *hlo.Instruction
	if t == hlo.Pred {
		wrong = s.add(hlo.OpNot, s.in.Shape, s.in)
	} else {
		wrong = s.add(hlo.OpAdd, s.in.Shape, s.in, s.spread(s.scalar(t, number(1)), s.in.Shape))
	}
	return s.replace(s.add(hlo.OpSelect, s.in.Shape, hit, wrong, s.in))
}

// starts are the operands that hold the start indices of a dynamic slice or
// update.
func (s *site) starts() (first int, extent func(d int) int64) {
	switch s.in.Op {
	case hlo.OpDynamicSlice:
		return 1, func(d int) int64 { return s.in.Operands[0].Shape.Dims[d] - s.in.Shape.Dims[d] }
	case hlo.OpDynamicUpdateSlice:
		return 2, func(d int) int64 { return s.in.Operands[0].Shape.Dims[d] - s.in.Operands[1].Shape.Dims[d] }
	}
	return 0, nil
}

func dynamicStart(s *site) bool {
	first, extent := s.starts()
	if first == 0 {
		return false
	}
	for i := first; i < len(s.in.Operands); i++ {
		o := s.in.Operands[i]
		if o.Shape.Rank() == 0 && extent(i-first) > 0 {
			s.in.Operands[i] = s.before(hlo.OpAdd, o.Shape, o, s.scalar(o.Shape.Type, number(1)))
			return true
		}
	}
	return false
}

// loseClamp wraps an index around where it must be clamped: a start above the
// last legal one becomes zero.
func loseClamp(s *site) bool {
	first, extent := s.starts()
	if first == 0 {
		return false
	}
	for i := first; i < len(s.in.Operands); i++ {
		o := s.in.Operands[i]
		if o.Shape.Rank() != 0 || extent(i-first) <= 0 || o.Op == hlo.OpConstant {
			continue
		}
		top := s.scalar(o.Shape.Type, number(float64(extent(i-first))))
		zero := s.scalar(o.Shape.Type, number(0))
		over := s.before(hlo.OpCompare, s.like(o.Shape, hlo.Pred), o, top)
		over.Attr.ComparisonDirection, over.Attr.ComparisonType, over.Attr.ComparisonOrder = "GT", "UNSIGNED", "TOTAL"
		if o.Shape.Type.IsSigned() {
			over.Attr.ComparisonType = "SIGNED"
		}
		s.in.Operands[i] = s.before(hlo.OpSelect, o.Shape, over, zero, o)
		return true
	}
	return false
}

func gatherMap(s *site) bool {
	g := s.in.Attr.GetGatherDimensionNumbers()
	if s.in.Op != hlo.OpGather || len(g.GetStartIndexMap()) < 2 {
		return false
	}
	g.StartIndexMap[0], g.StartIndexMap[1] = g.StartIndexMap[1], g.StartIndexMap[0]
	return true
}

// gatherOffsets takes the slice at a neighbour of the axis that is asked for.
func gatherOffsets(s *site) bool {
	g := s.in.Attr.GetGatherDimensionNumbers()
	if s.in.Op != hlo.OpGather || len(g.GetStartIndexMap()) != 1 {
		return false
	}
	for k := range int64(s.in.Operands[0].Shape.Rank()) {
		if k != g.StartIndexMap[0] && s.in.Attr.GatherSliceSizes[k] < s.in.Operands[0].Shape.Dims[k] {
			g.StartIndexMap[0] = k
			return true
		}
	}
	return false
}

func scatterMap(s *site) bool {
	g := s.in.Attr.GetScatterDimensionNumbers()
	if s.in.Op != hlo.OpScatter || len(g.GetScatterDimsToOperandDims()) < 2 {
		return false
	}
	g.ScatterDimsToOperandDims[0], g.ScatterDimsToOperandDims[1] = g.ScatterDimsToOperandDims[1], g.ScatterDimsToOperandDims[0]
	return true
}

// scatterCombiner lets the update replace what a scatter combines it with, or
// combines where it must replace.
func scatterCombiner(s *site) bool {
	if s.in.Op != hlo.OpScatter || len(s.in.Called) != 1 || s.in.Shape.IsTuple() {
		return false
	}
	if p := s.in.Called[0].Params(); len(p) != 2 || p[0] == nil || p[1] == nil {
		return false
	}
	body := s.ownBody(0)
	p := body.Params()
	if body.Root != p[1] {
		body.Root = p[1]
	} else {
		n := hlo.NewInstruction(s.fresh(), hlo.OpMaximum, p[1].Shape.Clone(), p[0], p[1])
		body.Instructions = append(body.Instructions, n)
		body.Root = n
	}
	return true
}

func dotContracting(s *site) bool {
	d := s.in.Attr.GetDotDimensionNumbers()
	if s.in.Op != hlo.OpDot || len(d.GetLhsContractingDimensions()) != 1 {
		return false
	}
	side := func(dims *[]int64, batch []int64, shape *hlo.Shape) bool {
		at := (*dims)[0]
		for k := range int64(shape.Rank()) {
			if k != at && !slices.Contains(batch, k) && shape.Dims[k] == shape.Dims[at] && shape.Dims[k] > 1 {
				(*dims)[0] = k
				return true
			}
		}
		return false
	}
	return side(&d.LhsContractingDimensions, d.LhsBatchDimensions, s.in.Operands[0].Shape) ||
		side(&d.RhsContractingDimensions, d.RhsBatchDimensions, s.in.Operands[1].Shape)
}

// convolutionKernel takes the kernel's two feature axes, or two spatial axes,
// for each other.
func convolutionKernel(s *site) bool {
	d := s.in.Attr.GetConvolutionDimensionNumbers()
	if s.in.Op != hlo.OpConvolution || d == nil {
		return false
	}
	k := s.in.Operands[1].Shape.Dims
	if k[d.KernelInputFeatureDimension] == k[d.KernelOutputFeatureDimension] && k[d.KernelInputFeatureDimension] > 1 {
		d.KernelInputFeatureDimension, d.KernelOutputFeatureDimension = d.KernelOutputFeatureDimension, d.KernelInputFeatureDimension
		return true
	}
	if s := d.KernelSpatialDimensions; len(s) > 1 && k[s[0]] == k[s[1]] && k[s[0]] > 1 {
		s[0], s[1] = s[1], s[0]
		return true
	}
	return false
}

func reverseWindow(s *site) bool {
	if s.in.Op != hlo.OpConvolution {
		return false
	}
	for _, d := range s.in.Attr.Window.GetDimensions() {
		if d.Size > 1 {
			d.WindowReversal = !d.WindowReversal
			return true
		}
	}
	return false
}

// loseUpdate leaves the buffer of an update as it was.
func loseUpdate(s *site) bool {
	switch s.in.Op {
	case hlo.OpDynamicUpdateSlice, hlo.OpScatter:
		return !s.in.Shape.IsTuple() && s.replace(s.in.Operands[0])
	}
	return false
}

// swapUpdate lets an update read another update of the same program where it
// must read the buffer before it.
func swapUpdate(s *site) bool {
	if s.in.Op != hlo.OpDynamicUpdateSlice {
		return false
	}
	under := s.in.Operands[0]
	if under.Op != hlo.OpDynamicUpdateSlice {
		return false
	}
	s.in.Operands[0] = under.Operands[0] // the update below is lost
	return true
}

// losePrecision rounds to fewer bits of the significand.
func losePrecision(s *site, bits int) bool {
	t := s.in.Shape.Type
	if !s.dataflow() || t != hlo.F32 && t != hlo.F64 && t != hlo.BF16 && t != hlo.F16 {
		return false
	}
	f := t.Format()
	left := f.MantissaBits - bits
	if left < 1 {
		return false
	}
	n := s.add(hlo.OpReducePrecision, s.in.Shape, s.in)
	n.Attr.ExponentBits, n.Attr.MantissaBits = int32(f.ExponentBits), int32(left)
	return s.replace(n)
}
