package hlo

// Opcode is one of the 133 operations of HLO (xla/hlo/ir/hlo_opcode.h).
type Opcode uint8

// The opcodes, in the alphabetical order of their HLO names.
const (
	OpInvalid Opcode = iota
	OpAbs
	OpAcos
	OpAcosh
	OpAdd
	OpAddDependency
	OpAfterAll
	OpAllGather
	OpAllGatherDone
	OpAllGatherStart
	OpAllReduce
	OpAllReduceDone
	OpAllReduceStart
	OpAllToAll
	OpAnd
	OpAsin
	OpAsinh
	OpAsyncDone
	OpAsyncStart
	OpAsyncUpdate
	OpAtan2
	OpAtanh
	OpBatchNormGrad
	OpBatchNormInference
	OpBatchNormTraining
	OpBitcast
	OpBitcastConvert
	OpBroadcast
	OpCall
	OpCbrt
	OpCeil
	OpCholesky
	OpClamp
	OpCollectiveBroadcast
	OpCollectivePermute
	OpCollectivePermuteDone
	OpCollectivePermuteStart
	OpCompare
	OpComplex
	OpConcatenate
	OpConditional
	OpConstant
	OpConvert
	OpConvolution
	OpCopy
	OpCopyDone
	OpCopyStart
	OpCosh
	OpCosine
	OpCountLeadingZeros
	OpCustomCall
	OpDivide
	OpDomain
	OpDot
	OpDynamicReshape
	OpDynamicSlice
	OpDynamicUpdateSlice
	OpErf
	OpExponential
	OpExponentialMinusOne
	OpFft
	OpFloor
	OpFusion
	OpGather
	OpGetDimensionSize
	OpGetTupleElement
	OpImag
	OpInfeed
	OpIota
	OpIsFinite
	OpLog
	OpLogPlusOne
	OpLogistic
	OpMap
	OpMaximum
	OpMinimum
	OpMulhi
	OpMultiply
	OpNegate
	OpNot
	OpOptBarrier
	OpOr
	OpOutfeed
	OpPad
	OpParameter
	OpPartitionId
	OpPopcnt
	OpPower
	OpRaggedAllToAll
	OpRaggedDot
	OpReal
	OpRecv
	OpRecvDone
	OpReduce
	OpReducePrecision
	OpReduceScatter
	OpReduceWindow
	OpRemainder
	OpReplicaId
	OpReshape
	OpReverse
	OpRng
	OpRngBitGenerator
	OpRngGetAndUpdateState
	OpRoundNearestAFZ
	OpRoundNearestEven
	OpRsqrt
	OpScaledDot
	OpScan
	OpScatter
	OpSelect
	OpSelectAndScatter
	OpSend
	OpSendDone
	OpSetDimensionSize
	OpShiftLeft
	OpShiftRightArithmetic
	OpShiftRightLogical
	OpSign
	OpSine
	OpSinh
	OpSlice
	OpSort
	OpSqrt
	OpStochasticConvert
	OpSubtract
	OpTan
	OpTanh
	OpTopk
	OpTranspose
	OpTriangularSolve
	OpTuple
	OpWhile
	OpXor
)

// NumOpcodes is the number of valid opcodes.
const NumOpcodes = 133

// Variadic is the arity of opcodes that take any number of operands.
const Variadic = -1

var opcodes = [...]struct {
	name  string
	arity int
}{
	OpInvalid:                {"invalid", Variadic},
	OpAbs:                    {"abs", 1},
	OpAcos:                   {"acos", 1},
	OpAcosh:                  {"acosh", 1},
	OpAdd:                    {"add", 2},
	OpAddDependency:          {"add-dependency", 2},
	OpAfterAll:               {"after-all", Variadic},
	OpAllGather:              {"all-gather", Variadic},
	OpAllGatherDone:          {"all-gather-done", 1},
	OpAllGatherStart:         {"all-gather-start", Variadic},
	OpAllReduce:              {"all-reduce", Variadic},
	OpAllReduceDone:          {"all-reduce-done", 1},
	OpAllReduceStart:         {"all-reduce-start", Variadic},
	OpAllToAll:               {"all-to-all", Variadic},
	OpAnd:                    {"and", 2},
	OpAsin:                   {"asin", 1},
	OpAsinh:                  {"asinh", 1},
	OpAsyncDone:              {"async-done", 1},
	OpAsyncStart:             {"async-start", Variadic},
	OpAsyncUpdate:            {"async-update", Variadic},
	OpAtan2:                  {"atan2", 2},
	OpAtanh:                  {"atanh", 1},
	OpBatchNormGrad:          {"batch-norm-grad", 5},
	OpBatchNormInference:     {"batch-norm-inference", 5},
	OpBatchNormTraining:      {"batch-norm-training", 3},
	OpBitcast:                {"bitcast", 1},
	OpBitcastConvert:         {"bitcast-convert", 1},
	OpBroadcast:              {"broadcast", 1},
	OpCall:                   {"call", Variadic},
	OpCbrt:                   {"cbrt", 1},
	OpCeil:                   {"ceil", 1},
	OpCholesky:               {"cholesky", 1},
	OpClamp:                  {"clamp", 3},
	OpCollectiveBroadcast:    {"collective-broadcast", Variadic},
	OpCollectivePermute:      {"collective-permute", Variadic},
	OpCollectivePermuteDone:  {"collective-permute-done", 1},
	OpCollectivePermuteStart: {"collective-permute-start", Variadic},
	OpCompare:                {"compare", 2},
	OpComplex:                {"complex", 2},
	OpConcatenate:            {"concatenate", Variadic},
	OpConditional:            {"conditional", Variadic},
	OpConstant:               {"constant", 0},
	OpConvert:                {"convert", 1},
	OpConvolution:            {"convolution", Variadic},
	OpCopy:                   {"copy", 1},
	OpCopyDone:               {"copy-done", 1},
	OpCopyStart:              {"copy-start", 1},
	OpCosh:                   {"cosh", 1},
	OpCosine:                 {"cosine", 1},
	OpCountLeadingZeros:      {"count-leading-zeros", 1},
	OpCustomCall:             {"custom-call", Variadic},
	OpDivide:                 {"divide", 2},
	OpDomain:                 {"domain", 1},
	OpDot:                    {"dot", 2},
	OpDynamicReshape:         {"dynamic-reshape", Variadic},
	OpDynamicSlice:           {"dynamic-slice", Variadic},
	OpDynamicUpdateSlice:     {"dynamic-update-slice", Variadic},
	OpErf:                    {"erf", 1},
	OpExponential:            {"exponential", 1},
	OpExponentialMinusOne:    {"exponential-minus-one", 1},
	OpFft:                    {"fft", 1},
	OpFloor:                  {"floor", 1},
	OpFusion:                 {"fusion", Variadic},
	OpGather:                 {"gather", 2},
	OpGetDimensionSize:       {"get-dimension-size", 1},
	OpGetTupleElement:        {"get-tuple-element", 1},
	OpImag:                   {"imag", 1},
	OpInfeed:                 {"infeed", 1},
	OpIota:                   {"iota", 0},
	OpIsFinite:               {"is-finite", 1},
	OpLog:                    {"log", 1},
	OpLogPlusOne:             {"log-plus-one", 1},
	OpLogistic:               {"logistic", 1},
	OpMap:                    {"map", Variadic},
	OpMaximum:                {"maximum", 2},
	OpMinimum:                {"minimum", 2},
	OpMulhi:                  {"mulhi", 2},
	OpMultiply:               {"multiply", 2},
	OpNegate:                 {"negate", 1},
	OpNot:                    {"not", 1},
	OpOptBarrier:             {"opt-barrier", 1},
	OpOr:                     {"or", 2},
	OpOutfeed:                {"outfeed", 2},
	OpPad:                    {"pad", 2},
	OpParameter:              {"parameter", 0},
	OpPartitionId:            {"partition-id", 0},
	OpPopcnt:                 {"popcnt", 1},
	OpPower:                  {"power", 2},
	OpRaggedAllToAll:         {"ragged-all-to-all", 6},
	OpRaggedDot:              {"ragged-dot", 3},
	OpReal:                   {"real", 1},
	OpRecv:                   {"recv", 1},
	OpRecvDone:               {"recv-done", 1},
	OpReduce:                 {"reduce", Variadic},
	OpReducePrecision:        {"reduce-precision", 1},
	OpReduceScatter:          {"reduce-scatter", Variadic},
	OpReduceWindow:           {"reduce-window", Variadic},
	OpRemainder:              {"remainder", 2},
	OpReplicaId:              {"replica-id", 0},
	OpReshape:                {"reshape", 1},
	OpReverse:                {"reverse", 1},
	OpRng:                    {"rng", Variadic},
	OpRngBitGenerator:        {"rng-bit-generator", 1},
	OpRngGetAndUpdateState:   {"rng-get-and-update-state", 0},
	OpRoundNearestAFZ:        {"round-nearest-afz", 1},
	OpRoundNearestEven:       {"round-nearest-even", 1},
	OpRsqrt:                  {"rsqrt", 1},
	OpScaledDot:              {"scaled-dot", 4},
	OpScan:                   {"scan", Variadic},
	OpScatter:                {"scatter", Variadic},
	OpSelect:                 {"select", 3},
	OpSelectAndScatter:       {"select-and-scatter", 3},
	OpSend:                   {"send", 2},
	OpSendDone:               {"send-done", 1},
	OpSetDimensionSize:       {"set-dimension-size", 2},
	OpShiftLeft:              {"shift-left", 2},
	OpShiftRightArithmetic:   {"shift-right-arithmetic", 2},
	OpShiftRightLogical:      {"shift-right-logical", 2},
	OpSign:                   {"sign", 1},
	OpSine:                   {"sine", 1},
	OpSinh:                   {"sinh", 1},
	OpSlice:                  {"slice", 1},
	OpSort:                   {"sort", Variadic},
	OpSqrt:                   {"sqrt", 1},
	OpStochasticConvert:      {"stochastic-convert", 2},
	OpSubtract:               {"subtract", 2},
	OpTan:                    {"tan", 1},
	OpTanh:                   {"tanh", 1},
	OpTopk:                   {"topk", 1},
	OpTranspose:              {"transpose", 1},
	OpTriangularSolve:        {"triangular-solve", 2},
	OpTuple:                  {"tuple", Variadic},
	OpWhile:                  {"while", 1},
	OpXor:                    {"xor", 2},
}

var opcodeByName = func() map[string]Opcode {
	m := map[string]Opcode{}
	for op := OpInvalid + 1; int(op) < len(opcodes); op++ {
		m[opcodes[op].name] = op
	}
	return m
}()

// OpcodeByName returns the opcode with the given HLO name ("add").
func OpcodeByName(name string) (Opcode, bool) { op, ok := opcodeByName[name]; return op, ok }

// String is the HLO name, "add".
func (op Opcode) String() string {
	if int(op) >= len(opcodes) {
		return "invalid"
	}
	return opcodes[op].name
}

// Arity is the number of operands, or Variadic.
func (op Opcode) Arity() int { return opcodes[op].arity }
