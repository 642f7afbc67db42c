package eval

import (
	"math"
	"slices"

	"github.com/passgate/passgate/hlo"
)

// box is a strided copy of an n-dimensional block of elements.
type box struct {
	dims               []int
	dst, src           []int // strides, in elements
	dstStart, srcStart int
}

// compact drops dimensions of size one and merges neighbours that one loop
// can walk. It reports false for an empty block.
func (b *box) compact() bool {
	n := 0
	dims, dst, src := slices.Clone(b.dims), slices.Clone(b.dst), slices.Clone(b.src)
	for i, d := range dims {
		switch {
		case d == 0:
			return false
		case d == 1:
			continue
		case n > 0 && dst[n-1] == d*dst[i] && src[n-1] == d*src[i]:
			dims[n-1] *= d
			dst[n-1], src[n-1] = dst[i], src[i]
			continue
		}
		dims[n], dst[n], src[n] = d, dst[i], src[i]
		n++
	}
	if n == 0 {
		dims, dst, src = []int{1}, []int{0}, []int{0}
		n = 1
	}
	b.dims, b.dst, b.src = dims[:n], dst[:n], src[:n]
	return true
}

// copyBox copies a block of src's elements into a (same type), all columns.
func (a *Array) copyBox(src *Array, b box) {
	if !b.compact() {
		return
	}
	size := a.Len()
	moveBox(&a.I, src.I, size, &b)
	moveBox(&a.Undecided, src.Undecided, size, &b)
	moveBox(&a.Width, src.Width, size, &b)
	moveBox(&a.Contest, src.Contest, size, &b)
	a.Re.copyBox(src.Re, &b)
	a.Im.copyBox(src.Im, &b)
}

func (p *Plane) copyBox(src *Plane, b *box) {
	if p == nil {
		return
	}
	size := len(p.C)
	moveBox(&p.C, src.C, size, b)
	moveBox(&p.Lo, src.Lo, size, b)
	moveBox(&p.E, src.E, size, b)
	moveBox(&p.K, src.K, size, b)
}

func moveBox[T any](column *[]T, src []T, size int, b *box) {
	if src == nil && *column == nil {
		return
	}
	dst := grow(column, size)
	last := len(b.dims) - 1
	n, ds, ss := b.dims[last], b.dst[last], b.src[last]
	var counts [16]int
	index := counts[:]
	if last > len(index) {
		index = make([]int, last)
	}
	at, from := b.dstStart, b.srcStart
	for {
		switch {
		case src == nil:
			var zero T
			for i := range n {
				dst[at+i*ds] = zero
			}
		case ds == 1 && ss == 1:
			copy(dst[at:at+n], src[from:from+n])
		case ds == 1 && ss == 0:
			run, v := dst[at:at+n], src[from]
			for i := range run {
				run[i] = v
			}
		case ds == 1:
			run, j := dst[at:at+n], from
			for i := range run {
				run[i] = src[j]
				j += ss
			}
		default:
			d, s := at, from
			for range n {
				dst[d] = src[s]
				d += ds
				s += ss
			}
		}
		k := last - 1
		for ; k >= 0; k-- {
			index[k]++
			at += b.dst[k]
			from += b.src[k]
			if index[k] < b.dims[k] {
				break
			}
			at -= b.dims[k] * b.dst[k]
			from -= b.dims[k] * b.src[k]
			index[k] = 0
		}
		if k < 0 {
			return
		}
	}
}

// strides are the row-major strides of dimensions.
func strides(dims []int64) []int {
	s := make([]int, len(dims))
	n := 1
	for i := len(dims) - 1; i >= 0; i-- {
		s[i] = n
		n *= int(dims[i])
	}
	return s
}

func ints(dims []int64) []int {
	r := make([]int, len(dims))
	for i, d := range dims {
		r[i] = int(d)
	}
	return r
}

func product(dims []int64) int {
	n := 1
	for _, d := range dims {
		n *= int(d)
	}
	return n
}

// transpose is the array whose dimension i is a's dimension permutation[i].
func (a *Array) transpose(permutation []int64) *Array {
	dims := make([]int64, len(permutation))
	src := make([]int, len(permutation))
	s := strides(a.Dims)
	moved := false // a dimension that matters changes its place
	prev := int64(-1)
	for i, p := range permutation {
		dims[i], src[i] = a.Dims[p], s[p]
		if a.Dims[p] != 1 {
			moved = moved || p < prev
			prev = p
		}
	}
	if !moved {
		return a.Reshape(dims...)
	}
	r := NewArray(a.Type, dims...)
	r.copyBox(a, box{dims: ints(dims), dst: strides(dims), src: src})
	return r
}

// broadcast is an array of the given dimensions in which dimension i of a is
// dimension at[i].
func (a *Array) broadcast(dims, at []int64) *Array {
	src := make([]int, len(dims))
	s := strides(a.Dims)
	for i, d := range at {
		if a.Dims[i] != 1 {
			src[d] = s[i]
		}
	}
	if slices.Equal(a.Dims, dims) && slices.IsSorted(at) {
		return a.Reshape(dims...)
	}
	r := NewArray(a.Type, dims...)
	r.copyBox(a, box{dims: ints(dims), dst: strides(dims), src: src})
	return r
}

// slice is the block of the given dimensions that starts at start and takes
// every stride-th element of each dimension; it must lie inside a.
func (a *Array) slice(start, stride, dims []int64) *Array {
	if slices.Equal(a.Dims, dims) {
		return a.Reshape(dims...)
	}
	s := strides(a.Dims)
	from := 0
	for i := range s {
		from += int(start[i]) * s[i]
		if stride != nil {
			s[i] *= int(stride[i])
		}
	}
	r := NewArray(a.Type, dims...)
	r.copyBox(a, box{dims: ints(dims), dst: strides(dims), src: s, srcStart: from})
	return r
}

// store copies block into a at start; it must fit.
func (a *Array) store(block *Array, start []int64) {
	s := strides(a.Dims)
	at := 0
	for i := range s {
		at += int(start[i]) * s[i]
	}
	a.copyBox(block, box{dims: ints(block.Dims), dst: s, src: strides(block.Dims), dstStart: at})
}

// rows are rows from to to-1 of an array seen as a matrix with rows of width
// elements, as a flat array that shares its columns.
func (a *Array) rows(from, to, width int) *Array {
	lo, hi := from*width, to*width
	r := &Array{Type: a.Type, Dims: []int64{int64(hi - lo)}}
	r.I, r.Undecided, r.Contest = part(a.I, lo, hi), part(a.Undecided, lo, hi), part(a.Contest, lo, hi)
	r.Width = part(a.Width, lo, hi)
	r.Re, r.Im = a.Re.part(lo, hi), a.Im.part(lo, hi)
	return r
}

func (p *Plane) part(lo, hi int) *Plane {
	if p == nil {
		return nil
	}
	return &Plane{part(p.C, lo, hi), part(p.Lo, lo, hi), part(p.E, lo, hi), part(p.K, lo, hi)}
}

func part[T any](s []T, lo, hi int) []T {
	if s == nil {
		return nil
	}
	return s[lo:hi:hi]
}

// concatenate joins arrays along a dimension.
func concatenate(parts []*Array, dimension int64) *Array {
	dims := slices.Clone(parts[0].Dims)
	for _, p := range parts[1:] {
		dims[dimension] += p.Dims[dimension]
	}
	r := NewArray(parts[0].Type, dims...)
	start := make([]int64, len(dims))
	for _, p := range parts {
		r.store(p, start)
		start[dimension] += p.Dims[dimension]
	}
	return r
}

// undecide marks element i as undecided and adds contest bits.
func (a *Array) undecide(i int, contest Contest) {
	s := undecidedScalar(a.Type)
	s.Contest = contest
	if a.Contest != nil {
		s.Contest |= a.Contest[i]
	}
	a.Set(i, s)
}

// undecidedArray is an array of undecided elements.
func undecidedArray(t hlo.PrimitiveType, contest Contest, dims ...int64) *Array {
	s := undecidedScalar(t)
	s.Contest = contest
	return Fill(s, t, dims...)
}

// decided says that element i is one value or an interval, not any value.
func (a *Array) decided(i int) bool {
	open := a.Undecided != nil && a.Undecided[i] && (a.Width == nil || a.Width[i] == 0)
	return !(open || a.Re.undecided(i) || a.Im.undecided(i))
}

func (p *Plane) undecided(i int) bool { return p != nil && p.E != nil && math.IsInf(p.E[i], 1) }

// move evaluates the operations that move elements.
func (e *Evaluator) move(in *hlo.Instruction, a []*Array) (*Array, error) {
	dims := in.Shape.Dims
	switch in.Op {
	case hlo.OpBroadcast:
		at := in.Dimensions()
		if len(at) != len(a[0].Dims) {
			return nil, malformed(in, "%d broadcast dimensions for an operand of rank %d", len(at), len(a[0].Dims))
		}
		for i, d := range at {
			if d < 0 || d >= int64(len(dims)) || a[0].Dims[i] != dims[d] && a[0].Dims[i] != 1 {
				return nil, malformed(in, "operand dimension %d does not fit", i)
			}
		}
		return a[0].broadcast(dims, at), nil
	case hlo.OpReshape, hlo.OpDynamicReshape:
		if product(dims) != a[0].Len() {
			return nil, malformed(in, "the operand has %d elements, the result %d", a[0].Len(), product(dims))
		}
		return a[0].Reshape(dims...), nil
	case hlo.OpTranspose:
		p := in.Dimensions()
		if !isPermutation(p, len(a[0].Dims)) {
			return nil, malformed(in, "dimensions %v are not a permutation", p)
		}
		return a[0].transpose(p), nil
	case hlo.OpSlice:
		sd := in.Attr.SliceDimensions
		if len(sd) != len(a[0].Dims) {
			return nil, malformed(in, "%d slice dimensions for rank %d", len(sd), len(a[0].Dims))
		}
		start, stride, size := make([]int64, len(sd)), make([]int64, len(sd)), make([]int64, len(sd))
		for i, d := range sd {
			start[i], stride[i] = d.Start, d.Stride
			if stride[i] < 1 || d.Start < 0 || d.Limit < d.Start || d.Limit > a[0].Dims[i] {
				return nil, malformed(in, "slice %d:%d:%d of size %d", d.Start, d.Limit, d.Stride, a[0].Dims[i])
			}
			size[i] = (d.Limit - d.Start + stride[i] - 1) / stride[i]
		}
		return a[0].slice(start, stride, size), nil
	case hlo.OpReverse:
		s := strides(dims)
		from := 0
		for _, d := range in.Dimensions() {
			if d < 0 || d >= int64(len(dims)) {
				return nil, malformed(in, "no dimension %d", d)
			}
			from += (int(dims[d]) - 1) * s[d]
			s[d] = -s[d]
		}
		r := NewArray(a[0].Type, dims...)
		r.copyBox(a[0], box{dims: ints(dims), dst: strides(dims), src: s, srcStart: from})
		return r, nil
	case hlo.OpConcatenate:
		d := in.Dimensions()
		if len(d) != 1 || len(a) == 0 || d[0] < 0 || d[0] >= int64(len(dims)) {
			return nil, malformed(in, "dimensions %v", d)
		}
		for i := range a {
			if len(a[i].Dims) != len(dims) {
				return nil, malformed(in, "operand %d has another rank", i)
			}
			a[i] = e.num.as(in.Shape.Type, a[i])
		}
		return concatenate(a, d[0]), nil
	case hlo.OpPad:
		return e.pad(in, a[0], a[1])
	case hlo.OpIota:
		d := in.Dimensions()
		if len(d) != 1 || d[0] < 0 || d[0] >= int64(len(dims)) {
			return nil, malformed(in, "dimensions %v", d)
		}
		return e.iota(in.Shape.Type, dims, d[0]), nil
	case hlo.OpBitcast:
		return e.bitcast(in, a[0])
	case hlo.OpDynamicSlice:
		return e.dynamicSlice(in, a)
	case hlo.OpDynamicUpdateSlice:
		return e.dynamicUpdateSlice(in, a)
	case hlo.OpGather:
		return e.gather(in, a[0], a[1])
	case hlo.OpGetDimensionSize:
		d := in.Dimensions()
		if len(d) != 1 || d[0] < 0 || d[0] >= int64(len(a[0].Dims)) {
			return nil, malformed(in, "dimensions %v", d)
		}
		r := NewArray(hlo.S32)
		r.I[0] = a[0].Dims[d[0]]
		return r, nil
	}
	var types []hlo.PrimitiveType
	for _, x := range a {
		types = append(types, x.Type)
	}
	return nil, unsupported(in, "operand types %v, result %v", types, in.Shape.Type)
}

func isPermutation(p []int64, n int) bool {
	seen := make([]bool, n)
	for _, d := range p {
		if d < 0 || d >= int64(n) || seen[d] {
			return false
		}
		seen[d] = true
	}
	return len(p) == n
}

// iota counts along a dimension; counts are rounded to the type
// (HloEvaluatorTypedVisitor::HandleIota casts each index to it).
func (e *Evaluator) iota(t hlo.PrimitiveType, dims []int64, dimension int64) *Array {
	n := dims[dimension]
	counts := NewArray(hlo.S64, n)
	for i := range counts.I {
		counts.I[i] = int64(i)
	}
	exact := Numerics{} // iota is no arithmetic: its values are rounded everywhere
	return exact.as(t, counts).broadcast(dims, []int64{dimension})
}

// pad: interior padding first, then the edges; negative edge padding removes
// elements of the interior-padded operand (HandlePad).
func (e *Evaluator) pad(in *hlo.Instruction, a, value *Array) (*Array, error) {
	pd := in.Attr.GetPaddingConfig().GetDimensions()
	if len(pd) != len(a.Dims) || len(value.Dims) != 0 {
		return nil, malformed(in, "padding of %d dimensions for rank %d", len(pd), len(a.Dims))
	}
	t := in.Shape.Type
	a, value = e.num.as(t, a), e.num.as(t, value)
	dims := make([]int64, len(pd))
	n := make([]int, len(pd))
	dst, src := make([]int, len(pd)), strides(a.Dims)
	b := box{dims: n, dst: dst, src: src}
	for i, p := range pd {
		step := p.InteriorPadding + 1
		if step < 1 {
			return nil, malformed(in, "negative interior padding")
		}
		dims[i] = p.EdgePaddingLow + p.EdgePaddingHigh + a.Dims[i]
		if a.Dims[i] > 0 {
			dims[i] += (a.Dims[i] - 1) * p.InteriorPadding
		}
		if dims[i] < 0 {
			return nil, malformed(in, "negative size of dimension %d", i)
		}
	}
	st := strides(dims)
	for i, p := range pd {
		step := p.InteriorPadding + 1
		first := int64(0) // first operand index that lands at a place >= 0
		if p.EdgePaddingLow < 0 {
			first = (-p.EdgePaddingLow + step - 1) / step
		}
		end := int64(0) // one after the last that lands below dims[i]
		if room := dims[i] - p.EdgePaddingLow; room > 0 {
			end = min(a.Dims[i], (room+step-1)/step)
		}
		n[i] = int(max(0, end-first))
		dst[i] = st[i] * int(step)
		b.dstStart += int(p.EdgePaddingLow+first*step) * st[i]
		b.srcStart += int(first) * src[i]
	}
	r := Fill(value.At(0), t, dims...)
	r.copyBox(a, b)
	return r, nil
}
