package eval

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

func call(target string, shape *hlo.Shape, config string) *hlo.Instruction {
	return instruction(hlo.OpCustomCall, shape, &hlopb.HloInstructionProto{CustomCallTarget: target, BackendConfig: []byte(config)})
}

// smallIntegers has entries in -3..3.
func smallIntegers(r *rand.Rand, t hlo.PrimitiveType, dims ...int64) *Array {
	a := NewArray(t, dims...)
	for i := range a.Len() {
		v := r.Int64N(7) - 3
		a.Set(i, Scalar{I: v, Re: Num{C: float64(v)}})
		if a.I == nil {
			a.Re.C[i] = float64(v)
		}
	}
	return a
}

func wantFloats(t *testing.T, what string, a *Array, want ...float64) {
	t.Helper()
	if !slices.Equal(a.Re.C, want) {
		t.Errorf("%s = %v, want %v", what, a.Re.C, want)
	}
	for i := range want {
		if a.At(i).Re.E != 0 {
			t.Errorf("%s: element %d is not exact: %s", what, i, a.LegalSet(i))
		}
	}
}

func TestAnnotationsPassThrough(t *testing.T) {
	x := NewArray(hlo.S32, 2)
	x.I = []int64{3, 4}
	for _, target := range []string{"Sharding", "MoveToHost", "annotate_device_placement", "LayoutConstraint", "AssumeGatherIndicesInBound"} {
		if v := evalOne(t, call(target, hlo.ArrayShape(hlo.S32, 2), ""), x); !slices.Equal(v.Array.I, x.I) {
			t.Errorf("%s gives %v", target, v.Array.I)
		}
	}
	v := evalOne(t, call("__xla_internal_call_marker_before", hlo.TupleShape(hlo.ArrayShape(hlo.S32, 2)), ""), x)
	if !slices.Equal(v.Elements[0].Array.I, x.I) {
		t.Errorf("marker gives %v", v.Elements[0].Array.I)
	}
}

func TestUnknownTargetIsUnsupported(t *testing.T) {
	for _, c := range []*hlo.Instruction{
		call("my_kernel", hlo.ArrayShape(hlo.S32, 2), ""),
		call("Sharding", hlo.ArrayShape(hlo.S32, 3), ""),
		call("lapack_x", hlo.ArrayShape(hlo.S32, 2), ""),
		call("__cublas$gemm", hlo.ArrayShape(hlo.S32, 2), "no json"),
		call("__cublas$gemm", hlo.ArrayShape(hlo.S32, 2), "{}"),
		call("TopK", hlo.ArrayShape(hlo.S32, 2), ""),
		call("SliceToDynamic", hlo.ArrayShape(hlo.S32, 2), ""),
	} {
		_, err := NewEvaluator(context.Background(), Options{}).instruction(c, []*Value{arrayValue(NewArray(hlo.S32, 2))}, nil)
		var u *Unsupported
		if !errors.As(err, &u) || !strings.Contains(err.Error(), "custom-call "+c.Attr.CustomCallTarget) {
			t.Errorf("%s: error %v", c.Attr.CustomCallTarget, err)
		}
	}
}

func TestBuffersAreUndecided(t *testing.T) {
	v := evalOne(t, call("AllocateBuffer", hlo.TupleShape(hlo.ArrayShape(hlo.S32, 2), hlo.ArrayShape(hlo.C64)), ""))
	if !v.Elements[0].Array.Undecided[1] || v.Elements[1].Array.Legal(0, Scalar{}) != Undecided {
		t.Error("an allocated buffer has a value")
	}
}

func TestFactorsAreUndecided(t *testing.T) {
	for _, target := range []string{"Qr", "Eigh", "LuDecomposition", "InvertDiagBlocksLowerTriangular", "InvertDiagBlocksUpperTriangular", "lapack_dgesdd_ffi"} {
		v := evalOne(t, call(target, hlo.ArrayShape(hlo.F32, 2), ""), NewArray(hlo.F32, 2))
		if v.Array.Legal(0, Scalar{}) != Undecided || v.Array.Legal(1, Scalar{}) != Undecided {
			t.Errorf("%s has a value", target)
		}
	}
}

func TestX64(t *testing.T) {
	x := NewArray(hlo.S64, 2)
	x.I = []int64{-2, 5<<32 | 0xf0000000}
	low := evalOne(t, call("X64SplitLow", hlo.ArrayShape(hlo.U32, 2), ""), x).Array
	high := evalOne(t, call("X64SplitHigh", hlo.ArrayShape(hlo.S32, 2), ""), x).Array
	if !slices.Equal(low.I, []int64{0xfffffffe, 0xf0000000}) || !slices.Equal(high.I, []int64{-1, 5}) {
		t.Errorf("halves %v and %v", low.I, high.I)
	}
	back := evalOne(t, call("X64Combine", hlo.ArrayShape(hlo.S64, 2), ""), low, high).Array
	if !slices.Equal(back.I, x.I) {
		t.Errorf("combined to %v, want %v", back.I, x.I)
	}
}

func TestX128(t *testing.T) {
	x := NewArray(hlo.C128, 2)
	x.Re.C, x.Im.C = []float64{1, 2}, []float64{3, -4}
	low := evalOne(t, call("X128SplitLow", hlo.ArrayShape(hlo.F64, 2), ""), x).Array
	high := evalOne(t, call("X128SplitHigh", hlo.ArrayShape(hlo.F64, 2), ""), x).Array
	if !slices.Equal(low.Re.C, x.Re.C) || !slices.Equal(high.Re.C, x.Im.C) {
		t.Errorf("parts %v and %v", low.Re.C, high.Re.C)
	}
	back := evalOne(t, call("X128Combine", hlo.ArrayShape(hlo.C128, 2), ""), low, high).Array
	if !slices.Equal(back.Re.C, x.Re.C) || !slices.Equal(back.Im.C, x.Im.C) {
		t.Errorf("combined to %v, %v", back.Re.C, back.Im.C)
	}
}

// A tuple that an annotation makes of its operands is its own: later
// instructions do not write into it.
func TestAnnotationOfATuple(t *testing.T) {
	m, err := hlo.Parse("m.hlo", []byte(`HloModule m
ENTRY e {
  x = s32[2] parameter(0)
  t = (s32[2]) custom-call(x), custom_call_target="__xla_internal_call_marker_before"
  y = s32[2] get-tuple-element(t), index=0
  ROOT z = s32[2] add(y, y)
}
`))
	if err != nil {
		t.Fatal(err)
	}
	x := NewArray(hlo.S32, 2)
	x.I = []int64{3, 4}
	v, err := Run(t.Context(), m, []*Value{arrayValue(x)}, Options{})
	if err != nil || !slices.Equal(v.Array.I, []int64{6, 8}) {
		t.Errorf("got %v, %v", v, err)
	}
}

func TestPadToStatic(t *testing.T) {
	x := NewArray(hlo.F32, 2, 3)
	x.Re.C = []float64{1, 2, 3, 4, 5, 6}
	size := func(n int64) *Array { return Fill(Scalar{I: n}, hlo.S32) }
	v := evalOne(t, call("SliceToDynamic", hlo.ArrayShape(hlo.F32, 2, 3), ""), x, size(2), size(1))
	if !slices.Equal(v.Array.Sizes, []int64{2, 1}) {
		t.Fatalf("sizes %v", v.Array.Sizes)
	}
	shape := hlo.TupleShape(hlo.ArrayShape(hlo.F32, 2, 3), hlo.ArrayShape(hlo.S32), hlo.ArrayShape(hlo.S32))
	p := evalOne(t, call("PadToStatic", shape, ""), v.Array)
	if p.Elements[1].Array.I[0] != 2 || p.Elements[2].Array.I[0] != 1 {
		t.Errorf("sizes come back as %v, %v", p.Elements[1].Array.I, p.Elements[2].Array.I)
	}
	a := p.Elements[0].Array
	for i := range 6 {
		if undecided := a.Legal(i, Scalar{}) == Undecided; undecided != (i%3 > 0) {
			t.Errorf("element %d: undecided %v", i, undecided)
		}
	}
}

func TestGemm(t *testing.T) {
	x, y := NewArray(hlo.F32, 2, 2), NewArray(hlo.F32, 2, 2)
	x.Re.C, y.Re.C = []float64{1, 2, 3, 4}, []float64{1, -1, 2, 0}
	dims := `"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"],"lhs_batch_dimensions":[],"rhs_batch_dimensions":[]}`
	result := hlo.TupleShape(hlo.ArrayShape(hlo.F32, 2, 2), hlo.ArrayShape(hlo.S8, 64))
	v := evalOne(t, call("__cublas$gemm", result, `{"operation_queue_id":"0","gemm_backend_config":{"alpha_real":2,"alpha_imag":0,"beta":0,`+dims+`,"epilogue":"DEFAULT"}}`), x, y)
	wantFloats(t, "2xy", v.Elements[0].Array, 10, -2, 22, -6)
	if !v.Elements[1].Array.Undecided[0] {
		t.Error("the work space has a value")
	}
	bias := NewArray(hlo.F32, 2)
	bias.Re.C = []float64{100, 1}
	v = evalOne(t, call("__cublas$lt$matmul", hlo.ArrayShape(hlo.F32, 2, 2), `{"alpha_real":1,"beta":1,`+dims+`,"epilogue":"BIAS_RELU"}`), x, y, x, bias)
	wantFloats(t, "relu(xy + x + bias)", v.Array, 106, 2, 114, 2)
}

func TestLibrarySolves(t *testing.T) {
	a, b := NewArray(hlo.F32, 2, 2), NewArray(hlo.F32, 2, 1)
	a.Re.C, b.Re.C = []float64{2, 0, 1, 4}, []float64{2, 9}
	for _, c := range []*hlo.Instruction{
		call("__cublas$triangularSolve", hlo.TupleShape(hlo.ArrayShape(hlo.F32, 2, 1), hlo.ArrayShape(hlo.S8, 0)), `{"left_side":true,"lower":true,"unit_diagonal":false,"transpose_a":"NO_TRANSPOSE"}`),
		call("lapack_strsm_ffi", hlo.TupleShape(hlo.ArrayShape(hlo.F32, 2, 1)), `{diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8}`),
	} {
		x := evalOne(t, c, a, b).Elements[0].Array
		legal(t, x, 0, 1)
		legal(t, x, 1, 2)
		if x.Legal(0, Scalar{Re: Num{C: 1.001}}) != Out {
			t.Errorf("%s: solution %s", c.Attr.CustomCallTarget, x.LegalSet(0))
		}
	}
}

// The backward convolutions are the adjoints of the forward one:
// <conv(x, w), g> = <x, input(g, w)> = <w, filter(x, g)>.
func TestConvolutionAdjoints(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const config = `{"cudnn_conv_backend_config":{"conv_result_scale":1,"activation_mode":"kNone","side_input_scale":0}}`
	x, w := smallIntegers(r, hlo.F32, 2, 3, 7, 8), smallIntegers(r, hlo.F32, 3, 2, 3, 4)
	attr := func(target string) *hlopb.HloInstructionProto {
		return &hlopb.HloInstructionProto{
			CustomCallTarget: target, BackendConfig: []byte(config), FeatureGroupCount: 1, BatchGroupCount: 1,
			Window: &hlopb.Window{Dimensions: []*hlopb.WindowDimension{
				{Size: 3, Stride: 2, PaddingLow: 1, PaddingHigh: 2, WindowDilation: 1, BaseDilation: 1},
				{Size: 2, Stride: 1, PaddingLow: 0, PaddingHigh: 1, WindowDilation: 3, BaseDilation: 1},
			}},
			// x is b f 0 1, w is 0 1 i o, y is b f 0 1.
			ConvolutionDimensionNumbers: &hlopb.ConvolutionDimensionNumbers{
				InputFeatureDimension: 1, InputSpatialDimensions: []int64{2, 3},
				KernelInputFeatureDimension: 2, KernelOutputFeatureDimension: 3, KernelSpatialDimensions: []int64{0, 1},
				OutputFeatureDimension: 1, OutputSpatialDimensions: []int64{2, 3},
			},
		}
	}
	w = w.Reshape(3, 2, 3, 4)
	shape := func(dims ...int64) *hlo.Shape {
		return hlo.TupleShape(hlo.ArrayShape(hlo.F32, dims...), hlo.ArrayShape(hlo.U8, 0))
	}
	y := evalOne(t, instruction(hlo.OpCustomCall, shape(2, 4, 4, 6), attr("__cudnn$convForward")), x, w).Elements[0].Array
	g := smallIntegers(r, hlo.F32, y.Dims...)
	dx := evalOne(t, instruction(hlo.OpCustomCall, shape(x.Dims...), attr("__cudnn$convBackwardInput")), g, w).Elements[0].Array
	dw := evalOne(t, instruction(hlo.OpCustomCall, shape(w.Dims...), attr("__cudnn$convBackwardFilter")), x, g).Elements[0].Array
	inner := func(a, b *Array) (sum float64) {
		for i, v := range a.Re.C {
			sum += v * b.Re.C[i]
		}
		return sum
	}
	want := inner(y, g)
	if got := inner(x, dx); got != want {
		t.Errorf("<x, input(g, w)> = %v, want %v", got, want)
	}
	if got := inner(w, dw); got != want {
		t.Errorf("<w, filter(x, g)> = %v, want %v", got, want)
	}
}

func TestConvolutionBiasActivation(t *testing.T) {
	x, w := NewArray(hlo.F32, 1, 3, 1), NewArray(hlo.F32, 1, 1, 1)
	x.Re.C, w.Re.C = []float64{1, -2, 3}, []float64{2}
	bias, side := NewArray(hlo.F32, 1), NewArray(hlo.F32, 1, 3, 1)
	bias.Re.C, side.Re.C = []float64{-1}, []float64{4, 4, 4}
	in := call("__cudnn$convBiasActivationForward", hlo.TupleShape(hlo.ArrayShape(hlo.F32, 1, 3, 1), hlo.ArrayShape(hlo.U8, 0)),
		`{"conv_result_scale":1,"activation_mode":"kRelu","side_input_scale":0.5}`)
	in.Attr.Window = &hlopb.Window{Dimensions: []*hlopb.WindowDimension{{Size: 1, Stride: 1, WindowDilation: 1, BaseDilation: 1}}}
	in.Attr.ConvolutionDimensionNumbers = &hlopb.ConvolutionDimensionNumbers{
		InputFeatureDimension: 2, InputSpatialDimensions: []int64{1},
		KernelInputFeatureDimension: 1, KernelOutputFeatureDimension: 2, KernelSpatialDimensions: []int64{0},
		OutputFeatureDimension: 2, OutputSpatialDimensions: []int64{1},
	}
	v := evalOne(t, in, x, w, bias, side)
	wantFloats(t, "relu(2x + side/2 - 1)", v.Elements[0].Array, 3, 0, 7)
}

func TestTopK(t *testing.T) {
	x := NewArray(hlo.F32, 2, 4)
	x.Re.C = []float64{1, 4, 2, 3, -1, -4, -2, -3}
	v := evalOne(t, call("TopK", hlo.TupleShape(hlo.ArrayShape(hlo.F32, 2, 2), hlo.ArrayShape(hlo.S32, 2, 2)), ""), x)
	wantFloats(t, "top 2", v.Elements[0].Array, 4, 3, -1, -2)
	if got := v.Elements[1].Array.I; !slices.Equal(got, []int64{1, 3, 0, 2}) {
		t.Errorf("indices %v", got)
	}
}
