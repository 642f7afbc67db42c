package eval

import "github.com/passgate/passgate/hlo"

// batchNorm evaluates batch-norm-training, -inference and -grad by XLA's
// formulas (StableHLO batch_norm_*; xla/service/batchnorm_expander.cc). The
// variance is E[x^2]-E[x]^2: its bound holds for a two-pass evaluation too.
func (e *Evaluator) batchNorm(in *hlo.Instruction, args []*Array) (*Value, error) {
	l := &lowering{e: e, in: in}
	x := args[0]
	t, dims := x.Type, x.Dims
	feature := in.Attr.GetFeatureIndex()
	if !t.IsFloat() || feature < 0 || feature >= int64(len(dims)) {
		return nil, unsupported(in, "feature %d of an array %v%v", feature, t, dims)
	}
	count := int64(1)
	for d, size := range dims {
		if int64(d) != feature {
			count *= size
		}
	}
	all := func(a *Array) *Array { return l.spread(a, dims, feature) }
	mul := func(a, b *Array) *Array { return l.binary(hlo.OpMultiply, a, b) }
	sub := func(a, b *Array) *Array { return l.binary(hlo.OpSubtract, a, b) }
	add := func(a, b *Array) *Array { return l.binary(hlo.OpAdd, a, b) }
	div := func(a, b *Array) *Array { return l.binary(hlo.OpDivide, a, b) }
	epsilon := l.number(t, float64(in.Attr.GetEpsilon()), dims[feature])
	n := l.number(t, float64(count), dims[feature])
	// inverse is 1/sqrt(variance + epsilon).
	inverse := func(variance *Array) *Array { return l.unary(hlo.OpRsqrt, add(variance, epsilon)) }

	var out []*Array
	switch in.Op {
	case hlo.OpBatchNormTraining:
		scale, offset := args[1], args[2]
		mean := div(l.sumOver(x, feature), n)
		variance := sub(div(l.sumOver(mul(x, x), feature), n), mul(mean, mean))
		y := mul(mul(sub(x, all(mean)), all(inverse(variance))), all(scale))
		out = []*Array{add(y, all(offset)), mean, variance}
	case hlo.OpBatchNormInference:
		scale, offset, mean, variance := args[1], args[2], args[3], args[4]
		y := mul(mul(sub(x, all(mean)), all(inverse(variance))), all(scale))
		// The expander's x*(scale*r) + (offset - mean*(scale*r)) cancels
		// where the other form does not: both are legal.
		factor := mul(scale, inverse(variance))
		z := add(mul(x, all(factor)), all(sub(offset, mul(mean, factor))))
		out = []*Array{l.union(add(y, all(offset)), z)}
	case hlo.OpBatchNormGrad:
		scale, mean, variance, grad := args[1], args[2], args[3], args[4]
		r := inverse(variance)
		centred := sub(x, all(mean))
		product := l.sumOver(mul(grad, centred), feature)
		sum := l.sumOver(grad, feature)
		i5 := div(mul(all(product), centred), all(add(variance, epsilon)))
		i6 := sub(sub(mul(grad, all(n)), all(sum)), i5)
		gx := mul(all(div(mul(scale, r), n)), i6)
		out = []*Array{gx, mul(product, r), sum}
	}
	if l.err != nil {
		return nil, l.err
	}
	return arraysValue(in.Op != hlo.OpBatchNormInference, out), nil
}

// union is the hull of two legal sets.
func (l *lowering) union(x, y *Array) *Array {
	if l.err != nil {
		return nil
	}
	if !l.e.num.Bounds {
		return y
	}
	either := Scalar{Undecided: true}
	out := NewArray(x.Type, x.Dims...)
	for i := range out.Len() {
		out.Set(i, l.e.num.Select(either, x.Type, x.At(i), y.At(i)))
	}
	return out
}
