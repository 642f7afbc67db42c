package eval

import (
	"math/rand/v2"
	"testing"

	"github.com/passgate/passgate/hlo"
)

// benchmarkArrays are two f32 arrays of 1,048,576 random values.
func benchmarkArrays() (x, y, p *Array) {
	const size = 1 << 20
	x, y, p = NewArray(hlo.F32, size), NewArray(hlo.F32, size), NewArray(hlo.Pred, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range size {
		x.Re.C[i] = float64(float32(r.NormFloat64()))
		y.Re.C[i] = float64(float32(r.NormFloat64()))
		p.I[i] = int64(r.IntN(2))
	}
	return x, y, p
}

// BenchmarkElementwise reports millions of elementwise f32 operations per
// second on one core: exact mode, bound mode on exact operands, and bound mode
// on operands that carry bounds.
func BenchmarkElementwise(b *testing.B) {
	x, y, p := benchmarkArrays()
	ops := []struct {
		name string
		run  func(n *Numerics, x, y *Array)
	}{
		{"add", func(n *Numerics, x, y *Array) { n.BinaryArray(hlo.OpAdd, x, y) }},
		{"multiply", func(n *Numerics, x, y *Array) { n.BinaryArray(hlo.OpMultiply, x, y) }},
		{"divide", func(n *Numerics, x, y *Array) { n.BinaryArray(hlo.OpDivide, x, y) }},
		{"maximum", func(n *Numerics, x, y *Array) { n.BinaryArray(hlo.OpMaximum, x, y) }},
		{"select", func(n *Numerics, x, y *Array) { n.SelectArray(p, x, y) }},
		{"compare", func(n *Numerics, x, y *Array) { n.CompareArray("LT", false, x, y) }},
		{"negate", func(n *Numerics, x, _ *Array) { n.UnaryArray(hlo.OpNegate, x) }},
		{"exponential", func(n *Numerics, x, _ *Array) { n.UnaryArray(hlo.OpExponential, x) }},
		{"tanh", func(n *Numerics, x, _ *Array) { n.UnaryArray(hlo.OpTanh, x) }},
		{"convert to bf16", func(n *Numerics, x, _ *Array) { n.ConvertArray(hlo.BF16, x) }},
	}
	bound := &Numerics{Bounds: true}
	u, v := bound.BinaryArray(hlo.OpMultiply, x, y), bound.BinaryArray(hlo.OpAdd, x, y)
	for _, mode := range []struct {
		name string
		n    *Numerics
		x, y *Array
	}{{"exact", &Numerics{}, x, y}, {"bound", bound, x, y}, {"inexact", bound, u, v}} {
		for _, op := range ops {
			b.Run(mode.name+"/"+op.name, func(b *testing.B) {
				for range b.N {
					op.run(mode.n, mode.x, mode.y)
				}
				b.ReportMetric(float64(b.N)*float64(x.Len())/b.Elapsed().Seconds()/1e6, "Mop/s")
			})
		}
	}
}

// BenchmarkMatMul reports billions of multiply-adds per second.
func BenchmarkMatMul(b *testing.B) {
	const size = 256
	r := rand.New(rand.NewPCG(3, 4))
	for _, t := range []hlo.PrimitiveType{hlo.F32, hlo.F64, hlo.S32} {
		x, y := NewArray(t, size, size), NewArray(t, size, size)
		for i := range x.Len() {
			if t == hlo.S32 {
				x.I[i], y.I[i] = int64(r.IntN(100)), int64(r.IntN(100))
			} else {
				x.Re.C[i], y.Re.C[i] = float64(float32(r.NormFloat64())), float64(float32(r.NormFloat64()))
			}
		}
		for _, n := range []*Numerics{{}, {Bounds: true}} {
			name := t.String() + "/exact"
			if n.Bounds {
				name = t.String() + "/bound"
			}
			b.Run(name, func(b *testing.B) {
				for range b.N {
					n.MatMul(t, x, y, 1, size, size, size)
				}
				b.ReportMetric(float64(b.N)*size*size*size/b.Elapsed().Seconds()/1e9, "Gmac/s")
			})
		}
	}
}
