package generate

import (
	"slices"

	"github.com/passgate/passgate/fuzz/patterns"
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

var library = []kind{
	{"dot", 6, nil, (*generator).dot},
	{"convolution", 2, nil, (*generator).convolution},
	{"fft", 1, nil, func(g *generator) program.Value {
		n := int64(g.Between(2, 9))
		switch program.Pick(g.Builder, 0, 1, 2) {
		case 0:
			return g.Fft(program.Pick(g.Builder, hlopb.FftType_FFT, hlopb.FftType_IFFT), g.Source(hlo.C64, 2, n), n)
		case 1:
			return g.Fft(hlopb.FftType_RFFT, g.Source(hlo.F32, 2, n), n)
		}
		return g.Fft(hlopb.FftType_IRFFT, g.Source(hlo.C64, 2, n/2+1), n)
	}},
	{"cholesky", 1, nil, func(g *generator) program.Value {
		return g.Cholesky(g.Positive(g.matrixType(), int64(g.Between(1, 5))), g.Chance(2))
	}},
	{"triangular-solve", 1, nil, func(g *generator) program.Value {
		t, n := g.matrixType(), int64(g.Between(1, 5))
		o := &hlopb.TriangularSolveOptions{LeftSide: g.Chance(2), Lower: g.Chance(2), UnitDiagonal: g.Chance(3), TransposeA: program.Pick(g.Builder, hlopb.TriangularSolveOptions_NO_TRANSPOSE, hlopb.TriangularSolveOptions_TRANSPOSE)}
		rhs := []int64{n, int64(g.Between(1, 4))}
		if !o.LeftSide {
			slices.Reverse(rhs)
		}
		return g.TriangularSolve(g.Positive(t, n), g.Source(t, rhs...), o)
	}},
	{"batch-norm", 1, nil, func(g *generator) program.Value {
		n, c := int64(g.Between(2, 5)), int64(g.Between(1, 4))
		x := g.Source(hlo.F32, n, c)
		attr := func(a *program.Attr) { a.Epsilon, a.FeatureIndex = 0.25, 1 }
		scale, offset := g.Source(hlo.F32, c), g.Source(hlo.F32, c)
		if g.Chance(2) {
			return g.Element(g.Op(hlo.OpBatchNormTraining, attr, x, scale, offset), g.R.IntN(3))
		}
		variance := g.Un(hlo.OpAbs, g.Source(hlo.F32, c))
		return g.Op(hlo.OpBatchNormInference, attr, x, scale, offset, g.Source(hlo.F32, c), variance)
	}},
	{"rng-bit-generator", 1, nil, func(g *generator) program.Value {
		// The state and the bits are XLA's own for philox and three-fry.
		algorithm := program.Pick(g.Builder, hlopb.RandomAlgorithm_RNG_PHILOX, hlopb.RandomAlgorithm_RNG_THREE_FRY)
		words := map[hlopb.RandomAlgorithm]int64{hlopb.RandomAlgorithm_RNG_PHILOX: 3, hlopb.RandomAlgorithm_RNG_THREE_FRY: 2}[algorithm]
		state := g.Source(hlo.U64, words)
		out := hlo.ArrayShape(program.Pick(g.Builder, hlo.U32, hlo.U64, hlo.U8, hlo.U16), g.Full(g.Between(1, 2))...)
		r := g.Shaped(hlo.OpRngBitGenerator, hlo.TupleShape(state.Shape, out), func(a *program.Attr) { a.RngAlgorithm = algorithm }, state)
		return g.Element(r, g.R.IntN(2))
	}},
	{"top-k", 1, []hlo.Opcode{hlo.OpTopk}, func(g *generator) program.Value {
		x := g.Source(program.Pick(g.Builder, hlo.F32, hlo.F32, hlo.S32, hlo.BF16), 2, int64(g.Between(3, 12)))
		r := g.Op(hlo.OpTopk, func(a *program.Attr) { a.K, a.Largest, a.IsStable = int64(g.Between(1, 3)), true, true }, x)
		return g.Element(r, g.R.IntN(2))
	}},
	{"dynamic", 2, []hlo.Opcode{hlo.OpSetDimensionSize}, func(g *generator) program.Value {
		x := g.ranked(1)
		if x.Shape.Dims[0] == 0 || x.Shape.IsDynamic() {
			return nil
		}
		n := g.Clamp(g.Number(hlo.S32, 0), g.Source(hlo.S32), g.Number(hlo.S32, float64(x.Shape.Dims[0])))
		d := g.SetSize(x, n, 0)
		if g.Chance(2) && d.Shape.Type != hlo.Pred {
			d = g.binary(d, d)
		}
		return g.Reduce(g.monoid(x.Shape.Type), d, 0)
	}},
	{"pattern", 6, nil, func(g *generator) program.Value {
		p := usable[g.R.IntN(len(usable))]
		if g.Inner() {
			return nil
		}
		p.Build(g.Builder)
		return nil
	}},
}

// usable are the patterns that fit into any program of any build.
var usable = slices.DeleteFunc(patterns.All(), func(p patterns.Pattern) bool { return p.Alone || p.Narrow })

func (g *generator) matrixType() hlo.PrimitiveType {
	return program.Pick(g.Builder, hlo.F32, hlo.F32, hlo.F64)
}

// dot draws contracting and batch dimensions.
func (g *generator) dot() program.Value {
	t := program.Pick(g.Builder, hlo.F32, hlo.F32, hlo.F32, hlo.F64, hlo.BF16, hlo.F16, hlo.S32, hlo.S8, hlo.C64, hlo.U8, hlo.S64)
	result := t
	if t == hlo.S8 || t == hlo.U8 {
		result = hlo.S32
	}
	if (t == hlo.BF16 || t == hlo.F16) && g.Chance(2) {
		result = hlo.F32
	}
	batch, contract := g.Full(program.Pick(g.Builder, 0, 0, 0, 1, 1, 2)), g.Full(program.Pick(g.Builder, 0, 1, 1, 1, 1, 2))
	if g.Chance(20) && len(contract) > 0 {
		contract[0] = int64(g.R.IntN(2))
	}
	side := func() (dims, batches, contracted []int64) {
		all := slices.Concat(batch, contract, g.Full(program.Pick(g.Builder, 0, 1, 1, 1, 2)))
		order := g.R.Perm(len(all))
		place := make([]int64, len(all))
		dims = make([]int64, len(all))
		for at, i := range order {
			dims[at], place[i] = all[i], int64(at)
		}
		return dims, place[:len(batch)], place[len(batch) : len(batch)+len(contract)]
	}
	ld, lb, lc := side()
	rd, rb, rc := side()
	if !small(ld) || !small(rd) || len(ld)+len(rd) > 8 {
		return nil
	}
	x, y := g.Source(t, ld...), g.Source(t, rd...)
	free := slices.Concat(batch, without(ld, slices.Concat(lb, lc)), without(rd, slices.Concat(rb, rc)))
	if !small(free) {
		return nil
	}
	return g.Dot(result, x, y, program.Contraction{Left: lc, Right: rc, LeftBatch: lb, RightBatch: rb})
}

func (g *generator) convolution() program.Value {
	t := program.Pick(g.Builder, hlo.F32, hlo.F32, hlo.F32, hlo.F64, hlo.F16, hlo.BF16, hlo.S32)
	spatial := g.Between(1, 2)
	letters := []struct{ in, k, out string }{
		{"b0f", "0io", "b0f"}, {"bf0", "oi0", "bf0"}, {"b01f", "01io", "b01f"}, {"bf01", "oi01", "bf01"}, {"b01f", "01oi", "bf01"},
	}
	l := letters[g.R.IntN(2)]
	if spatial == 2 {
		l = letters[2+g.R.IntN(3)]
	}
	c := program.Conv{Dims: program.ConvDims(l.in, l.k, l.out), Groups: 1, Batch: 1}
	batch, in, out := int64(g.Between(1, 3)), int64(g.Between(1, 3)), int64(g.Between(1, 3))
	if g.Chance(4) {
		c.Groups = int64(g.Between(2, 3))
	} else if g.Chance(5) {
		c.Batch = int64(g.Between(2, 3))
	}
	in, out, batch = in*c.Groups, out*c.Groups*c.Batch, batch*c.Batch
	image, kernel := make([]int64, spatial+2), make([]int64, spatial+2)
	image[c.Dims.InputBatchDimension], image[c.Dims.InputFeatureDimension] = batch, in
	kernel[c.Dims.KernelInputFeatureDimension], kernel[c.Dims.KernelOutputFeatureDimension] = in/c.Groups, out
	for i := range spatial {
		n, k := int64(g.Between(3, 7)), int64(g.Between(1, 3))
		image[c.Dims.InputSpatialDimensions[i]], kernel[c.Dims.KernelSpatialDimensions[i]] = n, k
		w := program.Window{Size: k, Stride: int64(g.Between(1, 2)), Low: int64(g.Between(0, 1)), High: int64(g.Between(0, 2)), Reversed: g.Chance(6)}
		if g.Chance(5) {
			w.Dilation = 2
			w.Low += 2
		}
		if g.Chance(5) {
			w.BaseDilation = 2
		}
		c.Window = append(c.Window, w)
	}
	return g.Convolution(g.Source(t, image...), g.Source(t, kernel...), c)
}
