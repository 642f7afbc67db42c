package hlo

import (
	"fmt"
	"slices"

	"github.com/passgate/passgate/hlo/hlopb"
)

// checkDot checks the dimension numbers of a dot (ValidateDotDimensionNumbers
// and CheckDotDimensionConstraints).
func checkDot(op Opcode, a, b *Shape, d *hlopb.DotDimensionNumbers) error {
	lc, rc := d.GetLhsContractingDimensions(), d.GetRhsContractingDimensions()
	lb, rb := d.GetLhsBatchDimensions(), d.GetRhsBatchDimensions()
	if !inRange(lc, len(a.Dims)) || !inRange(lb, len(a.Dims)) || !inRange(rc, len(b.Dims)) || !inRange(rb, len(b.Dims)) {
		return fmt.Errorf("a dimension number of %v is out of range for %s or %s", op, a.text(), b.text())
	}
	if !unique(append(slices.Clone(lc), lb...)) || !unique(append(slices.Clone(rc), rb...)) {
		return fmt.Errorf("a dimension number of %v is repeated", op)
	}
	if len(lc) != len(rc) || len(lb) != len(rb) {
		return fmt.Errorf("%v has %d and %d contracting, %d and %d batch dimensions", op, len(lc), len(rc), len(lb), len(rb))
	}
	for i := range lc {
		if !fits(a.Dims[lc[i]], b.Dims[rc[i]]) {
			return fmt.Errorf("contracting dimensions of %v differ: %d of %s and %d of %s", op, lc[i], a.text(), rc[i], b.text())
		}
	}
	for i := range lb {
		if !fits(a.Dims[lb[i]], b.Dims[rb[i]]) {
			return fmt.Errorf("batch dimensions of %v differ: %d of %s and %d of %s", op, lb[i], a.text(), rb[i], b.text())
		}
	}
	return nil
}

// dotResult appends the batch dimensions, then the free ones of both sides.
func dotResult(a, b *Shape, d *hlopb.DotDimensionNumbers, groups []int64, dims []int64, dyn []bool) ([]int64, []bool) {
	for _, i := range d.GetLhsBatchDimensions() {
		dims, dyn = append(dims, a.Dims[i]), append(dyn, a.dynamic(int(i)))
	}
	free := func(s *Shape, taken ...[]int64) {
		for i, n := range s.Dims {
			if !slices.Contains(slices.Concat(taken...), int64(i)) {
				dims, dyn = append(dims, n), append(dyn, s.dynamic(i))
			}
		}
	}
	free(a, d.GetLhsContractingDimensions(), d.GetLhsBatchDimensions())
	free(b, d.GetRhsContractingDimensions(), d.GetRhsBatchDimensions(), groups)
	return dims, dyn
}

// preferred is the element type of a dot or convolution: that of in.Shape,
// else the wider one.
func (in *Instruction) preferred(a, b *Shape) PrimitiveType {
	if in.Shape != nil && in.Shape.IsArray() {
		return in.Shape.Type
	}
	return higherType(a.Type, b.Type)
}

// checked returns the shape if it is one.
func checked(s *Shape) (*Shape, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}

func (in *Instruction) inferDot() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	a, b := in.operand(0), in.operand(1)
	if in.Op == OpScaledDot {
		for i := range 2 {
			if err := checkScale(in.operand(i), in.operand(i+2), in.Attr.GetDotDimensionNumbers(), i == 0); err != nil {
				return nil, err
			}
		}
		if in.operand(2).isScalar() && in.operand(3).isScalar() {
			return nil, fmt.Errorf("both scales of scaled-dot are scalars")
		}
	}
	if err := checkDot(in.Op, a, b, in.Attr.GetDotDimensionNumbers()); err != nil {
		return nil, err
	}
	dims, dyn := dotResult(a, b, in.Attr.GetDotDimensionNumbers(), nil, nil, nil)
	return checked(newArray(in.preferred(a, b), dims, dyn))
}

// checkScale checks a scale operand of scaled-dot: of the operand's rank,
// each size dividing the operand's, unless it stands for no scale (bf16 with
// all sizes 1). Source: hlo_verifier.cc, ScalesShapeVerifier.
func checkScale(x, scale *Shape, d *hlopb.DotDimensionNumbers, left bool) error {
	notOne := func(n int64) bool { return n != 1 }
	if scale.Type == x.Type && x.Type == BF16 && !slices.ContainsFunc(scale.Dims, notOne) && slices.ContainsFunc(x.Dims, notOne) {
		return nil
	}
	if len(scale.Dims) != len(x.Dims) {
		return fmt.Errorf("scale %s of scaled-dot has another rank than %s", scale.text(), x.text())
	}
	contracting := d.GetRhsContractingDimensions()
	if left {
		contracting = d.GetLhsContractingDimensions()
	}
	if len(contracting) != 1 {
		return fmt.Errorf("scaled-dot has %d contracting dimensions, want 1", len(contracting))
	}
	for i, n := range x.Dims {
		if scale.Dims[i] == 0 || n%scale.Dims[i] != 0 {
			return fmt.Errorf("dimension %d of %s is no multiple of that of the scale %s", i, x.text(), scale.text())
		}
	}
	return nil
}

func (in *Instruction) inferRaggedDot() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	a, b, sizes := in.operand(0), in.operand(1), in.operand(2)
	r := in.Attr.GetRaggedDotDimensionNumbers()
	d := r.GetDotDimensionNumbers()
	if err := checkDot(in.Op, a, b, d); err != nil {
		return nil, err
	}
	ragged, groups := r.GetLhsRaggedDimensions(), r.GetRhsGroupDimensions()
	if len(ragged) != 1 || !inRange(ragged, len(a.Dims)) {
		return nil, fmt.Errorf("ragged-dot needs one ragged dimension of %s, has %v", a.text(), ragged)
	}
	// group_sizes is [g], or [b..., x..., g]: the batch dimensions before the
	// ragged one, then those of its kind before it.
	lb, lc := d.GetLhsBatchDimensions(), d.GetLhsContractingDimensions()
	before := func(list []int64) []int64 { return list[:slices.Index(list, ragged[0])] }
	var prefix []int64
	contracting, batch := slices.Contains(lc, ragged[0]), slices.Contains(lb, ragged[0])
	switch {
	case batch:
		prefix = before(lb)
	case contracting:
		prefix = slices.Concat(lb, before(lc))
	default:
		var free []int64
		for i := range a.Dims {
			if n := int64(i); !slices.Contains(lc, n) && !slices.Contains(lb, n) {
				free = append(free, n)
			}
		}
		prefix = slices.Concat(lb, before(free))
	}
	n := len(sizes.Dims)
	if n == 0 {
		return nil, fmt.Errorf("group sizes of ragged-dot are a scalar")
	}
	if n != 1 {
		if n != len(prefix)+1 {
			return nil, fmt.Errorf("group sizes of ragged-dot have rank %d, want 1 or %d", n, len(prefix)+1)
		}
		for i, p := range prefix {
			if sizes.Dims[i] != a.Dims[p] {
				return nil, fmt.Errorf("group sizes %s of ragged-dot do not fit %s", sizes.text(), a.text())
			}
		}
	}
	count := sizes.Dims[n-1]
	for _, g := range groups {
		if g < 0 || g >= int64(len(b.Dims)) || slices.Contains(d.GetRhsBatchDimensions(), g) || slices.Contains(d.GetRhsContractingDimensions(), g) {
			return nil, fmt.Errorf("group dimension %d of ragged-dot is out of range, contracting or batch", g)
		}
	}
	var dims []int64
	var dyn []bool
	switch {
	case batch || contracting:
		if len(groups) != 0 {
			return nil, fmt.Errorf("ragged-dot has group dimensions %v, want none with a ragged contracting or batch dimension", groups)
		}
		if contracting {
			dims, dyn = []int64{count}, []bool{sizes.dynamic(n - 1)}
		}
	case len(groups) != 1 || !fits(count, b.Dims[groups[0]]):
		return nil, fmt.Errorf("ragged-dot needs one group dimension of size %d in %s, has %v", count, b.text(), groups)
	}
	dims, dyn = dotResult(a, b, d, groups, dims, dyn)
	return checked(newArray(in.preferred(a, b), dims, dyn))
}

// windowSize is the number of window positions along one dimension
// (InferWindowOutputShape; xla/window_util.cc DilatedBound and StridedBound).
func windowSize(base int64, w *hlopb.WindowDimension) (int64, error) {
	size, stride, wd, bd := w.GetSize(), w.GetStride(), w.GetWindowDilation(), w.GetBaseDilation()
	if size <= 0 || stride <= 0 || wd < 1 || bd < 1 {
		return 0, fmt.Errorf("window has size %d, stride %d, dilations %d and %d: want all positive", size, stride, bd, wd)
	}
	if base == Unbounded {
		return Unbounded, nil
	}
	dilate := func(n, by int64) (int64, bool) {
		if n == 0 {
			return 0, true
		}
		if mulOverflows(n-1, by) {
			return 0, false
		}
		return addAll((n-1)*by, 1)
	}
	dilated, ok1 := dilate(base, bd)
	window, ok2 := dilate(size, wd)
	padded, ok3 := addAll(w.GetPaddingLow(), dilated, w.GetPaddingHigh())
	if !ok1 || !ok2 || !ok3 {
		return 0, fmt.Errorf("window overflows")
	}
	if padded < 0 {
		return 0, fmt.Errorf("window padding gives the negative size %d", padded)
	}
	if padded == 0 || window > padded {
		return 0, nil
	}
	return (padded-window)/stride + 1, nil
}

func windowShape(s *Shape, w *hlopb.Window, t PrimitiveType) (*Shape, error) {
	if len(w.GetDimensions()) != len(s.Dims) {
		return nil, fmt.Errorf("window of %d dimensions on %s", len(w.GetDimensions()), s.text())
	}
	dims := make([]int64, len(s.Dims))
	for i, d := range w.GetDimensions() {
		n, err := windowSize(s.Dims[i], d)
		if err != nil {
			return nil, fmt.Errorf("dimension %d: %w", i, err)
		}
		dims[i] = n
	}
	return checked(newArray(t, dims, s.Dynamic))
}

func (in *Instruction) inferConvolution() (*Shape, error) {
	a, b := in.operand(0), in.operand(1)
	if err := wantArray(a, "operand 0 of convolution"); err != nil {
		return nil, err
	}
	if err := wantArray(b, "operand 1 of convolution"); err != nil {
		return nil, err
	}
	dn, w := in.Attr.GetConvolutionDimensionNumbers(), in.Attr.GetWindow().GetDimensions()
	// 0 is the wire's way to leave a group count out.
	fg, bg := max(1, in.Attr.GetFeatureGroupCount()), max(1, in.Attr.GetBatchGroupCount())
	if in.Attr.GetFeatureGroupCount() < 0 || in.Attr.GetBatchGroupCount() < 0 || fg > 1 && bg > 1 {
		return nil, fmt.Errorf("convolution has %d feature groups and %d batch groups", in.Attr.GetFeatureGroupCount(), in.Attr.GetBatchGroupCount())
	}
	n := len(dn.GetInputSpatialDimensions())
	if len(dn.GetKernelSpatialDimensions()) != n || len(dn.GetOutputSpatialDimensions()) != n || len(w) != n {
		return nil, fmt.Errorf("convolution has %d, %d and %d spatial dimensions and a window of %d",
			n, len(dn.GetKernelSpatialDimensions()), len(dn.GetOutputSpatialDimensions()), len(w))
	}
	if len(a.Dims) != n+2 || len(b.Dims) != n+2 {
		return nil, fmt.Errorf("convolution of %d spatial dimensions of %s and %s", n, a.text(), b.text())
	}
	for _, list := range [][]int64{
		append(slices.Clone(dn.GetInputSpatialDimensions()), dn.GetInputBatchDimension(), dn.GetInputFeatureDimension()),
		append(slices.Clone(dn.GetKernelSpatialDimensions()), dn.GetKernelInputFeatureDimension(), dn.GetKernelOutputFeatureDimension()),
		append(slices.Clone(dn.GetOutputSpatialDimensions()), dn.GetOutputBatchDimension(), dn.GetOutputFeatureDimension()),
	} {
		if !inRange(list, n+2) || !unique(list) {
			return nil, fmt.Errorf("convolution dimension numbers %v are not each of the %d dimensions once", list, n+2)
		}
	}
	kernelIn := b.Dims[dn.GetKernelInputFeatureDimension()]
	kernelOut := b.Dims[dn.GetKernelOutputFeatureDimension()]
	batch, features := a.Dims[dn.GetInputBatchDimension()], a.Dims[dn.GetInputFeatureDimension()]
	if err := in.checkSparsity(); err != nil {
		return nil, err
	}
	if s := in.Attr.GetSparsityConfig().GetRhs(); s != nil {
		if s.GetNumNonZero() != 1 || mulOverflows(kernelIn, s.GetBlockSize()) {
			return nil, fmt.Errorf("convolution has the sparsity %d:%d, want 1:n", s.GetNumNonZero(), s.GetBlockSize())
		}
		kernelIn *= s.GetBlockSize()
	}
	if kernelOut%bg != 0 || kernelOut%fg != 0 || batch%bg != 0 {
		return nil, fmt.Errorf("convolution of %s and %s does not divide into %d feature groups and %d batch groups", a.text(), b.text(), fg, bg)
	}
	dims, dyn := make([]int64, n+2), make([]bool, n+2)
	// conv_kind is a hint for GPU libraries: the dimension numbers say all.
	outBatch, outSpatial := dn.GetOutputBatchDimension(), dn.GetOutputSpatialDimensions()
	if features%fg != 0 || features/fg != kernelIn {
		return nil, fmt.Errorf("convolution of %d features in %d groups with a kernel for %d", features, fg, kernelIn)
	}
	dims[outBatch], dims[dn.GetOutputFeatureDimension()] = batch/bg, kernelOut
	dyn[outBatch] = a.dynamic(int(dn.GetInputBatchDimension()))
	for i, o := range outSpatial {
		from, kernel := dn.GetInputSpatialDimensions()[i], dn.GetKernelSpatialDimensions()[i]
		if b.Dims[kernel] != w[i].GetSize() {
			return nil, fmt.Errorf("convolution window of size %d over a kernel of %d", w[i].GetSize(), b.Dims[kernel])
		}
		var err error
		if dims[o], err = windowSize(a.Dims[from], w[i]); err != nil {
			return nil, err
		}
		dyn[o] = a.dynamic(int(from)) || b.dynamic(int(kernel))
	}
	if b.dynamic(int(dn.GetKernelOutputFeatureDimension())) {
		return nil, fmt.Errorf("convolution with a dynamic output feature dimension: %s", b.text())
	}
	return checked(newArray(in.preferred(a, b), dims, dyn))
}

// checkSparsity checks which operands hold sparsity metadata (HandleConvolution).
func (in *Instruction) checkSparsity() error {
	c := in.Attr.GetSparsityConfig()
	for _, s := range []*hlopb.SparsityConfig_TensorSparsityConfig{c.GetLhs(), c.GetRhs()} {
		if s == nil {
			continue
		}
		if i := s.GetIdx(); i < 2 || int(i) >= len(in.Operands) || !in.operand(int(i)).IsArray() {
			return fmt.Errorf("convolution has sparsity metadata in operand %d, which is no array operand from 2 on", i)
		}
	}
	if c.GetLhs() != nil && c.GetRhs() != nil && c.GetLhs().GetIdx() == c.GetRhs().GetIdx() {
		return fmt.Errorf("convolution has the sparsity metadata of both sides in operand %d", c.GetLhs().GetIdx())
	}
	return nil
}

func (in *Instruction) inferFft() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	s, length := in.operand(0), in.Attr.GetFftLength()
	n := len(length)
	if n < 1 || n > 3 || len(s.Dims) < n {
		return nil, fmt.Errorf("fft of rank %d of %s", n, s.text())
	}
	last := len(s.Dims) - 1
	inner := s.Dims[len(s.Dims)-n:]
	switch in.Attr.GetFftType() {
	case hlopb.FftType_FFT, hlopb.FftType_IFFT:
		if !s.Type.IsComplex() {
			return nil, fmt.Errorf("fft of %v values, want complex ones", s.Type)
		}
		return s.Clone(), nil
	case hlopb.FftType_RFFT:
		var t PrimitiveType
		switch s.Type {
		case F32:
			t = C64
		case F64:
			t = C128
		default:
			return nil, fmt.Errorf("fft RFFT of %v values, want f32 or f64", s.Type)
		}
		for i := range inner {
			if inner[i] != Unbounded && inner[i] != length[i] {
				return nil, fmt.Errorf("fft RFFT of length %v of %s", length, s.text())
			}
		}
		out := s.withType(t)
		if length[n-1] != 0 {
			out.setSize(last, length[n-1]/2+1, s)
		}
		return checked(out)
	case hlopb.FftType_IRFFT:
		if !s.Type.IsComplex() {
			return nil, fmt.Errorf("fft IRFFT of %v values, want complex ones", s.Type)
		}
		for i := range n - 1 {
			if inner[i] != length[i] {
				return nil, fmt.Errorf("fft IRFFT of length %v of %s", length, s.text())
			}
		}
		if m := s.Dims[last]; (m != 0 || length[n-1] != 0) && m != Unbounded && m != length[n-1]/2+1 {
			return nil, fmt.Errorf("fft IRFFT of length %v of %s: the last dimension must be %d", length, s.text(), length[n-1]/2+1)
		}
		out := s.withType(s.Type.Real())
		out.setSize(last, length[n-1], s)
		return checked(out)
	}
	return nil, fmt.Errorf("fft has the unknown type %d", in.Attr.GetFftType())
}

// setSize gives dimension i another size; it stays dynamic unless it was
// unbounded in old.
func (s *Shape) setSize(i int, n int64, old *Shape) {
	s.Dims[i] = n
	if s.Dynamic != nil {
		s.Dynamic[i] = s.Dynamic[i] && !old.unbounded(i)
	}
}

func (in *Instruction) inferCholesky() (*Shape, error) {
	s := in.operand(0)
	if !s.Type.IsFloat() && !s.Type.IsComplex() {
		return nil, fmt.Errorf("cholesky of %s", s.text())
	}
	if n := len(s.Dims); n < 2 || !fits(s.Dims[n-2], s.Dims[n-1]) {
		return nil, fmt.Errorf("cholesky of %s, which is no square matrix", s.text())
	}
	return s.Clone(), nil
}

func (in *Instruction) inferTriangularSolve() (*Shape, error) {
	a, b, o := in.operand(0), in.operand(1), in.Attr.GetTriangularSolveOptions()
	if !a.Type.IsFloat() && !a.Type.IsComplex() || a.Type != b.Type {
		return nil, fmt.Errorf("triangular-solve of %s and %s", a.text(), b.text())
	}
	n := len(a.Dims)
	if n < 2 || len(b.Dims) != n || !fits(a.Dims[n-2], a.Dims[n-1]) {
		return nil, fmt.Errorf("triangular-solve of %s and %s: want a square matrix and equal ranks", a.text(), b.text())
	}
	shared := b.Dims[n-1]
	if o.GetLeftSide() {
		shared = b.Dims[n-2]
	}
	if !fits(a.Dims[n-1], shared) || !slices.Equal(a.Dims[:n-2], b.Dims[:n-2]) {
		return nil, fmt.Errorf("triangular-solve of %s and %s, which do not fit", a.text(), b.text())
	}
	if t := o.GetTransposeA(); t < hlopb.TriangularSolveOptions_NO_TRANSPOSE || t > hlopb.TriangularSolveOptions_ADJOINT {
		return nil, fmt.Errorf("triangular-solve has the unknown transpose_a %d", t)
	}
	return b.Clone(), nil
}

func (in *Instruction) inferBatchNorm() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	s, f := in.operand(0), in.Attr.GetFeatureIndex()
	if !s.Type.IsFloat() || f < 0 || f >= int64(len(s.Dims)) {
		return nil, fmt.Errorf("%v of %s with feature index %d", in.Op, s.text(), f)
	}
	features := in.operandShapes()[1:]
	if in.Op == OpBatchNormGrad {
		grad := features[3]
		features = features[:3]
		if !compatibleAnyFloat(s, grad) {
			return nil, fmt.Errorf("batch-norm-grad of %s with the output gradient %s", s.text(), grad.text())
		}
	}
	for i, x := range features {
		if len(x.Dims) != 1 || !x.Type.IsFloat() || !fits(x.Dims[0], s.Dims[f]) {
			return nil, fmt.Errorf("operand %d of %v must hold one value per feature of %s, is %s", i+1, in.Op, s.text(), x.text())
		}
	}
	if in.Op == OpBatchNormInference {
		return s.Clone(), nil
	}
	feature := newArray(s.Type, []int64{s.Dims[f]}, []bool{s.dynamic(int(f))})
	return tupleOf([]*Shape{s, feature, feature}), nil
}

// ascending reports whether the numbers are sorted without repetition.
func ascending(v []int64) bool { return slices.IsSorted(v) && unique(v) }

// indexShape is the shape of gather or scatter indices with the index vector
// dimension made explicit.
func indexShape(s *Shape, vectorDim int64, op Opcode) (dims []int64, dyn []bool, err error) {
	if err := wantArray(s, fmt.Sprintf("the indices of %v", op)); err != nil {
		return nil, nil, err
	}
	if !s.Type.IsInteger() {
		return nil, nil, fmt.Errorf("indices of %v must be integers, are %s", op, s.text())
	}
	if vectorDim < 0 || vectorDim > int64(len(s.Dims)) {
		return nil, nil, fmt.Errorf("%v has the index vector dimension %d in %s", op, vectorDim, s.text())
	}
	dims, dyn = slices.Clone(s.Dims), make([]bool, len(s.Dims))
	copy(dyn, s.Dynamic)
	if vectorDim == int64(len(dims)) {
		dims, dyn = append(dims, 1), append(dyn, false)
	}
	return dims, dyn, nil
}

func (in *Instruction) inferGather() (*Shape, error) {
	s, d, sizes := in.operand(0), in.Attr.GetGatherDimensionNumbers(), in.Attr.GetGatherSliceSizes()
	if err := wantArray(s, "operand 0 of gather"); err != nil {
		return nil, err
	}
	vector := d.GetIndexVectorDim()
	idx, idxDyn, err := indexShape(in.operand(1), vector, in.Op)
	if err != nil {
		return nil, err
	}
	rank := len(s.Dims)
	offset, collapsed, batching := d.GetOffsetDims(), d.GetCollapsedSliceDims(), d.GetOperandBatchingDims()
	outRank := len(offset) + len(idx) - 1
	switch {
	case !ascending(offset) || !inRange(offset, outRank):
		return nil, fmt.Errorf("gather has the offset dimensions %v, want ascending ones below %d", offset, outRank)
	case !fits(idx[vector], int64(len(d.GetStartIndexMap()))):
		return nil, fmt.Errorf("gather maps %d indices but has vectors of %d", len(d.GetStartIndexMap()), idx[vector])
	case !inRange(d.GetStartIndexMap(), rank) || !unique(d.GetStartIndexMap()):
		return nil, fmt.Errorf("gather maps indices to the dimensions %v of %s", d.GetStartIndexMap(), s.text())
	case !ascending(collapsed) || !inRange(collapsed, rank):
		return nil, fmt.Errorf("gather collapses the dimensions %v of %s", collapsed, s.text())
	case !ascending(batching) || !inRange(batching, rank):
		return nil, fmt.Errorf("gather has the batching dimensions %v of %s", batching, s.text())
	case len(batching) != len(d.GetStartIndicesBatchingDims()):
		return nil, fmt.Errorf("gather has %d operand and %d index batching dimensions", len(batching), len(d.GetStartIndicesBatchingDims()))
	case !inRange(d.GetStartIndicesBatchingDims(), len(idx)) || !unique(d.GetStartIndicesBatchingDims()):
		return nil, fmt.Errorf("gather has the index batching dimensions %v", d.GetStartIndicesBatchingDims())
	case len(sizes) != rank || rank != len(offset)+len(collapsed)+len(batching):
		return nil, fmt.Errorf("gather of %s has %d slice sizes, %d offset, %d collapsed and %d batching dimensions", s.text(), len(sizes), len(offset), len(collapsed), len(batching))
	}
	var window []int64 // dimensions of s that stay
	for i, n := range sizes {
		if n < 0 || !s.unbounded(i) && n > s.Dims[i] {
			return nil, fmt.Errorf("gather of slices of %d from dimension %d of %s", n, i, s.text())
		}
		drop := slices.Contains(collapsed, int64(i)) || slices.Contains(batching, int64(i))
		if drop && n > 1 {
			return nil, fmt.Errorf("gather collapses dimension %d of slice size %d", i, n)
		}
		if !drop {
			window = append(window, int64(i))
		}
	}
	if len(window) != len(offset) {
		return nil, fmt.Errorf("gather has %d offset dimensions for %d window dimensions", len(offset), len(window))
	}
	dims, dyn := make([]int64, outRank), make([]bool, outRank)
	g, o := 0, 0
	for i := range dims {
		if slices.Contains(offset, int64(i)) {
			k := int(window[o])
			o++
			dims[i] = sizes[k]
			dyn[i] = sizes[k] == s.Dims[k] && s.dynamic(k)
			continue
		}
		if int64(g) == vector {
			g++
		}
		dims[i], dyn[i] = idx[g], idxDyn[g]
		g++
	}
	return checked(newArray(s.Type, dims, dyn))
}

func (in *Instruction) inferScatter() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	n := len(in.Operands) / 2
	d := in.Attr.GetScatterDimensionNumbers()
	vector := d.GetIndexVectorDim()
	idx, _, err := indexShape(in.operand(n), vector, in.Op)
	if err != nil {
		return nil, err
	}
	update, inserted, batching := d.GetUpdateWindowDims(), d.GetInsertedWindowDims(), d.GetInputBatchingDims()
	for k := range n {
		s, u := in.operand(k), in.operand(n+1+k)
		rank := len(s.Dims)
		outRank := len(idx) - 1 + len(update)
		switch {
		case len(u.Dims) != outRank:
			return nil, fmt.Errorf("scatter needs updates of rank %d, has %s", outRank, u.text())
		case !ascending(update) || !inRange(update, outRank):
			return nil, fmt.Errorf("scatter has the update window dimensions %v, want ascending ones below %d", update, outRank)
		case !ascending(inserted) || !inRange(inserted, rank):
			return nil, fmt.Errorf("scatter inserts the dimensions %v of %s", inserted, s.text())
		case !ascending(batching) || !inRange(batching, rank):
			return nil, fmt.Errorf("scatter has the batching dimensions %v of %s", batching, s.text())
		case len(update)+len(inserted)+len(batching) != rank:
			return nil, fmt.Errorf("scatter into %s has %d window, %d inserted and %d batching dimensions", s.text(), len(update), len(inserted), len(batching))
		case !fits(idx[vector], int64(len(d.GetScatterDimsToOperandDims()))):
			return nil, fmt.Errorf("scatter maps %d indices but has vectors of %d", len(d.GetScatterDimsToOperandDims()), idx[vector])
		case !inRange(d.GetScatterDimsToOperandDims(), rank) || !unique(d.GetScatterDimsToOperandDims()):
			return nil, fmt.Errorf("scatter maps indices to the dimensions %v of %s", d.GetScatterDimsToOperandDims(), s.text())
		case len(batching) != len(d.GetScatterIndicesBatchingDims()):
			return nil, fmt.Errorf("scatter has %d operand and %d index batching dimensions", len(batching), len(d.GetScatterIndicesBatchingDims()))
		case !inRange(d.GetScatterIndicesBatchingDims(), len(idx)) || !unique(d.GetScatterIndicesBatchingDims()):
			return nil, fmt.Errorf("scatter has the index batching dimensions %v", d.GetScatterIndicesBatchingDims())
		}
		var window []int64 // sizes of the dimensions that the windows span
		for i, size := range s.Dims {
			if !slices.Contains(inserted, int64(i)) && !slices.Contains(batching, int64(i)) {
				window = append(window, size)
			}
		}
		if len(window) != len(update) {
			return nil, fmt.Errorf("scatter has %d update window dimensions for %d window dimensions", len(update), len(window))
		}
		for i, w := range update {
			if u.Dims[w] > window[i] {
				return nil, fmt.Errorf("scatter of windows of %s into %s", u.text(), s.text())
			}
		}
		g := 0
		for i, size := range u.Dims {
			if slices.Contains(update, int64(i)) {
				continue
			}
			if int64(g) == vector {
				g++
			}
			if !fits(size, idx[g]) {
				return nil, fmt.Errorf("scatter of the updates %s at the indices %s", u.text(), in.operand(n).text())
			}
			g++
		}
	}
	inits, types := make([]*Shape, n), make([]PrimitiveType, n)
	for k := range n {
		inits[k], types[k] = scalar(in.operand(k).Type), in.operand(n+1+k).Type
	}
	if err := checkReducer(in.Called[0].program(), inits, types); err != nil {
		return nil, err
	}
	return oneOrTuple(in.operandShapes()[:n]), nil
}
