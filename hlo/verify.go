package hlo

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/passgate/passgate/hlo/hlopb"
)

// Violation is one broken rule of HLO in a module.
type Violation struct {
	Computation, Instruction string // "" when the rule is about more than one
	Rule                     Rule
	Message                  string
}

// Rule names a group of rules that Verify checks.
type Rule string

// The rules, with the part of xla/service/hlo_verifier.cc that they follow.
const (
	RuleStructure     Rule = "structure"      // VerifyHloStructure: nothing nil, nothing from elsewhere, no cycles, a root, an entry
	RuleOrder         Rule = "order"          // HloSchedule::Verify: operands and control predecessors first; callees first
	RuleName          Rule = "name"           // InstructionVerifier::Preprocess: valid, unique names
	RuleParameter     Rule = "parameter"      // parameters numbered 0 to n-1
	RuleShape         Rule = "shape"          // ShapeVerifier: the shape that operands and attributes give
	RulePrecision     Rule = "precision"      // CheckMixedPrecisionOperands
	RuleElementwise   Rule = "elementwise"    // CheckElementwiseInstruction: no implicit broadcast, comparison type
	RuleLiteral       Rule = "literal"        // HandleConstant
	RuleFusion        Rule = "fusion"         // CheckFusionInstruction
	RuleCall          Rule = "call"           // HandleCall, HandleCustomCall: attributes of calls
	RuleThread        Rule = "thread"         // CheckCallableInstructionThreadName, CheckAsyncOpComputationThreadName
	RuleAsync         Rule = "async"          // VerifyAsynchronousInstructionPairs, CheckAsyncOp
	RuleChannel       Rule = "channel"        // VerifyChannels, VerifyLayoutConstrainedAllReduce
	RuleBuffer        Rule = "buffer"         // VerifyBuffers
	RuleSharding      Rule = "sharding"       // HloSharding::Validate, VerifyConsistentSharding
	RuleOriginalValue Rule = "original-value" // VerifyOriginalValue
	RuleEntryLayout   Rule = "entry-layout"   // VerifyEntryComputationLayout
	RuleAlias         Rule = "alias"          // HloInputOutputAliasConfig and HloBufferDonorConfig::Verify, output_operand_aliasing
)

// Error is one line: place, what is wrong, and the rule.
func (v *Violation) Error() string {
	at := ""
	if v.Computation != "" {
		at = clip(v.Computation)
		if v.Instruction != "" {
			at += "/" + clip(v.Instruction)
		}
		at += ": "
	}
	return at + v.Message + " [" + string(v.Rule) + "]"
}

// VerifyOptions chooses variants of Verify.
type VerifyOptions struct {
	// AllowMixedPrecision lets the float types of an instruction's operands
	// and result differ, as they may between bfloat16-propagation and
	// float-normalization.
	AllowMixedPrecision bool
}

// Verify checks the whole module as XLA's HloVerifier does by default:
// layouts are checked for themselves but not against each other, and mixed
// precision is refused. The error joins one *Violation per broken rule and
// place; nil means that the module is well-formed.
//
// It does not look for deadlocks of collectives, and follows asynchronous
// values only inside a computation.
func Verify(m *Module) error { return VerifyOptions{}.Verify(m) }

// Verify is the function Verify with options.
func (o VerifyOptions) Verify(m *Module) error {
	v := &verifier{m: m, opts: o, users: map[*Instruction][]*Instruction{}, callers: map[*Computation][]*Instruction{}}
	v.structure()
	if len(v.found) > 0 { // the rest relies on it
		return errors.Join(v.found...)
	}
	v.names()
	v.fused = m.fusedComputations()
	v.groups = groupSize{m.ReplicaCount, m.NumPartitions}
	for _, c := range m.Computations {
		v.computation(c)
	}
	v.entryLayout()
	v.aliases()
	v.asyncChains()
	v.allReduceLayouts()
	v.hostChannels()
	return errors.Join(v.found...)
}

type verifier struct {
	m       *Module
	opts    VerifyOptions
	found   []error
	users   map[*Instruction][]*Instruction
	callers map[*Computation][]*Instruction
	fused   map[*Computation]bool
	parent  map[*Instruction]*Computation
	groups  groupSize
}

func (v *verifier) report(c *Computation, in *Instruction, rule Rule, format string, args ...any) {
	x := &Violation{Rule: rule, Message: fmt.Sprintf(format, args...)}
	if c != nil {
		x.Computation = c.Name
	}
	if in != nil {
		x.Instruction = in.Name
	}
	v.found = append(v.found, x)
}

// structure checks what all other checks rely on, and fills the maps.
func (v *verifier) structure() {
	m := v.m
	if m.Attr == nil {
		v.report(nil, nil, RuleStructure, "module has no Attr")
	}
	if m.Name == "" {
		v.report(nil, nil, RuleStructure, "module has no name")
	}
	inside := map[*Computation]bool{}
	v.parent = map[*Instruction]*Computation{}
	for _, c := range m.Computations {
		if c == nil || inside[c] {
			v.report(nil, nil, RuleStructure, "a computation is nil or listed twice")
			continue
		}
		inside[c] = true
		if c.Attr == nil {
			v.report(c, nil, RuleStructure, "computation has no Attr")
		}
		for _, in := range c.Instructions {
			if in == nil || v.parent[in] != nil {
				v.report(c, in, RuleStructure, "an instruction is nil or listed twice")
				continue
			}
			v.parent[in] = c
		}
	}
	if m.Entry == nil || !inside[m.Entry] {
		v.report(nil, nil, RuleStructure, "the entry computation is not among the module's")
	}
	for c := range inside {
		if c.Root == nil || v.parent[c.Root] != c {
			v.report(c, nil, RuleStructure, "the root is not among the instructions")
		}
	}
	for in, c := range v.parent {
		v.links(c, in, inside)
	}
	if len(v.found) > 0 {
		slices.SortFunc(v.found, func(a, b error) int { return slices.Compare([]byte(a.Error()), []byte(b.Error())) })
		return
	}
	order, err := m.postOrder()
	if err != nil {
		v.report(nil, nil, RuleStructure, "%v", err)
		return
	}
	if !slices.Equal(order, m.Computations) {
		for i, c := range m.Computations {
			if order[i] != c {
				v.report(c, nil, RuleOrder, "a computation is called before it is listed")
				break
			}
		}
	}
	for _, c := range m.Computations {
		if in := firstOutOfOrder(c.Instructions); in != nil {
			if _, err := c.postOrder(); err != nil {
				v.report(c, nil, RuleStructure, "%v", err)
			} else {
				v.report(c, in, RuleOrder, "instruction comes before what it depends on")
			}
		}
		for _, in := range c.Instructions {
			for _, o := range in.Operands {
				if !slices.Contains(v.users[o], in) {
					v.users[o] = append(v.users[o], in)
				}
			}
			for _, f := range in.Called {
				v.callers[f] = append(v.callers[f], in)
			}
		}
	}
}

// links checks what one instruction points at, its counts and its shape.
func (v *verifier) links(c *Computation, in *Instruction, inside map[*Computation]bool) {
	bad := func(format string, args ...any) { v.report(c, in, RuleStructure, format, args...) }
	if in.Attr == nil {
		bad("instruction has no Attr")
		return
	}
	if in.Op == OpInvalid || int(in.Op) >= len(opcodes) {
		bad("instruction has no opcode")
		return
	}
	for i, o := range in.Operands {
		if o == nil || v.parent[o] != c {
			bad("operand %d is not in the computation", i)
			return
		}
		if o.Shape == nil {
			return // reported with o
		}
	}
	for _, o := range in.ControlPredecessors {
		if o == nil || v.parent[o] != c {
			bad("a control predecessor is not in the computation")
			return
		}
	}
	for i, f := range in.Called {
		if f == nil || !inside[f] {
			bad("called computation %d is not in the module", i)
			return
		}
	}
	if err := in.Shape.Validate(); err != nil {
		bad("%v", err)
		return
	}
	if err := in.checkCounts(); err != nil {
		bad("%v", err)
	}
}

func (v *verifier) names() {
	comps, instrs := map[string]bool{}, map[string]string{}
	for _, c := range v.m.Computations {
		if c.Name == "" || comps[c.Name] || SanitizeName(c.Name) != c.Name {
			v.report(c, nil, RuleName, "the computation's name is empty, invalid or taken")
		}
		comps[c.Name] = true
		for _, in := range c.Instructions {
			if other, taken := instrs[in.Name]; taken {
				v.report(c, in, RuleName, "the name is taken by an instruction of %s", clip(other))
			} else if in.Name == "" || SanitizeName(in.Name) != in.Name {
				v.report(c, in, RuleName, "the instruction's name is empty or invalid")
			}
			instrs[in.Name] = c.Name
		}
	}
}

func (v *verifier) computation(c *Computation) {
	if err := c.checkParams(); err != nil {
		v.report(c, nil, RuleParameter, "%v", err)
		return
	}
	for _, in := range c.Instructions {
		v.instruction(c, in)
	}
	if v.fused[c] {
		v.fusedComputation(c)
	}
	v.buffers(c)
}

func (v *verifier) instruction(c *Computation, in *Instruction) {
	bad := func(rule Rule, format string, args ...any) { v.report(c, in, rule, format, args...) }
	if in.Shape.isUnbounded() {
		bad(RuleShape, "unbounded dimensions are not allowed: %s", in.Shape.text())
	}
	if in.Literal != nil {
		if err := in.Literal.Validate(); err != nil {
			bad(RuleLiteral, "%v", err)
			return
		}
	}
	want, err := in.infer(v.groups)
	switch {
	case err != nil:
		bad(RuleShape, "%v", err)
	case !v.opts.AllowMixedPrecision && in.mixed():
		bad(RulePrecision, "%v of different float types: %s", in.Op, shapeList(in.operandShapes()))
	case !v.same(in, want):
		bad(RuleShape, "%v gives %s, not %s", in.Op, want.text(), in.Shape.text())
	}
	if err == nil {
		v.elementwise(c, in)
	}
	v.calls(c, in)
	v.operandAliases(c, in)
	if s := in.Attr.GetSharding(); s != nil {
		if err := checkSharding(s, in.Shape, v.m.NumPartitions); err != nil {
			bad(RuleSharding, "%v", err)
		}
	}
	if o := in.Attr.GetOriginalValue(); o != nil && !o.GetIsSyntheticCall() && !fitsOriginal(o, in.Shape) {
		bad(RuleOriginalValue, "the original value has other leaves than the shape %s", in.Shape.text())
	}
}

func shapeList(shapes []*Shape) string {
	b := ""
	for i, s := range shapes {
		if i > 0 {
			b += ", "
		}
		b += s.text()
	}
	return b
}

// same compares an instruction's shape with the inferred one. Element types
// may differ in precision only where mixed precision is allowed, and never
// where the operation passes buffers on (ShapeVerifier::CheckShape).
func (v *verifier) same(in *Instruction, want *Shape) bool {
	if v.opts.AllowMixedPrecision && !passesOn(in.Op) {
		return compatibleAnyFloat(in.Shape, want)
	}
	return in.Shape.Compatible(want)
}

func passesOn(op Opcode) bool {
	switch op {
	case OpBitcast, OpCall, OpConditional, OpConstant, OpCopyDone, OpCopyStart, OpCustomCall, OpGetTupleElement,
		OpInfeed, OpOutfeed, OpOptBarrier, OpParameter, OpRecv, OpRecvDone, OpSend, OpSendDone, OpTuple, OpWhile,
		OpDynamicUpdateSlice, OpFusion, OpAsyncStart, OpAsyncUpdate, OpAsyncDone:
		return true
	}
	return false
}

// mixed reports whether operands have different float types where
// CheckMixedPrecisionOperands forbids it, or a reduction or map function has
// other types than its operands (SameElementTypesForOperandsAndToApplyParameters).
func (in *Instruction) mixed() bool {
	switch in.Op {
	case OpReduce, OpReduceWindow, OpMap:
		for i, p := range in.Called[0].Params() {
			if p.Shape.Type != in.operand(i).Type {
				return true
			}
		}
		if in.Op == OpReduceWindow {
			return false
		}
	case OpCall, OpConditional, OpConstant, OpConvolution, OpDot, OpRaggedDot, OpScaledDot, OpAllReduce,
		OpAllReduceStart, OpAllReduceDone, OpAllGather, OpAllGatherStart, OpAllGatherDone, OpAsyncDone, OpAsyncUpdate,
		OpAsyncStart, OpCollectivePermute, OpCollectivePermuteStart, OpCollectivePermuteDone, OpCopyDone, OpCopyStart,
		OpCustomCall, OpDomain, OpFusion, OpGetTupleElement, OpOptBarrier, OpInfeed, OpOutfeed, OpParameter, OpRecv,
		OpRecvDone, OpReducePrecision, OpSend, OpSendDone, OpSort, OpTuple, OpWhile,
		// Not checked because their verifier compares no shapes:
		OpReshape, OpDynamicReshape, OpBroadcast, OpBitcast, OpRng, OpRngBitGenerator, OpRngGetAndUpdateState, OpIota, OpScan:
		return false
	}
	float := InvalidType
	for _, o := range in.Operands {
		for _, s := range o.Shape.Leaves() {
			if !s.Type.IsFloat() {
				continue
			}
			if float != InvalidType && s.Type != float {
				return true
			}
			float = s.Type
		}
	}
	return false
}

// isElementwise are the opcodes that hlo_verifier.cc handles as elementwise
// unary or binary (xla/hlo/ir/dfs_hlo_visitor.h).
func isElementwise(op Opcode) bool {
	switch op {
	case OpConvert, OpCopy, OpReducePrecision, OpStochasticConvert:
		return true
	}
	switch op {
	case OpAbs, OpAcos, OpAcosh, OpAsin, OpAsinh, OpAtanh, OpCbrt, OpCeil, OpCosine, OpCosh, OpCountLeadingZeros, OpErf,
		OpExponential, OpExponentialMinusOne, OpFloor, OpImag, OpIsFinite, OpLog, OpLogPlusOne, OpLogistic, OpNegate,
		OpNot, OpPopcnt, OpReal, OpRoundNearestAFZ, OpRoundNearestEven, OpRsqrt, OpSign, OpSine, OpSinh, OpSqrt, OpTan,
		OpTanh, OpAdd, OpAnd, OpAtan2, OpCompare, OpComplex, OpDivide, OpMaximum, OpMinimum, OpMulhi, OpMultiply, OpOr,
		OpPower, OpRemainder, OpShiftLeft, OpShiftRightArithmetic, OpShiftRightLogical, OpSubtract, OpXor:
		return true
	}
	return false
}

func (v *verifier) elementwise(c *Computation, in *Instruction) {
	if !isElementwise(in.Op) {
		return
	}
	for _, o := range in.Operands {
		if !compatible(o.Shape, in.Shape, anyType) {
			v.report(c, in, RuleElementwise, "%v of %s gives %s: broadcasts must be explicit", in.Op, o.Shape.text(), in.Shape.text())
			return
		}
	}
	if in.Op != OpCompare {
		return
	}
	switch in.Attr.ComparisonDirection {
	case "EQ", "NE", "GE", "GT", "LE", "LT":
	default:
		v.report(c, in, RuleElementwise, "unknown comparison direction %q", clip(in.Attr.ComparisonDirection))
	}
	t := in.operand(1).Type
	full := &Instruction{Op: OpCompare, Operands: in.Operands[1:], Attr: &hlopb.HloInstructionProto{
		ComparisonType: in.Attr.ComparisonType, ComparisonOrder: in.Attr.ComparisonOrder}}
	if err := full.fillComparison(); err != nil {
		v.report(c, in, RuleElementwise, "%v", err)
		return
	}
	ok := false
	switch full.Attr.ComparisonType {
	case "FLOAT":
		ok = t.IsFloat() || t.IsComplex()
	case "TOTALORDER":
		ok = t.IsFloat()
	case "SIGNED":
		ok = t.IsSigned()
	case "UNSIGNED":
		ok = t.IsUnsigned() || t == Pred
	}
	if !ok {
		v.report(c, in, RuleElementwise, "comparison type %s of %v", full.Attr.ComparisonType, t)
	}
}

// thread is the name of an execution thread, "" for the main one.
func thread(name string) string {
	if name == "main" {
		return ""
	}
	return name
}

func (v *verifier) calls(c *Computation, in *Instruction) {
	bad := func(rule Rule, format string, args ...any) { v.report(c, in, rule, format, args...) }
	switch in.Op {
	case OpFusion, OpWhile, OpConditional:
		for _, f := range in.Called {
			if thread(f.ExecutionThread) != thread(c.ExecutionThread) {
				bad(RuleThread, "%v on thread %q calls a computation of thread %q", in.Op, thread(c.ExecutionThread), thread(f.ExecutionThread))
			}
		}
	case OpCall:
		if len(in.Attr.OutputOperandAliasing) > 0 {
			bad(RuleCall, "call has output_to_operand_aliasing")
		}
		v.composite(c, in)
	case OpCustomCall:
		v.customCall(c, in)
	}
	switch in.Op {
	case OpWhile:
		v.sameSharding(c, in, []*Instruction{in, in.Body().Root, in.Body().Params()[0], in.Condition().Params()[0]})
	case OpConditional:
		list := []*Instruction{in}
		for _, f := range in.Called {
			list = append(list, f.Root)
		}
		v.sameSharding(c, in, list)
	}
}

func (v *verifier) composite(c *Computation, in *Instruction) {
	if !in.Attr.IsComposite {
		return
	}
	attrs := in.Attr.GetFrontendAttributes().GetMap()
	if attrs["composite.name"] == "" {
		v.report(c, in, RuleCall, "composite call has no frontend attribute composite.name")
	}
	if a, ok := attrs["composite.attributes"]; ok && a == "" {
		v.report(c, in, RuleCall, "composite call has an empty composite.attributes")
	}
	if n, ok := attrs["composite.version"]; ok {
		if x, err := strconv.ParseInt(n, 10, 64); err != nil || x < 0 {
			v.report(c, in, RuleCall, "composite call has the version %q", clip(n))
		}
	}
}

func (v *verifier) customCall(c *Computation, in *Instruction) {
	switch in.Attr.CustomCallTarget {
	case "GetRngSeed":
		if len(in.Operands) != 0 || !in.Shape.isScalar() || in.Shape.Type != U64 {
			v.report(c, in, RuleCall, "GetRngSeed takes nothing and gives u64[]")
		}
	case "LayoutConstraint", "control_dep":
		return
	}
	if !in.Attr.ConstrainLayout {
		return
	}
	if len(in.OperandLayouts) != len(in.Operands) {
		v.report(c, in, RuleCall, "custom-call has %d operands but %d operand layouts", len(in.Operands), len(in.OperandLayouts))
		return
	}
	for i, s := range in.OperandLayouts {
		if err := s.Validate(); err != nil {
			v.report(c, in, RuleCall, "operand layout %d: %v", i, err)
		} else if !s.Compatible(in.operand(i)) {
			v.report(c, in, RuleCall, "operand layout %d is %s for %s", i, s.text(), in.operand(i).text())
		}
	}
}

// sideEffect are the opcodes that may stay in a fusion without users
// (HloInstruction::HasSideEffectNoRecurse).
func (in *Instruction) sideEffect() bool {
	switch in.Op {
	case OpSend, OpSendDone, OpRecv, OpRecvDone, OpRng, OpRngGetAndUpdateState, OpInfeed, OpOutfeed, OpAllReduceStart,
		OpAllReduceDone, OpAllGatherStart, OpAllGatherDone, OpCollectiveBroadcast, OpCollectivePermuteStart,
		OpCollectivePermuteDone:
		return true
	case OpAllToAll, OpAllGather, OpAllReduce, OpReduceScatter, OpCollectivePermute:
		return in.Attr.ConstrainLayout || in.Attr.ChannelId > 0
	case OpCustomCall:
		return in.Attr.CustomCallHasSideEffect
	}
	return false
}

func (v *verifier) fusedComputation(c *Computation) {
	if c == v.m.Entry {
		v.report(c, nil, RuleFusion, "the entry computation is fused")
	}
	if n := len(v.callers[c]); n != 1 {
		v.report(c, nil, RuleFusion, "the fused computation has %d callers", n)
	}
	if len(v.users[c.Root]) > 0 {
		v.report(c, c.Root, RuleFusion, "the root of a fusion has users")
	}
	for _, in := range c.Instructions {
		if in != c.Root && len(v.users[in]) == 0 && !in.sideEffect() {
			v.report(c, in, RuleFusion, "an instruction inside a fusion has no users")
		}
	}
}

// subshape is the part of a shape at a tuple index, nil if there is none.
func (s *Shape) subshape(index []int64) *Shape {
	for _, i := range index {
		if s == nil || !s.IsTuple() || i < 0 || i >= int64(len(s.Elements)) {
			return nil
		}
		s = s.Elements[i]
	}
	return s
}

// operandAliases checks output_to_operand_aliasing of fusion, custom-call and
// the async operations.
func (v *verifier) operandAliases(c *Computation, in *Instruction) {
	operands, result := in.operandShapes(), in.Shape
	if f := in.asyncComputation(); in.Op == OpAsyncStart && f != nil && result.IsTuple() && len(result.Elements) >= 2 {
		// The aliases are those of the computation, wherever it gets its
		// operands (CheckAsyncStartAliasConfig).
		operands = f.program().Params
		result = &Shape{Type: Tuple, Elements: append([]*Shape{{Type: Tuple, Elements: operands}, f.Root.Shape}, result.Elements[2:]...)}
	}
	for _, a := range in.Attr.OutputOperandAliasing {
		n := a.GetOperandIndex()
		if n < 0 || n >= int64(len(operands)) {
			v.report(c, in, RuleAlias, "output %v aliases operand %d of %d", a.GetOutputShapeIndex(), n, len(operands))
			continue
		}
		out, op := result.subshape(a.GetOutputShapeIndex()), operands[n].subshape(a.GetOperandShapeIndex())
		if out == nil || op == nil {
			v.report(c, in, RuleAlias, "output %v aliases %v of operand %d: no such tuple element", a.GetOutputShapeIndex(), a.GetOperandShapeIndex(), n)
			continue
		}
		if in.Attr.CustomCallTarget == "Pin" || in.Attr.CustomCallTarget == "Unpin" || in.Op == OpAsyncStart || in.Op == OpAsyncUpdate {
			out, op = out.unwrapped(), op.unwrapped() // a value may become a buffer and back
		}
		if !out.Compatible(op) {
			v.report(c, in, RuleAlias, "output %s aliases operand %s", out.text(), op.text())
		}
	}
}

func (s *Shape) unwrapped() *Shape {
	if s.Type == Buffer {
		return s.Elements[0]
	}
	return s
}

func fitsOriginal(o *hlopb.OriginalValueProto, s *Shape) bool {
	want := map[string]bool{}
	var walk func(s *Shape, at string)
	walk = func(s *Shape, at string) {
		if !s.IsTuple() {
			want[at] = true
		}
		for i, e := range s.Elements {
			if s.IsTuple() {
				walk(e, at+","+strconv.Itoa(i))
			}
		}
	}
	walk(s, "")
	have := map[string]bool{}
	for _, e := range o.GetElements() {
		at := ""
		for _, i := range e.GetShapeIndex() {
			at += "," + strconv.FormatInt(i, 10)
		}
		have[at] = true
	}
	return maps.Equal(want, have)
}

func (v *verifier) entryLayout() {
	l, c := v.m.EntryLayout, v.m.Entry
	if l == nil {
		return
	}
	bad := func(format string, args ...any) { v.report(nil, nil, RuleEntryLayout, format, args...) }
	params := c.Params()
	if len(l.Params) != len(params) {
		bad("entry layout has %d parameters, the entry computation %d", len(l.Params), len(params))
		return
	}
	check := func(what string, s *Shape, in *Instruction) {
		if err := s.Validate(); err != nil {
			bad("entry layout, %s: %v", what, err)
		} else if !s.Compatible(in.Shape) {
			bad("entry layout has the %s %s, the entry computation %s", what, s.text(), in.Shape.text())
		}
	}
	check("result", l.Result, c.Root)
	for i, s := range l.Params {
		if params[i] != nil {
			check("parameter "+strconv.Itoa(i), s, params[i])
		}
	}
}

// mustAlias checks that an output that has to share the buffer of a parameter
// has its shape, layout and memory space in the entry layout
// (VerifyEntryComputationLayout of hlo_verifier.cc). Where the module has no
// entry layout, the entry computation's shapes stand for it.
func (v *verifier) mustAlias(e *hlopb.HloInputOutputAliasProto_AliasEntryProto) {
	if e.GetKind() != hlopb.Kind_MUST_ALIAS {
		return
	}
	param, result := v.m.Entry.Params()[e.GetParameterNumber()].Shape, v.m.Entry.Root.Shape
	if l := v.m.EntryLayout; l != nil && len(l.Params) > int(e.GetParameterNumber()) {
		param, result = l.Params[e.GetParameterNumber()], l.Result
	}
	p, r := param.subshape(e.GetParameterShapeIndex()), result.subshape(e.GetOutputShapeIndex())
	if p == nil || r == nil || !p.IsArray() || !r.IsArray() {
		return // reported elsewhere
	}
	space := func(s *Shape) int64 {
		if s.Layout == nil {
			return 0
		}
		return s.Layout.MemorySpace
	}
	if !p.sameArray(r) || space(p) != space(r) {
		v.report(nil, nil, RuleAlias, "output %v, %s, must alias parameter %d %v, %s: want the same shape, layout and memory space",
			e.GetOutputShapeIndex(), r.text(), e.GetParameterNumber(), e.GetParameterShapeIndex(), p.text())
	}
}

func (v *verifier) aliases() {
	bad := func(format string, args ...any) { v.report(nil, nil, RuleAlias, format, args...) }
	params := v.m.Entry.Params()
	param := func(what string, n int64, index []int64) bool {
		if n < 0 || n >= int64(len(params)) || params[n] == nil {
			bad("%s names parameter %d of %d", what, n, len(params))
			return false
		}
		if s := params[n].Shape.subshape(index); s == nil || !s.IsArray() {
			bad("%s names %v of parameter %d, which is no array", what, index, n)
			return false
		}
		return true
	}
	outputs, inputs := map[string]bool{}, map[string]bool{}
	for _, e := range v.m.Attr.GetInputOutputAlias().GetEntries() {
		if !param("input_output_alias", e.GetParameterNumber(), e.GetParameterShapeIndex()) {
			continue
		}
		if s := v.m.Entry.Root.Shape.subshape(e.GetOutputShapeIndex()); s == nil || !s.IsArray() {
			bad("input_output_alias names output %v, which is no array", e.GetOutputShapeIndex())
		}
		v.mustAlias(e)
		out := fmt.Sprint(e.GetOutputShapeIndex())
		if outputs[out] {
			bad("input_output_alias names output %s twice", out)
		}
		outputs[out] = true
		in := fmt.Sprint(e.GetParameterNumber(), e.GetParameterShapeIndex())
		if inputs[in] {
			bad("input_output_alias names parameter %s twice", in)
		}
		inputs[in] = true
	}
	for _, e := range v.m.Attr.GetBufferDonor().GetEntries() {
		if param("buffer_donor", e.GetParameterNumber(), e.GetParameterShapeIndex()) &&
			inputs[fmt.Sprint(e.GetParameterNumber(), e.GetParameterShapeIndex())] {
			bad("buffer_donor names parameter %d %v, which input_output_alias names too", e.GetParameterNumber(), e.GetParameterShapeIndex())
		}
	}
}

// hostChannels checks that host transfers on one channel are the same but
// for their operands.
func (v *verifier) hostChannels() {
	first := map[int64]*Instruction{}
	for _, c := range v.m.Computations {
		for _, in := range c.Instructions {
			if in.Op != OpSend && in.Op != OpRecv || !in.Attr.IsHostTransfer || in.Attr.ChannelId <= 0 {
				continue
			}
			f := first[in.Attr.ChannelId]
			if f == nil {
				first[in.Attr.ChannelId] = in
				continue
			}
			if in.Op != f.Op || !in.Shape.Compatible(f.Shape) || !bytes.Equal(in.Attr.BackendConfig, f.Attr.BackendConfig) ||
				!maps.Equal(in.Attr.GetFrontendAttributes().GetMap(), f.Attr.GetFrontendAttributes().GetMap()) {
				v.report(c, in, RuleChannel, "host transfer on channel %d differs from %s", in.Attr.ChannelId, clip(f.Name))
			}
		}
	}
}

func (v *verifier) allReduceLayouts() {
	var first *Instruction
	for _, c := range v.m.Computations {
		for _, in := range c.Instructions {
			if in.Op != OpAllReduce && in.Op != OpAllReduceStart {
				continue
			}
			if first == nil {
				first = in
			}
			if in.Attr.ConstrainLayout != first.Attr.ConstrainLayout {
				v.report(c, in, RuleChannel, "some all-reduces of the module are layout constrained, some are not")
				return
			}
		}
	}
}
