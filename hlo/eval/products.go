package eval

import (
	"slices"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// products evaluates dot, ragged-dot, scaled-dot and convolution. All are sums
// of products, which an implementation may take in any order (MatMul).
func (e *Evaluator) products(in *hlo.Instruction, a []*Array) (*Array, error) {
	if p := in.Attr.GetPrecisionConfig(); p != nil {
		for i := range min(2, len(a)) {
			a[i] = e.reducedOperand(a[i], p.Algorithm)
		}
	}
	switch in.Op {
	case hlo.OpDot:
		return e.dot(in, a[0], a[1])
	case hlo.OpRaggedDot:
		return e.raggedDot(in, a[0], a[1], a[2])
	case hlo.OpScaledDot:
		return e.scaledDot(in, a)
	}
	return e.convolution(in, a)
}

// operandBits are the mantissa bits (without the hidden one) to which an
// algorithm may round the operands of a dot (xla_data.proto
// PrecisionConfig.Algorithm); the bf16 x3, x6 and x9 forms split an operand
// into two or three bf16 parts of 8 bits each and drop products below them.
var operandBits = map[hlopb.PrecisionConfig_Algorithm]int{
	hlopb.PrecisionConfig_ALG_DOT_F16_F16_F16:      10,
	hlopb.PrecisionConfig_ALG_DOT_F16_F16_F32:      10,
	hlopb.PrecisionConfig_ALG_DOT_BF16_BF16_BF16:   7,
	hlopb.PrecisionConfig_ALG_DOT_BF16_BF16_F32:    7,
	hlopb.PrecisionConfig_ALG_DOT_BF16_BF16_F32_X3: 15 - 2,
	hlopb.PrecisionConfig_ALG_DOT_TF32_TF32_F32:    10,
	hlopb.PrecisionConfig_ALG_DOT_BF16_BF16_F32_X6: 23 - 2,
	hlopb.PrecisionConfig_ALG_DOT_TF32_TF32_F32_X3: 21 - 2,
	hlopb.PrecisionConfig_ALG_DOT_BF16_BF16_F32_X9: 23 - 1,
}

// reducedOperand widens an operand of a dot by the rounding that its algorithm
// allows.
func (e *Evaluator) reducedOperand(a *Array, algorithm hlopb.PrecisionConfig_Algorithm) *Array {
	bits, ok := operandBits[algorithm]
	if !ok || !e.num.Bounds || !a.Type.IsFloat() || a.Type.Format().MantissaBits <= bits {
		return a
	}
	return e.num.either(a, e.num.ReducePrecisionArray(a.Type.Format().ExponentBits, bits, a))
}

// dotPlan is a dot as a batched matrix product.
type dotPlan struct {
	lhs, rhs []int64 // permutations to [batch, free, contracted]
	dims     []int64 // of the result
	batch    int
	rows     int
	cols     int
	inner    int
}

func newDotPlan(in *hlo.Instruction, d *hlopb.DotDimensionNumbers, lhs, rhs []int64) (*dotPlan, error) {
	if len(d.GetLhsBatchDimensions()) != len(d.GetRhsBatchDimensions()) ||
		len(d.GetLhsContractingDimensions()) != len(d.GetRhsContractingDimensions()) {
		return nil, malformed(in, "dimension numbers of the operands do not pair up")
	}
	p := &dotPlan{batch: 1, rows: 1, cols: 1, inner: 1}
	order := func(dims, batch, contracted []int64) ([]int64, []int64, bool) {
		var free []int64
		for i := range int64(len(dims)) {
			if !slices.Contains(batch, i) && !slices.Contains(contracted, i) {
				free = append(free, i)
			}
		}
		all := slices.Concat(batch, free, contracted)
		return all, free, isPermutation(all, len(dims))
	}
	var lf, rf []int64
	var okl, okr bool
	p.lhs, lf, okl = order(lhs, d.GetLhsBatchDimensions(), d.GetLhsContractingDimensions())
	p.rhs, rf, okr = order(rhs, d.GetRhsBatchDimensions(), d.GetRhsContractingDimensions())
	if !okl || !okr {
		return nil, malformed(in, "dimension numbers out of range or repeated")
	}
	for i, b := range d.GetLhsBatchDimensions() {
		if lhs[b] != rhs[d.RhsBatchDimensions[i]] {
			return nil, malformed(in, "batch dimension %d differs", i)
		}
		p.batch *= int(lhs[b])
		p.dims = append(p.dims, lhs[b])
	}
	for i, c := range d.GetLhsContractingDimensions() {
		if lhs[c] != rhs[d.RhsContractingDimensions[i]] {
			return nil, malformed(in, "contracted dimension %d differs", i)
		}
		p.inner *= int(lhs[c])
	}
	for _, f := range lf {
		p.rows *= int(lhs[f])
		p.dims = append(p.dims, lhs[f])
	}
	for _, f := range rf {
		p.cols *= int(rhs[f])
		p.dims = append(p.dims, rhs[f])
	}
	return p, nil
}

// multipliable says whether products of the two types make sense in the result
// type: integers of integers, reals of reals. XLA takes an integer result of
// float operands, too, and nothing says how that rounds.
func multipliable(out, x, y hlo.PrimitiveType) bool {
	switch {
	case out.IsComplex():
		return true
	case out.IsFloat():
		return !x.IsComplex() && !y.IsComplex()
	}
	whole := func(t hlo.PrimitiveType) bool { return t == hlo.Pred || t.IsInteger() }
	return whole(x) && whole(y)
}

// dot: batch dimensions first, then the free dimensions of the left and the
// right operand (StableHLO dot_general). Products and sums are taken in the
// result's type.
func (e *Evaluator) dot(in *hlo.Instruction, lhs, rhs *Array) (*Array, error) {
	return e.dotGeneral(in, in.Attr.GetDotDimensionNumbers(), lhs, rhs)
}

func (e *Evaluator) dotGeneral(in *hlo.Instruction, d *hlopb.DotDimensionNumbers, lhs, rhs *Array) (*Array, error) {
	p, err := newDotPlan(in, d, lhs.Dims, rhs.Dims)
	if err != nil {
		return nil, err
	}
	if !multipliable(in.Shape.Type, lhs.Type, rhs.Type) {
		return nil, unsupported(in, "%v of %v and %v", in.Shape.Type, lhs.Type, rhs.Type)
	}
	if err := e.spend(int64(p.batch) * int64(p.rows) * int64(p.cols) * int64(p.inner) / 4); err != nil {
		return nil, err
	}
	r := e.num.MatMul(in.Shape.Type, lhs.transpose(p.lhs), rhs.transpose(p.rhs), p.batch, p.rows, p.cols, p.inner)
	return r.Reshape(p.dims...), nil
}

// mask is a with every element replaced by zero whose index in dimension d is
// not below to.
func (a *Array) mask(d int, to int64) *Array {
	r := NewArray(a.Type, a.Dims...)
	size := slices.Clone(a.Dims)
	size[d] = max(0, min(a.Dims[d], to))
	start := make([]int64, len(a.Dims))
	r.store(a.slice(start, nil, size), start)
	return r
}

// along is the part of a from index from to to-1 of dimension d.
func (a *Array) along(d, from, to int64) *Array {
	start, size := make([]int64, len(a.Dims)), slices.Clone(a.Dims)
	from = min(from, a.Dims[d])
	start[d], size[d] = from, max(0, min(to, a.Dims[d])-from)
	return a.slice(start, nil, size)
}

// raggedDot (HandleRaggedDot): the ragged dimension of the left operand is cut
// into groups of the given sizes. If it is a free dimension, the rows of group
// g meet element g of the right operand's group dimension; rows behind the
// last group are zero. If it is contracted, the result has a leading group
// dimension of the sums over each group. If it is a batch dimension, batches
// behind the last group are zero.
func (e *Evaluator) raggedDot(in *hlo.Instruction, lhs, rhs, sizes *Array) (*Array, error) {
	r := in.Attr.GetRaggedDotDimensionNumbers()
	d := r.GetDotDimensionNumbers()
	if len(r.GetLhsRaggedDimensions()) != 1 || d == nil || sizes.I == nil || len(sizes.Dims) == 0 {
		return nil, malformed(in, "ragged dimensions %v", r.GetLhsRaggedDimensions())
	}
	ragged := r.LhsRaggedDimensions[0]
	if ragged < 0 || ragged >= int64(len(lhs.Dims)) {
		return nil, malformed(in, "no dimension %d", ragged)
	}
	if slices.Contains(sizes.Undecided, true) {
		return undecidedArray(in.Shape.Type, sizes.contests(), in.Shape.Dims...), nil
	}
	return e.raggedGroups(in, r, lhs, rhs, sizes)
}

// raggedGroups is raggedDot for decided group sizes.
func (e *Evaluator) raggedGroups(in *hlo.Instruction, r *hlopb.RaggedDotDimensionNumbers, lhs, rhs, sizes *Array) (*Array, error) {
	d, ragged := r.DotDimensionNumbers, r.LhsRaggedDimensions[0]
	if len(sizes.Dims) > 1 {
		return e.raggedRows(in, r, lhs, rhs, sizes)
	}
	groups := sizes.Dims[0]
	bounds := make([]int64, groups+1)
	for g := range groups {
		bounds[g+1] = bounds[g] + max(0, sizes.I[g])
	}
	switch {
	case slices.Contains(d.LhsContractingDimensions, ragged):
		// One more leading dimension of the result: the group.
		i := slices.Index(d.LhsContractingDimensions, ragged)
		if i >= len(d.RhsContractingDimensions) || d.RhsContractingDimensions[i] >= int64(len(rhs.Dims)) {
			return nil, malformed(in, "contracted dimensions do not pair up")
		}
		other := d.RhsContractingDimensions[i]
		var parts []*Array
		for g := range groups {
			p, err := e.dotGeneral(in, d, lhs.along(ragged, bounds[g], bounds[g+1]), rhs.along(other, bounds[g], bounds[g+1]))
			if err != nil {
				return nil, err
			}
			parts = append(parts, p.Reshape(append([]int64{1}, p.Dims...)...))
		}
		if len(parts) == 0 {
			return NewArray(in.Shape.Type, in.Shape.Dims...), nil
		}
		return concatenate(parts, 0), nil
	case slices.Contains(d.LhsBatchDimensions, ragged):
		p, err := e.dotGeneral(in, d, lhs, rhs)
		if err != nil {
			return nil, err
		}
		at := slices.Index(d.LhsBatchDimensions, ragged)
		return p.mask(at, bounds[groups]), nil
	}
	if len(r.RhsGroupDimensions) != 1 || r.RhsGroupDimensions[0] < 0 || r.RhsGroupDimensions[0] >= int64(len(rhs.Dims)) ||
		rhs.Dims[r.RhsGroupDimensions[0]] != groups {
		return nil, malformed(in, "group dimensions %v", r.RhsGroupDimensions)
	}
	group := r.RhsGroupDimensions[0]
	// Without the group dimension the right operand is one of a plain dot.
	shift := func(dims []int64) []int64 {
		s := slices.Clone(dims)
		for i, x := range s {
			if x > group {
				s[i]--
			}
		}
		return s
	}
	plain := &hlopb.DotDimensionNumbers{
		LhsBatchDimensions: d.LhsBatchDimensions, LhsContractingDimensions: d.LhsContractingDimensions,
		RhsBatchDimensions: shift(d.RhsBatchDimensions), RhsContractingDimensions: shift(d.RhsContractingDimensions),
	}
	// Place of the ragged dimension in the result.
	at := len(d.LhsBatchDimensions)
	for i := range ragged {
		if !slices.Contains(d.LhsBatchDimensions, i) && !slices.Contains(d.LhsContractingDimensions, i) {
			at++
		}
	}
	filter := slices.Delete(slices.Clone(rhs.Dims), int(group), int(group)+1)
	plan, err := newDotPlan(in, plain, lhs.Dims, filter)
	if err != nil {
		return nil, err
	}
	out := NewArray(in.Shape.Type, plan.dims...)
	start := make([]int64, len(plan.dims))
	for g := range groups {
		from, to := min(bounds[g], lhs.Dims[ragged]), min(bounds[g+1], lhs.Dims[ragged])
		if from >= to {
			continue
		}
		p, err := e.dotGeneral(in, plain, lhs.along(ragged, from, to), rhs.along(group, g, g+1).Reshape(filter...))
		if err != nil {
			return nil, err
		}
		start[at] = from
		out.store(p, start)
	}
	return out, nil
}

// raggedRows is raggedDot with group sizes that have leading dimensions: those
// are the first of the batch dimensions and then of the free dimensions of the
// left operand without the ragged one, and each index of them has sizes of its
// own.
func (e *Evaluator) raggedRows(in *hlo.Instruction, r *hlopb.RaggedDotDimensionNumbers, lhs, rhs, sizes *Array) (*Array, error) {
	d, ragged := r.DotDimensionNumbers, r.LhsRaggedDimensions[0]
	leading := slices.Clone(d.LhsBatchDimensions)
	for i := range int64(len(lhs.Dims)) {
		if i != ragged && !slices.Contains(leading, i) && !slices.Contains(d.LhsContractingDimensions, i) {
			leading = append(leading, i)
		}
	}
	// The outermost leading dimension that is not yet taken apart: it stands
	// first in sizes.
	depth := 0
	for depth < len(leading) && depth < len(sizes.Dims)-1 && sizes.Dims[depth] == 1 && lhs.Dims[leading[depth]] == 1 {
		depth++
	}
	if depth == len(sizes.Dims)-1 {
		return e.raggedGroups(in, r, lhs, rhs, sizes.Reshape(sizes.Dims[depth]))
	}
	if depth >= len(leading) || leading[depth] == ragged || lhs.Dims[leading[depth]] != sizes.Dims[depth] {
		return nil, malformed(in, "group sizes %v do not fit the left operand %v", sizes.Dims, lhs.Dims)
	}
	l := leading[depth]
	at := depth // place in the result
	batch := slices.Index(d.LhsBatchDimensions, l)
	if batch < 0 {
		at = len(d.LhsBatchDimensions)
		for i := range l {
			if !slices.Contains(d.LhsBatchDimensions, i) && !slices.Contains(d.LhsContractingDimensions, i) {
				at++
			}
		}
	}
	if slices.Contains(d.LhsContractingDimensions, ragged) {
		at++ // behind the group dimension
	}
	var parts []*Array
	for i := range lhs.Dims[l] {
		y := rhs
		if batch >= 0 {
			y = rhs.along(d.RhsBatchDimensions[batch], i, i+1)
		}
		p, err := e.raggedGroups(in, r, lhs.along(l, i, i+1), y, sizes.along(int64(depth), i, i+1))
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return NewArray(in.Shape.Type, in.Shape.Dims...), nil
	}
	return concatenate(parts, int64(at)), nil
}

// scaledDot is a dot of (lhs*lhs_scale) and (rhs*rhs_scale), all converted to
// the result's type; one element of a scale stands for a block of elements of
// its operand, and a scalar scale for no scaling (HandleScaledDot).
func (e *Evaluator) scaledDot(in *hlo.Instruction, a []*Array) (*Array, error) {
	t := in.Shape.Type
	scaled := func(x, scale *Array) (*Array, error) {
		x = e.num.as(t, x)
		if len(scale.Dims) == 0 {
			return x, nil
		}
		if len(scale.Dims) != len(x.Dims) {
			return nil, malformed(in, "a scale of rank %d for rank %d", len(scale.Dims), len(x.Dims))
		}
		// Each scale dimension s of an operand dimension s*block becomes
		// [s, block].
		var dims, at []int64
		for i, s := range scale.Dims {
			if s == 0 || x.Dims[i]%s != 0 {
				return nil, malformed(in, "a scale of size %d for size %d", s, x.Dims[i])
			}
			at = append(at, int64(len(dims)))
			dims = append(dims, s, x.Dims[i]/s)
		}
		y := e.num.as(t, scale).broadcast(dims, at).Reshape(x.Dims...)
		return e.num.BinaryArray(hlo.OpMultiply, x, y), nil
	}
	lhs, err := scaled(a[0], a[2])
	if err != nil {
		return nil, err
	}
	rhs, err := scaled(a[1], a[3])
	if err != nil {
		return nil, err
	}
	return e.dot(in, lhs, rhs)
}

// convolution (StableHLO convolution, HandleConvolutionWithLiterals) as matrix
// products: for each group of features or batches, the rows are the patches of
// the input that the output positions see and the columns the filters.
func (e *Evaluator) convolution(in *hlo.Instruction, a []*Array) (*Array, error) {
	// The TPU compiler writes a configuration that says nothing on dense convolutions.
	if s := in.Attr.GetSparsityConfig(); len(a) != 2 || s.GetLhs() != nil || s.GetRhs() != nil {
		return nil, unsupported(in, "sparse operands")
	}
	lhs, rhs := a[0], a[1]
	if !multipliable(in.Shape.Type, lhs.Type, rhs.Type) {
		return nil, unsupported(in, "%v of %v and %v", in.Shape.Type, lhs.Type, rhs.Type)
	}
	dn := in.Attr.GetConvolutionDimensionNumbers()
	spatial := len(dn.GetInputSpatialDimensions())
	if dn == nil || len(lhs.Dims) != spatial+2 || len(rhs.Dims) != spatial+2 || len(in.Shape.Dims) != spatial+2 ||
		len(dn.KernelSpatialDimensions) != spatial || len(dn.OutputSpatialDimensions) != spatial ||
		len(in.Attr.GetWindow().GetDimensions()) != spatial ||
		!isPermutation(slices.Concat([]int64{dn.InputBatchDimension, dn.InputFeatureDimension}, dn.InputSpatialDimensions), spatial+2) ||
		!isPermutation(slices.Concat([]int64{dn.KernelInputFeatureDimension, dn.KernelOutputFeatureDimension}, dn.KernelSpatialDimensions), spatial+2) ||
		!isPermutation(slices.Concat([]int64{dn.OutputBatchDimension, dn.OutputFeatureDimension}, dn.OutputSpatialDimensions), spatial+2) {
		return nil, malformed(in, "dimension numbers do not fit")
	}
	features, batches := max(1, int(in.Attr.FeatureGroupCount)), max(1, int(in.Attr.BatchGroupCount))
	groups := features * batches
	if features > 1 && batches > 1 {
		return nil, malformed(in, "feature and batch groups")
	}
	// Input as [batch, feature, spatial...], kernel as [output feature, spatial..., input feature].
	x := lhs.transpose(slices.Concat([]int64{dn.InputBatchDimension, dn.InputFeatureDimension}, dn.InputSpatialDimensions))
	k := rhs.transpose(slices.Concat([]int64{dn.KernelOutputFeatureDimension}, dn.KernelSpatialDimensions, []int64{dn.KernelInputFeatureDimension}))
	inBatch, inFeatures := int(x.Dims[0]), int(x.Dims[1])
	outFeatures, kernelFeatures := int(k.Dims[0]), int(k.Dims[spatial+1])
	if inFeatures != kernelFeatures*features || outFeatures%groups != 0 || inBatch%batches != 0 {
		return nil, malformed(in, "%d input features, %d kernel input features, %d output features, batch %d, groups %d and %d",
			inFeatures, kernelFeatures, outFeatures, inBatch, features, batches)
	}
	outDims := make([]int64, spatial)
	for i, d := range dn.OutputSpatialDimensions {
		outDims[i] = in.Shape.Dims[d]
		if w := in.Attr.Window.Dimensions[i]; w.Size != k.Dims[1+i] {
			return nil, malformed(in, "a window of size %d for a kernel of size %d", w.Size, k.Dims[1+i])
		}
	}
	xs := strides(x.Dims)
	plan, err := e.newWindowPlan(in, x.Dims[2:], outDims, xs[2:])
	if err != nil {
		return nil, err
	}
	if slices.Contains(ints(in.Shape.Dims), 0) {
		return NewArray(in.Shape.Type, in.Shape.Dims...), nil
	}
	// Reversal turns the kernel around in that dimension.
	from := 0
	ks := strides(k.Dims)
	turned := slices.Clone(ks)
	reversed := false
	for i, w := range in.Attr.Window.Dimensions {
		if w.WindowReversal {
			from += (int(w.Size) - 1) * ks[1+i]
			turned[1+i] = -ks[1+i]
			reversed = true
		}
	}
	if reversed {
		r := NewArray(k.Type, k.Dims...)
		r.copyBox(k, box{dims: ints(k.Dims), dst: ks, src: turned, srcStart: from})
		k = r
	}

	batch, positions := inBatch/batches, product(outDims) // per group
	inner := plan.positions * kernelFeatures
	groupOut := outFeatures / groups
	if err := e.spend(int64(groups) * int64(batch) * int64(positions) * int64(groupOut+4) * int64(inner) / 4); err != nil {
		return nil, err
	}
	// The padding is one more element behind the input's.
	size := x.Len()
	padded := concatenate([]*Array{x.Reshape(int64(size)), NewArray(x.Type, 1)}, 0)
	var seen []int32 // [position, window position] spatial offset
	walk(plan.out, func(index []int) { seen = plan.window(index, seen) })

	// [group][batch, position, feature of the group] -> output order.
	out := NewArray(in.Shape.Type, int64(groups), int64(batch), int64(positions), int64(groupOut))
	block := max(1, (1<<20)/max(1, inner))
	index := make([]int32, 0, min(block, batch*positions)*inner)
	skip := plan.padded && k.anySpecial()
	for g := range groups {
		firstBatch, firstFeature := 0, g*kernelFeatures
		if batches > 1 {
			firstBatch, firstFeature = g*batch, 0
		}
		filters := k.rows(g*groupOut, (g+1)*groupOut, inner)
		rows := batch * positions
		for from := 0; from < rows; from += block {
			to := min(rows, from+block)
			index = index[:0]
			for r := from; r < to; r++ {
				base := (firstBatch+r/positions)*xs[0] + firstFeature*xs[1]
				for _, o := range seen[r%positions*plan.positions : (r%positions+1)*plan.positions] {
					for f := range kernelFeatures {
						if o < 0 {
							index = append(index, int32(size))
						} else {
							index = append(index, int32(base+int(o)+f*xs[1]))
						}
					}
				}
			}
			patches := padded.Permute([]int64{int64(len(index))}, index)
			p := e.num.MatMul(in.Shape.Type, patches, filters, 1, to-from, groupOut, inner)
			if skip {
				e.skipPadding(p, patches, filters, index, int32(size), to-from, groupOut, inner)
			}
			out.CopyStrided((g*rows+from)*groupOut, 1, p, 0, 1, p.Len())
		}
	}
	// out is [group, batch, spatial..., feature]; groups are the outer part of
	// the feature dimension.
	split := slices.Concat([]int64{int64(groups), int64(batch)}, outDims, []int64{int64(groupOut)})
	order := make([]int64, 0, spatial+3)
	for d := range int64(spatial + 2) {
		switch {
		case d == dn.OutputBatchDimension:
			order = append(order, 1)
		case d == dn.OutputFeatureDimension:
			order = append(order, 0, int64(spatial+2))
		default:
			order = append(order, 2+int64(slices.Index(dn.OutputSpatialDimensions, d)))
		}
	}
	return out.Reshape(split...).transpose(order).Reshape(in.Shape.Dims...), nil
}

// anySpecial says whether any element is or may be NaN or infinite.
func (a *Array) anySpecial() bool { return a.Re.anySpecial() || a.Im.anySpecial() }

func (p *Plane) anySpecial() bool {
	if p == nil {
		return false
	}
	for i := range p.C {
		if x := p.at(i); !x.plain() {
			return true
		}
	}
	return false
}

// skipPadding corrects the result p of a product of patches and filters where
// the padding meets a NaN or an infinity of the kernel: the reference does not
// multiply by padding; an implementation that does gets NaN.
func (e *Evaluator) skipPadding(p, patches, filters *Array, index []int32, padding int32, rows, cols, inner int) {
	t := p.Type
	for r := range rows {
		for c := range cols {
			sum := e.num.NewSum(t)
			met := false
			for i := range inner {
				y := e.num.asScalar(filters.Type, t, filters.At(c*inner+i))
				if index[r*inner+i] == padding {
					met = met || !y.Re.plain() || t.IsComplex() && !y.Im.plain()
					continue
				}
				sum.AddProduct(e.num.asScalar(patches.Type, t, patches.At(r*inner+i)), y)
			}
			s := sum.Result()
			if met && e.num.Bounds {
				s = e.num.Select(Scalar{Undecided: true}, t, s, Scalar{Re: Num{C: nan}, Im: Num{C: nan}})
			}
			p.Set(r*cols+c, s)
		}
	}
}
