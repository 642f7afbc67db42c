package eval

import (
	"math"
	"slices"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// How reductions are evaluated.
//
// HLO leaves the order of a reduction open. Reducers of a recognised kind
// (body.go) are evaluated so that the result covers every order: sums by Sum,
// products by product; minimum, maximum and the bitwise operations are exact
// in any order. For any other reducer exact mode goes from first to last; bound
// mode also combines neighbours as a balanced tree. The two results have the
// error bounds of their own order, of which the sequential one is the wider for
// reducers that are associative apart from rounding, so their union stands for
// all orders (mergeOrders). Reducers that pick an element (arg-max, arg-min)
// are exact in every order: uncertain values make their comparison undecided,
// and then value and index are the union of both.

// reductions evaluates the operations with a scalar reducer.
func (e *Evaluator) reductions(in *hlo.Instruction, a []*Array) (*Value, error) {
	if in.Op == hlo.OpSelectAndScatter {
		return one(e.selectAndScatter(in, a))
	}
	if len(in.Called) != 1 {
		return nil, malformed(in, "%d called computations", len(in.Called))
	}
	if in.Op == hlo.OpScan {
		return e.scan(in, a)
	}
	body, err := e.callee(in, in.Called[0])
	if err != nil {
		return nil, err
	}
	if in.Op == hlo.OpMap {
		if len(body.types) != len(a) || len(body.roots) != 1 {
			return nil, malformed(in, "%s does not take %d operands", body.comp.Name, len(a))
		}
		for i := range a {
			a[i] = e.num.as(body.types[i], a[i])
		}
		r, err := body.columns(a)
		if err != nil {
			return nil, err
		}
		return arrayValue(e.num.as(in.Shape.Type, r[0])), nil
	}

	n := len(a) / 2
	if n == 0 || len(a) != 2*n || len(body.types) != 2*n || len(body.roots) != n {
		return nil, malformed(in, "%s does not reduce %d operands", body.comp.Name, len(a))
	}
	init := make([]Scalar, n)
	for i := range n {
		if len(a[n+i].Dims) != 0 || !slices.Equal(a[i].Dims, a[0].Dims) {
			return nil, malformed(in, "operand %d has the wrong dimensions", i)
		}
		a[i] = e.num.as(body.types[n+i], a[i])
		init[i] = e.num.as(body.types[i], a[n+i]).At(0)
	}
	results := in.Shape.Leaves()
	if len(results) != n {
		return nil, malformed(in, "%d results", len(results))
	}
	var out []*Array
	if in.Op == hlo.OpReduce {
		out, err = e.reduce(in, body, a[:n], init)
	} else {
		out, err = e.reduceWindow(in, body, a[:n], init, results[0].Dims)
	}
	if err != nil {
		return nil, err
	}
	for i, r := range out {
		out[i] = e.num.as(results[i].Type, r).Reshape(results[i].Dims...)
	}
	return arraysValue(in.Shape.IsTuple(), out), nil
}

func (e *Evaluator) reduce(in *hlo.Instruction, body *callee, a []*Array, init []Scalar) ([]*Array, error) {
	reduced := in.Dimensions()
	var kept []int64
	rows, cols := 1, 1
	for d := range int64(len(a[0].Dims)) {
		if slices.Contains(reduced, d) {
			cols *= int(a[0].Dims[d])
			continue
		}
		kept = append(kept, d)
		rows *= int(a[0].Dims[d])
	}
	if len(kept)+len(reduced) != len(a[0].Dims) {
		return nil, malformed(in, "dimensions %v", reduced)
	}
	reduced = slices.Sorted(slices.Values(reduced))
	return e.foldFrom(body, init, rows, cols, func(i int, byRow bool) *Array {
		if byRow {
			return a[i].transpose(slices.Concat(kept, reduced))
		}
		return a[i].transpose(slices.Concat(reduced, kept))
	})
}

// foldFrom is fold. An element that would be another one without the initial
// value is contested: StableHLO's reduce lets the initial value be applied any
// number of times, and algsimp leaves it out where one element is reduced
// (algebraic_simplifier.cc, HandleReduce).
func (e *Evaluator) foldFrom(body *callee, init []Scalar, rows, cols int, operand func(i int, byRow bool) *Array) ([]*Array, error) {
	with, err := e.fold(body, init, rows, cols, operand)
	neutral, differs := body.neutral(init)
	if err != nil || !differs || rows == 0 || cols == 0 {
		return with, err
	}
	without, err := e.fold(body, neutral, rows, cols, operand)
	if err != nil {
		return nil, err
	}
	for o, r := range with {
		contest := make([]Contest, rows)
		copy(contest, r.Contest)
		for i := range contest {
			if r.Meets(without[o], i) != In {
				contest[i] |= Implementation
			}
		}
		r.Contest = contest
	}
	return with, nil
}

// neutral are initial values with the neutral elements in place of those that
// have one and are not; false if there are none.
func (b *callee) neutral(init []Scalar) (out []Scalar, differs bool) {
	out = slices.Clone(init)
	for i, kind := range b.kinds {
		if id, ok := identity(kind, b.types[i]); ok && !isIdentity(kind, b.types[i], init[i]) {
			out[i], differs = id, true
		}
	}
	return out, differs
}

// fold reduces a matrix of rows by cols elements per operand along its
// columns' index, to one element per row. operand gives operand i as rows
// (row-major) or as columns (its transpose).
func (e *Evaluator) fold(body *callee, init []Scalar, rows, cols int, operand func(i int, byRow bool) *Array) ([]*Array, error) {
	out := make([]*Array, len(init))
	if rows == 0 || cols == 0 {
		for i, s := range init {
			out[i] = Fill(s, body.types[i], int64(rows))
		}
		return out, nil
	}
	if slices.Contains(body.kinds, bodyOther) || slices.Contains(body.kinds, bodySecond) {
		return e.foldGeneral(body, init, rows, cols, operand)
	}
	for i, kind := range body.kinds {
		t := body.types[i]
		switch {
		case kind == bodyFirst:
			out[i] = Fill(init[i], t, int64(rows))
		case kind == bodyAdd:
			out[i] = e.num.sumRows(operand(i, true), init[i], rows, cols)
		case kind == bodyMultiply && e.num.Bounds && t.IsFloat():
			x := operand(i, true)
			out[i] = NewArray(t, int64(rows))
			terms := make([]Scalar, cols, cols+1)
			for r := range rows {
				for c := range cols {
					terms[c] = x.At(r*cols + c)
				}
				terms = terms[:cols]
				if !isIdentity(kind, t, init[i]) {
					terms = append(terms, init[i])
				}
				out[i].Set(r, e.num.product(t, terms))
			}
		default:
			op := opcodeOfKind[kind]
			x := operand(i, false).Reshape(int64(rows * cols))
			for n := cols; n > 1; {
				half := n / 2
				y := e.num.BinaryArray(op, x.rows(0, half, rows), x.rows(half, 2*half, rows))
				if n%2 == 1 {
					y = concatenate([]*Array{y, x.rows(n-1, n, rows)}, 0)
				}
				x, n = y, half+n%2
			}
			if !isIdentity(kind, t, init[i]) || t.IsFloat() && cols == 1 { // one application may flush a subnormal
				x = e.num.BinaryArray(op, Fill(init[i], t, int64(rows)), x)
			}
			out[i] = x
		}
		if sum := kind == bodyAdd || kind == bodyMultiply || kind == bodyXor; sum && !isIdentity(kind, t, init[i]) {
			// An implementation may insert the initial value any number of
			// times (StableHLO reduce: "at implementation-defined positions").
			// XLA does: tree_reduction_rewriter reduces in two steps, algsimp
			// drops the value where there is nothing to reduce.
			contest := grow(&out[i].Contest, rows)
			for r := range contest {
				contest[r] |= Implementation
			}
		}
	}
	return out, nil
}

// sumRows is init plus the sum of each row of a matrix, in any order.
func (n *Numerics) sumRows(x *Array, init Scalar, rows, cols int) *Array {
	r := NewArray(x.Type, int64(rows))
	skip := isIdentity(bodyAdd, x.Type, init) && init.Contest == 0
	for i := range rows {
		s := n.NewSum(x.Type)
		if !skip {
			s.Add(init)
		}
		s.AddArray(x, i*cols, 1, cols)
		r.Set(i, s.Result())
	}
	return r
}

// product is the product of two or more real floats of type t in any order: a
// chain of multiplications, whose relative error does not depend on the order,
// unless a partial product may leave the range of normal numbers in one order
// and not in another.
func (n *Numerics) product(t hlo.PrimitiveType, terms []Scalar) Scalar {
	p := n.Binary(hlo.OpMultiply, t, Scalar{Re: Num{C: 1}}, terms[0]) // may flush a subnormal
	f := t.Format()
	large, small := 1.0, 1.0 // the largest and smallest partial product of any order
	special, zero, uncertain := false, false, false
	bits := 0 // of the exact product of the significands
	for i, x := range terms {
		if i > 0 {
			p = n.Binary(hlo.OpMultiply, t, p, x)
		}
		hi, lo := math.Abs(x.Re.C)+x.Re.E, math.Abs(x.Re.C)-x.Re.E
		large *= math.Max(1, hi)
		zero, uncertain = zero || hi == 0, uncertain || x.Re.E > 0
		if hi > 0 {
			small *= math.Min(1, math.Max(0, lo))
		}
		if x.Re.C != 0 && finite(x.Re.C) {
			bits += math.Ilogb(x.Re.C) - unitExponent(x.Re.C) + 1
		}
		special = special || x.Re.K&(MayNaN|MayPosInf|MayNegInf) != 0 || math.IsNaN(hi) || math.IsInf(hi, 0)
	}
	if bits > f.MantissaBits+1 && p.Re.plain() {
		// Other orders round at other places, each to within half an ULP.
		u := math.Ldexp(1, -f.MantissaBits-1)
		e := (math.Abs(p.Re.C) + p.Re.E) * float64(len(terms)) * u * roundUp
		if uncertain {
			p.Re.E += e
		} else {
			p.Re.E = math.Max(p.Re.E, e)
		}
	}
	switch {
	case special: // at worst NaN or an infinity in one order, and another in another one
		if math.IsNaN(p.Re.C) && p.Re.K&^MayNaN == 0 {
			return p // NaN times anything is NaN
		}
		return orderUndecided(t, p)
	case large > f.Max() && (small < 1 || zero):
		return orderUndecided(t, p)
	case small < f.MinNormal() && large > 1 && !math.IsInf(p.Re.E, 1):
		p.Re.E += math.Abs(p.Re.C) + float64(len(terms))*f.MinSubnormal()*large
	}
	return p
}

func orderUndecided(t hlo.PrimitiveType, p Scalar) Scalar {
	s := undecidedScalar(t)
	s.Contest = p.Contest
	return s
}

// foldGeneral is fold for reducers of no recognised kind.
func (e *Evaluator) foldGeneral(body *callee, init []Scalar, rows, cols int, operand func(i int, byRow bool) *Array) ([]*Array, error) {
	n := len(init)
	out := make([]*Array, n)
	x := make([]*Array, n) // the matrix by column: step c is row c of x
	for i := range x {
		x[i] = operand(i, false).Reshape(int64(rows * cols))
	}
	if err := e.spend(int64(rows*cols) * int64(1+len(body.code))); err != nil {
		return nil, err
	}
	// From first to last.
	if rows >= 16 && body.simple {
		args := make([]*Array, 2*n)
		for i, s := range init {
			args[i] = Fill(s, body.types[i], int64(rows))
		}
		for c := range cols {
			for i := range x {
				args[n+i] = x[i].rows(c, c+1, rows)
			}
			r, err := body.columns(args)
			if err != nil {
				return nil, err
			}
			copy(args, r)
		}
		copy(out, args)
	} else {
		for i, t := range body.roots {
			out[i] = NewArray(t, int64(rows))
		}
		args := make([]Scalar, 2*n)
		for r := range rows {
			copy(args, init)
			for c := range cols {
				for i := range x {
					args[n+i] = x[i].At(c*rows + r)
				}
				s, err := body.call(args...)
				if err != nil {
					return nil, err
				}
				copy(args, s)
			}
			for i := range out {
				out[i].Set(r, args[i])
			}
		}
	}
	if !e.num.Bounds || cols == 1 {
		return out, nil
	}
	// As a tree.
	args := make([]*Array, 2*n)
	for m := cols; m > 1; {
		half := m / 2
		for i, a := range x {
			// Neighbouring steps 2k and 2k+1.
			pairs := a.rows(0, 2*half, rows).Reshape(int64(half), 2, int64(rows))
			size := []int64{int64(half), 1, int64(rows)}
			args[i] = pairs.slice([]int64{0, 0, 0}, nil, size).Reshape(int64(half * rows))
			args[n+i] = pairs.slice([]int64{0, 1, 0}, nil, size).Reshape(int64(half * rows))
		}
		r, err := body.columns(args)
		if err != nil {
			return nil, err
		}
		for i := range x {
			if m%2 == 1 {
				r[i] = concatenate([]*Array{r[i], x[i].rows(m-1, m, rows)}, 0)
			}
			x[i] = r[i]
		}
		m = half + m%2
	}
	for i, s := range init {
		args[i] = Fill(s, body.types[i], int64(rows))
		args[n+i] = x[i]
	}
	tree, err := body.columns(args)
	if err != nil {
		return nil, err
	}
	for i, a := range out {
		merged := NewArray(a.Type, a.Dims...)
		for r := range rows {
			merged.Set(r, e.num.mergeOrders(a.Type, a.At(r), tree[i].At(r)))
		}
		out[i] = merged
	}
	return out, nil
}

// windowPlan says which operand elements the windows of an operation see.
type windowPlan struct {
	out, size []int     // counts of windows and of positions in a window, per dimension
	at        [][]int32 // per dimension: [window*size+position] offset in the operand, -1 for padding
	positions int       // in one window
	padded    bool      // some position is padding
}

// newWindowPlan lays windows over an operand (xla_data.proto Window,
// IterateThroughWindow): position w of window o sees
// (o*stride + w*window_dilation - padding_low) / base_dilation. Its tables are no
// larger than the work on the windows may be, nor than an array.
func (e *Evaluator) newWindowPlan(in *hlo.Instruction, dims, out []int64, stride []int) (*windowPlan, error) {
	wd := in.Attr.GetWindow().GetDimensions()
	if len(wd) != len(dims) || len(out) != len(dims) {
		return nil, malformed(in, "a window of %d dimensions for rank %d", len(wd), len(dims))
	}
	p := &windowPlan{out: ints(out), positions: 1}
	for d, w := range wd {
		if err := checkWindow(in, w); err != nil {
			return nil, err
		}
		p.size = append(p.size, int(w.Size))
		p.positions *= int(w.Size)
		switch n := out[d] * w.Size; {
		case n>>6 > e.opts.MaxSteps-e.steps:
			return nil, ErrStepLimit
		case n > e.opts.MaxElements:
			return nil, unsupported(in, "windows of %d positions (limit %d)", n, e.opts.MaxElements)
		}
		at := make([]int32, out[d]*w.Size)
		for o := range out[d] {
			for k := range w.Size {
				i := o*w.Stride + k*w.WindowDilation - w.PaddingLow
				if i < 0 || i%w.BaseDilation != 0 || i/w.BaseDilation >= dims[d] {
					at[o*w.Size+k] = -1
					p.padded = true
					continue
				}
				at[o*w.Size+k] = int32(int(i/w.BaseDilation) * stride[d])
			}
		}
		p.at = append(p.at, at)
	}
	return p, nil
}

func checkWindow(in *hlo.Instruction, w *hlopb.WindowDimension) error {
	if w.Size < 1 || w.Stride < 1 || w.WindowDilation < 1 || w.BaseDilation < 1 {
		return malformed(in, "window size %d, stride %d, dilations %d and %d", w.Size, w.Stride, w.WindowDilation, w.BaseDilation)
	}
	return nil
}

// window appends the operand offsets that the window at index sees, in
// row-major order of its positions, -1 for padding.
func (p *windowPlan) window(index []int, offsets []int32) []int32 {
	start := len(offsets)
	offsets = append(offsets, 0)
	for d, o := range index {
		at := p.at[d][o*p.size[d] : (o+1)*p.size[d]]
		n := len(offsets) - start
		// Expand in place from the back: entry i becomes entries i*size...
		offsets = append(offsets, make([]int32, n*(p.size[d]-1))...)
		for i := n - 1; i >= 0; i-- {
			base := offsets[start+i]
			for k := len(at) - 1; k >= 0; k-- {
				v := int32(-1)
				if base >= 0 && at[k] >= 0 {
					v = base + at[k]
				}
				offsets[start+i*len(at)+k] = v
			}
		}
	}
	return offsets
}

// reduceWindow folds each window. Positions in the padding or between the
// elements of a dilated base hold the initial value (StableHLO reduce_window);
// the reference implementation leaves them out, which is the same for an
// initial value that is neutral. For another one both are legal.
func (e *Evaluator) reduceWindow(in *hlo.Instruction, body *callee, a []*Array, init []Scalar, out []int64) ([]*Array, error) {
	p, err := e.newWindowPlan(in, a[0].Dims, out, strides(a[0].Dims))
	if err != nil {
		return nil, err
	}
	total := product(out)
	if err := e.spend(int64(total) * int64(p.positions)); err != nil {
		return nil, err
	}
	results := make([]*Array, len(a))
	for i, t := range body.types[:len(a)] {
		results[i] = NewArray(t, int64(total))
	}
	block := max(1, (1<<18)/p.positions)
	done := 0
	var offsets []int32
	flush := func() error {
		rows := len(offsets) / p.positions
		if rows == 0 {
			return nil
		}
		r, err := e.foldWindows(body, init, a, offsets, rows, p)
		if err != nil {
			return err
		}
		for i := range results {
			results[i].store(r[i], []int64{int64(done)})
		}
		done += rows
		offsets = offsets[:0]
		return nil
	}
	walk(p.out, func(index []int) {
		if err != nil {
			return
		}
		offsets = p.window(index, offsets)
		if len(offsets) >= block*p.positions {
			err = flush()
		}
	})
	if err == nil {
		err = flush()
	}
	return results, err
}

// foldWindows folds rows of operand offsets.
func (e *Evaluator) foldWindows(body *callee, init []Scalar, a []*Array, offsets []int32, rows int, p *windowPlan) ([]*Array, error) {
	cols := p.positions
	with := func(fill []Scalar) ([]*Array, error) {
		return e.fold(body, init, rows, cols, func(i int, byRow bool) *Array {
			// The padding is one more element behind the operand's.
			size := a[i].Len()
			x := concatenate([]*Array{a[i].Reshape(int64(size)), Fill(fill[i], a[i].Type, 1)}, 0)
			index := make([]int32, len(offsets))
			for j, o := range offsets {
				if o < 0 {
					o = int32(size)
				}
				if byRow {
					index[j] = o
				} else {
					index[j%cols*rows+j/cols] = o
				}
			}
			return x.Permute([]int64{int64(len(index))}, index)
		})
	}
	r, err := with(init)
	if err != nil || !p.padded {
		return r, err
	}
	neutral, differs := body.neutral(init)
	if !differs {
		return r, nil
	}
	skipped, err := with(neutral)
	if err != nil || !e.num.Bounds {
		return skipped, err
	}
	for i := range r {
		r[i] = e.num.either(r[i], skipped[i])
	}
	return r, nil
}

// selectAndScatter finds in each window the element that the select
// computation prefers, the first one in row-major order among those that it
// does not tell apart, and applies the source value there
// (HandleSelectAndScatter; padding is never selected).
func (e *Evaluator) selectAndScatter(in *hlo.Instruction, a []*Array) (*Array, error) {
	operand, source, init := a[0], a[1], a[2]
	if len(in.Called) != 2 || len(init.Dims) != 0 {
		return nil, malformed(in, "%d called computations", len(in.Called))
	}
	sel, err := e.callee(in, in.Called[0])
	if err != nil {
		return nil, err
	}
	body, err := e.callee(in, in.Called[1])
	if err != nil {
		return nil, err
	}
	if len(sel.types) != 2 || len(sel.roots) != 1 || sel.roots[0] != hlo.Pred || len(body.types) != 2 || len(body.roots) != 1 {
		return nil, malformed(in, "%s or %s has the wrong type", sel.comp.Name, body.comp.Name)
	}
	operand = e.num.as(sel.types[0], operand)
	t := in.Shape.Type
	source, init = e.num.as(t, source), e.num.as(t, init)
	p, err := e.newWindowPlan(in, operand.Dims, source.Dims, strides(operand.Dims))
	if err != nil {
		return nil, err
	}
	if err := e.spend(int64(source.Len()) * int64(p.positions)); err != nil {
		return nil, err
	}
	var pairs []scatterPair
	var offsets, picked []int32
	var contest Contest
	at := int32(0)
	walk(p.out, func(index []int) {
		offsets = p.window(index, offsets[:0])
		picked = picked[:0]
		for _, o := range offsets {
			if o < 0 || err != nil {
				continue
			}
			x := operand.At(int(o))
			take := len(picked) == 0
			kept := picked[:0]
			for _, q := range picked {
				var r []Scalar
				if r, err = sel.call(operand.At(int(q)), x); err != nil {
					return
				}
				contest |= r[0].Contest
				if r[0].Undecided || r[0].I != 0 {
					kept = append(kept, q)
				}
				take = take || r[0].Undecided || r[0].I == 0
			}
			picked = kept
			if take {
				picked = append(picked, o)
			}
		}
		for _, q := range picked {
			pairs = append(pairs, scatterPair{q, at, len(picked) > 1})
		}
		at++
	})
	if err != nil {
		return nil, err
	}
	// The scatter computation takes (source, current), so that the kinds that
	// pick one of their parameters change places.
	flipped := *body
	flipped.kinds = slices.Clone(body.kinds)
	for i, k := range flipped.kinds {
		switch k {
		case bodyFirst:
			flipped.kinds[i] = bodySecond
		case bodySecond:
			flipped.kinds[i] = bodyFirst
		}
	}
	if flipped.simple {
		flipped.params = []int{body.params[1], body.params[0]}
	} else {
		return nil, unsupported(in, "the scatter computation %s", body.comp.Name)
	}
	r, err := e.applyScatter(&flipped, []*Array{Fill(init.At(0), t, in.Shape.Dims...)}, []*Array{source.Reshape(int64(source.Len()))}, pairs, false)
	if err != nil {
		return nil, err
	}
	if kind := body.kinds[0]; kind == bodyOther || kind == bodyFirst || kind == bodySecond {
		// StableHLO reduces the source values with the computation, in any
		// order; XLA's evaluator passes (source, current), its expander
		// (current, source).
		contest |= OrderDependent
	}
	return r[0].contested(contest), nil
}

// scan runs a computation along a dimension: it takes a slice of each input
// and the carries and gives a slice of each output and the new carries
// (HandleScan).
//
// An associative scan may be evaluated as a tree. Sums are evaluated by Sum,
// which covers every order; other reducers in sequence.
func (e *Evaluator) scan(in *hlo.Instruction, a []*Array) (*Value, error) {
	carries := int(in.Attr.NumCarries)
	dim := in.Dimensions()
	inputs := len(a) - carries
	results := []*hlo.Shape{in.Shape}
	if in.Shape.IsTuple() {
		results = in.Shape.Elements
	}
	outputs := len(results) - carries
	if len(dim) != 1 || inputs < 0 || outputs < 0 || inputs+outputs == 0 {
		return nil, malformed(in, "%d operands, %d results, %d carries", len(a), len(results), carries)
	}
	body, err := called(in, 0, len(a))
	if err != nil {
		return nil, err
	}
	d := dim[0]
	var of []int64
	for _, x := range a[:inputs] {
		of = x.Dims
	}
	if inputs == 0 {
		of = results[0].Dims
	}
	if d < 0 || d >= int64(len(of)) {
		return nil, malformed(in, "no dimension %d", d)
	}
	steps := of[d]
	out := make([]*Array, outputs)
	for i := range out {
		if d >= int64(len(results[i].Dims)) || results[i].Dims[d] != steps {
			return nil, malformed(in, "result %d has the wrong dimensions", i)
		}
		out[i] = NewArray(results[i].Type, results[i].Dims...)
	}
	put := func(i int, t int64, slice *Array) error {
		size := slices.Clone(out[i].Dims)
		size[d] = 1
		if slice.Type != out[i].Type || slice.Len() != product(size) {
			return malformed(in, "result %d of %s has the wrong shape", i, body.Name)
		}
		start := make([]int64, len(size))
		start[d] = t
		out[i].store(slice.Reshape(size...), start)
		return nil
	}
	state := make([]*Value, carries)
	for i := range state {
		state[i] = arrayValue(a[inputs+i])
	}
	var sums []Sum
	if inputs == 1 && carries == 1 && outputs == 1 && e.num.Bounds && in.Attr.IsAssociative == hlopb.TriState_TRI_STATE_TRUE && isScanSum(body) {
		sums = make([]Sum, a[1].Len())
		for i := range sums {
			sums[i] = e.num.NewSum(a[1].Type)
			sums[i].Add(a[1].At(i))
		}
	}
	args := make([]*Value, len(a))
	for k := range steps {
		t := k
		if in.Attr.IsReverse {
			t = steps - 1 - k
		}
		for i, x := range a[:inputs] {
			if len(x.Dims) != len(of) || x.Dims[d] != steps {
				return nil, malformed(in, "operand %d has the wrong dimensions", i)
			}
			size, start := slices.Clone(x.Dims), make([]int64, len(x.Dims))
			size[d], start[d] = 1, t
			args[i] = arrayValue(x.slice(start, nil, size).Reshape(slices.Delete(size, int(d), int(d)+1)...))
		}
		if sums != nil {
			x := args[0].Array
			if x.Len() != len(sums) {
				return nil, malformed(in, "carry and input differ")
			}
			r := NewArray(x.Type, a[1].Dims...)
			for i := range sums {
				sums[i].Add(x.At(i))
				r.Set(i, sums[i].Result())
			}
			if err := put(0, t, r); err != nil {
				return nil, err
			}
			state[0] = arrayValue(r)
			continue
		}
		copy(args[inputs:], state)
		v, err := e.call(body, args)
		if err != nil {
			return nil, err
		}
		parts := []*Value{v}
		if v.Array == nil {
			parts = v.Elements
		}
		if len(parts) != len(results) {
			return nil, malformed(in, "%s has %d results, not %d", body.Name, len(parts), len(results))
		}
		for i := range out {
			if parts[i].Array == nil {
				return nil, malformed(in, "result %d of %s is not an array", i, body.Name)
			}
			if err := put(i, t, parts[i].Array); err != nil {
				return nil, err
			}
		}
		copy(state, parts[outputs:])
	}
	r := &Value{}
	for _, x := range out {
		r.Elements = append(r.Elements, arrayValue(x))
	}
	r.Elements = append(r.Elements, state...)
	if !in.Shape.IsTuple() {
		return r.Elements[0], nil
	}
	return r, nil
}

// isScanSum recognises a scan body of one input and one carry whose output and
// new carry both are their sum.
func isScanSum(c *hlo.Computation) bool {
	return c.Root.Op == hlo.OpTuple && len(c.Root.Operands) == 2 &&
		kindOfRoot(c.Root.Operands[0], 0, 1) == bodyAdd && kindOfRoot(c.Root.Operands[1], 0, 1) == bodyAdd
}
