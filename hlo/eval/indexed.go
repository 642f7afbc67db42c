package eval

import (
	"math"
	"slices"

	"github.com/passgate/passgate/hlo"
)

// hullLimit is how many elements an operation may visit to find the union of
// all values that an undecided index allows; beyond it the result is
// undecided.
const hullLimit = 1 << 20

// indexAt is element i of an integer array as an index. Values of u64 above
// the largest int64 are that: they clamp to the upper end.
func (a *Array) indexAt(i int) int64 {
	if v := a.I[i]; v >= 0 || a.Type != hlo.U64 {
		return v
	}
	return math.MaxInt64
}

// freeStart is a dimension whose start index is undecided: any of lo to hi,
// both inside the operand.
type freeStart struct {
	dim    int
	lo, hi int64
}

// starts are the start indices of a dynamic-slice or dynamic-update-slice of
// the given block size, clamped so that the block lies inside (StableHLO
// dynamic_slice, HandleDynamicSlice), with the union of their contest bits.
// free lists the dimensions whose index is undecided and makes a difference.
func starts(in *hlo.Instruction, index []*Array, dims, size []int64) (start []int64, free []freeStart, contest Contest, err error) {
	at := func(i int) (*Array, int) { return index[i], 0 }
	switch {
	case len(index) == len(dims):
	case len(index) == 1 && len(index[0].Dims) == 1 && index[0].Len() == len(dims): // the form of old modules
		at = func(i int) (*Array, int) { return index[0], i }
	default:
		return nil, nil, 0, malformed(in, "%d start indices for rank %d", len(index), len(dims))
	}
	for _, x := range index {
		if x.I == nil {
			return nil, nil, 0, malformed(in, "start indices of type %v", x.Type)
		}
	}
	start = make([]int64, len(dims))
	for i, d := range dims {
		if size[i] > d {
			return nil, nil, 0, malformed(in, "size %d of dimension %d is larger than %d", size[i], i, d)
		}
		x, j := at(i)
		s := x.At(j)
		contest |= s.Contest
		if s.Undecided {
			if f := freeRange(s, i, d-size[i]); f.lo != f.hi {
				free = append(free, f)
			} else {
				start[i] = f.lo
			}
			continue
		}
		start[i] = max(0, min(x.indexAt(j), d-size[i]))
	}
	return start, free, contest, nil
}

// freeRange is the range of an undecided start index of a dimension, clamped
// to 0..last.
func freeRange(s Scalar, dim int, last int64) freeStart {
	lo, hi, ok := s.span()
	if !ok {
		return freeStart{dim, 0, last}
	}
	return freeStart{dim, max(0, min(lo, last)), max(0, min(hi, last))}
}

// eachStart calls f with every start that the undecided dimensions allow. It
// reports false, without a call, when work elements for each would exceed
// hullLimit.
func eachStart(start []int64, free []freeStart, work int, f func(start []int64)) bool {
	n := 1
	for _, r := range free {
		n *= int(r.hi-r.lo) + 1
		if n*max(work, 1) > hullLimit {
			return false
		}
	}
	s := slices.Clone(start)
	for _, r := range free {
		s[r.dim] = r.lo
	}
	for range n {
		f(s)
		for _, r := range free {
			if s[r.dim]++; s[r.dim] <= r.hi {
				break
			}
			s[r.dim] = r.lo
		}
	}
	return true
}

// either is the elementwise union of the legal sets of arrays.
func (n *Numerics) either(arrays ...*Array) *Array {
	p := NewArray(hlo.Pred)
	p.Set(0, Scalar{Undecided: true})
	r := arrays[0]
	for _, a := range arrays[1:] {
		r = n.SelectArray(p, r, a)
	}
	return r
}

// contested is a with contest bits added to every element.
func (a *Array) contested(c Contest) *Array {
	if c == 0 {
		return a
	}
	r := *a
	r.Contest = make([]Contest, a.Len())
	for i := range r.Contest {
		r.Contest[i] = c
		if a.Contest != nil {
			r.Contest[i] |= a.Contest[i]
		}
	}
	return &r
}

// contests is the union of the contest bits of all elements.
func (a *Array) contests() Contest {
	var c Contest
	for _, x := range a.Contest {
		c |= x
	}
	return c
}

func (e *Evaluator) dynamicSlice(in *hlo.Instruction, a []*Array) (*Array, error) {
	size := in.Shape.Dims
	if len(size) != len(a[0].Dims) {
		return nil, malformed(in, "the result has rank %d, the operand %d", len(size), len(a[0].Dims))
	}
	start, free, contest, err := starts(in, a[1:], a[0].Dims, size)
	if err != nil {
		return nil, err
	}
	if free == nil {
		return a[0].slice(start, nil, size).contested(contest), nil
	}
	var r *Array
	if !eachStart(start, free, product(size), func(s []int64) {
		block := a[0].slice(s, nil, size)
		if r == nil {
			r = block
		} else {
			r = e.num.either(r, block)
		}
	}) {
		return undecidedArray(a[0].Type, contest|a[0].contests(), size...), nil
	}
	return r.contested(contest), nil
}

func (e *Evaluator) dynamicUpdateSlice(in *hlo.Instruction, a []*Array) (*Array, error) {
	update := e.num.as(a[0].Type, a[1])
	if len(update.Dims) != len(a[0].Dims) {
		return nil, malformed(in, "the update has rank %d, the operand %d", len(update.Dims), len(a[0].Dims))
	}
	start, free, contest, err := starts(in, a[2:], a[0].Dims, update.Dims)
	if err != nil {
		return nil, err
	}
	put := func(s []int64) *Array {
		if slices.Equal(a[0].Dims, update.Dims) {
			return update
		}
		r := a[0].Clone()
		r.store(update, s)
		return r
	}
	if free == nil {
		return put(start).contested(contest), nil
	}
	var r *Array
	if !eachStart(start, free, a[0].Len(), func(s []int64) {
		if r == nil {
			r = put(s)
		} else {
			r = e.num.either(r, put(s))
		}
	}) {
		return undecidedArray(a[0].Type, contest|a[0].contests()|update.contests(), a[0].Dims...), nil
	}
	return r.contested(contest), nil
}

// windows says where the windows of a gather or scatter lie: for each batch
// (a position of the index array without its vector dimension) a start in the
// operand, and for each element of a window its place in the operand and in
// the array of slices (the gather's result, the scatter's updates).
type windows struct {
	dims    []int64 // of the operand
	size    []int64 // of a window, per operand dimension
	strides []int   // of the operand

	starts    [][]int64     // per batch; one entry per operand dimension
	undecided [][]freeStart // per batch: undecided starts; nil when none at all
	contest   Contest       // of all indices

	batchAt  []int // per batch: its offset in the array of slices
	elements []windowElement
}

type windowElement struct{ operand, slices int }

// windowNumbers are the common part of GatherDimensionNumbers and
// ScatterDimensionNumbers.
type windowNumbers struct {
	window       []int64 // dimensions of the array of slices that walk a window
	dropped      []int64 // operand dimensions that windows have not (size 1)
	indexMap     []int64 // operand dimension of each entry of an index vector
	vectorDim    int64
	operandBatch []int64
	indicesBatch []int64
	size         []int64 // of a window per operand dimension
	operandDims  []int64
	slicesDims   []int64
}

// newWindows works out the windows (StableHLO gather and scatter,
// HandleGather and HandleScatter).
func newWindows(in *hlo.Instruction, w windowNumbers, indices *Array) (*windows, error) {
	if indices.I == nil {
		return nil, malformed(in, "indices of type %v", indices.Type)
	}
	rank := len(w.operandDims)
	iDims := slices.Clone(indices.Dims)
	if w.vectorDim == int64(len(iDims)) {
		iDims = append(iDims, 1)
	}
	if w.vectorDim < 0 || w.vectorDim >= int64(len(iDims)) || iDims[w.vectorDim] != int64(len(w.indexMap)) {
		return nil, malformed(in, "index_vector_dim %d does not fit %d index_map entries", w.vectorDim, len(w.indexMap))
	}
	if len(w.indicesBatch) != len(w.operandBatch) {
		return nil, malformed(in, "%d batching dimensions of the operand, %d of the indices", len(w.operandBatch), len(w.indicesBatch))
	}
	for _, d := range slices.Concat(w.indexMap, w.operandBatch, w.dropped) {
		if d < 0 || d >= int64(rank) {
			return nil, malformed(in, "no operand dimension %d", d)
		}
	}
	// Dimensions of the array of slices: window dimensions in the order of
	// the operand dimensions that have them, the others in the order of the
	// batch dimensions of the indices.
	var windowOf []int64
	for d := range int64(rank) {
		if !slices.Contains(w.dropped, d) && !slices.Contains(w.operandBatch, d) {
			windowOf = append(windowOf, d)
		}
	}
	if len(windowOf) != len(w.window) || len(w.slicesDims) != len(w.window)+len(iDims)-1 {
		return nil, malformed(in, "%d window dimensions, want %d", len(w.window), len(windowOf))
	}
	sliceStrides := strides(w.slicesDims)
	st := strides(w.operandDims)
	r := &windows{dims: w.operandDims, size: w.size, strides: st}
	for d, n := range w.size {
		if n > w.operandDims[d] || n < 0 {
			return nil, malformed(in, "window size %d of dimension %d", n, d)
		}
	}
	var counts, os, ss []int
	for i, d := range w.window {
		if d < 0 || d >= int64(len(w.slicesDims)) || w.slicesDims[d] != w.size[windowOf[i]] {
			return nil, malformed(in, "window dimension %d does not fit", d)
		}
		counts = append(counts, int(w.slicesDims[d]))
		os, ss = append(os, st[windowOf[i]]), append(ss, sliceStrides[d])
	}
	walk(counts, func(index []int) {
		var x windowElement
		for i, j := range index {
			x.operand += j * os[i]
			x.slices += j * ss[i]
		}
		r.elements = append(r.elements, x)
	})

	iStrides := strides(iDims)
	var batchDims []int64 // of the indices
	for d := range int64(len(iDims)) {
		if d != w.vectorDim {
			batchDims = append(batchDims, d)
		}
	}
	counts = nil
	var is, bs []int
	next := 0
	for d := range int64(len(w.slicesDims)) {
		if slices.Contains(w.window, d) {
			continue
		}
		b := batchDims[next]
		next++
		if w.slicesDims[d] != iDims[b] {
			return nil, malformed(in, "dimension %d has size %d, the indices %d", d, w.slicesDims[d], iDims[b])
		}
		counts = append(counts, int(iDims[b]))
		is, bs = append(is, iStrides[b]), append(bs, sliceStrides[d])
	}
	batchOf := make([]int, len(w.operandBatch)) // position in counts
	for i, d := range w.indicesBatch {
		if batchOf[i] = slices.Index(batchDims, d); batchOf[i] < 0 {
			return nil, malformed(in, "no batch dimension %d of the indices", d)
		}
	}
	vector := iStrides[w.vectorDim]
	anyUndecided := slices.Contains(indices.Undecided, true)
	r.contest = indices.contests()
	walk(counts, func(index []int) {
		from, at := 0, 0
		for i, j := range index {
			from += j * is[i]
			at += j * bs[i]
		}
		start := make([]int64, rank)
		var free []freeStart
		for i, d := range w.indexMap {
			start[d] = indices.indexAt(from + i*vector)
			if anyUndecided && indices.Undecided[from+i*vector] {
				free = append(free, freeRange(indices.At(from+i*vector), int(d), w.operandDims[d]-w.size[d]))
			}
		}
		for i, d := range w.operandBatch {
			start[d] = int64(index[batchOf[i]])
		}
		r.starts = append(r.starts, start)
		if anyUndecided {
			r.undecided = append(r.undecided, free)
		}
		r.batchAt = append(r.batchAt, at)
	})
	return r, nil
}

// walk calls f with every index below counts, in row-major order.
func walk(counts []int, f func(index []int)) {
	index := make([]int, len(counts))
	if slices.Contains(counts, 0) {
		return
	}
	for {
		f(index)
		d := len(counts) - 1
		for ; d >= 0; d-- {
			if index[d]++; index[d] < counts[d] {
				break
			}
			index[d] = 0
		}
		if d < 0 {
			return
		}
	}
}

func (w *windows) offset(start []int64) int {
	n := 0
	for d, s := range start {
		n += int(s) * w.strides[d]
	}
	return n
}

// clamp moves a start so that the window lies inside the operand.
func (w *windows) clamp(start []int64) {
	for d := range start {
		start[d] = max(0, min(start[d], w.dims[d]-w.size[d]))
	}
}

func (w *windows) inside(start []int64) bool {
	for d := range start {
		if start[d] < 0 || start[d] > w.dims[d]-w.size[d] {
			return false
		}
	}
	return true
}

func (e *Evaluator) gather(in *hlo.Instruction, a, indices *Array) (*Array, error) {
	g := in.Attr.GetGatherDimensionNumbers()
	size := in.Attr.GatherSliceSizes
	if g == nil || len(size) != len(a.Dims) {
		return nil, malformed(in, "%d slice sizes for rank %d", len(size), len(a.Dims))
	}
	dims := in.Shape.Dims
	if slices.Contains(dims, 0) {
		return NewArray(a.Type, dims...), nil
	}
	w, err := newWindows(in, windowNumbers{
		window: g.OffsetDims, dropped: g.CollapsedSliceDims, indexMap: g.StartIndexMap, vectorDim: g.IndexVectorDim,
		operandBatch: g.OperandBatchingDims, indicesBatch: g.StartIndicesBatchingDims,
		size: size, operandDims: a.Dims, slicesDims: dims,
	}, indices)
	if err != nil {
		return nil, err
	}
	if a.Len() == 0 && product(dims) > 0 {
		return nil, unsupported(in, "slices of an operand without elements")
	}
	index := make([]int32, product(dims))
	for b, start := range w.starts {
		w.clamp(start)
		from, at := w.offset(start), w.batchAt[b]
		for _, x := range w.elements {
			index[at+x.slices] = int32(from + x.operand)
		}
	}
	r := a.Permute(dims, index).contested(w.contest)
	budget := hullLimit
	for b, free := range w.undecided {
		if free == nil {
			continue
		}
		at := w.batchAt[b]
		first := true
		if budget > 0 && eachStart(w.starts[b], free, len(w.elements), func(s []int64) {
			from := w.offset(s)
			for _, x := range w.elements {
				v := a.At(from + x.operand)
				if !first {
					v = e.num.Select(Scalar{Undecided: true}, a.Type, r.At(at+x.slices), v)
				}
				v.Contest |= w.contest
				r.Set(at+x.slices, v)
			}
			first = false
			budget -= len(w.elements)
		}) {
			continue
		}
		for _, x := range w.elements {
			r.undecide(at+x.slices, w.contest)
		}
	}
	return r, nil
}

// scatter applies updates at indices. A window that is partly outside is
// skipped as a whole (HandleScatter, and XLA's scatter_expander). The order of
// updates of one element is implementation-defined.
func (e *Evaluator) scatter(in *hlo.Instruction, a []*Array) (*Value, error) {
	n := (len(a) - 1) / 2
	sd := in.Attr.GetScatterDimensionNumbers()
	if sd == nil || n < 1 || len(a) != 2*n+1 || len(in.Called) != 1 {
		return nil, malformed(in, "%d operands", len(a))
	}
	operands, indices, updates := a[:n], a[n], a[n+1:]
	for i := range n {
		updates[i] = e.num.as(operands[i].Type, updates[i])
	}
	size := make([]int64, len(operands[0].Dims))
	next := 0
	for d := range size {
		if slices.Contains(sd.InsertedWindowDims, int64(d)) || slices.Contains(sd.InputBatchingDims, int64(d)) {
			size[d] = 1
			continue
		}
		if next >= len(sd.UpdateWindowDims) || sd.UpdateWindowDims[next] >= int64(len(updates[0].Dims)) {
			return nil, malformed(in, "%d update window dimensions", len(sd.UpdateWindowDims))
		}
		size[d] = updates[0].Dims[sd.UpdateWindowDims[next]]
		next++
	}
	if updates[0].Len() == 0 || operands[0].Len() == 0 {
		return arraysValue(n > 1, operands), nil
	}
	w, err := newWindows(in, windowNumbers{
		window: sd.UpdateWindowDims, dropped: sd.InsertedWindowDims, indexMap: sd.ScatterDimsToOperandDims,
		vectorDim: sd.IndexVectorDim, operandBatch: sd.InputBatchingDims, indicesBatch: sd.ScatterIndicesBatchingDims,
		size: size, operandDims: operands[0].Dims, slicesDims: updates[0].Dims,
	}, indices)
	if err != nil {
		return nil, err
	}
	body, err := e.callee(in, in.Called[0])
	if err != nil {
		return nil, err
	}
	if len(body.types) != 2*n || len(body.roots) != n {
		return nil, malformed(in, "%s does not take %d operands", body.comp.Name, n)
	}

	// Every (operand element, update element) pair in the order of the
	// reference; maybe marks the pairs that an undecided index allows.
	var pairs []scatterPair
	budget := hullLimit
	for b, start := range w.starts {
		at := w.batchAt[b]
		if w.undecided != nil && w.undecided[b] != nil {
			free := w.undecided[b]
			known := slices.Clone(start)
			for _, r := range free {
				known[r.dim] = 0
			}
			if !w.inside(known) {
				continue
			}
			if !eachStart(start, free, len(w.elements), func(s []int64) {
				from := w.offset(s)
				for _, x := range w.elements {
					pairs = append(pairs, scatterPair{int32(from + x.operand), int32(at + x.slices), true})
				}
				budget -= len(w.elements)
			}) || budget < 0 {
				out := make([]*Array, n)
				for i, o := range operands {
					out[i] = undecidedArray(o.Type, w.contest|o.contests()|updates[i].contests(), o.Dims...)
				}
				return arraysValue(n > 1, out), nil
			}
			continue
		}
		if !w.inside(start) {
			continue
		}
		from := w.offset(start)
		for _, x := range w.elements {
			pairs = append(pairs, scatterPair{int32(from + x.operand), int32(at + x.slices), false})
		}
	}
	out, err := e.applyScatter(body, operands, updates, pairs, in.Attr.UniqueIndices)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i] = out[i].contested(w.contest)
	}
	return arraysValue(n > 1, out), nil
}

type scatterPair struct {
	operand, update int32
	maybe           bool // the update may also not be applied
}

func (e *Evaluator) applyScatter(body *callee, operands, updates []*Array, pairs []scatterPair, unique bool) ([]*Array, error) {
	n := len(operands)
	out := make([]*Array, n)
	for i, o := range operands {
		out[i] = o.Clone()
	}
	if err := e.spend(int64(len(pairs))); err != nil {
		return nil, err
	}
	// Group the pairs by operand element, in order.
	begin := make([]int32, operands[0].Len()+1)
	several := false
	for _, p := range pairs {
		begin[p.operand+1]++
		several = several || begin[p.operand+1] > 1 || p.maybe
	}
	if !several { // every element is updated at most once: whole columns at a time
		at, from := make([]int32, len(pairs)), make([]int32, len(pairs))
		for i, p := range pairs {
			at[i], from[i] = p.operand, p.update
		}
		count := []int64{int64(len(pairs))}
		args := make([]*Array, 2*n)
		for i := range n {
			args[i] = operands[i].Permute(count, at)
			args[n+i] = updates[i].Permute(count, from)
		}
		results, err := body.columns(args)
		if err != nil {
			return nil, err
		}
		for i, r := range results {
			out[i].place(at, r)
		}
		return out, nil
	}
	for i := 1; i < len(begin); i++ {
		begin[i] += begin[i-1]
	}
	sorted := make([]scatterPair, len(pairs))
	fill := slices.Clone(begin)
	for _, p := range pairs {
		sorted[fill[p.operand]] = p
		fill[p.operand]++
	}
	terms := make([]Scalar, 0, 16)
	args := make([]Scalar, 2*n)
	for at := range operands[0].Len() {
		group := sorted[begin[at]:begin[at+1]]
		if len(group) == 0 {
			continue
		}
		if unique && len(group) > 1 && !slices.ContainsFunc(group, func(p scatterPair) bool { return p.maybe }) {
			for i := range n { // a false claim: anything may happen
				out[i].undecide(at, OrderDependent)
			}
			continue
		}
		if slices.Contains(body.kinds, bodyOther) {
			if err := e.scatterGeneral(body, out, operands, updates, at, group, args); err != nil {
				return nil, err
			}
			continue
		}
		for i, kind := range body.kinds {
			terms = terms[:0]
			maybe := false
			for _, p := range group {
				terms = append(terms, updates[i].At(int(p.update)))
				maybe = maybe || p.maybe
			}
			out[i].Set(at, e.num.combine(kind, operands[i].Type, operands[i].At(at), terms, func(j int) bool { return group[j].maybe }))
		}
	}
	return out, nil
}

// combine applies a recognised kind to a value and any number of terms in any
// order; maybe(i) says that term i may also be left out.
func (n *Numerics) combine(kind bodyKind, t hlo.PrimitiveType, x Scalar, terms []Scalar, maybe func(i int) bool) Scalar {
	switch kind {
	case bodyFirst:
		return x
	case bodySecond:
		// The last one in the order of the reference; another one may be
		// last elsewhere.
		r, sure := x, false
		for i, s := range terms {
			sure = sure || !maybe(i)
			switch {
			case i == 0 && !maybe(i):
				r = s
			case !n.Bounds && !maybe(i): // exact mode: the last one in order
				s.Contest |= r.Contest | OrderDependent
				r = s
			default:
				r = n.orderFree(t, r, s)
			}
		}
		if sure && n.Bounds && maybe(0) { // x itself is overwritten for sure
			r = terms[0]
			for _, s := range terms[1:] {
				r = n.orderFree(t, r, s)
			}
		}
		return r
	case bodyAdd:
		sum := n.NewSum(t)
		sum.Add(x)
		for i, s := range terms {
			if maybe(i) {
				s = n.Select(Scalar{Undecided: true}, t, s, Scalar{Contest: s.Contest})
			}
			sum.Add(s)
		}
		return sum.Result()
	}
	op := opcodeOfKind[kind]
	if kind == bodyMultiply && n.Bounds && t.IsFloat() && len(terms) > 1 {
		factors := append([]Scalar{x}, terms...)
		for i, s := range terms {
			if maybe(i) {
				factors[i+1] = n.Select(Scalar{Undecided: true}, t, s, Scalar{Re: Num{C: 1}, Contest: s.Contest})
			}
		}
		return n.product(t, factors)
	}
	for i, s := range terms {
		y := n.Binary(op, t, x, s)
		if maybe(i) {
			y = n.Select(Scalar{Undecided: true}, t, x, y)
		}
		x = y
	}
	return x
}

// orderFree is the union of two values of which an implementation-defined
// order picks one.
func (n *Numerics) orderFree(t hlo.PrimitiveType, x, y Scalar) Scalar {
	r := n.Select(Scalar{Undecided: true}, t, x, y)
	if !sameScalar(x, y) {
		r.Contest |= OrderDependent
	}
	return r
}

// sameScalar compares all but the contest bits; NaN centres are equal.
func sameScalar(x, y Scalar) bool {
	return x.I == y.I && x.Undecided == y.Undecided && x.Width == y.Width && sameNum(x.Re, y.Re) && sameNum(x.Im, y.Im)
}

func sameNum(x, y Num) bool {
	c := x.C == y.C && math.Signbit(x.C) == math.Signbit(y.C) || x.C != x.C && y.C != y.C
	return c && x.Lo == y.Lo && x.E == y.E && x.K == y.K
}

// scatterGeneral applies the updates of one element with a body of no
// recognised kind: forwards, and in bound mode backwards too.
func (e *Evaluator) scatterGeneral(body *callee, out, operands, updates []*Array, at int, group []scatterPair, args []Scalar) error {
	n := len(operands)
	run := func(backwards bool) error {
		for i, o := range operands {
			args[i] = o.At(at)
		}
		for j := range group {
			p := group[j]
			if backwards {
				p = group[len(group)-1-j]
			}
			for i, u := range updates {
				args[n+i] = u.At(int(p.update))
			}
			r, err := body.call(args...)
			if err != nil {
				return err
			}
			for i, s := range r {
				if p.maybe {
					s = e.num.Select(Scalar{Undecided: true}, operands[i].Type, args[i], s)
				}
				args[i] = s
			}
		}
		return nil
	}
	if err := run(false); err != nil {
		return err
	}
	forwards := slices.Clone(args[:n])
	if e.num.Bounds && len(group) > 1 {
		if err := run(true); err != nil {
			return err
		}
		for i := range forwards {
			forwards[i] = e.num.mergeOrders(operands[i].Type, forwards[i], args[i])
		}
	}
	for i, s := range forwards {
		out[i].Set(at, s)
	}
	return nil
}

// mergeOrders joins the results of two evaluation orders of a reducer of no
// recognised kind. HLO leaves the order open but asks for an associative
// reducer: where the two legal sets meet, the union stands for every order;
// where they do not, the reducer is not associative on these values, no order
// is the right one, and the element is undecided.
func (n *Numerics) mergeOrders(t hlo.PrimitiveType, x, y Scalar) Scalar {
	if sameScalar(x, y) {
		x.Contest |= y.Contest
		return x
	}
	a, b := NewArray(t), NewArray(t)
	a.Set(0, x)
	b.Set(0, y)
	if a.Meets(b, 0) == Out {
		r := undecidedScalar(t)
		r.Contest = x.Contest | y.Contest | OrderDependent
		return r
	}
	return n.Select(Scalar{Undecided: true}, t, x, y)
}

// place stores element i of src as element at[i] of a, all columns.
func (a *Array) place(at []int32, src *Array) {
	size := a.Len()
	put(&a.I, src.I, at, size)
	put(&a.Undecided, src.Undecided, at, size)
	put(&a.Width, src.Width, at, size)
	put(&a.Contest, src.Contest, at, size)
	a.Re.place(at, src.Re)
	a.Im.place(at, src.Im)
}

func (p *Plane) place(at []int32, src *Plane) {
	if p == nil {
		return
	}
	size := len(p.C)
	put(&p.C, src.C, at, size)
	put(&p.Lo, src.Lo, at, size)
	put(&p.E, src.E, at, size)
	put(&p.K, src.K, at, size)
}

func put[T any](column *[]T, src []T, at []int32, size int) {
	if src == nil && *column == nil {
		return
	}
	dst := grow(column, size)
	if src == nil {
		var zero T
		for _, j := range at {
			dst[j] = zero
		}
		return
	}
	for i, j := range at {
		dst[j] = src[i]
	}
}
