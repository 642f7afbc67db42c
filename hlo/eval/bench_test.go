package eval

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

func normalArray(t hlo.PrimitiveType, dims ...int64) *Array {
	r := rand.New(rand.NewPCG(1, 2))
	a := NewArray(t, dims...)
	for i := range a.Len() {
		if a.I != nil {
			a.I[i] = t.Canonical(int64(r.Uint64()))
		} else {
			a.Re.C[i] = t.Format().Round(r.NormFloat64())
		}
	}
	return a
}

// BenchmarkOps prints the element operations per second of single
// instructions (element multiplications for products).
func BenchmarkOps(b *testing.B) {
	const n = 1 << 18
	f := func(dims ...int64) *Array { return normalArray(hlo.F32, dims...) }
	op := func(op hlo.Opcode, shape *hlo.Shape, set func(in *hlo.Instruction)) *hlo.Instruction {
		in := hlo.NewInstruction("r", op, shape)
		if set != nil {
			set(in)
		}
		return in
	}
	vector := hlo.ArrayShape(hlo.F32, n)
	cases := []struct {
		name string
		in   *hlo.Instruction
		args []*Array
		work int
	}{
		{"add", op(hlo.OpAdd, vector, nil), []*Array{f(n), f(n)}, n},
		{"multiply", op(hlo.OpMultiply, vector, nil), []*Array{f(n), f(n)}, n},
		{"exponential", op(hlo.OpExponential, vector, nil), []*Array{f(n)}, n},
		{"transpose", op(hlo.OpTranspose, hlo.ArrayShape(hlo.F32, 512, 512), func(in *hlo.Instruction) { in.Attr.Dimensions = []int64{1, 0} }), []*Array{f(512, 512)}, n},
		{"reduce rows", op(hlo.OpReduce, hlo.ArrayShape(hlo.F32, 512), func(in *hlo.Instruction) {
			in.Attr.Dimensions = []int64{1}
			in.Called = []*hlo.Computation{binaryComputation(hlo.OpAdd, hlo.F32)}
		}), []*Array{f(512, 512), NewArray(hlo.F32)}, n},
		{"reduce maximum", op(hlo.OpReduce, hlo.ArrayShape(hlo.F32, 512), func(in *hlo.Instruction) {
			in.Attr.Dimensions = []int64{0}
			in.Called = []*hlo.Computation{binaryComputation(hlo.OpMaximum, hlo.F32)}
		}), []*Array{f(512, 512), NewArray(hlo.F32)}, n},
		{"dot", op(hlo.OpDot, hlo.ArrayShape(hlo.F32, 128, 128), func(in *hlo.Instruction) {
			in.Attr.DotDimensionNumbers = &hlopb.DotDimensionNumbers{LhsContractingDimensions: []int64{1}, RhsContractingDimensions: []int64{0}}
		}), []*Array{f(128, 256), f(256, 128)}, 128 * 128 * 256},
		{"convolution", op(hlo.OpConvolution, hlo.ArrayShape(hlo.F32, 4, 32, 32, 16), func(in *hlo.Instruction) {
			in.Attr.FeatureGroupCount, in.Attr.BatchGroupCount = 1, 1
			w := func() *hlopb.WindowDimension {
				return &hlopb.WindowDimension{Size: 3, Stride: 1, PaddingLow: 1, PaddingHigh: 1, WindowDilation: 1, BaseDilation: 1}
			}
			in.Attr.Window = &hlopb.Window{Dimensions: []*hlopb.WindowDimension{w(), w()}}
			in.Attr.ConvolutionDimensionNumbers = &hlopb.ConvolutionDimensionNumbers{
				InputFeatureDimension: 3, InputSpatialDimensions: []int64{1, 2},
				KernelInputFeatureDimension: 2, KernelOutputFeatureDimension: 3, KernelSpatialDimensions: []int64{0, 1},
				OutputFeatureDimension: 3, OutputSpatialDimensions: []int64{1, 2},
			}
		}), []*Array{f(4, 32, 32, 8), f(3, 3, 8, 16)}, 4 * 32 * 32 * 16 * 9 * 8},
		{"sort", op(hlo.OpSort, vector, func(in *hlo.Instruction) {
			in.Attr.Dimensions = []int64{0}
			c := binaryComputation(hlo.OpCompare, hlo.F32)
			c.Root.Shape = hlo.ArrayShape(hlo.Pred)
			c.Root.Attr.ComparisonDirection = "LT"
			in.Called = []*hlo.Computation{c}
		}), []*Array{f(n)}, n},
	}
	for _, c := range cases {
		for _, bounds := range []bool{false, true} {
			name := c.name + "/exact"
			if bounds {
				name = c.name + "/bounds"
			}
			b.Run(name, func(b *testing.B) {
				c.in.Operands = nil
				var vs []*Value
				for _, a := range c.args {
					c.in.Operands = append(c.in.Operands, hlo.NewInstruction("p", hlo.OpParameter, hlo.ArrayShape(a.Type, a.Dims...)))
					vs = append(vs, arrayValue(a))
				}
				e := NewEvaluator(context.Background(), Options{Bounds: bounds, MaxSteps: 1 << 60})
				for b.Loop() {
					if _, err := e.instruction(c.in, vs, nil); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(c.work)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mops/s")
			})
		}
	}
}
