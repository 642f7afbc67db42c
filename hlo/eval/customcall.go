package eval

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// customCalls are the custom-calls that stand for plain operations, by target.
var customCalls map[string]func(*Evaluator, *hlo.Instruction, []*Value) (*Value, error)

func init() { // not in the declaration: the evaluation of a call may meet another
	customCalls = map[string]func(*Evaluator, *hlo.Instruction, []*Value) (*Value, error){
		// Annotations: the value is the operand (xla/service/spmd, host memory
		// offloading, layout constraints, barriers of propagation).
		"Sharding":                          passThrough,
		"SPMDFullToShardShape":              passThrough,
		"SPMDShardToFullShape":              passThrough,
		"xla.sdy.FuncResultSharding":        passThrough,
		"xla.sdy.GlobalToLocalShape":        passThrough,
		"xla.sdy.LocalToGlobalShape":        passThrough,
		"GlobalToLocalShape":                passThrough,
		"LocalToGlobalShape":                passThrough,
		"ShardBarrierFrom":                  passThrough,
		"ShardBarrierTo":                    passThrough,
		"annotate_device_placement":         passThrough,
		"MoveToHost":                        passThrough,
		"MoveToDevice":                      passThrough,
		"Pin":                               passThrough,
		"PinToDevice":                       passThrough,
		"Unpin":                             passThrough,
		"LayoutConstraint":                  passThrough,
		"SetBound":                          passThrough,
		"AssumeGatherIndicesInBound":        passThrough,
		"__xla_internal_call_marker_before": passThrough,
		"__xla_internal_call_marker_after":  passThrough,

		// Nothing is known of the values.
		"AllocateBuffer": unknown,
		"CreateBuffer":   unknown,
		"GetRngSeed":     unknown,
		"PartialReduce":  unknown, // approximate top k: which elements is the implementation's choice

		// Factorisations: not unique, or unique only up to rounding that grows
		// with the condition of the problem.
		"Qr": unknown,
		"ProductOfElementaryHouseholderReflectors": unknown,
		"Eigh":                            unknown,
		"LuDecomposition":                 unknown,
		"InvertDiagBlocksLowerTriangular": unknown, // scaling of the operand is not documented
		"InvertDiagBlocksUpperTriangular": unknown, // TPU
		"QrDecompositionBlock":            unknown, // TPU
		"CompactWyHelper":                 unknown, // TPU: a factor of the product of the reflectors

		// CPU.
		"TopK":             (*Evaluator).topKCall,
		"PadToStatic":      padToStatic,
		"SliceToDynamic":   sliceToDynamic,
		"lapack_strsm_ffi": (*Evaluator).lapackSolve,
		"lapack_dtrsm_ffi": (*Evaluator).lapackSolve,
		"lapack_ctrsm_ffi": (*Evaluator).lapackSolve,
		"lapack_ztrsm_ffi": (*Evaluator).lapackSolve,

		// TPU.
		"X64SplitLow":   splitLow,
		"X64SplitHigh":  splitHigh,
		"X64Combine":    combine,
		"X128SplitLow":  realHalf,
		"X128SplitHigh": imagHalf,
		"X128Combine":   complexOf,
		"Cholesky":      (*Evaluator).choleskyCall,

		// GPU.
		"__gpu$TopK":                        (*Evaluator).topKCall,
		"__cublas$gemm":                     (*Evaluator).gemm,
		"__cublas$lt$matmul":                (*Evaluator).gemm,
		"__cublas$triangularSolve":          (*Evaluator).cublasSolve,
		"__cudnn$convForward":               (*Evaluator).cudnnConvolution,
		"__cudnn$convBackwardInput":         (*Evaluator).cudnnConvolution,
		"__cudnn$convBackwardFilter":        (*Evaluator).cudnnConvolution,
		"__cudnn$convBiasActivationForward": (*Evaluator).cudnnConvolution,
	}
}

// lapackFactors are the LAPACK routines whose results are not unique or not
// bounded here, without the type letter and suffix.
var lapackFactors = []string{"getrf", "geqrf", "geqp3", "orgqr", "ungqr", "ormqr", "unmqr", "potrf", "gesdd", "gesvd", "syevd", "heevd",
	"geev", "gees", "gehrd", "sytrd", "hetrd", "gtsv"}

// evalCustomCall evaluates a custom-call that stands for a plain operation;
// any other target is Unsupported.
func (e *Evaluator) evalCustomCall(in *hlo.Instruction, args []*Value) (*Value, error) {
	target := in.Attr.GetCustomCallTarget()
	if f := customCalls[target]; f != nil {
		return f(e, in, args)
	}
	if name, ok := strings.CutPrefix(target, "lapack_"); ok && len(name) > 1 {
		if slices.Contains(lapackFactors, strings.TrimSuffix(name[1:], "_ffi")) {
			return unknown(e, in, args)
		}
	}
	return nil, unsupportedCall(in, "")
}

// unsupportedCall names the target in an Unsupported error.
func unsupportedCall(in *hlo.Instruction, detail string) error {
	s := "custom-call " + in.Attr.GetCustomCallTarget()
	if detail != "" {
		s += ": " + detail
	}
	return unsupported(in, "%s", s)
}

// passThrough is the operand, or the tuple of the operands.
func passThrough(_ *Evaluator, in *hlo.Instruction, args []*Value) (*Value, error) {
	if len(args) >= 1 && fits(args[0], in.Shape) == nil {
		return args[0], nil
	}
	if v := tupleValue(slices.Clone(args)...); fits(v, in.Shape) == nil {
		return v, nil
	}
	return nil, unsupportedCall(in, "the result has another shape than the operand")
}

func unknown(_ *Evaluator, in *hlo.Instruction, _ []*Value) (*Value, error) {
	return undecidedValue(in.Shape, Implementation), nil
}

// operandArrays checks that there are at least n operands and that all are
// arrays without dynamic sizes.
func operandArrays(in *hlo.Instruction, args []*Value, n int) ([]*Array, error) {
	if len(args) < n {
		return nil, unsupportedCall(in, "too few operands")
	}
	a, err := arrays(in, args)
	if err != nil {
		return nil, err
	}
	for _, x := range a {
		if x.Sizes != nil {
			return nil, unsupportedCall(in, "dynamic dimensions")
		}
	}
	return a, nil
}

// withScratch is the result, followed by whatever else the result tuple of a
// library call holds (work space, status): undecided.
func withScratch(in *hlo.Instruction, result ...*Array) (*Value, error) {
	if !in.Shape.IsTuple() && len(result) == 1 {
		v := arrayValue(result[0])
		if err := fits(v, in.Shape); err != nil {
			return nil, unsupportedCall(in, err.Error())
		}
		return v, nil
	}
	if len(in.Shape.Elements) < len(result) {
		return nil, unsupportedCall(in, "unexpected result shape")
	}
	v := &Value{}
	for i, s := range in.Shape.Elements {
		if i >= len(result) {
			v.Elements = append(v.Elements, undecidedValue(s, Implementation))
			continue
		}
		x := arrayValue(result[i])
		if err := fits(x, s); err != nil {
			return nil, unsupportedCall(in, err.Error())
		}
		v.Elements = append(v.Elements, x)
	}
	return v, nil
}

// topKCall is (values, indices) of the largest k elements along the minor
// dimension, largest first: by the comparator of the sort it was made from
// where that compares (value, value, index, index), else in the total order
// (xla/service/topk_rewriter.cc, xla/backends/cpu/runtime/topk_lib.h).
func (e *Evaluator) topKCall(in *hlo.Instruction, args []*Value) (*Value, error) {
	a, err := operandArrays(in, args, 1)
	if err != nil {
		return nil, err
	}
	if len(in.Shape.Elements) != 2 || len(in.Shape.Elements[0].Dims) != len(a[0].Dims) || len(a[0].Dims) == 0 {
		return nil, unsupportedCall(in, "unexpected result shape")
	}
	minor := len(a[0].Dims) - 1
	attr := &hlopb.HloInstructionProto{K: in.Shape.Elements[0].Dims[minor], Largest: true}
	l := &lowering{e: e, in: in}
	if len(in.Called) == 1 && len(in.Called[0].Params()) == 4 {
		indices := NewArray(in.Shape.Elements[1].Type, a[0].Dims...)
		for i := range indices.I {
			indices.I[i] = int64(i) % a[0].Dims[minor]
		}
		shape := hlo.TupleShape(hlo.ArrayShape(a[0].Type, a[0].Dims...), hlo.ArrayShape(indices.Type, a[0].Dims...))
		sorted := l.op(hlo.OpSort, shape, &hlopb.HloInstructionProto{
			Dimensions: []int64{int64(minor)}, IsStable: !strings.Contains(backendConfig(in), "is_stable = false"),
		}, in.Called[0], a[0], indices)
		if l.err != nil {
			return nil, l.err
		}
		v := &Value{}
		for i, s := range in.Shape.Elements {
			slice := &hlopb.HloInstructionProto{}
			for _, d := range s.Dims {
				slice.SliceDimensions = append(slice.SliceDimensions, &hlopb.HloInstructionProto_SliceDimensions{Limit: d, Stride: 1})
			}
			v.Elements = append(v.Elements, arrayValue(l.array(hlo.OpSlice, s.Type, s.Dims, slice, sorted.Elements[i].Array)))
		}
		return v, l.err
	}
	v := l.op(hlo.OpTopk, in.Shape, attr, nil, a[0])
	return v, l.err
}

// padToStatic is the array of a dynamic operand, with undecided padding, and
// its sizes (xla/service/cpu/ir_emitter.cc, HandlePadToStatic).
func padToStatic(_ *Evaluator, in *hlo.Instruction, args []*Value) (*Value, error) {
	if len(args) != 1 || args[0].Array == nil {
		return nil, unsupportedCall(in, "want one array")
	}
	x := args[0].Array
	out := x.Clone()
	out.Sizes = nil
	sizes := x.Sizes
	if sizes == nil {
		sizes = x.Dims
	}
	out.hide(sizes)
	result := []*Array{out}
	for _, s := range sizes {
		result = append(result, Fill(Scalar{I: s}, hlo.S32))
	}
	return withScratch(in, result...)
}

// sliceToDynamic gives an array run-time sizes (operands 1 and up).
func sliceToDynamic(_ *Evaluator, in *hlo.Instruction, args []*Value) (*Value, error) {
	a, err := operandArrays(in, args, 1)
	if err != nil {
		return nil, err
	}
	if len(a) != 1+len(a[0].Dims) || fits(args[0], in.Shape) != nil {
		return nil, unsupportedCall(in, "want an array and one size per dimension")
	}
	out := a[0].Reshape(a[0].Dims...)
	out.Sizes = make([]int64, len(out.Dims))
	for i, s := range a[1:] {
		if len(s.I) != 1 || s.anyUndecided() || s.I[0] < 0 || s.I[0] > out.Dims[i] {
			return nil, unsupportedCall(in, "a size that is not known or out of range")
		}
		out.Sizes[i] = s.I[0]
	}
	return arrayValue(out), nil
}

// The X64 elimination of the TPU compiler splits 64-bit values in halves of 32
// bits; f64 becomes a pair of f32, the rounded value and the rest.

func splitLow(e *Evaluator, in *hlo.Instruction, args []*Value) (*Value, error) {
	return split(e, in, args, false)
}

func splitHigh(e *Evaluator, in *hlo.Instruction, args []*Value) (*Value, error) {
	return split(e, in, args, true)
}

func split(e *Evaluator, in *hlo.Instruction, args []*Value, high bool) (*Value, error) {
	a, err := operandArrays(in, args, 1)
	if err != nil {
		return nil, err
	}
	x, t := a[0], in.Shape.Type
	if x.Type.Bits() != 64 || !x.Type.IsInteger() || t.Bits() != 32 || !t.IsInteger() {
		// How a float is split (which part is called low, how the rest is
		// rounded) is not documented.
		return unknown(e, in, args)
	}
	out := NewArray(t, x.Dims...)
	for i := range out.Len() {
		s := x.At(i)
		if high {
			s.I >>= 32
		}
		s.I = t.Canonical(s.I)
		out.Set(i, s)
	}
	return withScratch(in, out)
}

func combine(e *Evaluator, in *hlo.Instruction, args []*Value) (*Value, error) {
	a, err := operandArrays(in, args, 2)
	if err != nil {
		return nil, err
	}
	t := in.Shape.Type
	if !t.IsInteger() || t.Bits() != 64 || a[0].I == nil || a[1].I == nil {
		return unknown(e, in, args)
	}
	out := NewArray(t, a[0].Dims...)
	for i := range out.Len() {
		low, high := a[0].At(i), a[1].At(i)
		out.Set(i, Scalar{I: high.I<<32 | low.I&0xffffffff, Undecided: low.Undecided || high.Undecided, Contest: low.Contest | high.Contest})
	}
	return withScratch(in, out)
}

// c128 is split in its real and its imaginary part, seen in libtpu's states: real
// becomes X128SplitLow, imag X128SplitHigh, and complex X128Combine.

func realHalf(e *Evaluator, in *hlo.Instruction, args []*Value) (*Value, error) {
	return e.half(in, args, hlo.OpReal)
}

func imagHalf(e *Evaluator, in *hlo.Instruction, args []*Value) (*Value, error) {
	return e.half(in, args, hlo.OpImag)
}

func (e *Evaluator) half(in *hlo.Instruction, args []*Value, op hlo.Opcode) (*Value, error) {
	a, err := operandArrays(in, args, 1)
	if err != nil {
		return nil, err
	}
	if a[0].Type != hlo.C128 {
		return nil, unsupportedCall(in, "want c128")
	}
	return withScratch(in, e.num.UnaryArray(op, a[0]))
}

func complexOf(e *Evaluator, in *hlo.Instruction, args []*Value) (*Value, error) {
	a, err := operandArrays(in, args, 2)
	if err != nil {
		return nil, err
	}
	if a[0].Type != hlo.F64 || a[1].Type != hlo.F64 || a[0].Len() != a[1].Len() {
		return nil, unsupportedCall(in, "want two f64 of one size")
	}
	return withScratch(in, e.num.BinaryArray(hlo.OpComplex, a[0], a[1]))
}

// choleskyCall is the factor of the lower triangle.
func (e *Evaluator) choleskyCall(in *hlo.Instruction, args []*Value) (*Value, error) {
	a, err := operandArrays(in, args, 1)
	if err != nil {
		return nil, err
	}
	if t := a[0].Type; !t.IsFloat() && !t.IsComplex() || len(a[0].Dims) < 2 {
		return nil, unsupportedCall(in, "want matrices")
	}
	return withScratch(in, e.num.cholesky(a[0], true))
}

// backendConfig is the backend_config text.
func backendConfig(in *hlo.Instruction) string { return string(in.Attr.GetBackendConfig()) }

// gpuConfig reads a backend_config in JSON into config: the field of a
// GpuBackendConfig, or, in older programs, the whole text.
func gpuConfig(in *hlo.Instruction, field string, config any) error {
	text := in.Attr.GetBackendConfig()
	var wrapper map[string]json.RawMessage
	if err := json.Unmarshal(text, &wrapper); err != nil {
		return unsupportedCall(in, "backend_config is not JSON: "+err.Error())
	}
	if inner, ok := wrapper[field]; ok {
		text = inner
	}
	if err := json.Unmarshal(text, config); err != nil {
		return unsupportedCall(in, "backend_config: "+err.Error())
	}
	return nil
}

// number64 is an int64 in proto JSON: a number or a string.
type number64 int64

func (n *number64) UnmarshalJSON(b []byte) error {
	return json.Unmarshal([]byte(strings.Trim(string(b), `"`)), (*int64)(n))
}

func int64s(ns []number64) []int64 {
	out := make([]int64, len(ns))
	for i, n := range ns {
		out[i] = int64(n)
	}
	return out
}

// gemm is alpha*dot(lhs, rhs) + beta*operand 2, with the epilogue's bias and
// relu (GemmBackendConfig in xla/service/gpu/backend_configs.proto).
func (e *Evaluator) gemm(in *hlo.Instruction, args []*Value) (*Value, error) {
	var config struct {
		Alpha     float64 `json:"alpha_real"`
		AlphaImag float64 `json:"alpha_imag"`
		Beta      float64 `json:"beta"`
		Dims      struct {
			LhsContracting []number64 `json:"lhs_contracting_dimensions"`
			RhsContracting []number64 `json:"rhs_contracting_dimensions"`
			LhsBatch       []number64 `json:"lhs_batch_dimensions"`
			RhsBatch       []number64 `json:"rhs_batch_dimensions"`
		} `json:"dot_dimension_numbers"`
		Epilogue string `json:"epilogue"`
		Damax    bool   `json:"damax_output"`
	}
	if err := gpuConfig(in, "gemm_backend_config", &config); err != nil {
		return nil, err
	}
	a, err := operandArrays(in, args, 2)
	if err != nil {
		return nil, err
	}
	shape := in.Shape
	if shape.IsTuple() && len(shape.Elements) > 0 {
		shape = shape.Elements[0]
	}
	if config.AlphaImag != 0 || config.Damax {
		return nil, unsupportedCall(in, "complex alpha or absolute maximum")
	}
	l := &lowering{e: e, in: in}
	t := shape.Type
	r := l.array(hlo.OpDot, t, shape.Dims, &hlopb.HloInstructionProto{DotDimensionNumbers: &hlopb.DotDimensionNumbers{
		LhsContractingDimensions: int64s(config.Dims.LhsContracting), RhsContractingDimensions: int64s(config.Dims.RhsContracting),
		LhsBatchDimensions: int64s(config.Dims.LhsBatch), RhsBatchDimensions: int64s(config.Dims.RhsBatch),
	}}, a[0], a[1])
	if config.Alpha != 1 {
		r = l.binary(hlo.OpMultiply, r, l.number(t, config.Alpha, shape.Dims...))
	}
	next := a[2:]
	if config.Beta != 0 {
		if len(next) == 0 {
			return nil, unsupportedCall(in, "beta without an operand")
		}
		c := next[0]
		next = next[1:]
		if c.Type != t {
			return nil, unsupportedCall(in, "an added matrix of another type")
		}
		if config.Beta != 1 {
			c = l.binary(hlo.OpMultiply, c, l.number(t, config.Beta, shape.Dims...))
		}
		r = l.binary(hlo.OpAdd, r, c)
	}
	epilogue, relu := config.Epilogue, false
	switch epilogue {
	case "", "DEFAULT", "BIAS":
	case "RELU", "BIAS_RELU":
		relu = true
	default:
		return nil, unsupportedCall(in, "epilogue "+epilogue)
	}
	if strings.HasPrefix(epilogue, "BIAS") {
		if len(next) == 0 || len(next[0].Dims) != 1 || next[0].Type != t || len(shape.Dims) == 0 {
			return nil, unsupportedCall(in, "no bias vector")
		}
		if !descending(shape.Layout) {
			return nil, unsupportedCall(in, "a bias with a result layout other than row-major")
		}
		r = l.binary(hlo.OpAdd, r, l.spread(next[0], shape.Dims, int64(len(shape.Dims)-1)))
		next = next[1:]
	}
	if len(next) > 0 {
		return nil, unsupportedCall(in, "more operands than expected")
	}
	if relu {
		r = l.binary(hlo.OpMaximum, r, l.number(t, 0, shape.Dims...))
	}
	if l.err != nil {
		return nil, l.err
	}
	return withScratch(in, r)
}

// descending says whether a layout is row-major or absent.
func descending(layout *hlo.Layout) bool {
	if layout == nil {
		return true
	}
	for i, d := range layout.MinorToMajor {
		if d != int64(len(layout.MinorToMajor)-1-i) {
			return false
		}
	}
	return true
}

// cublasSolve is a triangular-solve with its TriangularSolveOptions in JSON
// (xla/backends/gpu/transforms/triangular_solve_rewriter.cc).
func (e *Evaluator) cublasSolve(in *hlo.Instruction, args []*Value) (*Value, error) {
	var config struct {
		Left      bool   `json:"left_side"`
		Lower     bool   `json:"lower"`
		Unit      bool   `json:"unit_diagonal"`
		Transpose string `json:"transpose_a"`
	}
	if err := gpuConfig(in, "triangular_solve_options", &config); err != nil {
		return nil, err
	}
	o := solveOptions{left: config.Left, lower: config.Lower, unit: config.Unit}
	switch config.Transpose {
	case "NO_TRANSPOSE":
	case "TRANSPOSE":
		o.transpose = true
	case "ADJOINT":
		o.transpose, o.conjugate = true, true
	default:
		return nil, unsupportedCall(in, "transpose_a "+config.Transpose)
	}
	return e.solveCall(in, args, o)
}

// lapackSolve is BLAS trsm with the letters of its arguments as numbers in
// backend_config, as in {diag = 85 : ui8, side = 76 : ui8, ...}.
func (e *Evaluator) lapackSolve(in *hlo.Instruction, args []*Value) (*Value, error) {
	letters := map[string]byte{}
	for _, f := range strings.FieldsFunc(backendConfig(in), func(r rune) bool { return strings.ContainsRune("{},", r) }) {
		name, value, _ := strings.Cut(f, "=")
		value, _, _ = strings.Cut(value, ":")
		var code byte
		if json.Unmarshal([]byte(strings.TrimSpace(value)), &code) == nil {
			letters[strings.TrimSpace(name)] = code
		}
	}
	o := solveOptions{left: letters["side"] == 'L', lower: letters["uplo"] == 'L', unit: letters["diag"] == 'U'}
	switch letters["trans_x"] {
	case 'N':
	case 'T':
		o.transpose = true
	case 'C':
		o.transpose, o.conjugate = true, true
	default:
		return nil, unsupportedCall(in, "backend_config "+backendConfig(in))
	}
	if !slices.Contains([]byte("LR"), letters["side"]) || !slices.Contains([]byte("LU"), letters["uplo"]) || !slices.Contains([]byte("UN"), letters["diag"]) {
		return nil, unsupportedCall(in, "backend_config "+backendConfig(in))
	}
	return e.solveCall(in, args[:min(len(args), 2)], o)
}

func (e *Evaluator) solveCall(in *hlo.Instruction, args []*Value, o solveOptions) (*Value, error) {
	a, err := operandArrays(in, args, 2)
	if err != nil {
		return nil, err
	}
	n := len(a[1].Dims)
	if n < 2 || len(a[0].Dims) != n || a[0].Type != a[1].Type || !(a[0].Type.IsFloat() || a[0].Type.IsComplex()) {
		return nil, unsupportedCall(in, "want two batches of matrices")
	}
	size := a[1].Dims[n-2]
	if !o.left {
		size = a[1].Dims[n-1]
	}
	if a[0].Dims[n-1] != size || a[0].Dims[n-2] != size || !slices.Equal(a[0].Dims[:n-2], a[1].Dims[:n-2]) {
		return nil, unsupportedCall(in, "the sizes of the matrices do not agree")
	}
	return withScratch(in, e.num.triangularSolve(a[0], a[1], o))
}

// cudnnConvolution is one of cuDNN's convolutions. Window and dimension
// numbers are those of the forward convolution
// (xla/service/gpu/gpu_conv_runner.cc); the backward ones are its adjoints.
func (e *Evaluator) cudnnConvolution(in *hlo.Instruction, args []*Value) (*Value, error) {
	config := struct {
		Scale      float64         `json:"conv_result_scale"`
		SideScale  float64         `json:"side_input_scale"`
		Activation json.RawMessage `json:"activation_mode"`
		Reordered  bool            `json:"reordered_int8_nchw_vect"`
	}{}
	if err := gpuConfig(in, "cudnn_conv_backend_config", &config); err != nil {
		return nil, err
	}
	a, err := operandArrays(in, args, 2)
	if err != nil {
		return nil, err
	}
	shape := in.Shape
	if shape.IsTuple() && len(shape.Elements) > 0 {
		shape = shape.Elements[0]
	}
	if config.Reordered {
		return nil, unsupportedCall(in, "a reordered filter")
	}
	attr, ok := convolutionAttr(in, a, shape)
	if !ok {
		return nil, unsupportedCall(in, "groups or dimension numbers that have no plain convolution")
	}
	l := &lowering{e: e, in: in}
	t := shape.Type
	r := l.array(hlo.OpConvolution, t, shape.Dims, attr, a[0], a[1])
	if config.Scale != 1 {
		r = l.binary(hlo.OpMultiply, r, l.number(t, config.Scale, shape.Dims...))
	}
	if in.Attr.GetCustomCallTarget() == "__cudnn$convBiasActivationForward" {
		if len(a) < 3 || len(a) > 4 || len(a[2].Dims) != 1 || a[2].Type != t || len(a) == 4 && a[3].Type != t {
			return nil, unsupportedCall(in, "a bias or side input of another type")
		}
		if len(a) == 4 {
			side := a[3]
			if config.SideScale != 1 {
				side = l.binary(hlo.OpMultiply, side, l.number(t, config.SideScale, shape.Dims...))
			}
			r = l.binary(hlo.OpAdd, r, side)
		}
		r = l.binary(hlo.OpAdd, r, l.spread(a[2], shape.Dims, in.Attr.GetConvolutionDimensionNumbers().GetOutputFeatureDimension()))
		switch mode := strings.Trim(string(config.Activation), `"`); mode {
		case "", "0", "kNone":
		case "2", "kRelu":
			r = l.binary(hlo.OpMaximum, r, l.number(t, 0, shape.Dims...))
		default:
			return nil, unsupportedCall(in, "activation "+mode)
		}
	} else if len(a) != 2 {
		return nil, unsupportedCall(in, "more operands than expected")
	}
	if l.err != nil {
		return nil, l.err
	}
	return withScratch(in, r)
}

// convolutionAttr are the attributes of the plain convolution of the two
// operands that a cuDNN call stands for.
func convolutionAttr(in *hlo.Instruction, a []*Array, result *hlo.Shape) (*hlopb.HloInstructionProto, bool) {
	d, w := in.Attr.GetConvolutionDimensionNumbers(), in.Attr.GetWindow()
	groups := in.Attr.GetFeatureGroupCount()
	attr := &hlopb.HloInstructionProto{
		FeatureGroupCount: max(groups, 1), BatchGroupCount: max(in.Attr.GetBatchGroupCount(), 1),
		ConvolutionDimensionNumbers: d, Window: w, PrecisionConfig: in.Attr.GetPrecisionConfig(),
	}
	spatial := len(w.GetDimensions())
	if len(d.GetInputSpatialDimensions()) != spatial || len(d.GetKernelSpatialDimensions()) != spatial || len(d.GetOutputSpatialDimensions()) != spatial {
		return nil, false
	}
	target := in.Attr.GetCustomCallTarget()
	if target != "__cudnn$convBackwardInput" && target != "__cudnn$convBackwardFilter" {
		return attr, true
	}
	if attr.FeatureGroupCount != 1 || attr.BatchGroupCount != 1 {
		return nil, false
	}
	size := func(dims []int64, i int64) int64 {
		if i < 0 || i >= int64(len(dims)) {
			return 0
		}
		return dims[i]
	}
	window := &hlopb.Window{}
	for i, f := range w.GetDimensions() {
		if f.GetBaseDilation() > 1 {
			return nil, false
		}
		stride, dilation := max(f.GetStride(), 1), max(f.GetWindowDilation(), 1)
		var g *hlopb.WindowDimension
		if target == "__cudnn$convBackwardInput" {
			x, y := size(result.Dims, d.GetInputSpatialDimensions()[i]), size(a[0].Dims, d.GetOutputSpatialDimensions()[i])
			reach := (f.GetSize() - 1) * dilation
			low := reach - f.GetPaddingLow()
			g = &hlopb.WindowDimension{
				Size: f.GetSize(), Stride: 1, BaseDilation: stride, WindowDilation: dilation,
				PaddingLow: low, PaddingHigh: x - ((y-1)*stride + 1) - low + reach,
				WindowReversal: !f.GetWindowReversal(),
			}
		} else {
			x, y := size(a[0].Dims, d.GetInputSpatialDimensions()[i]), size(a[1].Dims, d.GetOutputSpatialDimensions()[i])
			if f.GetWindowReversal() {
				return nil, false
			}
			g = &hlopb.WindowDimension{
				Size: y, Stride: dilation, BaseDilation: 1, WindowDilation: stride,
				PaddingLow: f.GetPaddingLow(), PaddingHigh: (f.GetSize()-1)*dilation + (y-1)*stride + 1 - x - f.GetPaddingLow(),
			}
		}
		window.Dimensions = append(window.Dimensions, g)
	}
	attr.Window = window
	if target == "__cudnn$convBackwardInput" {
		attr.ConvolutionDimensionNumbers = &hlopb.ConvolutionDimensionNumbers{
			InputBatchDimension: d.GetOutputBatchDimension(), InputFeatureDimension: d.GetOutputFeatureDimension(), InputSpatialDimensions: d.GetOutputSpatialDimensions(),
			KernelInputFeatureDimension: d.GetKernelOutputFeatureDimension(), KernelOutputFeatureDimension: d.GetKernelInputFeatureDimension(), KernelSpatialDimensions: d.GetKernelSpatialDimensions(),
			OutputBatchDimension: d.GetInputBatchDimension(), OutputFeatureDimension: d.GetInputFeatureDimension(), OutputSpatialDimensions: d.GetInputSpatialDimensions(),
		}
	} else {
		attr.ConvolutionDimensionNumbers = &hlopb.ConvolutionDimensionNumbers{
			InputBatchDimension: d.GetInputFeatureDimension(), InputFeatureDimension: d.GetInputBatchDimension(), InputSpatialDimensions: d.GetInputSpatialDimensions(),
			KernelInputFeatureDimension: d.GetOutputBatchDimension(), KernelOutputFeatureDimension: d.GetOutputFeatureDimension(), KernelSpatialDimensions: d.GetOutputSpatialDimensions(),
			OutputBatchDimension: d.GetKernelInputFeatureDimension(), OutputFeatureDimension: d.GetKernelOutputFeatureDimension(), OutputSpatialDimensions: d.GetKernelSpatialDimensions(),
		}
	}
	return attr, true
}
