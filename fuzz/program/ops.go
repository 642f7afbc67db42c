package program

import (
	"math"
	"slices"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// Attr is the wire message that holds an operation's attributes.
type Attr = hlopb.HloInstructionProto

// Const is a constant.
func (b *Builder) Const(l *hlo.Literal) Value {
	in := hlo.NewInstruction(b.unique("constant"), hlo.OpConstant, withLayout(l.Shape))
	in.Literal = l
	b.append(in)
	return in
}

// Number is the scalar constant v of type t: rounded to a float type, modulo
// the width of an integer type, v != 0 for pred.
func (b *Builder) Number(t hlo.PrimitiveType, v float64) Value {
	return b.Const(Filled(hlo.ArrayShape(t), v))
}

// Filled is a literal whose elements are all v, as Number has it.
func Filled(s *hlo.Shape, v float64) *hlo.Literal {
	l := hlo.NewLiteral(s.WithoutLayout())
	for i := range l.Shape.Elems() {
		SetNumber(l, i, v)
	}
	return l
}

// SetNumber stores v in an element, as Number has it.
func SetNumber(l *hlo.Literal, i int64, v float64) {
	switch t := l.Shape.Type; {
	case t == hlo.Pred:
		l.SetInt(i, int64(b2i(v != 0)))
	case t.IsInteger() && v >= math.Ldexp(1, 63): // no int64 has it: the largest there is
		l.SetInt(i, t.Canonical(int64(uint64(math.MaxUint64)>>b2i(t.IsSigned()))))
	case t.IsInteger():
		l.SetInt(i, int64(v))
	case t.IsComplex():
		l.SetComplex(i, complex(v, 0))
	default:
		l.SetFloat(i, v)
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Numbers is a constant vector.
func (b *Builder) Numbers(t hlo.PrimitiveType, vs ...float64) Value {
	l := hlo.NewLiteral(hlo.ArrayShape(t, int64(len(vs))))
	for i, v := range vs {
		SetNumber(l, int64(i), v)
	}
	return b.Const(l)
}

// Min is the value that maximum starts from, Max that of minimum: the
// infinities where a float type has them.
func Min(t hlo.PrimitiveType) float64 { return extreme(t, -1) }

// Max: see Min.
func Max(t hlo.PrimitiveType) float64 { return extreme(t, 1) }

func extreme(t hlo.PrimitiveType, sign int) float64 {
	if f := t.Format(); f != nil {
		if f.HasInf {
			return math.Inf(sign)
		}
		if !f.Signed && sign < 0 {
			return 0
		}
		return float64(sign) * f.Max()
	}
	switch {
	case t == hlo.Pred:
		return float64(b2i(sign > 0))
	case sign < 0 && t.IsSigned():
		return -math.Ldexp(1, t.Bits()-1)
	case sign < 0:
		return 0
	case t.IsSigned():
		return math.Ldexp(1, t.Bits()-1) - 1 // of 64 bits one more: no float64 has it, and SetNumber stores the largest
	}
	return math.Ldexp(1, t.Bits()) - 1
}

// Fill is the constant v broadcast to like's shape.
func (b *Builder) Fill(like Value, v float64) Value {
	return b.Splat(b.Number(like.Shape.Type, v), like.Shape.Dims...)
}

// Splat broadcasts a scalar.
func (b *Builder) Splat(x Value, dims ...int64) Value { return b.Broadcast(x, dims) }

// Broadcast puts dimension i of x at dimension at[i] of the result.
func (b *Builder) Broadcast(x Value, dims []int64, at ...int64) Value {
	return b.Shaped(hlo.OpBroadcast, hlo.ArrayShape(x.Shape.Type, dims...), func(a *Attr) { a.Dimensions = at }, x)
}

// Iota counts along a dimension.
func (b *Builder) Iota(t hlo.PrimitiveType, dim int, dims ...int64) Value {
	return b.Shaped(hlo.OpIota, hlo.ArrayShape(t, dims...), func(a *Attr) { a.Dimensions = []int64{int64(dim)} })
}

// Un, Bin append elementwise operations.
func (b *Builder) Un(op hlo.Opcode, x Value) Value { return b.Op(op, nil, x) }

// Bin: see Un.
func (b *Builder) Bin(op hlo.Opcode, x, y Value) Value { return b.Op(op, nil, x, y) }

// Add, Sub, Mul, Neg are the common ones.
func (b *Builder) Add(x, y Value) Value { return b.Bin(hlo.OpAdd, x, y) }

// Sub: see Add.
func (b *Builder) Sub(x, y Value) Value { return b.Bin(hlo.OpSubtract, x, y) }

// Mul: see Add.
func (b *Builder) Mul(x, y Value) Value { return b.Bin(hlo.OpMultiply, x, y) }

// Neg: see Add.
func (b *Builder) Neg(x Value) Value { return b.Un(hlo.OpNegate, x) }

// Select is elementwise.
func (b *Builder) Select(p, x, y Value) Value { return b.Op(hlo.OpSelect, nil, p, x, y) }

// Clamp is min(max(x, lo), hi).
func (b *Builder) Clamp(lo, x, hi Value) Value { return b.Op(hlo.OpClamp, nil, lo, x, hi) }

// Compare compares with direction EQ, NE, LT, LE, GT or GE.
func (b *Builder) Compare(direction string, x, y Value) Value {
	return b.compare(direction, x, y, false)
}

// CompareTotal compares floats in their total order.
func (b *Builder) CompareTotal(direction string, x, y Value) Value {
	return b.compare(direction, x, y, true)
}

func (b *Builder) compare(direction string, x, y Value, total bool) Value {
	return b.Op(hlo.OpCompare, func(a *Attr) {
		a.ComparisonDirection = direction
		switch t := x.Shape.Type; {
		case t.IsFloat() && total:
			a.ComparisonType, a.ComparisonOrder = "TOTALORDER", "TOTAL"
		case t.IsFloat() || t.IsComplex():
			a.ComparisonType, a.ComparisonOrder = "FLOAT", "PARTIAL"
		case t.IsSigned():
			a.ComparisonType, a.ComparisonOrder = "SIGNED", "TOTAL"
		default:
			a.ComparisonType, a.ComparisonOrder = "UNSIGNED", "TOTAL"
		}
	}, x, y)
}

// Convert changes the element type.
func (b *Builder) Convert(x Value, t hlo.PrimitiveType) Value {
	return b.Shaped(hlo.OpConvert, hlo.ArrayShape(t, x.Shape.Dims...), nil, x)
}

// BitcastConvert reinterprets bits; the shape must fit.
func (b *Builder) BitcastConvert(x Value, t hlo.PrimitiveType, dims ...int64) Value {
	return b.Shaped(hlo.OpBitcastConvert, hlo.ArrayShape(t, dims...), nil, x)
}

// ReducePrecision rounds to a format of so many exponent and mantissa bits.
func (b *Builder) ReducePrecision(x Value, exponent, mantissa int32) Value {
	return b.Shaped(hlo.OpReducePrecision, x.Shape, func(a *Attr) { a.ExponentBits, a.MantissaBits = exponent, mantissa }, x)
}

// Reshape keeps the row-major order.
func (b *Builder) Reshape(x Value, dims ...int64) Value {
	return b.Shaped(hlo.OpReshape, hlo.ArrayShape(x.Shape.Type, dims...), nil, x)
}

// Transpose makes dimension perm[i] of x dimension i.
func (b *Builder) Transpose(x Value, perm ...int64) Value {
	return b.Op(hlo.OpTranspose, func(a *Attr) { a.Dimensions = perm }, x)
}

// Reverse turns dimensions round.
func (b *Builder) Reverse(x Value, dims ...int64) Value {
	return b.Op(hlo.OpReverse, func(a *Attr) { a.Dimensions = dims }, x)
}

// Slice takes [lo, hi) in steps; a nil stride is all ones.
func (b *Builder) Slice(x Value, lo, hi, stride []int64) Value {
	s := hlo.ArrayShape(x.Shape.Type)
	var dims []*hlopb.HloInstructionProto_SliceDimensions
	for i := range lo {
		st := int64(1)
		if stride != nil {
			st = stride[i]
		}
		dims = append(dims, &hlopb.HloInstructionProto_SliceDimensions{Start: lo[i], Limit: hi[i], Stride: st})
		s.Dims = append(s.Dims, (hi[i]-lo[i]+st-1)/st)
	}
	return b.Shaped(hlo.OpSlice, s, func(a *Attr) { a.SliceDimensions = dims }, x)
}

// Padding is the padding of one dimension; Low and High may be negative.
type Padding struct{ Low, High, Interior int64 }

// Pad pads with the scalar v.
func (b *Builder) Pad(x, v Value, ps ...Padding) Value {
	c := &hlopb.PaddingConfig{}
	for _, p := range ps {
		c.Dimensions = append(c.Dimensions, &hlopb.PaddingConfig_PaddingConfigDimension{EdgePaddingLow: p.Low, EdgePaddingHigh: p.High, InteriorPadding: p.Interior})
	}
	return b.Op(hlo.OpPad, func(a *Attr) { a.PaddingConfig = c }, x, v)
}

// Concat joins along a dimension.
func (b *Builder) Concat(dim int, xs ...Value) Value {
	return b.Op(hlo.OpConcatenate, func(a *Attr) { a.Dimensions = []int64{int64(dim)} }, xs...)
}

// DynamicSlice and DynamicUpdateSlice take one scalar start per dimension.
func (b *Builder) DynamicSlice(x Value, sizes []int64, starts ...Value) Value {
	return b.Shaped(hlo.OpDynamicSlice, hlo.ArrayShape(x.Shape.Type, sizes...), func(a *Attr) { a.DynamicSliceSizes = sizes }, append([]Value{x}, starts...)...)
}

// DynamicUpdateSlice: see DynamicSlice.
func (b *Builder) DynamicUpdateSlice(x, update Value, starts ...Value) Value {
	return b.Op(hlo.OpDynamicUpdateSlice, nil, append([]Value{x, update}, starts...)...)
}

// Tuple, Element and Copy move values.
func (b *Builder) Tuple(xs ...Value) Value { return b.Op(hlo.OpTuple, nil, xs...) }

// Element is get-tuple-element.
func (b *Builder) Element(x Value, i int) Value {
	return b.Op(hlo.OpGetTupleElement, func(a *Attr) { a.TupleIndex = int64(i) }, x)
}

// Elements are all elements of a tuple.
func (b *Builder) Elements(x Value) []Value {
	out := make([]Value, len(x.Shape.Elements))
	for i := range out {
		out[i] = b.Element(x, i)
	}
	return out
}

// Copy is a copy; with a layout (minor to major) it changes it.
func (b *Builder) Copy(x Value, minorToMajor ...int64) Value {
	s := x.Shape.Clone()
	if minorToMajor != nil {
		s.Layout = &hlo.Layout{MinorToMajor: minorToMajor}
	}
	return b.Shaped(hlo.OpCopy, s, nil, x)
}

// Contraction says which dimensions a dot contracts and which are batches.
type Contraction struct{ Left, Right, LeftBatch, RightBatch []int64 }

// Dot contracts; t is the result's type.
func (b *Builder) Dot(t hlo.PrimitiveType, x, y Value, c Contraction) Value {
	s := hlo.ArrayShape(t)
	add := func(x Value, d int64) {
		s.Dims = append(s.Dims, x.Shape.Dims[d])
		s.Dynamic = append(s.Dynamic, x.Shape.Dynamic != nil && x.Shape.Dynamic[d])
	}
	for _, d := range c.LeftBatch {
		add(x, d)
	}
	for i := range x.Shape.Dims {
		if d := int64(i); !slices.Contains(c.LeftBatch, d) && !slices.Contains(c.Left, d) {
			add(x, d)
		}
	}
	for i := range y.Shape.Dims {
		if d := int64(i); !slices.Contains(c.RightBatch, d) && !slices.Contains(c.Right, d) {
			add(y, d)
		}
	}
	if !slices.Contains(s.Dynamic, true) {
		s.Dynamic = nil
	}
	return b.Shaped(hlo.OpDot, s, func(a *Attr) {
		a.DotDimensionNumbers = &hlopb.DotDimensionNumbers{
			LhsContractingDimensions: c.Left, RhsContractingDimensions: c.Right, LhsBatchDimensions: c.LeftBatch, RhsBatchDimensions: c.RightBatch,
		}
		a.PrecisionConfig = precision(2)
	}, x, y)
}

// MatMul is [.., m, k] x [.., k, n] with equal leading dimensions.
func (b *Builder) MatMul(x, y Value) Value {
	r := int64(x.Shape.Rank())
	c := Contraction{Left: []int64{r - 1}, Right: []int64{r - 2}}
	for i := range r - 2 {
		c.LeftBatch, c.RightBatch = append(c.LeftBatch, i), append(c.RightBatch, i)
	}
	return b.Dot(x.Shape.Type, x, y, c)
}

func precision(n int) *hlopb.PrecisionConfig {
	return &hlopb.PrecisionConfig{OperandPrecision: make([]hlopb.PrecisionConfig_Precision, n)}
}

// Window is one dimension of a window. Zero strides and dilations mean one.
type Window struct {
	Size, Stride, Low, High, Dilation, BaseDilation int64
	Reversed                                        bool
}

func windowOf(ws []Window) *hlopb.Window {
	out := &hlopb.Window{}
	for _, w := range ws {
		out.Dimensions = append(out.Dimensions, &hlopb.WindowDimension{
			Size: w.Size, Stride: max(w.Stride, 1), PaddingLow: w.Low, PaddingHigh: w.High,
			WindowDilation: max(w.Dilation, 1), BaseDilation: max(w.BaseDilation, 1), WindowReversal: w.Reversed,
		})
	}
	return out
}

// Conv is a convolution: dimension numbers, window and group counts.
type Conv struct {
	Dims          *hlopb.ConvolutionDimensionNumbers
	Window        []Window
	Groups, Batch int64 // feature and batch group counts; 0 is 1
}

// ConvDims are dimension numbers by letters as in HLO text: "b01f", "01io",
// "b01f".
func ConvDims(input, kernel, output string) *hlopb.ConvolutionDimensionNumbers {
	d := &hlopb.ConvolutionDimensionNumbers{}
	spatial := func(s string) []int64 {
		out := make([]int64, len(s)-2)
		for i, c := range s {
			if c >= '0' && c <= '9' {
				out[c-'0'] = int64(i)
			}
		}
		return out
	}
	at := func(s string, c rune) int64 { return int64(slices.Index([]rune(s), c)) }
	d.InputBatchDimension, d.InputFeatureDimension, d.InputSpatialDimensions = at(input, 'b'), at(input, 'f'), spatial(input)
	d.KernelInputFeatureDimension, d.KernelOutputFeatureDimension, d.KernelSpatialDimensions = at(kernel, 'i'), at(kernel, 'o'), spatial(kernel)
	d.OutputBatchDimension, d.OutputFeatureDimension, d.OutputSpatialDimensions = at(output, 'b'), at(output, 'f'), spatial(output)
	return d
}

// Convolution convolves x with the kernel k.
func (b *Builder) Convolution(x, k Value, c Conv) Value {
	return b.Op(hlo.OpConvolution, func(a *Attr) {
		a.ConvolutionDimensionNumbers, a.Window = c.Dims, windowOf(c.Window)
		a.FeatureGroupCount, a.BatchGroupCount = max(c.Groups, 1), max(c.Batch, 1)
		a.PrecisionConfig = precision(2)
	}, x, k)
}

// scalars are two scalar shapes per type, the accumulators first.
func scalarPairs(xs []Value) []*hlo.Shape {
	var out []*hlo.Shape
	for range 2 {
		for _, x := range xs {
			out = append(out, hlo.ArrayShape(x.Shape.Type))
		}
	}
	return out
}

// Reducer is the computation op(a, b) on scalars.
func (b *Builder) Reducer(op hlo.Opcode, t hlo.PrimitiveType) *hlo.Computation {
	s := hlo.ArrayShape(t)
	return b.Region("reducer", []*hlo.Shape{s, s}, func(a []Value) Value { return b.Bin(op, a[0], a[1]) })
}

// Neutral is the neutral element of a reduction by op.
func Neutral(op hlo.Opcode, t hlo.PrimitiveType) float64 {
	switch op {
	case hlo.OpMultiply:
		return 1
	case hlo.OpMaximum:
		return Min(t)
	case hlo.OpMinimum:
		return Max(t)
	case hlo.OpAnd:
		if t == hlo.Pred {
			return 1
		}
		return -1
	}
	return 0
}

// Reduce reduces dimensions by a binary operation from its neutral element.
func (b *Builder) Reduce(op hlo.Opcode, x Value, dims ...int64) Value {
	t := x.Shape.Type
	return b.ReduceFrom(op, x, b.Number(t, Neutral(op, t)), dims...)
}

// ReduceFrom is Reduce from a given start.
func (b *Builder) ReduceFrom(op hlo.Opcode, x, init Value, dims ...int64) Value {
	return b.With(hlo.OpReduce, nil, func(a *Attr) { a.Dimensions = dims }, []*hlo.Computation{b.Reducer(op, x.Shape.Type)}, x, init)
}

// ReduceMany reduces several arrays at once; body gets the accumulators, then
// the elements, and returns the new accumulators.
func (b *Builder) ReduceMany(xs, inits []Value, dims []int64, body func(acc, el []Value) []Value) Value {
	n := len(xs)
	c := b.Region("reducer", scalarPairs(xs), func(a []Value) Value { return b.oneOrTuple(body(a[:n], a[n:])) })
	return b.With(hlo.OpReduce, nil, func(a *Attr) { a.Dimensions = dims }, []*hlo.Computation{c}, append(slices.Clone(xs), inits...)...)
}

func (b *Builder) oneOrTuple(vs []Value) Value {
	if len(vs) == 1 {
		return vs[0]
	}
	return b.Tuple(vs...)
}

// ReduceWindow reduces windows by a binary operation from its neutral element.
func (b *Builder) ReduceWindow(op hlo.Opcode, x Value, ws ...Window) Value {
	t := x.Shape.Type
	return b.ReduceWindowFrom(op, x, b.Number(t, Neutral(op, t)), ws...)
}

// ReduceWindowFrom is ReduceWindow from a given start.
func (b *Builder) ReduceWindowFrom(op hlo.Opcode, x, init Value, ws ...Window) Value {
	return b.With(hlo.OpReduceWindow, nil, func(a *Attr) { a.Window = windowOf(ws) }, []*hlo.Computation{b.Reducer(op, x.Shape.Type)}, x, init)
}

// ReduceWindowMany reduces windows of several arrays at once.
func (b *Builder) ReduceWindowMany(xs, inits []Value, ws []Window, body func(acc, el []Value) []Value) Value {
	n := len(xs)
	c := b.Region("reducer", scalarPairs(xs), func(a []Value) Value { return b.oneOrTuple(body(a[:n], a[n:])) })
	return b.With(hlo.OpReduceWindow, nil, func(a *Attr) { a.Window = windowOf(ws) }, []*hlo.Computation{c}, append(slices.Clone(xs), inits...)...)
}

// SelectAndScatter scatters source to the elements of x that compare with
// direction wins in each window, by op.
func (b *Builder) SelectAndScatter(direction string, op hlo.Opcode, x, source Value, ws ...Window) Value {
	t := x.Shape.Type
	s := hlo.ArrayShape(t)
	sel := b.Region("select", []*hlo.Shape{s, s}, func(a []Value) Value { return b.Compare(direction, a[0], a[1]) })
	return b.With(hlo.OpSelectAndScatter, nil, func(a *Attr) { a.Window = windowOf(ws) }, []*hlo.Computation{sel, b.Reducer(op, t)},
		x, source, b.Number(t, Neutral(op, t)))
}

// Sort sorts arrays together along a dimension; before gets two elements of
// each array, in pairs.
func (b *Builder) Sort(dim int, stable bool, xs []Value, before func(args []Value) Value) Value {
	var params []*hlo.Shape
	for _, x := range xs {
		s := hlo.ArrayShape(x.Shape.Type)
		params = append(params, s, s)
	}
	c := b.Region("before", params, before)
	return b.With(hlo.OpSort, nil, func(a *Attr) { a.Dimensions, a.IsStable = []int64{int64(dim)}, stable }, []*hlo.Computation{c}, xs...)
}

// Map applies body to every element.
func (b *Builder) Map(xs []Value, body func(args []Value) Value) Value {
	var params []*hlo.Shape
	for _, x := range xs {
		params = append(params, hlo.ArrayShape(x.Shape.Type))
	}
	dims := make([]int64, xs[0].Shape.Rank())
	for i := range dims {
		dims[i] = int64(i)
	}
	return b.With(hlo.OpMap, nil, func(a *Attr) { a.Dimensions = dims }, []*hlo.Computation{b.Region("mapped", params, body)}, xs...)
}

// While runs body on the state while cond holds; the state is a tuple.
func (b *Builder) While(state []Value, cond func(s []Value) Value, body func(s []Value) []Value) Value {
	init := b.Tuple(state...)
	params := []*hlo.Shape{init.Shape}
	bd := b.Region("body", params, func(a []Value) Value { return b.Tuple(body(b.offered(a[0]))...) })
	cd := b.Region("condition", params, func(a []Value) Value { return cond(b.Elements(a[0])) })
	return b.With(hlo.OpWhile, nil, nil, []*hlo.Computation{bd, cd}, init)
}

// offered are the elements of a tuple, which Source may hand out.
func (b *Builder) offered(t Value) []Value {
	es := b.Elements(t)
	for _, e := range es {
		b.Offer(e)
	}
	return es
}

// For runs body trips times with a counter of type t that starts at start and
// grows by step; the state does not hold the counter, and neither do the
// results.
func (b *Builder) For(t hlo.PrimitiveType, start, step, trips int64, state []Value, body func(i Value, s []Value) []Value) []Value {
	w := b.While(append([]Value{b.Number(t, float64(start))}, state...),
		func(s []Value) Value { return b.Compare("LT", s[0], b.Number(t, float64(start+step*trips))) },
		func(s []Value) []Value {
			return append([]Value{b.Add(s[0], b.Number(t, float64(step)))}, body(s[0], s[1:])...)
		})
	return b.Elements(w)[1:]
}

// If calls one of two functions on the same values; the results are tuples or
// arrays of one shape.
func (b *Builder) If(p Value, args []Value, yes, no func(args []Value) Value) Value {
	return b.Case(p, args, yes, no)
}

// Case calls a branch by index (s32), or the first on true (pred).
func (b *Builder) Case(index Value, args []Value, branches ...func(args []Value) Value) Value {
	arg := b.Tuple(args...)
	operands := []Value{index}
	var called []*hlo.Computation
	for _, f := range branches {
		operands = append(operands, arg)
		called = append(called, b.Region("branch", []*hlo.Shape{arg.Shape}, func(a []Value) Value { return f(b.offered(a[0])) }))
	}
	return b.With(hlo.OpConditional, nil, nil, called, operands...)
}

// Call calls body.
func (b *Builder) Call(args []Value, body func(args []Value) Value) Value {
	return b.With(hlo.OpCall, nil, nil, []*hlo.Computation{b.Region("callee", shapesOf(args), body)}, args...)
}

// Fusion is a fusion of a kind (kLoop, kInput, kOutput, kCustom).
func (b *Builder) Fusion(kind string, args []Value, body func(args []Value) Value) Value {
	c := b.Region("fused", shapesOf(args), body)
	return b.With(hlo.OpFusion, c.Root.Shape, func(a *Attr) { a.FusionKind = kind }, []*hlo.Computation{c}, args...)
}

// Gather is a gather; see hlopb.GatherDimensionNumbers.
func (b *Builder) Gather(x, indices Value, d *hlopb.GatherDimensionNumbers, sizes []int64, sorted bool) Value {
	return b.Op(hlo.OpGather, func(a *Attr) {
		a.GatherDimensionNumbers, a.GatherSliceSizes, a.IndicesAreSorted = d, sizes, sorted
	}, x, indices)
}

// Rows gathers rows of x (dimension 0) by a vector of indices.
func (b *Builder) Rows(x, indices Value) Value {
	d := &hlopb.GatherDimensionNumbers{CollapsedSliceDims: []int64{0}, StartIndexMap: []int64{0}, IndexVectorDim: int64(indices.Shape.Rank())}
	for i := range x.Shape.Rank() - 1 {
		d.OffsetDims = append(d.OffsetDims, int64(i+indices.Shape.Rank()))
	}
	return b.Gather(x, indices, d, append([]int64{1}, x.Shape.Dims[1:]...), false)
}

// Scatter combines updates into x with body(current, update).
func (b *Builder) Scatter(x, indices, updates Value, d *hlopb.ScatterDimensionNumbers, unique bool, body func(cur, upd Value) Value) Value {
	s := hlo.ArrayShape(x.Shape.Type)
	c := b.Region("combiner", []*hlo.Shape{s, s}, func(a []Value) Value { return body(a[0], a[1]) })
	return b.With(hlo.OpScatter, nil, func(a *Attr) { a.ScatterDimensionNumbers, a.UniqueIndices = d, unique }, []*hlo.Computation{c}, x, indices, updates)
}

// ScatterRows combines rows of updates into rows of x (dimension 0).
func (b *Builder) ScatterRows(x, indices, updates Value, unique bool, body func(cur, upd Value) Value) Value {
	d := &hlopb.ScatterDimensionNumbers{InsertedWindowDims: []int64{0}, ScatterDimsToOperandDims: []int64{0}, IndexVectorDim: int64(indices.Shape.Rank())}
	for i := range x.Shape.Rank() - 1 {
		d.UpdateWindowDims = append(d.UpdateWindowDims, int64(i+indices.Shape.Rank()))
	}
	return b.Scatter(x, indices, updates, d, unique, body)
}

// Fft is a Fourier transform over the last dimensions.
func (b *Builder) Fft(kind hlopb.FftType, x Value, length ...int64) Value {
	return b.Op(hlo.OpFft, func(a *Attr) { a.FftType, a.FftLength = kind, length }, x)
}

// Cholesky factorises.
func (b *Builder) Cholesky(x Value, lower bool) Value {
	return b.Op(hlo.OpCholesky, func(a *Attr) { a.CholeskyOptions = &hlopb.CholeskyOptions{Lower: lower} }, x)
}

// TriangularSolve solves with the triangular matrix m.
func (b *Builder) TriangularSolve(m, y Value, o *hlopb.TriangularSolveOptions) Value {
	return b.Op(hlo.OpTriangularSolve, func(a *Attr) { a.TriangularSolveOptions = o }, m, y)
}

// SetSize makes a dimension dynamic with the run-time size n (s32).
func (b *Builder) SetSize(x, n Value, dim int) Value {
	return b.Op(hlo.OpSetDimensionSize, func(a *Attr) { a.Dimensions = []int64{int64(dim)} }, x, n)
}

// GetSize is the run-time size of a dimension (s32).
func (b *Builder) GetSize(x Value, dim int) Value {
	return b.Op(hlo.OpGetDimensionSize, func(a *Attr) { a.Dimensions = []int64{int64(dim)} }, x)
}

// Custom is a custom-call.
func (b *Builder) Custom(target string, s *hlo.Shape, attr func(a *Attr), called []*hlo.Computation, operands ...Value) Value {
	return b.With(hlo.OpCustomCall, s, func(a *Attr) {
		a.CustomCallTarget = target
		a.FeatureGroupCount, a.BatchGroupCount = 1, 1
		a.CustomCallApiVersion = hlopb.CustomCallApiVersion_API_VERSION_ORIGINAL
		a.PrecisionConfig = precision(len(operands))
		if attr != nil {
			attr(a)
		}
	}, called, operands...)
}

// Alias makes parameter p and an output leaf share a buffer; must says that
// the caller donates it in any case.
func (b *Builder) Alias(output []int64, parameter int64, must bool) {
	if b.m.Attr.InputOutputAlias == nil {
		b.m.Attr.InputOutputAlias = &hlopb.HloInputOutputAliasProto{}
	}
	kind := hlopb.Kind_MAY_ALIAS
	if must {
		kind = hlopb.Kind_MUST_ALIAS
	}
	e := &hlopb.HloInputOutputAliasProto_AliasEntryProto{OutputShapeIndex: output, ParameterNumber: parameter, Kind: kind}
	b.m.Attr.InputOutputAlias.Entries = append(b.m.Attr.InputOutputAlias.Entries, e)
}

// Donate lets the compiler reuse parameter p's buffer.
func (b *Builder) Donate(p int64) {
	if b.m.Attr.BufferDonor == nil {
		b.m.Attr.BufferDonor = &hlopb.HloBufferDonorProto{}
	}
	b.m.Attr.BufferDonor.Entries = append(b.m.Attr.BufferDonor.Entries, &hlopb.HloBufferDonorProto_BufferDonorEntryProto{ParameterNumber: p})
}
