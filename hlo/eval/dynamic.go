package eval

import (
	"slices"

	"github.com/passgate/passgate/hlo"
)

// dynamic evaluates operations on arrays with dynamic dimensions. The run-time
// sizes are part of the value (Array.Sizes); the operation is evaluated on the
// arrays cut to them, and the result is put back into the bounds of its shape.
// What stands behind run-time sizes is the implementation's choice: it shows when
// a later set-dimension-size makes an array larger again.
func (e *Evaluator) dynamic(in *hlo.Instruction, a []*Array) (*Value, error) {
	if slices.Contains(in.Shape.Dims, hlo.Unbounded) {
		return nil, unsupported(in, "an unbounded dimension")
	}
	switch in.Op {
	case hlo.OpSetDimensionSize:
		d := in.Dimensions()
		if len(d) != 1 || d[0] < 0 || d[0] >= int64(len(a[0].Dims)) || a[1].I == nil || a[1].Len() != 1 {
			return nil, malformed(in, "dimensions %v", d)
		}
		s := a[1].At(0)
		if s.Undecided {
			return nil, unsupported(in, "an undecided size")
		}
		if s.I < 0 || s.I > a[0].Dims[d[0]] {
			return nil, unsupported(in, "size %d of a dimension of bound %d", s.I, a[0].Dims[d[0]])
		}
		r := *a[0]
		if s.I > a[0].sizes()[d[0]] {
			r = *a[0].Clone()
			r.hide(a[0].Sizes)
		}
		r.Sizes = slices.Clone(a[0].sizes())
		r.Sizes[d[0]] = s.I
		if slices.Equal(r.Sizes, r.Dims) {
			r.Sizes = nil
		}
		return arrayValue(&r), nil
	case hlo.OpGetDimensionSize:
		d := in.Dimensions()
		if len(d) != 1 || d[0] < 0 || d[0] >= int64(len(a[0].Dims)) {
			return nil, malformed(in, "dimensions %v", d)
		}
		r := NewArray(hlo.S32)
		r.I[0] = a[0].sizes()[d[0]]
		return arrayValue(r), nil
	}
	if !slices.ContainsFunc(a, func(x *Array) bool { return x.Sizes != nil }) && in.Op != hlo.OpDynamicReshape {
		return e.evalArrays(in, a) // all sizes are at their bounds
	}
	cut := make([]*Array, len(a))
	for i, x := range a {
		cut[i] = x.cut()
	}
	if elementwise(in) != nil {
		spreadOnes(cut)
	}
	sizes, err := resultSizes(in, cut)
	if err != nil {
		return nil, err
	}
	for i, b := range in.Shape.Leaves()[0].Dims {
		if i >= len(sizes) || sizes[i] < 0 || sizes[i] > b {
			return nil, unsupported(in, "run-time sizes %v of a shape with bounds %v", sizes, in.Shape.Leaves()[0].Dims)
		}
	}
	inner := *in
	inner.Shape = resized(in.Shape, sizes)
	inner.Operands = make([]*hlo.Instruction, len(in.Operands))
	for i, o := range in.Operands {
		x := *o
		x.Shape = resized(o.Shape, cut[i].Dims)
		inner.Operands[i] = &x
	}
	if op := in.Op; len(cut) == 2 && op.Arity() == 2 && !slices.Equal(cut[0].Dims, cut[1].Dims) {
		if _, ok := BinaryType(op, cut[0].Type); ok {
			return nil, unsupported(in, "operands of run-time sizes %v and %v", cut[0].Dims, cut[1].Dims)
		}
	}
	v, err := e.evalArrays(&inner, cut)
	if err != nil {
		return nil, err
	}
	bound := in.Shape.Leaves()
	out := make([]*Array, len(bound))
	results := leaves(v)
	if in.Op == hlo.OpReduce {
		if results, err = e.reducePadded(in, &inner, a, cut, results); err != nil {
			return nil, err
		}
	}
	for i, r := range results {
		if !slices.Equal(r.Dims, sizes) {
			return nil, unsupported(in, "dynamic dimensions")
		}
		out[i] = r.extend(bound[i])
	}
	return arraysValue(in.Shape.IsTuple(), out), nil
}

// reducePadded leaves undecided what differs from results, the reduction of cut,
// when the reduced dimensions are padded to their bounds with the initial value.
// That is how XLA reduces them (xla/service/dynamic_padder.cc), and the same only
// where the reducer and its initial value form a monoid, as StableHLO's reduce
// demands.
func (e *Evaluator) reducePadded(in, inner *hlo.Instruction, a, cut, results []*Array) ([]*Array, error) {
	dims := slices.Clone(cut[0].Dims)
	for _, d := range in.Dimensions() {
		dims[d] = a[0].Dims[d]
	}
	if slices.Equal(dims, cut[0].Dims) {
		return results, nil
	}
	n := len(a) / 2
	padded := *inner
	padded.Operands = slices.Clone(inner.Operands)
	args := slices.Clone(cut)
	for i := range n {
		args[i] = Fill(cut[n+i].At(0), cut[i].Type, dims...)
		args[i].store(cut[i], make([]int64, len(dims)))
		x := *inner.Operands[i]
		x.Shape = hlo.ArrayShape(cut[i].Type, dims...)
		padded.Operands[i] = &x
	}
	v, err := e.evalArrays(&padded, args)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(results)
	for o, other := range leaves(v) {
		for i := range other.Len() {
			if results[o].Meets(other, i) == Out {
				if out[o] == results[o] {
					out[o] = results[o].Clone()
				}
				out[o].Set(i, undecidedOf(other.Type, Implementation))
			}
		}
	}
	return out, nil
}

// spreadOnes broadcasts run-time sizes of one to those of the other operands of an
// elementwise operation, as XLA does (xla/service/dynamic_dimension_inference.cc
// with xla_eliminate_hlo_implicit_broadcast).
func spreadOnes(a []*Array) {
	var dims []int64
	for _, x := range a {
		if dims == nil || len(x.Dims) > len(dims) {
			dims = slices.Clone(x.Dims)
		}
		for d, n := range x.Dims {
			if len(x.Dims) == len(dims) && dims[d] == 1 {
				dims[d] = n
			}
		}
	}
	for i, x := range a {
		if len(x.Dims) != len(dims) {
			continue // a scalar
		}
		var kept, at []int64
		for d, n := range x.Dims {
			if n == dims[d] {
				kept, at = append(kept, n), append(at, int64(d))
			} else if n != 1 {
				return
			}
		}
		if len(kept) < len(dims) {
			a[i] = x.Reshape(kept...).broadcast(dims, at)
		}
	}
}

// resized is a shape of arrays with other dimensions and no layout.
func resized(s *hlo.Shape, dims []int64) *hlo.Shape {
	if s.IsTuple() {
		r := &hlo.Shape{Type: hlo.Tuple}
		for _, x := range s.Elements {
			r.Elements = append(r.Elements, resized(x, dims))
		}
		return r
	}
	return hlo.ArrayShape(s.Type, dims...)
}

// sizes are the run-time sizes of all dimensions.
func (a *Array) sizes() []int64 {
	if a.Sizes != nil {
		return a.Sizes
	}
	return a.Dims
}

// cut is the part of an array inside its run-time sizes, as a static array.
func (a *Array) cut() *Array {
	if a.Sizes == nil {
		return a
	}
	return a.slice(make([]int64, len(a.Dims)), nil, a.Sizes)
}

// extend puts a static array into the bounds of a shape, with its own dimensions
// as run-time sizes. A dimension that the shape calls static is that large: XLA
// follows no run-time size through it (CanInfer in
// xla/service/dynamic_dimension_inference.cc), so its padding shows.
func (a *Array) extend(shape *hlo.Shape) *Array {
	if slices.Equal(a.Dims, shape.Dims) {
		return a
	}
	r := undecidedArray(a.Type, Implementation, shape.Dims...)
	r.store(a, make([]int64, len(a.Dims)))
	sizes := slices.Clone(shape.Dims)
	for i, d := range shape.Dynamic {
		if d {
			sizes[i] = a.Dims[i]
		}
	}
	if !slices.Equal(sizes, shape.Dims) {
		r.Sizes = sizes
	}
	return r
}

// hide leaves the elements behind sizes undecided.
func (a *Array) hide(sizes []int64) {
	for i := range a.Len() {
		rest := int64(i)
		for d := len(a.Dims) - 1; d >= 0; d-- {
			if rest%a.Dims[d] >= sizes[d] {
				a.Set(i, undecidedOf(a.Type, Implementation))
				break
			}
			rest /= a.Dims[d]
		}
	}
}

// resultSizes are the run-time dimensions of the result of an operation on
// operands with the given dimensions.
func resultSizes(in *hlo.Instruction, a []*Array) ([]int64, error) {
	if elementwise(in) != nil {
		for _, x := range a {
			if len(x.Dims) == len(in.Shape.Dims) {
				return x.Dims, nil
			}
		}
		return in.Shape.Dims, nil
	}
	dims := slices.Clone(in.Shape.Leaves()[0].Dims)
	switch in.Op {
	case hlo.OpBroadcast:
		for i, d := range in.Dimensions() {
			dims[d] = a[0].Dims[i]
		}
	case hlo.OpTranspose:
		for i, d := range in.Dimensions() {
			dims[i] = a[0].Dims[d]
		}
	case hlo.OpReduce:
		dims = dims[:0]
		for d, n := range a[0].Dims {
			if !slices.Contains(in.Dimensions(), int64(d)) {
				dims = append(dims, n)
			}
		}
	case hlo.OpSort, hlo.OpMap, hlo.OpReverse:
		return a[0].Dims, nil
	case hlo.OpConcatenate:
		dims = slices.Clone(a[0].Dims)
		for _, x := range a[1:] {
			dims[in.Dimensions()[0]] += x.Dims[in.Dimensions()[0]]
		}
	case hlo.OpDot:
		p, err := newDotPlan(in, in.Attr.GetDotDimensionNumbers(), a[0].Dims, a[1].Dims)
		if err != nil {
			return nil, unsupported(in, "operands of different run-time sizes")
		}
		return p.dims, nil
	case hlo.OpDynamicReshape:
		for i := range dims {
			s := a[1+i].At(0)
			if s.Undecided || a[1+i].Len() != 1 {
				return nil, unsupported(in, "an undecided size")
			}
			dims[i] = s.I
		}
	case hlo.OpPad:
		for i, p := range in.Attr.GetPaddingConfig().GetDimensions() {
			dims[i] = p.EdgePaddingLow + p.EdgePaddingHigh + a[0].Dims[i] + max(0, a[0].Dims[i]-1)*p.InteriorPadding
		}
	default:
		return nil, unsupported(in, "dynamic dimensions")
	}
	return dims, nil
}
