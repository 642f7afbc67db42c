package hlo

import (
	"fmt"
	"math"
	"slices"
)

// InferShape computes the shape of an instruction's result from its opcode,
// operands, attributes and called computations, after
// xla/service/shape_inference.cc (and hlo_verifier.cc for the opcodes that
// have no inference of their own). The result is new memory; its layout is
// what XLA's inference gives: the operand's where the operation keeps the
// shape, row-major otherwise.
//
// Some results are only partly determined by the operands: the element type
// of convert, bitcast-convert, stochastic-convert and dot, the dimensions of
// broadcast, reshape, iota, rng and others. There in.Shape is consulted,
// checked and, where it says all, returned; with a nil in.Shape dot takes the
// wider operand type, and the others give an error. Parameter, infeed, recv,
// custom-call, async-start and async-update return in.Shape.
//
// The error says what does not fit. InferShape does not compare its result
// with in.Shape: Verify does.
func InferShape(in *Instruction) (*Shape, error) {
	if err := in.checkShape(); err != nil {
		return nil, err
	}
	return in.infer(groupSize{})
}

// checkShape checks what inference relies on: counts, and that operands and
// called computations are whole.
func (in *Instruction) checkShape() error {
	if in.Op == OpInvalid || int(in.Op) >= len(opcodes) {
		return fmt.Errorf("no opcode")
	}
	for i, o := range in.Operands {
		if o == nil {
			return fmt.Errorf("operand %d is nil", i)
		}
		if err := o.Shape.Validate(); err != nil {
			return fmt.Errorf("operand %d: %w", i, err)
		}
	}
	for i, c := range in.Called {
		if c == nil || c.Root == nil {
			return fmt.Errorf("called computation %d has no root", i)
		}
		if err := c.Root.Shape.Validate(); err != nil {
			return fmt.Errorf("root of %q: %w", clip(c.Name), err)
		}
		for n, p := range c.Params() {
			if p == nil {
				return fmt.Errorf("%q has no parameter %d", clip(c.Name), n)
			}
			if err := p.Shape.Validate(); err != nil {
				return fmt.Errorf("parameter %d of %q: %w", n, clip(c.Name), err)
			}
		}
	}
	if in.Shape != nil {
		if err := in.Shape.Validate(); err != nil {
			return err
		}
	}
	return in.checkCounts()
}

// program is the type of a computation; the computation is whole.
func (c *Computation) program() ProgramShape {
	ps := ProgramShape{Result: c.Root.Shape}
	for _, p := range c.Params() {
		ps.Params = append(ps.Params, p.Shape)
	}
	return ps
}

// text describes shapes in errors.
func (s *Shape) text() string {
	if s == nil {
		return "nothing"
	}
	t := s.String()
	if len(t) > 200 {
		t = t[:200] + "..."
	}
	return t
}

func wantArray(s *Shape, what string) error {
	if !s.IsArray() {
		return fmt.Errorf("%s must be an array, is %s", what, s.text())
	}
	return nil
}

// arrays demands that every operand is an array.
func (in *Instruction) arrays() error {
	for i, o := range in.Operands {
		if err := wantArray(o.Shape, fmt.Sprintf("operand %d of %v", i, in.Op)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Shape) dynamic(i int) bool { return s.Dynamic != nil && s.Dynamic[i] }

func (s *Shape) unbounded(i int) bool { return s.Dims[i] == Unbounded }

func (s *Shape) isUnbounded() bool {
	return slices.Contains(s.Dims, Unbounded) || slices.ContainsFunc(s.Elements, (*Shape).isUnbounded)
}

func (s *Shape) isScalar() bool { return s.IsArray() && len(s.Dims) == 0 }

// newArray makes an array shape with the row-major layout. A dimension is
// dynamic where dyn says so, and where it is unbounded.
func newArray(t PrimitiveType, dims []int64, dyn []bool) *Shape {
	s := &Shape{Type: t, Dims: slices.Clone(dims), Layout: DefaultLayout(len(dims))}
	for i, d := range dims {
		if d == Unbounded || i < len(dyn) && dyn[i] {
			s.setDynamic(i)
		}
	}
	return s
}

func (s *Shape) setDynamic(i int) {
	if s.Dynamic == nil {
		s.Dynamic = make([]bool, len(s.Dims))
	}
	s.Dynamic[i] = true
}

// withType is a copy of the array with another element type; the layout stays.
func (s *Shape) withType(t PrimitiveType) *Shape {
	c := s.Clone()
	c.Type = t
	return c
}

func scalar(t PrimitiveType) *Shape { return newArray(t, nil, nil) }

func tupleOf(shapes []*Shape) *Shape {
	t := &Shape{Type: Tuple}
	for _, s := range shapes {
		t.Elements = append(t.Elements, s.Clone())
	}
	return t
}

// oneOrTuple is the shape itself, or the tuple of several.
func oneOrTuple(shapes []*Shape) *Shape {
	if len(shapes) == 1 {
		return shapes[0].Clone()
	}
	return tupleOf(shapes)
}

func (in *Instruction) operandShapes() []*Shape {
	out := make([]*Shape, len(in.Operands))
	for i, o := range in.Operands {
		out[i] = o.Shape
	}
	return out
}

// sameType compares element types, all real floats being one.
func sameType(a, b PrimitiveType) bool { return a == b || a.IsFloat() && b.IsFloat() }

// compatible compares shapes without layouts and dynamic marks; an unbounded
// dimension fits any (Shape::Equal in xla/shape.cc, as ShapeUtil::Compatible
// uses it). same compares element types.
func compatible(a, b *Shape, same func(a, b PrimitiveType) bool) bool {
	if a.IsArray() != b.IsArray() || !a.IsArray() && a.Type != b.Type {
		return false
	}
	if a.IsArray() && (!same(a.Type, b.Type) || !slices.EqualFunc(a.Dims, b.Dims, fits)) {
		return false
	}
	return slices.EqualFunc(a.Elements, b.Elements, func(x, y *Shape) bool { return compatible(x, y, same) })
}

func fits(a, b int64) bool { return a == b || a == Unbounded || b == Unbounded }

func anyType(_, _ PrimitiveType) bool { return true }

func compatibleAnyFloat(a, b *Shape) bool { return compatible(a, b, sameType) }

func sameDims(a, b *Shape) bool { return slices.EqualFunc(a.Dims, b.Dims, fits) }

// higherType is the type of a result of operands of both types: complex over
// real, then the wider exponent range, the wider significand, the wider type,
// signed over unsigned (xla/primitive_util.h, HigherPrecisionType).
func higherType(a, b PrimitiveType) PrimitiveType {
	key := func(t PrimitiveType) [5]int {
		r := t.Real()
		k := [5]int{1: -1, 2: -1, 3: r.Bits()}
		if t.IsComplex() {
			k[0] = 1
		}
		if f := r.Format(); f != nil {
			k[1], k[2] = f.maxExp()+1, f.MantissaBits+1
		}
		if t == Pred {
			k[3] = 1
		}
		if r.IsSigned() {
			k[4] = 1
		}
		return k
	}
	ka, kb := key(a), key(b)
	if slices.Compare(kb[:], ka[:]) > 0 {
		return b
	}
	return a
}

func inRange(dims []int64, rank int) bool {
	for _, d := range dims {
		if d < 0 || d >= int64(rank) {
			return false
		}
	}
	return true
}

func unique(dims []int64) bool {
	s := slices.Sorted(slices.Values(dims))
	return len(slices.Compact(s)) == len(dims)
}

func mulOverflows(a, b int64) bool {
	if a == 0 || b == 0 {
		return false
	}
	p := a * b
	return p/b != a || a == -1 && b == math.MinInt64 || b == -1 && a == math.MinInt64
}

// addAll sums with an overflow check.
func addAll(v ...int64) (int64, bool) {
	sum := int64(0)
	for _, x := range v {
		if x > 0 && sum > math.MaxInt64-x || x < 0 && sum < math.MinInt64-x {
			return 0, false
		}
		sum += x
	}
	return sum, true
}

// need is the error for a result that only in.Shape can tell.
func (in *Instruction) need() (*Shape, error) {
	if in.Shape == nil {
		return nil, fmt.Errorf("the shape of %v does not follow from its operands", in.Op)
	}
	return in.Shape.Clone(), nil
}

func (in *Instruction) operand(i int) *Shape { return in.Operands[i].Shape }

// infer is InferShape after checkShape.
func (in *Instruction) infer(g groupSize) (*Shape, error) {
	switch in.Op {
	case OpParameter, OpCustomCall, OpBitcast:
		return in.need()
	case OpCopy, OpDomain, OpOptBarrier:
		return in.operand(0).Clone(), nil
	case OpConstant:
		if in.Literal == nil {
			return nil, fmt.Errorf("constant has no literal")
		}
		return in.Literal.Shape.Clone(), nil
	case OpIota:
		return in.inferIota()
	case OpConvert:
		return in.inferConvert()
	case OpBitcastConvert:
		return in.inferBitcastConvert()
	case OpStochasticConvert:
		return in.inferStochasticConvert()
	case OpReducePrecision:
		return in.inferReducePrecision()
	case OpClamp:
		return in.inferClamp()
	case OpSelect:
		return in.inferSelect()
	case OpTuple:
		return tupleOf(in.operandShapes()), nil
	case OpGetTupleElement:
		return in.inferGetTupleElement()
	case OpTopk:
		return in.inferTopk()
	case OpConcatenate:
		return in.inferConcatenate()
	case OpPad:
		return in.inferPad()
	case OpBroadcast:
		return in.inferBroadcast()
	case OpReshape, OpDynamicReshape:
		return in.inferReshape()
	case OpTranspose:
		return in.inferTranspose()
	case OpReverse:
		return in.inferReverse()
	case OpSlice:
		return in.inferSlice()
	case OpDynamicSlice:
		return in.inferDynamicSlice()
	case OpDynamicUpdateSlice:
		return in.inferDynamicUpdateSlice()
	case OpGather:
		return in.inferGather()
	case OpScatter:
		return in.inferScatter()
	case OpDot, OpScaledDot:
		return in.inferDot()
	case OpRaggedDot:
		return in.inferRaggedDot()
	case OpConvolution:
		return in.inferConvolution()
	case OpFft:
		return in.inferFft()
	case OpCholesky:
		return in.inferCholesky()
	case OpTriangularSolve:
		return in.inferTriangularSolve()
	case OpBatchNormTraining, OpBatchNormInference, OpBatchNormGrad:
		return in.inferBatchNorm()
	case OpReduce:
		return in.inferReduce()
	case OpReduceWindow:
		return in.inferReduceWindow()
	case OpSelectAndScatter:
		return in.inferSelectAndScatter()
	case OpScan:
		return in.inferScan()
	case OpSort:
		return in.inferSort()
	case OpMap:
		return in.inferMap()
	case OpWhile:
		return in.inferWhile()
	case OpConditional:
		return in.inferConditional()
	case OpCall:
		return in.inferCall()
	case OpFusion:
		return in.inferFusion()
	case OpGetDimensionSize, OpSetDimensionSize:
		return in.inferDimensionSize()
	case OpRng:
		return in.inferRng()
	case OpRngBitGenerator:
		return in.inferRngBitGenerator()
	case OpRngGetAndUpdateState:
		return newArray(U64, []int64{2}, nil), nil
	case OpPartitionId, OpReplicaId:
		return scalar(U32), nil
	case OpAfterAll, OpSendDone:
		return &Shape{Type: Token}, nil
	case OpAddDependency:
		return in.operand(0).Clone(), in.wantToken(1)
	case OpInfeed:
		return in.inferInfeed()
	case OpOutfeed:
		return in.inferOutfeed()
	case OpSend:
		return tupleOf([]*Shape{in.operand(0), scalar(U32), {Type: Token}}), nil
	case OpRecv:
		if in.Shape == nil || !in.Shape.IsTuple() || len(in.Shape.Elements) == 0 {
			return nil, fmt.Errorf("recv needs a tuple shape, has %s", in.Shape.text())
		}
		return tupleOf([]*Shape{in.Shape.Elements[0], scalar(U32), {Type: Token}}), nil
	case OpRecvDone:
		s, err := in.element(0)
		if err != nil {
			return nil, err
		}
		return tupleOf([]*Shape{s, {Type: Token}}), nil
	case OpCopyStart:
		return tupleOf([]*Shape{in.operand(0), in.operand(0), scalar(U32)}), nil
	case OpCopyDone:
		return in.inferCopyDone()
	case OpAllGather, OpAllGatherStart, OpAllReduce, OpAllReduceStart, OpReduceScatter, OpAllToAll,
		OpRaggedAllToAll, OpCollectiveBroadcast, OpCollectivePermute, OpCollectivePermuteStart:
		return in.inferCollective(g)
	case OpAllReduceDone:
		return in.operand(0).Clone(), nil
	case OpAllGatherDone, OpCollectivePermuteDone:
		s, err := in.element(1)
		return s.Clone(), err
	case OpAsyncStart, OpAsyncUpdate:
		return in.inferAsync()
	case OpAsyncDone:
		if c := in.asyncComputation(); c != nil {
			return c.Root.Shape.Clone(), nil
		}
		return in.need()
	}
	if in.Op.Arity() == 1 {
		return in.inferUnary()
	}
	return in.inferBinary()
}

// element is element i of the tuple that operand 0 is.
func (in *Instruction) element(i int) (*Shape, error) {
	s := in.operand(0)
	if !s.IsTuple() || i < 0 || i >= len(s.Elements) {
		return nil, fmt.Errorf("operand 0 of %v must be a tuple with an element %d, is %s", in.Op, i, s.text())
	}
	return s.Elements[i], nil
}

func (in *Instruction) wantToken(i int) error {
	if in.operand(i).Type != Token {
		return fmt.Errorf("operand %d of %v must be a token, is %s", i, in.Op, in.operand(i).text())
	}
	return nil
}

// unaryTypes says which element types a unary operation takes
// (InferUnaryOpShape).
func unaryTypes(op Opcode, t PrimitiveType) (ok bool, want string) {
	switch op {
	case OpFloor, OpCbrt, OpCeil, OpErf, OpRoundNearestAFZ, OpRoundNearestEven, OpIsFinite:
		return t.IsFloat(), "floating-point"
	case OpReal, OpImag:
		return t.IsFloat() || t.IsComplex(), "floating-point or complex"
	case OpAbs, OpSign:
		return t.IsSigned() || t.IsFloat() || t.IsComplex(), "signed, floating-point or complex"
	case OpCountLeadingZeros, OpPopcnt:
		return t.IsInteger(), "integer"
	case OpNegate:
		return t.IsInteger() || t.IsFloat() || t.IsComplex(), "integer, floating-point or complex"
	case OpNot:
		return t.IsInteger() || t == Pred, "pred or integer"
	}
	return t.IsFloat() || t.IsComplex(), "floating-point or complex"
}

func (in *Instruction) inferUnary() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	s := in.operand(0)
	if ok, want := unaryTypes(in.Op, s.Type); !ok {
		return nil, fmt.Errorf("%v takes %s values, not %v", in.Op, want, s.Type)
	}
	switch in.Op {
	case OpIsFinite:
		return s.withType(Pred), nil
	case OpReal, OpImag, OpAbs:
		return s.withType(s.Type.Real()), nil
	}
	return s.Clone(), nil
}

func (in *Instruction) inferBinary() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	a, b := in.operand(0), in.operand(1)
	if !sameType(a.Type, b.Type) {
		return nil, fmt.Errorf("%v of different element types: %s and %s", in.Op, a.text(), b.text())
	}
	switch in.Op {
	case OpSubtract, OpAtan2, OpPower, OpDivide, OpRemainder, OpShiftLeft, OpShiftRightArithmetic, OpShiftRightLogical:
		if a.Type == Pred {
			return nil, fmt.Errorf("%v takes numbers, not pred", in.Op)
		}
		if in.Op == OpAtan2 && a.Type.IsInteger() {
			return nil, fmt.Errorf("atan2 takes floating-point or complex values, not %v", a.Type)
		}
	case OpAnd, OpOr, OpXor:
		if a.Type != Pred && !a.Type.IsInteger() {
			return nil, fmt.Errorf("%v takes pred or integer values, not %v", in.Op, a.Type)
		}
	}
	s, err := elementwise(in.Op, a, b)
	if err != nil {
		return nil, err
	}
	switch in.Op {
	case OpCompare:
		s.Type = Pred
	case OpComplex:
		switch {
		case a.Type == F32 && b.Type == F32:
			s.Type = C64
		case a.Type == F64 && b.Type == F64:
			s.Type = C128
		default:
			return nil, fmt.Errorf("complex takes f32 or f64 parts, not %v and %v", a.Type, b.Type)
		}
	}
	return s, nil
}

// elementwise is the shape of a binary elementwise result. As in XLA, sizes
// of 1 stretch here; Verify refuses such implicit broadcasts.
func elementwise(op Opcode, a, b *Shape) (*Shape, error) {
	t := higherType(a.Type, b.Type)
	if len(a.Dims) != len(b.Dims) {
		// A scalar broadcasts to the other operand.
		switch {
		case len(a.Dims) == 0:
			return newArray(t, b.Dims, b.Dynamic), nil
		case len(b.Dims) == 0:
			return newArray(t, a.Dims, a.Dynamic), nil
		}
		return nil, fmt.Errorf("%v of shapes of different rank: %s and %s", op, a.text(), b.text())
	}
	if sameDims(a, b) && !a.isUnbounded() && !b.isUnbounded() {
		s := a.withType(t)
		for i := range b.Dims {
			if b.dynamic(i) {
				s.setDynamic(i)
			}
		}
		return s, nil
	}
	dims, dyn := make([]int64, len(a.Dims)), make([]bool, len(a.Dims))
	for i := range dims {
		x, y := a.Dims[i], b.Dims[i]
		switch {
		case x == 1 || x == Unbounded && y != 1:
			dims[i], dyn[i] = y, b.dynamic(i)
		case y == 1 || y == Unbounded:
			dims[i], dyn[i] = x, a.dynamic(i)
		case x == y:
			dims[i], dyn[i] = x, a.dynamic(i) || b.dynamic(i)
		default:
			return nil, fmt.Errorf("%v of incompatible shapes: %s and %s", op, a.text(), b.text())
		}
	}
	return newArray(t, dims, dyn), nil
}

func (in *Instruction) inferIota() (*Shape, error) {
	s, err := in.need()
	if err != nil {
		return nil, err
	}
	if !s.IsArray() || len(s.Dims) == 0 {
		return nil, fmt.Errorf("iota needs an array of rank 1 or more, has %s", s.text())
	}
	d := in.Dimensions()
	if len(d) != 1 || !inRange(d, len(s.Dims)) {
		return nil, fmt.Errorf("iota dimension %v is not one of the %d dimensions", d, len(s.Dims))
	}
	if s.Type == Pred {
		return nil, fmt.Errorf("iota makes numbers, not pred")
	}
	return s, nil
}

func (in *Instruction) inferConvert() (*Shape, error) {
	want, err := in.need()
	if err != nil {
		return nil, err
	}
	if !in.operand(0).IsArray() || !want.IsArray() {
		return nil, fmt.Errorf("convert needs arrays, has %s and %s", in.operand(0).text(), want.text())
	}
	return in.operand(0).withType(want.Type), nil
}

func (in *Instruction) inferBitcastConvert() (*Shape, error) {
	want, err := in.need()
	if err != nil {
		return nil, err
	}
	s := in.operand(0)
	if !s.IsArray() || !want.IsArray() {
		return nil, fmt.Errorf("bitcast-convert needs arrays, has %s and %s", s.text(), want.text())
	}
	if s.Type.IsComplex() != want.Type.IsComplex() {
		return nil, fmt.Errorf("bitcast-convert between complex and real: %v to %v", s.Type, want.Type)
	}
	from, to := s.Type.Bits(), want.Type.Bits()
	if max(from, to)%min(from, to) != 0 {
		return nil, fmt.Errorf("bitcast-convert between widths %d and %d, of which neither divides the other", from, to)
	}
	ratio := int64(max(from, to) / min(from, to))
	switch n := len(s.Dims); {
	case from > to:
		return newArray(want.Type, append(slices.Clone(s.Dims), ratio), s.Dynamic), nil
	case from < to:
		if n == 0 || s.Dims[n-1] != ratio {
			return nil, fmt.Errorf("bitcast-convert from %v to %v needs a last dimension of %d, has %s", s.Type, want.Type, ratio, s.text())
		}
		return newArray(want.Type, s.Dims[:n-1], s.Dynamic), nil
	}
	return s.withType(want.Type), nil
}

func (in *Instruction) inferStochasticConvert() (*Shape, error) {
	want, err := in.need()
	if err != nil {
		return nil, err
	}
	if err := in.arrays(); err != nil {
		return nil, err
	}
	x, r := in.operand(0), in.operand(1)
	switch {
	case !r.Type.IsUnsigned():
		return nil, fmt.Errorf("stochastic-convert needs unsigned random numbers, has %v", r.Type)
	case !x.Type.IsFloat():
		return nil, fmt.Errorf("stochastic-convert converts floating-point values, not %v", x.Type)
	case x.Type.Bits() != r.Type.Bits():
		return nil, fmt.Errorf("stochastic-convert needs random numbers as wide as the operand: %v and %v", x.Type, r.Type)
	case !slices.Equal(x.Dims, r.Dims):
		return nil, fmt.Errorf("stochastic-convert of different shapes: %s and %s", x.text(), r.text())
	case !want.IsArray():
		return nil, fmt.Errorf("stochastic-convert makes an array, not %s", want.text())
	}
	return x.withType(want.Type), nil
}

func (in *Instruction) inferReducePrecision() (*Shape, error) {
	s := in.operand(0)
	switch {
	case !s.Type.IsFloat():
		return nil, fmt.Errorf("reduce-precision takes floating-point values, not %s", s.text())
	case in.Attr.GetExponentBits() < 1:
		return nil, fmt.Errorf("reduce-precision needs at least 1 exponent bit, has %d", in.Attr.GetExponentBits())
	case in.Attr.GetMantissaBits() < 0:
		return nil, fmt.Errorf("reduce-precision has %d mantissa bits", in.Attr.GetMantissaBits())
	}
	return s.Clone(), nil
}

func (in *Instruction) inferClamp() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	lo, x, hi := in.operand(0), in.operand(1), in.operand(2)
	if !sameType(lo.Type, x.Type) || !sameType(hi.Type, x.Type) {
		return nil, fmt.Errorf("clamp of different element types: %s, %s and %s", lo.text(), x.text(), hi.text())
	}
	if !lo.isScalar() && !compatibleAnyFloat(lo, x) || !hi.isScalar() && !compatibleAnyFloat(hi, x) {
		return nil, fmt.Errorf("clamp of incompatible shapes: %s, %s and %s", lo.text(), x.text(), hi.text())
	}
	return x.Clone(), nil
}

func (in *Instruction) inferSelect() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	p, a, b := in.operand(0), in.operand(1), in.operand(2)
	if !compatibleAnyFloat(a, b) {
		return nil, fmt.Errorf("select between different shapes: %s and %s", a.text(), b.text())
	}
	if p.Type != Pred {
		return nil, fmt.Errorf("select by %s, not by pred", p.text())
	}
	full := p
	if p.isScalar() {
		full = a
	} else if !compatible(p, a, anyType) || !compatible(p, b, anyType) {
		return nil, fmt.Errorf("select by %s between %s and %s", p.text(), a.text(), b.text())
	}
	s := full.withType(higherType(a.Type, b.Type))
	s.Dynamic = nil
	for i := range s.Dims {
		switch {
		case a.unbounded(i) || b.unbounded(i):
			s.Dims[i] = a.Dims[i]
			if a.unbounded(i) {
				s.Dims[i] = b.Dims[i]
			}
			if a.dynamic(i) && b.dynamic(i) {
				s.setDynamic(i)
			}
		case !p.isScalar() && p.dynamic(i) || a.dynamic(i) || b.dynamic(i):
			s.setDynamic(i)
		}
	}
	if s.Layout != nil && a.Layout != nil {
		s.Layout.ElementSizeInBits = a.Layout.ElementSizeInBits
	}
	return s, nil
}

func (in *Instruction) inferGetTupleElement() (*Shape, error) {
	i := in.Attr.GetTupleIndex()
	if i < math.MinInt32 || i > math.MaxInt32 {
		i = -1
	}
	s, err := in.element(int(i))
	if err != nil {
		return nil, err
	}
	return s.Clone(), nil
}

func (in *Instruction) inferTopk() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	s, k := in.operand(0), in.Attr.GetK()
	if len(s.Dims) == 0 {
		return nil, fmt.Errorf("topk of a scalar")
	}
	last := len(s.Dims) - 1
	if k < 0 || k > s.Dims[last] {
		return nil, fmt.Errorf("topk of %d values from a dimension of %d", k, s.Dims[last])
	}
	dims := slices.Clone(s.Dims)
	dims[last] = k
	dyn := make([]bool, len(dims))
	copy(dyn, s.Dynamic)
	dyn[last] = false
	return &Shape{Type: Tuple, Elements: []*Shape{newArray(s.Type, dims, dyn), newArray(S32, dims, dyn)}}, nil
}

func (in *Instruction) inferConcatenate() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	first := in.operand(0)
	rank := len(first.Dims)
	d := in.Dimensions()
	if len(d) != 1 || !inRange(d, rank) {
		return nil, fmt.Errorf("concatenate dimension %v is not one of the %d dimensions", d, rank)
	}
	t := first.Type
	// sizes as static, and bounds of dynamic dimensions; Unbounded means unknown.
	size, bound := make([]int64, rank), make([]int64, rank)
	for i := range size {
		size[i], bound[i] = Unbounded, Unbounded
	}
	size[d[0]] = 0
	for _, s := range in.operandShapes() {
		if len(s.Dims) != rank {
			return nil, fmt.Errorf("concatenate of different ranks: %s and %s", first.text(), s.text())
		}
		if !sameType(first.Type, s.Type) {
			return nil, fmt.Errorf("concatenate of different element types: %s and %s", first.text(), s.text())
		}
		t = higherType(s.Type, t)
		for i, n := range s.Dims {
			b := Unbounded
			if s.dynamic(i) {
				b = n
			}
			if int64(i) == d[0] {
				var ok bool
				if size[i], bound[i], ok = concatSizes(size[i], bound[i], n, b); !ok {
					return nil, fmt.Errorf("concatenate dimension overflows")
				}
				continue
			}
			if !fits(size[i], n) || !fits(bound[i], b) {
				return nil, fmt.Errorf("concatenate of shapes that differ in dimension %d: %s and %s", i, first.text(), s.text())
			}
			if size[i] == Unbounded {
				size[i] = n
			}
			if bound[i] == Unbounded {
				bound[i] = b
			}
		}
	}
	dyn := make([]bool, rank)
	for i := range dyn {
		dyn[i] = bound[i] != Unbounded
	}
	return newArray(t, size, dyn), nil
}

// concatSizes adds sizes and bounds (InferConcatenatedDimAndBound).
func concatSizes(size, bound, n, b int64) (newSize, newBound int64, ok bool) {
	newSize, newBound, ok = Unbounded, Unbounded, true
	if size != Unbounded && n != Unbounded {
		newSize, ok = addAll(size, n)
	}
	if bound != Unbounded || b != Unbounded {
		l, r := bound, b
		if l == Unbounded {
			l = size
		}
		if r == Unbounded {
			r = n
		}
		if l != Unbounded && r != Unbounded {
			var fine bool
			newBound, fine = addAll(l, r)
			ok = ok && fine
		}
	}
	return newSize, newBound, ok
}

func (in *Instruction) inferPad() (*Shape, error) {
	s, v := in.operand(0), in.operand(1)
	p := in.Attr.GetPaddingConfig().GetDimensions()
	switch {
	case !s.IsArray():
		return nil, fmt.Errorf("pad of %s", s.text())
	case !v.isScalar():
		return nil, fmt.Errorf("pad with %s, not with a scalar", v.text())
	case len(p) != len(s.Dims):
		return nil, fmt.Errorf("pad has %d dimensions for %s", len(p), s.text())
	case !sameType(s.Type, v.Type):
		return nil, fmt.Errorf("pad of different element types: %s and %s", s.text(), v.text())
	}
	dims := slices.Clone(s.Dims)
	for i, d := range p {
		if d.GetInteriorPadding() < 0 {
			return nil, fmt.Errorf("pad has the interior padding %d in dimension %d", d.GetInteriorPadding(), i)
		}
		if s.unbounded(i) {
			continue
		}
		gaps := max(s.Dims[i]-1, 0)
		if mulOverflows(gaps, d.GetInteriorPadding()) {
			return nil, fmt.Errorf("pad overflows in dimension %d", i)
		}
		n, ok := addAll(s.Dims[i], d.GetEdgePaddingLow(), d.GetEdgePaddingHigh(), gaps*d.GetInteriorPadding())
		if !ok || n < 0 {
			return nil, fmt.Errorf("pad gives a negative or overflowing size in dimension %d", i)
		}
		dims[i] = n
	}
	return newArray(higherType(s.Type, v.Type), dims, s.Dynamic), nil
}

// inferBroadcast checks in.Shape. Without one it gives what XLA's text parser
// does: the numbers in dimensions are then sizes put before the operand's.
func (in *Instruction) inferBroadcast() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	s, d := in.operand(0), in.Dimensions()
	if in.Shape == nil {
		if s.isUnbounded() || slices.ContainsFunc(d, func(n int64) bool { return n < 0 }) {
			return nil, fmt.Errorf("the shape of broadcast does not follow from %s and %v", s.text(), d)
		}
		dims := append(slices.Clone(d), s.Dims...)
		dyn := make([]bool, len(dims))
		copy(dyn[len(d):], s.Dynamic)
		out := newArray(s.Type, dims, dyn)
		return out, out.Validate()
	}
	out := in.Shape
	if !out.IsArray() || out.Type != s.Type {
		return nil, fmt.Errorf("broadcast of %s gives %s", s.text(), out.text())
	}
	if len(d) != len(s.Dims) {
		return nil, fmt.Errorf("broadcast has %d dimensions for %s", len(d), s.text())
	}
	for i, o := range d {
		if o < 0 || o >= int64(len(out.Dims)) || out.Dims[o] != s.Dims[i] {
			return nil, fmt.Errorf("broadcast of dimension %d of %s to dimension %d of %s", i, s.text(), o, out.text())
		}
	}
	return out.Clone(), nil
}

// staticElems is the number of elements with dynamic dimensions at their
// bounds, unbounded ones left out.
func (s *Shape) staticElems() int64 {
	n := int64(1)
	for _, d := range s.Dims {
		if d != Unbounded {
			n *= d
		}
	}
	return n
}

func (in *Instruction) inferReshape() (*Shape, error) {
	out, err := in.need()
	if err != nil {
		return nil, err
	}
	s := in.operand(0)
	if !s.IsArray() || !out.IsArray() || s.Type != out.Type {
		return nil, fmt.Errorf("%v of %s gives %s", in.Op, s.text(), out.text())
	}
	if !(in.Op == OpReshape && s.isUnbounded()) && s.staticElems() != out.staticElems() {
		return nil, fmt.Errorf("%v of %s gives %s, which has another number of elements", in.Op, s.text(), out.text())
	}
	if in.Op == OpDynamicReshape {
		if len(in.Operands)-1 != len(out.Dims) {
			return nil, fmt.Errorf("dynamic-reshape has %d sizes for %s", len(in.Operands)-1, out.text())
		}
		for i, o := range in.Operands[1:] {
			if o.Shape.Type != S32 {
				return nil, fmt.Errorf("size %d of dynamic-reshape is %s, not s32", i, o.Shape.text())
			}
		}
	}
	return out, nil
}

func (in *Instruction) inferTranspose() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	s, d := in.operand(0), in.Dimensions()
	if len(d) != len(s.Dims) || !inRange(d, len(d)) || !unique(d) {
		return nil, fmt.Errorf("transpose dimensions %v are no permutation for %s", d, s.text())
	}
	out := s.Clone()
	inverse := make([]int64, len(d))
	for i, p := range d {
		out.Dims[i] = s.Dims[p]
		if s.Dynamic != nil {
			out.Dynamic[i] = s.Dynamic[p]
		}
		inverse[p] = int64(i)
	}
	if out.Layout != nil { // the layout that makes the transpose a bitcast
		for i, p := range s.Layout.MinorToMajor {
			out.Layout.MinorToMajor[i] = inverse[p]
		}
	}
	return out, nil
}

func (in *Instruction) inferReverse() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	s, d := in.operand(0), in.Dimensions()
	if !unique(d) || !inRange(d, len(s.Dims)) {
		return nil, fmt.Errorf("reverse dimensions %v are repeated or out of range for %s", d, s.text())
	}
	return s.Clone(), nil
}

func (in *Instruction) inferSlice() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	s, r := in.operand(0), in.Attr.GetSliceDimensions()
	if len(r) != len(s.Dims) {
		return nil, fmt.Errorf("slice has %d ranges for %s", len(r), s.text())
	}
	dims, dyn := make([]int64, len(r)), make([]bool, len(r))
	for i, d := range r {
		lo, hi, step := d.GetStart(), d.GetLimit(), d.GetStride()
		if lo < 0 || hi < lo || step <= 0 || !s.unbounded(i) && hi > s.Dims[i] {
			return nil, fmt.Errorf("slice [%d:%d:%d] of dimension %d of %s", lo, hi, step, i, s.text())
		}
		dims[i] = (hi - lo) / step
		if (hi-lo)%step != 0 {
			dims[i]++
		}
		dyn[i] = dims[i] != 1 && s.dynamic(i) && !s.unbounded(i)
	}
	return newArray(s.Type, dims, dyn), nil
}

// checkStarts checks the start indices of dynamic-slice and
// dynamic-update-slice, operands from number first on: one scalar per
// dimension, or (an old form) one vector.
func (in *Instruction) checkStarts(first int) error {
	rank, idx := len(in.operand(0).Dims), in.Operands[first:]
	if in.operand(0).Type == Buffer {
		rank = len(in.operand(0).Elements[0].Dims)
	}
	if len(idx) > 0 && len(idx[0].Shape.Dims) == 1 {
		s := idx[0].Shape
		if len(idx) != 1 || !s.Type.IsInteger() || s.Dims[0] != int64(rank) {
			return fmt.Errorf("%v needs one vector of %d start indices, has %s", in.Op, rank, s.text())
		}
		return nil
	}
	if len(idx) != rank {
		return fmt.Errorf("%v has %d start indices for %d dimensions", in.Op, len(idx), rank)
	}
	for _, o := range idx {
		if !o.Shape.isScalar() || !o.Shape.Type.IsInteger() || o.Shape.Type != idx[0].Shape.Type {
			return fmt.Errorf("start indices of %v must be integer scalars of one type, have %s and %s", in.Op, idx[0].Shape.text(), o.Shape.text())
		}
	}
	return nil
}

func (in *Instruction) inferDynamicSlice() (*Shape, error) {
	s, sizes := in.operand(0), in.Attr.GetDynamicSliceSizes()
	if err := wantArray(s, "operand 0 of dynamic-slice"); err != nil {
		return nil, err
	}
	if err := in.checkStarts(1); err != nil {
		return nil, err
	}
	if len(sizes) != len(s.Dims) {
		return nil, fmt.Errorf("dynamic-slice has %d sizes for %s", len(sizes), s.text())
	}
	dyn := make([]bool, len(sizes))
	for i, n := range sizes {
		if n < 0 || !s.unbounded(i) && n > s.Dims[i] {
			return nil, fmt.Errorf("dynamic-slice of size %d from dimension %d of %s", n, i, s.text())
		}
		dyn[i] = s.dynamic(i) && n > 1 && n == s.Dims[i]
	}
	return newArray(s.Type, sizes, dyn), nil
}

func (in *Instruction) inferDynamicUpdateSlice() (*Shape, error) {
	s, u := in.operand(0), in.operand(1)
	into := s
	if s.Type == Buffer {
		into = s.Elements[0]
	} else if err := wantArray(s, "operand 0 of dynamic-update-slice"); err != nil {
		return nil, err
	}
	if err := wantArray(u, "the update of dynamic-update-slice"); err != nil {
		return nil, err
	}
	if err := in.checkStarts(2); err != nil {
		return nil, err
	}
	if len(u.Dims) != len(into.Dims) || !sameType(u.Type, into.Type) {
		return nil, fmt.Errorf("dynamic-update-slice of %s by %s", s.text(), u.text())
	}
	out := s.Clone()
	target := out
	if s.Type == Buffer {
		target = out.Elements[0]
	}
	for i, n := range u.Dims {
		if into.Dims[i] != Unbounded && n > into.Dims[i] {
			return nil, fmt.Errorf("dynamic-update-slice of dimension %d of %s by %s", i, s.text(), u.text())
		}
		if u.dynamic(i) && n == into.Dims[i] {
			target.setDynamic(i)
		}
	}
	return out, nil
}

func (in *Instruction) inferDimensionSize() (*Shape, error) {
	s, d := in.operand(0), in.Dimensions()
	if len(d) != 1 || !inRange(d, len(s.Dims)) {
		return nil, fmt.Errorf("%v of dimension %v of %s", in.Op, d, s.text())
	}
	if s.Dims[d[0]] > math.MaxInt32 {
		return nil, fmt.Errorf("%v of a dimension beyond s32 in %s", in.Op, s.text())
	}
	if in.Op == OpGetDimensionSize {
		return scalar(S32), nil
	}
	if v := in.operand(1); len(v.Dims) != 0 || v.Type != S32 {
		return nil, fmt.Errorf("set-dimension-size to %s, not to an s32 scalar", v.text())
	}
	out := s.Clone()
	out.setDynamic(int(d[0]))
	return out, nil
}

func (in *Instruction) inferRng() (*Shape, error) {
	out, err := in.need()
	if err != nil {
		return nil, err
	}
	if len(in.Operands) != 2 {
		return nil, fmt.Errorf("rng has %d operands, want 2", len(in.Operands))
	}
	a, b := in.operand(0), in.operand(1)
	if !a.isScalar() || !b.isScalar() || a.Type != b.Type || !out.IsArray() || !sameType(a.Type, out.Type) {
		return nil, fmt.Errorf("rng of %s and %s gives %s", a.text(), b.text(), out.text())
	}
	switch in.Attr.GetDistribution() {
	case 1: // uniform
		if a.Type.IsComplex() {
			return nil, fmt.Errorf("rng has no uniform distribution of %v", a.Type)
		}
	case 2: // normal
		if !a.Type.IsFloat() {
			return nil, fmt.Errorf("rng has no normal distribution of %v", a.Type)
		}
	default:
		return nil, fmt.Errorf("rng has the unknown distribution %d", in.Attr.GetDistribution())
	}
	return out.withType(a.Type), nil
}

func (in *Instruction) inferRngBitGenerator() (*Shape, error) {
	out, err := in.need()
	if err != nil {
		return nil, err
	}
	if !out.IsTuple() {
		return out, nil
	}
	if len(out.Elements) != 2 || !out.Elements[0].Compatible(in.operand(0)) {
		return nil, fmt.Errorf("rng-bit-generator of the state %s gives %s, want the state and the values", in.operand(0).text(), out.text())
	}
	return out, nil
}

func (in *Instruction) inferInfeed() (*Shape, error) {
	if err := in.wantToken(0); err != nil {
		return nil, err
	}
	if in.Shape == nil || !in.Shape.IsTuple() || len(in.Shape.Elements) == 0 {
		return nil, fmt.Errorf("infeed needs a tuple of the value and a token, has %s", in.Shape.text())
	}
	return tupleOf([]*Shape{in.Shape.Elements[0], {Type: Token}}), nil
}

func (in *Instruction) inferOutfeed() (*Shape, error) {
	if err := in.wantToken(1); err != nil {
		return nil, err
	}
	if p := in.Attr.GetOutfeedShape(); p != nil {
		s, err := ShapeFromProto(p)
		if err != nil {
			return nil, fmt.Errorf("outfeed shape: %w", err)
		}
		if !s.Compatible(in.operand(0)) {
			return nil, fmt.Errorf("outfeed of %s as %s", in.operand(0).text(), s.text())
		}
	}
	return &Shape{Type: Token}, nil
}

func (in *Instruction) inferCopyDone() (*Shape, error) {
	dst, err := in.element(0)
	if err != nil {
		return nil, err
	}
	src, err := in.element(1)
	if err != nil {
		return nil, err
	}
	if !dst.Compatible(src) {
		return nil, fmt.Errorf("copy-done of %s to %s", src.text(), dst.text())
	}
	return dst.Clone(), nil
}
